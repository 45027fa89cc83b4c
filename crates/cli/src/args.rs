//! The command line.

use crate::system::SystemArgs;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Parser, Subcommand};
use doorbell_lab::{Duration, Pattern, Verb, Workload, WorkloadError};
use doorbell_verbs::QpType;
use std::ffi::OsString;
use std::path::PathBuf;

/// A workbench for people who build systems on RDMA.
#[derive(Parser)]
#[command(name = "doorbell", version, disable_help_subcommand = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run a workload in virtual time: rate, latency, and what limits it.
    Simulate(SimulateArgs),
    /// Say what a workload can reach at most, by each resource, without simulation.
    Limits(LimitsArgs),
    /// List the profiles, or the parameters of one with where each comes from.
    Profiles(ProfilesArgs),
    /// Check the papers' claims: tables, figures, single numbers.
    Reproduce(ReproduceArgs),
    /// Run an unmodified RDMA program on a software NIC, no hardware needed.
    Run(RunArgs),
}

#[derive(clap::Args)]
pub(crate) struct RunArgs {
    /// How the device presents itself: InfiniBand, addressed by LID, or RoCE, addressed by GID
    #[arg(long, value_parser = PossibleValuesParser::new(["ib", "roce"]), default_value = "ib")]
    pub(crate) link: String,
    /// The library to load [default: libibverbs.so beside this command]
    #[arg(long, value_name = "PATH")]
    pub(crate) lib: Option<PathBuf>,
    /// Leave the program's page-aligned buffers in private memory
    #[arg(long)]
    pub(crate) private_buffers: bool,
    /// Only programs run with the same name reach each other
    #[arg(long, value_name = "NAME")]
    pub(crate) fabric: Option<String>,
    /// Profile of the NIC that statistics are for [default: cib]
    #[arg(long)]
    pub(crate) profile: Option<String>,
    /// Print at the end what the program posted, and what that would cost the NIC
    #[arg(long)]
    pub(crate) stats: bool,
    /// The same as JSON, which `doorbell simulate` takes as a workload; of all processes but the first
    /// to end, the file has the process number before the extension
    #[arg(long, value_name = "FILE")]
    pub(crate) stats_json: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
}

#[derive(clap::Args)]
pub(crate) struct SimulateArgs {
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    #[command(flatten)]
    pub(crate) system: SystemArgs,
    /// Rerun with 10% more of each resource, and name as bottleneck what lifts the rate most
    #[arg(long)]
    pub(crate) explain: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(clap::Args)]
pub(crate) struct LimitsArgs {
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(clap::Args)]
pub(crate) struct ProfilesArgs {
    /// Built-in profile, or path of a profile's TOML file
    pub(crate) name: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(clap::Args)]
pub(crate) struct ReproduceArgs {
    /// A paper (atc16), a table, figure or appendix (atc16/tab4, atc16/fig2, atc16/appA), or the id
    /// of a claim; everything if none is given
    pub(crate) selector: Vec<String>,
    /// Print JSON, with whole curves
    #[arg(long)]
    pub(crate) json: bool,
    /// Denser curves; takes longer
    #[arg(long)]
    pub(crate) full: bool,
    /// Write a plot of each table and figure to this directory, as tab4.svg
    #[arg(long, value_name = "DIR")]
    pub(crate) plots: Option<PathBuf>,
}

fn transport(name: String) -> QpType {
    match name.as_str() {
        "rc" => QpType::Rc,
        "uc" => QpType::Uc,
        // The parser lets only these three through.
        _ => QpType::Ud,
    }
}

/// A parser for names out of `table`.
pub(crate) fn one_of<T: Copy + Send + Sync + 'static>(
    table: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    let names = PossibleValuesParser::new(table.iter().map(|(name, _)| *name));
    names.map(|name| table.iter().find(|(n, _)| *n == name).expect("the parser lets only these through").1)
}

