//! The bottleneck according to a single run.

use super::bottleneck::Bottleneck;
use super::uses::Utilization;
use doorbell_nic::Resource;

/// A resource that is busy for at least this share of the time may limit the rate. If no resource is so busy,
/// latency limits the rate.
pub(crate) const BUSY: f64 = 0.8;

/// The busiest resource.
pub(crate) fn top<'a>(resources: impl Iterator<Item = &'a Utilization>) -> Option<&'a Utilization> {
    resources.max_by(|a, b| a.utilization.total_cmp(&b.utilization))
}

/// A latency bottleneck with this description. It means that too few operations are outstanding.
pub(crate) fn latency(text: String) -> Bottleneck {
    Bottleneck { class: Some(Resource::Latency), text, group: None }
}

/// The bottleneck according to a single run. `completed` tells whether any operation completed, and `name`
/// names a machine.
pub(crate) fn busiest(
    resources: &[Utilization],
    completed: bool,
    name: &dyn Fn(u32) -> String,
) -> Bottleneck {
    let note = "not confirmed by reruns";
    match top(resources.iter()) {
        _ if !completed => Bottleneck { class: None, text: "no operation completed".into(), group: None },
        Some(r) if r.utilization >= BUSY => Bottleneck {
            class: Some(r.class()),
            text: format!(
                "most used: {} of {}, {:.0}% of the time ({note})",
                r.meter,
                name(r.machine),
                r.utilization * 100.0
            ),
            group: None,
        },
        _ => latency(format!(
            "no resource is busy {:.0}% of the time: too few operations are outstanding ({note})",
            BUSY * 100.0
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_sim::Meter;

    fn number(machine: u32) -> String {
        format!("machine {machine}")
    }

    fn used(utilization: f64) -> Utilization {
        Utilization { meter: Meter::port_out(1), machine: 3, utilization }
    }

    #[test]
    fn one_run_only_guesses() {
        let found = busiest(&[used(0.97)], true, &number);
        assert_eq!(found.class, Some(Resource::LinkBandwidth));
        assert!(found.text.contains("port 1 out of machine 3") && found.text.contains("not confirmed"));
        assert_eq!(busiest(&[used(0.5)], true, &number).class, Some(Resource::Latency));
        assert_eq!(busiest(&[used(0.97)], false, &number).class, None);
    }
}
