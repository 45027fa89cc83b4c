//! A thread's processor: time, and its loads, stores and atomics.

use super::SimProvider;
use crate::core::thread::{Look, Waiting};
use crate::host::memory::{LINE, Place, Reach, lines_touched};
use crate::world::World;
use doorbell_verbs::{Cpu, Mem, PageSize, Span, Time, VerbsError};

impl SimProvider<'_> {
    fn locate(&self, w: &World, mem: Mem, offset: u64, len: u64) -> Place {
        let start = mem.locate(offset, len);
        assert!(
            w.machines[usize::from(self.machine)].memory.owns(mem),
            "access to memory that machine {} does not have",
            self.machine
        );
        Place { allocation: mem.allocation(), offset: start }
    }

    /// Cost of reaching the line at `place`, waiting for a transfer that is under way.
    fn reach(&self, w: &mut World, place: Place, store: bool) -> u64 {
        let clock = w.threads[self.thread as usize].clock;
        let host = &w.profile.host;
        let (l1, llc, dma, other, dram) = (
            host.l1_hit.as_ps(),
            host.llc_hit.as_ps(),
            host.dma_line.as_ps(),
            host.line_transfer.as_ps(),
            host.dram.as_ps(),
        );
        let overlaps = !w.threads[self.thread as usize].serialized;
        let memory = &mut w.machines[usize::from(self.machine)].memory;
        let (reach, busy_until) =
            if store { memory.store(place, self.core) } else { memory.load(place, self.core) };
        let wait = busy_until.saturating_sub(clock);
        let cost = match reach {
            Reach::Own => return wait + l1,
            Reach::LastLevel if store => llc,
            Reach::LastLevel if overlaps => dma,
            Reach::LastLevel => llc.max(dma),
            Reach::OtherCore => other,
            Reach::Dram => dram,
        };
        memory.set_busy(place, clock + wait + cost);
        w.threads[self.thread as usize].serialized = false;
        wait + cost
    }

    /// A load that a pass may be skipped with.
    fn load(&self, mem: Mem, offset: u64, len: u64) -> u64 {
        assert!(offset.is_multiple_of(len), "a word must be naturally aligned");
        {
            let mut w = self.world.borrow_mut();
            let place = self.locate(&w, mem, offset, len);
            let same = |look: &Look| matches!(look, Look::Load { place: p, .. } if *p == place);
            let t = self.thread;
            if let Some(Look::Load { value, .. }) = w.threads[t as usize].replayed(t, same) {
                return value;
            }
        }
        self.sync();
        let mut w = self.world.borrow_mut();
        let place = self.locate(&w, mem, offset, len);
        let cost = self.reach(&mut w, place, false);
        let mut bytes = [0; 8];
        bytes[..len as usize].copy_from_slice(w.machines[usize::from(self.machine)].memory.bytes(place, len));
        let value = u64::from_le_bytes(bytes);
        let thread = &mut w.threads[self.thread as usize];
        thread.clock += cost;
        thread.note(Look::Load { place, value }, cost);
        value
    }

    /// Stores within one line.
    fn store(&self, mem: Mem, offset: u64, bytes: &[u8]) {
        self.effect();
        let mut w = self.world.borrow_mut();
        let place = self.locate(&w, mem, offset, bytes.len() as u64);
        let cost = self.reach(&mut w, place, true);
        self.change(&mut w, place, |to| to.copy_from_slice(bytes), bytes.len() as u64);
        w.threads[self.thread as usize].clock += cost;
    }

    /// Changes memory and wakes who waits for it.
    fn change(&self, w: &mut World, place: Place, change: impl FnOnce(&mut [u8]), len: u64) {
        let memory = &mut w.machines[usize::from(self.machine)].memory;
        change(memory.bytes_mut(place, len));
        let watchers = memory.take_watchers(place) & !(1 << self.core);
        if watchers != 0 {
            w.wake(self.machine, watchers);
        }
    }

    fn read_modify_write(&self, mem: Mem, offset: u64, op: impl FnOnce(u64) -> u64) -> u64 {
        assert!(offset.is_multiple_of(8), "a word must be naturally aligned");
        self.effect();
        let mut w = self.world.borrow_mut();
        let place = self.locate(&w, mem, offset, 8);
        let atomic = w.profile.host.atomic_op.as_ps();
        let cost = self.reach(&mut w, place, true) + atomic;
        let thread = &mut w.threads[self.thread as usize];
        thread.serialized = true;
        let clock = thread.clock;
        let memory = &mut w.machines[usize::from(self.machine)].memory;
        memory.set_busy(place, clock + cost);
        let original = memory.load_u64(place);
        let new = op(original);
        self.change(&mut w, place, |to| to.copy_from_slice(&new.to_le_bytes()), 8);
        w.threads[self.thread as usize].clock += cost;
        original
    }

    /// Whether everything the last pass looked at is still as it was, and at hand.
    fn unchanged(&self, w: &World) -> bool {
        let thread = &w.threads[self.thread as usize];
        let machine = &w.machines[usize::from(self.machine)];
        thread.last_steps().iter().all(|step| match step.look {
            Look::Work => true,
            Look::Poll { cq } => {
                machine.nic.cqs[cq as usize].as_ref().is_some_and(|c| c.entries.is_empty() && !c.overrun)
            }
            Look::Load { place, .. } => machine.memory.holds(place, self.core),
            Look::Read { place, len } => {
                lines_of(place, u64::from(len)).all(|line| machine.memory.holds(line, self.core))
            }
        })
    }

    /// Asks to be woken when something changes that the last pass looked at.
    fn watch(&self, w: &mut World) {
        let World { threads, machines, .. } = w;
        let machine = &mut machines[usize::from(self.machine)];
        for step in threads[self.thread as usize].last_steps() {
            match step.look {
                Look::Work => {}
                Look::Poll { cq } => {
                    if let Some(cq) = &mut machine.nic.cqs[cq as usize] {
                        cq.watchers |= 1 << self.core;
                    }
                }
                Look::Load { place, .. } => machine.memory.watch(place, self.core),
                Look::Read { place, len } => {
                    let mut at = place.offset;
                    while at < place.offset + u64::from(len) {
                        machine.memory.watch(Place { offset: at, ..place }, self.core);
                        at = (at / LINE + 1) * LINE;
                    }
                }
            }
        }
    }
}

