//! Measurements of a run: use of every resource, counts of every cache.

use crate::core::index::{Id, MachineId};
use crate::core::ps::Ps;
use crate::device::SimDevice;
use crate::host::Uncore;
use crate::meter::Meter;
use crate::world::Waiting;
use crate::world::World;
use doorbell_nic::{NicCache, Part, Resource};
use doorbell_transport::Repeats;

/// Use of one resource of one machine within the metering window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResourceUse {
    /// The metered resource of the machine.
    pub meter: Meter,
    /// Number of the machine.
    pub machine: u32,
    /// Share of the window in which it was busy, 0 to 1.
    pub utilization: f64,
}

/// A kind of waiting: which part waits, and for which resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitKind {
    /// The core with this number waits for a write-combining buffer. Its utilization includes this time.
    Buffer(u32),
    /// Units wait for entries that this cache does not hold. The utilization of units includes this time.
    Entry(NicCache),
    /// DMA reads wait for a tag.
    Tag,
}

/// Waits on one machine within the metering window. A machine with several devices has one entry of each
/// kind per device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WaitUse {
    /// The part that waits, and the resource.
    pub kind: WaitKind,
    /// Number of the machine.
    pub machine: u32,
    /// Mean number of waiting cores or units. For [`WaitKind::Tag`], the share of the window in which some
    /// read waited.
    pub mean: f64,
}

/// Hits and misses of one cache of a NIC within the metering window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheUse {
    /// The kind of NIC cache.
    pub cache: NicCache,
    /// Number of the machine.
    pub machine: u32,
    /// Look-ups that found their entry.
    pub hits: u64,
    /// Look-ups that had to fetch their entry over PCIe.
    pub misses: u64,
}

/// PCIe traffic of one machine within the metering window. Bytes are payload bytes of TLPs,
/// without headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PcieUse {
    /// Number of the machine. A machine with several devices has one entry per device, in order.
    pub machine: u32,
    /// Bytes of MMIO writes, CPU to NIC.
    pub mmio_bytes: u64,
    /// Bytes that the NIC reads by DMA.
    pub dma_read_bytes: u64,
    /// Bytes that the NIC writes by DMA.
    pub dma_write_bytes: u64,
    /// Cache lines touched by DMA reads (the uncore counter PCIeRdCur; ATC'16, 2.1).
    pub rdcur: u64,
    /// Cache lines touched by DMA writes (PCIeItoM).
    pub itom: u64,
}

/// Packets that requesters of reliable connections sent again, and the reasons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SentAgain {
    /// RNR NAKs that requesters obeyed.
    pub rnr_naks: u64,
    /// Number of times that no response came in time.
    pub timeouts: u64,
    /// Packets sent again.
    pub packets: u64,
}

impl SentAgain {
    fn add(&mut self, of_qp: Repeats) {
        self.rnr_naks += u64::from(of_qp.rnr_naks);
        self.timeouts += u64::from(of_qp.timeouts);
        self.packets += u64::from(of_qp.packets);
    }
}

/// Fate of work requests in the whole run, as the devices count it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    /// Posted send work requests.
    pub posted: u64,
    /// Payload bytes of the posted work requests. READs and atomics count the bytes that they ask for.
    pub posted_bytes: u64,
    /// Send work requests that completed, or would have completed if their QP had not been reset.
    pub ended: u64,
    /// Messages that consumed a RECV.
    pub received: u64,
    /// Payload bytes written to the addresses that work requests gave.
    pub placed_bytes: u64,
    /// Packets in flight at the end.
    pub under_way: u64,
    /// Packets that reached no QP or no port.
    pub unclaimed: u64,
}

/// Activity of kernel TCP on one machine in the whole run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpUse {
    /// Number of the machine.
    pub machine: u32,
    /// Interrupts raised by the machine's NIC.
    pub interrupts: u64,
    /// Frames sent by the NIC.
    pub frames_out: u64,
    /// Frames that the NIC wrote to memory.
    pub frames_in: u64,
    /// Segments handed to the NIC, with and without data.
    pub segments_out: u64,
    /// Segments without data among [`TcpUse::segments_out`]: ACKs, and segments that open, end or reset
    /// connections.
    pub acks_out: u64,
}

