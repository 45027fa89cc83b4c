//! The command line.

use crate::flags::{AnyArgs, CommonArgs, ProfileParser, SystemArgs, VerbArgs};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Parser, Subcommand, ValueHint};
use doorbell_lab::compare::Tolerance;
use doorbell_lab::sweep::Shard;
use doorbell_lab::{Duration, Schema, Share, Workload};
use doorbell_launch::faults::time;
use doorbell_launch::modes::NamedMode;
use doorbell_launch::strict::Strict;
use doorbell_launch::{Link, MOST_RANKS, Ptrace, Timers};
use doorbell_schema::{BadShare, NumberUnit};
use doorbell_series::{Locality, MeasuredUnit, SeriesRole};
use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;

/// Exit codes for scripts, shown below the help of `doorbell`.
const EXIT_CODES: &str = "Exit codes: 0 success; 2 bad input, explained in one sentence on standard error; \
     3 no operation completed; 4 compare: a difference beyond the tolerance. Interrupted: 130, or 143 by \
     SIGTERM; the results so far are printed. run: 127 no such program, 126 the program cannot be run. 1 \
     any other failure";

/// A workbench for people who build systems on RDMA.
#[derive(Parser)]
#[command(name = "doorbell", version, disable_help_subcommand = true, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// Print help with all options
    #[arg(long, global = true, action = clap::ArgAction::HelpLong)]
    help_all: Option<bool>,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a workload in virtual time: rate, latency and bottleneck.
    Simulate(SimulateArgs),
    /// Run a workload at each value of one or two options: curves, and the knee of a curve.
    Sweep(SweepArgs),
    /// Compare workloads side by side, or results with earlier results.
    Compare(CompareArgs),
    /// Print the upper bound that each resource sets for a workload, without simulation.
    Limits(LimitsArgs),
    /// List the profiles, or the parameters of one profile with their sources.
    Profiles(ProfilesArgs),
    /// Make a file of measurements from the output of perftest, or from comma-separated values.
    #[command(subcommand)]
    Import(ImportCommand),
    /// Check the papers' claims: tables, figures and single numbers.
    Reproduce(ReproduceArgs),
    /// Set measurements of a NIC beside its profile: the error of each point and series.
    Check(CheckArgs),
    /// Run an unmodified RDMA program on a software NIC, without RDMA hardware.
    Run(RunArgs),
    /// Run a system on this machine, over the software NIC or another libibverbs, and over TCP.
    Live(LiveArgs),
    /// Show where results are stored for reuse, and how much space they take.
    Cache(CacheArgs),
    /// Print a manual page, for `man -l -`.
    Man(ManArgs),
    /// Print a script that completes this command's options in a shell.
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// The command line of `doorbell run` alone. Clap is slow with the options of all commands: they take most of
/// the time in which a program starts.
#[derive(Parser)]
#[command(name = "doorbell")]
struct RunLine {
    #[command(subcommand)]
    command: RunCommand,
    // Without this argument, clap would take `--help-all` as the program.
    /// Print help with all options
    #[arg(long, global = true, action = clap::ArgAction::HelpLong)]
    help_all: Option<bool>,
}

#[derive(Subcommand)]
enum RunCommand {
    Run(Box<RunArgs>),
}

impl Args {
    /// Reads the command line.
    ///
    /// # Errors
    /// If it asks for help, or has a mistake.
    pub(crate) fn read() -> Result<Args, clap::Error> {
        let is_run = std::env::args_os().nth(1).is_some_and(|word| word == "run");
        // A mistake is explained, and help is printed, by the command line of all commands.
        match is_run.then(RunLine::try_parse) {
            Some(Ok(RunLine { command: RunCommand::Run(args), help_all })) => {
                Ok(Args { command: Some(Command::Run(*args)), help_all })
            }
            _ => Args::try_parse(),
        }
    }
}

