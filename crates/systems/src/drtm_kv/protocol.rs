//! DrTM-KV: GET by READ, PUT by atomics, without the server's processor (ATC'16, 4.3.2).
//!
//! The server has an array of items of one cache line: key (16 bytes), lock (8), version (4), check (4),
//! value (32). Clients know the address of each key's item, as if their caches of the index always hit. READs
//! and WRITEs of an item stay within its line. But a NIC need not access a line as a whole, and software NICs
//! do not. So a GET compares the check, which is a hash of version and value. It READs again if an update was
//! in progress. A GET takes no lock.
//!
//! A PUT acquires the lock by compare-and-swap, WRITEs version and value, and releases the lock by
//! compare-and-swap. The WRITE and the release go by one QP with one doorbell, so the WRITE is placed before
//! the lock is free. The paper's emulation leaves the WRITE out. A PUT that finds the lock held tries again.
//!
//! The lock of a client that dies is never freed. The paper's DrTM has leases for that.

use crate::device::{self, Device, check};
use crate::kv::load::Draws;
use crate::kv::{Key, Load, numbered};
use crate::measure::How;
use crate::{Interval, Measured, SystemError, memory_server, work};
use doorbell_verbs::{
    AccessFlags, Cq, Mr, OperationKey, OperationStep, Program, Provider, Qp, RemoteAddr, SendFlags, SendOp,
    SendWr, Time, Wc,
};

/// Bytes of an item.
pub const ITEM: u64 = 64;
/// Bytes of a value.
pub const VALUE: u32 = 32;
const LOCK: u64 = 16;
const VERSION: u64 = 24;
const VALUE_AT: u64 = 32;

/// The word of version (low half) and check (high half). An item that was never written has 0.
fn version_word(version: u32, value: &[u8]) -> u64 {
    let words = value.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
    let sum = words.fold(u64::from(version), |sum, word| {
        (sum ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(29)
    });
    sum >> 32 << 32 | u64::from(version)
}

/// The name under which the server publishes its connections and items.
pub const SERVICE: &str = "drtm";
/// Access rights that clients need to the items.
pub const ACCESS: AccessFlags =
    AccessFlags::REMOTE_READ.union(AccessFlags::REMOTE_WRITE).union(AccessFlags::REMOTE_ATOMIC);

/// Fills in the keys of items that nobody has written yet.
pub fn fill(items: &mut [u8]) {
    for (n, item) in (0..).zip(items.chunks_exact_mut(ITEM as usize)) {
        let key = numbered(n);
        item[..key.len()].copy_from_slice(&key);
    }
}

/// The completion that an operation waits for.
enum Stage {
    Read,
    Lock(Vec<u8>),
    Unlock,
}

struct Operation {
    item: u64,
    tag: u64,
    began: Time,
    again: u64,
    stage: Stage,
}

/// An operation that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The tag that was given to [`Items::get`] or [`Items::put`].
    pub tag: u64,
    /// When the operation began.
    pub began: Time,
    /// Key, version and value of the item; `None` for a PUT.
    pub item: Option<(Key, u32, Vec<u8>)>,
    /// How often another client held the lock, or the item was being written.
    pub again: u64,
    /// The key of the operation, for tracers.
    pub key: OperationKey,
}

/// A client's connection to the items, and its operations.
pub struct Items<P: Provider> {
    device: Device<P>,
    number: u32,
    update: bool,
    qp: Qp<P>,
    cq: Cq<P>,
    items: RemoteAddr,
    /// For each operation: space for the result of a READ or an atomic, then the bytes that a PUT WRITEs.
    buffers: Mr<P>,
    operations: Vec<Option<Operation>>,
    versions: u32,
    wc: Vec<Wc>,
}

const BUFFER: u64 = 2 * ITEM;

