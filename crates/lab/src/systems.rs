//! The papers' systems in virtual time.

use crate::explain::{self, Control};
use crate::outcome::{Bottleneck, Cache, Latency, Lift, Pcie, Utilization, hash_text};
use crate::parallel;
use crate::programs::ThreadResult;
use crate::simulate::{Run, SimulateError};
use doorbell_nic::{Profile, Resource};
use doorbell_schema::Duration;
use doorbell_sim::{SimCluster, SimConfig};
use doorbell_systems::drawing::{Drawing, Drawn};
use doorbell_systems::{Interval, Measured, SystemError, drtm_kv, herd, herd_kv, kv, read_kv};
use doorbell_systems::{atomics_sequencer as atomics, rpc_sequencer as rpc, spec_sequencer as spec};
use doorbell_verbs::{Cluster, Mem, PageSize, Program, Span, Task, Time};
use serde::Serialize;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

/// Version of the JSON of a [`SystemOutcome`]; fields are only ever added.
pub const SYSTEM_SCHEMA: u32 = 1;

/// Virtual time that threads get to come to their end once the measurement is over.
const GRACE: Span = Span::from_ms(10);
/// Virtual time that a thread has to set up at least, and to use a line of its memory once.
const SETUP: Span = Span::from_us(1500);
const SETUP_LINE: Span = Span::from_ns(200);

/// Runs whose stores have more bytes than this go one at a time.
const LARGE: u64 = 2 << 30;
static LARGE_RUN: Mutex<()> = Mutex::new(());

/// Bytes that a core has in its own caches at least: 128 lines.
const OWN_CACHE: u64 = 8 << 10;

/// A system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum System {
    /// Sequencer over HERD's RPCs.
    RpcSequencer,
    /// Spec-S0.
    SpecSequencer,
    /// Sequencer by RDMA fetch-and-add.
    AtomicsSequencer,
    /// MICA-like store over HERD's RPCs.
    HerdKv,
    /// GET by two READs, PUT over HERD's RPCs.
    ReadKv,
    /// GET by READ, PUT by atomics.
    DrtmKv,
}

/// A system with its parameters. Machine 0 is the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SystemWorkload {
    /// Which.
    pub system: System,
    /// Worker threads of the server, one per core; sequencers by RPC, stores over RPC.
    pub cores: u32,
    /// Clients; each is a thread.
    pub clients: u32,
    /// Clients of a machine.
    pub clients_per_machine: u32,
    /// Operations that a client has outstanding.
    pub outstanding: u32,
    /// Clients send that many, wait for all, and again; rather than replace each at once.
    pub windows: bool,
    /// Requests that a worker takes in a pass.
    pub gather: u32,
    /// Post the replies of a pass with one doorbell per port, rather than one by one.
    pub batching: bool,
    /// UD QPs per port that a worker's replies take turns with.
    pub queues: u32,
    /// Requests by UD SEND rather than by WRITE over a connected QP; systems over HERD's RPCs.
    pub datagrams: bool,
    /// Pairs of each worker's partition; of DrTM-KV's server.
    pub pairs: u64,
    /// Pairs that they stand for: caches hold as small a part of them as of these.
    pub real_pairs: u64,
    /// Bytes of the last-level cache, which all partitions share.
    pub cache_bytes: u64,
    /// Keys by Zipf's law rather than uniformly.
    pub zipf: bool,
    /// Bytes of a value.
    pub value: u32,
    /// PUTs in a thousand operations.
    pub put_permille: u32,
    /// Clients ask whether the version they know is still the one; store over HERD.
    pub speculate: bool,
    /// PUTs write their value, rather than only lock and unlock; DrTM-KV.
    pub update: bool,
    /// Virtual time from when clients begin to when measuring begins.
    pub warmup: Duration,
    /// Virtual time to measure.
    pub duration: Duration,
    /// Seed of all draws.
    pub seed: u64,
}

