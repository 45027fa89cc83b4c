//! The stores are linearizable for each key, forget only as they say, and refuse what is out of range.

#![allow(clippy::disallowed_types, reason = "proptest's macros name Arc")]

mod common;
#[path = "common/history.rs"]
mod history;

use common::{alloc, cluster, interval, results, spawn};
use doorbell_systems::herd::{self, Config, Message, Outcome};
use doorbell_systems::kv::{self, Key, Layout, Refusal, Reply, Request, Store, drtm, numbered, owner, read};
use doorbell_systems::{Measured, SystemError};
use doorbell_verbs::{Cluster, Mem, Program, Provider, Span, Time};
use history::{Event, Op, unexplained};
use proptest::prelude::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::{BTreeMap, HashMap};

/// A value that says its number in every word, and in what is left over.
fn value(number: u64, len: usize) -> Vec<u8> {
    number.to_le_bytes().into_iter().cycle().take(len).collect()
}

/// The number of a value; none of a torn one.
fn number(value: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&value[..8]);
    let number = u64::from_le_bytes(word);
    assert_eq!(value, self::value(number, value.len()), "a torn value");
    number
}

/// Draws operations on few keys.
struct Script {
    random: Xoshiro256PlusPlus,
    client: u64,
    written: u64,
    keys: u64,
    only_put_and_get: bool,
    lengths: [usize; 2],
}

impl Script {
    fn below(&mut self, n: u64) -> u64 {
        self.random.next_u64() % n
    }

    fn draw(&mut self) -> (u64, Op) {
        self.written += 1;
        let fresh = (self.client + 1) << 32 | self.written;
        let key = self.below(self.keys);
        let op = match self.below(if self.only_put_and_get { 6 } else { 10 }) {
            0..3 => Op::Get(None),
            3..6 => Op::Put(fresh),
            6 => Op::Insert(fresh, false),
            7 => Op::Update(fresh, false),
            _ => Op::Delete(false),
        };
        (key, op)
    }

    fn value(&mut self, number: u64) -> Vec<u8> {
        let length = self.lengths[self.below(2) as usize];
        value(number, length)
    }
}

#[derive(Clone, Copy, Debug)]
struct Case {
    clients: u32,
    workers: u32,
    outstanding: u32,
    gather: u32,
    doorbell: bool,
    prefetch: bool,
    loss: u32,
    seed: u64,
}

fn cases() -> impl Strategy<Value = Case> {
    let shape = (2..6u32, 1..4u32, 0..3u32, 1..10u32, any::<bool>(), any::<bool>());
    (shape, prop_oneof![Just(0), Just(30_000u32)], any::<u64>()).prop_map(|(s, loss, seed)| Case {
        clients: s.0,
        workers: s.1,
        outstanding: 1 << s.2,
        gather: s.3,
        doorbell: s.4,
        prefetch: s.5,
        loss,
        seed,
    })
}

const OPERATIONS: u64 = 60;
const KEYS: u64 = 4;
/// In one line, and in several.
const LENGTHS: [usize; 2] = [32, 300];

impl Case {
    fn script(&self, client: u32) -> Script {
        Script {
            random: Xoshiro256PlusPlus::seed_from_u64(self.seed ^ u64::from(client) << 40),
            client: client.into(),
            written: 0,
            keys: KEYS,
            only_put_and_get: false,
            lengths: LENGTHS,
        }
    }

    /// A log that takes all that is ever appended, so that nothing is evicted.
    fn layout(&self) -> Layout {
        Layout { buckets: 4, log: 64 * 8192, max_value: 320 }
    }

    fn config(&self) -> Config {
        Config {
            requests: herd::Requests::Write,
            workers: self.workers,
            clients: self.clients,
            window: self.outstanding,
            max_request: kv::herd::max_request(400),
            max_reply: kv::herd::max_reply(320),
            gather: self.gather,
            doorbell: self.doorbell,
            queues: 2,
            retry: (self.loss > 0).then_some(Span::from_us(50)),
        }
    }

