//! The software NIC beside UCX's shared memory, and beside the system call that moves private memory: the same machine,
//! sides alternating, one processor for each process, the same statistic of both.

use crate::command::{Problem, Task, cargo, failed, lines, run};
use crate::{packages, root};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How often each side of each row is measured, if not told otherwise.
const ROUNDS: usize = 7;

/// What is compared of both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Statistic {
    /// Median latency one way, microseconds.
    Latency,
    /// All messages by all the time, millions a second.
    Rate,
}

/// How one side is measured.
enum Side {
    /// A program of perftest's on the software NIC, with options of `doorbell run` before its own.
    Perftest(&'static [&'static str], &'static [&'static str]),
    /// A test of ucx_perftest's, over one of these.
    Ucx(Over, &'static [&'static str]),
    /// `bare_writev` with these arguments.
    Bare(&'static [&'static str]),
}

/// What UCX moves messages over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    SharedMemory,
    /// The software NIC's RC.
    Nic,
}

struct Row {
    what: &'static str,
    statistic: Statistic,
    ours: Side,
    theirs: Side,
    /// What ours is to be of theirs: at most of a latency, at least of a rate.
    must: f64,
}

const fn row(what: &'static str, statistic: Statistic, ours: Side, theirs: Side, must: f64) -> Row {
    Row { what, statistic, ours, theirs, must }
}

use Over::{Nic, SharedMemory};
use Side::{Bare, Perftest, Ucx};
use Statistic::{Latency, Rate};

const ROWS: [Row; 13] = [
    row(
        "WRITE, 8 B",
        Latency,
        Perftest(&[], &["ib_write_lat", "-s", "8", "-n", "200000"]),
        Ucx(SharedMemory, &["ucp_put_lat", "-s", "8"]),
        1.3,
    ),
    row(
        "SEND, 8 B",
        Latency,
        Perftest(&[], &["ib_send_lat", "-s", "8", "-n", "200000"]),
        Ucx(SharedMemory, &["tag_lat", "-s", "8"]),
        1.1,
    ),
    row(
        "WRITE, 8 B, one by one",
        Rate,
        Perftest(&[], &["ib_write_bw", "-s", "8", "-Q", "100", "-l", "1", "-n", "5000000"]),
        Ucx(SharedMemory, &["ucp_put_bw", "-s", "8", "-n", "10000000"]),
        0.35,
    ),
    row(
        "WRITE, 8 B, lists of 32",
        Rate,
        Perftest(&[], &["ib_write_bw", "-s", "8", "-Q", "32", "-l", "32", "-n", "6400000"]),
        Ucx(SharedMemory, &["ucp_put_bw", "-s", "8", "-n", "10000000"]),
        0.6,
    ),
    row(
        "SEND, 8 B",
        Rate,
        Perftest(&[], &["ib_send_bw", "-s", "8", "-n", "3000000"]),
        Ucx(SharedMemory, &["tag_bw", "-s", "8", "-n", "5000000"]),
        0.8,
    ),
    row(
        "WRITE, 64 KiB",
        Rate,
        Perftest(&[], &["ib_write_bw", "-s", "65536", "-n", "100000"]),
        Ucx(SharedMemory, &["ucp_put_bw", "-s", "65536", "-n", "100000"]),
        0.97,
    ),
    row(
        "SEND, 64 KiB",
        Rate,
        Perftest(&[], &["ib_send_bw", "-s", "65536", "-n", "50000"]),
        Ucx(SharedMemory, &["tag_bw", "-s", "65536", "-n", "50000"]),
        0.97,
    ),
    row(
        "private, 8 B, one by one",
        Rate,
        Perftest(PRIVATE, &["ib_write_bw", "-s", "8", "-Q", "100", "-l", "1", "-n", "200000"]),
        Bare(&["8", "1", "200000"]),
        1.0 / 1.3,
    ),
    row(
        "private, 8 B, lists of 32",
        Rate,
        Perftest(PRIVATE, &["ib_write_bw", "-s", "8", "-Q", "32", "-l", "32", "-n", "640000"]),
        Bare(&["8", "32", "20000"]),
        1.0 / 1.3,
    ),
    row(
        "private, 4 KiB, one by one",
        Rate,
        Perftest(PRIVATE, &["ib_write_bw", "-s", "4096", "-Q", "100", "-l", "1", "-n", "200000"]),
        Bare(&["4096", "1", "200000"]),
        1.0 / 1.3,
    ),
    row(
        "private, 4 KiB, lists of 32",
        Rate,
        Perftest(PRIVATE, &["ib_write_bw", "-s", "4096", "-Q", "32", "-l", "32", "-n", "320000"]),
        Bare(&["4096", "32", "10000"]),
        1.0 / 1.3,
    ),
    row(
        "private, 64 KiB, one by one",
        Rate,
        Perftest(PRIVATE, &["ib_write_bw", "-s", "65536", "-Q", "100", "-l", "1", "-n", "20000"]),
        Bare(&["65536", "1", "20000"]),
        1.0 / 1.3,
    ),
    row(
        "UCX's tagged messages, 8 B",
        Latency,
        Ucx(Nic, &["tag_lat", "-s", "8"]),
        Ucx(SharedMemory, &["tag_lat", "-s", "8"]),
        2.0,
    ),
];