#[derive(clap::Args)]
pub(crate) struct RunArgs {
    /// How the device presents itself: InfiniBand, addressed by LID, or RoCE, addressed by GID
    #[arg(long, value_parser = modes::<Link>(), default_value = Link::default().name())]
    pub(crate) link: Link,
    /// Show the program the vendor and part id and the limits of this profile's NIC, or of cx5, cx6 or cx7.
    /// Some programs choose by these ids, such as perftest its inline size [default: ids and limits of the
    /// software NIC]
    #[arg(long = "as", value_name = "NIC")]
    pub(crate) presented_as: Option<String>,
    /// The library to load [default: libibverbs.so beside this command]
    #[arg(long, value_name = "PATH")]
    pub(crate) lib: Option<PathBuf>,
    /// Leave the program's page-aligned buffers in private memory
    #[arg(long)]
    pub(crate) private_buffers: bool,
    /// When a work request is sent again after an RNR NAK, or without an answer: when the timers of a NIC
    /// expire (min_rnr_timer, timeout), or as soon as it may succeed
    #[arg(long, value_parser = modes::<Timers>(), default_value = Timers::default().name())]
    pub(crate) timers: Timers,
    /// Whether all processes of this user may read and write the program's memory if Yama forbids it
    /// (ptrace_scope is 1). With no, a thread of the program serves the memory to its peers, which is slower
    #[arg(long, value_parser = modes::<Ptrace>(), default_value = Ptrace::default().name())]
    pub(crate) ptrace: Ptrace,
    /// Connect only to programs that run with this fabric name
    #[arg(long, value_name = "NAME")]
    pub(crate) fabric: Option<String>,
    /// Connect programs in different containers through this folder, which must have mode 0700. Their runs
    /// must name the folder and one fabric. A thread of the owner serves private memory, which is slower
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath, requires = "fabric")]
    pub(crate) meet: Option<PathBuf>,
    /// Do not print on standard error why a QP is in error, why a call is refused, why a process waits, and
    /// that the program never opened the device
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Print which call waits, and for which event, when the wait has lasted this time, such as 5s [default:
    /// at Ctrl-C or SIGTERM, or when nothing can end the wait]
    #[arg(long, value_name = "TIME", value_parser = wait, allow_hyphen_values = true)]
    pub(crate) explain_after: Option<std::time::Duration>,
    /// Inject faults, separated by commas: drop=P, delay=T or T1..T2, rnr or rnr=P, kill-qp@N (each QP's N-th
    /// work request), port-down@T or T1..T2 (since the device was opened); such as drop=1e-4,delay=10us
    #[arg(long, value_name = "FAULTS")]
    pub(crate) fault: Option<String>,
    /// Seed that selects the work requests with faults, for repeatable runs [default: 1]
    #[arg(long, value_name = "N", value_parser = seed, allow_negative_numbers = true)]
    pub(crate) seed: Option<u64>,
    /// End the program by SIGABRT, or only warn, if it does something that works here but not on a NIC
    /// [without a word: fail]
    #[arg(long, value_name = "THEN", value_parser = modes::<Strict>(), num_args = 0..=1,
          require_equals = true, default_missing_value = Strict::Fail.name())]
    pub(crate) strict: Option<Strict>,
    /// Write posts and completions of all QPs to this file, as a trace for ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Number of work requests per process to trace, from the first on [default: 100000]
    #[arg(long, value_name = "N", requires = "trace", value_parser = operations, allow_negative_numbers = true)]
    pub(crate) trace_ops: Option<u64>,
    /// Run N processes of the program as ranks of one run. DOORBELL_RANK and DOORBELL_SIZE are in their
    /// environment, their output is prefixed with the rank, and statistics cover all of them together
    #[arg(short = 'n', long, value_name = "N", value_parser = ranks, allow_negative_numbers = true)]
    pub(crate) ranks: Option<u32>,
    /// IP address of the program's host, for rdma_cm. With -n it is the address of rank 0, and each next rank
    /// has the next address [default: the fabric's]
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub(crate) ip: Option<IpAddr>,
    /// Profile of the NIC for the statistics [default: the profile of --as, else cib]
    #[arg(long, value_parser = ProfileParser, hide_possible_values = true)]
    pub(crate) profile: Option<String>,
    /// Print the posted work requests and their cost on the NIC at the end, however the program ends
    #[arg(long)]
    pub(crate) stats: bool,
    /// Write the statistics as JSON, which `doorbell simulate` accepts as a workload. Several processes are
    /// written together, and each also to a file with its number before the extension
    #[arg(long, value_name = "FILE")]
    pub(crate) stats_json: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM",
          value_hint = ValueHint::CommandWithArguments)]
    pub(crate) program: Vec<OsString>,
}

#[derive(clap::Args)]
pub(crate) struct LiveArgs {
    #[command(flatten)]
    pub(crate) workload: SystemArgs,
    /// The libibverbs to use, as a path or a name for the loader: libibverbs.so.1 for the system's [default:
    /// the software NIC's, beside this command]
    #[arg(long, value_name = "LIBRARY")]
    pub(crate) lib: Option<PathBuf>,
    /// Number of the device to use, from 0 in the library's order
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = device, allow_negative_numbers = true)]
    pub(crate) device: usize,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(clap::Args)]
