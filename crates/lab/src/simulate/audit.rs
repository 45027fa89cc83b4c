//! Consistency checks of verbs runs. If a check fails, the simulator, the programs or the measurement
//! contradict each other. This is a fault of Doorbell, and the run has no result.

use crate::results::{Certainty, RawClass, RawRun, rates};
use doorbell_nic::{Digits, Profile, wqe};
use doorbell_programs::steady::{CompletionSeries, TURNS};
use doorbell_programs::worker::{Accounts, ThreadResult};
use doorbell_sim::{Metrics, PcieUse, ResourceUse};
use doorbell_systems::series::Batch;
use doorbell_verbs::QpType;
use doorbell_workload::{Operation, Pattern, Profiles, Resolved, ResolvedClass};

/// Tolerance for rounding errors of shares of time.
const ROUNDING: f64 = 1e-9;

/// Sum of the accounts of all threads.
pub(crate) fn together(threads: &[(u32, ThreadResult)]) -> Accounts {
    let add = |all: Accounts, (_, thread): &(u32, ThreadResult)| {
        let of = thread.accounts;
        Accounts {
            posted: all.posted + of.posted,
            posted_bytes: all.posted_bytes + of.posted_bytes,
            completed_bytes: all.completed_bytes + of.completed_bytes,
            completed: all.completed + of.completed,
            outstanding: all.outstanding + of.outstanding,
            received: all.received + of.received,
            under_way: all.under_way + of.under_way,
        }
    };
    threads.iter().fold(Accounts::default(), add)
}

/// Describes a contradiction in a run, in one sentence; `None` if there is none.
pub(crate) fn fault(profiles: &Profiles, w: &Resolved, run: &RawRun) -> Option<String> {
    let accounts = together(&run.threads);
    fault_of_devices(&run.metrics)
        .or_else(|| posts(&accounts, &run.metrics))
        .or_else(|| messages(w, &accounts, &run.metrics))
        .or_else(|| bytes(w, &accounts, &run.metrics))
        .or_else(|| buses(profiles, w, &run.metrics))
}

/// Describes a contradiction among the counts of the devices, for a run of verbs or of a system.
pub(crate) fn fault_of_devices(metrics: &Metrics) -> Option<String> {
    let of = &metrics.accounts;
    // After a retransmission more may be placed than was posted, because a repeated READ is answered again.
    let placed = (of.placed_bytes > of.posted_bytes && metrics.sent_again.packets == 0)
        .then(|| format!("devices counted {} B posted, but {} B placed", of.posted_bytes, of.placed_bytes));
    let ended = (of.ended > of.posted)
        .then(|| format!("{} work requests ended, but only {} were posted", of.ended, of.posted));
    ended.or(placed).or_else(|| busy(metrics))
}

/// Checks that each posted operation is complete or outstanding. An operation is also complete if a later
/// completion covers it.
fn posts(a: &Accounts, metrics: &Metrics) -> Option<String> {
    let of = &metrics.accounts;
    let Accounts { posted, completed, outstanding, .. } = *a;
    let all = completed + outstanding == posted && of.posted == posted;
    // The devices must have ended every operation that threads counted as complete.
    let ended = completed <= of.ended;
    (!all || !ended).then(|| {
        format!(
            "threads counted {posted} operations posted, {completed} complete and {outstanding} \
             outstanding, but devices counted {} posted and {} ended",
            of.posted, of.ended
        )
    })
}

/// Transport of each thread class.
fn transports(w: &Resolved) -> Vec<QpType> {
    w.classes().iter().map(|class| class.workload.transport).collect()
}

/// Checks that each SEND that ended was received, was dropped, or is in flight.
fn messages(w: &Resolved, a: &Accounts, metrics: &Metrics) -> Option<String> {
    if !w.consumes_recvs() {
        return None;
    }
    let of = &metrics.accounts;
    // For a mix or several transports, it is unknown how many of the ended operations are SENDs.
    let sends = w.operations().iter().all(|operation| operation.verb.consumes_recv());
    let one_transport = transports(w).iter().all(|transport| *transport == w.transport);
    let (came, lost) = (of.received, metrics.dropped + metrics.lost + of.unclaimed);
    let held = a.received <= came
        && match w.transport {
            _ if !sends || !one_transport => came + metrics.dropped <= a.posted,
            // Each acknowledged SEND was received, and each received SEND was posted.
            QpType::Rc => a.completed <= came && came <= a.posted,
            QpType::Uc | QpType::Ud => {
                came + metrics.dropped <= of.ended && of.ended <= came + lost + of.under_way
            }
        };
    (!held).then(|| {
        format!(
            "{} SENDs ended, {} of them known to be complete, but devices counted {came} received and \
             {lost} lost, with {} packets in flight; threads received {}",
            of.ended, a.completed, of.under_way, a.received
        )
    })
}

