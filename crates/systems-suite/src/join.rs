//! A join: as many pairs, with the same checksum, as comparing all keys gives, whatever the relations are.

use crate::check::{Check, Scale, Trouble};
use crate::deployed;
use crate::faults::Faults;
use crate::shuffle::small;
use crate::stage::{self, Stage, text};
use doorbell_systems::config::Seats;
use doorbell_systems::join::{Join, Joined, Joining, Map, Memories, TUPLE, Tuple};
use doorbell_systems::random::Random;
use doorbell_systems::shuffle::{Executor, Inboxes, Placement, Plan, put_up_inboxes};
use doorbell_systems::{Interval, Record, SystemError};
use doorbell_verbs::{Cluster, Mem, Program, Provider, Span};
use std::collections::HashMap;

/// What is published is below this.
const SERVICE: &str = "join";

/// Relations that are joined.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// By whom.
    pub plan: Plan,
    /// Where they are.
    pub seats: Seats,
    /// How often.
    pub joins: u64,
    /// Tuples of each relation that an executor has at most; it may have none.
    pub tuples: (u64, u64),
    /// Different keys.
    pub keys: u64,
    /// Of ten tuples, so many have the same key.
    pub skew: u64,
    /// For so many tuples there is memory at first.
    pub room: u64,
    /// Seed of what is drawn.
    pub seed: u64,
}

/// What an executor had of each join.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Had(Vec<Joined>);

impl Record for Had {
    fn to_words(&self) -> Vec<u64> {
        self.0.iter().flat_map(|joined| [joined.pairs, joined.checksum]).collect()
    }

    fn from_words(words: &[u64]) -> Option<Had> {
        let (pairs, []) = words.as_chunks() else { return None };
        Some(Had(pairs.iter().map(|&[pairs, checksum]| Joined { pairs, checksum }).collect()))
    }
}

impl Case {
    /// A relation of an executor: 0 for its inner one.
    fn relation(&self, executor: u32, relation: u64) -> Vec<Tuple> {
        let Case { tuples, keys, skew, seed, .. } = *self;
        let mut random = Random::new(seed ^ relation << 40, executor.into());
        let most = if relation == 0 { tuples.0 } else { tuples.1 };
        let count = random.below(most + 1);
        let tuple = |_| {
            let key = if random.below(10) < skew { 0 } else { random.below(keys) };
            Tuple { key, payload: random.below(u64::MAX) }
        };
        (0..count).map(tuple).collect()
    }

    /// The join, by comparing all keys.
    fn expected(&self) -> Joined {
        let all = |relation| (0..self.plan.executors).flat_map(move |e| self.relation(e, relation));
        let mut inner: HashMap<u64, Vec<u64>> = HashMap::new();
        all(0).for_each(|tuple| inner.entry(tuple.key).or_default().push(tuple.payload));
        let mut joined = Joined::default();
        for outer in all(1) {
            for payload in inner.get(&outer.key).into_iter().flatten() {
                joined.add(outer.key, *payload, outer.payload);
            }
        }
        joined
    }

    /// Runs it.
    ///
    /// # Errors
    /// What is wrong.
    pub fn run<C: Cluster>(&self, cluster: &mut C, faults: Faults, patience: Span) -> Result<(), String> {
        let mut stage = stage::stage::<C, Had>(cluster, faults, patience)?;
        self.put_up(&mut stage)?;
        let had = stage::run(stage)?;
        if had.is_empty() {
            return Ok(());
        }
        let expected = self.expected();
        for join in 0..self.joins as usize {
            let of = had.iter().filter_map(|had| had.0.get(join));
            let found = of.fold(Joined::default(), |all, one| Joined {
                pairs: all.pairs + one.pairs,
                checksum: all.checksum.wrapping_add(one.checksum),
            });
            if found != expected {
                return Err(format!("join {join} gave {found:?}, not {expected:?}"));
            }
        }
        Ok(())
    }

    fn put_up<C: Cluster>(&self, stage: &mut Stage<'_, C, Had>) -> Result<(), String> {
        let at = Inboxes { seats: self.seats, placement: Placement::Own };
        let inboxes = put_up_inboxes(stage, &self.plan, at).map_err(text)?;
        let size = u64::from(self.plan.entry);
        for number in 0..self.plan.executors {
            let mut alloc = |bytes| at.alloc(stage, number, bytes).map_err(text);
            let relations = alloc((self.tuples.0 + self.tuples.1) * size)?;
            let partitions = [alloc(self.room * size)?, alloc(self.room * size)?];
            let map = (alloc(Map::bytes(self.room))?, self.room);
            let memories = Memories { relations, partitions, map };
            let (inboxes, interval) = (inboxes.clone(), stage.client_interval());
            let checker = Checker { case: *self, number, inboxes, memories, interval };
            stage.add_client(self.seats.place(number), checker);
        }
        Ok(())
    }
}

/// An executor.
struct Checker {
    case: Case,
    number: u32,
    inboxes: Vec<Mem>,
    memories: Memories,
    interval: Interval,
}

impl Program for Checker {
    type Output = Result<Had, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let Checker { case, number, inboxes, memories, interval } = self;
        let executor = Executor::open(&p, &case.plan, &case.seats, number, &inboxes, SERVICE)?;
        let (inner, outer) = (case.relation(number, 0), case.relation(number, 1));
        let size = u64::from(case.plan.entry);
        for (n, tuple) in (0..).zip(inner.iter().chain(&outer)) {
            p.write(memories.relations, n * size, &tuple.to_bytes());
        }
        let (first, all) = (inner.len() as u64, (inner.len() + outer.len()) as u64);
        let mut joining = Joining::new(&p, executor, &case.plan, &memories)?;
        let mut had = Had::default();
        for _ in 0..case.joins {
            let own = (0..first, first..all);
            had.0.push(joining.join(own, case.plan.receivers, || false, &interval)?);
            if p.now() >= interval.end() {
                return Err(SystemError::Timeout("has not joined in time".into()));
            }
        }
        joining.leave();
        Ok(had)
    }
}

/// A join of the lists.
fn case(scale: &Scale, trouble: Trouble) -> Case {
    let shuffle = small(scale.clients, scale);
    let tuples = scale.operations / u64::from(trouble.part());
    Case {
        plan: Plan { entry: TUPLE as u32, ..shuffle.plan },
        seats: shuffle.seats,
        joins: 2,
        tuples: (tuples, tuples),
        keys: tuples,
        skew: 1,
        room: tuples / 2,
        seed: 1,
    }
}

/// Its checks.
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    let check = |name: &str, trouble: Trouble| {
        Check::new(format!("systems/join/{name}"), move |cluster: &mut C, scale: &Scale| {
            case(scale, trouble).run(cluster, trouble.faults(scale), scale.patience)
        })
    };
    vec![check("joins", Trouble::None), check("stops", Trouble::Stops), deployed::check::<Join, C>()]
}