/// All measurements of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics {
    /// Length of the metering window in picoseconds.
    pub window_ps: u64,
    /// Every resource of every machine.
    pub resources: Vec<ResourceUse>,
    /// Waits of every machine, without waits that took no time.
    pub waits: Vec<WaitUse>,
    /// Uncore counts of each machine whose profile gives sizes of caches.
    pub uncore: Vec<(u32, Uncore)>,
    /// Activity of kernel TCP on each machine that used it.
    pub tcp: Vec<TcpUse>,
    /// Every cache of every machine.
    pub caches: Vec<CacheUse>,
    /// PCIe traffic, one entry per device.
    pub pcie: Vec<PcieUse>,
    /// Resources of which more would have changed nothing in the whole run: caches that always had room, and
    /// locks if there were no atomics.
    pub without_effect: Vec<Resource>,
    /// Messages of unreliable transports that were dropped because no RECV was posted, whole run.
    pub dropped: u64,
    /// Repeated sends of requesters, whole run.
    pub sent_again: SentAgain,
    /// Packets that the fabric lost ([`crate::Layers`]), whole run.
    pub lost: u64,
    /// Fate of work requests, whole run.
    pub accounts: Accounts,
    /// Events processed, whole run.
    pub events: u64,
    /// Hash over every event in order: equal for equal seeds.
    pub event_hash: u64,
}

/// Resources without effect, see [`Metrics::without_effect`].
fn without_effect(w: &World) -> Vec<Resource> {
    let nowhere = |had: fn(&SimDevice) -> bool| !w.devices.iter().any(had);
    let all = [
        (Resource::AtomicLocks, nowhere(|d| d.locks.were_used())),
        (Resource::WqeCache, nowhere(|d| d.caches.wqes.was_short)),
        (Resource::QpContextCache, nowhere(|d| d.caches.requester.was_short || d.caches.responder.was_short)),
        (Resource::TranslationCache, nowhere(|d| d.caches.translations.was_short)),
    ];
    all.into_iter().filter(|(_, without)| *without).map(|(resource, _)| resource).collect()
}

fn tcp_use(w: &World, machine: MachineId) -> Option<TcpUse> {
    let ethernet = w.devices[w.hosts[machine].first_device].ethernet.as_ref()?;
    let kernel = w.kernels[machine].as_ref()?;
    Some(TcpUse {
        machine: machine.index() as u32,
        interrupts: kernel.interrupts(),
        frames_out: ethernet.frames_out,
        frames_in: ethernet.frames_in,
        segments_out: kernel.sent.segments,
        acks_out: kernel.sent.acks,
    })
}

impl Metrics {
    pub(crate) fn of(w: &World) -> Metrics {
        let totals = &w.env.totals;
        let mut metrics = Metrics {
            window_ps: w.env.window.len().0,
            dropped: totals.dropped,
            lost: w.env.fabric.lost(),
            accounts: Accounts {
                posted: totals.posted,
                posted_bytes: totals.posted_bytes,
                ended: totals.verbs,
                received: totals.received,
                placed_bytes: totals.placed_bytes,
                under_way: w.env.flights.len() as u64,
                unclaimed: totals.unclaimed,
            },
            events: totals.events,
            event_hash: totals.event_hash,
            ..Metrics::default()
        };
        metrics.without_effect = without_effect(w);
        for (machine, host) in w.hosts.named() {
            metrics.uncore.extend(host.uncore().map(|counts| (machine.index() as u32, counts)));
            metrics.tcp.extend(tcp_use(w, machine));
            metrics.add_cores(w, machine);
            for device in w.devices.iter().filter(|d| d.machine == machine) {
                metrics.add_device(w, device);
                metrics.add_waits_of(w, device);
            }
        }
        metrics
    }

    fn add(&mut self, w: &World, meter: Meter, machine: MachineId, busy: Ps) {
        let utilization = busy.0 as f64 / w.env.window.len().0.max(1) as f64;
        let machine = machine.index() as u32;
        self.resources.push(ResourceUse { meter, machine, utilization });
    }

    fn add_wait(&mut self, w: &World, kind: WaitKind, machine: MachineId, time: Ps) {
        if time > Ps::ZERO {
            let mean = time.0 as f64 / w.env.window.len().0.max(1) as f64;
            self.waits.push(WaitUse { kind, machine: machine.index() as u32, mean });
        }
    }

