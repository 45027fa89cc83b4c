//! `doorbell simulate`.

use crate::args::SimulateArgs;
use crate::exit::{self, Exit};
use crate::explained;
use crate::extrapolation::Told;
use crate::posted;
use crate::progress;
use crate::table::{self, Align};
use crate::trace::{self, Watched};
use doorbell_lab::uncertainty;
use doorbell_lab::{
    Addresses, Asked, AtomicCounters, BufferOffset, Certainty, Control, Duration, Ended, MeasuredTime,
    Outcome, Pattern, Pieces, Resolved, ResolvedClass, Share, Warmed, Window,
};
use doorbell_nic::{Digits, counted};
use doorbell_schema::Settings;
use doorbell_verbs::QpType;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

pub(crate) fn run(args: SimulateArgs) -> Result<(), Exit> {
    let workload = match args.workload.asked().map_err(Exit::bad_input)? {
        Asked::Verbs(workload) => workload,
        Asked::System(system) => return crate::system::run(&system, &args),
    };
    let typed = args.workload.typed().map_err(Exit::bad_input)?;
    let profiles = workload.load_profiles().map_err(Exit::bad_input)?;
    let resolved = workload.resolve(&profiles).map_err(Exit::bad_input)?;
    if args.uncertainty {
        uncertainty::known(profiles.all()).map_err(|error| Exit::of_uncertainty(&error))?;
    }
    let seen = trace::open(&args.trace, &args.workload.files(&workload))?;
    let interrupt = progress::interrupt()?;
    let bar = progress::bar();
    let watch = Watched { bar: &bar, seen: &seen };
    let control = control(&args, &interrupt, &watch);
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
        exit::print(&report(&told))?;
    }
    // What was computed before is not lost.
    seen.report()?;
    stopped(&interrupt)?;
    uncertainty.as_ref().map_err(Exit::of_uncertainty)?;
    completed(outcome.waits.as_deref(), &outcome.measured)
}

/// How runs are made that these arguments ask for.
pub(crate) fn control<'a>(
    args: &SimulateArgs,
    interrupt: &Arc<AtomicBool>,
    watch: &'a Watched<'_>,
) -> Control<'a> {
    let max_wall = std::time::Duration::from_nanos(args.max_wall.span().as_ns());
    Control { interrupt: interrupt.clone(), jobs: doorbell_lab::cores(), max_wall: Some(max_wall), watch }
}

/// An error where nothing completed.
pub(crate) fn completed(waits: Option<&str>, measured: &MeasuredTime) -> Result<(), Exit> {
    waits.map_or(Ok(()), |waits| Err(Exit::without_result(waits, measured)))
}

/// A time, as warm-up and duration are shown: what was asked for, else what came of it.
fn time(asked: Option<Duration>, came: Duration, how: &str) -> String {
    asked.map_or_else(|| format!("{}, {how}", exit::in_words(came)), |asked| asked.to_string())
}

/// Why a warm-up ended; one that was said beforehand is shown as it was said.
fn warmed(measured: &MeasuredTime) -> &'static str {
    match measured.warmed {
        None => "as asked for",
        Some(Warmed::Steady) => "until steady",
        Some(Warmed::Overload) => "until more was seen to be due than completes",
        Some(Warmed::MaxTime) => "not steady when two thirds of --max-time were over",
        Some(Warmed::MaxWall) => "not steady when --max-wall was over",
    }
}

/// Why a run ended.
fn because(measured: &MeasuredTime, precision: Share) -> String {
    let overrun = measured.overrun;
    match measured.ended {
        Ended::Duration => "as asked for".into(),
        Ended::Settled => format!("until known to {precision}"),
        Ended::Overload => "until more was seen to be due than completes".into(),
        Ended::MaxTime => match overrun {
            Some(over) => format!("up to --max-time, and {} more", exit::in_words(over)),
            None => "up to --max-time".into(),
        },
        Ended::MaxWall => "up to --max-wall".into(),
        Ended::Interrupted => "interrupted".into(),
    }
}