pub(crate) struct SimulateArgs {
    #[command(flatten)]
    pub(crate) workload: AnyArgs,
    /// Rerun with more of each resource to find the bottleneck, and try other options
    #[arg(long)]
    pub(crate) explain: bool,
    /// Run 39 more times with parameters drawn from their ranges, and print 90% intervals of rate and latency
    #[arg(long)]
    pub(crate) uncertainty: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Wall-clock time of the whole command, with all reruns. When it is over, the results so far are printed
    /// [default: 60s for each run]
    #[arg(long, value_name = "TIME")]
    pub(crate) max_wall: Option<Duration>,
    /// Write the latencies to this file as comma-separated values: nanoseconds, operations, and the share of
    /// operations that took at most as long
    #[arg(long, value_name = "FILE")]
    pub(crate) histogram: Option<PathBuf>,
    /// Draw the distribution of latencies (CDF) to this file, as SVG
    #[arg(long, value_name = "FILE")]
    pub(crate) cdf: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
}

#[derive(clap::Args)]
pub(crate) struct SweepArgs {
    #[command(flatten)]
    pub(crate) workload: AnyArgs,
    /// An option and its values: size=16,64,256, or size=64..1024+64 by steps, or qps=1..64*2 by powers.
    /// Repeat for a second option. In a file: over = "size=16,64 qps=1..64*2"
    #[arg(long, value_name = "OPTION=VALUES", help_heading = "Sweep")]
    pub(crate) over: Vec<String>,
    /// Search the highest load (window, outstanding, clients, rate) with a p99 under --p99-under
    #[arg(long, value_name = "WHAT", value_parser = PossibleValuesParser::new(["knee"]), requires = "p99_under", help_heading = "Sweep")]
    pub(crate) find: Option<String>,
    /// Upper bound of the 99th percentile of latency, such as 5us
    #[arg(long, value_name = "D", requires = "find", help_heading = "Sweep")]
    pub(crate) p99_under: Option<Duration>,
    /// Rerun each point with more of each resource to find the bottleneck
    #[arg(long, help_heading = "Sweep")]
    pub(crate) explain: bool,
    /// Run only every N-th point, starting at the K-th. --merge combines the parts
    #[arg(long, value_name = "K/N", conflicts_with = "find", help_heading = "Sweep")]
    pub(crate) shard: Option<Shard>,
    /// Merge parts of a sweep from --shard and --json
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["find", "shard", "over", "file", "explain"], help_heading = "Sweep")]
    pub(crate) merge: Vec<PathBuf>,
    /// Make all runs, even those with stored results; see `doorbell cache`
    #[arg(long, help_heading = "Sweep")]
    pub(crate) fresh: bool,
    /// Number of concurrent simulations, or fewer if memory is short [default: number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), help_heading = "Sweep")]
    pub(crate) jobs: Option<u16>,
    /// Wall-clock time of the whole command, shared evenly by the points. When it is over, the results so far
    /// are printed [default: no limit]
    #[arg(long, value_name = "TIME", help_heading = "Sweep")]
    pub(crate) max_wall: Option<Duration>,
    /// Also draw rate and p99 in the terminal
    #[arg(long, conflicts_with = "json", help_heading = "Sweep")]
    pub(crate) plot: bool,
    /// Write curves of rate and p99 to this file
    #[arg(long, value_name = "FILE", help_heading = "Sweep")]
    pub(crate) svg: Option<PathBuf>,
    /// Write a comma-separated line for each point to this file
    #[arg(long, value_name = "FILE", help_heading = "Sweep")]
    pub(crate) csv: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(clap::Args)]
