//! Draws workloads and systems whose bottlenecks are compared, as the lines of a file.

use crate::options::draw::Draws;
use doorbell_lab::{Given, Schema, Workload, limits};

/// Sizes of the drawn workloads.
#[derive(Clone, Copy)]
pub(crate) struct DrawScale {
    /// Largest number of machines.
    pub(crate) machines: u64,
    /// Largest number of threads of a machine.
    pub(crate) threads: u64,
    /// Largest number of clients of a system.
    pub(crate) clients: u64,
    /// A run of verbs ends after about so many operations.
    pub(crate) operations: f64,
    /// Virtual time of a run of a system in microseconds.
    pub(crate) system_us: u64,
    /// Precision at which a run ends, in percent.
    pub(crate) precision: u64,
}

/// A verb with a transport, or a system.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DrawnKind {
    Verb(&'static str, &'static str),
    System(&'static str),
}

/// The kinds that are drawn.
pub(crate) const KINDS: [DrawnKind; 13] = [
    DrawnKind::Verb("send", "ud"),
    DrawnKind::System("rpc"),
    DrawnKind::Verb("write", "uc"),
    DrawnKind::Verb("read", "rc"),
    DrawnKind::System("herd-kv"),
    DrawnKind::Verb("fetch-add", "rc"),
    DrawnKind::Verb("send", "rc"),
    DrawnKind::System("read-kv"),
    DrawnKind::Verb("write", "rc"),
    DrawnKind::Verb("compare-swap", "rc"),
    DrawnKind::System("atomics-sequencer"),
    DrawnKind::Verb("send", "uc"),
    DrawnKind::System("shuffle"),
];

impl DrawnKind {
    /// The lines of a file that name this kind.
    pub(crate) fn lines(self) -> String {
        match self {
            DrawnKind::Verb(verb, transport) => format!("verb = \"{verb}\"\ntransport = \"{transport}\"\n"),
            DrawnKind::System(system) => format!("system = \"{system}\"\n"),
        }
    }
}

/// Percentage of draws with an open loop.
const OPEN: u64 = 25;

/// Draws the options of a workload or a system on a profile. The result may be invalid.
pub(crate) fn drawn(draws: &mut Draws, scale: DrawScale, profile: &str, kind: DrawnKind) -> String {
    let mut lines = Lines(format!("profile = \"{profile}\"\n{}", kind.lines()));
    match kind {
        DrawnKind::Verb(verb, _) => verbs(draws, scale, verb, &mut lines),
        DrawnKind::System(of) => system(draws, scale, of, &mut lines),
    }
    lines.0
}

/// The lines of a file.
struct Lines(String);

impl Lines {
    fn say(&mut self, key: &str, value: impl std::fmt::Display) {
        self.0 += &format!("{key} = {value}\n");
    }

    fn name(&mut self, key: &str, name: &str) {
        self.say(key, format_args!("\"{name}\""));
    }
}

/// A power of two from `1 << least` to `1 << most`.
fn power(draws: &mut Draws, least: u64, most: u64) -> u64 {
    1 << draws.among(least, most)
}

fn verbs(draws: &mut Draws, scale: DrawScale, verb: &str, lines: &mut Lines) {
    lines.name("pattern", draws.one_of(&["outbound", "inbound", "all-to-all"]));
    lines.say("machines", draws.of_any_magnitude(2, scale.machines));
    lines.say("threads", draws.among(1, scale.threads));
    if verb.contains('-') {
        lines.say("counters", power(draws, 0, 10));
        lines.say("counter_stride", draws.one_of(&["8", "64"]));
    } else {
        lines.say("size", power(draws, 0, 16));
    }
    queues(draws, lines);
    pace(draws, scale, lines);
}

/// QPs, windows, batches and memory.
fn queues(draws: &mut Draws, lines: &mut Lines) {
    if draws.percent(60) {
        lines.say("qps", draws.of_any_magnitude(1, 24));
    }
    match draws.among(0, 3) {
        0 => lines.say("window", draws.of_any_magnitude(1, 128)),
        1 | 2 => lines.say("window_per_qp", draws.of_any_magnitude(1, 128)),
        _ => {}
    }
    if draws.percent(30) {
        lines.say("batch", draws.one_of(&["4", "16", "32"]));
    }
    if draws.percent(30) {
        lines.say("signal_every", draws.one_of(&["1", "4", "16"]));
    }
    if draws.percent(10) {
        lines.say("inline", "false");
    }
    if draws.percent(10) {
        lines.say("huge_pages", "false");
        lines.say("local_region", 4 << 20);
        lines.name("addresses", "random");
    }
}

/// The end of the run and, for an open loop, a rate relative to the lowest bound.
fn pace(draws: &mut Draws, scale: DrawScale, lines: &mut Lines) {
    let (open, percent) = (draws.percent(OPEN), draws.among(5, 130));
    let least = bound(&lines.0).unwrap_or(1.0);
    if open {
        lines.name("arrivals", draws.one_of(&["poisson", "fixed"]));
        lines.say("rate", (least * 1e4 * percent as f64) as u64);
    }
    let us = (scale.operations / least).clamp(60.0, 20_000.0) as u64;
    lines.name("max_time", &format!("{us}us"));
    lines.name("precision", &format!("{}%", scale.precision));
}

/// The lowest bound in millions per second; `None` if the workload is invalid.
fn bound(toml: &str) -> Option<f64> {
    let given = Given::from_toml("w.toml", toml, &Workload::fields()).ok()?;
    let workload = Workload::of(&given).ok()?;
    let profiles = workload.load_profiles().ok()?;
    let resolved = workload.resolve(&profiles).ok()?;
    limits(&profiles, &resolved).first().map(|limit| limit.mops)
}

fn system(draws: &mut Draws, scale: DrawScale, system: &str, lines: &mut Lines) {
    lines.say("clients", draws.of_any_magnitude(1, scale.clients));
    if draws.percent(70) {
        lines.say("outstanding", draws.of_any_magnitude(1, 32));
    }
    match system {
        "rpc" => rpc(draws, lines),
        "herd-kv" | "read-kv" => {
            lines.say("cores", draws.among(1, 8));
            lines.say("pairs", 4096);
            lines.say("value", draws.one_of(&["32", "256", "1000"]));
        }
        "shuffle" => {
            lines.say("entry", power(draws, 4, 8));
            lines.say("batch_entries", power(draws, 0, 6));
            lines.say("round_entries", 2048);
        }
        _ => {}
    }
    lines.name("max_time", &format!("{}us", scale.system_us));
    lines.name("precision", &format!("{}%", scale.precision));
}

fn rpc(draws: &mut Draws, lines: &mut Lines) {
    let requests = ["write-uc", "write-rc", "send-uc", "send-rc", "send-ud"];
    let replies = ["send-ud", "send-rc", "send-uc", "write-rc", "write-uc", "read-rc"];
    lines.name("request", draws.one_of(&requests));
    lines.name("reply", draws.one_of(&replies));
    lines.say("cores", draws.among(1, 8));
    for key in ["request_size", "reply_size"] {
        lines.name(key, draws.one_of(&["32", "256", "2000"]));
    }
    if draws.percent(30) {
        lines.name("handler", draws.one_of(&["200ns", "1us"]));
    }
    if draws.percent(OPEN) {
        lines.name("arrivals", "poisson");
        lines.say("rate", draws.of_any_magnitude(100_000, 60_000_000));
    }
}
