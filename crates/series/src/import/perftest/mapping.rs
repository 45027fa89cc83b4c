//! From a run of perftest to a series. `docs/import.md` has this mapping in words.

use super::line::TestKind;
use super::run::{PerftestRun, RunSettings, TableRow};
use super::table::{BandwidthUnit, Column};
use crate::format::MeasuredWorkload;
use crate::format::{
    FabricKind, MeasuredSide, MeasuredTransport, MeasuredUnit, MeasuredVerb, Metric, Registers, RemoteMemory,
};
use crate::format::{Measurement, SeriesPoint};
use crate::import::facts::{MachineFacts, SeriesNames};
use crate::import::{About, ImportNote, nic_names};
use doorbell_schema::SchemaError;
use std::collections::{BTreeMap, BTreeSet};

/// The series of a run, with notes about left-out columns.
///
/// # Errors
/// If the table cannot be a series, or if the NIC is not known.
pub(in crate::import) fn measurement(
    run: &PerftestRun,
    about: &About,
) -> Result<(Measurement, Vec<ImportNote>), SchemaError> {
    let facts = about.facts_for(run.settings.device.as_deref()).map_err(|why| run.error(run.line, why))?;
    let Some(nic) = facts.nic.clone() else {
        let why = "the log does not name the NIC: give --nic, or the output of tools by --devinfo or --lspci";
        return Err(run.error(run.line, why.into()));
    };
    check_times(run)?;
    let what = quantity(run)?;
    let values = column(run, what.column)?;
    let (axis, xs) = axis(run)?;
    let workload = workload(run, &what, axis, &facts, &nic);
    let (columns, notes) = columns(run, what.column);
    let facts = facts_of_log(run, facts);
    let names = SeriesNames {
        id: id(run, &workload, &about.host),
        nic,
        host: about.host.clone(),
        unit: what.unit,
        role: about.role.clone(),
    };
    let mut setup = facts.setup(names, workload);
    setup.tool = Some(run.test.program());
    setup.options = Some(options(run)).filter(|text| !text.is_empty());
    setup.statistic = Some(what.statistic.to_owned());
    setup.not_run = not_run(run).map(str::to_owned);
    let points = xs.into_iter().zip(values).map(|(x, value)| SeriesPoint { x, value }).collect();
    Ok((Measurement { setup, points, columns }, notes))
}

impl PerftestRun {
    fn error(&self, line: usize, message: String) -> SchemaError {
        SchemaError { file: self.file.clone(), line, message }
    }

    fn note(&self, message: String) -> ImportNote {
        ImportNote { file: self.file.clone(), line: self.line, message }
    }

    fn is_latency(&self) -> bool {
        self.test.kind == TestKind::Latency
    }

    fn is_atomic(&self) -> bool {
        matches!(self.test.verb, MeasuredVerb::FetchAdd | MeasuredVerb::CompareSwap)
    }

    fn is_bidirectional(&self) -> bool {
        self.test.kind == TestKind::Bandwidth { bidirectional: true }
    }

    /// The numbers of a column, if the table has it.
    fn numbers(&self, column: Column) -> Option<Vec<f64>> {
        let at = self.columns.iter().position(|known| *known == column)?;
        self.rows.iter().map(|row| row.numbers.get(at).copied()).collect()
    }
}

/// Why no run of Doorbell can answer the series: no key of the workload states these options.
fn not_run(run: &PerftestRun) -> Option<&'static str> {
    let RunSettings { events, shared_receive, dual_port, .. } = run.settings;
    [
        (events, "the program sleeps until completions (-e)"),
        (shared_receive, "QPs share a receive queue (--use-srq)"),
        (dual_port, "the test uses two ports (-O)"),
        (run.test.multicast, "messages go to a multicast group (-g)"),
        (run.command.reversed, "the server sends (--reversed)"),
    ]
    .into_iter()
    .find_map(|(is_so, why)| is_so.then_some(why))
}

/// Refuses times in cycles. Their table has the same head as times in microseconds, but whole numbers alone.
fn check_times(run: &PerftestRun) -> Result<(), SchemaError> {
    let times = [Column::Least, Column::Most].map(|column| run.numbers(column));
    let [Some(least), Some(most)] = times else { return Ok(()) };
    let are_whole = least.iter().chain(&most).all(|time| time.fract() == 0.0);
    if run.command.cycles || are_whole {
        let message = "the times are cycles of the CPU (-C): measure again without this option";
        return Err(run.error(run.line, message.into()));
    }
    Ok(())
}

/// The measured quantity, and its column.
struct Quantity {
    metric: Metric,
    unit: MeasuredUnit,
    column: Column,
    statistic: &'static str,
}

