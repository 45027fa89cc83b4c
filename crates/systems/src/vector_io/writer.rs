//! The calls of vector I/O.

use crate::SystemError;
use crate::device::{self, Device, Failure};
use crate::strategy::Strategy;
use doorbell_verbs::{
    AccessFlags, Cpu, Cq, Mem, Mr, Provider, Qp, RemoteAddr, SendFlags, SendOp, SendWr, Sge, Time, Wc,
};

/// Maximum number of work requests with one doorbell.
const LIST: usize = 64;

/// A piece of registered memory.
#[derive(Clone, Copy, Debug)]
pub struct VectorPiece {
    mem: Mem,
    offset: u64,
    sge: Sge,
}

impl VectorPiece {
    /// `len` bytes of a region from `offset` on.
    pub fn of<P: Provider>(mr: &Mr<P>, offset: u64, len: u32) -> VectorPiece {
        VectorPiece { mem: mr.mem(), offset, sge: mr.sge(offset, len) }
    }

    /// Number of bytes.
    pub fn len(&self) -> u32 {
        self.sge.length
    }

    /// The piece as an SGE.
    pub(crate) fn sge(&self) -> Sge {
        self.sge
    }

    /// Copies the piece to other memory of its machine.
    pub fn copy_to<C: Cpu>(&self, cpu: &C, to: Mem, offset: u64) {
        cpu.copy(to, offset, self.mem, self.offset, self.len().into());
    }

    /// Whether the piece has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The device's limits for a writer.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Largest number of SGEs of a work request.
    sges: usize,
    /// Length of the send queue in work requests.
    queue: u32,
    /// Bytes up to which payload is inline.
    inline: u32,
}

/// Writes pieces to memory of the peer of its QP. Calls complete in order.
pub struct Writer<P: Provider> {
    cpu: P,
    qp: Qp<P>,
    cq: Cq<P>,
    limits: Limits,
    /// Copies of pieces: a slot for each outstanding call.
    copies: Mr<P>,
    /// Bytes of a slot.
    longest: u64,
    /// Maximum number of outstanding calls.
    window: u64,
    begun: u64,
    ended: u64,
    /// Number of work requests of each outstanding call, indexed by the call's number modulo `window`.
    taken: Vec<u32>,
    /// Sum of `taken`.
    queued: u32,
    failed: Failure,
}

/// Work requests of a call with this many pieces.
const fn work_requests(strategy: Strategy, pieces: usize, sges: usize) -> u32 {
    match strategy {
        Strategy::Sp => 1,
        Strategy::Doorbell => pieces as u32,
        Strategy::Sgl => pieces.div_ceil(sges) as u32,
    }
}

impl<P: Provider> Writer<P> {
    /// A writer for calls of at most `longest` bytes, with up to `window` outstanding calls. The QP must be
    /// connected, with room for `queue` send work requests of `sges` SGEs and `inline` bytes of inline
    /// payload. Its send CQ must have room for `window` completions.
    ///
    /// # Errors
    /// If there is no memory for copies.
    pub fn new(
        device: &Device<P>,
        (qp, cq): (Qp<P>, Cq<P>),
        (queue, sges, inline): (u32, u32, u32),
        longest: u64,
        window: u32,
    ) -> Result<Writer<P>, SystemError> {
        let window = window.max(1);
        // Each slot begins a cache line.
        let longest = longest.next_multiple_of(64);
        let copies = device.registered(longest * u64::from(window), AccessFlags::LOCAL_WRITE)?;
        device::warm(&device.cpu, copies.mem());
        Ok(Writer {
            cpu: device.cpu.clone(),
            qp,
            cq,
            limits: Limits { sges: sges.max(1) as usize, queue, inline },
            copies,
            longest,
            window: window.into(),
            begun: 0,
            ended: 0,
            taken: vec![0; window as usize],
            queued: 0,
            failed: Failure::default(),
        })
    }

    /// Number of calls that have begun.
    pub fn begun(&self) -> u64 {
        self.begun
    }

    /// Number of calls that are known to have completed, after a poll of the CQ.
    ///
    /// # Errors
    /// If a call has failed.
    pub fn completed(&mut self) -> Result<u64, SystemError> {
        self.failed.check()?;
        let mut wc = [Wc::default(); 16];
        let found = self.cq.poll(&mut wc)?.len();
        for wc in &wc[..found] {
            self.ended(wc)?;
        }
        Ok(self.ended)
    }

    /// Notes that the next call has completed.
    fn ended(&mut self, wc: &Wc) -> Result<(), SystemError> {
        self.failed.note(wc)?;
        let slot = (self.ended % self.window) as usize;
        self.queued -= std::mem::take(&mut self.taken[slot]);
        self.ended += 1;
        Ok(())
    }

    /// Waits until the first `completed` calls have completed.
    ///
    /// # Errors
    /// If a call has failed.
    pub fn wait(&mut self, completed: u64) -> Result<(), SystemError> {
        while self.ended < completed {
            self.failed.check()?;
            if let Some(wc) = self.cq.wait(Time::NEVER)? {
                self.ended(&wc)?;
            }
        }
        Ok(())
    }

