//! The stores are linearizable for each key, forget only as they say, and refuse what is out of range.

use crate::faults::Faults;
use crate::history::{Event, Op, unexplained};
use crate::stage::{self, Stage, place, text};
use doorbell_systems::Record;
use doorbell_systems::SystemError;
use doorbell_systems::herd::{self, Config, Outcome};
use doorbell_systems::kv::{Key, Layout, Reply, Request, numbered, owner};
use doorbell_systems::{drtm_kv as drtm, herd_kv, read_kv as read};
use doorbell_verbs::{Cluster, Program, Provider, Span, Time};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::HashMap;

/// Which store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// All over HERD's RPCs.
    Herd,
    /// GETs by READ, all else over HERD's RPCs.
    Reads,
    /// DrTM-KV: GET and PUT only.
    Drtm,
}

/// Clients that do all kinds of operations on few keys.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// On what.
    pub store: Store,
    /// Clients.
    pub clients: u32,
    /// The server's threads.
    pub workers: u32,
    /// Operations that a client has outstanding; a power of two.
    pub outstanding: u32,
    /// Requests that a worker takes in a pass.
    pub gather: u32,
    /// One doorbell for the replies of a pass.
    pub doorbell: bool,
    /// Prefetch over a pass.
    pub prefetch: bool,
    /// Operations of each client.
    pub operations: u64,
    /// After how long it sends a request again.
    pub retry: Option<Span>,
    /// What goes wrong.
    pub faults: Faults,
    /// For the draws of operations.
    pub seed: u64,
}

pub(crate) const KEYS: u64 = 4;
/// Bytes of values: in one line of the log, and in several.
const LENGTHS: [usize; 2] = [32, 300];
pub(crate) const MAX_VALUE: u32 = 320;
/// Longer than values may be, so that the store has to refuse them.
pub(crate) const MAX_REQUEST_VALUE: u32 = 400;

/// A value that says its number in every word, and in what is left over.
pub(crate) fn value(number: u64, len: usize) -> Vec<u8> {
    number.to_le_bytes().into_iter().cycle().take(len).collect()
}

/// The number of a value.
///
/// # Errors
/// If it is torn.
pub(crate) fn number(value: &[u8]) -> Result<u64, SystemError> {
    let number = value.first_chunk().map(|word| u64::from_le_bytes(*word));
    match number {
        Some(number) if value == self::value(number, value.len()) => Ok(number),
        _ => Err(SystemError::Protocol(format!("a torn value: {value:x?}"))),
    }
}

/// Draws operations on few keys.
struct Script {
    random: Xoshiro256PlusPlus,
    client: u64,
    written: u64,
    only_put_and_get: bool,
    lengths: [usize; 2],
}

impl Script {
    fn new(case: &Case, client: u32) -> Script {
        let drtm = case.store == Store::Drtm;
        Script {
            random: Xoshiro256PlusPlus::seed_from_u64(case.seed ^ u64::from(client) << 40),
            client: client.into(),
            written: 0,
            // Where nothing is deleted, nobody may miss a key once it was there.
            only_put_and_get: drtm || case.faults.hesitation.is_some(),
            lengths: if drtm { [drtm::VALUE as usize; 2] } else { LENGTHS },
        }
    }

    fn below(&mut self, n: u64) -> u64 {
        self.random.next_u64() % n
    }

    fn draw(&mut self) -> (u64, Op) {
        self.written += 1;
        let fresh = (self.client + 1) << 32 | self.written;
        let key = self.below(KEYS);
        let op = match self.below(if self.only_put_and_get { 8 } else { 12 }) {
            0..5 => Op::Get(None),
            5..8 => Op::Put(fresh),
            8 => Op::Insert(fresh, false),
            9 => Op::Update(fresh, false),
            _ => Op::Delete(false),
        };
        (key, op)
    }

    fn value(&mut self, number: u64) -> Vec<u8> {
        let length = self.lengths[self.below(2) as usize];
        value(number, length)
    }

    /// A GET asks only for a change, mostly, where a version is known.
    fn request(&mut self, key: Key, op: Op, versions: &HashMap<Key, (u32, u64)>) -> Request {
        match op {
            Op::Get(_) => match versions.get(&key) {
                Some((version, _)) if self.below(4) > 0 => Request::GetIfNot(key, *version),
                _ => Request::Get(key),
            },
            Op::Put(n) => Request::Put(key, self.value(n)),
            Op::Insert(n, _) => Request::Insert(key, self.value(n)),
            Op::Update(n, _) => Request::Update(key, self.value(n)),
            Op::Delete(_) => Request::Delete(key),
        }
    }
}

