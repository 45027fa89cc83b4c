//! The report of a system's run.

use super::limited::limited;
use super::tail::tail;
use crate::explained;
use crate::extrapolation::Told;
use crate::report::{self, percentile, within};
use crate::table::{self, Align};
use doorbell_lab::{OfSystem, Outcome, PhaseTime, SystemWorkload, Timing, Until};
use doorbell_nic::{Digits, counted};
use doorbell_schema::Value;
use doorbell_systems::Phase;
use std::fmt::Write;

/// Parameters for which the profile chose a value other than the requested one. The text states the chosen
/// value and the request.
fn decided(asked: &SystemWorkload, run: &SystemWorkload) -> Vec<(&'static str, String)> {
    let differ = |(name, value): (&'static str, Option<Value>)| {
        let (asked, run) = (asked.value(name)?, value?);
        (asked != run).then(|| (name, format!("{run}, chosen by {asked} on this profile")))
    };
    run.values().into_iter().filter_map(differ).collect()
}

/// The report.
pub(super) fn text(told: &Told<'_, Outcome>, of: &OfSystem, asked: &SystemWorkload) -> String {
    let o = told.result;
    let w = &of.workload;
    let rate = within(o.interval.mops);
    let mean = report::mean(o.latency_ns.mean, o.interval.latency_ns);
    let c = w.clients();
    let how = if c.windows { "in windows of" } else { "each with" };
    let clients =
        format!("{}, {} per machine, {how} {} outstanding", c.clients, c.clients_per_machine, c.outstanding);
    let mut rows = vec![
        ("clients", clients),
        ("rate", format!("{}{rate} Mrps", Digits(o.mops, 2))),
        ("latency, mean", mean),
        ("latency, p50", percentile(o.latency_ns.p50, o.interval.p50_ns)),
        ("latency, p99", tail(told, Until::P99, o.latency_ns.p99, o.interval.p99_ns)),
        ("latency, p99.9", tail(told, Until::P999, o.latency_ns.p999, o.interval.p999_ns)),
        ("latency with", o.latency_with()),
    ];
    if let Some(bandwidth) = of.gb_per_s {
        rows.insert(2, ("bandwidth", format!("{} GB/s", Digits(bandwidth, 2))));
    }
    if let Some(of) = w.latency_of() {
        rows.push(("latency covers", of.to_owned()));
    }
    for row in decided(asked, w) {
        rows.insert(0, row);
    }
    if let Some(link) = w.link {
        rows.insert(0, ("link", link.to_string()));
    }
    if let Some(slot) = w.pcie {
        rows.insert(0, ("PCIe", slot.to_string()));
    }
    if let Some(set) = &w.set {
        rows.insert(0, ("set by you", report::settings(set)));
    }
    if let Some(replies) = of.replies_per_post {
        if let Some(cores) = w.workers() {
            rows.insert(0, ("server", counted(cores.into(), "core")));
        }
        rows.push(("replies per post", Digits(replies, 1).to_string()));
    }
    for (name, share) in [("not found, evicted", of.missed), ("header-only replies", of.header_only)] {
        if share > 0.0 {
            rows.push((name, format!("{}%", Digits(share * 100.0, 2))));
        }
    }
    if of.again > 0.0 {
        rows.push(("restarts", format!("{} times per operation", Digits(of.again, 4))));
    }
    if let Some(served) = &of.served {
        rows.push(("served, by client", report::shares(served)));
        if served.never > 0 {
            rows.push((
                "never served",
                format!("{}, which the latency does not cover", counted(served.never, "client")),
            ));
        }
    }
    if o.dropped > 0 {
        rows.push(("dropped", counted(o.dropped, "message")));
    }
    if let Some(again) = o.sent_again.words() {
        rows.push(("sent again", again));
    }
    let Timing { warmup, duration, precision, until, .. } = w.timing();
    rows.extend(report::times((*warmup, *duration), (*precision, *until), &o.measured));
    let mut text = table::pairs(rows);
    text += &report::unsettled(&o.interval);
    if let Some(mean) = o.latency_ns.mean.filter(|_| !of.phases.is_empty()) {
        let _ = write!(text, "\nTime of an operation\n{}", phases(o, mean));
    }
    if !of.uncore.is_empty() {
        let _ = write!(text, "\nCaches and snoops\n{}", uncore(o));
    }
    text += &limited(told);
    if !o.lift.is_empty() && !of.uncore.is_empty() {
        text += MEMORY_APART;
    }
    if !o.lift.is_empty() {
        text += &explained::advice(o.advice.as_deref());
    }
    text
}