    /// Writes pieces side by side to `to`. Returns the number n of the call, from 1. The call has completed
    /// once [`Writer::completed`] is at least n. Until then, pieces that are not copied must not change.
    /// Waits for room.
    ///
    /// # Errors
    /// If the pieces have no bytes, more bytes than a call may have, or need more work requests than the send
    /// queue has. If the device refuses a work request, or an earlier call has failed.
    pub fn write(
        &mut self,
        pieces: &[VectorPiece],
        to: RemoteAddr,
        strategy: Strategy,
    ) -> Result<u64, SystemError> {
        let bytes: u64 = pieces.iter().map(|piece| u64::from(piece.len())).sum();
        if bytes == 0 || bytes > self.longest {
            let why = format!("a call has {bytes} bytes, but must have 1 to {}", self.longest);
            return Err(SystemError::Protocol(why));
        }
        let needed = work_requests(strategy, pieces.len(), self.limits.sges);
        if needed > self.limits.queue {
            let why =
                format!("a call needs {needed} WRITEs, but the send queue has {} slots", self.limits.queue);
            return Err(SystemError::Protocol(why));
        }
        self.wait_for_room(needed)?;
        match strategy {
            Strategy::Sp => self.write_copied(pieces, bytes as u32, to)?,
            Strategy::Doorbell => self.write_list(pieces, to, 1)?,
            Strategy::Sgl => self.write_list(pieces, to, self.limits.sges)?,
        }
        Ok(self.begin(needed))
    }

    /// Adds to a word of the target, as a call of its own. Once the word has its new value, all earlier
    /// writes are at the target, because RC executes work requests in order. The old value goes to `answer`.
    /// Waits for room.
    ///
    /// # Errors
    /// If the device refuses the work request, or an earlier call has failed.
    pub fn fetch_add(&mut self, word: RemoteAddr, add: u64, answer: Sge) -> Result<u64, SystemError> {
        self.wait_for_room(1)?;
        let sge = [answer];
        let wr = SendWr::new(0, SendOp::FetchAdd { remote: word, add }, &sge).flags(SendFlags::SIGNALED);
        self.qp.post_send(&[wr])?;
        Ok(self.begin(1))
    }

    /// Waits until a call of `needed` work requests may be posted.
    fn wait_for_room(&mut self, needed: u32) -> Result<(), SystemError> {
        while self.begun - self.ended >= self.window || self.queued + needed > self.limits.queue {
            self.wait(self.ended + 1)?;
        }
        Ok(())
    }

    /// Counts a posted call of `work_requests` work requests. Returns the call's number.
    fn begin(&mut self, work_requests: u32) -> u64 {
        self.taken[(self.begun % self.window) as usize] = work_requests;
        self.queued += work_requests;
        self.begun += 1;
        self.begun
    }

    fn write_copied(
        &mut self,
        pieces: &[VectorPiece],
        bytes: u32,
        to: RemoteAddr,
    ) -> Result<(), SystemError> {
        let place = self.begun % self.window * self.longest;
        let mut at = place;
        for piece in pieces {
            piece.copy_to(&self.cpu, self.copies.mem(), at);
            at += u64::from(piece.len());
        }
        let sge = [self.copies.sge(place, bytes)];
        let wr = SendWr::new(0, SendOp::Write(to), &sge).flags(SendFlags::SIGNALED | self.inlined(bytes));
        Ok(self.qp.post_send(&[wr])?)
    }

    /// Posts WRITEs of `each` pieces each. Only the last WRITE is signalled.
    fn write_list(&mut self, pieces: &[VectorPiece], to: RemoteAddr, each: usize) -> Result<(), SystemError> {
        let wrs = pieces.len().div_ceil(each);
        let mut sges = Vec::with_capacity(pieces.len());
        sges.extend(pieces.iter().map(|piece| piece.sge));
        let mut list = [SendWr::new(0, SendOp::Send, &[]); LIST];
        let (mut offset, mut posted) = (0, 0);
        while posted < wrs {
            let count = LIST.min(wrs - posted);
            for (n, wr) in list[..count].iter_mut().enumerate() {
                let from = (posted + n) * each;
                let own = &sges[from..(from + each).min(pieces.len())];
                let bytes: u32 = own.iter().map(|sge| sge.length).sum();
                *wr = SendWr::new(0, SendOp::Write(to.at(offset)), own);
                if own.len() == 1 {
                    wr.flags |= self.inlined(bytes);
                }
                if posted + n + 1 == wrs {
                    wr.flags |= SendFlags::SIGNALED;
                }
                offset += u64::from(bytes);
            }
            self.qp.post_send(&list[..count])?;
            posted += count;
        }
        Ok(())
    }

    fn inlined(&self, bytes: u32) -> SendFlags {
        if bytes <= self.limits.inline { SendFlags::INLINE } else { SendFlags::empty() }
    }
}