/// The places where the lines of a range begin within it.
fn lines_of(place: Place, len: u64) -> impl Iterator<Item = Place> {
    (0..lines_touched(place.offset, len)).map(move |i| {
        let offset = if i == 0 { place.offset } else { (place.offset / LINE + i) * LINE };
        Place { offset, ..place }
    })
}

impl Cpu for SimProvider<'_> {
    fn now(&self) -> Time {
        Time::from_ps(self.world.borrow().threads[self.thread as usize].clock)
    }

    fn work(&self, span: Span) {
        let mut w = self.world.borrow_mut();
        let t = self.thread;
        let thread = &mut w.threads[t as usize];
        if thread.replayed(t, |look| *look == Look::Work).is_none() {
            thread.clock += span.as_ps();
            thread.note(Look::Work, span.as_ps());
        }
    }

    fn pause(&self, deadline: Time) {
        {
            let mut w = self.world.borrow_mut();
            let l1 = w.profile.host.l1_hit.as_ps().max(1);
            let (skip, window) = (w.skip_pauses, w.window);
            let thread = &mut w.threads[self.thread as usize];
            thread.clock += l1;
            thread.serialized = true;
            thread.note(Look::Work, l1);
            let steady = thread.end_pass();
            let (started, since) = (thread.last_pass_started(), thread.clock);
            thread.idle += window.overlap(started, since);
            let deadline = deadline.as_ps();
            if !skip || !steady || since >= deadline || !self.unchanged(&w) {
                return;
            }
            // What changes before the clock comes to `since` wakes the thread at once.
            self.watch(&mut w);
            w.threads[self.thread as usize].waiting =
                Waiting::Pause { since, pass: since - started, deadline, waking: false };
            w.schedule_deadline(self.thread, deadline);
        }
        self.yielder.suspend(());
    }

    fn alloc(&self, len: u64, page: PageSize) -> Result<Mem, VerbsError> {
        let mut w = self.world.borrow_mut();
        w.machines[usize::from(self.machine)].memory.alloc(len, page)
    }

    fn load_u8(&self, mem: Mem, offset: u64) -> u8 {
        self.load(mem, offset, 1) as u8
    }

    fn load_u32(&self, mem: Mem, offset: u64) -> u32 {
        self.load(mem, offset, 4) as u32
    }

    fn load_u64(&self, mem: Mem, offset: u64) -> u64 {
        self.load(mem, offset, 8)
    }

    fn store_u8(&self, mem: Mem, offset: u64, value: u8) {
        self.store(mem, offset, &[value]);
    }

    fn store_u32(&self, mem: Mem, offset: u64, value: u32) {
        assert!(offset.is_multiple_of(4), "a word must be naturally aligned");
        self.store(mem, offset, &value.to_le_bytes());
    }

    fn store_u64(&self, mem: Mem, offset: u64, value: u64) {
        assert!(offset.is_multiple_of(8), "a word must be naturally aligned");
        self.store(mem, offset, &value.to_le_bytes());
    }

    fn read(&self, mem: Mem, offset: u64, into: &mut [u8]) {
        let len = into.len() as u64;
        {
            let mut w = self.world.borrow_mut();
            let place = self.locate(&w, mem, offset, len);
            let t = self.thread;
            let look = Look::Read { place, len: len as u32 };
            let thread = &mut w.threads[t as usize];
            if thread.replayed(t, |l| *l == look).is_some() {
                into.copy_from_slice(thread.replayed_bytes(into.len()));
                return;
            }
        }
        self.sync();
        let mut w = self.world.borrow_mut();
        let place = self.locate(&w, mem, offset, len);
        let copy_line = w.profile.host.copy_line.as_ps();
        let mut cost = 0;
        for (i, line) in lines_of(place, len).enumerate() {
            // The hardware prefetcher fetches the lines after the first while they are copied.
            let reach = self.reach(&mut w, line, false);
            cost += if i == 0 { reach } else { copy_line };
        }
        into.copy_from_slice(w.machines[usize::from(self.machine)].memory.bytes(place, len));
        let thread = &mut w.threads[self.thread as usize];
        thread.clock += cost;
        thread.note(Look::Read { place, len: len as u32 }, cost);
        thread.note_bytes(into);
    }

    fn write(&self, mem: Mem, offset: u64, from: &[u8]) {
        // Line by line, so that the NIC can see it half done.
        let mut done = 0;
        while done < from.len() {
            let at = mem.start() + offset + done as u64;
            let part = ((LINE - at % LINE) as usize).min(from.len() - done);
            self.store(mem, offset + done as u64, &from[done..done + part]);
            done += part;
        }
    }

    fn copy(&self, to: Mem, to_offset: u64, from: Mem, from_offset: u64, len: u64) {
        let mut line = [0; LINE as usize];
        let mut done = 0;
        while done < len {
            let at = to.start() + to_offset + done;
            let part = (LINE - at % LINE).min(len - done);
            let bytes = &mut line[..part as usize];
            self.read(from, from_offset + done, bytes);
            self.store(to, to_offset + done, bytes);
            done += part;
        }
    }

    fn prefetch(&self, mem: Mem, offset: u64, len: u64) {
        self.effect();
        let mut w = self.world.borrow_mut();
        let place = self.locate(&w, mem, offset, len);
        let l1 = w.profile.host.l1_hit.as_ps();
        for line in lines_of(place, len) {
            // The line is on its way; a load finds it busy until it is there.
            self.reach(&mut w, line, false);
            w.threads[self.thread as usize].clock += l1;
        }
    }

    fn fetch_add_u64(&self, mem: Mem, offset: u64, add: u64) -> u64 {
        self.read_modify_write(mem, offset, |v| v.wrapping_add(add))
    }

    fn compare_swap_u64(&self, mem: Mem, offset: u64, expected: u64, new: u64) -> u64 {
        self.read_modify_write(mem, offset, |v| if v == expected { new } else { v })
    }
}
