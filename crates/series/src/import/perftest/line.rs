//! The kinds of lines in perftest's output.

use super::settings::{self, Setting};
use super::table::{self, Column};
use crate::format::MeasuredVerb;

/// The test of a program, from the title of its output.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PerftestTest {
    pub(super) verb: MeasuredVerb,
    pub(super) kind: TestKind,
    /// Whether messages go to a multicast group.
    pub(super) multicast: bool,
}

/// The quantity of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TestKind {
    Latency,
    Bandwidth { bidirectional: bool },
}

impl PerftestTest {
    /// Name of the program.
    pub(super) fn program(&self) -> String {
        let verb = match self.verb {
            MeasuredVerb::FetchAdd | MeasuredVerb::CompareSwap => "atomic",
            MeasuredVerb::Send => "send",
            MeasuredVerb::Read => "read",
            _ => "write",
        };
        let kind = if self.kind == TestKind::Latency { "lat" } else { "bw" };
        format!("ib_{verb}_{kind}")
    }
}

/// A line.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Line<'t> {
    /// The next output is a server's.
    ServerWaits,
    /// The title of an output.
    Title(PerftestTest),
    /// The title of a test that Doorbell does not know.
    UnknownTest,
    Settings(Vec<(Setting, &'t str)>),
    /// The program sleeps until a completion, by `-e`.
    Events,
    /// Buffers are in memory of a GPU.
    Gpu,
    Head(Vec<Column>),
    /// A head with a title that Doorbell does not know.
    UnknownHead(&'t str),
    Row(Vec<f64>),
    /// The head of the single latencies of `-H` and `-U`, and their unit.
    SampleHead(&'t str),
    Sample,
    /// The results of one side follow, by `--report-both`.
    OneSide,
    /// A command that starts a program of perftest.
    Command(PerftestCommand),
    /// The program failed.
    Failure,
    /// A line that changes nothing.
    Known,
    Unknown,
}

/// Options of a command that the output does not show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PerftestCommand {
    /// Times are in cycles of the CPU, by `-C`.
    pub(super) cycles: bool,
    /// On-demand paging.
    pub(super) odp: bool,
    /// The program holds messages back, by `--rate_limit` or `--latency_gap`.
    pub(super) throttle: bool,
    /// The server sends to the client.
    pub(super) reversed: bool,
}

/// Lines that change nothing begin with one of these words.
const KNOWN: &[&str] = &[
    "---",
    "***",
    "local address:",
    "remote address:",
    "GID:",
    "Mcast address",
    "MultiCast runs on UD!",
    "Waiting for client rdma_cm QP to connect",
    "Please run the same command with the IB/RoCE interface IP",
    "WARNING: BW peak won't be measured in this run.",
    "WARNING: CPU is not PCIe relaxed ordering compliant.",
    "WARNING: You should disable PCIe RO with",
    "Post List requested - CQ moderation will be the size of the post list",
    "Conflicting CPU frequency values detected",
    "Max msg size in UD is MTU",
    "Changing to this MTU",
    "Max msg size is",
    "Changing to this size",
    "Warning: Large message requested and CQ moderation enabled",
    "Warning: It can lead to inaccurate results",
    "Will run with the port active mtu",
    "Requested mtu is higher than active mtu",
    "Changing to active mtu",
    "libibverbs: Warning: couldn't load driver",
];

/// Lines of a failure contain one of these texts.
const FAILURES: &[&str] = &[
    "Couldn't",
    "couldn't",
    "Can't produce a report",
    "Failed",
    "failed",
    "Unable to",
    "Problem",
    "Completion with error",
    "Error",
    "error=",
    "error:",
    "aborting",
    "exiting",
    "not supported",
    "not found",
    "No IB devices found",
    "should be between",
    "invalid option",
    "unrecognized option",
];

/// The kind of a line.
pub(super) fn line(text: &str) -> Line<'_> {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Line::Known;
    }
    if trimmed.contains("Waiting for client to connect") {
        return Line::ServerWaits;
    }
    if let Some(test) = title(trimmed) {
        return test.map_or(Line::UnknownTest, Line::Title);
    }
    if let Some(settings) = settings::settings(text) {
        return Line::Settings(settings);
    }
    if let Some(head) = table::head(text) {
        return head.map_or_else(Line::UnknownHead, Line::Head);
    }
    if let Some(row) = table::row(text) {
        return Line::Row(row);
    }
    other(trimmed)
}

