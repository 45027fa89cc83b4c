//! Refuses workloads with operations that are too long for a result.

use doorbell_nic::{Digits, counted};
use doorbell_programs::steady::FEWEST;
use doorbell_verbs::Span;
use doorbell_workload::limits::{least_latency, limits, outstanding};
use doorbell_workload::{Profiles, Resolved, ResolvedClass, WorkloadError, topology};

/// Largest payload of the operations that are simulated before a result, in bytes: [`FEWEST`] operations, and
/// those that are partly done by then. Their simulation takes about 15 seconds.
const MOST_BYTES: u64 = 4 << 30;

const GIB: f64 = (1 << 30) as f64;

/// Refuses a workload without a given duration in two cases: its bounds leave fewer than [`FEWEST`]
/// operations in the maximum of the virtual time, or so many operations have too much payload. Threads that
/// think are not refused, because their runs are short.
///
/// # Errors
/// One sentence with the most operations that can complete, or with their payload.
pub(super) fn refuse(profiles: &Profiles, w: &Resolved) -> Result<(), WorkloadError> {
    let classes = w.classes();
    let thinks =
        classes.iter().any(|class| class.workload.think().is_some_and(|think| think.span() > Span::ZERO));
    if w.duration.is_some() || thinks {
        return Ok(());
    }
    let Some(bound) = limits(profiles, w).into_iter().next() else { return Ok(()) };
    let due: u64 = classes.iter().filter_map(|class| Some(class.workload.open_loop()?.1)).sum();
    let begun: u64 = classes.iter().map(begun).sum();
    let longest = classes.iter().map(|class| class.workload.longest()).max().unwrap_or(0);
    let bytes = (FEWEST + begun) * u64::from(longest);
    let per_second = bound.mops * 1e6;
    let most = per_second * w.max_time.span().as_secs_f64() - begun as f64;
    let is_slow = most < FEWEST as f64 && (due == 0 || per_second < due as f64);
    let ms = Digits(least_latency(profiles, w).as_ps() as f64 / 1e9, 1);
    let why = match is_slow {
        true => format!(
            "{} bounds them to {} per second, so at most {} complete in the {} of virtual time (max_time)",
            bound.resource,
            Digits(per_second, 1),
            counted(most.max(0.0) as u64, "operation"),
            w.max_time,
        ),
        false if bytes > MOST_BYTES => format!(
            "with {} in progress, so many have {} GiB of payload, and more than {} GiB take too long to \
             simulate",
            counted(begun, "other operation"),
            Digits(bytes as f64 / GIB, 1),
            Digits(MOST_BYTES as f64 / GIB, 1),
        ),
        false => return Ok(()),
    };
    Err(WorkloadError::TooLong(format!(
        "operations are too long for a result: one takes at least {ms} ms, and an interval needs at least \
         {FEWEST} operations, but {why}: use a smaller size, or give a duration"
    )))
}

/// Operations of a closed loop that may be partly done at a time. The operations of a QP complete in order,
/// so each QP has at most one of them.
fn begun(class: &ResolvedClass<'_>) -> u64 {
    let w = class.workload;
    let qps = topology::posting_owners(w) * u64::from(w.qps);
    if w.open_loop().is_some() { 0 } else { outstanding(w).min(qps) }
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
        let parts =
            ["in the 1s of virtual time (max_time)", " ms, and an interval needs at least 10 operations"];
        assert!(parts.iter().all(|part| said.contains(part)), "{said}");
        assert_eq!(refusal(&format!("{one}\nduration = \"1s\"")), None);
        // A longer time has enough operations, but they take too long to simulate.
        let long = refusal(&format!("{one}\nmax_time = \"10s\"")).unwrap();
        assert!(
            long.contains(
                "but with 1 other operation in progress, so many have 11.0 GiB of payload, and more"
            ),
            "{long}"
        );
        let half = refusal(&one.replace("1073741824", "536870912")).unwrap();
        assert!(half.contains("5.50 GiB of payload"), "{half}");
    }

    #[test]
    fn outstanding_operations_of_a_qp_complete_one_by_one() {
        let few = "verb = \"read\"\nsize = 268435456\nmachines = 2\nthreads = 1\nwindow = 16";
        assert_eq!(refusal(few), None);
        // With many QPs, each has an operation in progress.
        let many = "verb = \"read\"\nsize = 33554432\nmachines = 8\nthreads = 14\nqps = 2\nwindow = 16";
        assert!(refusal(many).unwrap().contains("operations are too long for a result"));
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
