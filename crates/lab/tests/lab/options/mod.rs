//! Random option sets of workloads and systems on each profile are answered correctly or refused.
//!
//! Each set is refused in one sentence, or run. A run is audited (`lab/simulate/audit`). It must respect its
//! bounds, end as intended, and describe itself correctly. The test prints its seed, and `DOORBELL_SEED`
//! repeats a seed. `DOORBELL_CASES` is the number of sets per profile; hundreds need a release build.
//! `DOORBELL_SHOW=1` prints every set and its run time. A failing set is simplified before it is reported.

mod bounds;
pub(crate) mod draw;

use doorbell_lab::{
    Asked, Certainty, Control, Ended, Given, Latency, MeasuredTime, Outcome, Run, SimulateError, Workload,
};
use doorbell_nic::Profile;
use draw::{Draws, Said, Wanted};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{SystemTime, UNIX_EPOCH};

/// Number of sets per profile, by default.
const CASES: u64 = 40;

/// Percentage of sets that may be refused.
const REFUSED: u64 = 20;

/// Largest number of characters of a refusal.
const SENTENCE: usize = 500;

/// Stride through the list of options. It is a prime that does not divide the length of the list, so all
/// options have their turn.
const STRIDE: usize = 7919;

/// Tolerance, because the reported rate covers all completions, but its interval covers only whole batches.
const SLACK: f64 = 1.02;

/// Outcome of an option set.
enum End {
    /// The set has a correct answer.
    Answered,
    /// The set was refused in one sentence.
    Refused,
    /// The set has a wrong answer, or no answer.
    Wrong(String),
}

/// The number in an environment variable, if it is set.
pub(crate) fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is {value}, not a number")))
}

/// Checks that a refusal is one sentence.
fn refused(why: String) -> End {
    let is_one =
        !why.is_empty() && !why.contains('\n') && !why.ends_with('.') && why.chars().count() <= SENTENCE;
    if is_one { End::Refused } else { End::Wrong(format!("refused with what is no sentence: {why}")) }
}

fn failed(error: SimulateError) -> End {
    if error.is_bad_input() { refused(error.to_string()) } else { End::Wrong(error.to_string()) }
}

/// Runs an option set. A panic counts as a wrong answer.
fn end_of(said: &Said) -> End {
    let toml = said.toml();
    catch_unwind(AssertUnwindSafe(|| answered(&toml))).unwrap_or_else(|panic| {
        let text =
            panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        End::Wrong(format!("panicked: {}", text.unwrap_or("without a message")))
    })
}

fn answered(toml: &str) -> End {
    let asked = Given::from_toml("w.toml", toml, &doorbell_lab::fields()).map_err(|e| e.to_string());
    match asked.and_then(|given| Asked::of(&given).map_err(|e| e.to_string())) {
        Ok(Asked::Verbs(workload)) => verbs(&workload),
        Ok(Asked::System(system, profiles)) => {
            let run = Run::system(profiles.first(), system);
            match doorbell_lab::simulate(&run, &Control::quiet()) {
                Ok(outcome) => told(wrong_of_system(&outcome)),
                Err(error) => failed(error),
            }
        }
        Err(why) => refused(why),
    }
}

fn told(wrong: Option<String>) -> End {
    wrong.map_or(End::Answered, End::Wrong)
}

fn verbs(workload: &Workload) -> End {
    let resolved = workload.load_profiles().and_then(|profiles| Ok((workload.resolve(&profiles)?, profiles)));
    let (w, profiles) = match resolved {
        Ok(resolved) => resolved,
        Err(why) => return refused(why.to_string()),
    };
    match doorbell_lab::simulate(&Run::verbs(profiles.clone(), w.clone()), &Control::quiet()) {
        Ok(outcome) => told(wrong_of(&outcome).or_else(|| bounds::flaw(&profiles, &w, &outcome))),
        Err(error) => failed(error),
    }
}

/// A contradiction in an outcome's description of itself.
fn wrong_of(o: &Outcome) -> Option<String> {
    let json = serde_json::to_string(o).expect("an outcome has a JSON");
    let again: Outcome = serde_json::from_str(&json).expect("the JSON is an outcome's");
    if serde_json::to_string(&again).ok()? != json {
        return Some("its JSON, read and written again, differs".into());
    }
    let nothing = o.waits.is_some() != (o.mops == 0.0);
    if nothing {
        return Some(format!("{} Mops, and threads wait for {:?}", o.mops, o.waits));
    }
    let w = &o.verbs().workload;
    let share = w.precision.of_one();
    ended(&o.measured, w.duration.is_some(), doubt(o))
        .or_else(|| known(&o.interval, o.measured.ended, share, (o.mops, o.latency_ns.mean)))
        .or_else(|| ordered(&o.latency_ns))
}

/// The reason why a run may end without an answer.
fn doubt(o: &Outcome) -> Option<&String> {
    o.interval.unsettled.as_ref().or(o.waits.as_ref()).or(o.interval.no_percentile.as_ref())
}

