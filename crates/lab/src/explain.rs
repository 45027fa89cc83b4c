//! What limits a workload: observed by reruns, or guessed from use.

use crate::plan::parallel;
use crate::results::outcome::{self, Bottleneck, GroupLift, Lift, Outcome};
use crate::simulate::{self, Run, SimulateError};
use doorbell_nic::Resource;
use doorbell_sim::ResourceUse;
use doorbell_workload::Profiles;
use doorbell_workload::Resolved;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Each resource in turn is made this much faster.
pub(crate) const RELAXED: (u64, u64) = (11, 10);

/// A resource busy for at least this share of the time can be what limits the rate. Where none is,
/// operations spend their time on their way.
const BUSY: f64 = 0.8;

/// A lift below this is no lift: several resources bind at once, or the difference is chance.
const NOTICEABLE: f64 = 0.01;

/// How a simulation is watched and stopped.
pub struct Control<'a> {
    /// Set to stop: what is computed so far is handed back.
    pub interrupt: Arc<AtomicBool>,
    /// Called after each run with what it was.
    pub progress: &'a (dyn Fn(&str) + Sync),
}

/// Runs of an explanation: the workload itself and one per resource.
pub const EXPLAIN_RUNS: u64 = 1 + Resource::ALL.len() as u64;

/// Runs of an explanation on these machines: where they differ, at most one more for each group.
pub fn explain_runs(profiles: &Profiles) -> u64 {
    EXPLAIN_RUNS + if profiles.are_alike() { 0 } else { profiles.all().count() as u64 }
}

/// Runs the workload once. Its bottleneck is the resource that was busiest, not confirmed.
pub fn simulate(profiles: &Profiles, w: &Resolved, control: &Control<'_>) -> Result<Outcome, SimulateError> {
    let w = Arc::new(w.clone());
    let run = simulate::run_once(profiles, &w, &control.interrupt)?;
    (control.progress)("workload");
    Ok(Outcome::new(&w, &run, busiest(&run, &|machine| w.machine_name(machine))))
}

/// Runs the workload, and again with 10% more of each resource. Its bottleneck is the resource that
/// lifts the rate most. Where machines differ, that one is relaxed on each group alone, too.
pub fn explain(profiles: &Profiles, w: &Resolved, control: &Control<'_>) -> Result<Outcome, SimulateError> {
    let w = Arc::new(w.clone());
    let mut cases: Vec<Option<Resource>> = vec![None];
    cases.extend(Resource::ALL.map(Some));
    let mut runs = parallel::map(&cases, |case| {
        let relaxed = case.map(|r| profiles.relax(r, RELAXED));
        let run = simulate::run_once(relaxed.as_ref().unwrap_or(profiles), &w, &control.interrupt);
        (control.progress)(case.map_or("workload", Resource::name));
        run
    })
    .into_iter();
    let base = runs.next().expect("the first case is the workload itself")?;
    let mops = rate(&w, &base);
    let mut lifts = Vec::new();
    let mut interrupted = false;
    for (resource, run) in Resource::ALL.into_iter().zip(runs) {
        match run {
            Ok(run) => lifts.push((resource, gain(mops, rate(&w, &run)))),
            Err(e) if e.is_interrupt() => interrupted = true,
            Err(e) => return Err(e),
        }
    }
    lifts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let name = |machine| w.machine_name(machine);
    if interrupted {
        let mut outcome = Outcome::new(&w, &base, busiest(&base, &name));
        outcome.lift = told(&lifts);
        return Ok(outcome);
    }
    let mut bottleneck = observed(&base, &lifts, &name);
    let group_lift = by_group(profiles, &w, control, mops, lifts[0])?;
    name_group(&mut bottleneck, &w, &group_lift);
    let mut outcome = Outcome::new(&w, &base, bottleneck);
    outcome.group_lift = group_lift;
    outcome.lift = told(&lifts);
    Ok(outcome)
}

