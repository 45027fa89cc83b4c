//! The stores are linearizable for each key, forget only as documented, and refuse parameters that are out of
//! range.

#![allow(clippy::disallowed_types, reason = "proptest's macros name Arc")]

use crate::common::{PATIENCE, alloc, cluster, results, spawn};
use doorbell_systems::Measured;
use doorbell_systems::herd::{Config, Replies, Requests};
use doorbell_systems::kv::{self, Layout, numbered};
use doorbell_systems::{herd_kv, read_kv as read};
use doorbell_systems_suite as suite;
use doorbell_verbs::{Cluster, Mem, Program, Provider, Span, Time};
use proptest::prelude::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::BTreeMap;
use suite::Faults;
use suite::drtm_kv::Drtm;
use suite::herd_kv::Herd;
use suite::kv::{CaseStore, History, KvCase};
use suite::read_kv::Reads;

/// A case, its profile, and how many packets in a million the fabric loses. The seed of the case also seeds
/// the schedule.
#[derive(Clone, Copy, Debug)]
struct Run<S> {
    case: KvCase<S>,
    profile: &'static str,
    loss_ppm: u32,
}

/// Runs on the NIC of this profile. If `loses`, some of them lose messages.
fn runs<S: CaseStore>(store: S, profile: &'static str, loses: bool) -> impl Strategy<Value = Run<S>> {
    let shape = (2..6u32, 1..4u32, 0..3u32, 1..10u32, any::<bool>(), any::<bool>());
    let loss = prop_oneof![Just(0), Just(30_000u32)];
    let hesitation = prop_oneof![3 => Just(None), 1 => (1..30u64).prop_map(|us| Some(Span::from_us(us)))];
    (shape, loss, hesitation, any::<u64>()).prop_map(move |(s, loss_ppm, hesitation, seed)| {
        let case = KvCase {
            store,
            clients: s.0,
            workers: s.1,
            outstanding: 1 << s.2,
            gather: s.3,
            doorbell: s.4,
            prefetch: s.5,
            operations: 60,
            retry: None,
            faults: Faults { hesitation, ..Faults::default() },
            seed,
        };
        // A WRITE in two parts must not lose one part.
        let loss_ppm = if loses && hesitation.is_none() { loss_ppm } else { 0 };
        Run { case, profile, loss_ppm }
    })
}

impl<S: CaseStore> Run<S> {
    fn run(&self) -> Result<Vec<History>, String> {
        let mut cluster = cluster(self.profile, 4, |c| {
            c.seed = self.case.seed;
            c.layers.loss_ppm = self.loss_ppm;
        });
        let retry = (self.loss_ppm > 0).then_some(Span::from_us(50));
        let histories = KvCase { retry, ..self.case }.run(&mut cluster, PATIENCE)?;
        assert_eq!(histories.len(), self.case.clients as usize);
        Ok(histories)
    }
}