/// The kind of a line that is neither a title nor a setting, and not part of a table.
fn other(trimmed: &str) -> Line<'_> {
    if let Some(unit) = trimmed.strip_prefix("#, ") {
        return Line::SampleHead(unit);
    }
    if is_sample(trimmed) {
        return Line::Sample;
    }
    if trimmed.starts_with("Test with events.") {
        return Line::Events;
    }
    if ["Local results:", "Remote results:"].contains(&trimmed) {
        return Line::OneSide;
    }
    if let Some(command) = command(trimmed) {
        return Line::Command(command);
    }
    if KNOWN.iter().any(|known| trimmed.starts_with(known)) {
        return Line::Known;
    }
    if FAILURES.iter().any(|failure| trimmed.contains(failure)) {
        return Line::Failure;
    }
    let of_gpu = ["CUDA", "GPU buffer", "cuMemAlloc", "ROCm", "device name = ["];
    if of_gpu.iter().any(|words| trimmed.contains(words)) {
        return Line::Gpu;
    }
    Line::Unknown
}

/// A line such as `12, 1.39`.
fn is_sample(trimmed: &str) -> bool {
    trimmed.split_once(", ").is_some_and(|(number, time)| {
        number.chars().all(|c| c.is_ascii_digit()) && time.parse::<f64>().is_ok()
    })
}

/// The test of a title such as `RDMA_Write Bidirectional Post List BW Test`. `None` if the line is no title;
/// `Some(None)` if the test is not known.
fn title(trimmed: &str) -> Option<Option<PerftestTest>> {
    let verbs = [
        ("Atomic CMP_AND_SWAP ", MeasuredVerb::CompareSwap),
        ("Atomic FETCH_AND_ADD ", MeasuredVerb::FetchAdd),
        ("RDMA_Write_imm ", MeasuredVerb::Other("write-imm".into())),
        ("RDMA_Write ", MeasuredVerb::Write),
        ("RDMA_Read ", MeasuredVerb::Read),
        ("Send ", MeasuredVerb::Send),
    ];
    let words = trimmed.strip_suffix("Test")?;
    let found = verbs.into_iter().find_map(|(name, verb)| Some((words.strip_prefix(name)?, verb)));
    let Some((words, verb)) = found else {
        return words.starts_with("Atomic ").then_some(None);
    };
    let (words, bidirectional) = without(words, "Bidirectional ");
    let (words, _) = without(words, "Post List ");
    let (kind, words) = match words.strip_prefix("BW ") {
        Some(words) => (TestKind::Bandwidth { bidirectional }, words),
        None => match words.strip_prefix("Latency ").filter(|_| !bidirectional) {
            Some(words) => (TestKind::Latency, words),
            None => return Some(None),
        },
    };
    let (words, multicast) = without(words, "Multicast ");
    Some(words.is_empty().then_some(PerftestTest { verb, kind, multicast }))
}

/// A text without the words at its beginning, and whether it had them.
fn without<'t>(text: &'t str, words: &str) -> (&'t str, bool) {
    text.strip_prefix(words).map_or((text, false), |rest| (rest, true))
}

/// Options of one letter that take no value.
const WITHOUT_VALUE: &str = "aFgbNCHUOzRVheP";

/// A command in a line such as `$ numactl -N 0 ib_write_lat -a -F 10.0.0.1`.
fn command(trimmed: &str) -> Option<PerftestCommand> {
    let mut words = trimmed.split_whitespace();
    words.find(|word| is_program(word))?;
    let mut command = PerftestCommand::default();
    for word in words {
        match word.strip_prefix("--") {
            Some(long) => {
                let name = long.split('=').next().unwrap_or(long);
                command.cycles |= name == "report-cycles";
                command.odp |= name == "odp";
                command.throttle |= ["rate_limit", "latency_gap"].contains(&name);
                command.reversed |= name == "reversed";
            }
            None => {
                let letters = word.strip_prefix('-').unwrap_or_default();
                let last = letters.find(|c| !WITHOUT_VALUE.contains(c)).unwrap_or(letters.len());
                command.cycles |= letters.get(..last).is_some_and(|letters| letters.contains('C'));
            }
        }
    }
    Some(command)
}

