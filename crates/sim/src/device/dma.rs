//! DMA: the NIC reads and writes memory.

use crate::core::queue::Event;
use crate::core::slab::Payload;
use crate::device::{Cqe, DmaRead, DmaWrite, ReadPurpose, Written};
use crate::host::memory::LINE;
use crate::world::World;

impl World {
    /// Starts a DMA read, or queues it for a tag.
    pub(crate) fn start_read(&mut self, read: DmaRead) {
        let machine = usize::from(read.machine);
        let limit = self.profile.pcie.max_outstanding_reads;
        let index = self.reads.insert(read);
        let nic = &mut self.machines[machine].nic;
        if nic.reads >= limit {
            nic.reads_waiting.push_back(index);
        } else {
            self.request_read(index);
        }
    }

    fn request_read(&mut self, index: u32) {
        let DmaRead { machine, bytes, .. } = self.reads[index];
        let m = &mut self.machines[usize::from(machine)];
        m.nic.reads += 1;
        let at_host = m.pcie.request_read(self.now, u64::from(bytes), self.window);
        self.queue.push(at_host, Event::ReadAtHost { machine, read: index });
    }

    /// A read request is at memory: the data is taken now.
    pub(crate) fn read_at_host(&mut self, index: u32) {
        let DmaRead { machine, bytes, purpose } = self.reads[index];
        let m = &mut self.machines[usize::from(machine)];
        let mut offset = 0;
        match purpose {
            ReadPurpose::Payload { flight, addr, into } => {
                // A region cannot be deregistered while memory is alive as long as the run, so a
                // checked address is always allocated.
                if let Some(place) = m.memory.place(addr, u64::from(bytes)) {
                    offset = place.offset;
                    let payload = self.flights[flight].payload;
                    self.payloads.bytes_mut(payload)[into as usize..][..bytes as usize]
                        .copy_from_slice(m.memory.bytes(place, u64::from(bytes)));
                }
            }
            ReadPurpose::Atomic { flight } => {
                if let Some(atomic) = &mut self.flights[flight].atomic
                    && let Some(place) = m.memory.place(atomic.addr, 8)
                {
                    offset = place.offset;
                    atomic.original = m.memory.load_u64(place);
                }
            }
            ReadPurpose::SendWqes { .. } | ReadPurpose::RecvWqes { .. } | ReadPurpose::Refetch => {}
        }
        let done = m.pcie.complete_read(self.now, offset, u64::from(bytes), self.window);
        self.queue.push(done, Event::ReadDone { machine, read: index });
    }

    /// The data of a read is in the NIC.
    pub(crate) fn read_done(&mut self, index: u32) {
        let DmaRead { machine, purpose, .. } = self.reads[index];
        self.reads.free(index);
        let nic = &mut self.machines[usize::from(machine)].nic;
        nic.reads -= 1;
        if let Some(next) = nic.reads_waiting.pop_front() {
            self.request_read(next);
        }
        match purpose {
            ReadPurpose::SendWqes { qp, count } => self.wqes_entered(machine, qp, count, false),
            ReadPurpose::RecvWqes { recv_queue, count } => self.recv_wqes_entered(machine, recv_queue, count),
            ReadPurpose::Payload { flight, .. } => self.payload_read(flight),
            ReadPurpose::Atomic { flight } => self.atomic_read(flight),
            ReadPurpose::Refetch => {}
        }
    }

    /// Reads again what fell out of a cache; only its traffic matters.
    pub(crate) fn refetch(&mut self, machine: u16, bytes: u32) {
        self.start_read(DmaRead { machine, bytes, purpose: ReadPurpose::Refetch });
    }

    /// Looks up the translation of an address, and reads it where it is missing.
    pub(crate) fn translate(&mut self, machine: u16, addr: u64) {
        let counted = self.window.contains(self.now);
        let m = &mut self.machines[usize::from(machine)];
        let Some(place) = m.memory.place(addr, 0) else { return };
        let page = m.memory.page(place);
        if !m.nic.translations.touch(page, counted) {
            self.refetch(machine, self.profile.caches.translation);
        }
    }

