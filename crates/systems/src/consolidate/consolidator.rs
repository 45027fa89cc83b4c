//! A writer that holds back its writes to a remote region.

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

/// Maximum number of WRITEs with one doorbell.
const LIST: usize = 64;

/// A completed post of a block. Its modifications are at the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completed {
    /// Number of the block in the region.
    pub block: u64,
    /// Number of modifications in the post. They are the oldest modifications of the block that had not
    /// reached the target.
    pub writes: u32,
}

/// Result of [`Consolidator::poll`].
#[derive(Clone, Copy, Debug)]
pub struct Polled<'a> {
    /// Posts that have completed since the last call, in the order of posting.
    pub completed: &'a [Completed],
    /// Number of blocks that this call posted because of the time-out.
    pub posted: u32,
}

impl Polled<'_> {
    /// Whether the call found nothing to do, so that its caller may pause.
    pub fn is_idle(&self) -> bool {
        self.completed.is_empty() && self.posted == 0
    }
}

/// A post that has not completed.
#[derive(Clone, Copy, Debug)]
struct Posted {
    /// The frame that has the posted bytes; `None` for a READ.
    frame: Option<Number>,
    /// Number of work requests of the post in the send queue.
    requests: u32,
    what: Completed,
}

/// Writes small ranges of a region of another machine's memory. The [module](super) says what each call
/// guarantees, and what is lost when the writer stops. After an error, the state of everything that has not
/// completed is unknown, and every call that posts fails.
pub struct Consolidator<P: Provider> {
    cpu: P,
    qp: Qp<P>,
    cq: Cq<P>,
    rules: Rules,
    region: (RemoteAddr, u64),
    /// Capacity of the send queue in work requests, and the bytes up to which a WRITE is inline.
    queue: u32,
    inline: u32,
    /// Memory of one block for each frame, and of one more block for READs.
    buffers: Mr<P>,
    frames: Frames,
    posted: VecDeque<Posted>,
    /// Work requests of all posts in `posted`.
    queued: u32,
    /// `found`: completed posts that `poll` has not returned yet. `told`: the posts that the last `poll`
    /// returned.
    found: Vec<Completed>,
    told: Vec<Completed>,
}

impl<P: Provider> Consolidator<P> {
    /// A consolidator for `region`: its address and its length in bytes. Connects a QP to the QP that the
    /// server of `service` made for `client` ([`device::serve_qps`]). WRITEs of up to `inline` bytes are
    /// inline.
    ///
    /// # Errors
    /// If the region does not consist of blocks, the device has too short a send queue, or a verb fails.
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

    /// A consolidator on a connected QP and the QP's send CQ. The QP was made with [`Rules::cap`]. `queue` is
    /// the length of its send queue, and `inline` is its inline limit.
    ///
    /// # Errors
    /// If the region does not consist of blocks, the send queue is too short, or there is no memory.
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
        // Frames for held blocks, for posted blocks, and for the next block to be held.
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