pub(crate) struct CompareArgs {
    /// Sides to compare: each a profile, a workload file, options such as size=64, or several of these in
    /// quotes: cib cx3, a.toml b.toml, "cx3 qps=2" "cx3 qps=4". With --baseline, one file of new results
    #[arg(required = true, value_name = "SIDE")]
    pub(crate) side: Vec<String>,
    /// Rerun each side with more of each resource to find the bottleneck
    #[arg(long)]
    pub(crate) explain: bool,
    /// Where the defaults of sides differ, use the default of the first side that has the option
    #[arg(long, conflicts_with = "baseline")]
    pub(crate) same: bool,
    /// Earlier results of simulate --json, sweep --json or run --stats-json. Exits with code 4 if new results
    /// differ by more than --tolerance
    #[arg(long, value_name = "FILE", conflicts_with = "explain")]
    pub(crate) baseline: Option<PathBuf>,
    /// Largest relative difference from the baseline, better or worse [default: 5%]
    #[arg(long, value_name = "PERCENT", requires = "baseline")]
    pub(crate) tolerance: Option<Tolerance>,
    /// Make all runs, even those with stored results; see `doorbell cache`
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Number of concurrent simulations, or fewer if memory is short [default: number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    /// Wall-clock time of the whole command, shared evenly by the sides. When it is over, the results so far
    /// are printed [default: no limit]
    #[arg(long, value_name = "TIME")]
    pub(crate) max_wall: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Draw the distributions of latencies (CDFs) to this file, as SVG
    #[arg(long, value_name = "FILE", conflicts_with = "baseline")]
    pub(crate) cdf: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// Options to trace a run.
#[derive(clap::Args)]
#[command(next_help_heading = "Tracing")]
pub(crate) struct TraceArgs {
    /// Write the stages of each operation, busy resources and waiting work to this file, as a trace for
    /// ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Write the packets as RoCEv2, for Wireshark (pcapng)
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,
    /// Print the mean time of each stage of an operation, over the traced operations
    #[arg(long)]
    pub(crate) breakdown: bool,
    /// Draw the stages of the operation of median time to this file, as SVG. Includes --breakdown
    #[arg(long, value_name = "FILE")]
    pub(crate) waterfall: Option<PathBuf>,
    /// Virtual time at which the trace begins, counted from the start of all threads. Clients of a system
    /// begin at least 1.5 ms later [default: the end of the warm-up]
    #[arg(long, value_name = "TIME")]
    pub(crate) trace_from: Option<Duration>,
    /// Number of operations to trace, from the first on; the files end with the last of them [default: 1000]
    #[arg(long, value_name = "N", value_parser = operations, allow_negative_numbers = true)]
    pub(crate) trace_ops: Option<u64>,
}

#[derive(clap::Args)]
pub(crate) struct LimitsArgs {
    #[command(flatten)]
    pub(crate) workload: VerbArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(clap::Args)]
pub(crate) struct ProfilesArgs {
    /// Built-in profile, or path of a profile's TOML file
    #[arg(value_parser = ProfileParser, hide_possible_values = true)]
    pub(crate) name: Option<String>,
    /// Show the profile with another value of a parameter, such as tx.send_ns=20. Repeatable
    #[arg(long, value_name = "NAME=NUMBER", requires = "name")]
    pub(crate) set: Vec<String>,
    /// Print, in Markdown, the data behind the profile, and its error for each datum, with and without that
    /// datum
    #[arg(long, requires = "name", conflicts_with_all = ["json", "set"])]
    pub(crate) data: bool,
    /// Print section [measured.machine] for the profile's file: the values that its measurements support, if
    /// they were made with these values
    #[arg(long, requires = "name", conflicts_with_all = ["json", "set", "data"])]
    pub(crate) record: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Subcommand)]
pub(crate) enum ImportCommand {
    /// Read the output of perftest's clients: ib_write_lat, ib_write_bw, and those of READ, SEND and atomics.
    Perftest(ImportPerftestArgs),
    /// Read a file of comma-separated values with a line of titles.
    Csv(ImportCsvArgs),
}

#[derive(clap::Args)]
pub(crate) struct ImportPerftestArgs {
    /// Files with the output of a program, or of several
    #[arg(required = true, value_name = "LOG", value_hint = ValueHint::FilePath)]
    pub(crate) logs: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) about: AboutArgs,
}

#[derive(clap::Args)]
pub(crate) struct ImportCsvArgs {
    /// The file
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// A column and the key that it becomes: the axis, value, another key of the workload, or a name of your
    /// own. Each row with other keys of the workload belongs to another series. Repeatable
    #[arg(long, required = true, value_name = "TITLE=KEY")]
    pub(crate) column: Vec<String>,
    /// The workload as a TOML table, with its axis, such as verb = "write", transport = "rc",
    /// metric = "rate", axis = "size"
    #[arg(long, value_name = "TABLE")]
    pub(crate) workload: String,
    /// Unit of the values
    #[arg(long, value_parser = PossibleValuesParser::new(MeasuredUnit::NAMES))]
    pub(crate) unit: String,
    /// Character between columns
    #[arg(long, value_name = "CHAR", default_value = ",")]
    pub(crate) separator: char,
    #[command(flatten)]
    pub(crate) about: AboutArgs,
}