    /// Starts a DMA write of part of a payload, whose buffer then belongs to the write.
    pub(crate) fn write_data(
        &mut self,
        machine: u16,
        addr: u64,
        payload: Payload,
        payload_offset: u32,
        len: u32,
    ) {
        self.translate(machine, addr);
        let pcie = &mut self.machines[usize::from(machine)].pcie;
        let (first, last) = pcie.write(self.now, addr % LINE, u64::from(len), self.window);
        let lines = crate::host::memory::lines_touched(addr % LINE, u64::from(len)).max(1);
        let per_line = if lines == 1 { 0 } else { (last - first) / (lines - 1) };
        let written = Written::Data { addr, payload, payload_offset, len, done: 0 };
        let index = self.writes.insert(DmaWrite { machine, written, per_line });
        self.queue.push(if lines == 1 { last } else { first }, Event::Visible { machine, write: index });
    }

    /// Starts a DMA write of a word; returns when it has left the NIC.
    pub(crate) fn write_word(&mut self, machine: u16, addr: u64, value: u64) -> u64 {
        let pcie = &mut self.machines[usize::from(machine)].pcie;
        let (_, last) = pcie.write(self.now, addr % LINE, 8, self.window);
        let left = pcie.to_host.free_at();
        let index =
            self.writes.insert(DmaWrite { machine, written: Written::Word { addr, value }, per_line: 0 });
        self.queue.push(last, Event::Visible { machine, write: index });
        left
    }

    /// Starts the DMA write of a completion.
    pub(crate) fn write_cqe(&mut self, machine: u16, cq: u32, cqe: Cqe) {
        let bytes = u64::from(self.profile.nic.cqe);
        let pcie = &mut self.machines[usize::from(machine)].pcie;
        let (_, last) = pcie.write(self.now, 0, bytes, self.window);
        let index = self.writes.insert(DmaWrite { machine, written: Written::Cqe { cq, cqe }, per_line: 0 });
        self.queue.push(last, Event::Visible { machine, write: index });
    }

    /// A DMA write, or the next line of it, becomes visible.
    pub(crate) fn visible(&mut self, index: u32) {
        let DmaWrite { machine, written, per_line } = self.writes[index];
        match written {
            Written::Data { addr, payload, payload_offset, len, done } => {
                let at = addr + u64::from(done);
                let part = (LINE - at % LINE).min(u64::from(len - done)) as u32;
                self.store_from_nic(machine, at, part, |pool, to| {
                    let from = (payload_offset + done) as usize;
                    to.copy_from_slice(&pool.bytes(payload)[from..][..part as usize]);
                });
                if done + part < len {
                    self.writes[index].written =
                        Written::Data { addr, payload, payload_offset, len, done: done + part };
                    self.queue.push(self.now + per_line, Event::Visible { machine, write: index });
                    return;
                }
                self.payloads.give(payload);
            }
            Written::Word { addr, value } => {
                self.store_from_nic(machine, addr, 8, |_, to| to.copy_from_slice(&value.to_le_bytes()));
            }
            Written::Cqe { cq, cqe } => self.cqe_visible(machine, cq, cqe),
        }
        self.writes.free(index);
    }

    fn store_from_nic(
        &mut self,
        machine: u16,
        addr: u64,
        len: u32,
        fill: impl FnOnce(&crate::core::slab::PayloadPool, &mut [u8]),
    ) {
        let memory = &mut self.machines[usize::from(machine)].memory;
        let Some(place) = memory.place(addr, u64::from(len)) else { return };
        fill(&self.payloads, memory.bytes_mut(place, u64::from(len)));
        memory.nic_writes(place);
        let watchers = memory.take_watchers(place);
        if watchers != 0 {
            self.wake(machine, watchers);
        }
    }

    fn cqe_visible(&mut self, machine: u16, cq: u32, cqe: Cqe) {
        let Some(slot) = &mut self.machines[usize::from(machine)].nic.cqs[cq as usize] else { return };
        if slot.entries.len() == slot.capacity {
            slot.overrun = true;
        } else {
            slot.entries.push_back(cqe);
        }
        let watchers = std::mem::take(&mut slot.watchers);
        if watchers != 0 {
            self.wake(machine, watchers);
        }
    }
}