    fn add_cores(&mut self, w: &World, machine: MachineId) {
        let window = w.env.window;
        for thread in w.threads.iter().filter(|t| t.machine == machine) {
            let until = if thread.waiting == Waiting::Ended { thread.clock } else { window.to };
            let busy = window.overlap(Ps::ZERO, until).saturating_sub(thread.idle);
            let core = thread.core.0.into();
            self.add(w, Meter::core(core), machine, busy);
            self.add_wait(w, WaitKind::Buffer(core), machine, thread.stalled);
        }
    }

    fn add_waits_of(&mut self, w: &World, d: &SimDevice) {
        let caches = [
            (NicCache::Wqe, d.caches.wqes.stalled),
            (NicCache::QpRequester, d.caches.requester.stalled),
            (NicCache::QpResponder, d.caches.responder.stalled),
            (NicCache::Translation, d.caches.translations.stalled),
        ];
        let in_flight = d.caches.wqes.completed.map(|looked_up| (NicCache::WqeInFlight, looked_up.stalled));
        for (cache, stalled) in caches.into_iter().chain(in_flight) {
            self.add_wait(w, WaitKind::Entry(cache), d.machine, stalled);
        }
        self.add_wait(w, WaitKind::Tag, d.machine, d.dma.short_of_tags(w.env.window));
    }

    fn add_device(&mut self, w: &World, d: &SimDevice) {
        d.qps.iter().for_each(|slot| self.sent_again.add(slot.qp.repeats()));
        let host = &w.hosts[d.machine];
        let is_one_of_several = host.devices() > 1;
        let mut add = |meter: Meter, busy: Ps| {
            let meter = if is_one_of_several { meter.on(d.attached.local) } else { meter };
            self.add(w, meter, d.machine, busy);
        };
        let t = &d.pcie.traffic;
        add(Meter::of_device(Part::PcieMmio), t.mmio_busy);
        add(Meter::of_device(Part::PcieReadCompletions), t.completion_busy);
        add(Meter::of_device(Part::PcieToHost), d.pcie.to_host.busy);
        let (sending, receiving) = (&d.sending, &d.receiving);
        let mean = |busy: Ps, units: usize| busy / units.max(1) as u64;
        let busy = sending.units.iter().map(|u| u.busy).sum();
        add(Meter::of_device(Part::SendingUnits), mean(busy, sending.units.len()));
        if d.profile.device.pipeline.is_some() {
            add(Meter::of_device(Part::SendingPipeline), sending.pipeline.busy);
        }
        let busy = receiving.units.iter().map(|u| u.busy).sum();
        add(Meter::of_device(Part::ReceivingUnits), mean(busy, receiving.units.len()));
        // A QP or flow uses one unit at a time, so that unit may be its limit.
        let most = d.qps.iter().map(|q| q.tx_busy).max().unwrap_or_default();
        add(Meter::of_device(Part::BusiestSendingUnit), most);
        let flows = d.qps.iter().map(|q| &q.flow).chain(&receiving.datagrams);
        add(Meter::of_device(Part::BusiestReceivingUnit), flows.map(|f| f.busy).max().unwrap_or_default());
        let (lock, busy) = d.locks.busiest();
        add(Meter::busiest_lock(lock.0), busy);
        for port in w.env.fabric.ports.iter().filter(|p| p.device == d.id) {
            let number = u32::from(port.number) + 1;
            add(Meter::port_out(number), port.out.busy);
            add(Meter::port_in(number), port.into.busy);
        }
        let machine = d.machine.index() as u32;
        let caches = [
            (NicCache::Wqe, d.caches.wqes.hits, d.caches.wqes.misses),
            (NicCache::QpRequester, d.caches.requester.hits, d.caches.requester.misses),
            (NicCache::QpResponder, d.caches.responder.hits, d.caches.responder.misses),
            (NicCache::Translation, d.caches.translations.hits, d.caches.translations.misses),
        ];
        let in_flight = d.caches.wqes.completed.map(|of| (NicCache::WqeInFlight, of.hits, of.misses));
        let all = caches.into_iter().chain(in_flight);
        self.caches.extend(all.map(|(cache, hits, misses)| CacheUse { cache, machine, hits, misses }));
        self.pcie.push(PcieUse {
            machine,
            mmio_bytes: t.mmio_bytes,
            dma_read_bytes: t.dma_read_bytes,
            dma_write_bytes: t.dma_write_bytes,
            rdcur: t.lines_read,
            itom: t.lines_written,
        });
    }
}
