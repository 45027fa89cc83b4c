//! The soak test harms a process in the middle of an operation, and checks that other processes go on. A
//! harmed process is for example stopped or killed, or gets no more files. [`matrix`] lists the points at
//! which a process is harmed, [`harm`] lists the harms, and [`case`] describes a case with its checks.
//!
//! `cargo xtask soak soft` runs the test for a given time. docs/notes/soak-soft.md lists its findings.

mod actor;
mod case;
mod churn;
mod client;
mod crew;
mod forking;
mod harm;
mod matrix;
mod pair;
mod pairing;
mod parts;
mod report;
mod server;
mod sharing;
mod threads;
mod traffic;
mod watch;

use super::own_time::HANGS;
use super::peer::exact;
use case::Case;
use harm::Harm;
use matrix::CELLS;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use report::{Came, Report};
use std::process::Command;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Environment variables of a soak: its length in minutes, its seed, and the only case to run.
const MINUTES: &str = "DOORBELL_SOAK_MINUTES";
const SEED: &str = "DOORBELL_SOAK_SEED";
const CASE: &str = "DOORBELL_SOAK_CASE";
/// An environment variable that is set if /dev/shm is private to this process.
const PRIVATE: &str = "DOORBELL_SOAK_PRIVATE";

/// The seed of a run without [`SEED`].
const USUAL_SEED: u64 = 0x50a4;
const TEST_TAKES: Duration = Duration::from_secs(60);
/// The time for which a stopped process stays stopped: without and with [`MINUTES`].
const SHORT_STOP: Duration = Duration::from_millis(300);
const LONG_STOP: Duration = Duration::from_secs(10);
/// The measure of a case's calls is the shortest of the longest calls of this many runs. Load only adds time,
/// so the shortest one is the nearest to the time that the library takes. The runs end early when one of them
/// is within the limit. Only times are measured again: any other wrong result counts in each run.
const SLOW_RUNS: u32 = 4;
/// The number of cases that run at a time. They wait most of the time.
const AT_A_TIME: usize = 4;

fn from_environment<T: FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs all cases once, or as many as fit into a minute. With [`MINUTES`], repeats all cases for that time.
/// With [`CASE`] and [`SEED`], runs the chosen cases once. With [`CASE`] and [`MINUTES`] alone, repeats them
/// until one is wrong.
#[test]
fn who_is_caught_harms_nobody_else() {
    let minutes: Option<f64> = from_environment(MINUTES);
    let given: Option<u64> = from_environment(SEED);
    let seed = given.unwrap_or(USUAL_SEED);
    let only: Option<String> = from_environment(CASE);
    let once = only.is_some() && (given.is_some() || minutes.is_none());
    let takes = minutes.map_or(TEST_TAKES, |minutes| Duration::from_secs_f64(60.0 * minutes));
    let stop = if minutes.is_some() { LONG_STOP } else { SHORT_STOP };
    let begin = Instant::now();
    let report = Mutex::new(Report::default());
    let has_found = || only.is_some() && !report.lock().expect("nobody has panicked").wrong().is_empty();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    loop {
        let chosen = |name: &str| only.as_ref().is_none_or(|only| name.starts_with(only.as_str()));
        let draw = &mut random;
        // If only one case runs, it has the given seed.
        let mut cases: Vec<Case> = cases(stop, &mut || if once { seed } else { draw.next_u64() >> 16 });
        cases.retain(|case| chosen(&case.name()));
        assert!(!cases.is_empty(), "there is no case {only:?}");
        // The order is random, so that a short run does not always leave out the same cases.
        (1..cases.len()).rev().for_each(|n| cases.swap(n, random.next_u64() as usize % (n + 1)));
        run_all(&cases, &report, || once || begin.elapsed() < takes && !has_found());
        if once || minutes.is_none() || begin.elapsed() >= takes || has_found() {
            break;
        }
    }
    let mut report = report.into_inner().expect("nobody has panicked");
    if only.is_none() {
        report.others.push(("Churn".to_owned(), churn::run(seed, takes / 10)));
    }
    let minutes = begin.elapsed().as_secs_f64() / 60.0;
    println!("{}", report.text(&format!("seed {seed}, {minutes:.1} minutes, stopped for {stop:?}")));
    let wrong = report.wrong();
    assert!(wrong.is_empty(), "{} cases are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Forks children while other threads of the parent use the device. A child may use the device, execute
/// another program, exit or be killed.
#[test]
fn children_of_fork_do_as_they_like() {
    let fabric = format!("fork-{}", std::process::id());
    let mut member = crew::Member::start("parent", &fabric);
    // Each of the 60 children may take up to `HANGS`.
    let wrong = member.ask_within(60 * HANGS, "fork 60").expect("it answers");
    assert_eq!(wrong.trim(), "");
    member.end().expect("it ends");
    assert!(case::wait_until(|| case::folder(&fabric).is_none()), "its folder is left");
}

/// All cases of the matrix, each with a drawn seed.
fn cases(stop: Duration, draw: &mut dyn FnMut() -> u64) -> Vec<Case> {
    let mut all = Vec::new();
    for row in CELLS {
        for harm in Harm::ALL.into_iter().filter(|harm| row.skips(*harm).is_none()) {
            all.push(Case { row, harm, seed: draw(), stop });
        }
    }
    all
}

fn run_all(cases: &[Case], report: &Mutex<Report>, goes_on: impl Fn() -> bool + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while goes_on()
                    && let Some(case) = cases.get(next.fetch_add(1, Relaxed))
                {
                    let came = if needs_own_shm(case) { run_apart(case) } else { run_here(case) };
                    report.lock().expect("nobody has panicked").add(case, came);
                }
            });
        }
    });
}

