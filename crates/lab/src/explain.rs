//! What limits a workload: observed by reruns, or guessed from use.

use crate::plan::{Control, Run, execute};
use crate::results::{Bottleneck, GroupLift, Lift, Of, Outcome, Ran, Utilization};
use crate::simulate::SimulateError;
use crate::systems::{SystemOutcome, SystemWorkload};
use doorbell_nic::{Profile, Resource};
use doorbell_workload::{Profiles, Resolved};
use std::sync::{Arc, Mutex};

/// Each resource in turn is made this much faster.
pub(crate) const RELAXED: (u64, u64) = (11, 10);

/// A resource busy for at least this share of the time can be what limits the rate. Where none is,
/// operations spend their time on their way.
const BUSY: f64 = 0.8;

/// A lift below this is no lift: several resources bind at once, or the difference is chance.
const NOTICEABLE: f64 = 0.01;

/// Runs of an explanation: the workload itself and one per resource.
pub const EXPLAIN_RUNS: u64 = 1 + Resource::ALL.len() as u64;

/// Runs the workload once. Its bottleneck is the resource that was busiest, not confirmed.
pub fn simulate(profiles: &Profiles, w: &Resolved, control: &Control<'_>) -> Result<Outcome, SimulateError> {
    once(&Run::verbs(profiles.clone(), w.clone()), control).map(|ran| Arc::unwrap_or_clone(ran.verbs()))
}

/// Runs the workload, and again with 10% more of each resource. Its bottleneck is the resource that
/// lifts the rate most. Where machines differ, that one is relaxed on each group alone, too.
pub fn explain(profiles: &Profiles, w: &Resolved, control: &Control<'_>) -> Result<Outcome, SimulateError> {
    let run = Run::verbs(profiles.clone(), w.clone());
    let mut outcome = Arc::unwrap_or_clone(again(&run, control)?.verbs());
    let best = outcome.lift.first().filter(|lift| lift.gain >= NOTICEABLE).map(|lift| lift.resource.clone());
    let resource = Resource::ALL.into_iter().find(|r| best.as_deref() == Some(r.name()));
    if let Some(resource) =
        resource.filter(|_| outcome.lift.len() == Resource::ALL.len() && !profiles.are_alike())
    {
        outcome.group_lift = by_group(&run, resource, outcome.mops, control)?;
        name_group(&mut outcome.bottleneck, w, &outcome.group_lift);
    }
    Ok(outcome)
}

/// Runs a system once. Its bottleneck is the resource that was busiest, not confirmed.
///
/// # Errors
/// If a parameter does not fit, or the run was stopped.
pub fn simulate_system(
    profile: &Profile,
    w: &SystemWorkload,
    control: &Control<'_>,
) -> Result<SystemOutcome, SimulateError> {
    once(&Run::system(profile, w.clone()), control).map(|ran| ran.system())
}

/// Runs a system, and again with 10% more of each resource. Its bottleneck is the resource that lifts
/// the rate most.
///
/// # Errors
/// As [`simulate_system`].
pub fn explain_system(
    profile: &Profile,
    w: &SystemWorkload,
    control: &Control<'_>,
) -> Result<SystemOutcome, SimulateError> {
    again(&Run::system(profile, w.clone()), control).map(|ran| ran.system())
}

fn once(run: &Run, control: &Control<'_>) -> Result<Ran, SimulateError> {
    control.watch.planned(1);
    let ran = run.run(&control.stop(), control.watch)?;
    control.watch.done(run.name());
    Ok(ran)
}

