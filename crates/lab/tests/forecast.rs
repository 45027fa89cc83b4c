//! The forecast of the time left is within a factor of two from half-time on.
//!
//! `cargo xtask long` checks this on an idle machine, and sets `DOORBELL_FORECASTS`. Other programs change
//! the speed of a run while it lasts, so the usual test only finds commands of which more than a quarter of
//! the forecasts are off by a factor of [`LOADED`].
//!
//! The clock is the processor time of this process, because other processes slow down the wall-clock time of
//! some runs more than of others. So this file has a single test, and makes one run at a time.

use doorbell_lab::compare::Sides;
use doorbell_lab::sweep::{Draft, Over};
use doorbell_lab::{Asked, Control, Forecast, Given, Known, Pace, Run, Typed, Watch, fields, uncertainty};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Factor by which a forecast may be off on a machine with other load.
const LOADED: f64 = 8.0;
/// The forecast may also be off by this share of the whole time, because a ratio means little at the end.
const SLACK: f64 = 0.02;
/// Time between two looks at the forecast.
const LOOK: Duration = Duration::from_millis(10);
/// The forecast may also be off by so many seconds, because it is made at a look.
const LOOKS: f64 = 0.02;
/// Fewest forecasts in the later half of a command. With fewer, the command is too short to be tested.
const FORECASTS: usize = 4;

/// Processor time of this process.
fn now() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(
        time.tv_sec.try_into().expect("it is positive"),
        time.tv_nsec.try_into().expect("below 1e9"),
    )
}

struct Watched {
    forecast: Forecast,
    begin: Duration,
}

impl Watched {
    fn elapsed(&self) -> Duration {
        now() - self.begin
    }
}

impl Watch for Watched {
    fn planned(&self, costs: &[f64]) {
        self.forecast.planned(costs);
    }

    fn expected(&self, runs: usize) {
        self.forecast.expected(runs);
    }

    fn began(&self, cost: f64, pace: &Arc<Pace>) {
        self.forecast.began(self.elapsed(), cost, pace);
    }

    fn ended(&self, pace: &Arc<Pace>) {
        self.forecast.ended(self.elapsed(), pace);
    }
}

fn given(toml: &str) -> Given {
    Given::from_toml("w.toml", toml, &fields()).expect("it is a workload")
}

fn run(toml: &str) -> Run {
    Run::asked(Asked::of(&given(toml)).expect("it is valid")).expect("it is valid")
}

/// Does the work, and checks the forecasts of its later half.
fn check(what: &str, work: impl FnOnce(&Control<'_>)) {
    let watched = Watched { forecast: Forecast::new(1), begin: now() };
    let over = AtomicBool::new(false);
    let (seen, all) = thread::scope(|scope| {
        let seen = scope.spawn(|| {
            let mut seen: Vec<(f64, Option<f64>)> = Vec::new();
            while !over.load(Ordering::SeqCst) {
                let elapsed = watched.elapsed();
                let left = watched.forecast.left(elapsed).map(|left| left.as_secs_f64());
                seen.push((elapsed.as_secs_f64(), left));
                thread::sleep(LOOK);
            }
            seen
        });
        work(&Control { jobs: 1, watch: &watched, ..Control::quiet() });
        let all = watched.elapsed().as_secs_f64();
        over.store(true, Ordering::SeqCst);
        (seen.join().expect("it does not panic"), all)
    });
    let late: Vec<(f64, Option<f64>)> = seen.into_iter().filter(|(at, _)| *at >= all / 2.0).collect();
    let is_strict = std::env::var_os("DOORBELL_FORECASTS").is_some();
    let factor = if is_strict { 2.0 } else { LOADED };
    let is_near = |(at, left): &(f64, Option<f64>)| {
        let (truth, slack) = (all - at, (SLACK * all).max(LOOKS));
        left.is_some_and(|left| left >= truth / factor - slack && left <= truth * factor + slack)
    };
    let wrong: Vec<&(f64, Option<f64>)> = late.iter().filter(|seen| !is_near(seen)).collect();
    println!("{what}: {all:.2} s, {} forecasts, {} wrong", late.len(), wrong.len());
    let most_wrong = if is_strict { 0 } else { late.len() / 4 };
    assert!(wrong.len() <= most_wrong, "{what} took {all} s of processor time; forecast at: {wrong:?}");
    assert!(late.len() >= FORECASTS, "{what} took only {all} s");
}

fn simulate(toml: &str) {
    let run = run(toml);
    check(toml, |control| drop(doorbell_lab::simulate(&run, control).expect("it has a result")));
}

fn explain(words: &[&str]) {
    let mut typed = Given::default();
    words.iter().for_each(|word| doorbell_lab::say(&mut typed, word).expect("it is an option"));
    let run = Run::asked(Asked::of(&typed).expect("it is valid")).expect("it is valid");
    check(&format!("explain {}", words.join(" ")), |control| {
        let outcome = doorbell_lab::explain(&run, control).expect("it has a result");
        let typed = Typed { flags: typed.clone(), ..Typed::default() };
        drop(doorbell_lab::advise(&typed, &run, outcome, control));
    });
}

fn sweep(toml: &str, over: &str, explain: bool) {
    let over = vec![Over::parse(over).expect("it is a sweep")];
    let draft = Draft::new(given(toml), over, explain).expect("it is valid");
    let plan = draft.measure(&Known::default(), &Control::quiet()).expect("there is no load");
    check(&format!("sweep {toml}"), |control| {
        drop(plan.run(None, &Known::default(), control, &|_, _| ()).expect("it has a result"));
    });
}

fn uncertainty(toml: &str) {
    let run = run(toml);
    check(&format!("uncertainty {toml}"), |control| {
        control.watch.expected(1 + uncertainty::DRAWS);
        let outcome = doorbell_lab::simulate(&run, control).expect("it has a result");
        drop(uncertainty::of(&run, &outcome.measured, control).expect("it has a result"));
    });
}

fn compare(one: &str, other: &str, explain: bool) {
    let sides = [("one".to_owned(), given(one)), ("other".to_owned(), given(other))];
    let sides = Sides::new(&sides, explain, false).expect("they are valid");
    check(&format!("compare {one} and {other}"), |control| {
        drop(sides.run(&Known::default(), control, &|_, _| ()).expect("it has a result"));
    });
}

#[test]
fn forecasts_of_twelve_commands_hold() {
    simulate("verb = \"read\"\nmachines = 3\nduration = \"3ms\"");
    simulate("verb = \"send\"\nmachines = 3\nthreads = 4\nduration = \"2ms\"");
    simulate(
        "verb = \"write\"\ntransport = \"rc\"\nsize = 1024\nmachines = 3\nthreads = 2\nprecision = \"0.1%\"",
    );
    simulate("system = \"rpc\"\nclients = 24\ncores = 4\nprecision = \"0.3%\"");
    simulate("system = \"read-kv\"\nclients = 20\nduration = \"2ms\"");
    explain(&["verb=read", "machines=3", "threads=2"]);
    explain(&["system=rpc", "clients=12", "cores=2"]);
    sweep("verb = \"read\"\nmachines = 3\nthreads = 4", "qps=1..32*2", false);
    sweep("verb = \"write\"\nmachines = 2\nthreads = 2", "size=16,256", true);
    compare("system = \"rpc\"\nclients = 24", "system = \"herd-kv\"\nclients = 24", false);
    let read = "verb = \"read\"\nmachines = 2\nthreads = 2";
    compare(read, &format!("{read}\nsize = 256"), true);
    uncertainty(&format!("{read}\nduration = \"200us\""));
}