fn run_here(case: &Case) -> Came {
    // The processes subtract their own waits for a processor. A call may also wait for another process that
    // goes on, but has no processor. The waits of all processes cannot be subtracted: on a busy machine their
    // sum is longer than a call that waits for the caught process.
    let mut slow = String::new();
    for run in 0..SLOW_RUNS {
        match case.run() {
            Err(wrong) => return Came::Wrong(wrong),
            Ok(longest) if longest.0 <= case.most() => return Came::Right(longest, run > 0),
            Ok((longest, call)) => slow = format!("a call ({call}) of another process took {longest:?}"),
        }
    }
    Came::Wrong(format!("{slow}, and took too long in {SLOW_RUNS} runs"))
}

/// Whether a case must run with a private /dev/shm, because it fills /dev/shm.
fn needs_own_shm(case: &Case) -> bool {
    case.harm == Harm::FullShm && std::env::var_os(PRIVATE).is_none()
}

/// Runs a case in a new mount namespace with a small /dev/shm.
fn run_apart(case: &Case) -> Came {
    let permitted = Command::new("unshare").args(["--mount", "true"]).output();
    if !permitted.is_ok_and(|output| output.status.success()) {
        return Came::Skipped("no mount namespace".to_owned());
    }
    let test = exact("tests::soak::who_is_caught_harms_nobody_else");
    let arguments = test.get_args().filter(|argument| *argument != "--ignored");
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", "mount -t tmpfs -o size=64k tmpfs /dev/shm && exec \"$@\"", "sh"])
        .arg(test.get_program())
        .args(arguments)
        .envs([(PRIVATE, "1"), (CASE, &case.name()), (SEED, &case.seed.to_string())])
        .env_remove(MINUTES)
        .output();
    match output {
        Ok(output) if output.status.success() => Came::Right(Default::default(), false),
        Ok(output) => {
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said).into_owned();
            let wrong = said.lines().find_map(|line| line.strip_prefix(&format!("{}: ", case.name())));
            Came::Wrong(wrong.map_or(said.clone(), str::to_owned))
        }
        Err(error) => Came::Skipped(error.to_string()),
    }
}
