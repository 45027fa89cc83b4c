//! The plan of a case: the machines, their threads, and the pairs of QPs.

use super::draw::Draw;
use doorbell_nic::{DriverSettings, Profile};
use doorbell_sim::{Layers, SimConfig};
use doorbell_verbs::{Mem, Mtu, QpType, Span, Time};

/// A QP: the number of its thread, and its slot there.
pub(crate) type Place = (u32, u32);

/// The connection of one side of a pair of QPs. Both sides of most pairs agree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) qp_type: QpType,
    pub(crate) peer: Place,
    /// Device and port, taken modulo the numbers that exist.
    pub(crate) device: u32,
    pub(crate) port: u32,
    pub(crate) mtu: Mtu,
    pub(crate) psn: u32,
}

/// The plan of a thread.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) me: u32,
    /// Number of QPs of each thread, this one included.
    pub(crate) qps: Vec<u32>,
    /// Links of this thread's QPs.
    pub(crate) links: Vec<Link>,
    /// Memory shared with the other threads of the machine.
    pub(crate) shared: Option<Mem>,
    pub(crate) until: Time,
    /// Percentage of actions that are invalid.
    pub(crate) wildness: u64,
    /// Whether the thread pauses as `Cpu::pause` requires, so that it would do the same without skipped
    /// passes.
    pub(crate) orderly: bool,
}

/// A machine: profiles of its host and devices, and its number of threads.
pub(crate) struct MachinePlan {
    pub(crate) host: usize,
    pub(crate) devices: Vec<usize>,
    pub(crate) threads: u32,
    pub(crate) shared: bool,
}

/// A case.
pub(crate) struct Case {
    pub(crate) config: SimConfig,
    /// Whether the profiles describe doorbell registers.
    pub(crate) registers: bool,
    pub(crate) machines: Vec<MachinePlan>,
    /// The plans of all threads, first machine first.
    pub(crate) threads: Vec<Plan>,
}

/// The faults of links. Most cases have none.
fn layers(draw: &mut Draw) -> Layers {
    let often = |draw: &mut Draw| if draw.percent(25) { draw.of(&[1_000, 50_000, 500_000]) } else { 0 };
    Layers {
        loss_ppm: often(draw),
        duplicate_ppm: often(draw),
        delay_ppm: often(draw),
        delay: Span::from_ns(draw.below(20_000)),
        reliable: draw.percent(50),
    }
}

/// Settings of the driver.
fn driver(draw: &mut Draw) -> DriverSettings {
    DriverSettings {
        total_uuars: draw.maybe(50, |draw| draw.of(&[1, 2, 3, 16, 64])),
        num_low_lat_uuars: draw.maybe(50, |draw| draw.of(&[0, 1])),
        single_threaded: draw.percent(10),
        thread_domains: draw.percent(10),
        shut_up_bf: draw.percent(20),
        bf_only_inline: draw.percent(30),
    }
}

impl Case {
    pub(crate) fn new(seed: u64) -> Case {
        // Draws of their own, so that the other draws of a case stay as they are.
        let mut registers = Draw::new(!seed);
        let mut draw = Draw::new(seed);
        let machines = machines(&mut draw);
        let until = Time::START + Span::from_us(draw.within(10..=120));
        let config = SimConfig {
            seed: draw.any(),
            layers: layers(&mut draw),
            window: (Time::START + Span::from_us(draw.below(20)), Span::from_us(draw.within(1..=100))),
            driver: if registers.percent(25) { driver(&mut registers) } else { DriverSettings::default() },
            one_context: registers.percent(50),
            // Far later than any thread needs.
            end: until + Span::from_ms(1_000),
            ..SimConfig::new(machines.len() as u32)
        };
        let orderly = draw.percent(25);
        let wildness = draw.of(&[0, 0, 1, 1, 3, 10, 40]);
        let threads: u32 = machines.iter().map(|m| m.threads).sum();
        let qps: Vec<u32> = (0..threads).map(|_| draw.within(1..=6) as u32).collect();
        let links = links(&mut draw, &qps);
        let plan = |(me, links): (usize, Vec<Link>)| Plan {
            seed: draw.any(),
            me: me as u32,
            qps: qps.clone(),
            links,
            shared: None,
            until,
            wildness,
            orderly,
        };
        let threads = links.into_iter().enumerate().map(plan).collect();
        Case { config, registers: registers.percent(25), machines, threads }
    }
}

impl Case {
    /// Whether the case's threads do the same if no pass is skipped. With shared memory, a thread's load
    /// delays the passes of a thread that looks at the line. Skipped passes do not show this.
    pub(crate) fn is_orderly(&self) -> bool {
        let shares = |machine: &MachinePlan| machine.shared && machine.threads > 1;
        self.threads.iter().all(|plan| plan.orderly) && !self.machines.iter().any(shares)
    }
}

fn machines(draw: &mut Draw) -> Vec<MachinePlan> {
    let kinds = Profile::names().count();
    let alike = draw.maybe(60, |draw| draw.index(kinds));
    let machine = |draw: &mut Draw| {
        let host = alike.unwrap_or_else(|| draw.index(kinds));
        let mut devices = vec![host];
        if alike.is_none() {
            devices = (0..draw.within(1..=2)).map(|_| draw.index(kinds)).collect();
        }
        MachinePlan { host, devices, threads: draw.of(&[1, 1, 1, 2, 2, 3]), shared: draw.percent(60) }
    };
    (0..draw.of(&[1, 2, 2, 2, 3, 4])).map(|_| machine(draw)).collect()
}

fn link(draw: &mut Draw, peer: Place) -> Link {
    Link {
        qp_type: draw.of(&[
            QpType::Rc,
            QpType::Rc,
            QpType::Rc,
            QpType::Uc,
            QpType::Uc,
            QpType::Ud,
            QpType::Ud,
        ]),
        peer,
        device: if draw.percent(60) { 0 } else { draw.below(2) as u32 },
        port: if draw.percent(70) { 0 } else { draw.below(2) as u32 },
        mtu: draw.of(&[Mtu::Mtu256, Mtu::Mtu512, Mtu::Mtu1024, Mtu::Mtu2048, Mtu::Mtu2048, Mtu::Mtu4096]),
        psn: match draw.below(3) {
            0 => 0,
            1 => 0xff_ffff - draw.below(40) as u32,
            _ => draw.below(1 << 24) as u32,
        },
    }
}

/// Pairs up QPs. Most pairs agree on their connection, and some QPs connect to themselves.
fn links(draw: &mut Draw, qps: &[u32]) -> Vec<Vec<Link>> {
    let mut places: Vec<Place> =
        qps.iter().enumerate().flat_map(|(t, &n)| (0..n).map(move |s| (t as u32, s))).collect();
    for left in (1..places.len()).rev() {
        places.swap(left, draw.index(left + 1));
    }
    let mut links: Vec<Vec<Option<Link>>> = qps.iter().map(|&n| vec![None; n as usize]).collect();
    let mut set = |(thread, slot): Place, link: Link| links[thread as usize][slot as usize] = Some(link);
    while let Some(first) = places.pop() {
        let second = if draw.percent(10) { first } else { places.pop().unwrap_or(first) };
        let one = link(draw, second);
        let agrees = draw.percent(90);
        let other = if agrees { Link { peer: first, ..one } } else { link(draw, first) };
        set(second, other);
        set(first, one);
    }
    links.into_iter().map(|thread| thread.into_iter().flatten().collect()).collect()
}
