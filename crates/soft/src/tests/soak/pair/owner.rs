//! The owner of a pair.

use super::super::super::rounds::post;
use super::super::parts::{host, region};
use super::*;
use crate::capi::query::ibv_query_qp_data_in_order;

/// The byte that the owner stores after it has revoked the rights to memory.
const KEPT: u8 = 0x55;
/// In each round whose number is a multiple of this, the owner offers a QP that it destroys soon.
const BRIEF_EVERY: u64 = 4;
/// A revocation that takes this long has given up the copy of a stopped process.
const GIVEN_UP: Duration = Duration::from_millis(45);
/// Number of times that the owner reads a byte in a row, until the byte is new.
const LOOKS: u32 = 3000;
/// Number of times that the owner reads the range of a burst between two polls.
const SCANS: u32 = 40;
/// Longest pause of the owner before it revokes rights, in microseconds.
const LONGEST_PAUSE: u64 = 200;

/// Offset of an atomic's result in the owner's buffer. Answers lie before it, and RECVs of brief QPs behind.
const RESULT: u64 = 4096;

/// Memory that the asker may write, until the owner revokes the rights.
struct Offer {
    memory: Memory,
    kind: usize,
    number: u64,
    /// How long the revocation took.
    took: Duration,
}

pub(super) struct Owner {
    half: Half,
    there: There,
    /// The asker's UC QP.
    uc: u32,
    offer: Offer,
    /// The offer before, whose memory must not change any more.
    before: Option<Offer>,
    buffer: Memory,
    /// The request before.
    last: u64,
    atomics: Atomics,
    /// Whether an atomic is outstanding, and the number of outstanding answers.
    is_atomic: bool,
    answers: u32,
    /// Whether the asker has sent its last request.
    is_told_bye: bool,
    brief: Option<Queue>,
    /// The range that the asker writes: its kind, offset and length. Then whether the WRITEs are a burst,
    /// and the byte that a single WRITE stores.
    watched: Option<(usize, u64, usize, bool, u8)>,
    promises_order: bool,
    /// A number that selects the next byte to read.
    reads: std::cell::Cell<u32>,
    /// Whether the asker's process may be stopped.
    may_be_stopped: bool,
}

impl Owner {
    pub(super) fn new(half: Half, there: There, uc: u32, may_be_stopped: bool) -> Owner {
        let addr = Box::leak(vec![0u64; 1024].into_boxed_slice()).as_ptr() as u64;
        let buffer = Memory::new(half.process, addr, 8192);
        let offer = Offer::new(&half, 1);
        // SAFETY: the function does not use the QP.
        let promised = unsafe { ibv_query_qp_data_in_order(std::ptr::null_mut(), 0, 0) };
        Owner {
            half,
            there,
            uc,
            offer,
            before: None,
            buffer,
            last: 0,
            atomics: Atomics::default(),
            is_atomic: false,
            answers: 0,
            is_told_bye: false,
            brief: None,
            watched: None,
            promises_order: promised != 0,
            reads: std::cell::Cell::new(1),
            may_be_stopped,
        }
    }

    pub(super) fn run(mut self) {
        // A failure is a finding, so it needs no other handling.
        let _ = self.answer_all();
    }

    fn answer_all(&mut self) -> Option<()> {
        let mut empty = 0;
        while !self.is_told_bye {
            if !self.is_atomic {
                self.begin_atomic();
            }
            match self.half.poll(&self.half.main.cq) {
                Some(wc) => self.take(&wc)?,
                None => {
                    empty += 1;
                    if self.watched.is_some() {
                        self.watch();
                    }
                    if empty % 4 == 0 {
                        std::thread::sleep(Duration::from_micros(50));
                    }
                }
            }
        }
        // The asker destroys its QP when it has the last answer. An atomic that was still outstanding then
        // would get no response.
        self.take_until("last atomic", |owner| !owner.is_atomic)?;
        self.post_answer(&[BYE; 5]);
        self.take_until("last answer", |owner| owner.answers == 0)
    }

    /// Handles a completion. Returns `None` if it has an error.
    fn take(&mut self, wc: &ibv_wc) -> Option<()> {
        let status = WcStatus::from_c(wc.status);
        if status != Some(WcStatus::Success) {
            let (number, opcode) = (wc.wr_id, wc.opcode);
            self.half.found.say(format!("{number:#x} of {opcode:#x} of the owner ends with {status:?}"));
            return None;
        }
        if is_recv(wc) {
            self.receive(wc.wr_id, wc.byte_len as usize);
        } else if wc.wr_id == ATOMIC {
            self.is_atomic = false;
            self.atomics.check(&self.half.found, self.buffer.word(RESULT));
        } else {
            self.answers -= 1;
        }
        Some(())
    }