impl SystemWorkload {
    /// As the paper has it where it says so. What it does not say is from what its authors published
    /// as its programs: clients of the sequencer and of HERD send windows of 32, Spec-S0's keep 16
    /// outstanding; passes take up to 32 requests; multi-queue means 3 QPs per port.
    pub fn new(system: System) -> SystemWorkload {
        let sequencer =
            matches!(system, System::RpcSequencer | System::SpecSequencer | System::AtomicsSequencer);
        let rpc = matches!(system, System::RpcSequencer | System::HerdKv);
        SystemWorkload {
            system,
            cores: 6,
            clients: if system == System::HerdKv { 128 } else { 70 },
            clients_per_machine: if sequencer || system == System::DrtmKv { 14 } else { 16 },
            outstanding: if rpc { 32 } else { 16 },
            windows: rpc,
            gather: 32,
            batching: true,
            queues: if sequencer { 3 } else { 1 },
            datagrams: false,
            pairs: if system == System::DrtmKv { 1 << 20 } else { 8 << 10 },
            real_pairs: if system == System::DrtmKv { 16_000_000 } else { 8_000_000 },
            cache_bytes: 35 << 20,
            zipf: false,
            value: 32,
            put_permille: if system == System::HerdKv { 50 } else { 0 },
            speculate: false,
            update: false,
            warmup: Duration::new(Span::from_us(100)),
            duration: Duration::new(Span::from_us(150)),
            seed: 1,
        }
    }

    /// # Errors
    /// The first parameter that is out of its range.
    pub fn check(&self) -> Result<(), String> {
        let stores = self.filled() || self.system == System::DrtmKv;
        let ranges = [
            ("cores", u64::from(self.cores), 1..=256),
            ("clients", self.clients.into(), 1..=16_384),
            ("clients per machine", self.clients_per_machine.into(), 1..=256),
            ("outstanding operations", self.outstanding.into(), 1..=512),
            ("requests taken in a pass", self.gather.into(), 1..=1024),
            ("queues", self.queues.into(), 1..=64),
            ("pairs", if stores { self.pairs } else { 1 }, 1..=100_000_000),
            ("bytes of a value", self.value.into(), 1..=3900),
            ("PUTs in a thousand", self.put_permille.into(), 0..=1000),
        ];
        match ranges.iter().find(|(_, value, range)| !range.contains(value)) {
            None => Ok(()),
            Some((name, value, range)) => {
                Err(format!("{name}: {} to {}, not {value}", range.start(), range.end()))
            }
        }
    }

    fn filled(&self) -> bool {
        matches!(self.system, System::HerdKv | System::ReadKv)
    }

    fn interval(&self) -> Interval {
        let set_up = SETUP.max(SETUP_LINE * (self.warmed_bytes() / 64));
        Interval::after(Time::START + set_up, self.warmup.span(), self.duration.span())
    }

    fn machines(&self) -> u32 {
        1 + self.clients.div_ceil(self.clients_per_machine.max(1))
    }

    fn place(&self, client: u32) -> (u32, u32) {
        (1 + client / self.clients_per_machine, client % self.clients_per_machine)
    }

    fn drawing(&self) -> Drawing {
        Drawing { outstanding: self.outstanding, windows: self.windows, limit: 0, record: false }
    }

    fn load(&self) -> kv::Load {
        let partitions = if self.filled() { u64::from(self.cores) } else { 1 };
        kv::Load {
            pairs: self.pairs * partitions,
            distribution: if self.zipf { kv::Distribution::Zipf } else { kv::Distribution::Uniform },
            put_permille: self.put_permille,
            value: self.value,
            outstanding: self.outstanding,
            windows: self.windows,
            seed: self.seed,
        }
    }

    fn sequencer_rpc(&self) -> herd::Config {
        self.herd(rpc::MAX_REQUEST, rpc::MAX_REPLY)
    }

    fn store_rpc(&self) -> herd::Config {
        self.herd(herd_kv::max_request(self.value), herd_kv::max_reply(self.value))
    }

    /// Bytes that a worker uses once before it is ready: slots of requests and of replies.
    fn warmed_bytes(&self) -> u64 {
        let config = match self.system {
            System::RpcSequencer => self.sequencer_rpc(),
            System::HerdKv | System::ReadKv => self.store_rpc(),
            System::SpecSequencer | System::AtomicsSequencer | System::DrtmKv => return 0,
        };
        let replies = u64::from(config.clients) * u64::from(config.window) * u64::from(config.max_reply + 8);
        config.region_bytes() / u64::from(config.workers) + replies
    }

    /// Of a partition of a store. Partitions are of nearly equal size: their owners are drawn by hash, so
    /// none has more than six standard deviations above the mean, nor than what 16 bits leave uneven.
    fn layout(&self) -> kv::Layout {
        let room = 6 * self.pairs.isqrt() + self.pairs / 4096 + 16;
        kv::Layout::for_pairs(self.pairs + room, self.value)
    }

