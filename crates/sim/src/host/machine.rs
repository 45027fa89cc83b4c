//! A machine without its devices: cores, memory, and the driver's rings.

use super::again::LastReads;
use super::cores::{Core, MAX_CORES};
use super::hierarchy::Uncore;
use super::lanes::WriteLane;
use super::lines::{CoreSet, Cores};
use super::memory::{HostMemory, MemPlace};
use super::model::MemoryModel;
use super::reach::Lines;
use super::rings::{Ring, RingQueue, Rings};
use super::sockets::{CpuSocket, Sockets};
use crate::core::index::{CoreId, DeviceId, IdVec};
use crate::core::ps::Ps;
use crate::core::server::MeterWindow;
use doorbell_nic::Profile;
use doorbell_nic::cost::CpuCost;
use doorbell_verbs::{Mem, PageSize, VerbsError};

/// Message of a panic if a checked address is not allocated.
pub(crate) const ALLOCATED: &str = "allocations last as long as the run, and regions lie within allocations";

/// A machine without its devices.
pub(crate) struct Host {
    /// CPU costs of the driver.
    pub(crate) costs: CpuCost,
    /// Clock rate for which programs state work, and clock rate at which the cores compute.
    clocks: (u64, u64),
    /// Time of an empty pass of a poll loop, without the time of its loads and polls.
    pub(crate) pause: Ps,
    /// Write-combined lines that a core may have in flight.
    pub(crate) wc_buffers: usize,
    /// Time from a core's MMIO write until the write has left the core.
    pub(crate) mmio_drain: Ps,
    pub(crate) memory: HostMemory,
    pub(crate) cores: IdVec<CoreId, Core>,
    /// The machine's first device; its other devices follow.
    pub(crate) first_device: DeviceId,
    /// Memory regions by handle: their device and key.
    pub(crate) regions: Vec<(DeviceId, u32)>,
    pub(super) rings: Rings,
    pub(super) sockets: Sockets,
    /// DMA writes in flight, by device.
    pub(super) lanes: Vec<WriteLane>,
    /// Whether any thread has ever slept until a line was written.
    pub(super) lines_are_watched: bool,
    pub(super) model: MemoryModel,
    /// The last DMA reads, if reads of one line are served one after another.
    last_reads: Option<LastReads>,
}

impl Host {
    pub(crate) fn new(
        profile: &Profile,
        costs: CpuCost,
        first_device: DeviceId,
        devices: impl Iterator<Item = CpuSocket>,
        measured: MeterWindow,
    ) -> Host {
        Host {
            memory: HostMemory::default(),
            cores: IdVec::new(),
            first_device,
            regions: Vec::new(),
            rings: Rings::default(),
            sockets: Sockets::of(profile),
            lanes: devices.map(WriteLane::new).collect(),
            // With cache sizes, a write changes the caches when it arrives, not only before the next read.
            lines_are_watched: profile.hierarchy.is_some(),
            model: MemoryModel::new(profile, &costs, measured),
            last_reads: LastReads::new(profile.host.dma_read_again.into()),
            costs,
            clocks: profile.clocks(),
            pause: Ps::from(profile.host.l1_hit).max(Ps(1)),
            wc_buffers: profile.host.wc_buffers as usize,
            mmio_drain: profile.host.mmio_drain.into(),
        }
    }

    /// Allocates memory at the socket of `core`. Core `by` zeroes the memory.
    pub(crate) fn alloc_near(
        &mut self,
        core: u32,
        by: CoreId,
        len: u64,
        page: PageSize,
    ) -> Result<Mem, VerbsError> {
        if core >= MAX_CORES {
            return Err(VerbsError::Invalid(format!("there is no core {core} to allocate memory near")));
        }
        let [home, zeroed] = [CoreId(core as u8), by].map(|core| self.sockets.of_core(core));
        let mem = self.memory.alloc(len, page)?;
        self.model.allocated((home, zeroed), len, page);
        Ok(mem)
    }

    /// Lets caches hold at most `bytes` of the allocation of `mem`. At first the caches hold lines that are
    /// spread evenly over this allocation.
    pub(crate) fn limit_cached(&mut self, mem: Mem, bytes: u64) {
        self.model.limit_cached(mem.allocation(), bytes);
    }

    /// Prefetches a line and its state into the simulating processor's cache, for an access that is simulated
    /// later.
    #[inline]
    pub(crate) fn fetch(&self, place: MemPlace) {
        self.memory.fetch(place);
        self.model.fetch(place);
    }

    /// Number of devices.
    pub(crate) fn devices(&self) -> u32 {
        self.lanes.len() as u32
    }

    /// The device with this number on the machine.
    pub(crate) fn device(&self, local: u8) -> DeviceId {
        DeviceId(self.first_device.0 + u16::from(local))
    }

    /// Creates a driver ring of `entries` entries of `bytes` each, at the socket of `core`.
    pub(crate) fn add_ring(&mut self, core: CoreId, queue: RingQueue, entries: u32, bytes: u32) -> Ring {
        self.rings.add(self.sockets.of_core(core), queue, entries, bytes)
    }

    /// The core with this number. The number is below [`MAX_CORES`].
    pub(crate) fn core(&mut self, core: CoreId) -> &mut Core {
        while self.cores.get(core).is_none() {
            self.cores.push(Core::new());
        }
        &mut self.cores[core]
    }

