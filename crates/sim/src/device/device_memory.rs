//! Memory on the NIC that programs allocate (ibv_alloc_dm(3)).
//!
//! The NIC reaches it without PCIe and without address translation. Atomics and writes hold the lock of their
//! address for a time, so accesses to one address wait for each other. Cores do not reach it: a real driver
//! copies through MMIO (ibv_memcpy_to_dm(3)), which is not simulated.
//!
//! A lock is not a queue but the time until which it is held, because the holder's time is known when it
//! acquires the lock. Bytes change when an access is issued, in the order in which locks are acquired.

use super::nic::SimDevice;
use crate::core::index::{FlightId, IdVec, LockId};
use crate::core::payload::Payload;
use crate::core::ps::Ps;
use crate::core::queue::SimEvent;
use crate::core::server::MeterWindow;
use crate::env::Env;
use doorbell_nic::cost::DeviceMemoryCost;
use doorbell_verbs::{Mem, VerbsError};

/// Addresses from this one on belong to the NIC's memory, and addresses of host memory are lower.
const BEGIN: u64 = 1 << 63;
/// Allocations begin at multiples of this many bytes.
const ALIGNMENT: u64 = 64;
/// Message of a panic if an address of the NIC's memory was not allocated.
const ALLOCATED: &str = "only a NIC with memory of its own hands out such addresses";

/// A lock of the NIC's memory.
#[derive(Clone, Default)]
struct OwnLock {
    held_until: Ps,
    /// Time in the metering window for which the lock was held.
    busy: Ps,
}

/// The memory of a NIC.
pub(crate) struct OwnMemory {
    cost: DeviceMemoryCost,
    /// The allocated bytes.
    bytes: Vec<u8>,
    /// Bytes that can be allocated.
    room: u64,
    /// The locks. Empty before the first access that takes one.
    locks: IdVec<LockId, OwnLock>,
    count: u32,
}

/// Whether an address belongs to the memory of a NIC.
#[inline]
pub(super) const fn is_own(addr: u64) -> bool {
    addr >= BEGIN
}

/// The number of allocation under which handles of memory name the memory of the device with this number on
/// its machine. Host memory has fewer allocations.
const fn allocation(local: u8) -> u32 {
    u32::MAX - local as u32
}

impl OwnMemory {
    /// Memory of `room` bytes, ordered by `count` locks.
    pub(super) fn new(cost: DeviceMemoryCost, room: u64, count: u32) -> OwnMemory {
        OwnMemory { cost, bytes: Vec::new(), room, locks: IdVec::new(), count }
    }

    /// Allocates zeroed bytes, on the device with this number on its machine.
    fn alloc(&mut self, local: u8, len: u64) -> Result<Mem, VerbsError> {
        let begin = self.bytes.len() as u64;
        match len.checked_next_multiple_of(ALIGNMENT).filter(|len| *len <= self.room - begin) {
            _ if len == 0 => Err(VerbsError::Invalid("an allocation has at least 1 byte, not 0".into())),
            None => Err(VerbsError::NoRoom(format!(
                "the NIC's memory has {} bytes, of which {} are left, but {len} are asked for",
                self.room,
                self.room - begin
            ))),
            Some(aligned) => {
                self.bytes.resize((begin + aligned) as usize, 0);
                Ok(Mem::new(allocation(local), BEGIN + begin, len))
            }
        }
    }

    /// Whether `mem` is allocated from this memory.
    fn owns(&self, local: u8, mem: Mem) -> bool {
        let end = mem.addr(0).checked_sub(BEGIN).and_then(|begin| begin.checked_add(mem.len()));
        mem.allocation() == allocation(local) && end.is_some_and(|end| end <= self.bytes.len() as u64)
    }

    fn at(&mut self, addr: u64, len: usize) -> &mut [u8] {
        &mut self.bytes[(addr - BEGIN) as usize..][..len]
    }

    fn word(&mut self, addr: u64) -> &mut [u8; 8] {
        self.at(addr, 8).try_into().expect("a word has 8 bytes")
    }

    /// Acquires a lock for `time`, after its present holder and those that wait. Returns when it is acquired.
    fn hold(&mut self, lock: LockId, now: Ps, time: Ps, window: MeterWindow) -> Ps {
        if self.locks.len() == 0 {
            self.locks = (0..self.count).map(|_| OwnLock::default()).collect();
        }
        let lock = &mut self.locks[lock];
        let from = lock.held_until.max(now);
        lock.held_until = from + time;
        lock.busy += window.overlap(from, lock.held_until);
        from
    }

    /// Whether any access has taken a lock.
    pub(crate) fn locks_were_used(&self) -> bool {
        self.locks.len() > 0
    }

    /// The lock that was held longest (the first if several were), and how long it was held.
    pub(crate) fn busiest(&self) -> (LockId, Ps) {
        let held = self.locks.named().map(|(id, lock)| (id, lock.busy));
        held.min_by_key(|(_, busy)| std::cmp::Reverse(*busy)).unwrap_or((LockId(0), Ps::ZERO))
    }
}

