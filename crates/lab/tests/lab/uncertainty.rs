//! Uncertainty of workloads.

use doorbell_lab::uncertainty::{self, DRAWS, UncertaintyError};
use doorbell_lab::{Control, Ended, Outcome, Run, Workload};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

fn simulated() -> (Run, Outcome) {
    simulated_with("")
}

fn simulated_with(more: &str) -> (Run, Outcome) {
    let toml = "verb = \"write\"\nmachines = 2\nthreads = 1\nwarmup = \"20us\"\nduration = \"50us\"";
    let workload = Workload::from_toml("test", &format!("{toml}\n{more}")).unwrap();
    let profiles = workload.load_profiles().unwrap();
    let resolved = workload.resolve(&profiles).unwrap();
    let run = Run::verbs(profiles, resolved);
    let outcome = doorbell_lab::simulate(&run, &Control::quiet()).unwrap();
    (run, outcome)
}

#[test]
fn an_interval_is_of_all_draws() {
    let (run, outcome) = simulated();
    let found = uncertainty::of(&run, &outcome.measured, &Control::quiet()).unwrap();
    assert_eq!(found.runs, DRAWS);
    assert!(found.mops[0] < outcome.mops && outcome.mops < found.mops[1], "{found:?}");
}

/// If some draws are interrupted, there is no interval.
#[test]
fn of_some_draws_there_is_none() {
    let (run, outcome) = simulated();
    let of = |control: &Control<'_>| uncertainty::of(&run, &outcome.measured, control);
    let stopped = Control::quiet();
    stopped.interrupt.store(true, Relaxed);
    assert_eq!(of(&stopped), Err(UncertaintyError::Cut(0)));
    let short = Control { max_wall: Some(Duration::ZERO), ..Control::quiet() };
    assert!(matches!(of(&short), Err(UncertaintyError::Cut(_))));
}

#[test]
fn of_a_run_that_was_cut_there_is_none() {
    let (run, mut outcome) = simulated();
    outcome.measured.ended = Ended::MaxWall;
    let of = |control: &Control<'_>| uncertainty::of(&run, &outcome.measured, control);
    assert_eq!(of(&Control::quiet()), Err(UncertaintyError::Itself));
    // Until a deadline, the runs with drawn parameters may measure as long as the run.
    let limited = Control { deadline: Some(Instant::now() + Duration::from_secs(600)), ..Control::quiet() };
    assert_eq!(of(&limited).map(|found| found.runs), Ok(DRAWS));
    limited.interrupt.store(true, Relaxed);
    assert_eq!(of(&limited), Err(UncertaintyError::Cut(0)));
}

/// The interval never exceeds the rate of due operations, even for draws with faster machines.
#[test]
fn no_more_completes_than_is_due() {
    let (run, outcome) = simulated_with("arrivals = \"fixed\"\nrate = 1000000");
    let [least, most] = uncertainty::of(&run, &outcome.measured, &Control::quiet()).unwrap().mops;
    assert!(least < 1.0 && most == 1.0, "{least} to {most}");
}
