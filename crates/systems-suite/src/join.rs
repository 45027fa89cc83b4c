//! A join finds as many pairs as a comparison of all keys, with an equal checksum, for any relations.
//!
//! Parts of the join were broken on purpose. The table shows which tests of `systems/tests/systems` and which
//! checks below then failed. For the shuffle see [`crate::shuffle`].
//!
//! | broken part | failed test |
//! |---|---|
//! | a probe skips duplicates, or compares no keys | `joins` |
//! | a tuple counts twice or is probed twice; a relation's first is left out | `joins`; `a_join_is_what_comparing_all_keys_gives` |
//! | a bucket is overwritten, or a node is not chained; a map does not grow | `joins` |
//! | nodes of the previous map are taken for new ones | `joins`, without an end |
//! | a partition is not cleared; a chunk is used twice, or its last tuple is lost | `joins`; `a_join_is_what_comparing_all_keys_gives` |
//! | relations are swapped | `joins` |
//! | arrivals are dropped while an executor asks whether all is over | `what_comes_before_an_executor_begins_is_part_of_its_join` |
//! | an executor that is alone leaves a tuple out | `a_join_is_what_comparing_all_keys_gives` |
//! | an executor that has joined leaves without its farewell | `what_is_lost_is_sent_again_...` |

use crate::check::{Check, Scale, Trouble};
use crate::deployed;
use crate::faults::Faults;
use crate::shuffle::{self, Had};
use crate::stage::{self, Stage, text};
use doorbell_systems::config::Seats;
use doorbell_systems::join::{Join, Joined, Joining, Map, Memories, TUPLE, Tuple};
use doorbell_systems::random::Random;
use doorbell_systems::shuffle::{Executor, Inboxes, Placement, Plan, put_up_inboxes, receiver};
use doorbell_systems::{Interval, SystemError};
use doorbell_verbs::{Cluster, Mem, Program, Provider, Span};
use std::collections::HashMap;

/// Prefix of the names that executors publish.
const SERVICE: &str = "join";

/// Relations to join, and the executors that join them.
#[derive(Clone, Copy, Debug)]
pub struct JoinCase {
    /// The executors and how they transfer tuples.
    pub plan: Plan,
    /// The executors' places.
    pub seats: Seats,
    /// Number of joins.
    pub joins: u64,
    /// Largest number of tuples in an executor's inner and outer relation. A relation may be empty.
    pub tuples: (u64, u64),
    /// Number of different keys.
    pub keys: u64,
    /// Tuples in ten that have key 0.
    pub skew: u64,
    /// Tuples for which there is memory at first.
    pub room: u64,
    /// Whether all executors know the number of joins. Otherwise executor 0 announces the last join, unless
    /// it is alone.
    pub known: bool,
    /// Seed of the random draws.
    pub seed: u64,
}

impl JoinCase {
    /// A relation of an executor: 0 is its inner relation.
    fn relation(&self, executor: u32, relation: u64) -> Vec<Tuple> {
        let JoinCase { tuples, keys, skew, seed, .. } = *self;
        let mut random = Random::new(seed ^ relation << 40, executor.into());
        let most = if relation == 0 { tuples.0 } else { tuples.1 };
        let count = random.below(most + 1);
        let tuple = |_| {
            let key = if random.below(10) < skew { 0 } else { random.below(keys) };
            Tuple { key, payload: random.below(u64::MAX) }
        };
        (0..count).map(tuple).collect()
    }

    /// The result that an executor must have: by comparing all keys, the pairs whose key belongs to the
    /// executor.
    fn expected(&self, executor: u32) -> Joined {
        let receivers = self.plan.receivers;
        let is_its = move |tuple: &Tuple| receiver(tuple.key, receivers) == executor;
        let all = |relation| {
            (0..self.plan.executors).flat_map(move |from| self.relation(from, relation)).filter(is_its)
        };
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

    /// Runs the case.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn run<C: Cluster>(&self, cluster: &mut C, faults: Faults, patience: Span) -> Result<(), String> {
        let mut stage = stage::stage::<C, Had>(cluster, faults, patience)?;
        self.put_up(&mut stage, false)?;
        let had = stage::run(stage)?;
        match had.iter().all(|had| had.rounds == self.joins) {
            true => Ok(()),
            false => Err(format!("not all executors completed {} joins: {had:?}", self.joins)),
        }
    }

