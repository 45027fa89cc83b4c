//! A shuffle. In each round, a receiver gets exactly the entries that the rule gives it, from each sender in
//! order, with whole bytes. This holds even if an executor is slow, stops, or sends more than there is room
//! for.
//!
//! Each part of the protocol was broken on purpose. The table shows which tests of `systems/tests/systems`
//! and which checks below then failed.
//!
//! | broken part | failed test |
//! |---|---|
//! | credit before the entries were taken | `each_receiver_has_what_the_rule_gives_it`, `credit_is_right_...` |
//! | credit for entries that are asked for, or before their READ completes | `what_is_lost_is_sent_again_...`, `pulled` |
//! | no credit within a round, or at its end | `credit_is_right_...`, `all_to_one` |
//! | a credit word at the place of atomics' answers, or not inline | `credit_is_right_...`, `what_is_lost_is_sent_again_...` |
//! | told before the entries are written, to any machine | `gathered`, `few_to_others`, `stops` |
//! | an entry told twice; a told word not read as an addition | all |
//! | one told word for even and odd rounds | `what_is_lost_is_sent_again_...` |
//! | room for one entry more; no wrap at a segment's end | `what_is_lost_is_sent_again_...`, `gathered` |
//! | a spilled entry dropped or sent twice, or left over at the end | `each_receiver_has_what_the_rule_gives_it` |
//! | entries of a sender in another order; one not taken | `gathered` |
//! | copies of all posts in one place | `copied_spills` |
//! | a round begun, or reported as finished, one too early | `what_is_lost_is_sent_again_...` |
//! | a round that ends without a sender, or before all was taken | `gathered`, `pulled` |
//! | a round that ends before its entries have arrived | `few_to_others`; with lost packets `what_is_lost_is_sent_again_...` |
//! | the last round told, or taken to be over, one too early | `all_to_one`, `few_to_others`; `what_is_lost_is_sent_again_...` |
//! | an executor leaves without waiting | `what_is_lost_is_sent_again_...` |
//! | an executor gives up without telling, or without waiting; none looks | `who_gives_up_tells_the_others` |
//! | an outbox forgets a failure | `a_call_that_failed_is_told_of_for_ever` |

use crate::check::{Check, Scale, Trouble};
use crate::deployed;
use crate::faults::Faults;
use crate::stage::{self, Stage, text};
use doorbell_systems::config::Seats;
use doorbell_systems::random::Random;
use doorbell_systems::shuffle::{
    Executor, Full, Inboxes, Placement, Plan, SERVICE, Shuffle, TakenEntries, Transfer, put_up_inboxes,
    receiver,
};
use doorbell_systems::vector_io::Strategy;
use doorbell_systems::{Interval, Record, SystemError};
use doorbell_verbs::{AccessFlags, Cluster, Mem, Program, Provider, Span};

/// Entries to shuffle, and the executors that shuffle them.
#[derive(Clone, Copy, Debug)]
pub struct ShuffleCase {
    /// The executors and how they transfer entries.
    pub plan: Plan,
    /// The executors' places.
    pub seats: Seats,
    /// Number of rounds. `u64::MAX` for no end.
    pub rounds: u64,
    /// Largest number of entries that a sender has in a round. It may have none.
    pub entries: u64,
    /// Number of different keys. With one key, all entries go to one receiver.
    pub keys: u64,
    /// Whether all executors know the number of rounds. Otherwise executor 0 announces the last round.
    pub known: bool,
    /// An executor that takes its time for each entry that it receives, and how long.
    pub slow: Option<(u32, Span)>,
    /// Seed of the random draws.
    pub seed: u64,
}

/// The result of an executor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Had {
    /// Rounds that the executor had whole.
    pub rounds: u64,
    /// Entries that the executor took in these rounds.
    pub entries: u64,
    /// Whether the executor ended with an error of the job.
    pub gave_up: bool,
    /// When the executor ended, in nanoseconds of its clock.
    pub ended: u64,
}

impl Record for Had {
    fn to_words(&self) -> Vec<u64> {
        vec![self.rounds, self.entries, self.gave_up.into(), self.ended]
    }

    fn from_words(words: &[u64]) -> Option<Had> {
        let &[rounds, entries, gave_up, ended] = words else { return None };
        Some(Had { rounds, entries, gave_up: gave_up != 0, ended })
    }
}

