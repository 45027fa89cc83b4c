//! Everything that is simulated, and the processing of events.

use crate::SimConfig;
use crate::core::queue::{Event, EventQueue, Key, Packed};
use crate::core::server::{Link, Window};
use crate::core::slab::{PayloadPool, Slab};
use crate::core::thread::{Thread, Waiting};
use crate::device::pcie::PcieLink;
use crate::device::{DmaRead, DmaWrite, Flight, NONE, NicState};
use crate::fabric::loss::Loss;
use crate::host::memory::Memory;
use doorbell_nic::Profile;
use doorbell_transport::Action;
use std::collections::HashMap;

/// A machine: memory, the threads on its cores, PCIe, NIC.
pub(crate) struct Machine {
    pub(crate) memory: Memory,
    /// Thread on each core, or [`NONE`].
    pub(crate) on_core: Vec<u32>,
    pub(crate) pcie: PcieLink,
    pub(crate) nic: NicState,
}

/// Times that the inner loop uses, in picoseconds.
pub(crate) struct Times {
    pub(crate) one_way: u64,
    pub(crate) context_stall: u64,
    pub(crate) lock_hold: u64,
    /// How far ahead a port takes packets to send: the time of one of the MTU.
    pub(crate) port_ahead: u64,
    pub(crate) wqe_stall: u64,
}

/// The simulated world.
pub(crate) struct World {
    pub(crate) profile: Profile,
    pub(crate) times: Times,
    pub(crate) window: Window,
    pub(crate) end: u64,
    pub(crate) skip_pauses: bool,
    pub(crate) now: u64,
    pub(crate) queue: EventQueue,
    pub(crate) machines: Vec<Machine>,
    pub(crate) threads: Vec<Thread>,
    pub(crate) flights: Slab<Flight>,
    pub(crate) reads: Slab<DmaRead>,
    pub(crate) writes: Slab<DmaWrite>,
    pub(crate) payloads: PayloadPool,
    /// The out-of-band exchange: values by key, and the threads that wait for a key.
    pub(crate) published: HashMap<String, Vec<u8>>,
    pub(crate) awaited: HashMap<String, Vec<u32>>,
    /// Reused for what a QP asks for.
    pub(crate) action_pool: Vec<Vec<Action>>,
    pub(crate) events: u64,
    pub(crate) event_hash: u64,
    pub(crate) verbs: u64,
    pub(crate) dropped: u64,
    pub(crate) loss: Loss,
    /// Who causes what is happening: for the order of what happens at the same time.
    pub(crate) cause: Key,
}

/// What the processing of events ran into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It is this thread's turn.
    Thread(u32),
    /// Nothing is left to happen.
    Nothing,
    /// The end of the run is reached.
    End,
}

impl World {
    pub(crate) fn new(profile: &Profile, config: &SimConfig) -> World {
        let machine = || Machine {
            memory: Memory::default(),
            on_core: vec![NONE; profile.host.cores as usize],
            pcie: PcieLink::new(profile),
            nic: NicState::new(profile),
        };
        let from = config.window.0.as_ps();
        World {
            times: Times {
                one_way: profile.link.one_way.as_ps(),
                wqe_stall: profile.caches.wqe_stall.as_ps(),
                context_stall: (profile.caches.context_stall + profile.pcie.read_latency).as_ps(),
                lock_hold: profile.atomics.hold.as_ps(),
                port_ahead: Link::new(profile.link.port_bytes_per_s).duration(u64::from(profile.link.mtu)),
            },
            window: Window { from, to: from.saturating_add(config.window.1.as_ps()) },
            end: config.end.as_ps(),
            skip_pauses: config.skip_pauses,
            now: 0,
            queue: EventQueue::new(),
            machines: (0..config.machines).map(|_| machine()).collect(),
            threads: Vec::new(),
            flights: Slab::new(),
            reads: Slab::new(),
            writes: Slab::new(),
            payloads: PayloadPool::new(),
            published: HashMap::new(),
            awaited: HashMap::new(),
            action_pool: Vec::new(),
            events: 0,
            event_hash: 0,
            verbs: 0,
            dropped: 0,
            loss: Loss::new(config.loss_ppm, config.seed),
            cause: Key::NEVER,
            profile: profile.clone(),
        }
    }

    /// Processes events up to the next turn of a thread.
    pub(crate) fn run_to_thread(&mut self) -> Next {
        self.run(Key::NEVER);
        let key = self.queue.next_key();
        if key.time > self.end && key != Key::NEVER {
            return Next::End;
        }
        match self.queue.pop().and_then(Packed::thread) {
            Some(thread) => {
                self.now = self.now.max(key.time);
                self.cause = key;
                Next::Thread(thread)
            }
            None => Next::Nothing,
        }
    }

    /// Processes all events before `key`; false where a thread's turn is among them.
    #[inline]
    pub(crate) fn run_before(&mut self, key: Key) -> bool {
        if self.queue.next_key() < key {
            self.run(key);
            if self.queue.next_key() < key {
                return false;
            }
        }
        self.now = self.now.max(key.time);
        self.cause = key;
        true
    }