/// Whether a word is a program of perftest, perhaps with its path.
fn is_program(word: &str) -> bool {
    let name = word.rsplit('/').next().unwrap_or(word);
    let Some((verb, kind)) = name.strip_prefix("ib_").and_then(|rest| rest.rsplit_once('_')) else {
        return false;
    };
    ["write", "read", "send", "atomic", "write_imm"].contains(&verb) && ["lat", "bw"].contains(&kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_name_their_program() {
        for (title, program, kind) in [
            ("RDMA_Write Latency Test", "ib_write_lat", TestKind::Latency),
            ("RDMA_Write BW Test", "ib_write_bw", TestKind::Bandwidth { bidirectional: false }),
            ("RDMA_Read BW Test", "ib_read_bw", TestKind::Bandwidth { bidirectional: false }),
            ("Send Bidirectional BW Test", "ib_send_bw", TestKind::Bandwidth { bidirectional: true }),
            (
                "RDMA_Write Bidirectional Post List BW Test",
                "ib_write_bw",
                TestKind::Bandwidth { bidirectional: true },
            ),
            ("Atomic CMP_AND_SWAP Latency Test", "ib_atomic_lat", TestKind::Latency),
            ("Atomic FETCH_AND_ADD BW Test", "ib_atomic_bw", TestKind::Bandwidth { bidirectional: false }),
        ] {
            let Line::Title(test) = line(&format!("                    {title}\n")) else {
                panic!("{title}")
            };
            assert_eq!((test.program().as_str(), test.kind), (program, kind));
        }
        for unknown in [
            "Send Test",
            "RDMA_Write BW forwarding Test",
            "Atomic MASKED Latency Test",
            "Send Bidirectional Latency Test",
        ] {
            assert_eq!(line(unknown), Line::UnknownTest, "{unknown}");
        }
        assert_eq!(line("A Test"), Line::Unknown);
    }

    #[test]
    fn commands_state_what_the_output_lacks() {
        let cycles = PerftestCommand { cycles: true, ..PerftestCommand::default() };
        let limited = PerftestCommand { odp: true, throttle: true, ..PerftestCommand::default() };
        for (text, command) in [
            ("$ ib_write_lat -a -F 10.0.0.1", PerftestCommand::default()),
            ("root@h:~# numactl -N 1 /usr/bin/ib_read_lat -FaC h2", cycles),
            ("ib_send_lat --report-cycles", cycles),
            ("ib_write_lat -d mlx5_C -s 8", PerftestCommand::default()),
            ("ib_write_lat -dmlx5_C", PerftestCommand::default()),
            ("ib_write_bw --odp --rate_limit=10", limited),
        ] {
            assert_eq!(line(text), Line::Command(command), "{text}");
        }
        assert_eq!(line("ibv_devinfo -v"), Line::Unknown);
    }

    #[test]
    fn failures_and_known_lines_are_told_apart() {
        for text in [
            " Completion with error at client",
            " Failed status 12: wr_id 0 syndrom 0x81",
            "Couldn't connect to 10.0.0.1:18515",
            " Unable to find the Infiniband/RoCE device",
            "ethernet_read_keys: Couldn't read remote address",
            " Size of message should be between 1 and 8388608",
        ] {
            assert_eq!(line(text), Line::Failure, "{text}");
        }
        for text in [
            " local address: LID 0x01 QPN 0x0107 PSN 0x8a2f RKey 0x18 VAddr 0x007f",
            " GID: 00:00:00:00:00:00:00:00:00:00:255:255:10:15:15:51",
            " WARNING: BW peak won't be measured in this run.",
            "libibverbs: Warning: couldn't load driver 'libvmw_pvrdma-rdmav34.so'",
            "Conflicting CPU frequency values detected: 1000.0 != 3800.0. CPU Frequency is not max.",
            "************************************",
        ] {
            assert_eq!(line(text), Line::Known, "{text}");
        }
        assert_eq!(line("making it the current CUDA Ctx"), Line::Gpu);
        assert_eq!(line("Hello, world"), Line::Unknown);
        assert_eq!(line("#, cycles"), Line::SampleHead("cycles"));
        assert_eq!(line("17, 1.79577"), Line::Sample);
    }
}