/// Note for hosts with cache sizes about costs that no rerun changes.
const MEMORY_APART: &str =
    "None of these resources covers the time of memory and of write-backs that the NIC forces:
dram_ns, dram_mb_per_s and forced_write_back_ns of [hierarchy].
";

/// The phase that is not part of an operation.
const BESIDE: Phase = Phase::TenantPass;
/// The phase that every request has.
const SERVED: Phase = Phase::Prepare;

/// Table of an operation's time. Each phase has a row with its mean over the measured requests. The remaining
/// time is network and stacks. The split is unknown if no whole request was measured, or if the phases take
/// longer than the mean latency `mean`.
fn phases(o: &Outcome, mean: f64) -> String {
    let row = |name: &str, ns: f64, share: Option<f64>| {
        let share = share.map_or(String::new(), |share| format!("{}%", Digits(share * 100.0, 1)));
        vec![name.to_owned(), format!("{} us", Digits(ns / 1e3, 2)), share]
    };
    let of_it = |phase: &&PhaseTime| phase.phase != BESIDE;
    let spent: f64 = o.system().phases.iter().filter(of_it).map(|p| p.mean_ns).sum();
    if !o.system().phases.iter().any(|p| p.phase == SERVED) || spent > mean {
        return "  not known, because too few requests were measured from beginning to end: measure for \
             longer\n"
            .into();
    }
    let mut rows: Vec<_> = o
        .system()
        .phases
        .iter()
        .filter(of_it)
        .map(|p| row(p.phase.name(), p.mean_ns, Some(p.mean_ns / mean)))
        .collect();
    rows.push(row("network and stacks", mean - spent, Some(1.0 - spent / mean)));
    if let Some(beside) = o.system().phases.iter().find(|p| p.phase == BESIDE) {
        rows.push(row("not included: a pass of the tenant", beside.mean_ns, None));
    }
    table::columns(&[("", Align::Left), ("each", Align::Right), ("of all", Align::Right)], rows)
}

fn uncore(o: &Outcome) -> String {
    let header = [
        ("", Align::Left),
        ("LLC hit rate", Align::Right),
        ("hits", Align::Right),
        ("misses", Align::Right),
        ("prefetches that hit", Align::Right),
        ("that missed", Align::Right),
        ("SNPS", Align::Right),
        ("REMOTE_RD", Align::Right),
        ("REMOTE_RFO", Align::Right),
        ("IMPLICIT_WBS", Align::Right),
        ("write-backs", Align::Right),
    ];
    let row = |u: &doorbell_lab::UncoreUse| {
        let rate = u.llc_hit_rate.map_or("-".to_owned(), |rate| format!("{}%", Digits(rate * 100.0, 1)));
        let counts = [
            u.llc_hits,
            u.llc_misses,
            u.prefetch_hits,
            u.prefetch_misses,
            u.snps,
            u.snp_hits_remote_rd,
            u.snp_hits_remote_rfo,
            u.implicit_wbs,
            u.write_backs,
        ];
        [format!("machine {}", u.machine), rate].into_iter().chain(counts.map(|n| n.to_string())).collect()
    };
    table::columns(&header, o.system().uncore.iter().map(row).collect())
}