/// Makes runs; what each gave, or nothing where somebody stopped it.
fn all(runs: &[Run], names: &[&str], control: &Control<'_>) -> Result<Vec<Option<Ran>>, SimulateError> {
    control.watch.planned(runs.len() as u64);
    let ended: Mutex<Vec<Option<Result<Ran, SimulateError>>>> = Mutex::new(vec![None; runs.len()]);
    execute(runs, control, &|number, result| {
        ended.lock().unwrap_or_else(|e| e.into_inner())[number] = Some(result);
        control.watch.done(names[number]);
    });
    let ended = ended.into_inner().unwrap_or_else(|e| e.into_inner());
    // What fails keeps others from beginning: it says more than that they did not.
    if let Some(error) = ended.iter().flatten().find_map(|e| e.as_ref().err().filter(|e| !e.is_interrupt())) {
        return Err(error.clone());
    }
    Ok(ended.into_iter().map(|result| result?.ok()).collect())
}

fn again(run: &Run, control: &Control<'_>) -> Result<Ran, SimulateError> {
    let base = once(run, control)?;
    // Of the others the rerun would be the same run.
    let (same, other): (Vec<Resource>, Vec<Resource>) =
        Resource::ALL.into_iter().partition(|resource| base.without_effect.contains(resource));
    let runs: Vec<Run> = other.iter().map(|resource| run.relaxed(*resource)).collect();
    let names: Vec<&str> = other.iter().map(|resource| resource.name()).collect();
    let made = other.into_iter().zip(all(&runs, &names, control)?);
    let mut lifts: Vec<(Resource, f64)> =
        made.filter_map(|(resource, ran)| Some((resource, gain(base.rate(), ran?.rate())))).collect();
    lifts.extend(same.into_iter().map(|resource| (resource, 0.0)));
    Ok(explained(&base, lifts))
}

/// A run with what reruns with each resource relaxed have shown: what limits it, if all were made.
pub(crate) fn explained(base: &Ran, mut lifts: Vec<(Resource, f64)>) -> Ran {
    // Of equal ones in the order of the list.
    lifts.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let name = |machine| base.machine_name(machine);
    let resources = match &base.of {
        Of::Verbs(outcome) => outcome.resources.clone(),
        Of::System(outcome) => outcome.workload.of_operations(&outcome.resources),
    };
    let bottleneck = match lifts.len() == Resource::ALL.len() {
        true => observed(&resources, &lifts, &name),
        false => busiest(&resources, &name),
    };
    base.with(bottleneck, told(&lifts))
}

fn told(lifts: &[(Resource, f64)]) -> Vec<Lift> {
    lifts.iter().map(|(r, gain)| Lift { resource: r.name().to_owned(), gain: *gain }).collect()
}

/// What a resource brings on each group alone; of an interrupted explanation, for those groups that were run.
fn by_group(
    run: &Run,
    resource: Resource,
    mops: f64,
    control: &Control<'_>,
) -> Result<Vec<GroupLift>, SimulateError> {
    let groups = run.profiles.all().count();
    let runs: Vec<Run> = (0..groups).map(|group| run.relaxed_group(group, resource)).collect();
    let ended = all(&runs, &vec![resource.name(); groups], control)?;
    let lift = |(group, ran): (usize, Option<Ran>)| {
        Some(GroupLift { group, resource: resource.name().to_owned(), gain: gain(mops, ran?.rate()) })
    };
    Ok(ended.into_iter().enumerate().filter_map(lift).collect())
}

/// Says which group it is whose resource matters, if it is one.
fn name_group(bottleneck: &mut Bottleneck, w: &Resolved, lifts: &[GroupLift]) {
    let Some(most) = lifts.iter().max_by(|a, b| a.gain.total_cmp(&b.gain)) else { return };
    let names = w.group_names();
    let name = |group: usize| names.get(group).map_or("", String::as_str);
    let each: Vec<String> =
        lifts.iter().map(|lift| format!("{} on {}", percent(lift.gain), name(lift.group))).collect();
    let (resource, each) = (&most.resource, each.join(", "));
    bottleneck.text += &match most.gain < NOTICEABLE {
        true => format!("; no group's {resource} matters alone: {each}"),
        false => format!("; it is the {resource} of {} that matters: {each}", name(most.group)),
    };
    bottleneck.group = (most.gain >= NOTICEABLE).then_some(most.group);
}