/// Checks that the payload of each complete operation was placed or got lost.
fn bytes(w: &Resolved, a: &Accounts, metrics: &Metrics) -> Option<String> {
    let of = &metrics.accounts;
    let lost = match transports(w).iter().all(|transport| *transport == QpType::Rc) {
        true => 0,
        false => metrics.dropped + metrics.lost + of.unclaimed + of.under_way,
    };
    // `gone` is the payload of ended operations. If their sizes differ, or on RC, only operations that
    // threads counted as complete are included.
    let gone = match (w.transport, w.only_operation()) {
        (QpType::Uc | QpType::Ud, Some(only)) => of.ended * u64::from(only.size),
        _ => a.completed_bytes,
    };
    let missing = gone > of.placed_bytes + lost * u64::from(w.longest());
    (of.posted_bytes != a.posted_bytes || missing).then(|| {
        format!(
            "threads counted {} B posted and {} B complete, but devices counted {} B posted and {} B placed",
            a.posted_bytes, a.completed_bytes, of.posted_bytes, of.placed_bytes
        )
    })
}

/// Checks that no resource is busy for more than the measured time.
fn busy(metrics: &Metrics) -> Option<String> {
    let over = |r: &&ResourceUse| !(0.0..=1.0 + ROUNDING).contains(&r.utilization);
    let found = metrics.resources.iter().find(over)?;
    let ResourceUse { meter, machine, utilization } = found;
    Some(format!("{meter} of machine {machine} was busy for {utilization:.4} of the time"))
}

/// Checks that no PCIe link moved more payload than its rate allows.
fn buses(profiles: &Profiles, w: &Resolved, metrics: &Metrics) -> Option<String> {
    let seconds = metrics.window_ps as f64 / 1e12;
    metrics.pcie.iter().find_map(|of| bus(profiles.of(w, of.machine), of, seconds))
}

fn bus(profile: &Profile, of: &PcieUse, seconds: f64) -> Option<String> {
    let speed = &profile.device.pcie_speed;
    let all = [
        ("MMIOs", of.mmio_bytes, speed.mmio, waiting_mmios(profile)),
        ("reads by the NIC", of.dma_read_bytes, speed.completion, waiting_reads(profile)),
        ("writes by the NIC", of.dma_write_bytes, speed.device_to_host, waiting_writes(profile)),
    ];
    let over = |(_, bytes, rate, waiting): &&(&str, u64, u64, u64)| {
        bytes.saturating_sub(*waiting) as f64 > *rate as f64 * seconds * (1.0 + ROUNDING)
    };
    let (what, bytes, rate, _) = all.iter().find(over)?;
    let (moved, has) = (*bytes as f64 / seconds / 1e9, *rate as f64 / 1e9);
    Some(format!(
        "{what} of machine {} moved {moved:.2} GB/s over PCIe, which carries at most {has:.2}",
        of.machine
    ))
}

/// Largest payload of one transfer, in bytes.
fn transfer(profile: &Profile) -> u64 {
    profile.device.link.mtu.max(4096).into()
}

/// Bytes of MMIOs that may be counted before the link carries them: the contents of write-combining buffers.
fn waiting_mmios(profile: &Profile) -> u64 {
    u64::from(profile.host.cores) * u64::from(profile.host.wc_buffers + 1) * u64::from(wqe::LINE)
}

fn waiting_reads(profile: &Profile) -> u64 {
    u64::from(profile.device.pcie.max_outstanding_reads) * transfer(profile)
}

/// Bytes of writes that may be counted before the link carries them: a port's receive buffer, one transfer
/// per unit, and completions of some send queues.
fn waiting_writes(profile: &Profile) -> u64 {
    let units = u64::from(profile.device.rx.units + 1) * transfer(profile);
    let completions = u64::from(profile.device.nic.max_qp_wr) * u64::from(wqe::LINE);
    u64::from(profile.device.link.receive_buffer) + units + completions
}

/// Explains why the measured values may differ from the long-run values although their intervals are narrow:
/// in one sentence without a full stop. For example, the measured time may contain only the end of some
/// operations and the beginning of other ones.
pub(crate) fn doubt(
    w: &Resolved,
    profiles: &Profiles,
    run: &RawRun,
    series: &CompletionSeries,
) -> Option<String> {
    long(run, series).or_else(|| little(run, series)).or_else(|| goodput(w, profiles, run))
}