    /// Bytes of the memory that the server's store has.
    fn store_bytes(&self) -> u64 {
        match self.system {
            System::HerdKv | System::ReadKv => self.layout().bytes() * u64::from(self.cores),
            System::DrtmKv => self.pairs * drtm_kv::ITEM,
            System::RpcSequencer | System::SpecSequencer | System::AtomicsSequencer => 0,
        }
    }

    fn herd(&self, max_request: u32, max_reply: u32) -> herd::Config {
        herd::Config {
            requests: if self.datagrams { herd::Requests::Send } else { herd::Requests::Write },
            workers: self.cores,
            clients: self.clients,
            window: self.outstanding.next_power_of_two(),
            max_request,
            max_reply,
            gather: self.gather,
            doorbell: self.batching,
            queues: self.queues,
            retry: None,
        }
    }
}

/// Result of a simulated system, in the form of its JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SystemOutcome {
    /// [`SYSTEM_SCHEMA`].
    pub schema: u32,
    /// What was run.
    pub workload: SystemWorkload,
    /// Operations that clients saw done, per second, in millions.
    pub mrps: f64,
    /// Mean number of replies that the server posted at a time; `None` where it posts none.
    pub replies_per_post: Option<f64>,
    /// From the start of an operation to its end.
    pub latency_ns: Latency,
    /// Share of GETs, among all operations, whose key had been evicted.
    pub missed: f64,
    /// Share of operations answered without payload.
    pub header_only: f64,
    /// Torn and stale reads, and locks that others held, per operation.
    pub again: f64,
    /// What limits the rate.
    pub bottleneck: Bottleneck,
    /// What 10% more of each resource brings; empty unless asked for.
    pub lift: Vec<Lift>,
    /// Use of each resource.
    pub resources: Vec<Utilization>,
    /// Hits and misses of each cache of the NICs.
    pub caches: Vec<Cache>,
    /// PCIe traffic of each machine.
    pub pcie: Vec<Pcie>,
    /// Events of the simulator, whole run.
    pub events: u64,
    /// Hash over all of them in order, as in [`crate::Outcome`].
    pub event_hash: String,
    /// Wall-clock seconds of the run.
    pub wall_seconds: f64,
}

/// A thread's machine, its number there, and what it will hand back.
type Started<T> = (u32, u32, Task<Result<T, SystemError>>);

/// Threads started, and what they measured.
#[derive(Default)]
struct Results {
    servers: Vec<Started<Measured>>,
    clients: Vec<Started<Measured>>,
    drawers: Vec<Started<Drawn>>,
}

fn take<T>(machine: u32, thread: u32, task: &Task<Result<T, SystemError>>) -> Result<T, SimulateError> {
    match task.take() {
        Some(Ok(result)) => Ok(result),
        Some(Err(cause)) => Err(SimulateError::System { machine, thread, cause }),
        None => Err(SimulateError::Unfinished { machine, thread }),
    }
}

fn spawn<T: Program>(
    cluster: &mut SimCluster,
    w: &SystemWorkload,
    make: impl Fn(u32) -> T,
) -> Vec<(u32, u32, Task<T::Output>)> {
    let one = |client| {
        let (machine, thread) = w.place(client);
        (machine, thread, cluster.spawn(machine, thread, make(client)))
    };
    (0..w.clients).map(one).collect()
}

fn workers<T: Program>(
    cluster: &mut SimCluster,
    cores: u32,
    make: impl Fn(u32) -> T,
) -> Vec<(u32, u32, Task<T::Output>)> {
    (0..cores).map(|number| (0, number, cluster.spawn(0, number, make(number)))).collect()
}

fn start(cluster: &mut SimCluster, w: &SystemWorkload) -> Result<Results, SimulateError> {
    let mut results = Results::default();
    let (interval, drawing, load) = (w.interval(), w.drawing(), w.load());
    let alloc = |cluster: &mut SimCluster, len| cluster.alloc(0, len, PageSize::Huge);
    match w.system {
        System::RpcSequencer => {
            let config = w.sequencer_rpc();
            let region = alloc(cluster, config.region_bytes())?;
            let counter = alloc(cluster, 64)?;
            results.servers = workers(cluster, w.cores, |number| rpc::Server {
                config: config.clone(),
                number,
                region,
                counter,
                interval,
            });
            results.drawers =
                spawn(cluster, w, |number| rpc::Client { config: config.clone(), number, drawing, interval });
        }
        System::SpecSequencer => {
            let config = spec::Config {
                workers: w.cores,
                clients: w.clients,
                outstanding: w.outstanding,
                gather: w.gather,
                doorbell: w.batching,
                queues: w.queues,
                retry: None,
            };
            let counter = alloc(cluster, 64)?;
            results.servers = workers(cluster, w.cores, |number| spec::Server {
                config: config.clone(),
                number,
                counter,
                interval,
            });
            results.drawers = spawn(cluster, w, |number| spec::Client {
                config: config.clone(),
                number,
                guess: 0,
                drawing,
                interval,
            });
        }
        System::AtomicsSequencer => {
            let counter = alloc(cluster, 64)?;
            cluster.spawn(0, 0, atomics::Server { clients: w.clients, counter, interval });
            results.drawers = spawn(cluster, w, |number| atomics::Client { number, drawing, interval });
        }
        System::HerdKv | System::ReadKv => start_store(cluster, w, &mut results)?,
        System::DrtmKv => {
            let items = alloc(cluster, w.store_bytes())?;
            cluster.spawn(0, 0, drtm_kv::Server { clients: w.clients, items, fill: false, interval });
            results.clients =
                spawn(cluster, w, |number| drtm_kv::Client { number, load, update: w.update, interval });
        }
    }
    Ok(results)
}