impl SimDevice {
    fn own(&mut self) -> &mut OwnMemory {
        self.own_memory.as_mut().expect(ALLOCATED)
    }

    /// Allocates memory of the NIC.
    ///
    /// # Errors
    /// If the NIC has no memory for programs, or not enough.
    pub(crate) fn alloc_own(&mut self, len: u64) -> Result<Mem, VerbsError> {
        let local = self.attached.local;
        match &mut self.own_memory {
            Some(memory) => memory.alloc(local, len),
            None => {
                let name = &self.profile.name;
                let why = format!("profile {name} has no section [device_memory], so its NIC has none");
                Err(VerbsError::Invalid(why))
            }
        }
    }

    /// Whether any atomic or any write to the NIC's memory has taken a lock.
    pub(crate) fn locks_were_used(&self) -> bool {
        self.locks.were_used() || self.own_memory.as_ref().is_some_and(|memory| memory.locks_were_used())
    }

    /// The lock of host memory or of the NIC's memory that was held longest, and how long it was held.
    pub(crate) fn busiest_lock(&self) -> (LockId, Ps) {
        let host = self.locks.busiest();
        let own = self.own_memory.as_ref().map_or((LockId(0), Ps::ZERO), |memory| memory.busiest());
        if own.1 > host.1 { own } else { host }
    }

    /// Whether `mem` is memory of this NIC.
    pub(crate) fn owns(&self, mem: Mem) -> bool {
        self.own_memory.as_ref().is_some_and(|memory| memory.owns(self.attached.local, mem))
    }

    /// Acquires the lock of an address for `time`. Returns how long this takes.
    fn wait_for_own(&mut self, env: &Env, addr: u64, time: u64) -> Ps {
        let lock = self.lock_of(addr);
        self.own().hold(lock, env.now, Ps(time), env.window) - env.now
    }

    /// Starts to read part of a packet's payload from the NIC's memory.
    #[inline(never)]
    pub(super) fn read_own(&mut self, env: &mut Env, flight: FlightId, addr: u64, len: u32, into: u32) {
        let payload = env.flights[flight].payload;
        let to = &mut env.payloads.bytes_mut(payload)[into as usize..][..len as usize];
        to.copy_from_slice(self.own().at(addr, len as usize));
        env.flights[flight].reads += 1;
        let access = Ps(self.own().cost.access);
        env.after(access, SimEvent::OwnRead { device: self.id, flight });
    }

    /// Writes part of a payload to the NIC's memory. The payload's buffer then belongs to the write. Returns
    /// how long the unit stalls before the write.
    #[inline(never)]
    pub(super) fn write_own(
        &mut self,
        env: &mut Env,
        addr: u64,
        (payload, offset): (Payload, u32),
        len: u32,
    ) -> Ps {
        let from = &env.payloads.bytes(payload)[offset as usize..][..len as usize];
        self.own().at(addr, len as usize).copy_from_slice(from);
        env.payloads.give(payload);
        let time = self.own().cost.write_hold;
        self.wait_for_own(env, addr, time)
    }

    /// Writes a word to the NIC's memory. Returns how long the unit stalls before the write.
    #[inline(never)]
    pub(super) fn write_own_word(&mut self, env: &Env, addr: u64, value: u64) -> Ps {
        *self.own().word(addr) = value.to_le_bytes();
        let time = self.own().cost.write_hold;
        self.wait_for_own(env, addr, time)
    }

    /// Executes an atomic on the NIC's memory. Returns how long the atomic waits for its lock. Its answer is
    /// ready when it has read the word.
    #[inline(never)]
    pub(super) fn atomic_on_own(&mut self, env: &mut Env, flight: FlightId) -> Ps {
        let atomic = env.flights[flight].atomic.as_mut().expect(super::locks::IS_ATOMIC);
        let (addr, op) = (atomic.addr, atomic.op);
        let word = self.own().word(addr);
        atomic.original = u64::from_le_bytes(*word);
        *word = op.apply(atomic.original).to_le_bytes();
        let DeviceMemoryCost { access, atomics, .. } = self.own().cost;
        let wait = self.wait_for_own(env, addr, atomics.hold(op.opcode()));
        env.after(wait + Ps(access), SimEvent::OwnRead { device: self.id, flight });
        wait
    }

    /// Handles bytes of the NIC's memory that have been read for a packet.
    pub(crate) fn own_read(&mut self, host: &crate::host::Host, env: &mut Env, flight: FlightId) {
        match env.flights[flight].atomic {
            Some(_) => {
                let qp = env.flights[flight].from_qp;
                self.atomic_done(env, flight);
                self.atomics_of_qp_go_on(host, env, qp);
            }
            None => self.payload_read(env, flight),
        }
    }
}