/// Finds operations that are too long for the measured time. An operation as long as the measured time
/// completes only at its end, or after it.
fn long(run: &RawRun, series: &CompletionSeries) -> Option<String> {
    let (longest, time) = (series.longest(), run.shown.span().as_ps());
    (longest > time / TURNS).then(|| {
        let (ns, times) = (Digits(longest as f64 / 1e3, 0), TURNS);
        format!("an operation took {ns} ns, but the measured time is less than {times} times as long")
    })
}

/// Checks Little's law for signalled operations: the mean number of outstanding operations is the rate times
/// the mean latency. The tolerance is the sum of both relative half-widths, plus an allowance for operations
/// that are only partly in the measured time.
fn little(run: &RawRun, series: &CompletionSeries) -> Option<String> {
    let Certainty { mops, latency_ns, .. } = &run.shown.certainty;
    let all = Batch::all(series.batches());
    let (under_way, told) = (together(&run.threads).under_way as f64, all.latency as f64);
    let (mean, time) = (told / all.timed.max(1) as f64, run.shown.span().as_ps() as f64);
    let rate = run.shown.evened.unwrap_or(all.completed as f64 / time * 1e6);
    // Without known intervals, nothing can be checked.
    let within = mops.map(|half| half / rate)? + latency_ns.map(|half| half * 1e3 / mean)?;
    let ends = 2.0 * mean / time;
    ((told - under_way).abs() > (within + ends) * under_way).then(|| {
        let (held, product) = (Digits(under_way / time, 0), Digits(told / time, 0));
        format!("{held} operations were outstanding on average, but rate times mean latency is {product}")
    })
}

/// Checks that ports carry no more payload than their rate allows.
fn goodput(w: &Resolved, profiles: &Profiles, run: &RawRun) -> Option<String> {
    let ports = |profile: &Profile| u64::from(profile.device.link.ports.min(w.ports.unwrap_or(u32::MAX)));
    let of_machine = profiles.all().map(|p| ports(p) * p.device.link.port_bytes_per_s).max()?;
    let patterns: Vec<Pattern> = w.classes().iter().map(|class| class.workload.pattern).collect();
    let machines = match patterns.contains(&Pattern::AllToAll) {
        true => u64::from(w.machines),
        // With several patterns, posts to machine 0 and posts by machine 0 use different directions of its
        // link.
        false if patterns.iter().any(|pattern| *pattern != w.pattern) => 2,
        false => 1,
    };
    let most = (of_machine * machines) as f64;
    // Payload to responders and returned payload use different directions of a link.
    let returns = |operation: &Operation| operation.opcode.returns_data();
    let rate = payload(w, run, |o| !returns(o)).max(payload(w, run, returns));
    let gbits = |bytes: f64| Digits(bytes * 8.0 / 1e9, 0);
    (rate > most * (1.0 + ROUNDING)).then(|| {
        format!(
            "{} Gb/s of payload completed, but ports carry at most {}: part of the payload arrived before \
             the measured time",
            gbits(rate),
            gbits(most)
        )
    })
}