fn quantity(run: &PerftestRun) -> Result<Quantity, SchemaError> {
    let has = |column: &Column| run.columns.contains(column);
    if run.is_latency() {
        return latency(run);
    }
    if run.is_atomic() && has(&Column::MessageRate) {
        let (metric, unit, column) = (Metric::Rate, MeasuredUnit::MopsPerSecond, Column::MessageRate);
        let statistic = "value = average message rate over the run; peak = best bandwidth";
        return Ok(Quantity { metric, unit, column, statistic });
    }
    let units =
        [(BandwidthUnit::Mib, MeasuredUnit::MibPerSecond), (BandwidthUnit::Gbit, MeasuredUnit::GbPerSecond)];
    let found = units.into_iter().find(|(unit, _)| has(&Column::Bandwidth(*unit)));
    let Some((of_column, unit)) = found else {
        return Err(run.error(run.line, "the table has no column BW average".into()));
    };
    let statistic =
        "value = average over the run; peak = best; mpps = average message rate in 10^6 per second";
    Ok(Quantity { metric: Metric::Bandwidth, unit, column: Column::Bandwidth(of_column), statistic })
}

/// READ and atomics are timed from post to completion. Of other verbs, perftest halves a ping-pong.
fn latency(run: &PerftestRun) -> Result<Quantity, SchemaError> {
    let is_full = run.is_atomic() || run.test.verb == MeasuredVerb::Read;
    let metric = if is_full { Metric::LatencyFull } else { Metric::LatencyHalf };
    let statistics = [
        (
            Column::Typical,
            "value = t_typical, the median; min, max, avg, stdev, p99 and p999 as perftest prints them",
        ),
        (Column::Average, "value = t_avg, the mean over the duration"),
    ];
    let found = statistics.into_iter().find(|(column, _)| run.columns.contains(column));
    let Some((column, statistic)) = found else {
        return Err(run.error(run.line, "the table has neither t_typical nor t_avg".into()));
    };
    Ok(Quantity { metric, unit: MeasuredUnit::Microseconds, column, statistic })
}

/// The values of a column, all above 0.
fn column(run: &PerftestRun, column: Column) -> Result<Vec<f64>, SchemaError> {
    let numbers = run.numbers(column).unwrap_or_default();
    let wrong = run.rows.iter().zip(&numbers).find(|(_, number)| !number.is_finite() || **number <= 0.0);
    match wrong {
        None if !numbers.is_empty() => Ok(numbers),
        None => Err(run.error(run.line, "the table has no values".into())),
        Some((TableRow { line, .. }, number)) => {
            Err(run.error(*line, format!("the measured value is {number}, but must be above 0")))
        }
    }
}

/// The axis: sizes, or the intervals of `--run_infinitely`, which repeat one size.
fn axis(run: &PerftestRun) -> Result<(&'static str, Vec<f64>), SchemaError> {
    let sizes = run.numbers(Column::Bytes).unwrap_or_default();
    let known: BTreeSet<u64> = sizes.iter().map(|size| *size as u64).collect();
    if let Some((row, size)) = run.rows.iter().zip(&sizes).find(|(_, size)| !is_size(**size)) {
        return Err(run.error(row.line, format!("{size} is not a size in bytes")));
    }
    match (known.len(), sizes.len()) {
        (distinct, all) if distinct == all => Ok(("size", sizes)),
        (1, all) => Ok(("report", (1..=all).map(|number| number as f64).collect())),
        _ => Err(run.error(run.line, "the table has one size twice: give each run a file of its own".into())),
    }
}

/// Whether a number is a count of bytes that floats represent.
fn is_size(size: f64) -> bool {
    size.fract() == 0.0 && (0.0..=9e15).contains(&size)
}

fn workload(
    run: &PerftestRun,
    what: &Quantity,
    axis: &str,
    facts: &MachineFacts,
    nic: &str,
) -> MeasuredWorkload {
    let settings = &run.settings;
    let of_bandwidth = |value: Option<u32>| value.filter(|_| !run.is_latency());
    let qps = settings.qps.unwrap_or(1);
    let mut workload =
        MeasuredWorkload::new(run.test.verb.clone(), transport(settings), what.metric.clone(), axis);
    workload.threads = Some(1);
    workload.qps_per_thread = Some(qps);
    workload.doorbell_registers = (qps == 1).then_some(Registers::One);
    // A ping-pong has one message under way, whatever the depth of the queue.
    workload.window = if run.is_latency() { Some(1) } else { settings.tx_depth };
    workload.batch = Some(of_bandwidth(settings.post_list).unwrap_or(1));
    workload.signal_every = of_bandwidth(settings.cq_moderation);
    workload.inline = inline(run, nic);
    workload.rd_atomic = settings.reads;
    workload.mtu = settings.mtu;
    workload.size =
        (axis == "report").then(|| run.numbers(Column::Bytes)?.first().map(|size| *size as u64)).flatten();
    workload.memory = Some(if settings.gpu { RemoteMemory::Gpu } else { RemoteMemory::Host });
    workload.bidirectional = Some(run.is_bidirectional());
    workload.side = (!run.is_bidirectional()).then_some(MeasuredSide::Outbound);
    workload.odp = run.command.odp.then_some(toml::Value::Boolean(true));
    workload.throttle = run.command.throttle.then_some(toml::Value::Boolean(true));
    facts.set(&mut workload);
    workload
}