fn told(lifts: &[(Resource, f64)]) -> Vec<Lift> {
    lifts.iter().map(|(r, gain)| Lift { resource: r.name().to_owned(), gain: *gain }).collect()
}

/// What the resource that lifts most brings on each group alone, if it brings something; of an interrupted
/// explanation, for those groups that were run.
fn by_group(
    profiles: &Profiles,
    w: &Arc<Resolved>,
    control: &Control<'_>,
    mops: f64,
    (resource, gained): (Resource, f64),
) -> Result<Vec<GroupLift>, SimulateError> {
    if profiles.are_alike() || gained < NOTICEABLE {
        return Ok(Vec::new());
    }
    let groups: Vec<usize> = (0..profiles.all().count()).collect();
    let runs = parallel::map(&groups, |group| {
        let relaxed = profiles.relax_group(*group, resource, RELAXED);
        let run = simulate::run_once(&relaxed, w, &control.interrupt);
        (control.progress)(resource.name());
        run
    });
    let mut lifts = Vec::new();
    for (group, run) in groups.into_iter().zip(runs) {
        match run {
            Ok(run) => {
                let gain = gain(mops, rate(w, &run));
                lifts.push(GroupLift { group, resource: resource.name().to_owned(), gain });
            }
            Err(e) if e.is_interrupt() => {}
            Err(e) => return Err(e),
        }
    }
    Ok(lifts)
}

/// Says which group it is whose resource matters, if it is one.
fn name_group(bottleneck: &mut Bottleneck, w: &Resolved, lifts: &[GroupLift]) {
    let Some(most) = lifts.iter().max_by(|a, b| a.gain.total_cmp(&b.gain)) else { return };
    let names = w.group_names();
    let name = |group: usize| names.get(group).map_or("", String::as_str);
    let each: Vec<String> =
        lifts.iter().map(|lift| format!("{:+.1}% on {}", lift.gain * 100.0, name(lift.group))).collect();
    let (resource, each) = (&most.resource, each.join(", "));
    bottleneck.text += &match most.gain < NOTICEABLE {
        true => format!("; no group's {resource} matters alone: {each}"),
        false => format!("; it is the {resource} of {} that matters: {each}", name(most.group)),
    };
    bottleneck.group = (most.gain >= NOTICEABLE).then_some(most.group);
}

fn rate(w: &Resolved, run: &Run) -> f64 {
    outcome::rates(w, run).iter().sum()
}

pub(crate) fn gain(base: f64, relaxed: f64) -> f64 {
    if base > 0.0 { relaxed / base - 1.0 } else { 0.0 }
}

/// The resource that was busiest.
fn top(run: &Run) -> Option<&ResourceUse> {
    run.metrics.resources.iter().max_by(|a, b| a.utilization.total_cmp(&b.utilization))
}

/// The bottleneck as far as one run tells.
pub(crate) fn busiest(run: &Run, name: &dyn Fn(u32) -> String) -> Bottleneck {
    let note = "not confirmed by reruns";
    match top(run) {
        Some(r) if r.utilization >= BUSY => Bottleneck {
            class: r.class.to_owned(),
            text: format!(
                "most used: {} of {}, {:.0}% of the time ({note})",
                r.name,
                name(r.machine),
                r.utilization * 100.0
            ),
            group: None,
        },
        _ => Bottleneck {
            class: Resource::Latency.name().to_owned(),
            text: format!(
                "no resource is busy {:.0}% of the time: too little is outstanding ({note})",
                BUSY * 100.0
            ),
            group: None,
        },
    }
}

/// A machine in words, where all are alike.
pub(crate) fn number(machine: u32) -> String {
    format!("machine {machine}")
}