impl<P: Provider> Items<P> {
    /// Starts client `number`, with up to `outstanding` operations in flight. PUTs WRITE only if `update` is
    /// set.
    pub fn start(cpu: &P, number: u32, outstanding: u32, update: bool) -> Result<Items<P>, SystemError> {
        let device = Device::open(cpu)?;
        let cq = device.context.create_cq(outstanding)?;
        let qp = device::connect_rc(&device, &cq, 2 * outstanding, number, SERVICE)?;
        let items = memory_server::find(cpu, SERVICE)?;
        let buffers = device.registered(u64::from(outstanding) * BUFFER, AccessFlags::LOCAL_WRITE)?;
        let operations = (0..outstanding).map(|_| None).collect();
        Ok(Items {
            device,
            number,
            update,
            qp,
            cq,
            items,
            buffers,
            operations,
            versions: 0,
            wc: vec![Wc::default(); 16],
        })
    }

    /// The number of operations that have not ended.
    pub fn outstanding(&self) -> u32 {
        self.operations.iter().flatten().count() as u32
    }

    fn begin(&mut self, item: u64, tag: u64, stage: Stage) -> Result<(), SystemError> {
        let Some(at) = self.operations.iter().position(Option::is_none) else {
            return SystemError::config(format!(
                "{} operations are outstanding already",
                self.operations.len()
            ));
        };
        let began = self.device.cpu.now();
        self.device.cpu.mark(self.key(at), OperationStep::Begins);
        self.go(at, Operation { item, tag, began, again: 0, stage })
    }

    /// Begins a GET of an item. The result in [`Done`] carries `tag`.
    ///
    /// # Errors
    /// If too many operations are outstanding, or a verb fails.
    pub fn get(&mut self, item: u64, tag: u64) -> Result<(), SystemError> {
        self.begin(item, tag, Stage::Read)
    }

    /// Begins a PUT of an item. The result in [`Done`] carries `tag`.
    ///
    /// # Errors
    /// If the value does not have [`VALUE`] bytes, too many operations are outstanding, or a verb fails.
    pub fn put(&mut self, item: u64, value: Vec<u8>, tag: u64) -> Result<(), SystemError> {
        if value.len() != VALUE as usize {
            return SystemError::config(format!("a value has {VALUE} bytes, not {}", value.len()));
        }
        self.begin(item, tag, Stage::Lock(value))
    }

    /// The key of an operation, for tracers.
    fn key(&self, at: usize) -> OperationKey {
        OperationKey((u64::from(self.number) << 32) | (at as u64 + 1))
    }

    /// The value of an item's lock while this client holds it.
    fn mark(&self) -> u64 {
        u64::from(self.number) + 1
    }

    /// Posts the work requests of an operation's stage.
    fn go(&mut self, at: usize, operation: Operation) -> Result<(), SystemError> {
        let remote = self.items.at(operation.item * ITEM);
        let lock = remote.at(LOCK);
        let buffer = at as u64 * BUFFER;
        let (op, len) = match operation.stage {
            Stage::Read => (SendOp::Read(remote), ITEM as u32),
            Stage::Lock(_) => (SendOp::CompareSwap { remote: lock, compare: 0, swap: self.mark() }, 8),
            Stage::Unlock => (SendOp::CompareSwap { remote: lock, compare: self.mark(), swap: 0 }, 8),
        };
        let sge = [self.buffers.sge(buffer, len)];
        let wr = SendWr::new(at as u64, op, &sge).flags(SendFlags::SIGNALED);
        self.device.cpu.mark(self.key(at), OperationStep::Posts);
        if self.update && matches!(operation.stage, Stage::Unlock) {
            let written = [self.buffers.sge(buffer + ITEM, 8 + VALUE)];
            let write = SendWr::new(at as u64, SendOp::Write(remote.at(VERSION)), &written);
            // The list has two work requests. The operation waits for the second one.
            self.device.cpu.mark(self.key(at), OperationStep::Posts);
            self.qp.post_send(&[write.flags(SendFlags::INLINE), wr])?;
        } else {
            self.qp.post_send(&[wr])?;
        }
        self.operations[at] = Some(operation);
        Ok(())
    }