    /// Whether a core holds the line at `place`. If so, no other agent has written the line since the core
    /// got it.
    pub(crate) fn holds(&self, place: MemPlace, core: CoreId) -> bool {
        self.model.holds(place, core)
    }

    /// Whether the next poll of a CQE that the NIC has not written takes as long as the last poll, if nothing
    /// happens in between.
    pub(crate) fn spins_at_hand(&self, entry: Lines, core: CoreId) -> bool {
        match &self.model {
            MemoryModel::Flat(_) => true,
            // Uncached entries are read from memory each time.
            MemoryModel::Hierarchy(hierarchy) if !hierarchy.io_coherent() => true,
            MemoryModel::Hierarchy(hierarchy) => entry.places().all(|line| hierarchy.holds(line, core)),
        }
    }

    /// A DMA read of data at a place comes at `at`. Returns when memory begins to serve it.
    #[inline]
    pub(crate) fn dma_read_begins(&mut self, at: Ps, place: MemPlace) -> Ps {
        self.last_reads.as_mut().map_or(at, |reads| reads.begin(at, place))
    }

    /// Time to load `lines` lines that are in the core's own cache.
    pub(crate) fn at_hand(&self, lines: u64) -> Ps {
        self.model.at_hand(lines)
    }

    /// Lets a core do work that a program states as `span`. Returns when the work is done. Work consists of
    /// instructions, so a faster core is done earlier.
    pub(crate) fn compute(&mut self, at: Ps, core: CoreId, span: Ps) -> Ps {
        let (stated, clock) = self.clocks;
        let span = match stated == clock {
            true => span,
            false => span.share(stated, clock),
        };
        self.work(at, core, span)
    }

    /// Makes the core's next load of a line outside its own cache wait for all earlier accesses.
    #[inline]
    pub(crate) fn serialize(&mut self, core: CoreId) {
        if let MemoryModel::Flat(flat) = &mut self.model {
            flat.serialize(core);
        }
    }

    /// Lets a core do other work of length `span` from `at` on. Returns when the work is done.
    #[inline]
    pub(crate) fn work(&mut self, at: Ps, core: CoreId, span: Ps) -> Ps {
        self.model.work(at, core, span)
    }

    /// When everything that a core has loaded by `at` is there. A core that needs the loaded values continues
    /// then.
    #[inline]
    pub(crate) fn loaded(&mut self, at: Ps, core: CoreId) -> Ps {
        self.model.loaded(at, core)
    }

    /// When everything that a core has loaded and stored by `at` is there, as a store to a device requires.
    #[inline]
    pub(crate) fn stored(&mut self, at: Ps, core: CoreId) -> Ps {
        self.model.stored(at, core)
    }

    /// Whether devices' writes must be put into memory when they arrive, and not only before a read.
    #[inline]
    pub(crate) fn is_written_at_once(&self) -> bool {
        matches!(self.model, MemoryModel::Hierarchy(_))
    }

    /// Takes the cores to wake, in addition to the woken cores that accesses return.
    #[inline]
    pub(crate) fn take_woken(&mut self) -> CoreSet {
        self.model.take_woken()
    }

    /// Sets the window in which the uncore's events are counted.
    pub(crate) fn meter(&mut self, window: MeterWindow) {
        self.model.meter(window);
    }

    /// The uncore's counts in the metering window; none without cache sizes.
    pub(crate) fn uncore(&self) -> Option<Uncore> {
        self.model.counts()
    }

    /// Lets the thread on a core sleep until the line at `place` is written.
    pub(crate) fn watch(&mut self, place: MemPlace, core: CoreId) {
        self.model.watch(place, core);
    }

    /// The cores of a set, in ascending order. The set must not be used afterwards.
    pub(crate) fn cores_of(&mut self, set: CoreSet) -> Cores {
        self.model.sets().take(set)
    }

    /// Adds a core to a set that does not belong to a line.
    pub(crate) fn add_core(&mut self, set: &mut CoreSet, core: CoreId) {
        self.model.sets().insert(set, core);
    }
}

/// The positions of cores and devices, and the extra times between them.
impl Host {
    /// The socket of a core.
    #[inline]
    pub(crate) fn socket_of(&self, core: CoreId) -> CpuSocket {
        self.sockets.of_core(core)
    }

    /// Whether the machine has several sockets.
    #[inline]
    pub(crate) fn has_sockets(&self) -> bool {
        self.sockets.are_several()
    }

    /// Extra time of a core's MMIO write to a device at this socket.
    #[inline]
    pub(crate) fn mmio_hop(&self, core: CoreId, device: CpuSocket) -> Ps {
        if self.socket_of(core) == device { Ps::ZERO } else { self.sockets.pcie_hop }
    }

    /// Extra time for a device at this socket to reach `len` bytes from a place on.
    #[inline]
    pub(crate) fn dma_hop(&self, device: CpuSocket, place: MemPlace, len: u64) -> Ps {
        match &self.model {
            MemoryModel::Flat(flat) => flat.dma_hop(device, Lines::of(place, len)),
            MemoryModel::Hierarchy(_) => Ps::ZERO,
        }
    }

    /// Extra time for a device at this socket to reach an entry of a ring.
    #[inline]
    pub(crate) fn ring_hop(&self, device: CpuSocket, ring: &Ring) -> Ps {
        if ring.home() == device { Ps::ZERO } else { self.sockets.dma(true) }
    }
}
