//! IO consolidation. The target's memory has all modifications that were reported to the writer as completed.
//! Only others can be lost.

use crate::check::{Check, Scale, Trouble};
use crate::deployed;
use crate::faults::Faults;
use crate::stage::{self, place, text};
use doorbell_systems::consolidate::{Consolidate, Consolidator, Holding, Rules, SERVICE};
use doorbell_systems::device::{self, Device, check};
use doorbell_systems::random::Random;
use doorbell_systems::{Interval, Measured, SystemError, memory_server};
use doorbell_verbs::{
    AccessFlags, Cluster, Cq, Mem, Mr, Program, Provider, Qp, QpCap, QpInitAttr, QpType, RemoteAddr,
    SendFlags, SendOp, SendWr, Span, Time,
};

/// Bytes of a stripe. A shared region has stripes of its writers in turn. The size divides no block size.
pub(crate) const STRIPE: u64 = 40;

/// Inline capacity in bytes.
pub(crate) const INLINE: u32 = 64;

/// Lateness after the time-out that is wrong even on slow machines.
const VERY_LATE: Span = Span::from_ms(10_000);

/// Clients that write, read, flush, fence and wait at random.
#[derive(Clone, Debug)]
pub struct ConsolidateCase {
    /// Number of clients. `rules.holding` says whether they have blocks of their own, or bytes of their own
    /// in common blocks.
    pub clients: u32,
    /// Calls of each client.
    pub steps: u64,
    /// Blocks of a region.
    pub blocks: u64,
    /// Largest number of bytes of a write.
    pub longest: u64,
    /// The rules of the consolidators.
    pub rules: Rules,
    /// Largest lateness of a post after the time-out. `None` if it cannot be known.
    pub late: Option<Span>,
    /// Seed of the random draws.
    pub seed: u64,
    /// The injected faults.
    pub faults: Faults,
}

impl ConsolidateCase {
    pub(crate) fn region(&self) -> u64 {
        self.blocks * u64::from(self.rules.block)
    }

    pub(crate) fn shared(&self) -> bool {
        self.rules.holding == Holding::Shared
    }

    /// Bytes of all regions.
    pub(crate) fn memory(&self) -> u64 {
        if self.shared() { self.region() } else { self.region() * u64::from(self.clients) }
    }

    /// A random range that belongs to this client.
    pub(crate) fn range(&self, number: u32, random: &mut Random) -> (u64, u64) {
        let (begin, bytes) = if self.shared() {
            let own = (self.region() / STRIPE - u64::from(number)).div_ceil(u64::from(self.clients));
            let stripe = random.below(own) * u64::from(self.clients) + u64::from(number);
            (stripe * STRIPE, STRIPE)
        } else {
            (0, self.region())
        };
        let len = 1 + random.below(self.longest.min(bytes));
        (begin + random.below(bytes - len + 1), len)
    }

    /// Runs the case for `patience` at most.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn run<C: Cluster>(&self, cluster: &mut C, patience: Span) -> Result<(), String> {
        let mut stage = stage::stage::<C, Measured>(cluster, self.faults, patience)?;
        let memory = stage.alloc(self.memory()).map_err(text)?;
        put_up(&mut stage, memory, 2 * self.clients);
        let machines = stage.cluster().machines();
        for number in 0..self.clients {
            let interval = stage.client_interval();
            stage.add_client(
                place(machines, number),
                ConsolidateChecker { case: self.clone(), number, interval },
            );
        }
        stage::run(stage).map(drop).map_err(text)
    }
}

pub(crate) fn put_up<C: Cluster>(stage: &mut stage::Stage<'_, C, Measured>, memory: Mem, qps: u32) {
    memory_server::put_up(stage, SERVICE, qps, memory, AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ);
}

/// Reads the target's memory, by a QP that the writer does not know.
struct Observer<P: Provider> {
    cpu: P,
    qp: Qp<P>,
    cq: Cq<P>,
    back: Mr<P>,
    region: RemoteAddr,
}