    /// Runs clients against a server with this store.
    fn run<T, R>(&self, readers: bool, client: impl Fn(Case, u32) -> T) -> Vec<R>
    where
        T: Program<Output = Result<R, SystemError>>,
        R: Send + 'static,
    {
        let mut cluster = cluster("cib", 4, |c| {
            c.seed = self.seed;
            c.loss_ppm = self.loss;
        });
        let (config, layout) = (self.config(), self.layout());
        let region = alloc(&mut cluster, 0, config.region_bytes());
        let tables = alloc(&mut cluster, 0, layout.bytes() * u64::from(self.workers));
        for number in 0..self.workers {
            let server = kv::herd::Server {
                config: config.clone(),
                number,
                region,
                tables,
                layout,
                pairs: 0,
                value: 0,
                prefetch: self.prefetch,
                readers: if readers { self.clients } else { 0 },
                interval: interval(),
            };
            cluster.spawn(0, number, server);
        }
        let tasks = spawn(&mut cluster, self.clients, |c| client(*self, c));
        cluster.run().expect("the run ends");
        results(tasks)
    }
}

/// A client of the store over HERD.
struct Client {
    case: Case,
    number: u32,
}

fn request(key: Key, op: Op, script: &mut Script, versions: &HashMap<Key, (u32, u64)>) -> Request {
    match op {
        Op::Get(_) => match versions.get(&key) {
            Some((version, _)) if script.below(2) == 0 => Request::GetIfNot(key, *version),
            _ => Request::Get(key),
        },
        Op::Put(n) => Request::Put(key, script.value(n)),
        Op::Insert(n, _) => Request::Insert(key, script.value(n)),
        Op::Update(n, _) => Request::Update(key, script.value(n)),
        Op::Delete(_) => Request::Delete(key),
    }
}

/// The operation with its outcome.
fn outcome(op: Op, reply: &Reply, unchanged: Option<u64>) -> Op {
    let done = *reply == Reply::Ok;
    match (op, reply) {
        (Op::Get(_), Reply::Value(_, value)) => Op::Get(Some(number(value))),
        (Op::Get(_), Reply::NotFound) => Op::Get(None),
        (Op::Get(_), Reply::Ok) => Op::Get(Some(unchanged.expect("asked with a version"))),
        (Op::Put(n), Reply::Ok) => Op::Put(n),
        (Op::Insert(n, _), Reply::Ok | Reply::Exists) => Op::Insert(n, done),
        (Op::Update(n, _), Reply::Ok | Reply::NotFound) => Op::Update(n, done),
        (Op::Delete(_), Reply::Ok | Reply::NotFound) => Op::Delete(done),
        _ => panic!("{reply:?} to {op:?}"),
    }
}

impl Program for Client {
    type Output = Result<Vec<Event>, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let config = self.case.config();
        let mut client = herd::Client::start(&p, &config, self.number, self.case.outstanding)?;
        let mut script = self.case.script(self.number);
        let mut versions: HashMap<Key, (u32, u64)> = HashMap::new();
        let mut asked: HashMap<u64, (u64, Op, Option<u64>)> = HashMap::new();
        let (mut events, mut done, mut sent) = (Vec::new(), Vec::new(), 0);
        while (events.len() as u64) < OPERATIONS {
            let mut busy = false;
            while client.outstanding() < self.case.outstanding && sent < OPERATIONS {
                let (k, op) = script.draw();
                let key = numbered(k);
                let worker = owner(&key, config.workers);
                if !client.has_room(worker) {
                    break;
                }
                let request = request(key, op, &mut script, &versions);
                let cached = matches!(request, Request::GetIfNot(..)).then(|| versions[&key].1);
                client.send(worker, &request, sent)?;
                asked.insert(sent, (k, op, cached));
                sent += 1;
                busy = true;
            }
            busy |= client.poll(&mut done)?;
            for d in done.drain(..) {
                let (key, op, cached) = asked[&d.tag];
                let Outcome::Reply(reply) = d.outcome else { panic!("malformed: {op:?}") };
                if let Reply::Value(version, value) = &reply {
                    versions.insert(numbered(key), (*version, number(value)));
                }
                events.push(Event { key, op: outcome(op, &reply, cached), began: d.sent, ended: p.now() });
            }
            busy |= client.repeat()? > 0;
            if !busy {
                p.pause(client.due());
            }
        }
        Ok(events)
    }
}