    /// Continues the operations whose work requests have completed. Returns whether anything has completed.
    pub fn poll(&mut self, done: &mut Vec<Done>) -> Result<bool, SystemError> {
        let found = self.cq.poll(&mut self.wc)?.len();
        for i in 0..found {
            check(&self.wc[i])?;
            let at = self.wc[i].wr_id as usize;
            if let Some(operation) = self.operations.get_mut(at).and_then(Option::take) {
                self.device.cpu.mark(self.key(at), OperationStep::Completes);
                self.completed(at, operation, done)?;
            }
        }
        Ok(found > 0)
    }

    fn completed(&mut self, at: usize, mut o: Operation, done: &mut Vec<Done>) -> Result<(), SystemError> {
        let (cpu, mem, buffer) = (&self.device.cpu, self.buffers.mem(), at as u64 * BUFFER);
        let mut item = None;
        match o.stage {
            Stage::Read => {
                let mut bytes = [0; ITEM as usize];
                cpu.read(mem, buffer, &mut bytes);
                let mut key = Key::default();
                key.copy_from_slice(&bytes[..LOCK as usize]);
                let value = &bytes[VALUE_AT as usize..];
                let mut word = [0; 8];
                word.copy_from_slice(&bytes[VERSION as usize..VALUE_AT as usize]);
                let word = u64::from_ne_bytes(word);
                // Without updates no item is ever half written.
                if self.update {
                    cpu.work(work::CHECKSUM_WORD * u64::from(VALUE / 8));
                    if word != version_word(word as u32, value) {
                        o.again += 1;
                        return self.go(at, o);
                    }
                }
                item = Some((key, word as u32, value.to_vec()));
            }
            Stage::Lock(_) if cpu.load_u64(mem, buffer) != 0 => {
                o.again += 1;
                return self.go(at, o);
            }
            Stage::Lock(value) => {
                self.versions = self.versions.wrapping_add(1);
                cpu.store_u64(mem, buffer + ITEM, version_word(self.versions, &value));
                cpu.write(mem, buffer + ITEM + 8, &value);
                o.stage = Stage::Unlock;
                return self.go(at, o);
            }
            Stage::Unlock => {
                let seen = cpu.load_u64(mem, buffer);
                if seen != self.mark() {
                    return Err(SystemError::Protocol(format!(
                        "lock {} was taken by another client: its word is {seen}",
                        o.item
                    )));
                }
            }
        }
        done.push(Done { tag: o.tag, began: o.began, item, again: o.again, key: self.key(at) });
        Ok(())
    }
}

/// A client that issues the operations of a load. All values have [`VALUE`] bytes.
#[derive(Clone, Debug)]
pub struct DrtmClient {
    /// Number of this client.
    pub number: u32,
    /// The operations of the client.
    pub load: Load,
    /// Whether a PUT writes its value. Otherwise it only locks and unlocks, as in the paper's emulation.
    pub update: bool,
    /// The interval in which the client measures, and its end.
    pub interval: Interval,
}

impl Program for DrtmClient {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let mut measured = Measured::default();
        let load = Load { value: VALUE, ..self.load };
        let mut items = Items::start(&p, self.number, load.outstanding, self.update)?;
        let mut draws = Draws::new(load, self.number);
        let mut done = Vec::new();
        let interval = self.interval.begin(&p);
        while p.now() < interval.end() {
            let mut busy = false;
            while (!load.windows || busy || items.outstanding() == 0)
                && items.outstanding() < load.outstanding
            {
                let item = draws.number();
                if draws.is_put() {
                    items.put(item, draws.value(), 0)?
                } else {
                    items.get(item, 0)?
                }
                busy = true;
            }
            busy |= items.poll(&mut done)?;
            for d in done.drain(..) {
                let how = How { again: d.again, ..How::default() };
                p.mark(d.key, OperationStep::Ends { since: d.began });
                measured.operation(&interval, d.began, p.now(), how);
            }
            if !busy {
                p.pause(interval.look());
            }
        }
        Ok(measured)
    }
}
