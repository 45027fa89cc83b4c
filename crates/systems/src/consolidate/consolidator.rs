//! Writes of a remote region that are held back.

use super::frames::{FramePlace, Frames, Number};
use super::rules::{Holding, Rules};
use crate::SystemError;
use crate::device::{self, Device, check};
use crate::work;
use doorbell_verbs::{
    AccessFlags, Cq, Mr, Provider, Qp, QpInitAttr, QpType, RemoteAddr, SendFlags, SendOp, SendWr, Sge, Time,
    Wc,
};
use std::collections::VecDeque;
use std::ops::Range;

/// WRITEs that go with one doorbell at most.
const LIST: usize = 64;

/// A post of a block that has completed: its modifications are at the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Which block of the region.
    pub block: u64,
    /// Modifications that it brought, the oldest of the block that were not there.
    pub writes: u32,
}

/// What a call of [`Consolidator::poll`] did.
#[derive(Clone, Copy, Debug)]
pub struct Polled<'a> {
    /// Posts that have completed since the last time, in the order of posts.
    pub completed: &'a [Completed],
    /// Blocks that it posted by the time-out.
    pub posted: u32,
}

impl Polled<'_> {
    /// Whether it found nothing to do, so that a pass may pause.
    pub fn is_idle(&self) -> bool {
        self.completed.is_empty() && self.posted == 0
    }
}

/// What is posted and has not completed.
#[derive(Clone, Copy, Debug)]
struct Posted {
    /// Where its bytes are taken from; a READ has none.
    frame: Option<Number>,
    /// Work requests of the send queue.
    requests: u32,
    what: Completed,
}

/// Writes small ranges of a region of another machine's memory. What each call may rely on, and what is lost when the writer stops, is
/// said in the [module](super). After an error nothing is known of what has not completed, and no call succeeds that posts.
pub struct Consolidator<P: Provider> {
    cpu: P,
    qp: Qp<P>,
    cq: Cq<P>,
    rules: Rules,
    region: (RemoteAddr, u64),
    /// Work requests of the send queue, and bytes of a WRITE that is inline.
    queue: u32,
    inline: u32,
    /// A block for each frame, and one for READs.
    buffers: Mr<P>,
    frames: Frames,
    posted: VecDeque<Posted>,
    /// Work requests of these.
    queued: u32,
    /// Posts that have completed: since the program asked, and when it did.
    found: Vec<Completed>,
    told: Vec<Completed>,
}

impl<P: Provider> Consolidator<P> {
    /// Of `region`, an address and its bytes, at the server of `service` with the end that it has for this `client`
    /// ([`device::serve_qps`]); WRITEs of up to `inline` bytes are inline.
    ///
    /// # Errors
    /// If the region is not of blocks, the device has too short a send queue, or a verb fails.
    pub fn connect(
        device: &Device<P>,
        (client, service): (u32, &str),
        region: (RemoteAddr, u64),
        rules: Rules,
        inline: u32,
    ) -> Result<Consolidator<P>, SystemError> {
        let cap = rules.cap(device, inline);
        rules.check(region.1, cap.max_send_wr)?;
        let cq = device.context.create_cq(rules.outstanding)?;
        let qp = device.pd.create_qp(&cq, &cq, None, &QpInitAttr::new(QpType::Rc, cap))?;
        device::connect_qp(device, &qp, client, service)?;
        Consolidator::new(device, (qp, cq), region, rules, (cap.max_send_wr, cap.max_inline_data))
    }

    /// The same by a connected QP and the CQ of what it sends, made with [`Rules::cap`], which says how long its send queue is, and what
    /// it may send inline.
    ///
    /// # Errors
    /// If the region is not of blocks, the send queue is too short, or there is no memory.
    pub fn new(
        device: &Device<P>,
        (qp, cq): (Qp<P>, Cq<P>),
        region: (RemoteAddr, u64),
        rules: Rules,
        (queue, inline): (u32, u32),
    ) -> Result<Consolidator<P>, SystemError> {
        rules.check(region.1, queue)?;
        let blocks = region.1 / u64::from(rules.block);
        let place = |block| if rules.holds(block) { FramePlace::Target } else { FramePlace::Direct };
        // What is held, what is posted, and what comes to be held.
        let frames = rules.held.saturating_add(rules.outstanding).saturating_add(1);
        let bytes = (u64::from(frames) + 1) * u64::from(rules.block);
        Ok(Consolidator {
            cpu: device.cpu.clone(),
            qp,
            cq,
            region,
            queue,
            inline,
            buffers: device.registered(bytes, AccessFlags::LOCAL_WRITE)?,
            frames: Frames::new(frames, (0..blocks).map(place).collect()),
            posted: VecDeque::new(),
            queued: 0,
            found: Vec::new(),
            told: Vec::new(),
            rules,
        })
    }