/// A client that GETs by READ, and does all else over HERD.
struct ReadClient {
    case: Case,
    number: u32,
}

impl Program for ReadClient {
    type Output = Result<(Vec<Event>, u64), SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let (config, outstanding) = (self.case.config(), self.case.outstanding);
        let mut client = herd::Client::start(&p, &config, self.number, outstanding)?;
        let mut reader =
            read::Reader::start(&p, self.case.layout(), config.workers, self.number, outstanding)?;
        let mut script = self.case.script(self.number);
        let mut asked: HashMap<u64, (u64, Op)> = HashMap::new();
        let (mut events, mut done, mut gotten, mut sent, mut again) =
            (Vec::new(), Vec::new(), Vec::new(), 0, 0);
        while (events.len() as u64) < OPERATIONS {
            let mut busy = false;
            while client.outstanding() + reader.outstanding() < outstanding && sent < OPERATIONS {
                let (k, op) = script.draw();
                let key = numbered(k);
                let worker = owner(&key, config.workers);
                if !client.has_room(worker) {
                    break;
                }
                match op {
                    Op::Get(_) => reader.begin(key, sent)?,
                    _ => client.send(worker, &request(key, op, &mut script, &HashMap::new()), sent)?,
                }
                asked.insert(sent, (k, op));
                sent += 1;
                busy = true;
            }
            busy |= client.poll(&mut done)?;
            for d in done.drain(..) {
                let (key, op) = asked[&d.tag];
                let Outcome::Reply(reply) = d.outcome else { panic!("malformed: {op:?}") };
                events.push(Event { key, op: outcome(op, &reply, None), began: d.sent, ended: p.now() });
            }
            busy |= reader.poll(&mut gotten)?;
            for g in gotten.drain(..) {
                let op = Op::Get(g.found.map(|(_, v)| number(&v)));
                events.push(Event { key: asked[&g.tag].0, op, began: g.began, ended: p.now() });
                again += g.again;
            }
            busy |= client.repeat()? > 0;
            if !busy {
                p.pause(client.due());
            }
        }
        Ok((events, again))
    }
}

/// A client of DrTM-KV.
struct ItemClient {
    case: Case,
    number: u32,
}

impl Program for ItemClient {
    type Output = Result<(Vec<Event>, u64), SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let outstanding = self.case.outstanding;
        let mut items = drtm::Items::start(&p, self.number, outstanding, true)?;
        let mut script = Script { only_put_and_get: true, lengths: [32; 2], ..self.case.script(self.number) };
        let mut asked: HashMap<u64, (u64, Op)> = HashMap::new();
        let (mut events, mut done, mut sent, mut again) = (Vec::new(), Vec::new(), 0, 0);
        while (events.len() as u64) < OPERATIONS {
            let mut busy = false;
            while items.outstanding() < outstanding && sent < OPERATIONS {
                let (key, op) = script.draw();
                match op {
                    Op::Put(n) => items.put(key, script.value(n), sent)?,
                    _ => items.get(key, sent)?,
                }
                asked.insert(sent, (key, op));
                sent += 1;
                busy = true;
            }
            busy |= items.poll(&mut done)?;
            for d in done.drain(..) {
                let (key, op) = asked[&d.tag];
                let op = match d.item {
                    None => op,
                    Some((found, _, value)) => {
                        assert_eq!(found, numbered(key));
                        Op::Get(Some(number(&value)))
                    }
                };
                events.push(Event { key, op, began: d.began, ended: p.now() });
                again += d.again;
            }
            if !busy {
                p.pause(Time::NEVER);
            }
        }
        Ok((events, again))
    }
}