/// Fills the partitions of a store, half of them on each of two threads.
fn fill(tables: &mut [u8], w: &SystemWorkload) -> Result<Vec<kv::Filled>, SystemError> {
    let (layout, pairs) = (w.layout(), w.load().pairs);
    let mut parts: Vec<&mut [u8]> = tables.chunks_exact_mut(layout.bytes() as usize).collect();
    let others = parts.split_off(parts.len().div_ceil(2));
    let second = parts.len() as u32;
    thread::scope(|scope| {
        let others = scope.spawn(|| kv::fill(others, second, w.cores, layout, pairs, w.value));
        let mut all = kv::fill(parts, 0, w.cores, layout, pairs, w.value)?;
        all.extend(others.join().expect("filling does not panic")?);
        Ok(all)
    })
}

fn start_store(
    cluster: &mut SimCluster,
    w: &SystemWorkload,
    results: &mut Results,
) -> Result<(), SimulateError> {
    let (interval, load) = (w.interval(), w.load());
    let config = w.store_rpc();
    let layout = w.layout();
    let region = cluster.alloc(0, config.region_bytes(), PageSize::Huge)?;
    let tables: Mem = cluster.alloc(0, w.store_bytes(), PageSize::Huge)?;
    let filled = cluster
        .preset(0, tables, |bytes| fill(bytes, w))
        .map_err(|cause| SimulateError::System { machine: 0, thread: 0, cause })?;
    let cached = u128::from(w.cache_bytes) * u128::from(w.pairs) / u128::from(w.real_pairs.max(1));
    // What a batch touches stays in a core's own caches, however small the rest.
    cluster.limit_cached(0, tables, (cached as u64).max(OWN_CACHE * u64::from(w.cores)));
    let readers = if w.system == System::ReadKv { w.clients } else { 0 };
    results.servers = workers(cluster, w.cores, |number| herd_kv::Server {
        config: config.clone(),
        number,
        region,
        tables,
        layout,
        pairs: load.pairs,
        value: w.value,
        filled: Some(filled[number as usize]),
        prefetch: true,
        readers,
        interval,
    });
    results.clients = match w.system {
        System::ReadKv => spawn(cluster, w, |number| read_kv::Client {
            config: config.clone(),
            layout,
            number,
            load,
            interval,
        }),
        _ => spawn(cluster, w, |number| herd_kv::Client {
            config: config.clone(),
            number,
            load,
            speculate: w.speculate,
            interval,
        }),
    };
    Ok(())
}

/// What one run gave: as a run of a workload, and what is the systems' own.
struct SystemRun {
    run: Run,
    clients: Measured,
    servers: Measured,
}

impl SystemRun {
    fn mrps(&self, w: &SystemWorkload) -> f64 {
        self.clients.done as f64 / w.duration.span().as_secs_f64() / 1e6
    }
}

fn add(sum: &mut Measured, m: &Measured) {
    sum.done += m.done;
    sum.replies += m.replies;
    sum.posts += m.posts;
    sum.again += m.again;
    sum.missed += m.missed;
    sum.header_only += m.header_only;
    // All histograms have the same bounds.
    sum.latency.add(&m.latency).expect("histograms of equal bounds");
}