#[derive(clap::Args)]
pub(crate) struct WorkloadArgs {
    /// Workload file, TOML or JSON, whose keys are these options with _ for -, or what
    /// `doorbell run --stats-json` wrote; options override it. Only a file can name machines that
    /// differ, by tables named machine, each with a profile and a count
    file: Option<PathBuf>,
    /// Built-in profile or path of a profile's TOML file [default: cib]
    #[arg(long, value_name = "NAME")]
    profile: Option<String>,
    /// Verb [default: send]
    #[arg(long, value_parser = one_of(&Verb::ALL))]
    verb: Option<Verb>,
    /// Transport [default: ud for send, uc for write, rc for the others]
    #[arg(long, value_parser = PossibleValuesParser::new(["rc", "uc", "ud"]).map(transport))]
    transport: Option<QpType>,
    /// Payload in bytes [default: 32, atomics 8]
    #[arg(long, value_name = "BYTES")]
    size: Option<u32>,
    /// Machines [default: 8]
    #[arg(long, value_name = "M")]
    machines: Option<u32>,
    /// Threads of each machine, one per core [default: all cores]
    #[arg(long, value_name = "T")]
    threads: Option<u32>,
    /// QPs of each thread [default: one per peer, on UD one]
    #[arg(long, value_name = "Q")]
    qps: Option<u32>,
    /// Operations outstanding per thread; per QP, and at least 2S, if S of --signal-every exceeds 1
    /// [default: 16, or 64 per QP; more if batches need it]
    #[arg(long, value_name = "W")]
    window: Option<u32>,
    /// Work requests per doorbell [default: 1]
    #[arg(long, value_name = "B")]
    batch: Option<u32>,
    /// Signal each S-th operation of a QP [default: 16 for send and write, else 1]
    #[arg(long, value_name = "S")]
    signal_every: Option<u32>,
    /// Copy payload into the WQE [default: if it fits]
    #[arg(long, overrides_with = "no_inline")]
    inline: bool,
    /// Let the NIC read payload by DMA
    #[arg(long)]
    no_inline: bool,
    /// SEND an immediate and no payload
    #[arg(long)]
    header_only: bool,
    /// Receive payload in the CQE, on NICs that can
    #[arg(long)]
    inline_recv: bool,
    /// Fill the window only once it is empty
    #[arg(long)]
    drain: bool,
    /// Counters of a responder machine, for atomics [default: 1]
    #[arg(long, value_name = "Z")]
    counters: Option<u32>,
    /// Bytes from one counter to the next [default: 8]
    #[arg(long, value_name = "BYTES")]
    counter_stride: Option<u32>,
    /// Memory in pages of 4 kB instead of 2 MB
    #[arg(long)]
    small_pages: bool,
    /// Who posts: machine 0 to the others, the others to machine 0, or all to all
    /// [default: outbound for send and write, else inbound]
    #[arg(long, value_parser = one_of(&Pattern::ALL))]
    pattern: Option<Pattern>,
    /// Virtual time before measuring, as 500us [default: 200us]
    #[arg(long, value_name = "D")]
    warmup: Option<Duration>,
    /// Virtual time to measure, as 2ms [default: 1ms]
    #[arg(long, value_name = "D")]
    duration: Option<Duration>,
    /// Seed of all random draws [default: 1]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

impl WorkloadArgs {
    /// The options, over the file's contents if one is given.
    pub(crate) fn workload(self) -> Result<Workload, WorkloadError> {
        let base = self.file.as_deref().map(Workload::read).transpose()?.unwrap_or_default();
        let flags = Workload {
            profile: self.profile,
            // Only files name groups.
            machine: None,
            verb: self.verb,
            transport: self.transport,
            size: self.size,
            machines: self.machines,
            threads: self.threads,
            qps: self.qps,
            window: self.window,
            batch: self.batch,
            signal_every: self.signal_every,
            inline: if self.inline { Some(true) } else { self.no_inline.then_some(false) },
            header_only: self.header_only.then_some(true),
            inline_recv: self.inline_recv.then_some(true),
            drain: self.drain.then_some(true),
            counters: self.counters,
            counter_stride: self.counter_stride,
            huge_pages: self.small_pages.then_some(false),
            pattern: self.pattern,
            warmup: self.warmup,
            duration: self.duration,
            seed: self.seed,
        };
        Ok(flags.over(base))
    }
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