/// The operation with its outcome; `unchanged` is the value of the version that was asked with.
fn outcome(op: Op, outcome: &Outcome<Reply>, unchanged: Option<u64>) -> Result<Op, SystemError> {
    let Outcome::Reply(reply) = outcome else {
        return Err(SystemError::Protocol(format!("malformed: {op:?}")));
    };
    let done = *reply == Reply::Ok;
    Ok(match (op, reply) {
        (Op::Get(_), Reply::Value(_, value)) => Op::Get(Some(number(value)?)),
        (Op::Get(_), Reply::NotFound) => Op::Get(None),
        (Op::Get(_), Reply::Ok) if unchanged.is_some() => Op::Get(unchanged),
        (Op::Put(n), Reply::Ok) => Op::Put(n),
        (Op::Insert(n, _), Reply::Ok | Reply::Exists) => Op::Insert(n, done),
        (Op::Update(n, _), Reply::Ok | Reply::NotFound) => Op::Update(n, done),
        (Op::Delete(_), Reply::Ok | Reply::NotFound) => Op::Delete(done),
        _ => return Err(SystemError::Protocol(format!("{reply:?} to {op:?}"))),
    })
}

/// What a client did and saw.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub(crate) events: Vec<Event>,
    /// Torn or stale READs, and locks that others had.
    pub again: u64,
    /// Requests that were sent again.
    pub repeated: u64,
    /// GETs that were told that their version was still the one.
    pub unchanged: u64,
}

impl Record for History {
    fn to_words(&self) -> Vec<u64> {
        let counts = [self.again, self.repeated, self.unchanged];
        counts.into_iter().chain(self.events.iter().flat_map(|event| event.to_words())).collect()
    }

    fn from_words(words: &[u64]) -> Option<History> {
        let (&[again, repeated, unchanged], rest) = words.split_first_chunk()?;
        let (events, []) = rest.as_chunks() else { return None };
        let events = events.iter().map(Event::from_words).collect::<Option<_>>()?;
        Some(History { events, again, repeated, unchanged })
    }
}

/// Something that has begun: key, operation, and the value of the version that it asked with.
type Asked = HashMap<u64, (u64, Op, Option<u64>)>;

/// A client of the store over HERD, which may GET by READ.
struct Client {
    case: Case,
    number: u32,
    end: Time,
}

/// Gives up where it has waited for too long.
fn wait<P: Provider>(p: &P, end: Time, due: Time, ended: u64) -> Result<(), SystemError> {
    if p.now() >= end {
        return Err(SystemError::Timeout(format!("{ended} operations ended")));
    }
    p.pause(end.min(due));
    Ok(())
}

impl Program for Client {
    type Output = Result<History, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let (config, outstanding) = (self.case.config(), self.case.outstanding);
        let mut client = herd::Client::start(&p, &config, self.number, outstanding)?;
        let mut reader = match self.case.store {
            Store::Reads => {
                Some(read::Reader::start(&p, layout(), config.workers, self.number, outstanding)?)
            }
            _ => None,
        };
        let mut script = Script::new(&self.case, self.number);
        let mut versions: HashMap<Key, (u32, u64)> = HashMap::new();
        let mut asked = Asked::new();
        let mut history = History::default();
        let (mut done, mut gotten, mut sent) = (Vec::new(), Vec::new(), 0);
        while (history.events.len() as u64) < self.case.operations {
            let mut busy = false;
            while sent - (history.events.len() as u64) < outstanding.into() && sent < self.case.operations {
                let (k, op) = script.draw();
                let key = numbered(k);
                let worker = owner(&key, config.workers);
                let mut cached = None;
                match (&mut reader, op) {
                    (Some(reader), Op::Get(_)) => reader.begin(key, sent)?,
                    _ if !client.has_room(worker) => break,
                    _ => {
                        let request = script.request(key, op, &versions);
                        if let Request::GetIfNot(key, _) = &request {
                            cached = versions.get(key).map(|(_, value)| *value);
                        }
                        client.send(worker, &request, sent)?;
                    }
                }
                asked.insert(sent, (k, op, cached));
                sent += 1;
                busy = true;
            }
            busy |= client.poll(&mut done)?;
            for d in done.drain(..) {
                let (key, op, cached) = asked[&d.tag];
                if let Outcome::Reply(Reply::Value(version, value)) = &d.outcome {
                    versions.insert(numbered(key), (*version, number(value)?));
                }
                let ok = d.outcome == Outcome::Reply(Reply::Ok);
                history.unchanged += u64::from(ok && matches!(op, Op::Get(_)));
                let op = outcome(op, &d.outcome, cached)?;
                history.events.push(Event { key, op, began: d.sent, ended: p.now() });
            }
            if let Some(reader) = &mut reader {
                busy |= reader.poll(&mut gotten)?;
            }
            for g in gotten.drain(..) {
                let op = Op::Get(g.found.map(|(_, v)| number(&v)).transpose()?);
                history.events.push(Event { key: asked[&g.tag].0, op, began: g.began, ended: p.now() });
                history.again += g.again;
            }
            let repeated = client.repeat()?;
            history.repeated += repeated;
            if !busy && repeated == 0 {
                wait(&p, self.end, client.due(), history.events.len() as u64)?;
            }
        }
        Ok(history)
    }
}