impl ShuffleCase {
    /// The entries of a sender in a round, in order. Any program can compute them from the seed.
    fn input(&self, sender: u32, round: u64) -> impl Iterator<Item = Vec<u8>> + use<> {
        let ShuffleCase { entries, keys, plan, seed, .. } = *self;
        let mut random = Random::new(seed ^ round.wrapping_mul(0x6a09_e667_f3bc_c909), sender.into());
        let count = if plan.sending().contains(&sender) { random.below(entries + 1) } else { 0 };
        (0..count).map(move |_| {
            let mut bytes = vec![0; plan.entry as usize];
            random.fill(&mut bytes);
            bytes[..8].copy_from_slice(&random.below(keys).to_ne_bytes());
            bytes
        })
    }

    /// The entries of a sender in a round that go to a receiver.
    fn expected(&self, sender: u32, round: u64, to: u32) -> impl Iterator<Item = Vec<u8>> + use<> {
        let receivers = self.plan.receivers;
        self.input(sender, round).filter(move |bytes| receiver(key(bytes), receivers) == to)
    }

    /// Runs the case without a kill. Returns each executor's result, or nothing if machine 0 is in another
    /// process.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn run<C: Cluster>(
        &self,
        cluster: &mut C,
        faults: Faults,
        patience: Span,
    ) -> Result<Vec<Had>, String> {
        let mut stage = stage::stage::<C, Had>(cluster, faults, patience)?;
        self.put_up(&mut stage, false)?;
        let had = stage::run(stage)?;
        let whole = |had: &Had| had.rounds == self.rounds && !had.gave_up;
        match had.iter().all(whole) {
            true => Ok(had),
            false => Err(format!("not all executors completed {} rounds: {had:?}", self.rounds)),
        }
    }

    /// Adds the executors. If `may_fail`, an executor that ends with an error of the job records that, and
    /// the run goes on.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn put_up<C: Cluster>(&self, stage: &mut Stage<'_, C, Had>, may_fail: bool) -> Result<(), String> {
        let memory = Inboxes { seats: self.seats, placement: Placement::Own };
        let inboxes = put_up_inboxes(stage, &self.plan, memory).map_err(text)?;
        for number in 0..self.plan.executors {
            let interval = stage.client_interval();
            let inboxes = inboxes.clone();
            stage.add_client(
                self.seats.place(number),
                ShuffleChecker { case: *self, number, inboxes, interval, may_fail },
            );
        }
        Ok(())
    }
}

fn key(bytes: &[u8]) -> u64 {
    let mut key = [0; 8];
    key.copy_from_slice(&bytes[..8]);
    u64::from_ne_bytes(key)
}

/// An executor that compares all entries that it takes.
struct ShuffleChecker {
    case: ShuffleCase,
    number: u32,
    inboxes: Vec<Mem>,
    interval: Interval,
    may_fail: bool,
}

/// The error for wrong or missing entries. It differs from the error of an executor that gives up.
pub(crate) fn wrong(why: String) -> Result<(), SystemError> {
    Err(SystemError::Config(why))
}

/// The entries still to come in a round, by sender.
type ToCome = Vec<Box<dyn Iterator<Item = Vec<u8>>>>;

impl Program for ShuffleChecker {
    type Output = Result<Had, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let mut had = Had::default();
        let ended = self.shuffle(&p, &mut had);
        had.ended = p.now().as_ns();
        told_apart(ended, had, self.may_fail)
    }
}

/// The result of an executor. An error if it found something wrong, or ended with an error and must not.
pub(crate) fn told_apart(
    ended: Result<(), SystemError>,
    had: Had,
    may_fail: bool,
) -> Result<Had, SystemError> {
    match ended {
        Ok(()) => Ok(had),
        Err(SystemError::Config(why)) => Err(SystemError::Protocol(why)),
        Err(_) if may_fail => Ok(Had { gave_up: true, ..had }),
        Err(error) => Err(error),
    }
}