fn transport(settings: &RunSettings) -> MeasuredTransport {
    match settings.connection.as_deref() {
        None | Some("RC") => MeasuredTransport::Rc,
        Some("UC") => MeasuredTransport::Uc,
        Some("UD") => MeasuredTransport::Ud,
        Some("DC") => MeasuredTransport::Dc,
        Some("SRD") => MeasuredTransport::Srd,
        Some("RawEth") => MeasuredTransport::Raw,
        Some(other) => MeasuredTransport::Other(other.to_ascii_lowercase()),
    }
}

/// The most bytes of an inline payload. If the log does not state it, perftest's defaults count
/// (`DEF_INLINE_*` in its sources). Those above 0 are for NICs of Mellanox.
fn inline(run: &PerftestRun, nic: &str) -> Option<u32> {
    let is_send = match run.test.verb {
        MeasuredVerb::Read | MeasuredVerb::FetchAdd | MeasuredVerb::CompareSwap => return None,
        MeasuredVerb::Send => true,
        _ => false,
    };
    let usual = || match (run.is_latency(), is_send, transport(&run.settings)) {
        (false, ..) => Some(0),
        (true, ..) if !nic_names::is_mellanox(nic) => None,
        (true, false, _) => Some(220),
        (true, true, MeasuredTransport::Ud) => Some(188),
        (true, true, MeasuredTransport::Rc | MeasuredTransport::Uc) => Some(236),
        _ => None,
    };
    run.settings.inline.or_else(usual)
}

/// The columns besides the axis and the values. A column without a meaning is left out.
fn columns(run: &PerftestRun, of_value: Column) -> (BTreeMap<String, Vec<f64>>, Vec<ImportNote>) {
    let (mut columns, mut notes) = (BTreeMap::new(), Vec::new());
    for column in run.columns.iter().filter(|column| **column != of_value) {
        let (Some(key), Some(numbers)) = (column.key(), run.numbers(*column)) else { continue };
        // perftest prints a peak of 0 if it was not measured: with -D, -N, or many iterations.
        let is_missing = matches!(column, Column::Peak(_)) && numbers.iter().all(|peak| *peak == 0.0);
        if !numbers.iter().all(|number| number.is_finite()) {
            notes.push(run.note(format!("left out: column {key}, because a row has no number there")));
        } else if !is_missing {
            columns.insert(key.to_owned(), numbers);
        }
    }
    (columns, notes)
}

/// The facts, with the link layer of the log.
fn facts_of_log(run: &PerftestRun, facts: MachineFacts) -> MachineFacts {
    let fabric = match run.settings.link_type.as_deref() {
        Some("IB") => Some(FabricKind::InfiniBand),
        Some("Ethernet") if transport(&run.settings) != MeasuredTransport::Raw => Some(FabricKind::Roce),
        _ => None,
    };
    let name = run.file.rsplit('/').next().unwrap_or(&run.file);
    let source = facts.source.clone().or_else(|| Some(format!("output of perftest: {name}")));
    MachineFacts { fabric: facts.fabric.clone().or(fabric), source, ..facts }
}

/// Options that no key of the workload states, in words.
fn options(run: &PerftestRun) -> String {
    let settings = &run.settings;
    let mut words = Vec::new();
    if run.is_latency()
        && let Some(depth) = settings.tx_depth.filter(|depth| *depth > 1)
    {
        words.push(format!("TX depth {depth}, one message under way"));
    }
    for (name, value) in [
        ("relaxed ordering", &settings.relaxed_ordering),
        ("lock-free", &settings.lock_free),
        ("ibv_wr* API", &settings.wr_api),
    ] {
        words.extend(value.as_ref().map(|value| format!("{name} {}", value.to_ascii_lowercase())));
    }
    let iterations = run.numbers(Column::Iterations).unwrap_or_default();
    if let [first, rest @ ..] = &*iterations
        && rest.iter().all(|number| number == first)
    {
        words.push(format!("{first} iterations"));
    }
    words.join(", ")
}

/// Name of the series: host, test, and the options that differ from perftest's defaults.
fn id(run: &PerftestRun, workload: &MeasuredWorkload, host: &str) -> String {
    let mut id = format!("{host}-{}", run.test.program().trim_start_matches("ib_").replace('_', "-"));
    match &run.test.verb {
        MeasuredVerb::CompareSwap => id += "-cas",
        MeasuredVerb::FetchAdd => id += "-faa",
        MeasuredVerb::Other(name) => id = format!("{host}-{name}"),
        _ => {}
    }
    if workload.transport != MeasuredTransport::Rc {
        id += &format!("-{}", workload.transport.name());
    }
    let mut add = |name: &str, value: Option<u32>, usual: u32| {
        id += &value.filter(|value| *value != usual).map_or(String::new(), |value| format!("-{name}{value}"));
    };
    add("q", workload.qps_per_thread, 1);
    if !run.is_latency() {
        add("t", workload.window, 128);
        add("l", workload.batch, 1);
        add("i", workload.inline, 0);
    }
    if run.is_bidirectional() {
        id += "-b";
    }
    id
}