fn wrong_of_system(o: &Outcome) -> Option<String> {
    let timing = o.system().workload.timing();
    let share = timing.precision.of_one();
    ended(&o.measured, timing.duration.is_some(), doubt(o))
        .or_else(|| known(&o.interval, o.measured.ended, share, (o.mops, o.latency_ns.mean)))
        .or_else(|| ordered(&o.latency_ns))
}

/// Checks how a run ended: at its duration, settled, or at its time limit with an explanation.
fn ended(measured: &MeasuredTime, has_duration: bool, unsettled: Option<&String>) -> Option<String> {
    let fits = match measured.ended {
        Ended::Duration => has_duration,
        Ended::Settled => !has_duration,
        Ended::MaxTime | Ended::Overload => !has_duration && unsettled.is_some(),
        Ended::MaxWall | Ended::Interrupted => false,
    };
    (!fits).then(|| format!("ended by {:?}, unsettled: {unsettled:?}", measured.ended))
}

/// Checks that a settled run has the requested precision.
fn known(sure: &Certainty, ended: Ended, share: f64, (rate, latency): (f64, Option<f64>)) -> Option<String> {
    let narrow = |half: Option<f64>, mean: f64| half.is_some_and(|half| half <= share * mean * SLACK);
    let all = narrow(sure.mops, rate) && latency.is_none_or(|mean| narrow(sure.latency_ns, mean));
    (ended == Ended::Settled && sure.unsettled.is_none() && !all)
        .then(|| format!("{rate} Mops and {latency:?} ns settled at {share}, but are known to {sure:?}"))
}

fn ordered(of: &Latency) -> Option<String> {
    let all: Vec<u64> = [of.min, of.p50, of.p99, of.p999].into_iter().flatten().collect();
    (!all.is_sorted()).then(|| format!("latencies are out of order: {of:?}"))
}

/// The simplest set that is still wrong.
fn simplest(said: Said, why: String) -> (Said, String) {
    let wrong = |less: Said| match end_of(&less) {
        End::Wrong(why) => Some((less, why)),
        _ => None,
    };
    let simpler = said.with_less().find_map(wrong);
    simpler.map_or((said, why), |(less, why)| simplest(less, why))
}

/// Largest number of sets to draw until a set with the wanted option is answered.
const TRIES: u64 = 40;

#[derive(Default)]
struct Tally {
    answered: u64,
    refused: u64,
    /// Options that were in an answered set.
    seen: BTreeSet<String>,
    wrong: Vec<String>,
}

impl Tally {
    /// Draws sets with an option until a set is answered. In some cases, a refused first set counts, too.
    fn case(&mut self, profile: &str, seed: u64, wanted: Wanted) {
        let mut draws = Draws::new(seed);
        let mut may_be_refused = draws.percent(REFUSED / 2);
        for _ in 0..TRIES {
            let said = draw::said(&mut draws, profile, wanted);
            let begun = std::time::Instant::now();
            let end = end_of(&said);
            if std::env::var_os("DOORBELL_SHOW").is_some() {
                println!("{:.1?}: {}", begun.elapsed(), said.toml().replace('\n', "; "));
            }
            match end {
                End::Answered => {
                    self.answered += 1;
                    self.seen.insert(wanted.name());
                    return;
                }
                End::Wrong(why) => {
                    let (said, why) = if self.wrong.len() < 3 { simplest(said, why) } else { (said, why) };
                    return self.wrong.push(format!("on {profile}: {why}\n{}", said.toml()));
                }
                End::Refused if std::mem::take(&mut may_be_refused) => {
                    self.refused += 1;
                    return;
                }
                End::Refused => {}
            }
        }
        self.refused += 1;
    }
}

#[test]
fn what_is_asked_for_is_answered_rightly_or_refused() {
    let cases = number("DOORBELL_CASES").unwrap_or(CASES);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = number("DOORBELL_SEED").unwrap_or(now);
    println!("DOORBELL_SEED={seed}");
    // Panics are reported together with their option set.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let (mut tally, all) = (Tally::default(), Wanted::all());
    let (mut turn, mut drawn) = (0, 0);
    for profile in Profile::names() {
        for _ in 0..cases {
            // Options have their turns independently of the profile.
            let mut next = || {
                turn += 1;
                all[turn * STRIDE % all.len()]
            };
            let wanted = std::iter::repeat_with(&mut next).find(|wanted| wanted.is_for(profile));
            tally.case(profile, seed.wrapping_add(drawn), wanted.expect("there are options of verbs"));
            drawn += 1;
        }
    }
    std::panic::set_hook(hook);
    let Tally { answered, refused, seen, wrong } = tally;
    println!("{answered} answered, {refused} refused");
    let told = wrong.join("\n");
    assert!(wrong.is_empty(), "DOORBELL_SEED={seed}: {} of {drawn} sets:\n{told}", wrong.len());
    assert!(refused * 100 <= REFUSED * drawn, "DOORBELL_SEED={seed}: {refused} refused");
    // Few sets cannot contain every option.
    let unseen: Vec<String> = all.iter().map(Wanted::name).filter(|name| !seen.contains(name)).collect();
    let few = drawn < 2 * all.len() as u64;
    assert!(few || unseen.is_empty(), "DOORBELL_SEED={seed}: no set that was answered has {unseen:?}");
}