    /// Writes `bytes` to the region from `offset` on: holds them back, or posts them where they are not consolidated. Each block that they
    /// lie in is modified once. Waits for room, and for a block's bytes where it is held exclusively and in no frame.
    ///
    /// # Errors
    /// If they do not lie in the region; if a verb fails, or one has before.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), SystemError> {
        let mut rest = bytes;
        for (block, range) in self.parts(offset, bytes.len())? {
            let part;
            (part, rest) = rest.split_at(range.len());
            self.write_part(block, range.start, part)?;
        }
        Ok(())
    }

    /// Reads from `offset` on: what is at the target, and what was written here before, whether it has been posted or not.
    ///
    /// # Errors
    /// As [`Consolidator::write`].
    pub fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<(), SystemError> {
        let mut rest = into;
        for (block, range) in self.parts(offset, rest.len())? {
            let (part, tail) = std::mem::take(&mut rest).split_at_mut(range.len());
            self.read_part(block, range, part)?;
            rest = tail;
        }
        Ok(())
    }

    /// Posts all that is held, the longest first. What is written later is not at the target before it.
    ///
    /// # Errors
    /// If a verb fails, or one has before.
    pub fn flush(&mut self) -> Result<(), SystemError> {
        while let Some(number) = self.frames.oldest() {
            self.post(number)?;
        }
        Ok(())
    }

    /// Waits until all that has been posted has completed: it is at the target. What is held stays held.
    ///
    /// # Errors
    /// If a verb fails, or one has before.
    pub fn fence(&mut self) -> Result<(), SystemError> {
        while !self.posted.is_empty() {
            self.wait()?;
        }
        Ok(())
    }

    /// Posts what has been held for the time-out, as far as there is room, and says what has completed since the last time. It never waits. Only
    /// this looks at the time-out: a loop calls it in each pass, and pauses no longer than until [`Consolidator::due`].
    ///
    /// # Errors
    /// If a verb fails, or one has before.
    pub fn poll(&mut self) -> Result<Polled<'_>, SystemError> {
        let mut wc = [Wc::default(); 16];
        let ended = self.cq.poll(&mut wc)?.len();
        wc[..ended].iter().try_for_each(check)?;
        (0..ended).for_each(|_| self.ended());
        let mut posted = 0;
        while self.has_room() && self.due() <= self.cpu.now() {
            let Some(number) = self.frames.oldest() else { break };
            self.post(number)?;
            posted += 1;
        }
        self.told.clear();
        std::mem::swap(&mut self.told, &mut self.found);
        Ok(Polled { completed: &self.told, posted })
    }

    /// When [`Consolidator::poll`] has a block to post by the time-out, if nothing completes or is posted before; never, where nothing is
    /// held, or there is no room.
    pub fn due(&mut self) -> Time {
        let oldest = self.frames.oldest().filter(|_| self.has_room());
        oldest.map_or(Time::NEVER, |number| self.frames.at(number).since + self.rules.timeout)
    }

    /// Whether a block can be posted without waiting.
    pub fn has_room(&self) -> bool {
        let requests = self.queued + self.rules.writes();
        self.posted.len() < self.rules.outstanding as usize && requests <= self.queue
    }

    /// Blocks that are held.
    pub fn held(&self) -> u32 {
        self.frames.held()
    }

    /// The blocks that a range lies in, and the part in each.
    fn parts(
        &self,
        offset: u64,
        len: usize,
    ) -> Result<impl Iterator<Item = (u64, Range<u32>)> + use<P>, SystemError> {
        let end = offset.checked_add(len as u64).filter(|end| *end <= self.region.1);
        let Some(end) = end else {
            return SystemError::config(format!(
                "{len} bytes from {offset} on are not in a region of {} bytes",
                self.region.1
            ));
        };
        let size = u64::from(self.rules.block);
        let mut at = offset;
        Ok(std::iter::from_fn(move || {
            let (block, from) = (at / size, at % size);
            let part = (size - from).min(end - at);
            at += part;
            (part > 0).then_some((block, from as u32..(from + part) as u32))
        }))
    }

    /// Where a frame's bytes begin.
    fn bytes_of(&self, number: Number) -> u64 {
        u64::from(number) * u64::from(self.rules.block)
    }

    /// Where READs go.
    fn scratch(&self) -> u64 {
        self.buffers.mem().len() - u64::from(self.rules.block)
    }

    fn write_part(&mut self, block: u64, from: u32, bytes: &[u8]) -> Result<(), SystemError> {
        self.cpu.work(work::HOLD);
        let number = match self.frames.place(block) {
            FramePlace::Direct => return self.write_direct(block, from, bytes),
            FramePlace::Frame(number) if self.frames.at(number).writes > 0 => number,
            _ => self.begin_to_hold(block, bytes.len() as u32)?,
        };
        self.cpu.write(self.buffers.mem(), self.bytes_of(number) + u64::from(from), bytes);
        if self.rules.holding == Holding::Shared {
            let spans = &mut self.frames.at_mut(number).spans;
            self.cpu.work(work::SCAN * spans.steps());
            spans.add(from..from + bytes.len() as u32);
        }
        if self.frames.modified(number, || self.cpu.now()) >= self.rules.theta {
            self.post(number)?;
        }
        Ok(())
    }

    /// A frame of a block that is not held, to be modified by so many bytes.
    fn begin_to_hold(&mut self, block: u64, bytes: u32) -> Result<Number, SystemError> {
        if self.frames.held() >= self.rules.held
            && let Some(oldest) = self.frames.oldest()
        {
            self.post(oldest)?;
        }
        let size = u64::from(self.rules.block);
        let number = match self.frames.place(block) {
            FramePlace::Frame(number) if !self.frames.at(number).posted => return Ok(number),
            // The device may still read what was posted.
            FramePlace::Frame(posted) => {
                let number = self.take()?;
                let (mem, to, old) = (self.buffers.mem(), self.bytes_of(number), self.bytes_of(posted));
                self.cpu.copy(mem, to, mem, old, size);
                number
            }
            FramePlace::Direct | FramePlace::Target => {
                let number = self.take()?;
                if self.rules.holding == Holding::Exclusive && bytes < self.rules.block {
                    self.fetch(block, 0..self.rules.block, self.bytes_of(number))?;
                }
                number
            }
        };
        self.frames.put(block, number);
        Ok(number)
    }

    fn write_direct(&mut self, block: u64, from: u32, bytes: &[u8]) -> Result<(), SystemError> {
        self.room(1)?;
        let number = self.take()?;
        let len = bytes.len() as u32;
        self.cpu.write(self.buffers.mem(), self.bytes_of(number), bytes);
        let sge = [self.buffers.sge(self.bytes_of(number), len)];
        let op = SendOp::Write(self.remote(block, from));
        let wr = SendWr::new(0, op, &sge).flags(SendFlags::SIGNALED | self.inlined(len));
        self.qp.post_send(&[wr])?;
        let frame = self.frames.at_mut(number);
        (frame.block, frame.posted) = (block, true);
        self.queued(Some(number), 1, Completed { block, writes: 1 });
        Ok(())
    }

    fn read_part(&mut self, block: u64, range: Range<u32>, into: &mut [u8]) -> Result<(), SystemError> {
        let mem = self.buffers.mem();
        let place = self.frames.place(block);
        if let (FramePlace::Frame(number), Holding::Exclusive) = (place, self.rules.holding) {
            self.cpu.read(mem, self.bytes_of(number) + u64::from(range.start), into);
            return Ok(());
        }
        let scratch = self.scratch();
        self.fetch(block, range.clone(), scratch)?;
        self.cpu.read(mem, scratch, into);
        let FramePlace::Frame(number) = place else { return Ok(()) };
        for span in self.frames.at(number).spans.ranges() {
            let (start, end) = (span.start.max(range.start), span.end.min(range.end));
            if start < end {
                let part = &mut into[(start - range.start) as usize..(end - range.start) as usize];
                self.cpu.read(mem, self.bytes_of(number) + u64::from(start), part);
            }
        }
        Ok(())
    }

    /// READs a part of a block to this place of the buffers, and waits for it: the QP brings it after what was posted before.
    fn fetch(&mut self, block: u64, range: Range<u32>, to: u64) -> Result<(), SystemError> {
        self.room(1)?;
        let sge = [self.buffers.sge(to, range.len() as u32)];
        let op = SendOp::Read(self.remote(block, range.start));
        self.qp.post_send(&[SendWr::new(0, op, &sge).flags(SendFlags::SIGNALED)])?;
        self.queued(None, 1, Completed { block, writes: 0 });
        self.fence()
    }

    /// Posts what is held of a frame.
    fn post(&mut self, number: Number) -> Result<(), SystemError> {
        let whole = 0..self.rules.block;
        let requests = match self.rules.holding {
            Holding::Exclusive => 1,
            Holding::Shared => self.frames.at(number).spans.ranges().len(),
        };
        self.room(requests as u32)?;
        let block = self.frames.at(number).block;
        match self.rules.holding {
            Holding::Exclusive => self.post_writes(number, block, std::slice::from_ref(&whole))?,
            Holding::Shared => {
                self.post_writes(number, block, self.frames.at(number).spans.ranges())?;
                // Others may write the block now; a READ of this QP finds what was posted.
                self.frames.drop_block(block);
            }
        }
        let writes = self.frames.posted(number);
        self.queued(Some(number), requests as u32, Completed { block, writes });
        Ok(())
    }

    /// Posts WRITEs of these parts of a frame; the last one tells of all.
    fn post_writes(&self, number: Number, block: u64, parts: &[Range<u32>]) -> Result<(), SystemError> {
        let mut sges = [Sge::default(); LIST];
        let mut left = parts.len();
        for parts in parts.chunks(LIST) {
            for (sge, part) in sges.iter_mut().zip(parts) {
                let from = self.bytes_of(number) + u64::from(part.start);
                *sge = self.buffers.sge(from, part.len() as u32);
            }
            let mut list = [SendWr::new(0, SendOp::Send, &[]); LIST];
            for ((wr, sge), part) in list.iter_mut().zip(sges.chunks(1)).zip(parts) {
                left -= 1;
                let told = if left == 0 { SendFlags::SIGNALED } else { SendFlags::empty() };
                let op = SendOp::Write(self.remote(block, part.start));
                *wr = SendWr::new(0, op, sge).flags(told | self.inlined(part.len() as u32));
            }
            self.qp.post_send(&list[..parts.len()])?;
        }
        Ok(())
    }

    fn remote(&self, block: u64, from: u32) -> RemoteAddr {
        self.region.0.at(block * u64::from(self.rules.block) + u64::from(from))
    }

    fn inlined(&self, bytes: u32) -> SendFlags {
        if bytes <= self.inline { SendFlags::INLINE } else { SendFlags::empty() }
    }

    /// A frame of no block. What is held and what is posted are fewer than all, so there is one, or will be.
    fn take(&mut self) -> Result<Number, SystemError> {
        loop {
            if let Some((number, looked)) = self.frames.take() {
                self.cpu.work(work::SCAN * looked);
                return Ok(number);
            }
            self.wait()?;
        }
    }

    /// Waits until there is room for a post of so many work requests.
    fn room(&mut self, requests: u32) -> Result<(), SystemError> {
        while self.posted.len() >= self.rules.outstanding as usize || self.queued + requests > self.queue {
            self.wait()?;
        }
        Ok(())
    }

    /// Waits until the oldest post has completed.
    fn wait(&mut self) -> Result<(), SystemError> {
        if let Some(wc) = self.cq.wait(Time::NEVER)? {
            check(&wc)?;
            self.ended();
        }
        Ok(())
    }

    fn queued(&mut self, frame: Option<Number>, requests: u32, what: Completed) {
        self.queued += requests;
        self.posted.push_back(Posted { frame, requests, what });
    }

    /// The oldest post has completed.
    fn ended(&mut self) {
        let Some(Posted { frame, requests, what }) = self.posted.pop_front() else { return };
        self.queued -= requests;
        if let Some(number) = frame {
            self.frames.completed(number);
            self.found.push(what);
        }
    }
}
