//! Processing of events: calls the handler of the device that an event is for.

use super::state::{CROWD, World};
use super::thread::Thread;
use crate::core::index::{DeviceId, FlightId, MachineId, PortId, SocketId, ThreadId};
use crate::core::ps::Ps;
use crate::core::queue::{EventKey, Packed, SimEvent, TcpStep};
use crate::device::{Attached, SimDevice};
use crate::env::Env;
use crate::host::Host;
use crate::kernel::Kernel;
use crate::see::Tracer;

/// The reason why the processing of events stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// This thread's turn has come.
    Thread(ThreadId),
    /// No event is left.
    Nothing,
    /// The end of the run is reached.
    End,
}

impl World {
    /// Processes events up to the next turn of a thread.
    pub(crate) fn run_to_thread(&mut self) -> Next {
        self.run(EventKey::NEVER);
        let key = self.env.queue.next_key();
        if key.time > self.end && key != EventKey::NEVER {
            self.env.now = self.env.now.max(self.end);
            return Next::End;
        }
        match self.env.queue.pop() {
            Some(event) => {
                let thread = event.thread().expect("an event that is left after all other events is a turn");
                self.env.now = self.env.now.max(key.time);
                self.cause = key;
                Next::Thread(thread)
            }
            None => Next::Nothing,
        }
    }

    /// Processes all events before `key`, the key of the running thread. Returns false if a thread's turn
    /// comes before `key`, or if an interrupt delays the running thread.
    #[inline]
    pub(crate) fn run_before(&mut self, key: EventKey) -> bool {
        if self.env.queue.next_key() < key {
            self.run(key);
            if std::mem::take(&mut self.interrupted) || self.env.queue.next_key() < key {
                return false;
            }
        }
        self.env.now = self.env.now.max(key.time);
        self.cause = key;
        true
    }

    /// Processes events before `key`, up to a thread's turn or the end of the run.
    fn run(&mut self, key: EventKey) {
        let key = key.min(self.past_end);
        loop {
            let next = self.env.queue.next_key();
            if next >= key || next.is_turn() {
                return;
            }
            let event = self.env.queue.pop().expect("the queue holds the event of its next key");
            self.env.now = next.time;
            self.cause = next;
            self.env.totals.note(next);
            if self.env.queue.is_crowd(self.attend_from) {
                self.attend(event);
            }
            self.process(event);
        }
    }

    /// Does the extra work for an event: tracing and prefetching.
    #[inline(never)]
    fn attend(&mut self, event: Packed) {
        if self.tracer.is_some() {
            self.trace(event);
        }
        if self.env.queue.is_crowd(CROWD) {
            self.fetch_ahead();
        }
    }

    /// Shows the effects of the last event to the tracer, and the next event.
    #[cold]
    fn trace(&mut self, event: Packed) {
        let World { tracer: Some(tracer), env, hosts, devices, threads, .. } = self else { return };
        if let SimEvent::MmioOut { device, thread } = event.event() {
            let Thread { machine, core, .. } = threads[thread];
            let mmio = hosts[machine].cores[core]
                .mmio
                .front()
                .expect("an MMIO write that leaves a core is in the core's queue");
            return tracer.mmio((machine, core), &devices[device], mmio);
        }
        if !tracer.event(env, devices, event.event()) {
            self.end_trace();
        }
    }

    /// Attaches a tracer, which sees events from now on.
    pub(crate) fn begin_trace(&mut self, tracer: Tracer) {
        self.tracer = Some(Box::new(tracer));
        self.attend_from = 0;
    }

    /// Ends the trace, if one is running.
    pub(crate) fn end_trace(&mut self) {
        self.attend_from = CROWD;
        if let Some(tracer) = self.tracer.take() {
            self.traced = Some(tracer.close(&self.env, &self.devices));
        }
    }

