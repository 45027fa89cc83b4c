//! DMA writes on their way to memory.
//!
//! The PCIe link keeps their order, so each device's become visible one after another, line by line. Nobody
//! can tell when, but by looking: what has become visible is put into memory before anybody looks there. Only
//! where threads sleep until a line is written is there an event for each line.

use super::lanes::{DmaWrite, VisibleLine, WriteData, WriteLane};
use super::machine::{ALLOCATED, Host};
use super::memory::{LINE, lines_touched};
use super::reach::{AccessKind, Agent, Lines};
use crate::core::payload::PayloadPool;
use crate::core::ps::Ps;

/// Writes of a device that nobody has looked for: more have those put into memory that are visible, as where nobody ever looks
/// they would become ever more.
const KEPT: usize = 1024;

impl Host {
    /// A device has sent off a DMA write `now`. Returns whether there must be an event when its first line becomes
    /// visible.
    #[inline(always)] // It is written where it stays.
    pub(crate) fn incoming(
        &mut self,
        device: u8,
        write: DmaWrite,
        now: Ps,
        payloads: &mut PayloadPool,
    ) -> bool {
        let writes = &mut self.lanes[usize::from(device)].writes;
        debug_assert!(writes.back().is_none_or(|last| last.at <= write.at), "the link keeps their order");
        writes.push_back(write);
        // What is watched goes by its events.
        if writes.len() > KEPT && !self.lines_are_watched {
            self.settle(now, payloads);
        }
        self.lines_are_watched
    }

    /// Puts into memory what has become visible by now. Must come before every look at memory.
    #[inline]
    pub(crate) fn settle(&mut self, now: Ps, payloads: &mut PayloadPool) {
        for device in 0..self.lanes.len() {
            while self.is_due(device as u8, now) {
                self.put_line(device as u8, payloads);
            }
        }
    }

    /// The next line of a device's writes, if it has become visible by now.
    #[inline]
    pub(crate) fn next_line(
        &mut self,
        device: u8,
        now: Ps,
        payloads: &mut PayloadPool,
    ) -> Option<VisibleLine> {
        self.is_due(device, now).then(|| self.put_line(device, payloads))
    }

    /// When all that a device has sent off will have become visible; none where it has.
    pub(crate) fn landed(&self, device: u8) -> Option<Ps> {
        let last = self.lanes[usize::from(device)].writes.back()?;
        let lines = lines_touched((last.addr + u64::from(last.done)) % LINE, u64::from(last.len - last.done));
        Some(last.at + last.per_line * lines.saturating_sub(1))
    }

    /// Whether a line of a device's writes has become visible by now.
    #[inline]
    fn is_due(&self, device: u8, now: Ps) -> bool {
        self.lanes[usize::from(device)].writes.front().is_some_and(|write| write.at <= now)
    }

    /// What caches hold of the line that a device writes next stays as it is, where they do not hear of that.
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

    /// From now on there must be an event for each line that becomes visible: somebody sleeps until one does.
    /// Returns, the first time, the devices with writes under way and when each of these goes on.
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
