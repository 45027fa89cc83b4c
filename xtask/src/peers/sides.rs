//! Measures one side of a row.

use super::statistic::{Statistic, median};
use crate::command::{Problem, Task, cargo, failed, lines, run};
use crate::wheels;
use crate::workspace::{self, root};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The program that measures Open MPI, in the folder of built programs.
const PING: &str = "mpi_ping";

/// Program that measures one side.
pub(super) enum MeasuredSide {
    /// A program of perftest on the software NIC. The first list has options of `doorbell run`. The second
    /// list has the program and its options.
    Perftest(&'static [&'static str], &'static [&'static str]),
    /// A test of ucx_perftest over one transport.
    Ucx(Over, &'static [&'static str]),
    /// `bare_writev` with these arguments.
    Bare(&'static [&'static str]),
    /// A ping-pong over Open MPI.
    Mpi(Over),
    /// NIXL's WRITEs, through its Python bindings.
    Nixl(Over),
}

/// Transport of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Over {
    SharedMemory,
    /// RC QPs of the software NIC.
    Nic,
    Tcp,
}

impl Over {
    /// Restricts UCX to this transport.
    fn tell(self, command: &mut Command) {
        let (ways, devices) = match self {
            Over::SharedMemory => ("sm,self", "all"),
            Over::Nic => ("rc_v,self", "doorbell0:1"),
            Over::Tcp => ("tcp", "all"),
        };
        command.env("UCX_TLS", ways).env("UCX_NET_DEVICES", devices).env("UCX_LOG_LEVEL", "fatal");
    }
}

pub(super) const PRIVATE: &[&str] = &["--private-buffers"];

/// Builds the measured programs with the `release` profile, as users do. Returns their folder.
pub(super) fn build() -> Task<PathBuf> {
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
    let folder = workspace::target()?.join("release");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-o"]).arg(folder.join(PING)).arg(root().join("xtask/src/peers/mpi.c"));
    run(compiler.arg("-l:libmpi.so.40"))?;
    Ok(folder)
}

pub(super) fn measure(side: &MeasuredSide, statistic: Statistic, folder: &Path) -> Task<f64> {
    match side {
        MeasuredSide::Bare(arguments) => {
            let program = folder.join("examples/bare_writev");
            let text = lines(on(1, &program).args(*arguments))?.join("\n");
            text.trim().parse().map_err(|error| failed("bare_writev", error))
        }
        MeasuredSide::Perftest(options, program) => perftest(options, program, statistic, folder),
        MeasuredSide::Ucx(over, test) => ucx(*over, test, statistic, folder),
        MeasuredSide::Mpi(over) => median_of(mpi(*over, folder)),
        MeasuredSide::Nixl(over) => median_of(nixl(*over, folder)?),
    }
}

fn perftest(options: &[&str], program: &[&str], statistic: Statistic, folder: &Path) -> Task<f64> {
    let port = free_port()?;
    let command = |processor: u32| {
        let mut command = on_nic(on(processor, &folder.join("doorbell")), port, options);
        command.args(program);
        command.args(["-p", &port.to_string()]);
        command
    };
    let mut client = command(1);
    if statistic == Statistic::Latency {
        client.arg("-H");
    }
    let text = both(command(0), client.arg("localhost"), port)?;
    of_perftest(&text, statistic).ok_or_else(|| failed(program.join(" "), format!("no result in\n{text}")))
}

fn ucx(over: Over, test: &[&str], statistic: Statistic, folder: &Path) -> Task<f64> {
    let port = free_port()?;
    let command = |processor: u32| {
        let mut command = match over {
            Over::Nic => {
                let mut command = on_nic(on(processor, &folder.join("doorbell")), port, &[]);
                command.arg("ucx_perftest");
                command
            }
            Over::SharedMemory | Over::Tcp => on(processor, Path::new("ucx_perftest")),
        };
        over.tell(&mut command);
        command.arg("-t").args(test).args(["-p", &port.to_string()]);
        command
    };
    let text = both(command(0), command(1).arg("localhost"), port)?;
    of_ucx(&text, statistic).ok_or_else(|| failed(test.join(" "), format!("no result in\n{text}")))
}

/// The ping-pong under mpirun, which binds each rank to a processor.
fn mpi(over: Over, folder: &Path) -> Command {
    let mut command = match over {
        Over::Nic => {
            let mut command = on_nic(Command::new(folder.join("doorbell")), 0, &[]);
            command.arg("mpirun");
            command
        }
        Over::SharedMemory | Over::Tcp => Command::new("mpirun"),
    };
    over.tell(&mut command);
    let means: [&str; 2] = match over {
        Over::Nic => ["ucx", "self"],
        Over::SharedMemory => ["ob1", "self,vader"],
        Over::Tcp => ["ob1", "self,tcp"],
    };
    command.args(["--allow-run-as-root", "--bind-to", "core", "-np", "2", "--mca", "osc", "^ucx"]);
    command.args(["--mca", "pml", means[0], "--mca", "btl", means[1]]).arg(folder.join(PING));
    command
}

