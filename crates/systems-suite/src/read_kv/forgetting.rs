//! A store with too little room forgets keys. It then has no value for a key, and never an old one.

use super::store::Reads;
use crate::faults::Faults;
use crate::herd_kv;
use crate::kv::{KvCase, MAX_VALUE, number, value};
use crate::stage::{self, place};
use doorbell_systems::SystemError;
use doorbell_systems::herd::{HerdClient, RpcOutcome};
use doorbell_systems::kv::{Layout, Reply, Request, numbered};
use doorbell_systems::read_kv as read;
use doorbell_verbs::{Cluster, Program, Provider, Span, Time};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::HashMap;

const KEYS: u64 = 40;

fn layout() -> Layout {
    Layout { buckets: 4, log: 64 * 45, max_value: MAX_VALUE }
}

fn case() -> KvCase<Reads> {
    KvCase::idle(Reads, 1)
}

/// Compares the store with a map, one operation at a time.
struct Comparer {
    steps: u64,
    seed: u64,
    end: Time,
}

struct Ends<P: Provider> {
    p: P,
    client: HerdClient<P>,
    reader: read::KvReader<P>,
    end: Time,
}

impl<P: Provider> Ends<P> {
    fn wait(&self) -> Result<(), SystemError> {
        if self.p.now() >= self.end {
            return Err(SystemError::Timeout("an operation did not end".into()));
        }
        self.p.pause(self.end);
        Ok(())
    }

    fn ask(&mut self, request: &Request) -> Result<Reply, SystemError> {
        let mut done = Vec::new();
        self.client.send(0, request, 0)?;
        while !self.client.poll(&mut done)? {
            self.wait()?;
        }
        match done.remove(0).outcome {
            RpcOutcome::Reply(reply) => Ok(reply),
            RpcOutcome::Malformed => Err(SystemError::Protocol(format!("malformed: {request:?}"))),
        }
    }

    /// The number in a key's value, from the server's reply and from a READ of the tables.
    fn get(&mut self, key: u64) -> Result<[Option<u64>; 2], SystemError> {
        let told = match self.ask(&Request::Get(numbered(key)))? {
            Reply::Value(_, value) => Some(number(&value)?),
            _ => None,
        };
        self.reader.begin(numbered(key), 0)?;
        let mut gotten = Vec::new();
        while gotten.is_empty() {
            if !self.reader.poll(&mut gotten)? {
                self.wait()?;
            }
        }
        let read = gotten.remove(0).found.map(|(_, value)| number(&value)).transpose()?;
        Ok([told, read])
    }
}

impl Program for Comparer {
    type Output = Result<u64, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let client = HerdClient::start(&p, &herd_kv::config(&case()), 0, 1)?;
        let reader = read::KvReader::start(&p, layout(), 1, 0, 1)?;
        let mut ends = Ends { p, client, reader, end: self.end };
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let mut below = |n: u64| random.next_u64() % n;
        let mut model: HashMap<u64, u64> = HashMap::new();
        let mut forgotten = 0;
        for fresh in 1..=self.steps {
            let (key, length) = (below(KEYS), 8 + below(u64::from(MAX_VALUE) - 7) as usize);
            if below(8) == 0 {
                ends.ask(&Request::Delete(numbered(key)))?;
                model.remove(&key);
            } else {
                ends.ask(&Request::Put(numbered(key), value(fresh, length)))?;
                model.insert(key, fresh);
            }
            let key = below(KEYS);
            let [told, read] = ends.get(key)?;
            let known = model.get(&key).copied();
            if told != read || told.is_some() && told != known {
                return Err(SystemError::Protocol(format!(
                    "step {fresh}: for key {key} the server returns {told:?} and its tables {read:?}, but \
                     the value was {known:?}"
                )));
            }
            if told.is_none() && model.remove(&key).is_some() {
                forgotten += 1;
            }
        }
        Ok(forgotten)
    }
}

/// Returns how often a key was forgotten. `None` if machine 0 is in another process.
///
/// # Errors
/// A description of the failure.
pub fn forgets<C: Cluster>(
    cluster: &mut C,
    steps: u64,
    seed: u64,
    patience: Span,
) -> Result<Option<u64>, String> {
    let machines = cluster.machines();
    let mut stage = stage::stage(cluster, Faults::default(), patience)?;
    herd_kv::serve(&case(), layout(), case().clients, &mut stage)?;
    let end = stage.client_interval().end();
    stage.add_client(place(machines, 0), Comparer { steps, seed, end });
    let forgotten = stage::run::<C, u64>(stage)?.first().copied();
    if forgotten == Some(0) { Err("the store evicted no key".into()) } else { Ok(forgotten) }
}
