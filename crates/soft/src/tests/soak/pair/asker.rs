//! The asker of a pair.

use super::super::super::rounds::post;
use super::*;
use std::collections::VecDeque;

/// Number of lists of WRITEs whose words the owner checks, and number of WRITEs of a list, less 1.
const BURSTS: u32 = 6;
const BURST: u32 = 11;
/// Number of WRITEs to memory whose rights the owner revokes.
const REVOKED_WRITES: u64 = 4;

/// The completions that a thread has polled for the asker.
struct Polled {
    wcs: Mutex<VecDeque<ibv_wc>>,
    stop: AtomicBool,
}

pub(super) struct Asker {
    half: Arc<Half>,
    there: There,
    polled: Arc<Polled>,
    /// Polled completions that nobody has waited for yet.
    kept: Vec<ibv_wc>,
    /// Local memory: the payloads to send, the bytes to write, and the bytes of READs and atomics.
    buffer: Memory,
    seen: u64,
    brief: Option<Queue>,
    /// What the asker tells the owner about its brief QP.
    tells: u64,
    atomics: Atomics,
}

const TO_SEND: u64 = 0;
const TO_WRITE: u64 = 4096;
const FETCHED: u64 = 3 * 4096;
const BUFFER: usize = 4 * 4096;

impl Asker {
    pub(super) fn new(half: Half, there: There) -> Asker {
        let addr = Box::leak(vec![0u64; BUFFER / 8].into_boxed_slice()).as_ptr() as u64;
        let buffer = Memory::new(half.process, addr, BUFFER);
        let polled = Polled { wcs: Mutex::default(), stop: AtomicBool::new(false) };
        Asker {
            half: Arc::new(half),
            there,
            polled: Arc::new(polled),
            kept: Vec::new(),
            buffer,
            seen: 0,
            brief: None,
            tells: 0,
            atomics: Atomics::default(),
        }
    }

    pub(super) fn run(mut self) {
        let (half, polled) = (self.half.clone(), self.polled.clone());
        let taker = std::thread::spawn(move || take_all(&half, &polled));
        let found = self.half.found.clone();
        for number in 1.. {
            if found.stop.load(Acquire) {
                // The owner reads the number of the message.
                self.buffer.word(TO_SEND).store(BYE, Relaxed);
                self.post(&[SendWr::new(number, SendOp::Send, &self.buffer.sge(TO_SEND, HEAD))]);
                // The owner answers when its last atomic is complete. Until then, the asker keeps its QP.
                let _ = self.wait(number).and_then(|_| self.answer(number));
                break;
            }
            if self.round(number).is_none() {
                break;
            }
            found.rounds.store(number, Release);
        }
        self.polled.stop.store(true, Release);
        let _ = taker.join();
    }