impl<P: Provider> Observer<P> {
    fn new(
        device: &Device<P>,
        number: u32,
        region: RemoteAddr,
        bytes: u64,
    ) -> Result<Observer<P>, SystemError> {
        let cq = device.context.create_cq(1)?;
        let cap = QpCap { max_send_wr: 1, max_recv_wr: 1, ..QpCap::default() };
        let qp = device.pd.create_qp(&cq, &cq, None, &QpInitAttr::new(QpType::Rc, cap))?;
        device::connect_qp(device, &qp, number, SERVICE)?;
        let back = device.registered(bytes, AccessFlags::LOCAL_WRITE)?;
        Ok(Observer { cpu: device.cpu.clone(), qp, cq, back, region })
    }

    /// All bytes of the region.
    fn look(&self) -> Result<Vec<u8>, SystemError> {
        let len = self.back.mem().len();
        let sge = [self.back.sge(0, len as u32)];
        let wr = SendWr::new(0, SendOp::Read(self.region), &sge).flags(SendFlags::SIGNALED);
        self.qp.post_send(&[wr])?;
        while self.cq.wait(Time::NEVER)?.map(|wc| check(&wc)).transpose()?.is_none() {}
        let mut found = vec![0; len as usize];
        self.cpu.read(self.back.mem(), 0, &mut found);
        Ok(found)
    }
}

fn wrong<T>(why: String) -> Result<T, SystemError> {
    Err(SystemError::Protocol(why))
}

/// Checks that bytes are equal. The error names the first byte that differs.
fn same(what: &str, from: u64, found: &[u8], expected: &[u8]) -> Result<(), SystemError> {
    match found.iter().zip(expected).position(|(found, expected)| found != expected) {
        Some(at) => {
            wrong(format!("{what}: byte {} is {}, not {}", from + at as u64, found[at], expected[at]))
        }
        None => Ok(()),
    }
}

/// A client that compares the target's memory, and the bytes that it reads, with its own writes.
struct ConsolidateChecker {
    case: ConsolidateCase,
    number: u32,
    interval: Interval,
}

/// A checker at work.
struct Checking<'a, P: Provider> {
    case: &'a ConsolidateCase,
    number: u32,
    cpu: P,
    consolidator: Consolidator<P>,
    observer: Observer<P>,
    random: Random,
    /// The bytes of the region after this client's own writes.
    expected: Vec<u8>,
    /// Modifications of blocks, and how many of them were reported as completed.
    modified: u64,
    told: u64,
}

impl<P: Provider> Checking<'_, P> {
    fn step(&mut self) -> Result<(), SystemError> {
        match self.random.below(100) {
            0..60 => self.write(),
            60..80 => self.read(),
            80..86 => self.poll().map(drop),
            86..92 => self.consolidator.flush(),
            92..96 => self.consolidator.fence(),
            96..98 => self.time_out(),
            _ => self.compare(),
        }
    }

    fn write(&mut self) -> Result<(), SystemError> {
        let (at, len) = self.case.range(self.number, &mut self.random);
        let mut bytes = vec![0; len as usize];
        self.random.fill(&mut bytes);
        self.consolidator.write(at, &bytes)?;
        self.expected[at as usize..][..bytes.len()].copy_from_slice(&bytes);
        let block = u64::from(self.case.rules.block);
        self.modified += (at + len - 1) / block - at / block + 1;
        Ok(())
    }

    /// A read sees held modifications.
    fn read(&mut self) -> Result<(), SystemError> {
        let (at, len) = self.case.range(self.number, &mut self.random);
        let mut found = vec![0; len as usize];
        self.consolidator.read(at, &mut found)?;
        same("read", at, &found, &self.expected[at as usize..][..found.len()])
    }

    /// Polls. Returns whether there was nothing to do.
    fn poll(&mut self) -> Result<bool, SystemError> {
        let polled = self.consolidator.poll()?;
        self.told += polled.completed.iter().map(|done| u64::from(done.writes)).sum::<u64>();
        Ok(polled.is_idle())
    }

    /// Writes no more. Held blocks must be posted anyway.
    fn time_out(&mut self) -> Result<(), SystemError> {
        let timeout = self.case.rules.timeout;
        let late = self.cpu.now() + timeout + self.case.late.unwrap_or(VERY_LATE);
        loop {
            let idle = self.poll()?;
            if self.consolidator.held() == 0 {
                return self.compare_posted();
            }
            if self.cpu.now() >= late {
                return wrong(format!(
                    "a block is still held long after the time-out of {} ns",
                    timeout.as_ns()
                ));
            }
            if idle {
                self.cpu.pause(self.consolidator.due().min(late));
            }
        }
    }

    /// Checks that all writes are at the target.
    fn compare(&mut self) -> Result<(), SystemError> {
        self.consolidator.flush()?;
        self.compare_posted()
    }

    fn compare_posted(&mut self) -> Result<(), SystemError> {
        self.consolidator.fence()?;
        self.poll()?;
        if self.told != self.modified {
            return wrong(format!("only {} of {} modifications completed", self.told, self.modified));
        }
        let found = self.observer.look()?;
        let clients = u64::from(self.case.clients);
        let own = |at: u64| !self.case.shared() || at / STRIPE % clients == u64::from(self.number);
        for (at, (found, expected)) in (0..).zip(found.iter().zip(&self.expected)) {
            if own(at) {
                same("at the target", at, std::slice::from_ref(found), std::slice::from_ref(expected))?;
            }
        }
        Ok(())
    }
}