/// Facts that the measured data lack. Facts that are not known are absent in the file.
#[derive(clap::Args)]
pub(crate) struct AboutArgs {
    /// Name of the NIC, such as ConnectX-6 [default: from --devinfo or --lspci]
    #[arg(long)]
    pub(crate) nic: Option<String>,
    /// Name for the pair of machines: give equal machines one name
    #[arg(long, value_name = "NAME", default_value = "mine")]
    pub(crate) host: String,
    /// Processors of the machines, in words [default: from --lscpu]
    #[arg(long, value_name = "TEXT")]
    pub(crate) cpu: Option<String>,
    /// PCIe slot of the NIC, such as gen4x16 [default: from --lspci]
    #[arg(long, value_name = "SLOT")]
    pub(crate) pcie: Option<String>,
    /// Rate of the link in Gb/s, as vendors name it [default: from --devinfo]
    #[arg(long, value_name = "GBPS", value_parser = gbps, allow_negative_numbers = true)]
    pub(crate) link: Option<f64>,
    /// Switches between the machines; 0 for back to back
    #[arg(long, value_name = "N", conflicts_with_all = ["switched", "loopback"])]
    pub(crate) hops: Option<u32>,
    /// At least one switch is between the machines
    #[arg(long, conflicts_with = "loopback")]
    pub(crate) switched: bool,
    /// The NIC sends to itself or to its second port
    #[arg(long)]
    pub(crate) loopback: bool,
    /// Socket of both processes, relative to the NIC's
    #[arg(long, value_parser = PossibleValuesParser::new(Locality::NAMES))]
    pub(crate) socket: Option<String>,
    /// Further words about the machines and the way between them
    #[arg(long, value_name = "TEXT")]
    pub(crate) topology: Option<String>,
    /// Where the values come from [default: the name of the log]
    #[arg(long, value_name = "TEXT")]
    pub(crate) source: Option<String>,
    /// Use of the series
    #[arg(long, value_parser = PossibleValuesParser::new(SeriesRole::NAMES), default_value = "calibrate")]
    pub(crate) role: String,
    /// Output of `ibv_devinfo -v`: NIC, link and fabric
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) devinfo: Option<PathBuf>,
    /// The measured device of --devinfo, such as mlx5_0 [default: the device in the log]
    #[arg(long, value_name = "NAME", requires = "devinfo")]
    pub(crate) device: Option<String>,
    /// Output of `lspci -vv`, as root: NIC and PCIe slot
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) lspci: Option<PathBuf>,
    /// The measured NIC of --lspci, such as 3b:00.0 [default: the only NIC]
    #[arg(long, value_name = "ADDRESS", requires = "lspci")]
    pub(crate) slot: Option<String>,
    /// Output of `lscpu`: processors
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) lscpu: Option<PathBuf>,
    /// File for the measurements, which must not exist [default: standard output]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) output: Option<PathBuf>,
}

/// Reads the rate of a link.
fn gbps(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| format!("`{text}` is not a rate in Gb/s, such as 100"))
}

