//! `doorbell simulate --system`.

use crate::args::one_of;
use crate::exit::{self, Exit};
use crate::progress;
use crate::simulate;
use crate::table::{self, Align};
use doorbell_lab::{Control, EXPLAIN_RUNS, System, SystemOutcome, SystemWorkload, Workload};
use std::fmt::Write;

/// What `--system` names.
const SYSTEMS: [(&str, Name); 4] = [
    ("sequencer", Name::Sequencer),
    ("herd-kv", Name::Kv(System::HerdKv)),
    ("read-kv", Name::Kv(System::ReadKv)),
    ("drtm-kv", Name::Kv(System::DrtmKv)),
];

/// What `--design` names.
const DESIGNS: [(&str, System); 3] = [
    ("rpc", System::RpcSequencer),
    ("spec-s0", System::SpecSequencer),
    ("atomics", System::AtomicsSequencer),
];

#[derive(Clone, Copy)]
enum Name {
    Sequencer,
    Kv(System),
}

#[derive(clap::Args)]
#[command(next_help_heading = "Systems")]
pub(crate) struct SystemArgs {
    /// Run a system instead of a verb; machine 0 is the server. Of the options above, only --profile,
    /// --warmup, --duration and --seed go with it
    #[arg(long, value_parser = one_of(&SYSTEMS), value_name = "SYSTEM")]
    system: Option<Name>,
    /// Design of the sequencer [default: rpc]
    #[arg(long, value_parser = one_of(&DESIGNS), requires = "system")]
    design: Option<System>,
    /// Worker threads of the server [default: 6]
    #[arg(long, value_name = "N", requires = "system")]
    cores: Option<u32>,
    /// Clients [default: 70, herd-kv 128]
    #[arg(long, value_name = "N", requires = "system")]
    clients: Option<u32>,
    /// Clients of a machine [default: 14, stores over RPC 16]
    #[arg(long, value_name = "N", requires = "system")]
    clients_per_machine: Option<u32>,
    /// Operations that a client has outstanding [default: 32, with spec-s0, atomics, read-kv and drtm-kv 16]
    #[arg(long, value_name = "N", requires = "system")]
    outstanding: Option<u32>,
    /// Replace each operation at once, rather than wait for a whole window [default: over RPC, windows]
    #[arg(long, requires = "system")]
    continuous: bool,
    /// Post replies one by one
    #[arg(long, requires = "system")]
    no_batching: bool,
    /// Requests that a worker takes in a pass [default: 32; rpc without batching 1]
    #[arg(long, value_name = "N", requires = "system")]
    gather: Option<u32>,
    /// UD QPs per port that replies take turns with [default: sequencers 3, stores 1]
    #[arg(long, value_name = "N", requires = "system")]
    multi_queue: Option<u32>,
    /// Requests by UD SEND rather than by WRITE over a connected QP; rpc, herd-kv, and PUTs of read-kv
    #[arg(long, requires = "system")]
    datagrams: bool,
    /// Pairs of each core's partition, of drtm-kv's server [default: 8192, drtm-kv 1048576]
    #[arg(long, value_name = "N", requires = "system")]
    pairs: Option<u64>,
    /// Keys by Zipf's law rather than uniformly
    #[arg(long, requires = "system")]
    zipf: bool,
    /// Bytes of a value [default: 32]
    #[arg(long, value_name = "BYTES", requires = "system")]
    value: Option<u32>,
    /// PUTs in a thousand operations [default: herd-kv 50, else 0]
    #[arg(long, value_name = "N", requires = "system")]
    put_permille: Option<u32>,
    /// GET only what has changed since the client read it; herd-kv
    #[arg(long, requires = "system")]
    speculate: bool,
    /// PUTs write their value; drtm-kv
    #[arg(long, requires = "system")]
    update: bool,
}

impl SystemArgs {
    /// Whether a system is asked for.
    pub(crate) fn is_given(&self) -> bool {
        self.system.is_some()
    }

    fn system(&self) -> Result<System, Exit> {
        match (self.system, self.design) {
            (Some(Name::Kv(_)), Some(_)) => {
                Err(Exit::bad_input("--design goes with --system sequencer only"))
            }
            (Some(Name::Kv(system)), None) => Ok(system),
            _ => Ok(self.design.unwrap_or(System::RpcSequencer)),
        }
    }

    /// An option that `system` does not have is a mistake.
    fn check_options(&self, system: System) -> Result<(), Exit> {
        let rpc = matches!(system, System::RpcSequencer | System::HerdKv | System::ReadKv);
        let workers = rpc || system == System::SpecSequencer;
        let store = matches!(system, System::HerdKv | System::ReadKv | System::DrtmKv);
        let options = [
            ("--cores", self.cores.is_some(), workers),
            ("--no-batching", self.no_batching, workers),
            ("--gather", self.gather.is_some(), workers),
            ("--multi-queue", self.multi_queue.is_some(), workers),
            ("--datagrams", self.datagrams, rpc),
            ("--pairs", self.pairs.is_some(), store),
            ("--zipf", self.zipf, store),
            ("--value", self.value.is_some(), store),
            ("--put-permille", self.put_permille.is_some(), store),
            ("--speculate", self.speculate, system == System::HerdKv),
            ("--update", self.update, system == System::DrtmKv),
        ];
        match options.iter().find(|(_, given, has)| *given && !has) {
            None => Ok(()),
            Some((option, ..)) => Err(Exit::bad_input(format!("{option} means nothing to this system"))),
        }
    }