impl Program for ConsolidateChecker {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let ConsolidateChecker { case, number, interval } = self;
        let device = Device::open(&p)?;
        let memory = memory_server::find(&p, SERVICE)?;
        let region = if case.shared() { memory } else { memory.at(case.region() * u64::from(number)) };
        let consolidator = Consolidator::connect(
            &device,
            (number, SERVICE),
            (region, case.region()),
            case.rules.clone(),
            INLINE,
        )?;
        let observer = Observer::new(&device, case.clients + number, region, case.region())?;
        let interval = interval.begin(&p);
        let mut checking = Checking {
            number,
            cpu: p.clone(),
            consolidator,
            observer,
            random: Random::new(case.seed, number.into()),
            expected: vec![0; case.region() as usize],
            modified: 0,
            told: 0,
            case: &case,
        };
        for step in 0..case.steps {
            checking.step()?;
            if interval.end() <= p.now() {
                return wrong(format!("only {step} of {} steps ended in time", case.steps));
            }
        }
        checking.compare()?;
        Ok(Measured::default())
    }
}

/// Bytes of a block, and number of blocks, in the checks below.
const BLOCK: u32 = 256;
const BLOCKS: u64 = 4;

/// Rules by which only theta, [`Consolidator::flush`] or a lack of room causes a post.
fn rules(holding: Holding, theta: u32) -> Rules {
    Rules {
        block: BLOCK,
        theta,
        timeout: Time::NEVER - Time::START,
        holding,
        held: BLOCKS as u32,
        outstanding: 4,
        marked: Vec::new(),
    }
}

/// A writer that stops with writes held back. An observer then reads the target.
#[derive(Clone, Copy)]
struct StopWriting {
    holding: Holding,
    theta: u32,
    /// Number of writes. The writer fences after the last one.
    writes: u64,
    seed: u64,
}

/// Published when the writer has stopped.
const STOPPED: &str = "consolidate/stopped";

impl StopWriting {
    /// The writes: offset and bytes, each within a block.
    fn all(self) -> impl Iterator<Item = (u64, [u8; 24])> {
        let mut random = Random::new(self.seed, 0);
        (0..self.writes).map(move |_| {
            let mut bytes = [0; 24];
            random.fill(&mut bytes);
            let (block, len) = (u64::from(BLOCK), bytes.len() as u64);
            (random.below(BLOCKS) * block + random.below(block - len + 1), bytes)
        })
    }

    /// The target's bytes. Each block has all its modifications but the last ones, fewer than theta.
    fn kept(self) -> Vec<u8> {
        let block = |at: u64| (at / u64::from(BLOCK)) as usize;
        let (mut memory, mut held) =
            (vec![0; BLOCKS as usize * BLOCK as usize], vec![Vec::new(); BLOCKS as usize]);
        for (at, bytes) in self.all() {
            held[block(at)].push((at, bytes));
            if held[block(at)].len() == self.theta as usize {
                for (at, bytes) in held[block(at)].drain(..) {
                    memory[at as usize..][..bytes.len()].copy_from_slice(&bytes);
                }
            }
        }
        memory
    }
}

