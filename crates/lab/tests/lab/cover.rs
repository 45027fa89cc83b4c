//! Coverage of confidence intervals: over many seeds, about 95% of the intervals hold the result of a far
//! longer run.

use doorbell_lab::{Asked, Certainty, Control, Given, MeasuredTime, Run};
use doorbell_verbs::Span;

const SEEDS: u64 = 200;
/// Duration of the long run, as a multiple of the mean duration of the other runs.
const LONGER: u64 = 100;

/// Rate and mean latency of a run, with their intervals.
struct Answer {
    rate: f64,
    latency: f64,
    sure: Certainty,
    measured: MeasuredTime,
}

fn answer(toml: &str) -> Answer {
    let given = Given::from_toml("w.toml", toml, &doorbell_lab::fields()).unwrap();
    let run = Run::asked(Asked::of(&given).unwrap()).unwrap();
    let o = doorbell_lab::simulate(&run, &Control::quiet()).unwrap();
    let latency = o.latency_ns.mean.unwrap();
    Answer { rate: o.mops, latency, sure: o.interval, measured: o.measured }
}

/// Percentage of the seeds for which the intervals of rate and mean latency hold the result of the long run.
fn covers(workload: &str, precision: &str) -> (f64, f64) {
    let runs: Vec<Answer> = (0..SEEDS)
        .map(|seed| answer(&format!("{workload}\nprecision = \"{precision}\"\nseed = {}", seed + 1)))
        .collect();
    let times = runs.iter().map(|run| run.measured.duration.span().as_ps()).sum::<u64>();
    let long = Span::from_ps(times / SEEDS * LONGER).as_ns() / 1000;
    let truth = answer(&format!("{workload}\nwarmup = \"100us\"\nduration = \"{long}us\"\nseed = 1000"));
    let hold = |of: &dyn Fn(&Answer) -> (f64, f64), truth: f64| {
        let held = runs.iter().map(of).filter(|(mean, half)| (mean - truth).abs() <= *half).count();
        held as f64 * 100.0 / SEEDS as f64
    };
    let rate = hold(&|run| (run.rate, run.sure.mops.unwrap_or(0.0)), truth.rate);
    let latency = hold(&|run| (run.latency, run.sure.latency_ns.unwrap_or(0.0)), truth.latency);
    (rate, latency)
}

const QUEUE: &str = "system = \"rpc\"\nclients = 2\ncores = 1\nhandler = \"300ns\"\n\
    handler_times = \"exponential\"\narrivals = \"poisson\"\nrate = 1500000\noutstanding = 64\nbatching = false";
const READS: &str =
    "verb = \"read\"\nmachines = 4\nthreads = 1\nqps = 6\npattern = \"all-to-all\"\nwindow = 8";

#[test]
fn intervals_hold_what_a_far_longer_run_finds() {
    // A single worker that serves requests as they arrive.
    let (rate, latency) = covers(QUEUE, "5%");
    assert!((90.0..=99.0).contains(&rate), "{rate}% of a queue's rates hold");
    assert!((90.0..=99.0).contains(&latency), "{latency}% of a queue's latencies hold");
    // Destinations are drawn, and the number of outstanding operations is constant. So a batch with many
    // completions is followed by a batch with few, and intervals of rates are wider than necessary.
    let (rate, latency) = covers(READS, "0.5%");
    assert!(rate >= 90.0, "{rate}% of the rates of READs hold");
    assert!((90.0..=99.0).contains(&latency), "{latency}% of the latencies of READs hold");
}