const PRIVATE: &[&str] = &["--private-buffers"];

/// `cargo xtask peers`, with what follows it; `None` where that makes no sense.
pub(crate) fn rounds(arguments: &[&str]) -> Option<usize> {
    match arguments {
        [] => Some(ROUNDS),
        ["--rounds", count] => count.parse().ok().filter(|count| *count > 0),
        _ => None,
    }
}

/// Measures all rows and prints them.
pub(crate) fn run_rounds(rounds: usize) -> Task<()> {
    packages::ensure_measured_programs()?;
    let folder = build()?;
    println!(
        "Medians of {rounds} runs of each side, by turns, and the least and the most. Latency one way in us, rates in millions a second."
    );
    println!(
        "Paired is the median of the ratios of each run to the one beside it, which moves less where the machine is slower for a while."
    );
    println!(
        "The software NIC's numbers are perftest's, or UCX's over it; those beside them are UCX's shared memory ({}), or the bare system call.\n",
        version()?
    );
    println!(
        "{:<28} {:<8} {:>24} {:>24} {:>6} {:>6}  {:<14}",
        "", "", "software NIC", "beside it", "ratio", "paired", "to be"
    );
    let mut missed = 0;
    for row in &ROWS {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            ours.push(measure(&row.ours, row.statistic, &folder)?);
            theirs.push(measure(&row.theirs, row.statistic, &folder)?);
        }
        missed += u32::from(!print(row, ours, theirs));
    }
    println!("\n{} of {} hold.", ROWS.len() as u32 - missed, ROWS.len());
    Ok(())
}

fn version() -> Task<String> {
    let all = lines(Command::new("ucx_info").arg("-v"));
    let first = all.unwrap_or_default().into_iter().find(|line| line.contains("ersion"));
    Ok(first.map_or("version unknown".into(), |line| line.trim_start_matches(['#', ' ']).to_owned()))
}

/// Builds what is measured, as a user does; returns where it is.
fn build() -> Task<PathBuf> {
    run(cargo().current_dir(root()).args([
        "build",
        "--release",
        "-p",
        "doorbell-cli",
        "-p",
        "doorbell-soft-so",
    ]))?;
    run(cargo().current_dir(root()).args([
        "build",
        "--release",
        "-p",
        "doorbell-soft",
        "--example",
        "bare_writev",
    ]))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    Ok(target.join("release"))
}

/// Prints a row; returns whether it holds.
fn print(row: &Row, mut ours: Vec<f64>, mut theirs: Vec<f64>) -> bool {
    let mut paired: Vec<f64> = ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect();
    let ratio = median(&mut ours) / median(&mut theirs);
    let (holds, sign) = match row.statistic {
        Latency => (ratio <= row.must, "<="),
        Rate => (ratio >= row.must, ">="),
    };
    let statistic = match row.statistic {
        Latency => "latency",
        Rate => "rate",
    };
    println!(
        "{:<28} {statistic:<8} {:>24} {:>24} {ratio:>6.2} {:>6.2}  {sign} {:.2} {}",
        row.what,
        spread(&mut ours),
        spread(&mut theirs),
        median(&mut paired),
        row.must,
        if holds { "holds" } else { "MISSED" }
    );
    holds
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

fn spread(values: &mut [f64]) -> String {
    let middle = median(values);
    format!("{middle:.3} ({:.3} to {:.3})", values[0], values[values.len() - 1])
}

fn measure(side: &Side, statistic: Statistic, folder: &Path) -> Task<f64> {
    match side {
        Bare(arguments) => {
            let program = folder.join("examples/bare_writev");
            let text = lines(on(1, &program).args(*arguments))?.join("\n");
            text.trim().parse().map_err(|error| failed("bare_writev", error))
        }
        Perftest(options, program) => {
            let (listener, port) = free_port()?;
            let fabric = format!("peers-{}-{port}", std::process::id());
            drop(listener);
            let command = |processor: u32| {
                let mut command = on(processor, &folder.join("doorbell"));
                command.arg("run").args(["--fabric", &fabric]).args(*options).arg("--").args(*program);
                command.args(["-p", &port.to_string()]);
                command
            };
            let mut client = command(1);
            if statistic == Latency {
                client.arg("-H");
            }
            let text = both(command(0), client.arg("localhost"), port)?;
            of_perftest(&text, statistic)
                .ok_or_else(|| failed(program.join(" "), format!("no result in\n{text}")))
        }
        Ucx(over, test) => {
            let (listener, port) = free_port()?;
            drop(listener);
            let command = |processor: u32| {
                let mut command = match over {
                    SharedMemory => on(processor, Path::new("ucx_perftest")),
                    Nic => {
                        let mut command = on(processor, &folder.join("doorbell"));
                        command.args(["run", "--fabric", &format!("peers-{}-{port}", std::process::id())]);
                        command.args(["--", "ucx_perftest"]).env("UCX_NET_DEVICES", "doorbell0:1");
                        command
                    }
                };
                command
                    .env("UCX_TLS", if *over == Nic { "rc_v" } else { "sm,self" })
                    .env("UCX_LOG_LEVEL", "error");
                command.arg("-t").args(*test).args(["-p", &port.to_string()]);
                command
            };
            let text = both(command(0), command(1).arg("localhost"), port)?;
            of_ucx(&text, statistic).ok_or_else(|| failed(test.join(" "), format!("no result in\n{text}")))
        }
    }
}

/// A program on one processor.
fn on(processor: u32, program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &processor.to_string()]).arg(program);
    command
}