    /// Handles completions until `is_over` returns `true`. Returns `None` if this takes too long, or if a
    /// completion has an error. `what` names the awaited request.
    fn take_until(&mut self, what: &str, is_over: impl Fn(&Owner) -> bool) -> Option<()> {
        let begin = Instant::now();
        while !is_over(self) {
            if let Some(wc) = self.half.poll(&self.half.main.cq) {
                self.take(&wc)?;
            } else if begin.elapsed() > HANGS {
                self.half.found.say(format!("the owner's {what} does not complete"));
                return None;
            } else {
                std::thread::sleep(Duration::from_micros(10));
            }
        }
        Some(())
    }

    fn begin_atomic(&mut self) {
        self.is_atomic = true;
        let op = self.atomics.next(self.there.shared, self.buffer.word(RESULT));
        let into = self.buffer.sge(RESULT, 8);
        post(&self.half.main, &[SendWr::new(ATOMIC, op, &into).flags(SendFlags::SIGNALED)]);
    }

    /// Handles a request.
    fn receive(&mut self, slot: u64, len: usize) {
        let (inbox, found) = (self.half.inbox, self.half.found.clone());
        let head: Head = std::array::from_fn(|n| inbox.word(slot * RECV_BYTES + 8 * n as u64).load(Relaxed));
        let [number, kind, offset, range, is_burst, seen, tells] = head;
        self.check_before(slot);
        if number == BYE {
            self.is_told_bye = true;
            return;
        }
        if number != self.last + 1 || len != length(number) {
            found.say(format!("request {number} of {len} bytes comes after {}", self.last));
        }
        if self.last > 0 {
            self.half.post_recv((self.last - 1) % RECVS);
        }
        self.last = number;
        self.watched =
            Some((kind as usize % KINDS, offset, range as usize, is_burst != 0, later_byte(number)));
        let brief = self.use_brief(number, tells);
        self.use_offer(seen);
        let Offer { memory, number: offer, .. } = &self.offer;
        let answer: Answer = [number, *offer, memory.addr, memory.key.into(), brief];
        self.post_answer(&answer);
        found.rounds.store(number, Release);
    }

    fn post_answer(&mut self, answer: &Answer) {
        for (at, word) in answer.iter().enumerate() {
            self.buffer.word(8 * at as u64).store(*word, Relaxed);
        }
        let from = self.buffer.sge(0, size_of::<Answer>());
        post(&self.half.main, &[SendWr::new(1, SendOp::Send, &from).flags(SendFlags::SIGNALED)]);
        self.answers += 1;
    }

    /// Checks the buffer of the request before. By now, it has the bytes of the WRITE that followed.
    fn check_before(&self, slot: u64) {
        if self.last == 0 {
            return;
        }
        let before = (self.last - 1) % RECVS;
        if (before + 1) % RECVS != slot {
            self.half.found.say(format!("RECV {slot} completes after RECV {before}"));
        }
        let len = length(self.last) - HEAD;
        let bytes = self.half.inbox.bytes(before * RECV_BYTES + HEAD as u64, len);
        if let Some(at) = bytes.iter().position(|byte| byte.load(Relaxed) != later_byte(self.last)) {
            self.half.found.say(format!(
                "byte {at} of a WRITE after a SEND of {} bytes is gone after the poll",
                len + HEAD
            ));
        }
    }

    /// Reads the range that the asker writes.
    fn watch(&self) {
        let Some((kind, offset, len, is_burst, value)) = self.watched else { return };
        let memory = self.half.targets[kind];
        let found = &self.half.found;
        if is_burst {
            // The kernel writes private memory. It promises nothing about units of less than 8 bytes.
            let least = if kind == PRIVATE { 8 } else { 1 };
            let (first, end) = (memory.addr + offset, memory.addr + offset + len as u64);
            for _ in 0..SCANS {
                let mut at = first;
                while at < end {
                    let fits = |unit: &u64| at.is_multiple_of(*unit) && at + unit <= end;
                    let unit = [8, 4, 2].into_iter().find(fits).unwrap_or(1);
                    if unit >= least
                        && let Some(word) = torn(at, unit)
                    {
                        let at = at - first;
                        return found.say(format!(
                            "WRITEs of {len} bytes to memory {kind}: {unit} bytes from {at} are {word:#x}"
                        ));
                    }
                    at += unit;
                }
            }
        } else if self.promises_order {
            let bytes = memory.bytes(offset, len);
            let is_new = |at: usize| bytes[at].load(Acquire) == value;
            let later = self.reads.replace(self.reads.get().wrapping_mul(0x9e37_79b9).wrapping_add(1));
            let later = later as usize >> 8 & (len - 1);
            if !(0..LOOKS).any(|_| is_new(later)) {
                return;
            }
            let mut earlier = (0..later).rev().take(512).chain((0..later).step_by(64));
            if let Some(at) = earlier.find(|at| !is_new(*at)) {
                found.say(format!(
                    "the device promises an order, but byte {later} of {len} is new and byte {at} old"
                ));
            }
        }
    }

