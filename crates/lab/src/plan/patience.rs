//! Refuses workloads with operations that are too long for a result within the maximum of the virtual time.

use crate::limits::{least_latency, limits, outstanding};
use doorbell_nic::Digits;
use doorbell_programs::steady::FEWEST;
use doorbell_schema::Duration;
use doorbell_verbs::Span;
use doorbell_workload::{Profiles, Resolved, WorkloadError};

/// Refuses a workload without a given duration if its bounds leave fewer than [`FEWEST`] operations in the
/// maximum of the virtual time. Threads that think are not refused, because their runs are short.
///
/// # Errors
/// One sentence with the most operations that can complete.
pub(super) fn refuse(profiles: &Profiles, w: &Resolved) -> Result<(), WorkloadError> {
    let classes = w.classes();
    let thinks =
        classes.iter().any(|class| class.workload.think().is_some_and(|think| think.span() > Span::ZERO));
    if w.duration.is_some() || thinks {
        return Ok(());
    }
    let Some(bound) = limits(profiles, w).into_iter().next() else { return Ok(()) };
    let due: u64 = classes.iter().filter_map(|class| Some(class.workload.open_loop()?.1)).sum();
    // In a closed loop, the first operations complete after as long as all outstanding operations take.
    let closed = classes.iter().filter(|class| class.workload.open_loop().is_none());
    let waiting: u64 = closed.map(|class| outstanding(class.workload)).sum();
    let seconds = w.max_time.span().as_secs_f64();
    let per_second = bound.mops * 1e6;
    let most = per_second * seconds - waiting as f64;
    if most >= FEWEST as f64 || due > 0 && per_second >= due as f64 {
        return Ok(());
    }
    let least = Duration::new(least_latency(profiles, w));
    let waits = match waiting {
        0 | 1 => String::new(),
        _ => format!(", and each waits for {waiting} outstanding operations"),
    };
    Err(WorkloadError::Invalid(format!(
        "operations are too long for a result in the {} of virtual time (max_time): {} bounds them to {} per \
         second{waits}, but an interval needs at least {FEWEST} operations, and one takes at least {least}: use \
         a smaller size or window, or a longer max_time",
        w.max_time,
        bound.resource,
        Digits(per_second, 1),
    )))
}

#[cfg(test)]
mod tests {
    use crate::plan::Run;
    use crate::{Asked, fields};
    use doorbell_schema::Given;

    fn refusal(toml: &str) -> Option<String> {
        let given = Given::from_toml("w.toml", toml, &fields()).unwrap();
        Run::asked(Asked::of(&given).unwrap()).err().map(|error| error.to_string())
    }

    #[test]
    fn operations_of_a_gibibyte_are_refused() {
        let one = "verb = \"read\"\nsize = 1073741824\nmachines = 2\nthreads = 1\nwindow = 1";
        let said = refusal(one).unwrap();
        let parts = ["in the 1s of virtual time (max_time)", "per second, but an interval needs at least 10"];
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
        let many = refusal("verb = \"read\"\nsize = 33554432").unwrap();
        assert!(many.contains("each waits for 1568 outstanding operations"), "{many}");
        for rest in ["duration = \"1s\"", "max_time = \"10s\""] {
            assert_eq!(refusal(&format!("{one}\n{rest}")), None);
        }
    }

    #[test]
    fn usual_workloads_are_not_refused() {
        for toml in [
            "",
            "verb = \"read\"\nsize = 1048576\nmachines = 2\nthreads = 1",
            "verb = \"read\"\narrivals = \"poisson\"\nrate = 5",
            "verb = \"read\"\nwindow = 1\nthink = \"1s\"",
        ] {
            assert_eq!(refusal(toml), None, "{toml}");
        }
    }
}