impl ShuffleChecker {
    fn shuffle<P: Provider>(&self, p: &P, had: &mut Had) -> Result<(), SystemError> {
        let ShuffleChecker { case, number, ref inboxes, .. } = *self;
        let ShuffleCase { plan, seats, .. } = case;
        let mut executor = Executor::open(p, &plan, &seats, number, inboxes, SERVICE)?;
        let bytes = case.entries * u64::from(plan.entry);
        let source = executor.device().registered(bytes, AccessFlags::LOCAL_WRITE)?;
        loop {
            let round = had.rounds;
            let mut to_come = self.to_come(round);
            let mut entries = 0;
            let mut sink = |taken: TakenEntries| self.compare(p, &mut to_come, round, taken, &mut entries);
            let is_all = round == case.rounds;
            if !case.known && executor.is_over(&mut sink)? != is_all {
                return wrong(format!("executor {number} received a wrong end in round {round}"));
            }
            if is_all {
                break;
            }
            let mut sent = 0;
            for (number, bytes) in (0..).zip(case.input(number, round)) {
                p.write(source.mem(), number * u64::from(plan.entry), &bytes);
                sent = number + 1;
            }
            let rule = |key| receiver(key, plan.receivers);
            let ends = || !case.known && number == 0 && round + 2 >= case.rounds;
            executor.round(&source, 0..sent, rule, ends, &mut sink)?;
            // The input may change now. Entries posted last are spoilt first.
            let spoilt = vec![0x5a; plan.entry as usize];
            (0..sent).rev().for_each(|number| p.write(source.mem(), number * u64::from(plan.entry), &spoilt));
            if let Some((sender, _)) = (0..).zip(&mut to_come).find_map(|(n, left)| Some((n, left.next()?))) {
                return wrong(format!("executor {number} lacks entries of sender {sender} in round {round}"));
            }
            had.rounds += 1;
            had.entries += entries;
            if p.now() >= self.interval.end() {
                return Err(SystemError::Timeout("the rounds did not end in time".into()));
            }
        }
        executor.leave();
        Ok(())
    }

    fn to_come(&self, round: u64) -> ToCome {
        let ShuffleChecker { case, number, .. } = *self;
        let to = case.plan.as_receiver(number);
        let of = |sender| -> Box<dyn Iterator<Item = Vec<u8>>> {
            match to {
                Some(to) => Box::new(case.expected(sender, round, to)),
                None => Box::new(std::iter::empty()),
            }
        };
        case.plan.sending().map(of).collect()
    }

    fn compare<P: Provider>(
        &self,
        p: &P,
        to_come: &mut ToCome,
        round: u64,
        taken: TakenEntries,
        count: &mut u64,
    ) -> Result<(), SystemError> {
        let size = u64::from(self.case.plan.entry);
        let mut found = vec![0; size as usize];
        for n in 0..taken.entries {
            p.read(taken.mem, taken.offset + n * size, &mut found);
            let expected = to_come[taken.sender as usize].next();
            if taken.round != round || expected.as_ref() != Some(&found) {
                return wrong(format!(
                    "executor {} took {found:?} in {taken:?} of round {round}, not {expected:?}",
                    self.number
                ));
            }
            *count += 1;
            self.take_time(p);
        }
        Ok(())
    }

    fn take_time<P: Provider>(&self, p: &P) {
        let Some((_, span)) = self.case.slow.filter(|(slow, _)| *slow == self.number) else { return };
        let until = p.now() + span;
        while p.now() < until {
            p.pause(until);
        }
    }
}

/// Executors on two machines, which shuffle more entries than there is room for.
pub fn small(executors: u32, scale: &Scale) -> ShuffleCase {
    let plan = Plan {
        executors,
        senders: executors,
        receivers: executors,
        transfer: Transfer::Push,
        strategy: Strategy::Sgl,
        batch: 7,
        entry: 40,
        segment: 32,
        full: Full::Block,
        inline: 64,
        outstanding: 4,
        give_up: scale.patience,
    };
    let seats = Seats { per_machine: executors.div_ceil(2), sockets: 1, cores_per_socket: 8 };
    ShuffleCase {
        plan,
        seats,
        rounds: 4,
        entries: scale.operations,
        keys: 1000,
        known: true,
        slow: None,
        seed: 1,
    }
}

fn check<C: Cluster>(
    name: &'static str,
    trouble: Trouble,
    change: impl Fn(&mut ShuffleCase) + 'static,
) -> Check<C> {
    Check::new(format!("systems/shuffle/{name}"), move |cluster: &mut C, scale: &Scale| {
        let mut case = small(scale.clients, scale);
        case.entries = (case.entries / u64::from(trouble.part())).max(1);
        change(&mut case);
        case.run(cluster, trouble.faults(scale), scale.patience).map(drop)
    })
}

/// The checks of the shuffle.
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    let copied = |case: &mut ShuffleCase| {
        (case.plan.strategy, case.plan.full) = (Strategy::Sp, Full::Spill);
    };
    let skewed = |case: &mut ShuffleCase| {
        (case.keys, case.known, case.plan.batch) = (1, false, 1);
    };
    vec![
        check("gathered", Trouble::None, |_| ()),
        check("copied_spills", Trouble::None, copied),
        check("all_to_one", Trouble::None, skewed),
        check("pulled", Trouble::None, |case| case.plan.transfer = Transfer::Pull),
        check("few_to_others", Trouble::None, |case| {
            (case.plan.senders, case.plan.receivers, case.known) = (1, case.plan.executors - 1, false);
        }),
        check("stops", Trouble::Stops, |_| ()),
        deployed::check::<Shuffle, C>(),
    ]
}