/// The bottleneck from the reruns; `lifts` has the largest first.
pub(crate) fn observed(base: &Run, lifts: &[(Resource, f64)], name: &dyn Fn(u32) -> String) -> Bottleneck {
    let (best, gain) = lifts[0];
    let percent = |gain: f64| format!("{:+.1}%", gain * 100.0);
    let runner_up = lifts.get(1).map_or(String::new(), |(r, gain)| format!(", {r} {}", percent(*gain)));
    let evidence = format!("10% more of {best} changes the rate by {}{runner_up}", percent(gain));
    let (class, text) = match top(base).filter(|r| r.utilization >= BUSY) {
        None => {
            let idle = format!("no resource is busy {:.0}% of the time", BUSY * 100.0);
            (Resource::Latency.name(), format!("{}: {idle}, {evidence}", words(Resource::Latency)))
        }
        Some(busiest) if gain < NOTICEABLE => {
            let which = format!("{} of {}", busiest.name, name(busiest.machine));
            (
                busiest.class,
                format!("{which}: the most used, but no single resource lifts the rate: {evidence}"),
            )
        }
        Some(_) => (best.name(), format!("{}: {evidence}", words(best))),
    };
    Bottleneck { class: class.to_owned(), text, group: None }
}

/// What it means that a resource limits the rate.
pub fn words(resource: Resource) -> &'static str {
    match resource {
        Resource::Cpu => "the cores limit the rate",
        Resource::MmioBandwidth => "PCIe bandwidth for MMIOs limits the rate",
        Resource::DmaBandwidth => "PCIe bandwidth for what the NIC reads by DMA limits the rate",
        Resource::DmaWriteBandwidth => "PCIe bandwidth for what the NIC writes by DMA limits the rate",
        Resource::PcieLatency => "the latency of PCIe transactions limits the rate",
        Resource::TxUnits => "the NIC's sending processing units limit the rate",
        Resource::RxUnits => "the NIC's receiving processing units limit the rate",
        Resource::AtomicLocks => "the NIC's locks for atomics limit the rate",
        Resource::WqeCache => "misses in the NIC's WQE cache limit the rate",
        Resource::QpContextCache => "misses in the NIC's QP-context caches limit the rate",
        Resource::TranslationCache => "misses in the NIC's translation cache limit the rate",
        Resource::LinkBandwidth => "the link's bandwidth limits the rate",
        Resource::Latency => "too little is outstanding to cover the time that an operation takes",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_sim::Metrics;

    fn run(class: &'static str, utilization: f64) -> Run {
        let resource = ResourceUse { class, name: "port 1 out".into(), machine: 3, utilization };
        let metrics = Metrics { resources: vec![resource], ..Metrics::default() };
        Run { threads: Vec::new(), metrics, wall_seconds: 0.0 }
    }

    #[test]
    fn the_largest_lift_names_the_bottleneck_of_a_busy_machine() {
        let lifts = [(Resource::DmaBandwidth, 0.08), (Resource::Cpu, 0.01)];
        assert_eq!(observed(&run("ib-bw", 0.97), &lifts, &number).class, "dma-bw");
        let idle = observed(&run("ib-bw", 0.5), &lifts, &number);
        assert_eq!(idle.class, "latency");
        assert!(idle.text.contains("dma-bw changes the rate by +8.0%"), "{}", idle.text);
    }

    #[test]
    fn where_nothing_lifts_the_busiest_is_named() {
        let nothing = [(Resource::DmaBandwidth, 0.004), (Resource::Cpu, 0.0)];
        let found = observed(&run("ib-bw", 0.97), &nothing, &number);
        assert_eq!(found.class, "ib-bw");
        assert!(found.text.contains("no single resource lifts"), "{}", found.text);
    }

    #[test]
    fn one_run_only_guesses() {
        let found = busiest(&run("ib-bw", 0.97), &number);
        assert_eq!(found.class, "ib-bw");
        assert!(found.text.contains("port 1 out of machine 3") && found.text.contains("not confirmed"));
        assert_eq!(busiest(&run("ib-bw", 0.5), &number).class, "latency");
    }
}
