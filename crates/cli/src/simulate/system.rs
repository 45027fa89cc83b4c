//! `doorbell simulate --system`.

use super::control::control;
use crate::args::SimulateArgs;
use crate::exit::{self, Exit};
use crate::explained;
use crate::extrapolation::Told;
use crate::progress;
use crate::report::{self, percentile, within};
use crate::table::{self, Align};
use crate::trace::{self, Watched};
use doorbell_lab::uncertainty;
use doorbell_lab::{PhaseTime, Served, SystemOutcome, SystemWorkload, Timing, Workload};
use doorbell_nic::{Digits, counted};
use doorbell_schema::Value;
use std::fmt::Write;

pub(super) fn run(system: &SystemWorkload, args: &SimulateArgs) -> Result<(), Exit> {
    let (profile, host, set) = (system.profile.clone(), system.host.clone(), system.set.clone());
    let machines = Workload { profile, host, set, ..Workload::default() };
    let typed = args.workload.typed().map_err(Exit::bad_input)?;
    let profiles = machines.load_profiles().map_err(Exit::bad_input)?;
    let over_tcp = system.is_over_tcp();
    if over_tcp && args.trace.pcap.is_some() {
        return Err(Exit::bad_input(
            "--pcap is for what QPs send: frames of kernel TCP are not captured, --trace shows them",
        ));
    }
    if args.uncertainty {
        uncertainty::known([profiles.first()]).map_err(|error| Exit::of_uncertainty(&error))?;
    }
    let seen = trace::open(&args.trace, &args.workload.files(&machines))?;
    let interrupt = progress::interrupt()?;
    let bar = progress::bar();
    let watch = Watched { bar: &bar, seen: &seen };
    let control = control(args, &interrupt, &watch);
    let simulate = if args.explain { doorbell_lab::explain_system } else { doorbell_lab::simulate_system };
    let outcome = simulate(profiles.first(), system, &control);
    let outcome = outcome.map(|outcome| match args.explain {
        true => doorbell_lab::advise_system(&typed, profiles.first(), outcome, &control),
        false => outcome,
    });
    let outcome = outcome.map_err(|e| seen.without_result(&e))?;
    let asked = args.uncertainty && outcome.waits.is_none();
    let uncertainty = asked
        .then(|| uncertainty::of_system(profiles.first(), &outcome.workload, &outcome.measured, &control))
        .transpose();
    drop(bar);
    let told = Told {
        result: &outcome,
        unit: "Mrps",
        extrapolates: &doorbell_lab::extrapolates_system(profiles.first(), &outcome.workload),
        supports: &doorbell_lab::supports_system(profiles.first(), &outcome.workload),
        uncertainty: uncertainty.as_ref().ok().and_then(Option::as_ref),
    };
    if args.json {
        exit::print_json(&told)?
    } else {
        exit::print(&text(&told, system))?
    }
    if !over_tcp && profiles.first().hierarchy.is_some_and(|hierarchy| !hierarchy.io_coherent) {
        exit::say(STALE);
    }
    seen.report()?;
    exit::stopped(&interrupt)?;
    uncertainty.as_ref().map_err(Exit::of_uncertainty)?;
    exit::completed(outcome.waits.as_deref(), &outcome.measured)
}

/// What was asked for that the profile decided, as it did.
fn decided(asked: &SystemWorkload, run: &SystemWorkload) -> Vec<(&'static str, String)> {
    let differ = |(name, value): (&'static str, Option<Value>)| {
        let (asked, run) = (asked.value(name)?, value?);
        (asked != run).then(|| (name, format!("{run}, which {asked} comes to on this profile")))
    };
    run.values().into_iter().filter_map(differ).collect()
}

