//! A thread's processor: time, and its loads, stores and atomics.

use super::SimProvider;
use crate::core::ps::Ps;
use crate::core::queue::SimEvent;
use crate::host::{Access, AccessKind, Agent, LINE, Lines, MemPlace, ScanSteps};
use crate::world::World;
use crate::world::{PassLook, Waiting};
use doorbell_verbs::{Cpu, Mem, OperationKey, OperationStep, PageSize, Scan, Span, Time, Touch, VerbsError};

impl SimProvider<'_> {
    pub(super) fn locate(&self, w: &World, mem: Mem, offset: u64, len: u64) -> MemPlace {
        let start = mem.locate(offset, len);
        assert!(
            w.hosts[self.machine].memory.owns(mem),
            "a core of machine {} accesses memory of another machine, or of a NIC",
            self.machine.0
        );
        MemPlace { allocation: mem.allocation(), offset: start }
    }

    /// Accesses lines at this thread's clock, and moves the clock to the end of the access. Returns the time
    /// taken.
    pub(super) fn access(&self, w: &mut World, lines: Lines, kind: AccessKind) -> (Ps, Access) {
        let World { env, hosts, threads, .. } = w;
        let host = &mut hosts[self.machine];
        host.settle(env.now, &mut env.payloads);
        let thread = &mut threads[self.thread];
        let access = host.access(thread.clock, Agent::Core(self.core), lines, kind);
        let cost = access.done - thread.clock;
        thread.clock = access.done;
        w.wake_others(self.machine);
        (cost, access)
    }

    /// Accesses a line in steps at this thread's clock, and moves the clock to the end of the access.
    pub(super) fn scan_line(&self, w: &mut World, line: MemPlace, steps: ScanSteps) -> Access {
        let World { env, hosts, threads, .. } = w;
        let host = &mut hosts[self.machine];
        host.settle(env.now, &mut env.payloads);
        let clock = &mut threads[self.thread].clock;
        let access = host.scan(*clock, self.core, line, steps);
        *clock = access.done;
        w.wake_others(self.machine);
        access
    }

    /// Loads a word. A pass with such loads may be skipped.
    fn load(&self, mem: Mem, offset: u64, len: u64) -> u64 {
        assert!(offset.is_multiple_of(len), "a word must be naturally aligned");
        let (place, replayed) = self.with(|w| {
            let place = self.locate(w, mem, offset, len);
            let same = |look: &PassLook| matches!(look, PassLook::Load { place: p, .. } if *p == place);
            let replayed = w.threads[self.thread].replayed(self.thread, same);
            if replayed.is_none() {
                w.hosts[self.machine].fetch(place);
            }
            (place, replayed)
        });
        if let Some(PassLook::Load { value, .. }) = replayed {
            return value;
        }
        self.sync();
        self.with(|w| {
            let (cost, _) = self.access(w, Lines::at(place), AccessKind::Load);
            let mut bytes = [0; 8];
            w.hosts[self.machine].read_bytes(place, &mut bytes[..len as usize]);
            let value = u64::from_le_bytes(bytes);
            w.threads[self.thread].note(PassLook::Load { place, value }, cost);
            value
        })
    }

    /// Stores within one line.
    fn store(&self, mem: Mem, offset: u64, bytes: &[u8]) {
        self.effect();
        self.with(|w| {
            let len = bytes.len() as u64;
            let place = self.locate(w, mem, offset, len);
            let (_, access) = self.access(w, Lines::at(place), AccessKind::Store);
            w.hosts[self.machine].change_bytes(place, len, |there| there.copy_from_slice(bytes));
            w.wake(self.machine, access.woken);
        });
    }

    fn read_modify_write(&self, mem: Mem, offset: u64, op: impl FnOnce(u64) -> u64) -> u64 {
        assert!(offset.is_multiple_of(8), "a word must be naturally aligned");
        self.effect();
        self.with(|w| {
            let place = self.locate(w, mem, offset, 8);
            let drained = w.hosts[self.machine].cores[self.core].drained;
            let clock = &mut w.threads[self.thread].clock;
            *clock = drained.max(*clock);
            let (_, access) = self.access(w, Lines::at(place), AccessKind::Atomic);
            let host = &mut w.hosts[self.machine];
            let mut word = [0; 8];
            host.read_bytes(place, &mut word);
            let original = u64::from_le_bytes(word);
            host.change_bytes(place, 8, |there| there.copy_from_slice(&op(original).to_le_bytes()));
            w.wake(self.machine, access.woken);
            original
        })
    }

    /// Whether everything that the last pass read is unchanged, and was and is in the core's own cache. Two
    /// passes that both had to fetch a line are alike, but the next pass finds the line in the cache.
    fn unchanged(&self, w: &mut World) -> bool {
        let World { env, threads, hosts, devices, .. } = w;
        let host = &mut hosts[self.machine];
        host.settle(env.now, &mut env.payloads);
        threads[self.thread].last_steps().iter().all(|step| match step.look {
            PassLook::Work => true,
            PassLook::Poll { device, cq } => {
                let device = &devices[device];
                !device.has_completion(env.now, cq) && host.spins_at_hand(device.next_cqe(cq), self.core)
            }
            PassLook::Load { place, .. } => step.cost == host.at_hand(1) && host.holds(place, self.core),
            PassLook::Read { place, len } => {
                let lines = Lines::of(place, u64::from(len));
                step.cost == host.at_hand(lines.count()) && lines.places().all(|l| host.holds(l, self.core))
            }
        })
    }

    /// Asks to be woken when something that the last pass read changes.
    fn watch(&self, w: &mut World) {
        let World { env, threads, hosts, devices, .. } = w;
        let host = &mut hosts[self.machine];
        for step in threads[self.thread].last_steps() {
            let lines = match step.look {
                PassLook::Work => continue,
                PassLook::Poll { device, cq } => {
                    let device = &mut devices[device];
                    device.watch_cq(host, &mut env.queue, cq, self.core);
                    if host.is_written_at_once() {
                        device.next_cqe(cq).places().for_each(|line| host.watch(line, self.core));
                    }
                    continue;
                }
                PassLook::Load { place, .. } => Lines::at(place),
                PassLook::Read { place, len } => Lines::of(place, u64::from(len)),
            };
            for (device, visible) in host.watch_lines() {
                env.queue.push(visible, SimEvent::Visible { device: host.device(device) });
            }
            lines.places().for_each(|line| host.watch(line, self.core));
        }
    }
}

