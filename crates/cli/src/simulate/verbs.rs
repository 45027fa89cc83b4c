//! The report of a verbs run.

use super::limited::limited;
use super::tail::tail;
use crate::explained;
use crate::extrapolation::Told;
use crate::posted;
use crate::report::{self, mean, percentile, within};
use crate::table::{self, Align};
use crate::workload;
use doorbell_lab::{OfVerbs, Outcome, Pattern, Profiles, Resolved, Until};
use doorbell_nic::{Digits, counted};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

/// The report of a run on machines with these profiles.
pub(super) fn text(told: &Told<'_, Outcome>, of: &OfVerbs, profiles: &Profiles) -> String {
    let o = told.result;
    let w = &of.workload;
    let mut rows = workload::rows(profiles, w);
    rows.extend(report::times((w.warmup, w.duration), (w.precision, w.until), &o.measured));
    let mut text = format!("Workload\n{}{}", table::pairs(rows), workload::classes(profiles, w));
    let result = table::pairs(results(told));
    let _ = write!(text, "\nResult\n{result}");
    text += &report::unsettled(&o.interval);
    if !of.classes.is_empty() {
        let _ = write!(text, "\nClasses of threads\n{}", posted::classes(o));
    }
    if !of.kinds.is_empty() {
        let _ = write!(text, "\nItems of the mix\n{}", posted::kinds(o));
    }
    text += &limited(told);
    if let Some(time) = &of.operation_time {
        text += &explained::time(time);
    }
    // Only an explained run has advice.
    match o.lift.is_empty() {
        true => {}
        false if w.has_classes() => text += explained::NO_ADVICE_OF_CLASSES,
        false => text += &explained::advice(o.advice.as_deref()),
    }
    let _ = write!(text, "\nUse of resources\n{}", resources(o));
    let caches = caches(o);
    if !caches.is_empty() {
        let _ = write!(text, "\nCaches of the NICs\n{caches}");
    }
    let _ = write!(text, "\nPCIe\n{}", pcie(o));
    let _ = writeln!(
        text,
        "\n{} verbs and {} events in {:.2} s ({:.2} million verbs per second)",
        of.work_requests,
        o.events,
        o.wall_seconds,
        of.work_requests as f64 / o.wall_seconds / 1e6
    );
    text
}

fn results(told: &Told<'_, Outcome>) -> Vec<(&'static str, String)> {
    let o = told.result;
    let busiest = o.verbs().mops_per_machine.iter().copied().fold(0.0, f64::max);
    let mean = mean(o.latency_ns.mean, o.interval.latency_ns);
    let payload = Digits(posted::gigabits(o), 2);
    let mut rows = vec![
        ("rate", format!("{}{} Mops, {payload} Gb/s of payload", Digits(o.mops, 2), within(o.interval.mops))),
        ("busiest machine", format!("{} Mops", Digits(busiest, 2))),
        ("dropped", counted(o.dropped, "message")),
        ("latency, mean", mean),
        ("latency, p50", percentile(o.latency_ns.p50, o.interval.p50_ns)),
        ("latency, p99", tail(told, Until::P99, o.latency_ns.p99, o.interval.p99_ns)),
        ("latency, p99.9", tail(told, Until::P999, o.latency_ns.p999, o.interval.p999_ns)),
        ("latency with", o.latency_with()),
    ];
    if let Some(again) = o.sent_again.words() {
        rows.insert(3, ("sent again", again));
    }
    rows
}

/// Table of resources. Each kind of resource has one line, with the busiest resource and the mean. If a
/// machine has several resources of a kind, their names end in a number.
fn resources(o: &Outcome) -> String {
    let mut kinds: BTreeMap<String, Vec<&doorbell_lab::Utilization>> = BTreeMap::new();
    for r in &o.resources {
        kinds.entry(r.meter.kind().to_string()).or_default().push(r);
    }
    let row = |(kind, all): (String, Vec<&doorbell_lab::Utilization>)| {
        let busiest = all.iter().max_by(|a, b| a.utilization.total_cmp(&b.utilization))?;
        let mean = all.iter().map(|r| r.utilization).sum::<f64>() / all.len() as f64;
        Some(vec![
            kind,
            format!("{}%", Digits(busiest.utilization * 100.0, 1)),
            format!("{} of {}", busiest.meter, o.verbs().workload.machine_name(busiest.machine)),
            format!("{}%", Digits(mean * 100.0, 1)),
            all.len().to_string(),
        ])
    };
    let header = [
        ("", Align::Left),
        ("busiest", Align::Right),
        ("", Align::Left),
        ("mean", Align::Right),
        ("count", Align::Right),
    ];
    table::columns(&header, kinds.into_iter().filter_map(row).collect())
}

