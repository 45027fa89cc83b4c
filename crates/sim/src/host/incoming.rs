//! DMA writes on their way to memory.
//!
//! The PCIe link keeps writes in order, so each device's writes become visible one after another, line by
//! line. Only a read can observe when a line becomes visible. So all lines that are due are put into memory
//! before each read. A line has an event of its own only if a thread sleeps until the line is written.

use super::lanes::{DmaWrite, VisibleLine, WriteData, WriteLane};
use super::machine::{ALLOCATED, Host};
use super::memory::{LINE, lines_touched};
use super::reach::{AccessKind, Agent, Lines};
use crate::core::payload::PayloadPool;
use crate::core::ps::Ps;

/// Writes of a device that are kept while no agent reads memory. Beyond this number, visible writes are put
/// into memory, because the list would grow without bound otherwise.
const KEPT: usize = 1024;

impl Host {
    /// Adds a DMA write that a device sends `now`. Returns whether there must be an event when the write's
    /// first line becomes visible.
    #[inline(always)] // Inlined, so that the write is stored in place.
    pub(crate) fn incoming(
        &mut self,
        device: u8,
        write: DmaWrite,
        now: Ps,
        payloads: &mut PayloadPool,
    ) -> bool {
        let writes = &mut self.lanes[usize::from(device)].writes;
        debug_assert!(
            writes.back().is_none_or(|last| last.at <= write.at),
            "the PCIe link keeps the order of DMA writes"
        );
        writes.push_back(write);
        // If lines are watched, the event of each line writes it to memory.
        if writes.len() > KEPT && !self.lines_are_watched {
            self.settle(now, payloads);
        }
        self.lines_are_watched
    }

    /// Puts the lines that are visible at `now` into memory. Must be called before every read of memory.
    #[inline]
    pub(crate) fn settle(&mut self, now: Ps, payloads: &mut PayloadPool) {
        for device in 0..self.lanes.len() {
            while self.is_due(device as u8, now) {
                self.put_line(device as u8, payloads);
            }
        }
    }

    /// Puts the next line of a device's writes into memory, if the line is visible at `now`.
    #[inline]
    pub(crate) fn next_line(
        &mut self,
        device: u8,
        now: Ps,
        payloads: &mut PayloadPool,
    ) -> Option<VisibleLine> {
        self.is_due(device, now).then(|| self.put_line(device, payloads))
    }

    /// When all writes that a device has sent will be visible; `None` if all are visible.
    pub(crate) fn landed(&self, device: u8) -> Option<Ps> {
        let last = self.lanes[usize::from(device)].writes.back()?;
        let lines = lines_touched((last.addr + u64::from(last.done)) % LINE, u64::from(last.len - last.done));
        Some(last.at + last.per_line * lines.saturating_sub(1))
    }

    /// Whether a line of a device's writes is visible at `now` but not yet in memory.
    #[inline]
    fn is_due(&self, device: u8, now: Ps) -> bool {
        self.lanes[usize::from(device)].writes.front().is_some_and(|write| write.at <= now)
    }

    /// Preserves the caches' bytes of the line that a device writes next, because the caches do not notice
    /// the write.
    #[cold]
    #[inline(never)]
    fn keep_next_line(&mut self, device: u8) {
        let write = &self.lanes[usize::from(device)].writes[0];
        let place = self.memory.place(write.addr + u64::from(write.done), 0).expect(ALLOCATED);
        self.keep_line(place);
    }

    #[inline(never)]
    fn put_line(&mut self, device: u8, payloads: &mut PayloadPool) -> VisibleLine {
        if self.caches_apart() {
            self.keep_next_line(device);
        }
        let WriteLane { socket, writes } = &mut self.lanes[usize::from(device)];
        let agent = Agent::Device { socket: *socket };
        let write = &mut writes[0];
        let (at, done) = (write.at, write.done);
        let begin = write.addr + u64::from(done);
        let part = (LINE - begin % LINE).min(u64::from(write.len - done)) as u32;
        let place = self.memory.place(begin, part.into()).expect(ALLOCATED);
        let to = self.memory.in_line(place, part.into());
        match write.data {
            WriteData::Payload(payload, offset) => {
                to.copy_from_slice(&payloads.bytes(payload)[(offset + done) as usize..][..part as usize]);
                if done + part == write.len {
                    payloads.give(payload);
                }
            }
            WriteData::Word(value) => {
                to.copy_from_slice(&value.to_le_bytes()[done as usize..][..part as usize])
            }
        }
        let mut next = None;
        if done + part < write.len {
            write.done += part;
            write.at += write.per_line;
            next = Some(write.at);
        } else {
            writes.pop_front();
        }
        let woken = self.access(at, agent, Lines::at(place), AccessKind::Store).woken;
        VisibleLine { woken, next }
    }

    /// From now on there must be an event for each line that becomes visible, because a thread sleeps until
    /// one does. The first call returns each write in flight: its device, and when its next line becomes
    /// visible.
    pub(crate) fn watch_lines(&mut self) -> Vec<(u8, Ps)> {
        if std::mem::replace(&mut self.lines_are_watched, true) {
            return Vec::new();
        }
        let under_way = |(device, lane): (u8, &WriteLane)| {
            let times: Vec<(u8, Ps)> = lane.writes.iter().map(|write| (device, write.at)).collect();
            times
        };
        (0..).zip(&self.lanes).flat_map(under_way).collect()
    }
}