/// Client 0 writes and stops. Client 1 reads the target.
struct Stopping {
    stop: StopWriting,
    number: u32,
}

impl Program for Stopping {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let Stopping { stop, number } = self;
        let device = Device::open(&p)?;
        let memory = memory_server::find(&p, SERVICE)?;
        let region = (memory, BLOCKS * u64::from(BLOCK));
        if number == 0 {
            let rules = rules(stop.holding, stop.theta);
            let mut consolidator = Consolidator::connect(&device, (number, SERVICE), region, rules, INLINE)?;
            for (at, bytes) in stop.all() {
                consolidator.write(at, &bytes)?;
            }
            consolidator.fence()?;
            if consolidator.held() == 0 {
                return wrong("the writer holds no block, so a stop loses nothing".into());
            }
            drop(consolidator);
            p.publish(STOPPED, &[]);
            return Ok(Measured::default());
        }
        let observer = Observer::new(&device, number, region.0, region.1)?;
        p.lookup(STOPPED);
        same("after the writer stopped", 0, &observer.look()?, &stop.kept())?;
        Ok(Measured::default())
    }
}

/// A client that writes one block again and again until it was posted.
struct Again(Interval);

/// The client's time-out, and the span between its writes.
const TIMEOUT: Span = Span::from_us(100);
const EVERY: Span = Span::from_us(10);

impl Program for Again {
    type Output = Result<u64, SystemError>;

    /// Returns the nanoseconds from the first write to the end of the first post.
    fn run<P: Provider>(self, p: P) -> Self::Output {
        let device = Device::open(&p)?;
        let memory = memory_server::find(&p, SERVICE)?;
        let rules = Rules { timeout: TIMEOUT, ..rules(Holding::Shared, 1000) };
        let mut consolidator =
            Consolidator::connect(&device, (0, SERVICE), (memory, BLOCK.into()), rules, INLINE)?;
        let began = p.now();
        let mut next = began;
        while p.now() < self.0.end() {
            if p.now() >= next {
                consolidator.write(0, &[1])?;
                next += EVERY;
            }
            let polled = consolidator.poll()?;
            let idle = polled.is_idle();
            if !polled.completed.is_empty() {
                return Ok((p.now() - began).as_ns());
            }
            if idle {
                p.pause(next.min(consolidator.due()));
            }
        }
        wrong("the writer posted nothing".into())
    }
}

/// Returns how long the first of many writes of a block took to be at the target, and the time-out. The
/// former is `None` if machine 0 is another process.
///
/// # Errors
/// If a verb fails, or nothing is posted for `patience`.
pub fn written_again<C: Cluster>(cluster: &mut C, patience: Span) -> Result<(Option<Span>, Span), String> {
    let mut stage = stage::stage::<C, u64>(cluster, Faults::default(), patience)?;
    let memory = stage.alloc(BLOCK.into()).map_err(text)?;
    memory_server::put_up(&mut stage, SERVICE, 1, memory, AccessFlags::REMOTE_WRITE);
    let interval = stage.client_interval();
    stage.add_client((1, 0), Again(interval));
    let took = stage::run(stage).map_err(text)?.first().map(|ns| Span::from_ns(*ns));
    Ok((took, TIMEOUT))
}

/// Two writers of one block, which post one after the other.
struct Both {
    holding: Holding,
    number: u32,
}

/// Bytes of the block that each writer writes.
const HALF: u64 = BLOCK as u64 / 2;

impl Program for Both {
    type Output = Result<u64, SystemError>;

    /// Returns how many writers' bytes are at the target in the end, as the writer reads it.
    fn run<P: Provider>(self, p: P) -> Self::Output {
        let Both { holding, number } = self;
        let device = Device::open(&p)?;
        let memory = memory_server::find(&p, SERVICE)?;
        let rules = rules(holding, 2);
        let mut consolidator =
            Consolidator::connect(&device, (number, SERVICE), (memory, BLOCK.into()), rules, INLINE)?;
        let observer = Observer::new(&device, 2 + number, memory, BLOCK.into())?;
        let own = [1 + number as u8; HALF as usize];
        consolidator.write(HALF * u64::from(number), &own)?;
        // Both hold the block before either posts it.
        p.publish(&format!("consolidate/holds/{number}"), &[]);
        p.lookup(&format!("consolidate/holds/{}", 1 - number));
        if number == 1 {
            p.lookup("consolidate/posted");
        }
        consolidator.flush()?;
        consolidator.fence()?;
        p.publish("consolidate/posted", &[]);
        let found = observer.look()?;
        Ok((1..=2).map(|byte| u64::from(found.contains(&byte))).sum())
    }
}