/// Machine 0, and all other machines under the name `others`. If machines differ, the groups of machines
/// instead.
fn parts(w: &Resolved, others: &str) -> Vec<(String, Range<u32>)> {
    if !w.has_groups() {
        return vec![("machine 0".into(), 0..1), (others.to_owned(), 1..w.machines)];
    }
    let named = w.parts().into_iter().map(|(group, machines)| (w.name_of(group, &machines), machines));
    named.collect()
}

fn caches(o: &Outcome) -> String {
    let parts = parts(&o.verbs().workload, "others");
    let mut sums: BTreeMap<(&str, usize), (u64, u64)> = BTreeMap::new();
    for c in &o.caches {
        let whose = parts.iter().position(|(_, machines)| machines.contains(&c.machine)).unwrap_or(0);
        let sum = sums.entry((c.cache.name(), whose)).or_default();
        *sum = (sum.0 + c.hits, sum.1 + c.misses);
    }
    let used = sums.into_iter().filter(|(_, (hits, misses))| hits + misses > 0);
    let row = |((name, whose), (hits, misses)): ((&str, usize), (u64, u64))| {
        let rate = hits as f64 / (hits + misses) as f64 * 100.0;
        vec![
            name.into(),
            parts[whose].0.clone(),
            format!("{}%", Digits(rate, 2)),
            hits.to_string(),
            misses.to_string(),
        ]
    };
    let rows: Vec<_> = used.map(row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let header = [
        ("", Align::Left),
        ("", Align::Left),
        ("hit rate", Align::Right),
        ("hits", Align::Right),
        ("misses", Align::Right),
    ];
    table::columns(&header, rows)
}

/// Millions of operations per second in which these machines take part. All of them have one role. With
/// all-to-all, only the operations that the machines count are included, and the machines answer about as
/// many. `None` if the number is unknown, for example if machine 0 counts the operations and the machines are
/// one of several groups.
fn operations(o: &Outcome, machines: &Range<u32>) -> Option<f64> {
    let w = &o.verbs().workload;
    let counted = || o.verbs().mops_per_machine.get(machines.start as usize..machines.end as usize);
    let others_count = (w.pattern == Pattern::Inbound) != w.consumes_recvs();
    // The receiver counts SENDs, and the poster counts all other operations.
    let one_end = w.operations().iter().all(|o| o.verb.consumes_recv() == w.consumes_recvs());
    let patterns: Vec<Pattern> = w.classes().iter().map(|class| class.workload.pattern).collect();
    if patterns.iter().any(|pattern| *pattern != w.pattern) {
        // Without all-to-all, machine 0 takes part in each operation.
        let all = machines.contains(&0) || machines.len() as u32 == w.machines - 1;
        return (all && !patterns.contains(&Pattern::AllToAll)).then_some(o.mops);
    }
    match w.pattern {
        Pattern::AllToAll => Some(counted()?.iter().sum()),
        _ if machines.contains(&0) || machines.len() as u32 == w.machines - 1 => Some(o.mops),
        _ if others_count && one_end => Some(counted()?.iter().sum()),
        _ => None,
    }
}

fn pcie(o: &Outcome) -> String {
    let seconds = o.measured.duration.span().as_secs_f64();
    let row = |(whose, range): (String, Range<u32>)| {
        let machines = o.pcie.get(range.start as usize..range.end as usize).filter(|m| !m.is_empty())?;
        let n = machines.len() as f64;
        let mean = |f: fn(&doorbell_lab::Pcie) -> u64| machines.iter().map(f).sum::<u64>() as f64 / n;
        let each = operations(o, &range).map(|mops| mops * 1e6 * seconds / n).filter(|each| *each > 0.0);
        let bytes = |f| each.map_or("-".to_owned(), |each| format!("{} B", Digits(mean(f) / each, 1)));
        let rate = |f| format!("{} M/s", Digits(mean(f) / seconds / 1e6, 1));
        Some(vec![
            whose,
            bytes(|p| p.mmio_bytes),
            bytes(|p| p.dma_read_bytes),
            bytes(|p| p.dma_write_bytes),
            rate(|p| p.rdcur),
            rate(|p| p.itom),
        ])
    };
    let header = [
        ("", Align::Left),
        ("MMIO per operation", Align::Right),
        ("DMA read", Align::Right),
        ("DMA write", Align::Right),
        ("PCIeRdCur", Align::Right),
        ("PCIeItoM", Align::Right),
    ];
    table::columns(
        &header,
        parts(&o.verbs().workload, "each other machine").into_iter().filter_map(row).collect(),
    )
}