/// NIXL requires a device even if it does not use it.
fn nixl(over: Over, folder: &Path) -> Task<Command> {
    const SCRIPT: &str = "crates/soft-so/tests/soft-so/stacks/nixl.py";
    let mut command = on_nic(Command::new(folder.join("doorbell")), 0, &[]);
    command.arg(wheels::PYTHON);
    over.tell(&mut command);
    command.arg(root().join(SCRIPT)).arg(wheels::folder()?).args(["4096", "20000"]);
    Ok(command)
}

/// Runs a program and returns the number that it prints after `median`.
fn median_of(mut command: Command) -> Task<f64> {
    let text = lines(&mut command)?.join("\n");
    let value = text.split_once("median ").and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
    value.ok_or_else(|| failed("the program", format!("no result in\n{text}")))
}

/// `doorbell run` with these options. The caller appends the program and its arguments. Each TCP port has its
/// own fabric. Programs without a TCP port pass 0.
fn on_nic(mut doorbell: Command, port: u16, options: &[&str]) -> Command {
    let fabric = format!("peers-{}-{port}", std::process::id());
    doorbell.args(["run", "--fabric", &fabric]).args(options).arg("--");
    doorbell
}

/// A command that binds a program to one processor.
fn on(processor: u32, program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &processor.to_string()]).arg(program);
    command
}

fn free_port() -> Task<u16> {
    let listener = TcpListener::bind("0.0.0.0:0").map_err(|error| failed("a free port", error))?;
    Ok(listener.local_addr().map_err(|error| failed("a free port", error))?.port())
}

/// Runs a server, and a client once the server listens. Returns the client's output.
fn both(mut server: Command, client: &mut Command, port: u16) -> Task<String> {
    let server = server.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null()).spawn();
    let mut server = KilledServer(server.map_err(|error| failed("the server", error))?);
    let begin = Instant::now();
    while !listens(port) {
        if begin.elapsed() > Duration::from_secs(60) {
            return Err(Problem::Failed(format!("the server does not listen at port {port}")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let text = lines(client)?.join("\n");
    server.0.wait().map_err(|error| failed("the server", error))?;
    Ok(text)
}

/// A process that is killed on drop.
struct KilledServer(Child);

impl Drop for KilledServer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether a process listens on a TCP port, according to proc(5). This function does not connect, because a
/// connection would disturb the server.
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

/// The median of the latencies that `-H` prints, in microseconds, or the message rate in millions per second.
fn of_perftest(text: &str, statistic: Statistic) -> Option<f64> {
    match statistic {
        Statistic::Latency => {
            let after = text.lines().skip_while(|line| !line.starts_with("#, usec")).skip(1);
            let value = |line: &str| line.split_once(", ")?.1.trim().parse().ok();
            let mut values: Vec<f64> = after.map_while(value).collect();
            (!values.is_empty()).then(|| median(&mut values))
        }
        Statistic::Rate => {
            let is_result = |line: &&str| line.trim_start().starts_with(|c: char| c.is_ascii_digit());
            text.lines().rfind(is_result)?.split_whitespace().nth(4)?.parse().ok()
        }
    }
}

/// The median latency in microseconds, or the overall message rate in millions per second. Both are on the
/// line `Final:`.
fn of_ucx(text: &str, statistic: Statistic) -> Option<f64> {
    let words: Vec<&str> =
        text.lines().rfind(|line| line.starts_with("Final:"))?.split_whitespace().collect();
    match statistic {
        Statistic::Latency => words.get(2)?.parse().ok(),
        Statistic::Rate => words.get(8)?.parse::<f64>().ok().map(|rate| rate / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_perftest_are_read() {
        let latencies =
            "---\n #bytes #iterations\n#, usec\n1, 0.145216\n2, 0.15\n3, 3.2\n---\n 8 3 0.15 3.2 0.19\n";
        assert_eq!(of_perftest(latencies, Statistic::Latency), Some(0.15));
        let rate = "---\n #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgStatistic::Rate[Mpps]\n 8          2000000          0.00               30.24  \t\t   3.963919\n---\n";
        assert_eq!(of_perftest(rate, Statistic::Rate), Some(3.963919));
        assert_eq!(of_perftest("nothing", Statistic::Rate), None);
        assert_eq!(of_perftest("nothing", Statistic::Latency), None);
    }

    #[test]
    fn results_of_ucx_are_read() {
        let text = "Final:               4000000      0.050     0.059     0.060      129.80     129.81    17012653    17012654\n";
        assert_eq!(of_ucx(text, Statistic::Latency), Some(0.05));
        assert_eq!(of_ucx(text, Statistic::Rate), Some(17.012654));
        assert_eq!(of_ucx("+---+", Statistic::Rate), None);
    }
}