    fn workload(&self, w: &Workload) -> Result<SystemWorkload, Exit> {
        if w.machine.is_some() {
            return Err(Exit::bad_input(
                "with --system all machines are alike: a file must not have [[machine]] tables",
            ));
        }
        let common = Workload { profile: None, warmup: None, duration: None, seed: None, ..w.clone() };
        if common != Workload::default() {
            let text = "with --system, of a verb's options only --profile, --warmup, --duration and --seed";
            return Err(Exit::bad_input(text));
        }
        let base = SystemWorkload::new(self.system()?);
        self.check_options(base.system)?;
        let batching = !self.no_batching;
        let gather = if base.system == System::RpcSequencer && !batching { 1 } else { base.gather };
        let workload = SystemWorkload {
            cores: self.cores.unwrap_or(base.cores),
            clients: self.clients.unwrap_or(base.clients),
            clients_per_machine: self.clients_per_machine.unwrap_or(base.clients_per_machine),
            outstanding: self.outstanding.unwrap_or(base.outstanding),
            windows: base.windows && !self.continuous,
            batching,
            gather: self.gather.unwrap_or(gather),
            queues: self.multi_queue.unwrap_or(base.queues),
            datagrams: self.datagrams,
            pairs: self.pairs.unwrap_or(base.pairs),
            zipf: self.zipf,
            value: self.value.unwrap_or(base.value),
            put_permille: self.put_permille.unwrap_or(base.put_permille),
            speculate: self.speculate,
            update: self.update,
            warmup: w.warmup.unwrap_or(base.warmup),
            duration: w.duration.unwrap_or(base.duration),
            seed: w.seed.unwrap_or(base.seed),
            ..base
        };
        workload.check().map_err(Exit::bad_input)?;
        Ok(workload)
    }
}

pub(crate) fn run(args: &SystemArgs, workload: &Workload, explain: bool, json: bool) -> Result<(), Exit> {
    let system = args.workload(workload)?;
    let profiles = workload.load_profiles().map_err(Exit::bad_input)?;
    let interrupt = progress::interrupt()?;
    let bar = progress::bar(if explain { EXPLAIN_RUNS } else { 1 });
    let progress = |run: &str| {
        bar.set_message(run.to_owned());
        bar.inc(1);
    };
    let control = Control { interrupt: interrupt.clone(), progress: &progress };
    let simulate = if explain { doorbell_lab::explain_system } else { doorbell_lab::simulate_system };
    let outcome = simulate(profiles.first(), &system, &control);
    bar.finish_and_clear();
    let outcome =
        outcome.map_err(|e| if e.is_interrupt() { Exit::interrupted() } else { Exit::failed(e) })?;
    if json {
        exit::print_json(&outcome)?
    } else {
        exit::print(&report(&outcome))?
    }
    simulate::stopped(&interrupt)
}

fn report(o: &SystemOutcome) -> String {
    let w = &o.workload;
    let ns = |value: Option<u64>| value.map_or("-".to_owned(), |ns| format!("{ns} ns"));
    let mean = o.latency_ns.mean.map_or("-".to_owned(), |ns| format!("{ns:.0} ns"));
    let how = if w.windows { "in windows of" } else { "each with" };
    let clients =
        format!("{}, {} per machine, {how} {} outstanding", w.clients, w.clients_per_machine, w.outstanding);
    let mut rows = vec![
        ("clients", clients),
        ("rate", format!("{:.2} Mrps", o.mrps)),
        ("latency, mean", mean),
        ("latency, p50", ns(o.latency_ns.p50)),
        ("latency, p99", ns(o.latency_ns.p99)),
    ];
    if let Some(replies) = o.replies_per_post {
        rows.insert(0, ("server", format!("{} cores", w.cores)));
        rows.push(("replies at a time", format!("{replies:.1}")));
    }
    for (name, share) in [("not found, evicted", o.missed), ("header-only replies", o.header_only)] {
        if share > 0.0 {
            rows.push((name, format!("{:.2}%", share * 100.0)));
        }
    }
    if o.again > 0.0 {
        rows.push(("begun again", format!("{:.4} times per operation", o.again)));
    }
    let mut text = table::pairs(rows);
    let _ = write!(text, "\nBottleneck: {}\n  {}\n", o.bottleneck.class, o.bottleneck.text);
    if !o.lift.is_empty() {
        let rows = o.lift.iter().map(|l| vec![l.resource.clone(), format!("{:+.1}%", l.gain * 100.0)]);
        let header = [("10% more of", Align::Left), ("changes the rate by", Align::Right)];
        let _ = write!(text, "\n{}", table::columns(&header, rows.collect()));
    }
    text
}
