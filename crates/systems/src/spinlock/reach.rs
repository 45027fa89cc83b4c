//! A client's access to the server's memory by one-sided verbs. One list of work requests is outstanding at a
//! time.

use crate::device::{self, Device, check};
use crate::{Interval, SystemError, memory_server};
use doorbell_verbs::{AccessFlags, Cq, Mr, Provider, Qp, RemoteAddr, SendFlags, SendOp, SendWr};

/// Maximum number of work requests in a list.
const LIST: u32 = 2;

/// Offset, in the buffers, of an atomic's result.
const ANSWER: u64 = 0;
/// Offset, in the buffers, of a word that is always 0.
const ZERO: u64 = 8;
/// Offset, in the buffers, of bytes that were READ. Bytes to WRITE follow them.
const READ: u64 = 64;

/// The last work request of a list, after its WRITE.
#[derive(Clone, Copy, Debug)]
pub(super) enum Last {
    /// A WRITE of a word that is 0.
    Zero,
    /// A compare-and-swap.
    CompareSwap { compare: u64, swap: u64 },
}

/// A QP to the memory server, and buffers for payload and results.
pub(super) struct Reach<P: Provider> {
    device: Device<P>,
    qp: Qp<P>,
    cq: Cq<P>,
    memory: RemoteAddr,
    buffers: Mr<P>,
    /// Maximum bytes of a READ or a WRITE.
    longest: u64,
    /// Bytes up to which a WRITE is inline.
    inline: u32,
}

impl<P: Provider> Reach<P> {
    /// Connects client `number` to a memory server, for READs and WRITEs of up to `longest` bytes.
    pub(super) fn open(cpu: &P, service: &str, number: u32, longest: u64) -> Result<Reach<P>, SystemError> {
        let device = Device::open(cpu)?;
        let cq = device.context.create_cq(1)?;
        let qp = device::connect_rc(&device, &cq, LIST, number, service)?;
        let memory = memory_server::find(cpu, service)?;
        let buffers = device.registered(READ + 2 * longest, AccessFlags::LOCAL_WRITE)?;
        let inline = device.inline(64);
        Ok(Reach { device, qp, cq, memory, buffers, longest, inline })
    }

    /// Posts a list. Only its last work request is signalled. Returns whether the list completed before the
    /// end of the interval.
    fn post(&self, list: &mut [SendWr<'_>], interval: &Interval) -> Result<bool, SystemError> {
        if let Some(last) = list.last_mut() {
            last.flags |= SendFlags::SIGNALED;
        }
        self.qp.post_send(list)?;
        loop {
            match self.cq.wait(interval.look())? {
                Some(wc) => return check(&wc).map(|()| true),
                None if self.device.cpu.now() >= interval.end() => return Ok(false),
                None => {}
            }
        }
    }

    /// READs from offset `at`. Returns whether the READ completed before the end of the interval.
    pub(super) fn read(&self, at: u64, into: &mut [u8], interval: &Interval) -> Result<bool, SystemError> {
        let sge = [self.buffers.sge(READ, into.len() as u32)];
        let op = SendOp::Read(self.memory.at(at));
        let ended = self.post(&mut [SendWr::new(0, op, &sge)], interval)?;
        if ended {
            self.device.cpu.read(self.buffers.mem(), READ, into);
        }
        Ok(ended)
    }

    /// WRITEs to offset `at`, and waits for the completion. Returns whether it came before the end of the
    /// interval.
    pub(super) fn write(&self, at: u64, data: &[u8], interval: &Interval) -> Result<bool, SystemError> {
        let sge = [self.to_write(data)];
        self.post(&mut [self.writing(at, &sge)], interval)
    }

    /// WRITEs `data`, unless it is empty, and executes `last` on a word. Returns the old value of the word if
    /// `last` is a compare-and-swap, else 0. Returns `None` if the interval ended first.
    pub(super) fn write_then(
        &self,
        (at, data): (u64, &[u8]),
        word: u64,
        last: Last,
        interval: &Interval,
    ) -> Result<Option<u64>, SystemError> {
        let remote = self.memory.at(word);
        let (op, from) = match last {
            Last::Zero => (SendOp::Write(remote), ZERO),
            Last::CompareSwap { compare, swap } => (SendOp::CompareSwap { remote, compare, swap }, ANSWER),
        };
        let own = [self.buffers.sge(from, 8)];
        let last = SendWr::new(0, op, &own);
        let last = if from == ZERO { last.flags(SendFlags::INLINE) } else { last };
        let ended = if data.is_empty() {
            self.post(&mut [last], interval)?
        } else {
            let sge = [self.to_write(data)];
            self.post(&mut [self.writing(at, &sge), last], interval)?
        };
        Ok(ended.then(|| self.device.cpu.load_u64(self.buffers.mem(), from)))
    }

    /// Copies bytes into the buffers, from which the device WRITEs them.
    fn to_write(&self, data: &[u8]) -> doorbell_verbs::Sge {
        let from = READ + self.longest;
        self.device.cpu.write(self.buffers.mem(), from, data);
        self.buffers.sge(from, data.len() as u32)
    }

    fn writing<'a>(&self, at: u64, sge: &'a [doorbell_verbs::Sge; 1]) -> SendWr<'a> {
        let wr = SendWr::new(0, SendOp::Write(self.memory.at(at)), sge);
        if sge[0].length <= self.inline { wr.flags(SendFlags::INLINE) } else { wr }
    }
}