    fn post(&self, wrs: &[SendWr<'_>]) {
        let wrs: Vec<SendWr<'_>> = wrs.iter().map(|wr| wr.flags(SendFlags::SIGNALED)).collect();
        post(&self.half.main, &wrs);
    }

    /// Waits for a completion. Returns `None` if it does not come, or is no success.
    fn wait(&mut self, wr_id: u64) -> Option<ibv_wc> {
        let begin = Instant::now();
        loop {
            let mut wcs = lock(&self.polled.wcs);
            self.kept.extend(wcs.drain(..));
            drop(wcs);
            if let Some(at) = self.kept.iter().position(|wc| wc.wr_id == wr_id && !is_recv(wc)) {
                let wc = self.kept.remove(at);
                return self.right(wc);
            }
            if begin.elapsed() > HANGS {
                self.half.found.say(format!("the completion of {wr_id:#x} does not come"));
                return None;
            }
            std::thread::sleep(Duration::from_micros(10));
        }
    }

    fn right(&self, wc: ibv_wc) -> Option<ibv_wc> {
        let status = WcStatus::from_c(wc.status);
        if status != Some(WcStatus::Success) {
            self.half.found.say(format!("{:#x} of {:#x} ends with {status:?}", wc.wr_id, wc.opcode));
            return None;
        }
        Some(wc)
    }

    /// Waits for the owner's answer to a request.
    fn answer(&mut self, number: u64) -> Option<Answer> {
        let begin = Instant::now();
        loop {
            let mut wcs = lock(&self.polled.wcs);
            self.kept.extend(wcs.drain(..));
            drop(wcs);
            if let Some(at) = self.kept.iter().position(is_recv) {
                let wc = self.kept.remove(at);
                let wc = self.right(wc)?;
                let memory = self.half.inbox;
                let answer =
                    std::array::from_fn(|n| memory.word(wc.wr_id * RECV_BYTES + 8 * n as u64).load(Relaxed));
                self.half.post_recv(wc.wr_id);
                return Some(answer);
            }
            if begin.elapsed() > HANGS {
                self.half.found.say(format!("request {number} gets no answer"));
                return None;
            }
            std::thread::sleep(Duration::from_micros(10));
        }
    }

    fn round(&mut self, number: u64) -> Option<()> {
        let kind = number as usize % KINDS;
        let is_burst = (number / KINDS as u64).is_multiple_of(2);
        let (offset, len) = match is_burst {
            true if kind == PRIVATE => (number * 8 % 64, 1 + (number * 37 % 150) as usize),
            true => (number * 3 % 16, 1 + (number * 37 % 150) as usize),
            false => (0, 1024 << (number / 6 % 3)),
        };
        let head = [number, kind as u64, offset, len as u64, u64::from(is_burst), self.seen, self.tells];
        self.ask(number, &head)?;
        let answer = self.answer(number)?;
        self.write_to_watched(kind, (offset, len), is_burst, number)?;
        self.add_or_swap()?;
        let [answered, offer, addr, key, brief] = answer;
        if answered != number {
            self.half.found.say(format!("the answer to request {number} has the bytes of answer {answered}"));
        }
        self.seen = offer;
        let offered = RemoteAddr { addr, rkey: key as u32 };
        self.buffer.fill(TO_WRITE, OFFERED, WRITTEN);
        for _ in 0..REVOKED_WRITES {
            let sge = self.buffer.sge(TO_WRITE, OFFERED);
            post(&self.half.uc, &[SendWr::new(0, SendOp::Write(offered), &sge).flags(SendFlags::SIGNALED)]);
            let begin = Instant::now();
            let wc = loop {
                if let Some(wc) = self.half.poll(&self.half.uc.cq) {
                    break wc;
                }
                if begin.elapsed() > HANGS {
                    self.half.found.say("a WRITE on UC does not complete".to_owned());
                    return None;
                }
                std::thread::yield_now();
            };
            self.right(wc)?;
        }
        self.use_brief(brief)
    }

    /// SENDs a request, READs the buffer of its RECV, and WRITEs to this buffer.
    fn ask(&mut self, number: u64, head: &Head) -> Option<()> {
        let len = length(number);
        for (at, byte) in self.buffer.bytes(TO_SEND, len).iter().enumerate() {
            byte.store(byte_of(number, at), Relaxed);
        }
        for (at, word) in head.iter().enumerate() {
            self.buffer.word(TO_SEND + 8 * at as u64).store(*word, Relaxed);
        }
        self.buffer.fill(TO_WRITE, len - HEAD, later_byte(number));
        // No byte that the READ leaves unchanged is right.
        let (sent, fetched) = (self.buffer.bytes(TO_SEND, len), self.buffer.bytes(FETCHED, len));
        sent.iter().zip(fetched).for_each(|(sent, to)| to.store(!sent.load(Relaxed), Relaxed));
        // Request 1 takes the first RECV.
        let slot = (number - 1) % RECVS * RECV_BYTES;
        let (from, to) = (self.buffer.sge(TO_SEND, len), self.buffer.sge(TO_WRITE, len - HEAD));
        let into = self.buffer.sge(FETCHED, len);
        self.post(&[SendWr::new(number, SendOp::Send, &from)]);
        self.post(&[SendWr::new(MARK + 1, SendOp::Read(self.there.inbox.at(slot)), &into)]);
        let written = self.there.inbox.at(slot + HEAD as u64);
        self.post(&[SendWr::new(MARK + 2, SendOp::Write(written), &to)]);
        for wr_id in [number, MARK + 1, MARK + 2] {
            self.wait(wr_id)?;
        }
        let wrong = (0..len).find(|at| sent[*at].load(Relaxed) != fetched[*at].load(Relaxed));
        if let Some(at) = wrong {
            let (sent, fetched) = (sent[at].load(Relaxed), fetched[at].load(Relaxed));
            let how = if fetched == !sent { "leaves byte" } else { "brings another byte" };
            self.half.found.say(format!(
                "a READ after a SEND of {len} bytes {how} {at}: {fetched:#x}, and {sent:#x} was sent"
            ));
        }
        Some(())
    }

    /// WRITEs to a range that the owner reads: many times, or once.
    fn write_to_watched(
        &mut self,
        kind: usize,
        (offset, len): (u64, usize),
        is_burst: bool,
        number: u64,
    ) -> Option<()> {
        let op = SendOp::Write(self.there.targets[kind].at(offset));
        if !is_burst {
            self.buffer.fill(TO_WRITE, len, later_byte(number));
            self.post(&[SendWr::new(MARK + 3, op, &self.buffer.sge(TO_WRITE, len))]);
            return self.wait(MARK + 3).map(drop);
        }
        self.buffer.fill(TO_WRITE, len, 0xff);
        self.buffer.fill(TO_WRITE + 1024, len, 0);
        let from = [0, 1024].map(|at| self.buffer.sge(TO_WRITE + at, len));
        for _ in 0..BURSTS {
            let mut list: Vec<SendWr<'_>> =
                (0..BURST).map(|nth| SendWr::new(0, op, &from[nth as usize % 2])).collect();
            list.push(SendWr::new(MARK + 3, op, &from[0]).flags(SendFlags::SIGNALED));
            post(&self.half.main, &list);
            self.wait(MARK + 3)?;
        }
        Some(())
    }

    /// Adds 1 to a word that both processes have registered, or swaps another such word.
    fn add_or_swap(&mut self) -> Option<()> {
        let op = self.atomics.next(self.there.shared, self.buffer.word(FETCHED));
        let into = self.buffer.sge(FETCHED, 8);
        self.post(&[SendWr::new(ATOMIC, op, &into)]);
        self.wait(ATOMIC)?;
        self.atomics.check(&self.half.found, self.buffer.word(FETCHED));
        Some(())
    }

    /// Does the next step with the brief QP. `theirs` is the number of the owner's QP, or 0.
    fn use_brief(&mut self, theirs: u64) -> Option<()> {
        if theirs == 0 {
            self.brief = None;
            self.tells = 0;
        } else if let Some(own) = &self.brief {
            for _ in 0..BRIEF_SENDS {
                let sge = self.buffer.sge(TO_SEND, 100);
                post(own, &[SendWr::new(1, SendOp::Send, &sge).flags(SendFlags::SIGNALED)]);
                let begin = Instant::now();
                let wc = loop {
                    if let Some(wc) = self.half.poll(&own.cq) {
                        break wc;
                    }
                    if begin.elapsed() > HANGS {
                        self.half.found.say("a SEND to a brief QP does not complete".to_owned());
                        return None;
                    }
                    std::thread::yield_now();
                };
                self.right(wc)?;
            }
            self.tells = SENT;
        } else {
            let own = queue(self.half.process, QpType::Rc, None, None);
            own.connect(theirs as u32, PATIENCE);
            self.tells = own.qp.num().into();
            self.brief = Some(own);
        }
        Some(())
    }
}

/// Polls the asker's CQ, and checks that no answer precedes the completion of its request.
fn take_all(half: &Half, polled: &Polled) {
    let (mut sent, mut answered) = (0, 0);
    while !polled.stop.load(Acquire) {
        let Some(wc) = half.poll(&half.main.cq) else {
            std::thread::sleep(Duration::from_micros(20));
            continue;
        };
        if is_recv(&wc) {
            answered += 1;
            if answered > sent {
                half.found.say(format!("the answer to request {answered} precedes the request's completion"));
            }
        } else if wc.wr_id < MARK {
            sent = wc.wr_id;
        }
        lock(&polled.wcs).push_back(wc);
    }
}