    /// Writes `bytes` to the region from `offset` on: holds them back, or posts them if they are not
    /// consolidated. The call counts as one modification of each block that it touches. It waits for room. If
    /// blocks are exclusive, it also waits for a READ of a block that is in no frame.
    ///
    /// # Errors
    /// If the bytes do not lie in the region, or a verb fails or has failed before.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), SystemError> {
        let mut rest = bytes;
        for (block, range) in self.parts(offset, bytes.len())? {
            let part;
            (part, rest) = rest.split_at(range.len());
            self.write_part(block, range.start, part)?;
        }
        Ok(())
    }

    /// Reads from `offset` on. Returns the target's bytes, changed by all earlier writes of this
    /// consolidator, posted or not.
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

    /// Posts all held blocks, the block held longest first. Later writes do not reach the target before these
    /// blocks.
    ///
    /// # Errors
    /// If a verb fails or has failed before.
    pub fn flush(&mut self) -> Result<(), SystemError> {
        while let Some(number) = self.frames.oldest() {
            self.post(number)?;
        }
        Ok(())
    }

    /// Waits until all posts have completed, so that their bytes are at the target. Held blocks stay held.
    ///
    /// # Errors
    /// If a verb fails or has failed before.
    pub fn fence(&mut self) -> Result<(), SystemError> {
        while !self.posted.is_empty() {
            self.wait()?;
        }
        Ok(())
    }

    /// Posts the blocks that were held for the time-out, as far as there is room. Returns the posts that have
    /// completed since the last call. It never waits. Only this call checks the time-out, so a loop calls it
    /// in each pass, and pauses no longer than until [`Consolidator::due`].
    ///
    /// # Errors
    /// If a verb fails or has failed before.
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

    /// When [`Consolidator::poll`] has to post the next block because of the time-out. The time holds until a
    /// post completes or is posted. [`Time::NEVER`] if no block is held, or there is no room.
    pub fn due(&mut self) -> Time {
        let oldest = self.frames.oldest().filter(|_| self.has_room());
        oldest.map_or(Time::NEVER, |number| self.frames.at(number).since + self.rules.timeout)
    }

    /// Whether a block can be posted without waiting.
    pub fn has_room(&self) -> bool {
        let requests = self.queued + self.rules.writes();
        self.posted.len() < self.rules.outstanding as usize && requests <= self.queue
    }

    /// Number of held blocks.
    pub fn held(&self) -> u32 {
        self.frames.held()
    }

    /// The blocks that a range touches, each with the part of the range in it.
    fn parts(
        &self,
        offset: u64,
        len: usize,
    ) -> Result<impl Iterator<Item = (u64, Range<u32>)> + use<P>, SystemError> {
        let end = offset.checked_add(len as u64).filter(|end| *end <= self.region.1);
        let Some(end) = end else {
            return SystemError::config(format!(
                "{len} bytes at offset {offset} do not lie in the region of {} bytes",
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

    /// Offset of a frame's bytes in the buffers.
    fn bytes_of(&self, number: Number) -> u64 {
        u64::from(number) * u64::from(self.rules.block)
    }

    /// Offset in the buffers at which [`Consolidator::read`] receives bytes.
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

    /// A frame for a block that is not held yet. The modification that follows has `bytes` bytes.
    fn begin_to_hold(&mut self, block: u64, bytes: u32) -> Result<Number, SystemError> {
        if self.frames.held() >= self.rules.held
            && let Some(oldest) = self.frames.oldest()
        {
            self.post(oldest)?;
        }
        let size = u64::from(self.rules.block);
        let number = match self.frames.place(block) {
            FramePlace::Frame(number) if !self.frames.at(number).posted => return Ok(number),
            // The device may still read the posted bytes, so the block moves to another frame.
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

    /// READs a part of a block to offset `to` of the buffers, and waits for the bytes. The QP executes
    /// earlier posts first.
    fn fetch(&mut self, block: u64, range: Range<u32>, to: u64) -> Result<(), SystemError> {
        self.room(1)?;
        let sge = [self.buffers.sge(to, range.len() as u32)];
        let op = SendOp::Read(self.remote(block, range.start));
        self.qp.post_send(&[SendWr::new(0, op, &sge).flags(SendFlags::SIGNALED)])?;
        self.queued(None, 1, Completed { block, writes: 0 });
        self.fence()
    }

    /// Posts the held modifications of a frame.
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
                // Other writers may write the block now. A READ on this QP finds what was posted.
                self.frames.drop_block(block);
            }
        }
        let writes = self.frames.posted(number);
        self.queued(Some(number), requests as u32, Completed { block, writes });
        Ok(())
    }

    /// Posts WRITEs of these parts of a frame. Only the last WRITE is signalled: its completion shows that
    /// all have completed.
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

    /// Takes a frame that holds nothing and is not posted. There are more frames than held and posted blocks,
    /// so such a frame exists, or will exist when a post completes.
    fn take(&mut self) -> Result<Number, SystemError> {
        loop {
            if let Some((number, looked)) = self.frames.take() {
                self.cpu.work(work::SCAN * looked);
                return Ok(number);
            }
            self.wait()?;
        }
    }

    /// Waits until there is room for a post of this many work requests.
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

    /// Notes that the oldest post has completed.
    fn ended(&mut self) {
        let Some(Posted { frame, requests, what }) = self.posted.pop_front() else { return };
        self.queued -= requests;
        if let Some(number) = frame {
            self.frames.completed(number);
            self.found.push(what);
        }
    }
}