    /// Revokes the rights to the offered memory, if the asker uses them. Then checks the memory of the offer
    /// before, because the asker has ended all WRITEs to it.
    fn use_offer(&mut self, seen: u64) {
        if seen != self.offer.number {
            return;
        }
        if let Some(before) = self.before.take() {
            before.check(&self.half, self.may_be_stopped);
            if before.ends_by_error() {
                self.half.uc.reconnect(self.uc, PATIENCE);
            }
        }
        let pause = self.last.wrapping_mul(0x9e37_79b9) % LONGEST_PAUSE;
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_micros(pause) {
            std::hint::spin_loop();
        }
        let next = Offer::new(&self.half, self.offer.number + 1);
        let mut offer = std::mem::replace(&mut self.offer, next);
        offer.revoke(&self.half);
        self.before = Some(offer);
    }

    /// Does the next step with the brief QP. Returns the QP's number for the asker, or 0.
    fn use_brief(&mut self, number: u64, tells: u64) -> u64 {
        if let Some(brief) = &self.brief {
            if tells == SENT {
                let cq = brief.cq.clone();
                self.brief = None;
                self.check_brief(&cq);
                return 0;
            }
            if tells != 0 && brief.qp.query().0 == QpState::Reset {
                brief.connect(tells as u32, PATIENCE);
                for slot in 0..BRIEF_SENDS {
                    let sge = self.buffer.sge(RESULT + 256 * (1 + slot), 256);
                    brief.qp.post_recv(slot, &sge).expect("there is room");
                }
            }
            return brief.qp.num().into();
        }
        if tells == 0 && number.is_multiple_of(BRIEF_EVERY) {
            let brief = queue(self.half.process, QpType::Rc, None, None);
            return self.brief.insert(brief).qp.num().into();
        }
        0
    }

    /// Checks the CQ of a QP that is destroyed.
    fn check_brief(&self, cq: &Cq) {
        for slot in 0..BRIEF_SENDS {
            match self.half.poll(cq) {
                Some(wc) if wc.wr_id == slot && wc.status == 0 => {}
                Some(wc) => self.half.found.say(format!(
                    "after ibv_destroy_qp, RECV {} with status {} comes for {slot}",
                    wc.wr_id, wc.status
                )),
                None => {
                    return self
                        .half
                        .found
                        .say(format!("after ibv_destroy_qp, {slot} of {BRIEF_SENDS} completions are left"));
                }
            }
        }
    }
}

/// The aligned unit at this address, if its bytes differ. All WRITEs store equal bytes.
fn torn(at: u64, unit: u64) -> Option<u64> {
    // SAFETY: the owner's memory stays mapped, and the unit is aligned.
    unsafe {
        let (word, byte) = match unit {
            8 => ((*(at as *const AtomicU64)).load(Acquire), 0x0101_0101_0101_0101),
            4 => ((*(at as *const std::sync::atomic::AtomicU32)).load(Acquire).into(), 0x0101_0101),
            2 => ((*(at as *const std::sync::atomic::AtomicU16)).load(Acquire).into(), 0x0101),
            _ => return None,
        };
        (word != (word & 0xff) * byte).then_some(word)
    }
}

impl Offer {
    fn new(half: &Half, number: u64) -> Offer {
        let kind = number as usize % KINDS;
        let memory = Memory { addr: half.offered[kind], key: 0 };
        memory.fill(0, OFFERED, 0);
        let of = host(memory.addr, OFFERED).expect("files may be opened");
        let key = half.process.regions.register(half.process.segment, region(memory.addr, OFFERED), of);
        let memory = Memory { key: key.expect("a region"), ..memory };
        Offer { memory, kind, number, took: Duration::ZERO }
    }

    /// Revokes the rights of the asker: by a deregistration, or by the QP's transition to Err.
    fn revoke(&mut self, half: &Half) {
        let begin = Instant::now();
        match self.ends_by_error() {
            true => {
                half.uc.qp.modify(&QpAttr::state(QpState::Err)).expect("the way to Err");
            }
            false => self.deregister(half),
        }
        self.took = begin.elapsed();
        self.memory.fill(0, OFFERED, KEPT);
    }

    /// Whether the QP enters Err. Otherwise the region is deregistered.
    fn ends_by_error(&self) -> bool {
        self.number.is_multiple_of(4)
    }

    fn deregister(&self, half: &Half) {
        let revoked = half.process.regions.deregister(half.process.segment, self.memory.key);
        revoked.into_iter().for_each(|revoked| half.process.settle(revoked, "deregister"));
    }

    /// Checks that the memory is unchanged since the rights were revoked. `may_be_stopped` tells whether the
    /// asker's process may have been stopped. Then the revocation does not wait for long.
    fn check(&self, half: &Half, may_be_stopped: bool) {
        let bytes = self.memory.bytes(0, OFFERED);
        let is_given_up = may_be_stopped && self.took >= GIVEN_UP;
        if !is_given_up && let Some(at) = bytes.iter().position(|byte| byte.load(Relaxed) != KEPT) {
            let (how, kind) =
                (if self.ends_by_error() { "transition to Err" } else { "deregistration" }, self.kind);
            half.found.say(format!("byte {at} of memory {kind} changes after the {how} has returned"));
        }
        if self.ends_by_error() {
            self.deregister(half);
        }
    }
}