fn text(told: &Told<'_, SystemOutcome>, asked: &SystemWorkload) -> String {
    let o = told.result;
    let w = &o.workload;
    let rate = within(o.interval.mops);
    let mean = report::mean(o.latency_ns.mean, o.interval.latency_ns);
    let c = w.clients();
    let how = if c.windows { "in windows of" } else { "each with" };
    let clients =
        format!("{}, {} per machine, {how} {} outstanding", c.clients, c.clients_per_machine, c.outstanding);
    let mut rows = vec![
        ("clients", clients),
        ("rate", format!("{}{rate} Mrps", Digits(o.mrps, 2))),
        ("latency, mean", mean),
        ("latency, p50", percentile(o.latency_ns.p50, o.interval.p50_ns)),
        ("latency, p99", percentile(o.latency_ns.p99, o.interval.p99_ns)),
    ];
    if let Some(bandwidth) = o.gb_per_s {
        rows.insert(2, ("bandwidth", format!("{} GB/s", Digits(bandwidth, 2))));
    }
    if let Some(of) = w.latency_of() {
        rows.push(("latency is of", of.to_owned()));
    }
    for row in decided(asked, w) {
        rows.insert(0, row);
    }
    if let Some(set) = &w.set {
        rows.insert(0, ("set by you", report::settings(set)));
    }
    if let Some(replies) = o.replies_per_post {
        if let Some(cores) = w.workers() {
            rows.insert(0, ("server", counted(cores.into(), "core")));
        }
        rows.push(("replies at a time", Digits(replies, 1).to_string()));
    }
    for (name, share) in [("not found, evicted", o.missed), ("header-only replies", o.header_only)] {
        if share > 0.0 {
            rows.push((name, format!("{}%", Digits(share * 100.0, 2))));
        }
    }
    if o.again > 0.0 {
        rows.push(("begun again", format!("{} times per operation", Digits(o.again, 4))));
    }
    if let Some(Served { least, most }) = o.served {
        let parts = format!("{} to {} of an even share", Digits(least, 2), Digits(most, 2));
        rows.push(("served, by client", parts));
    }
    if o.dropped > 0 {
        rows.push(("dropped", counted(o.dropped, "message")));
    }
    if let Some(again) = o.sent_again.words() {
        rows.push(("sent again", again));
    }
    let Timing { warmup, duration, precision, .. } = w.timing();
    rows.extend(report::times((*warmup, *duration), *precision, &o.measured));
    let mut text = table::pairs(rows);
    text += &report::unsettled(&o.interval);
    if let Some(mean) = o.latency_ns.mean.filter(|_| !o.phases.is_empty()) {
        let _ = write!(text, "\nTime of an operation\n{}", phases(o, mean));
    }
    if !o.uncore.is_empty() {
        let _ = write!(text, "\nCaches and snoops\n{}", uncore(o));
    }
    text += &told.text();
    let _ = write!(text, "\nBottleneck: {}\n  {}\n", o.bottleneck.class_name(), o.bottleneck.text);
    text += &explained::lifts(&o.lift, o.together.as_ref());
    if !o.lift.is_empty() && !o.uncore.is_empty() {
        text += MEMORY_APART;
    }
    if !o.lift.is_empty() {
        text += &explained::advice(o.advice.as_deref());
    }
    text
}

/// What no rerun is made with more of, where caches have sizes.
const MEMORY_APART: &str = "No resource of these lifts what memory and write-backs take that the NIC forces: dram_ns, dram_mb_per_s and
forced_write_back_ns of [hierarchy].
";

/// What is to be known of results where devices are not coherent with caches; programs of systems flush nothing.
const STALE: &str = "doorbell: this host's devices do not see its caches (io_coherent = false), and the system's programs flush nothing: \
    what peers got may be stale, and such programs would not work there";

/// What is no part of an operation.
const BESIDE: &str = "tenant-pass";
/// What every request has.
const SERVED: &str = "prepare";

/// What an operation's time goes to: each phase once, on the average of the requests that were measured; what no program
/// spends, network and stacks take. Where no request's phases were measured, or others' than the operations', that cannot
/// be told.
fn phases(o: &SystemOutcome, mean: f64) -> String {
    let row = |name: &str, ns: f64, share: Option<f64>| {
        let share = share.map_or(String::new(), |share| format!("{}%", Digits(share * 100.0, 1)));
        vec![name.to_owned(), format!("{} us", Digits(ns / 1e3, 2)), share]
    };
    let of_it = |phase: &&PhaseTime| phase.phase != BESIDE;
    let spent: f64 = o.phases.iter().filter(of_it).map(|p| p.mean_ns).sum();
    if !o.phases.iter().any(|p| p.phase == SERVED) || spent > mean {
        return "  not known, as too few requests were measured from their beginning to their end: measure longer\n".into();
    }
    let mut rows: Vec<_> =
        o.phases.iter().filter(of_it).map(|p| row(&p.phase, p.mean_ns, Some(p.mean_ns / mean))).collect();
    rows.push(row("network and stacks", mean - spent, Some(1.0 - spent / mean)));
    if let Some(beside) = o.phases.iter().find(|p| p.phase == BESIDE) {
        rows.push(row("beside it, a pass of the tenant", beside.mean_ns, None));
    }
    table::columns(&[("", Align::Left), ("each", Align::Right), ("of all", Align::Right)], rows)
}

fn uncore(o: &SystemOutcome) -> String {
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
    table::columns(&header, o.uncore.iter().map(row).collect())
}