    /// Adds the executors. If `may_fail`, an executor that ends with an error of the job records that, and
    /// the run goes on.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn put_up<C: Cluster>(&self, stage: &mut Stage<'_, C, Had>, may_fail: bool) -> Result<(), String> {
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
            let checker = JoinChecker { case: *self, number, inboxes, memories, interval, may_fail };
            stage.add_client(self.seats.place(number), checker);
        }
        Ok(())
    }
}

/// An executor that compares its result with the expected one.
struct JoinChecker {
    case: JoinCase,
    number: u32,
    inboxes: Vec<Mem>,
    memories: Memories,
    interval: Interval,
    may_fail: bool,
}

impl Program for JoinChecker {
    type Output = Result<Had, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let mut had = Had::default();
        let ended = self.join(&p, &mut had);
        had.ended = p.now().as_ns();
        shuffle::told_apart(ended, had, self.may_fail)
    }
}

impl JoinChecker {
    fn join<P: Provider>(&self, p: &P, had: &mut Had) -> Result<(), SystemError> {
        let JoinChecker { case, number, ref inboxes, memories, .. } = *self;
        let executor = Executor::open(p, &case.plan, &case.seats, number, inboxes, SERVICE)?;
        let (inner, outer) = (case.relation(number, 0), case.relation(number, 1));
        let size = u64::from(case.plan.entry);
        for (n, tuple) in (0..).zip(inner.iter().chain(&outer)) {
            p.write(memories.relations, n * size, &tuple.to_bytes());
        }
        let (first, all) = (inner.len() as u64, (inner.len() + outer.len()) as u64);
        let mut joining = Joining::new(p, executor, &case.plan, &memories)?;
        let expected = case.expected(number);
        let says_so = !case.known && case.plan.executors > 1;
        for join in 0.. {
            let is_all = join == case.joins;
            if says_so && joining.is_over()? != is_all {
                return shuffle::wrong(format!("executor {number} received a wrong end before join {join}"));
            }
            if is_all {
                break;
            }
            let own = (0..first, first..all);
            let ends = || says_so && number == 0 && join + 1 == case.joins;
            let found = joining.join(own, case.plan.receivers, ends, &self.interval)?;
            if found != expected {
                return shuffle::wrong(format!(
                    "executor {number} has {found:?} of join {join}, not {expected:?}"
                ));
            }
            had.rounds += 1;
            had.entries += found.pairs;
            if p.now() >= self.interval.end() {
                return Err(SystemError::Timeout("the joins did not end in time".into()));
            }
        }
        joining.leave();
        Ok(())
    }
}

/// A join for the fixed list of checks.
pub fn small(executors: u32, scale: &Scale) -> JoinCase {
    let shuffle = shuffle::small(executors, scale);
    let tuples = scale.operations;
    JoinCase {
        plan: Plan { entry: TUPLE as u32, ..shuffle.plan },
        seats: shuffle.seats,
        joins: 2,
        tuples: (tuples, tuples),
        keys: tuples,
        skew: 1,
        room: tuples / 2,
        known: false,
        seed: 1,
    }
}

/// The checks of the join.
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    let check = |name: &str, trouble: Trouble| {
        Check::new(format!("systems/join/{name}"), move |cluster: &mut C, scale: &Scale| {
            let mut case = small(scale.clients, scale);
            case.tuples.0 /= u64::from(trouble.part());
            case.run(cluster, trouble.faults(scale), scale.patience)
        })
    };
    vec![check("joins", Trouble::None), check("stops", Trouble::Stops), deployed::check_for::<Join, C>(5)]
}