fn tested<S: CaseStore>(run: Run<S>) -> Result<(), TestCaseError> {
    run.run().map(drop).map_err(TestCaseError::fail)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn herd_is_linearizable(run in runs(Herd, "cib", true)) {
        tested(run)?;
    }

    #[test]
    fn reads_are_linearizable(run in runs(Reads, "cib", true)) {
        tested(run)?;
    }

    /// Without losses, because RC itself sends lost packets again.
    #[test]
    fn drtm_is_linearizable(run in runs(Drtm, "cx3", false)) {
        tested(run)?;
    }

    #[test]
    fn reads_forget_as_the_server_does(seed: u64) {
        suite::read_kv::forgets(&mut cluster("cib", 4, |_| {}), 600, seed, PATIENCE).map_err(TestCaseError::fail)?;
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

fn run<S: CaseStore>(store: S, profile: &'static str) -> Run<S> {
    let case = KvCase {
        store,
        clients: 5,
        workers: 2,
        outstanding: 4,
        gather: 8,
        doorbell: true,
        prefetch: true,
        operations: 60,
        retry: None,
        faults: Faults::default(),
        seed: 5,
    };
    Run { case, profile, loss_ppm: 0 }
}

#[test]
fn torn_and_stale_reads_happen() {
    let of = |seed| {
        let run = run(Reads, "cib");
        Run { case: KvCase { seed, ..run.case }, ..run }.run().unwrap()
    };
    let again: u64 = (0..5).flat_map(of).map(|history| history.again).sum();
    assert!(again > 0, "no READ was torn or stale");
}

#[test]
fn locks_are_contended() {
    let again: u64 = run(Drtm, "cx3").run().unwrap().iter().map(|history| history.again).sum();
    assert!(again > 0, "no lock was another's");
}

#[test]
fn versions_are_found_unchanged() {
    let of = |seed| {
        let run = run(Herd, "cib");
        Run { case: KvCase { seed, ..run.case }, ..run }.run().unwrap()
    };
    // Only a few of these clients ask for a pair again before another client has changed it.
    let unchanged: u64 = (0..8).flat_map(of).map(|history| history.unchanged).sum();
    assert!(unchanged > 0, "speculation never paid");
}

#[test]
fn loss_is_noticed() {
    let run = Run { loss_ppm: 30_000, ..run(Herd, "cib") };
    let repeated: u64 = run.run().unwrap().iter().map(|history| history.repeated).sum();
    assert!(repeated > 0, "nothing was sent again");
}

#[test]
fn what_is_out_of_range_is_refused() {
    suite::herd_kv::refuses(&mut cluster("cib", 4, |_| {}), PATIENCE).unwrap();
    suite::drtm_kv::refuses(&mut cluster("cx3", 4, |_| {}), PATIENCE).unwrap();
}

/// A value that repeats its number in every word, and in its last bytes.
fn value(number: u64, len: usize) -> Vec<u8> {
    number.to_le_bytes().into_iter().cycle().take(len).collect()
}

/// The number of a value. Panics if the value is torn.
fn number(value: &[u8]) -> u64 {
    let number = u64::from_le_bytes(*value.first_chunk().expect("values have 8 bytes or more"));
    assert_eq!(value, self::value(number, value.len()), "a torn value");
    number
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
        let mut store = kv::PartitionStore::new(self.mem, self.layout).map_err(|e| e.to_string())?;
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

/// The clients of the systems report the run in [`Measured`].
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
        requests: Requests::WriteUc,
        replies: Replies::SendUd,
        workers: 2,
        clients: 5,
        window: 4,
        max_request: herd_kv::max_request(32),
        max_reply: herd_kv::max_reply(32),
        gather: 8,
        doorbell: true,
        queues: 2,
        retry: None,
    };
    for (speculate, reads) in [(false, false), (true, false), (false, true)] {
        let mut cluster = cluster("cib", 4, |_| {});
        let region = alloc(&mut cluster, 0, config.region_bytes());
        let tables = alloc(&mut cluster, 0, layout.bytes() * 2);
        let interval = doorbell_systems::Interval::new(Time::from_ps(1_000_000_000), Span::from_us(100));
        let readers = if reads { config.clients } else { 0 };
        for number in 0..2 {
            let config = config.clone();
            let server = herd_kv::HerdKvServer {
                config,
                number,
                region,
                tables,
                layout,
                pairs: load.pairs,
                value: 32,
                filled: None,
                prefetch: true,
                readers,
                interval: interval.clone(),
            };
            cluster.spawn(0, number, server);
        }
        let tasks: Vec<Measured> = if reads {
            let tasks = spawn(&mut cluster, config.clients, |number| read::ReadKvClient {
                config: config.clone(),
                layout,
                number,
                load,
                interval: interval.clone(),
            });
            cluster.run().expect("the run ends");
            results(tasks)
        } else {
            let tasks = spawn(&mut cluster, config.clients, |number| herd_kv::HerdKvClient {
                config: config.clone(),
                number,
                load,
                speculate,
                interval: interval.clone(),
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