/// A relative change in words: 0.1 is +10.0%. One that is as good as none has no sign of a loss.
pub fn percent(gain: f64) -> String {
    format!("{:+.1}%", (gain * 1000.0).round() / 10.0 + 0.0)
}

pub(crate) fn gain(base: f64, relaxed: f64) -> f64 {
    if base > 0.0 { relaxed / base - 1.0 } else { 0.0 }
}

/// The resource that was busiest.
fn top(resources: &[Utilization]) -> Option<&Utilization> {
    resources.iter().max_by(|a, b| a.utilization.total_cmp(&b.utilization))
}

/// The bottleneck as far as one run tells.
pub(crate) fn busiest(resources: &[Utilization], name: &dyn Fn(u32) -> String) -> Bottleneck {
    let note = "not confirmed by reruns";
    match top(resources) {
        Some(r) if r.utilization >= BUSY => Bottleneck {
            class: r.class.name().to_owned(),
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

/// The bottleneck from the reruns; `lifts` has the largest first.
fn observed(
    resources: &[Utilization],
    lifts: &[(Resource, f64)],
    name: &dyn Fn(u32) -> String,
) -> Bottleneck {
    let (best, gain) = lifts[0];
    let runner_up = lifts.get(1).map_or(String::new(), |(r, gain)| format!(", {r} {}", percent(*gain)));
    let evidence = format!("10% more of {best} changes the rate by {}{runner_up}", percent(gain));
    let (class, text) = match top(resources).filter(|r| r.utilization >= BUSY) {
        None => {
            let idle = format!("no resource is busy {:.0}% of the time", BUSY * 100.0);
            (Resource::Latency.name(), format!("{}: {idle}, {evidence}", words(Resource::Latency)))
        }
        Some(busiest) if gain < NOTICEABLE => {
            let which = format!("{} of {}", busiest.name, name(busiest.machine));
            (
                busiest.class.name(),
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
    use doorbell_nic::Part;

    fn number(machine: u32) -> String {
        format!("machine {machine}")
    }

    fn run(class: Resource, utilization: f64) -> [Utilization; 1] {
        [Utilization { class, part: Part::PortOut, name: "port 1 out".into(), machine: 3, utilization }]
    }

    #[test]
    fn no_change_is_no_loss() {
        let told = [0.1, -0.025, 0.0, -0.0, -0.0004, 1e-9].map(percent);
        assert_eq!(told, ["+10.0%", "-2.5%", "+0.0%", "+0.0%", "+0.0%", "+0.0%"]);
    }

    #[test]
    fn the_largest_lift_names_the_bottleneck_of_a_busy_machine() {
        let lifts = [(Resource::DmaBandwidth, 0.08), (Resource::Cpu, 0.01)];
        assert_eq!(observed(&run(Resource::LinkBandwidth, 0.97), &lifts, &number).class, "dma-bw");
        let idle = observed(&run(Resource::LinkBandwidth, 0.5), &lifts, &number);
        assert_eq!(idle.class, "latency");
        assert!(idle.text.contains("dma-bw changes the rate by +8.0%"), "{}", idle.text);
    }

    #[test]
    fn where_nothing_lifts_the_busiest_is_named() {
        let nothing = [(Resource::DmaBandwidth, 0.004), (Resource::Cpu, 0.0)];
        let found = observed(&run(Resource::LinkBandwidth, 0.97), &nothing, &number);
        assert_eq!(found.class, "ib-bw");
        assert!(found.text.contains("no single resource lifts"), "{}", found.text);
    }

    #[test]
    fn one_run_only_guesses() {
        let found = busiest(&run(Resource::LinkBandwidth, 0.97), &number);
        assert_eq!(found.class, "ib-bw");
        assert!(found.text.contains("port 1 out of machine 3") && found.text.contains("not confirmed"));
        assert_eq!(busiest(&run(Resource::LinkBandwidth, 0.5), &number).class, "latency");
    }
}