#[derive(clap::Args)]
pub(crate) struct ReproduceArgs {
    /// A paper (atc16), a table, figure or appendix (atc16/tab4, atc16/fig2, atc16/appA), the id of a claim,
    /// or other measurements on a paper's clusters (rc-swarm, cluster21-reads) [default: all papers]
    pub(crate) selector: Vec<String>,
    /// Refused, with an explanation
    #[arg(long, hide = true, value_name = "NAME=NUMBER")]
    pub(crate) set: Vec<String>,
    /// Print JSON, with whole curves
    #[arg(long)]
    pub(crate) json: bool,
    /// Compute denser curves; takes longer
    #[arg(long)]
    pub(crate) full: bool,
    /// Make all runs 39 more times with parameters drawn from their ranges, and print how many predicted
    /// numbers lie within their 90% intervals; takes longer
    #[arg(long)]
    pub(crate) uncertainty: bool,
    /// Also check statements beyond the papers' measurements, on machines that no paper had; takes longer
    #[arg(long)]
    pub(crate) beyond: bool,
    /// Make all runs, even those with stored results; see `doorbell cache`
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Number of concurrent simulations, or fewer if memory is short [default: number of cores]
    #[arg(long, value_name = "N", value_parser = jobs, allow_negative_numbers = true)]
    pub(crate) jobs: Option<usize>,
    /// Wall-clock time of the whole command. When it is over, the experiments that are finished are printed
    /// [default: no limit]
    #[arg(long, value_name = "TIME")]
    pub(crate) max_wall: Option<Duration>,
    /// End each run when rate and mean latency are known to this precision, such as 1% [default: the times of
    /// each experiment]
    #[arg(long, value_name = "PERCENT", value_parser = precision)]
    pub(crate) precision: Option<Share>,
    /// Write a plot of each table and figure to this directory, such as atc16-tab4.svg
    #[arg(long, value_name = "DIR")]
    pub(crate) plots: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct CheckArgs {
    /// File of measurements (docs/check.md)
    #[arg(value_hint = ValueHint::FilePath)]
    pub(crate) file: PathBuf,
    /// Built-in profile, or path of a profile's TOML file. Its measured_as names the NIC's series
    #[arg(long, value_name = "NAME", value_parser = ProfileParser, hide_possible_values = true)]
    pub(crate) profile: String,
    /// Print each point: measured, model, analytic limit and error
    #[arg(long, conflicts_with = "json")]
    pub(crate) points: bool,
    /// Write a plot of each series to this directory: measured, model and analytic limit
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub(crate) plots: Option<PathBuf>,
    /// End each run when rate and mean latency are known to this precision, such as 5% [default: 1%]
    #[arg(long, value_name = "PERCENT", value_parser = precision)]
    pub(crate) precision: Option<Share>,
    /// Make all runs, even those with stored results; see `doorbell cache`
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Number of concurrent simulations, or fewer if memory is short [default: number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
    /// Wall-clock time of the whole command. When it is over, the results so far are printed [default: no
    /// limit]
    #[arg(long, value_name = "TIME")]
    pub(crate) max_wall: Option<Duration>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(clap::Args)]
pub(crate) struct ManArgs {
    /// Command of the page, such as simulate or cache clear [default: doorbell itself]
    pub(crate) command: Vec<String>,
    /// Write the pages of all commands to this directory, such as doorbell-simulate.1
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct CacheArgs {
    #[command(subcommand)]
    pub(crate) command: Option<CacheCommand>,
}

#[derive(Subcommand)]
pub(crate) enum CacheCommand {
    /// Remove all stored results.
    Clear,
}

fn operations(text: &str) -> Result<u64, String> {
    whole(text, 1, u64::MAX)
}

/// Accepts the names of modes.
fn modes<M: NamedMode + Send + Sync>() -> impl TypedValueParser<Value = M> {
    let mode = |name: String| M::named(&name).expect("clap accepts only these names");
    PossibleValuesParser::new(M::ALL.iter().map(|mode| mode.name())).map(mode)
}

fn ranks(text: &str) -> Result<u32, String> {
    whole(text, 1, MOST_RANKS.into()).map(|ranks| ranks as u32)
}

fn address(text: &str) -> Result<IpAddr, String> {
    text.parse().map_err(|_| format!("`{text}` is not an IP address, such as 10.0.0.1 or fd00::1"))
}

fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is not a whole number from 0 to {}", u64::MAX))
}

fn wait(text: &str) -> Result<std::time::Duration, String> {
    time(text).ok_or_else(|| format!("`{text}` is not a time of at most an hour, such as 5s or 500ms"))
}

fn jobs(text: &str) -> Result<usize, String> {
    whole(text, 1, u16::MAX.into()).map(|jobs| jobs as usize)
}

/// Parses a share as the field `precision` of a workload does.
fn precision(text: &str) -> Result<Share, String> {
    let field = Workload::fields().into_iter().find(|field| field.key == "precision");
    field.expect("workloads have a precision").parse(text)?;
    text.parse().map_err(|e: BadShare| e.to_string())
}

fn device(text: &str) -> Result<usize, String> {
    whole(text, 0, u16::MAX.into()).map(|device| device as usize)
}

/// Parses a whole number from `least` to `most`.
fn whole(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let number = NumberUnit::Count.read(text).ok().filter(|number| (least..=most).contains(number));
    let range =
        if most == u64::MAX { format!("of at least {least}") } else { format!("from {least} to {most}") };
    number.ok_or_else(|| format!("`{text}` is not a whole number {range}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        Args::command().debug_assert();
    }
}