/// Warm-up and measured time in words.
pub(crate) fn times(
    (warmup, duration): (Option<Duration>, Option<Duration>),
    precision: Share,
    measured: &MeasuredTime,
) -> [(&'static str, String); 2] {
    // What was cut did not last as asked for.
    let warmup = warmup.filter(|_| measured.warmed.is_none());
    let duration = duration.filter(|_| measured.ended.is_repeatable());
    [
        ("warmup", time(warmup, measured.warmup, warmed(measured))),
        ("duration", time(duration, measured.duration, &because(measured, precision))),
    ]
}

/// An error where somebody stopped the run.
pub(crate) fn stopped(interrupt: &std::sync::atomic::AtomicBool) -> Result<(), Exit> {
    let stopped = interrupt.load(std::sync::atomic::Ordering::Relaxed);
    if stopped { Err(Exit::interrupted()) } else { Ok(()) }
}

/// Who posts to whom. Where threads have fewer connected QPs than there are machines, not all are posted to.
fn pattern(w: &Resolved) -> String {
    let few = |reached: u32, all: u32| w.transport != QpType::Ud && reached < all;
    match w.pattern {
        Pattern::Outbound if few(w.threads - 1 + w.qps, w.machines - 1) => match w.threads - 1 + w.qps {
            1 => "outbound: machine 0 posts to machine 1".to_owned(),
            last => format!("outbound: machine 0 posts to machines 1 to {last}, for want of QPs to more"),
        },
        Pattern::Outbound => "outbound: machine 0 posts to the others".to_owned(),
        Pattern::Inbound => "inbound: the others post to machine 0".to_owned(),
        Pattern::AllToAll if few(w.qps, w.machines) => {
            let last = w.qps - 1;
            format!("all-to-all: every machine posts to machines 0 to {last}, for want of QPs to more")
        }
        Pattern::AllToAll => "all-to-all: every machine posts to the others".to_owned(),
    }
}

/// Where memory lies, and what is used of the NIC.
fn memory(w: &Resolved) -> Vec<(&'static str, String)> {
    let sges = w.sges.map(|sges| match w.pieces {
        Some(Pieces::Apart) => format!("{sges}, each in lines of its own"),
        _ => format!("{sges} side by side"),
    });
    let offset = w.offset.map(|offset| match offset {
        BufferOffset::Drawn => "drawn for each buffer".to_owned(),
        BufferOffset::At(byte) => format!("{byte} B from the start of a line"),
    });
    let order = match w.addresses() {
        Addresses::Sequential => "one buffer after the other",
        Addresses::Random => "buffers at random",
        Addresses::AnyByte => "from any byte on",
    };
    let region = |bytes: Option<u64>| Some(format!("{} B per thread, {order}", bytes?));
    let rows = [
        ("CQs", w.cq_per_qp.then(|| "one for each QP".to_owned())),
        ("max-rd-atomic", w.max_rd_atomic.map(|most| format!("{most} per QP"))),
        ("sges", sges),
        ("offset", offset),
        ("local-region", region(w.local_region)),
        ("remote-region", region(w.remote_region)),
    ];
    rows.into_iter().filter_map(|(name, said)| Some((name, said?))).collect()
}

/// Parameters that are set, as they are typed.
pub(crate) fn settings(set: &Settings) -> String {
    let each: Vec<String> = set.iter().map(|(name, number)| format!("{name}={number}")).collect();
    each.join(", ")
}

/// What is set over the profiles, by group where machines differ.
fn set(w: &Resolved) -> Option<String> {
    let of_groups = w.machine.iter().flatten().zip(w.group_names());
    let of_groups = of_groups.filter_map(|(group, name)| Some((group.set.as_ref()?, name)));
    let each: Vec<String> = of_groups.map(|(set, name)| format!("{}: {name}", settings(set))).collect();
    w.set.as_ref().map(settings).or((!each.is_empty()).then(|| each.join("; ")))
}

/// The workload as resolved, for people: what is so of all of it. Classes of threads are told apart.
pub(crate) fn workload(w: &Resolved) -> Vec<(&'static str, String)> {
    let machines = match w.has_groups() {
        true => format!("{}: {}", w.machines, w.group_names().join(", ")),
        false => w.machines.to_string(),
    };
    let mut rows = if w.has_groups() { Vec::new() } else { vec![("profile", w.profile.clone())] };
    rows.extend(w.host.clone().map(|host| ("host", host)));
    rows.extend(set(w).map(|set| ("set by you", set)));
    let ports = w.ports.map(|ports| ("ports", ports.to_string()));
    if w.has_classes() {
        let classes = match w.classes().len() {
            1 => "1 class".to_owned(),
            several => format!("{several} classes"),
        };
        rows.extend([
            ("machines", machines),
            ("threads", format!("{} per machine, in {classes}", w.threads)),
        ]);
        rows.extend(ports);
        rows.extend(counters(w));
    } else {
        rows.extend(posted::what(w));
        rows.extend([("machines", machines), ("threads", format!("{} per machine", w.threads))]);
        rows.extend(posting(w));
        rows.extend(ports);
        rows.extend(details(w));
        rows.extend(counters(w));
        rows.push(("pattern", pattern(w)));
    }
    rows.push(("seed", w.seed.to_string()));
    rows
}

/// What each class of threads does, if they are in classes.
pub(crate) fn classes(w: &Resolved) -> String {
    if !w.has_classes() {
        return String::new();
    }
    let of = |ResolvedClass { name, threads, workload: own }: ResolvedClass<'_>| {
        let threads = match threads.len() {
            1 => format!("thread {}", threads.start),
            _ => format!("threads {} to {}", threads.start, threads.end - 1),
        };
        let rows = posted::what(own).into_iter().chain(posting(own)).chain(details(own));
        let rows = rows.chain([("pattern", pattern(own))]).collect();
        format!("\nClass {name}: {threads} of each machine\n{}", table::pairs(rows))
    };
    w.classes().into_iter().map(of).collect()
}