fn run_once(
    profile: &Profile,
    w: &SystemWorkload,
    interrupt: &Arc<AtomicBool>,
) -> Result<SystemRun, SimulateError> {
    let large = w.store_bytes() > LARGE;
    let _alone = large.then(|| LARGE_RUN.lock().unwrap_or_else(|e| e.into_inner()));
    let begun = Instant::now();
    let interval = w.interval();
    let config = SimConfig {
        seed: w.seed,
        end: interval.end + GRACE,
        window: (interval.from, w.duration.span()),
        interrupt: Some(interrupt.clone()),
        ..SimConfig::new(w.machines())
    };
    let mut cluster = SimCluster::new(profile, config);
    let results = start(&mut cluster, w)?;
    cluster.run()?;
    let (mut clients, mut servers) = (Measured::default(), Measured::default());
    for (machine, thread, task) in &results.servers {
        add(&mut servers, &take(*machine, *thread, task)?);
    }
    for (machine, thread, task) in &results.clients {
        add(&mut clients, &take(*machine, *thread, task)?);
    }
    for (machine, thread, task) in &results.drawers {
        add(&mut clients, &take(*machine, *thread, task)?.measured);
    }
    // All clients as one: a histogram of each would be most of the memory of an explanation.
    let all = ThreadResult { completed: clients.done, received: 0, latency: clients.latency.clone() };
    let run = Run {
        threads: vec![(0, all)],
        metrics: cluster.metrics(),
        wall_seconds: begun.elapsed().as_secs_f64(),
    };
    Ok(SystemRun { run, clients, servers })
}

fn outcome(w: &SystemWorkload, r: &SystemRun, bottleneck: Bottleneck, lift: Vec<Lift>) -> SystemOutcome {
    let share = |n: u64| n as f64 / r.clients.done.max(1) as f64;
    let m = &r.run.metrics;
    SystemOutcome {
        schema: SYSTEM_SCHEMA,
        workload: w.clone(),
        mrps: r.mrps(w),
        replies_per_post: (r.servers.posts > 0).then(|| r.servers.replies as f64 / r.servers.posts as f64),
        latency_ns: Latency::of(&r.run),
        missed: share(r.clients.missed),
        header_only: share(r.clients.header_only),
        again: share(r.clients.again),
        bottleneck,
        lift,
        resources: m.resources.iter().map(Utilization::from).collect(),
        caches: m.caches.iter().map(Cache::from).collect(),
        pcie: m.pcie.iter().map(Pcie::from).collect(),
        events: m.events,
        event_hash: hash_text(m.event_hash),
        wall_seconds: r.run.wall_seconds,
    }
}

/// Runs a system once. Its bottleneck is the resource that was busiest, not confirmed.
///
/// # Errors
/// If a parameter is out of range, or the run was stopped.
pub fn simulate_system(
    profile: &Profile,
    w: &SystemWorkload,
    control: &Control<'_>,
) -> Result<SystemOutcome, SimulateError> {
    let run = run_once(profile, w, &control.interrupt)?;
    (control.progress)("system");
    Ok(outcome(w, &run, explain::busiest(&run.run, &explain::number), Vec::new()))
}

/// Runs a system, and again with 10% more of each resource. Its bottleneck is the resource that lifts
/// the rate most.
///
/// # Errors
/// As [`simulate_system`].
pub fn explain_system(
    profile: &Profile,
    w: &SystemWorkload,
    control: &Control<'_>,
) -> Result<SystemOutcome, SimulateError> {
    let mut cases: Vec<Option<Resource>> = vec![None];
    cases.extend(Resource::ALL.map(Some));
    let mut runs = parallel::map(&cases, |case| {
        let relaxed = case.map(|r| profile.relax(r, explain::RELAXED.0, explain::RELAXED.1));
        let run = run_once(relaxed.as_ref().unwrap_or(profile), w, &control.interrupt);
        (control.progress)(case.map_or("system", Resource::name));
        run
    })
    .into_iter();
    let base = runs.next().expect("the first case is the system itself")?;
    let mut lifts = Vec::new();
    for (resource, run) in Resource::ALL.into_iter().zip(runs) {
        match run {
            Ok(run) => lifts.push((resource, explain::gain(base.mrps(w), run.mrps(w)))),
            Err(e) if e.is_interrupt() => {
                return Ok(outcome(w, &base, explain::busiest(&base.run, &explain::number), Vec::new()));
            }
            Err(e) => return Err(e),
        }
    }
    lifts.sort_by(|a, b| b.1.total_cmp(&a.1));
    let lift = lifts.iter().map(|(r, gain)| Lift { resource: r.name().to_owned(), gain: *gain }).collect();
    let bottleneck = explain::observed(&base.run, &lifts, &explain::number);
    Ok(outcome(w, &base, bottleneck, lift))
}