fn drtm_run(case: &Case) -> Vec<(Vec<Event>, u64)> {
    let mut cluster = cluster("cx3", 4, |c| c.seed = case.seed);
    let items = alloc(&mut cluster, 0, KEYS * drtm::ITEM);
    cluster.spawn(0, 0, drtm::Server { clients: case.clients, items, fill: true, interval: interval() });
    let tasks = spawn(&mut cluster, case.clients, |number| ItemClient { case: *case, number });
    cluster.run().expect("the run ends");
    results(tasks)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn herd_is_linearizable(case in cases()) {
        let events: Vec<Event> =
            case.run(false, |case, number| Client { case, number }).into_iter().flatten().collect();
        prop_assert!(unexplained(&events, |_| None).is_none(), "{:#?}", unexplained(&events, |_| None));
    }

    #[test]
    fn reads_are_linearizable(case in cases()) {
        let all = case.run(true, |case, number| ReadClient { case, number });
        let events: Vec<Event> = all.into_iter().flat_map(|(e, _)| e).collect();
        prop_assert!(unexplained(&events, |_| None).is_none(), "{:#?}", unexplained(&events, |_| None));
    }

    #[test]
    fn drtm_is_linearizable(case in cases()) {
        let events: Vec<Event> = drtm_run(&case).into_iter().flat_map(|(e, _)| e).collect();
        let first = |_| Some(0);
        prop_assert!(unexplained(&events, first).is_none(), "{:#?}", unexplained(&events, first));
    }

    #[test]
    fn a_partition_is_a_map_that_may_forget(seed: u64, small: bool) {
        let layout = if small {
            Layout { buckets: 2, log: 64 * 20, max_value: 200 }
        } else {
            Layout { buckets: 64, log: 64 * 8192, max_value: 200 }
        };
        let mut cluster = cluster("cib", 1, |_| {});
        let mem = alloc(&mut cluster, 0, layout.bytes());
        let task = cluster.spawn(0, 0, Model { mem, layout, seed, forgets: small });
        cluster.run().expect("the run ends");
        prop_assert_eq!(task.take(), Some(Ok(())));
    }
}

fn case() -> Case {
    Case {
        clients: 5,
        workers: 2,
        outstanding: 4,
        gather: 8,
        doorbell: true,
        prefetch: true,
        loss: 0,
        seed: 5,
    }
}

#[test]
fn torn_and_stale_reads_happen() {
    let again: u64 = (0..5)
        .flat_map(|seed| Case { seed, ..case() }.run(true, |case, number| ReadClient { case, number }))
        .map(|(_, again)| again)
        .sum();
    assert!(again > 0, "no READ was torn or stale");
}

#[test]
fn locks_are_contended() {
    let again: u64 = drtm_run(&case()).into_iter().map(|(_, again)| again).sum();
    assert!(again > 0, "no lock was another's");
}

/// Compares a partition with a map.
struct Model {
    mem: Mem,
    layout: Layout,
    seed: u64,
    forgets: bool,
}

impl Program for Model {
    type Output = Result<(), String>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let mut store = Store::new(self.mem, self.layout).map_err(|e| e.to_string())?;
        let mut model: BTreeMap<u64, (u32, u64)> = BTreeMap::new();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let mut below = |n: u64| random.next_u64() % n;
        let mut forgotten = 0;
        for fresh in 1..3000 {
            let (k, kind, length) = (below(100), below(5), 8 + below(193) as usize);
            let key = numbered(k);
            let bytes = value(fresh, length);
            let got = store.get(&p, &key).map(|(version, v)| (version, number(&v)));
            if got != model.get(&k).copied() {
                if got.is_some() || !self.forgets {
                    return Err(format!("key {k} is {got:?}, not {:?}", model.get(&k)));
                }
                forgotten += 1;
                model.remove(&k);
            }
            let there = model.contains_key(&k);
            let version = match kind {
                0 => Some(store.put(&p, &key, &bytes)),
                1 => store.insert(&p, &key, &bytes),
                2 => store.update(&p, &key, &bytes),
                3 => {
                    if store.delete(&p, &key) != there {
                        return Err(format!("delete of key {k}, there: {there}"));
                    }
                    model.remove(&k);
                    continue;
                }
                _ => continue,
            };
            let expected = [true, !there, there][kind as usize];
            if version.is_some() != expected {
                return Err(format!("operation {kind} on key {k}, there: {there}: {version:?}"));
            }
            if let Some(version) = version {
                model.insert(k, (version, fresh));
            }
        }
        match self.forgets == (forgotten > 0) {
            true => Ok(()),
            false => Err(format!("forgot {forgotten}")),
        }
    }
}