/// How it is posted.
fn posting(w: &Resolved) -> Vec<(&'static str, String)> {
    let of_window = match w.window() {
        Window::PerThread(_) => "thread",
        Window::PerQp(_) => "QP",
    };
    let window = counted(w.window().operations().into(), "operation");
    vec![
        ("qps", format!("{} per thread", w.qps)),
        ("window", format!("{window} per {of_window}")),
        ("batch", format!("{} per doorbell", w.batch)),
        ("signal-every", w.signal_every.to_string()),
        ("inline", w.inline_up_to().map_or(on_off(w.inlines()), |most| format!("up to {most} B"))),
    ]
}

fn on_off(flag: bool) -> String {
    if flag { "yes" } else { "no" }.to_owned()
}

/// What most workloads leave as it is usual.
fn details(w: &Resolved) -> Vec<(&'static str, String)> {
    let mut rows = memory(w);
    rows.extend(posted::when(w));
    if w.drain {
        rows.push(("drain", on_off(w.drain)));
    }
    if w.consumes_recvs() {
        rows.push(("header-only", on_off(w.header_only)));
        rows.push(("inline-receive", on_off(w.inline_recv)));
    }
    rows
}

fn counters(w: &Resolved) -> Option<(&'static str, String)> {
    let AtomicCounters { count, stride } = w.counters?;
    Some(("counters", format!("{count}, {stride} B apart")))
}

fn report(told: &Told<'_, Outcome>) -> String {
    let o = told.result;
    let w = &o.workload;
    let mut rows = workload(w);
    rows.extend(times((w.warmup, w.duration), w.precision, &o.measured));
    let mut text = format!("Workload\n{}{}", table::pairs(rows), classes(w));
    let result = table::pairs(results(o));
    let _ = write!(text, "\nResult\n{result}");
    text += &unsettled(&o.interval);
    if !o.classes.is_empty() {
        let _ = write!(text, "\nClasses of threads\n{}", posted::classes(o));
    }
    if !o.kinds.is_empty() {
        let _ = write!(text, "\nItems of the mix\n{}", posted::kinds(o));
    }
    text += &told.text();
    let _ = write!(text, "\nBottleneck: {}\n  {}\n", o.bottleneck.class, o.bottleneck.text);
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

/// That a run does not tell the rate in the long run, if it does not.
pub(crate) fn unsettled(interval: &Certainty) -> String {
    let says = |why: &String| match interval.overload {
        true => format!("  Overload: {why}.\n"),
        false => format!("  The measured time does not tell the rate in the long run: {why}.\n"),
    };
    interval.unsettled.as_ref().map(says).unwrap_or_default()
}

/// A percentile with its interval.
pub(crate) fn percentile(value: Option<u64>, interval: Option<(u64, u64)>) -> String {
    let interval = interval.map(|(low, high)| format!(" ({low} to {high})")).unwrap_or_default();
    value.map_or("-".to_owned(), |ns| format!("{ns}{interval} ns"))
}

/// A mean latency in nanoseconds with half of its interval, to three digits.
pub(crate) fn mean(mean: Option<f64>, half: Option<f64>) -> String {
    mean.map_or("-".to_owned(), |ns| format!("{}{} ns", Digits(ns, 0), within(half)))
}

/// Half of an interval, to two digits.
pub(crate) fn within(half: Option<f64>) -> String {
    let Some(half) = half else { return String::new() };
    let decimals = if half > 0.0 { (1.0 - half.log10().floor()).clamp(0.0, 9.0) as usize } else { 0 };
    format!(" ± {half:.decimals$}")
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
        let kind: Vec<&str> = r.name.split(' ').filter(|w| !w.bytes().all(|b| b.is_ascii_digit())).collect();
        kinds.entry(kind.join(" ")).or_default().push(r);
    }
    let row = |(kind, all): (String, Vec<&doorbell_lab::Utilization>)| {
        let busiest = all.iter().max_by(|a, b| a.utilization.total_cmp(&b.utilization))?;
        let mean = all.iter().map(|r| r.utilization).sum::<f64>() / all.len() as f64;
        Some(vec![
            kind,
            format!("{}%", Digits(busiest.utilization * 100.0, 1)),
            format!("{} of {}", busiest.name, o.workload.machine_name(busiest.machine)),
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