/// Completed payload of the selected operation kinds, in bytes per second.
fn payload(w: &Resolved, run: &RawRun, of: impl Fn(&Operation) -> bool) -> f64 {
    let seconds = run.shown.span().as_secs_f64();
    if let (false, [one]) = (w.has_classes(), w.operations()) {
        return if of(one) { rates(w, run).iter().sum::<f64>() * 1e6 * f64::from(one.size) } else { 0.0 };
    }
    let of_class = |(class, seen): (ResolvedClass<'_>, &RawClass)| match class.workload.operations() {
        [one] if of(one) => seen.completed as f64 * f64::from(one.size),
        [_] => 0.0,
        kinds => {
            let known = kinds.iter().zip(&seen.kinds).filter(|(kind, _)| of(kind));
            known.map(|(kind, seen)| seen.completed as f64 * f64::from(kind.size)).sum()
        }
    };
    w.classes().into_iter().zip(&run.classes).map(of_class).sum::<f64>() / seconds
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Control, Run};
    use crate::simulate::verbs::run_once;
    use crate::{Workload, simulate};
    use doorbell_programs::steady::Stop;
    use std::sync::Arc;

    const SMALL: &str = "machines = 3\nthreads = 2\nwarmup = \"10us\"\nduration = \"40us\"\n";

    fn resolved(toml: &str) -> (Profiles, Arc<Resolved>) {
        let workload = Workload::from_toml("test", &format!("{SMALL}{toml}")).unwrap();
        let profiles = workload.load_profiles().unwrap();
        let resolved = workload.resolve(&profiles).unwrap();
        (profiles, Arc::new(resolved))
    }

    /// The contradiction that the audit finds after `change` has altered the run's results.
    fn found(toml: &str, change: impl FnOnce(&mut RawRun)) -> Option<String> {
        let (profiles, w) = resolved(toml);
        let control = Control::quiet();
        let mut run = run_once(&profiles, &w, &Stop::default(), control.watch).unwrap();
        change(&mut run);
        fault(&profiles, &w, &run)
    }

    const SENDS: &str = "verb = \"send\"";
    const READS: &str = "verb = \"read\"\nsize = 64";
    const WRITES: &str = "verb = \"write\"\nsize = 300\ntransport = \"uc\"";

    #[test]
    fn runs_hold() {
        for toml in [SENDS, READS, WRITES, "verb = \"send\"\ntransport = \"rc\"", "verb = \"fetch-add\""] {
            assert_eq!(found(toml, |_| ()), None);
        }
    }

    #[test]
    fn what_vanishes_or_comes_from_nowhere_is_found() {
        for toml in [SENDS, READS, WRITES] {
            assert!(found(toml, |run| run.metrics.accounts.posted += 1).unwrap().contains("posted"));
            assert!(found(toml, |run| run.threads[0].1.accounts.completed += 1).is_some());
            assert!(found(toml, |run| run.threads[0].1.accounts.outstanding += 1).is_some());
            assert!(found(toml, |run| run.metrics.accounts.placed_bytes *= 2).unwrap().contains("B placed"));
            assert!(found(toml, |run| run.metrics.accounts.placed_bytes /= 2).unwrap().contains("B placed"));
            assert!(found(toml, |run| run.metrics.accounts.ended = 0).is_some());
        }
        assert!(found(SENDS, |run| run.metrics.accounts.received /= 2).unwrap().contains("SENDs"));
        assert!(found(SENDS, |run| run.metrics.dropped += 1000).unwrap().contains("SENDs"));
        assert!(found(SENDS, |run| run.threads[0].1.accounts.received += 1 << 40).unwrap().contains("SENDs"));
    }

    #[test]
    fn what_is_faster_than_it_can_be_is_found() {
        let busy = found(READS, |run| run.metrics.resources[3].utilization = 1.001).unwrap();
        assert!(busy.contains("was busy for 1.0010 of the time"), "{busy}");
        let of = |change: fn(&mut PcieUse)| found(READS, |run| change(&mut run.metrics.pcie[0])).unwrap();
        assert!(of(|pcie| pcie.mmio_bytes += 10_000_000).contains("MMIOs of machine 0 moved"));
        assert!(of(|pcie| pcie.dma_read_bytes += 10_000_000).contains("reads by the NIC of machine 0 moved"));
        assert!(
            of(|pcie| pcie.dma_write_bytes += 10_000_000).contains("writes by the NIC of machine 0 moved")
        );
    }

    fn doubted(toml: &str) -> Option<String> {
        let (profiles, w) = resolved(toml);
        simulate(&Run::verbs(profiles, (*w).clone()), &Control::quiet()).unwrap().interval.unsettled
    }

    #[test]
    fn a_time_that_is_too_short_for_what_it_measures_is_told() {
        assert_eq!(doubted(READS), None);
        let long = doubted("verb = \"read\"\nsize = 20000\nwindow = 20").unwrap();
        assert!(long.contains("the measured time is less than 4 times as long"), "{long}");
    }

    #[test]
    fn what_was_under_way_must_be_rate_times_latency() {
        let (profiles, w) = resolved(READS);
        let control = Control::quiet();
        let mut run = run_once(&profiles, &w, &Stop::default(), control.watch).unwrap();
        let mut series = CompletionSeries::new(doorbell_verbs::Time::START, 20, false);
        let (timed, latency) = (1000, doorbell_verbs::Span::from_ns(100));
        for n in 0..timed {
            let at = doorbell_verbs::Time::from_ps(n << 20);
            series.add(doorbell_systems::series::SeriesPoint {
                at,
                completed: 1,
                since: None,
                latency: Some(latency),
            });
        }
        run.shown.certainty.mops = Some(1e-3);
        run.shown.certainty.latency_ns = Some(0.1);
        run.threads.iter_mut().for_each(|(_, thread)| thread.accounts.under_way = 0);
        run.threads[0].1.accounts.under_way = u128::from(timed * latency.as_ps());
        assert_eq!(little(&run, &series), None);
        run.threads[0].1.accounts.under_way *= 2;
        assert!(little(&run, &series).unwrap().contains("operations were outstanding"), "twice as many");
    }
}