/// Bytes as a request.
struct Junk(Vec<u8>);

impl Message for Junk {
    fn encode(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.0);
    }

    fn decode(_: &[u8]) -> Option<Junk> {
        None
    }
}

/// Sends what must be refused.
struct Misuse {
    case: Case,
}

impl Program for Misuse {
    type Output = Result<Vec<Outcome<Reply>>, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let config = self.case.config();
        let mut client = herd::Client::start(&p, &config, 0, 1)?;
        let key = numbered(0);
        let own = owner(&key, config.workers);
        let long = Request::Put(key, vec![0; 321]);
        assert!(client.send(own, &Junk(vec![1; 1000]), 0).is_err(), "longer than a slot");
        let mut outcomes = Vec::new();
        let mut done = Vec::new();
        for step in 0..6 {
            match step {
                0 => client.send(own, &Junk(Vec::new()), 0)?,
                1 => client.send(own, &Junk(vec![9; 30]), 0)?,
                2 => client.send(own, &Junk(vec![1; 10]), 0)?,
                3 => client.send(own, &long, 0)?,
                4 => client.send(1 - own, &Request::Get(key), 0)?,
                _ => client.send(own, &Request::Get(key), 0)?,
            }
            while !client.poll(&mut done)? {
                p.pause(Time::NEVER);
            }
            outcomes.extend(done.drain(..).map(|d| d.outcome));
        }
        Ok(outcomes)
    }
}

#[test]
fn what_is_out_of_range_is_refused() {
    let case = Case { clients: 1, outstanding: 1, ..case() };
    let outcomes = case.run(false, |case, _| Misuse { case }).remove(0);
    let refused = |refusal| Outcome::Reply(Reply::Refused(refusal));
    assert_eq!(
        outcomes,
        [
            Outcome::Malformed,
            Outcome::Malformed,
            Outcome::Malformed,
            refused(Refusal::TooLong),
            refused(Refusal::OtherPartition),
            Outcome::Reply(Reply::NotFound),
        ]
    );
}

/// `Measured` of a run of the ready-made clients says what they did.
#[test]
fn loads_are_served() {
    let load = kv::Load {
        pairs: 200,
        distribution: kv::Distribution::Zipf,
        put_permille: 100,
        value: 32,
        outstanding: 4,
        windows: false,
        seed: 1,
    };
    let layout = Layout::for_pairs(400, 32);
    let config = Config {
        max_request: kv::herd::max_request(32),
        max_reply: kv::herd::max_reply(32),
        ..case().config()
    };
    for (speculate, reads) in [(false, false), (true, false), (false, true)] {
        let mut cluster = cluster("cib", 4, |_| {});
        let region = alloc(&mut cluster, 0, config.region_bytes());
        let tables = alloc(&mut cluster, 0, layout.bytes() * 2);
        let interval = doorbell_systems::Interval::new(Time::from_ps(1_000_000_000), Span::from_us(100));
        let readers = if reads { config.clients } else { 0 };
        for number in 0..2 {
            let config = config.clone();
            let server = kv::herd::Server {
                config,
                number,
                region,
                tables,
                layout,
                pairs: load.pairs,
                value: 32,
                prefetch: true,
                readers,
                interval,
            };
            cluster.spawn(0, number, server);
        }
        let tasks: Vec<Measured> = if reads {
            let tasks = spawn(&mut cluster, config.clients, |number| read::Client {
                config: config.clone(),
                layout,
                number,
                load,
                interval,
            });
            cluster.run().expect("the run ends");
            results(tasks)
        } else {
            let tasks = spawn(&mut cluster, config.clients, |number| kv::herd::Client {
                config: config.clone(),
                number,
                load,
                speculate,
                interval,
            });
            cluster.run().expect("the run ends");
            results(tasks)
        };
        let done: u64 = tasks.iter().map(|m| m.done).sum();
        let header_only: u64 = tasks.iter().map(|m| m.header_only).sum();
        assert!(done > 100, "{done}");
        assert!(!speculate || header_only > done / 4, "{header_only} of {done}");
    }
}