/// Lines of a scan after which the run can be stopped.
const LONG_SCAN: u32 = 1024;

impl Cpu for SimProvider<'_> {
    #[inline]
    fn now(&self) -> Time {
        self.world.borrow().threads[self.thread].clock.time()
    }

    fn work(&self, span: Span) {
        let interruptible = self.with(|w| {
            let World { hosts, devices, threads, .. } = w;
            let thread = &mut threads[self.thread];
            if thread.replayed(self.thread, |look| *look == PassLook::Work).is_some() {
                return false;
            }
            let done = hosts[self.machine].compute(thread.clock, self.core, span.into());
            let took = done - thread.clock;
            thread.clock = done;
            thread.note(PassLook::Work, took);
            devices[self.first_device].ethernet.is_some()
        });
        // The work ends later if interrupts have come meanwhile.
        if interruptible {
            self.sync();
        }
    }

    fn pause(&self, deadline: Time) {
        let (sleeps, past_end) = self.with(|w| {
            let (skip, window) = (w.skip_pauses, w.env.window);
            let host = &mut w.hosts[self.machine];
            let empty = host.pause;
            host.serialize(self.core);
            let thread = &mut w.threads[self.thread];
            thread.clock = host.loaded(thread.clock, self.core) + empty;
            thread.note(PassLook::Work, empty);
            let steady = thread.end_pass();
            let (started, since) = (thread.last_pass_started(), thread.clock);
            thread.idle += window.overlap(started, since);
            let deadline = Ps::from(deadline);
            if !skip || !steady || since >= deadline || !self.unchanged(w) {
                // Without the check of `w.end`, a thread that only pauses would never stop.
                return (false, since > w.end);
            }
            // A change before the clock reaches `since` wakes the thread at once.
            self.watch(w);
            w.threads[self.thread].waiting =
                Waiting::Pause { since, pass: since - started, deadline, waking: false };
            w.schedule_deadline(self.thread, deadline);
            (true, false)
        });
        if sleeps {
            self.suspend();
        } else if past_end {
            self.sync();
        }
    }

    fn mark(&self, key: OperationKey, step: OperationStep) {
        self.with(|w| {
            if let Some(tracer) = &mut w.tracer {
                tracer.marked((self.machine, self.core), w.threads[self.thread].clock, key, step);
            }
        });
    }

    fn alloc(&self, len: u64, page: PageSize) -> Result<Mem, VerbsError> {
        self.make_in_turn();
        self.with(|w| w.hosts[self.machine].alloc_near(self.core.0.into(), self.core, len, page))
    }

    fn alloc_near(&self, core: u32, len: u64, page: PageSize) -> Result<Mem, VerbsError> {
        self.make_in_turn();
        self.with(|w| w.hosts[self.machine].alloc_near(core, self.core, len, page))
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
        let (place, replayed) = self.with(|w| {
            let place = self.locate(w, mem, offset, len);
            let look = PassLook::Read { place, len: len as u32 };
            let thread = &mut w.threads[self.thread];
            let replayed = thread.replayed(self.thread, |l| *l == look).is_some();
            if replayed {
                into.copy_from_slice(thread.replayed_bytes(into.len()));
            } else {
                w.hosts[self.machine].fetch(place);
            }
            (place, replayed)
        });
        if replayed {
            return;
        }
        self.sync();
        self.with(|w| {
            let (cost, _) = self.access(w, Lines::of(place, len), AccessKind::Load);
            w.hosts[self.machine].read_bytes(place, into);
            let thread = &mut w.threads[self.thread];
            thread.note(PassLook::Read { place, len: len as u32 }, cost);
            thread.note_bytes(into);
        });
    }

    fn write(&self, mem: Mem, offset: u64, from: &[u8]) {
        // The write goes line by line, so that the NIC can see a partial write.
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
        let place = self.with(|w| {
            let place = self.locate(w, mem, offset, len);
            w.hosts[self.machine].fetch(place);
            place
        });
        self.effect();
        self.with(|w| {
            self.access(w, Lines::of(place, len), AccessKind::Prefetch);
        });
    }

    fn scan(&self, mem: Mem, offset: u64, len: u64, scan: Scan) {
        let (step, width) = (u64::from(scan.step), scan.width() as usize);
        assert!((mem.start() + offset).is_multiple_of(width as u64), "a word must be naturally aligned");
        let mut at = 0;
        for line in 1u32.. {
            if at >= len {
                break;
            }
            if line.is_multiple_of(LONG_SCAN) {
                self.let_look();
            }
            let in_line = LINE - (mem.start() + offset + at) % LINE;
            let part = in_line.min(len - at);
            self.effect();
            self.with(|w| {
                let place = self.locate(w, mem, offset + at, part);
                let accesses = part.div_ceil(step) as u32;
                let steps = ScanSteps { touch: scan.touch, accesses, instructions: scan.instructions };
                let access = self.scan_line(w, place, steps);
                if let Touch::Store(value) | Touch::StoreAround(value) = scan.touch {
                    w.hosts[self.machine].change_bytes(place, part, |bytes| {
                        for word in bytes.chunks_mut(scan.step as usize) {
                            let end = width.min(word.len());
                            word[..end].fill(value);
                        }
                    });
                }
                w.wake(self.machine, access.woken);
            });
            at += part;
        }
    }

    fn flush(&self, mem: Mem, offset: u64, len: u64) {
        self.effect();
        self.with(|w| {
            let place = self.locate(w, mem, offset, len);
            let (_, access) = self.access(w, Lines::of(place, len), AccessKind::Flush);
            w.wake(self.machine, access.woken);
        });
    }

    fn fetch_add_u64(&self, mem: Mem, offset: u64, add: u64) -> u64 {
        self.read_modify_write(mem, offset, |v| v.wrapping_add(add))
    }

    fn compare_swap_u64(&self, mem: Mem, offset: u64, expected: u64, new: u64) -> u64 {
        self.read_modify_write(mem, offset, |v| if v == expected { new } else { v })
    }
}