/// Returns how many of two writers' bytes are at the target, if both write one block.
///
/// # Errors
/// If a verb fails, or a client waits in vain.
pub fn two_writers<C: Cluster>(
    cluster: &mut C,
    holding: Holding,
    patience: Span,
) -> Result<Option<u64>, String> {
    let mut stage = stage::stage::<C, u64>(cluster, Faults::default(), patience)?;
    let memory = stage.alloc(BLOCK.into()).map_err(text)?;
    let access = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_READ;
    memory_server::put_up(&mut stage, SERVICE, 4, memory, access);
    let machines = stage.cluster().machines();
    for number in 0..2 {
        stage.add_client(place(machines, number), Both { holding, number });
    }
    Ok(stage::run(stage).map_err(text)?.last().copied())
}

/// A case of the fixed list.
fn listed<C: Cluster>(
    cluster: &mut C,
    scale: &Scale,
    holding: Holding,
    trouble: Trouble,
) -> Result<(), String> {
    let steps = u64::from(scale.requests / trouble.part());
    // Fewer frames than blocks, a queue that lists of spans fill, and blocks that are not consolidated.
    let rules = Rules {
        timeout: scale.hesitation,
        held: 3,
        outstanding: 2,
        marked: vec![100..700, 900..901],
        ..rules(holding, 5)
    };
    let faults = trouble.faults(scale);
    let case =
        ConsolidateCase { clients: 2, steps, blocks: 6, longest: 600, rules, late: None, seed: 1, faults };
    case.run(cluster, scale.patience)
}

fn stops<C: Cluster>(cluster: &mut C, scale: &Scale, holding: Holding) -> Result<(), String> {
    // No multiple of theta, so that modifications stay held.
    let stop = StopWriting { holding, theta: 5, writes: u64::from(scale.requests / 5 * 5 + 3), seed: 1 };
    let mut stage = stage::stage::<C, Measured>(cluster, Faults::default(), scale.patience)?;
    let memory = stage.alloc(BLOCKS * u64::from(BLOCK)).map_err(text)?;
    put_up(&mut stage, memory, 2);
    let machines = stage.cluster().machines();
    for number in 0..2 {
        stage.add_client(place(machines, number), Stopping { stop, number });
    }
    stage::run(stage).map(drop).map_err(text)
}

/// Two writers of one block. The bytes of both survive if they hold it as shared. Only one writer's survive
/// if both hold it as exclusive.
fn writers<C: Cluster>(cluster: &mut C, scale: &Scale, holding: Holding) -> Result<(), String> {
    let survive = if holding == Holding::Shared { 2 } else { 1 };
    match two_writers(cluster, holding, scale.patience)? {
        Some(found) if found != survive => {
            Err(format!("bytes of {found} writers are left, but should be bytes of {survive}"))
        }
        _ => Ok(()),
    }
}

/// The checks of IO consolidation.
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    let mut all = Vec::new();
    for holding in [Holding::Exclusive, Holding::Shared] {
        let name = |what: &str| format!("systems/consolidate/{}_{what}", holding.name());
        let troubles = [("bytes", Trouble::None), ("bytes_in_parts", Trouble::Hesitation)];
        for (what, trouble) in troubles {
            let run = move |cluster: &mut C, scale: &Scale| listed(cluster, scale, holding, trouble);
            all.push(Check::new(name(what), run));
        }
        all.push(Check::new(name("stop"), move |c: &mut C, scale: &Scale| stops(c, scale, holding)));
        all.push(Check::new(name("two_writers"), move |c: &mut C, scale: &Scale| writers(c, scale, holding)));
    }
    all.push(deployed::check::<Consolidate, C>());
    all
}
