//! `doorbell simulate` of a workload of verbs.

use super::control::control;
use crate::args::SimulateArgs;
use crate::exit::{self, Exit};
use crate::explained;
use crate::extrapolation::Told;
use crate::posted;
use crate::progress;
use crate::report::{self, mean, percentile, within};
use crate::table::{self, Align};
use crate::trace::{self, Watched};
use crate::workload;
use doorbell_lab::uncertainty;
use doorbell_lab::{Outcome, Pattern, Resolved, Workload};
use doorbell_nic::{Digits, counted};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;

pub(super) fn run(workload: &Workload, args: &SimulateArgs) -> Result<(), Exit> {
    let typed = args.workload.typed().map_err(Exit::bad_input)?;
    let profiles = workload.load_profiles().map_err(Exit::bad_input)?;
    let resolved = workload.resolve(&profiles).map_err(Exit::bad_input)?;
    if args.uncertainty {
        uncertainty::known(profiles.all()).map_err(|error| Exit::of_uncertainty(&error))?;
    }
    let seen = trace::open(&args.trace, &args.workload.files(workload))?;
    let interrupt = progress::interrupt()?;
    let bar = progress::bar();
    let watch = Watched { bar: &bar, seen: &seen };
    let control = control(args, &interrupt, &watch);
    let simulate = if args.explain { doorbell_lab::explain } else { doorbell_lab::simulate };
    let outcome = simulate(&profiles, &resolved, &control);
    let outcome = outcome.map(|outcome| match args.explain {
        true => doorbell_lab::advise(&typed, &profiles, outcome, &control),
        false => outcome,
    });
    let outcome = outcome.map_err(|e| seen.without_result(&e))?;
    // Of nothing there is no interval.
    let asked = args.uncertainty && outcome.waits.is_none();
    let uncertainty =
        asked.then(|| uncertainty::of_verbs(&profiles, &resolved, &outcome.measured, &control)).transpose();
    drop(bar);
    let told = Told {
        result: &outcome,
        unit: "Mops",
        extrapolates: &doorbell_lab::extrapolates(&profiles, &resolved),
        supports: &doorbell_lab::supports(&profiles, &resolved),
        uncertainty: uncertainty.as_ref().ok().and_then(Option::as_ref),
    };
    if args.json {
        exit::print_json(&told)?;
    } else {
        exit::print(&text(&told))?;
    }
    // What was computed before is not lost.
    seen.report()?;
    exit::stopped(&interrupt)?;
    uncertainty.as_ref().map_err(Exit::of_uncertainty)?;
    exit::completed(outcome.waits.as_deref(), &outcome.measured)
}

fn text(told: &Told<'_, Outcome>) -> String {
    let o = told.result;
    let w = &o.workload;
    let mut rows = workload::rows(w);
    rows.extend(report::times((w.warmup, w.duration), w.precision, &o.measured));
    let mut text = format!("Workload\n{}{}", table::pairs(rows), workload::classes(w));
    let result = table::pairs(results(o));
    let _ = write!(text, "\nResult\n{result}");
    text += &report::unsettled(&o.interval);
    if !o.classes.is_empty() {
        let _ = write!(text, "\nClasses of threads\n{}", posted::classes(o));
    }
    if !o.kinds.is_empty() {
        let _ = write!(text, "\nItems of the mix\n{}", posted::kinds(o));
    }
    text += &told.text();
    let _ = write!(text, "\nBottleneck: {}\n  {}\n", o.bottleneck.class_name(), o.bottleneck.text);
    text += &explained::lifts(&o.lift, o.together.as_ref());
    if let Some(time) = &o.operation_time {
        text += &explained::time(time);
    }
    // Only where there was something to explain.
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
        o.verbs,
        o.events,
        o.wall_seconds,
        o.verbs as f64 / o.wall_seconds / 1e6
    );
    text
}

fn results(o: &Outcome) -> Vec<(&'static str, String)> {
    let busiest = o.mops_per_machine.iter().copied().fold(0.0, f64::max);
    let mean = mean(o.latency_ns.mean, o.interval.latency_ns);
    let payload = Digits(posted::gigabits(o), 2);
    let mut rows = vec![
        ("rate", format!("{}{} Mops, {payload} Gb/s of payload", Digits(o.mops, 2), within(o.interval.mops))),
        ("busiest machine", format!("{} Mops", Digits(busiest, 2))),
        ("dropped", counted(o.dropped, "message")),
        ("latency, mean", mean),
        ("latency, p50", percentile(o.latency_ns.p50, o.interval.p50_ns)),
        ("latency, p99", percentile(o.latency_ns.p99, o.interval.p99_ns)),
        ("latency, p99.9", percentile(o.latency_ns.p999, o.interval.p999_ns)),
    ];
    if let Some(again) = o.sent_again.words() {
        rows.insert(3, ("sent again", again));
    }
    rows
}

/// Resources of one kind in one line: the busiest, and the mean. Their names end in a number where a
/// machine has several.
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
            format!("{} of {}", busiest.meter, o.workload.machine_name(busiest.machine)),
            format!("{}%", Digits(mean * 100.0, 1)),
            all.len().to_string(),
        ])
    };
    let header = [
        ("", Align::Left),
        ("busiest", Align::Right),
        ("", Align::Left),
        ("mean", Align::Right),
        ("of", Align::Right),
    ];
    table::columns(&header, kinds.into_iter().filter_map(row).collect())
}

/// Machine 0, and the others as `others` calls them; where machines differ, those of each group.
fn parts(w: &Resolved, others: &str) -> Vec<(String, Range<u32>)> {
    if !w.has_groups() {
        return vec![("machine 0".into(), 0..1), (others.to_owned(), 1..w.machines)];
    }
    let named = w.parts().into_iter().map(|(group, machines)| (w.name_of(group, &machines), machines));
    named.collect()
}

fn caches(o: &Outcome) -> String {
    let parts = parts(&o.workload, "others");
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

/// Millions of operations per second that these machines, which take the same part, have to do with together.
/// All to all these are those that they count as theirs; they answer about as many. `None` where what is
/// counted does not tell: at machine 0 alone, what each group of the others takes of it.
fn operations(o: &Outcome, machines: &Range<u32>) -> Option<f64> {
    let w = &o.workload;
    let counted = || o.mops_per_machine.get(machines.start as usize..machines.end as usize);
    let others_count = (w.pattern == Pattern::Inbound) != w.consumes_recvs();
    // Of SENDs the receiver counts, of all else who posts.
    let one_end = w.operations().iter().all(|o| o.verb.consumes_recv() == w.consumes_recvs());
    let patterns: Vec<Pattern> = w.classes().iter().map(|class| class.workload.pattern).collect();
    if patterns.iter().any(|pattern| *pattern != w.pattern) {
        // Machine 0 takes part in each operation where not all post to all.
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
    table::columns(&header, parts(&o.workload, "each of the others").into_iter().filter_map(row).collect())
}