    /// Processes events before `key` up to a thread's turn or the end of the run.
    fn run(&mut self, key: Key) {
        loop {
            let next = self.queue.next_key();
            if next >= key || next.is_thread() || next.time > self.end {
                return;
            }
            let Some(event) = self.queue.pop() else { return };
            self.now = next.time;
            self.cause = next;
            self.note(next);
            self.process(event);
        }
    }

    /// Counts an event and takes it up in the hash: when it happens, what it is and whom it concerns.
    #[inline]
    fn note(&mut self, event: Key) {
        self.events += 1;
        let mixed = (self.event_hash ^ event.order).rotate_left(29).wrapping_add(event.time);
        self.event_hash = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    /// Lets happen what `cause` is the key of.
    #[inline]
    fn process(&mut self, event: Packed) {
        match event.event() {
            Event::Thread(_) => {}
            Event::Mmio { machine, count, qp, by_mmio } => self.mmio_arrived(machine, qp, count, by_mmio),
            Event::RecvDoorbell { machine, count, recv_queue } => {
                self.recv_doorbell_arrived(machine, recv_queue, count)
            }
            Event::ReadAtHost { read, .. } => self.read_at_host(read),
            Event::ReadDone { read, .. } => self.read_done(read),
            Event::TxPu { machine, unit } => self.tx_unit(machine, usize::from(unit)),
            Event::PortOut { machine, port } => self.drain_port(machine, port),
            Event::Arrive { flight, .. } => self.arrived(flight),
            Event::Ingress { flight, .. } => self.receive_queue(flight),
            Event::RxDone { flight, .. } => self.received(flight),
            Event::Visible { write, .. } => self.visible(write),
            Event::Timer { machine, qp } => self.timer(machine, qp),
            Event::Unlock { machine, slot } => self.unlock(machine, slot),
        }
    }

    /// Schedules the turn of a thread.
    pub(crate) fn schedule(&mut self, thread: u32, time: u64) {
        self.threads[thread as usize].turn_at = time;
        self.queue.push_thread(time, thread);
    }

    /// Makes sure that a thread that pauses has a turn at its deadline.
    pub(crate) fn schedule_deadline(&mut self, thread: u32, deadline: u64) {
        let t = &mut self.threads[thread as usize];
        if deadline < t.deadline_at {
            t.deadline_at = deadline;
            self.queue.push_thread(deadline, thread);
        }
    }

    /// Whether a turn that came is one the thread waits for; it then goes on.
    pub(crate) fn takes_turn(&mut self, thread: u32) -> bool {
        let (cause, window) = (self.cause, self.window);
        let t = &mut self.threads[thread as usize];
        if t.deadline_at == cause.time {
            t.deadline_at = u64::MAX;
        }
        if t.turn_at != cause.time {
            let Waiting::Pause { deadline, waking: false, .. } = t.waiting else { return false };
            if deadline > cause.time {
                self.schedule_deadline(thread, deadline);
                return false;
            }
            // Nothing else has ended the pause.
            t.resume_pass(cause);
        }
        t.turn_at = u64::MAX;
        if let Waiting::Pause { since, .. } = t.waiting {
            t.idle += window.overlap(since, t.clock);
        }
        t.waiting = Waiting::Turn;
        true
    }

    /// Wakes the threads on `cores` of a machine that sleep in their passes.
    pub(crate) fn wake(&mut self, machine: u16, mut cores: u32) {
        while cores != 0 {
            let core = cores.trailing_zeros();
            cores &= cores - 1;
            let thread = self.machines[machine as usize].on_core[core as usize];
            if thread == NONE {
                continue;
            }
            let at = self.cause;
            if let Some(turn) = self.threads[thread as usize].resume_pass(at) {
                self.schedule(thread, turn.max(self.now));
            }
        }
    }

    /// What every thread waits for, where none can go on.
    pub(crate) fn describe_waiting(&self) -> String {
        let waits: Vec<String> = self
            .threads
            .iter()
            .filter_map(|t| {
                let who = format!("the thread on core {} of machine {}", t.core, t.machine);
                match &t.waiting {
                    Waiting::Ended => None,
                    Waiting::Key(key) => Some(format!("{who} waits for the key {key:?}")),
                    Waiting::Pause { .. } => Some(format!("{who} waits for {}", self.looked_at(t))),
                    Waiting::Turn => Some(format!("{who} waits for its turn")),
                }
            })
            .collect();
        waits.join("; ")
    }

    fn looked_at(&self, thread: &Thread) -> String {
        use crate::core::thread::Look;
        let mut parts: Vec<String> = Vec::new();
        for step in thread.last_steps() {
            let part = match step.look {
                Look::Poll { cq } => format!("a completion in CQ {cq}"),
                Look::Load { place, .. } | Look::Read { place, .. } => {
                    format!("a change of byte {} of allocation {}", place.offset, place.allocation)
                }
                Look::Work => continue,
            };
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
        let more = parts.len().saturating_sub(4);
        parts.truncate(4);
        let mut text = parts.join(" or ");
        if more > 0 {
            text.push_str(&format!(" or {more} more"));
        }
        if text.is_empty() { "nothing at all".into() } else { text }
    }
}