    /// Calls the handler of an event, whose key is `cause`.
    #[inline(always)]
    fn process(&mut self, event: Packed) {
        let World { env, hosts, devices, threads, .. } = self;
        match event.event() {
            SimEvent::Thread(_) => {}
            SimEvent::Visible { device } => self.lines_visible(device),
            SimEvent::Completion { device, cq } => {
                let device = &mut devices[device];
                let machine = device.machine;
                let woken = device.completion_visible(&mut hosts[machine], env.now, cq);
                self.wake(machine, woken);
                self.wake_others(machine);
            }
            SimEvent::ReadAtHost { device, read } => {
                let device = &mut devices[device];
                let machine = device.machine;
                device.read_at_host(&mut hosts[machine], env, read);
                self.wake_others(machine);
            }
            SimEvent::ReadFetched { device, read } => devices[device].read_fetched(env, read),
            SimEvent::ReadDone { device, read } => {
                let device = &mut devices[device];
                device.read_done(&mut hosts[device.machine], env, read);
            }
            SimEvent::Mmio { device, count, qp, by_mmio, life } => {
                devices[device].mmio_arrived(env, (qp, life), count, by_mmio)
            }
            SimEvent::RecvDoorbell { device, count, recv_queue } => {
                devices[device].recv_doorbell_arrived(env, recv_queue, count);
            }
            SimEvent::Arrive { device, flight, .. } => {
                devices[device].arrived(env, flight);
                self.give_room();
            }
            SimEvent::Ingress { device, flight, .. } => {
                devices[device].came_in(env, flight);
                self.give_room();
            }
            SimEvent::RxDone { device, unit, flight } => {
                let device = &mut devices[device];
                device.received(&mut hosts[device.machine], env, unit, flight);
                self.give_room();
            }
            SimEvent::Unlock { device, lock } => {
                let device = &mut devices[device];
                device.unlock(&hosts[device.machine], env, lock);
                self.give_room();
            }
            SimEvent::OwnRead { device, flight } => {
                let device = &mut devices[device];
                device.own_read(&hosts[device.machine], env, flight);
            }
            SimEvent::TxPu { device, unit, flight } => {
                let device = &mut devices[device];
                device.tx_done(&hosts[device.machine], env, unit, flight);
            }
            SimEvent::TxOn { device, unit, qp } => devices[device].tx_goes_on(env, unit, qp),
            SimEvent::PortOut { device, port } => {
                let device = &mut devices[device];
                device.drain_port(env, device.port(port), false);
            }
            SimEvent::Timer { device, qp } => devices[device].timer(env, qp),
            SimEvent::MmioOut { device, thread } => {
                let Thread { machine, core, .. } = threads[thread];
                devices[device].mmio_out(env, &mut hosts[machine].cores[core]);
            }
            SimEvent::Tcp { device, step, number } => self.process_tcp(device, step, number),
        }
    }

    /// Calls the handler of a step of kernel TCP.
    #[inline(never)]
    fn process_tcp(&mut self, id: DeviceId, step: TcpStep, number: u32) {
        let World { env, hosts, devices, .. } = self;
        let device = &mut devices[id];
        match step {
            TcpStep::SegmentDoorbell => device.segment_doorbell(env),
            TcpStep::SegmentPosted => device.segment_posted(env),
            TcpStep::FrameOut => device.frame_out(env, FlightId(number)),
            TcpStep::FrameIn => {
                device.frame_in(&mut hosts[device.machine], env, FlightId(number));
                self.give_room();
            }
            TcpStep::FrameVisible => self.in_kernel(id, |kernel, host, device, env| {
                let frame = device.frame_visible(host, env);
                kernel.frame_visible(device, env, frame);
                Ps::ZERO
            }),
            TcpStep::Interrupt => {
                self.in_kernel(id, |kernel, _, device, env| kernel.interrupted(device, env))
            }
            TcpStep::DriverPoll => self.in_kernel(id, Kernel::poll),
            TcpStep::DelayedAck => self.in_kernel(id, |kernel, host, device, env| {
                kernel.delayed_ack(host, device, env, SocketId(number))
            }),
        }
    }

    /// Runs `run` in the kernel of a device's machine, on the core that takes interrupts. `run` returns the
    /// time that it takes on this core.
    fn in_kernel(
        &mut self,
        device: DeviceId,
        run: impl FnOnce(&mut Kernel, &mut Host, &mut SimDevice, &mut Env) -> Ps,
    ) {
        let World { env, hosts, kernels, devices, .. } = self;
        let device = &mut devices[device];
        let machine = device.machine;
        let kernel = kernels[machine].as_mut().expect("only machines with TCP receive frames");
        let span = run(kernel, &mut hosts[machine], device, env);
        let core = kernel.core();
        if span > Ps::ZERO {
            self.interrupt(machine, core, span);
        }
        self.wake_others(machine);
        self.wake_sleepers(machine, self.env.now + span);
    }

    /// Wakes the threads of a machine whose sleep for a socket is over.
    pub(crate) fn wake_sleepers(&mut self, machine: MachineId, at: Ps) {
        while let Some(thread) = self.kernels[machine].as_mut().and_then(|kernel| kernel.woken.pop()) {
            self.wake_sleeper(thread, at);
        }
    }

    /// Handles lines of a device's DMA writes that have become visible.
    fn lines_visible(&mut self, device: DeviceId) {
        let SimDevice { machine, attached: Attached { local, .. }, .. } = self.devices[device];
        while let Some(line) = self.hosts[machine].next_line(local, self.env.now, &mut self.env.payloads) {
            if let Some(next) = line.next {
                self.env.queue.push(next, SimEvent::Visible { device });
            }
            self.wake(machine, line.woken);
            self.wake_others(machine);
        }
    }

    /// Sends packets of ports that wait for room at another port: one packet of each port, in turn.
    #[inline]
    fn give_room(&mut self) {
        if let Some(port) = self.env.fabric.take_made_room() {
            self.drain_waiting(port);
        }
    }

    #[inline(never)]
    fn drain_waiting(&mut self, port: PortId) {
        let World { env, devices, .. } = self;
        while let Some(from) = env.fabric.next_waiting(port, &env.flights) {
            devices[env.fabric.ports[from].device].drain_port(env, from, true);
        }
    }
}