fn free_port() -> Task<(TcpListener, u16)> {
    let listener = TcpListener::bind("0.0.0.0:0").map_err(|error| failed("a free port", error))?;
    let port = listener.local_addr().map_err(|error| failed("a free port", error))?.port();
    Ok((listener, port))
}

/// Runs a server, and a client as soon as that listens; returns what the client prints.
fn both(mut server: Command, client: &mut Command, port: u16) -> Task<String> {
    let server = server.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null()).spawn();
    let mut server = Ended(server.map_err(|error| failed("the server", error))?);
    let begin = Instant::now();
    while !listens(port) {
        if begin.elapsed() > Duration::from_secs(20) {
            return Err(Problem::Failed(format!("the server does not listen at port {port}")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let text = lines(client)?.join("\n");
    server.0.wait().map_err(|error| failed("the server", error))?;
    Ok(text)
}

/// A process that does not outlive this.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether somebody listens at a TCP port, as proc(5) tells; to ask the server itself would disturb it.
fn listens(port: u16) -> bool {
    let is_it = |line: &str| {
        let mut words = line.split_whitespace().skip(1);
        let (local, _, state) = (words.next(), words.next(), words.next());
        local.is_some_and(|local| local.ends_with(&format!(":{port:04X}"))) && state == Some("0A")
    };
    let tables =
        ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| std::fs::read_to_string(table).unwrap_or_default());
    tables.iter().any(|table| table.lines().any(is_it))
}

/// The median of the results that `-H` prints in order, or the message rate.
fn of_perftest(text: &str, statistic: Statistic) -> Option<f64> {
    match statistic {
        Latency => {
            let after = text.lines().skip_while(|line| !line.starts_with("#, usec")).skip(1);
            let value = |line: &str| line.split_once(", ")?.1.trim().parse().ok();
            let mut values: Vec<f64> = after.map_while(value).collect();
            (!values.is_empty()).then(|| median(&mut values))
        }
        Rate => {
            let is_result = |line: &&str| line.trim_start().starts_with(|c: char| c.is_ascii_digit());
            text.lines().rfind(is_result)?.split_whitespace().nth(4)?.parse().ok()
        }
    }
}

/// The median latency, or the overall message rate: the second number of the last line, and the last.
fn of_ucx(text: &str, statistic: Statistic) -> Option<f64> {
    let words: Vec<&str> =
        text.lines().rfind(|line| line.starts_with("Final:"))?.split_whitespace().collect();
    match statistic {
        Latency => words.get(2)?.parse().ok(),
        Rate => words.get(8)?.parse::<f64>().ok().map(|rate| rate / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_perftest_are_read() {
        let latencies =
            "---\n #bytes #iterations\n#, usec\n1, 0.145216\n2, 0.15\n3, 3.2\n---\n 8 3 0.15 3.2 0.19\n";
        assert_eq!(of_perftest(latencies, Latency), Some(0.15));
        let rate = "---\n #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n 8          2000000          0.00               30.24  \t\t   3.963919\n---\n";
        assert_eq!(of_perftest(rate, Rate), Some(3.963919));
        assert_eq!(of_perftest("nothing", Rate), None);
        assert_eq!(of_perftest("nothing", Latency), None);
    }

    #[test]
    fn results_of_ucx_are_read() {
        let text = "Final:               4000000      0.050     0.059     0.060      129.80     129.81    17012653    17012654\n";
        assert_eq!(of_ucx(text, Latency), Some(0.05));
        assert_eq!(of_ucx(text, Rate), Some(17.012654));
        assert_eq!(of_ucx("+---+", Rate), None);
    }

    #[test]
    fn medians_are_of_the_middle() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(spread(&mut [3.0, 1.0, 2.0]), "2.000 (1.000 to 3.000)");
    }

    #[test]
    fn rounds_are_a_number() {
        assert_eq!(rounds(&[]), Some(ROUNDS));
        assert_eq!(rounds(&["--rounds", "3"]), Some(3));
        assert_eq!(rounds(&["--rounds", "0"]), None);
        assert_eq!(rounds(&["3"]), None);
    }
}