/// A client of DrTM-KV.
struct ItemClient {
    case: Case,
    number: u32,
    end: Time,
}

impl Program for ItemClient {
    type Output = Result<History, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let outstanding = self.case.outstanding;
        let mut items = drtm::Items::start(&p, self.number, outstanding, true)?;
        let mut script = Script::new(&self.case, self.number);
        let mut asked: HashMap<u64, (u64, Op)> = HashMap::new();
        let (mut history, mut done, mut sent) = (History::default(), Vec::new(), 0);
        while (history.events.len() as u64) < self.case.operations {
            let mut busy = false;
            while items.outstanding() < outstanding && sent < self.case.operations {
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
                    Some((found, ..)) if found != numbered(key) => {
                        return Err(SystemError::Protocol(format!("item {key} has another key")));
                    }
                    Some((.., value)) => Op::Get(Some(number(&value)?)),
                };
                history.events.push(Event { key, op, began: d.began, ended: p.now() });
                history.again += d.again;
            }
            if !busy {
                wait(&p, self.end, Time::NEVER, history.events.len() as u64)?;
            }
        }
        Ok(history)
    }
}

/// A log that takes all that is ever appended, so that nothing is evicted.
pub(crate) fn layout() -> Layout {
    Layout { buckets: 4, log: 64 * 65_536, max_value: MAX_VALUE }
}

impl Case {
    /// One client that does nothing by itself, without faults.
    pub(crate) fn idle(store: Store, workers: u32) -> Case {
        Case {
            store,
            clients: 1,
            workers,
            outstanding: 1,
            gather: 4,
            doorbell: true,
            prefetch: true,
            operations: 0,
            retry: None,
            faults: Faults::default(),
            seed: 0,
        }
    }

    pub(crate) fn config(&self) -> Config {
        Config {
            requests: herd::Requests::Write,
            workers: self.workers,
            clients: self.clients,
            window: self.outstanding,
            max_request: herd_kv::max_request(MAX_REQUEST_VALUE),
            max_reply: herd_kv::max_reply(MAX_VALUE),
            gather: self.gather,
            doorbell: self.doorbell,
            queues: 2,
            retry: self.retry,
        }
    }

    /// The server of this case.
    pub(crate) fn serve<C: Cluster, R: Record>(
        &self,
        stage: &mut Stage<'_, C, R>,
        layout: Layout,
    ) -> Result<(), String> {
        let interval = stage.server_interval();
        if self.store == Store::Drtm {
            let items = stage.alloc(KEYS * drtm::ITEM).map_err(text)?;
            stage.serve(drtm::Server { clients: self.clients, items, fill: true, interval });
            return Ok(());
        }
        let config = self.config();
        let region = stage.alloc(config.region_bytes()).map_err(text)?;
        let tables = stage.alloc(layout.bytes() * u64::from(self.workers)).map_err(text)?;
        for number in 0..self.workers {
            stage.serve(herd_kv::Server {
                config: config.clone(),
                number,
                region,
                tables,
                layout,
                pairs: 0,
                value: 0,
                filled: None,
                prefetch: self.prefetch,
                readers: if self.store == Store::Reads { self.clients } else { 0 },
                interval,
            });
        }
        Ok(())
    }

    /// Runs it and searches an order that explains what clients saw. Returns that; nothing where
    /// machine 0 is in another process.
    ///
    /// # Errors
    /// What is wrong.
    pub fn run<C: Cluster>(&self, cluster: &mut C, patience: Span) -> Result<Vec<History>, String> {
        let machines = cluster.machines();
        let mut stage = stage::stage(cluster, self.faults, patience)?;
        self.serve(&mut stage, layout())?;
        let end = stage.client_interval().end;
        for number in 0..self.clients {
            if self.store == Store::Drtm {
                stage.ask(place(machines, number), ItemClient { case: *self, number, end });
            } else {
                stage.ask(place(machines, number), Client { case: *self, number, end });
            }
        }
        let histories: Vec<History> = stage::run(stage)?;
        let events: Vec<Event> = histories.iter().flat_map(|h| h.events.clone()).collect();
        let first = (self.store == Store::Drtm).then_some(0);
        match unexplained(&events, |_| first) {
            None => Ok(histories),
            Some(events) => {
                let lines: Vec<String> = events.iter().map(|event| format!("\n  {event}")).collect();
                Err(format!("no order explains these operations:{}", lines.concat()))
            }
        }
    }
}
