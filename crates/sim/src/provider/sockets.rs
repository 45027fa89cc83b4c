//! Kernel TCP: system calls of a thread on sockets.
//!
//! A call takes effect after its time has passed and all events up to then have been processed. An interrupt
//! may delay the thread, and may do work that the thread was about to do.

use super::SimProvider;
use crate::core::index::{DeviceId, Id, MachineId, SocketId};
use crate::core::ps::Ps;
use crate::fabric::{SegmentControl, SegmentTo};
use crate::host::{ALLOCATED, AccessKind, LINE, Lines, MemPlace, ScanSteps};
use crate::kernel::{Kernel, KernelContext, SocketState, SocketWant, TcpSocket};
use crate::world::Waiting;
use crate::world::World;
use doorbell_verbs::{Mem, SocketError, SocketHandle, Sockets, Time, Touch};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Error numbers of Linux, see errno(3).
const EADDRINUSE: i32 = 98;
const EHOSTUNREACH: i32 = 113;

/// Message of a panic if the machine of a thread with sockets has no kernel.
const HAS_TCP: &str = "a machine with sockets has TCP";

/// Bytes of a word that a copy loads and stores.
const WORD: u64 = 8;

/// The IP address of a machine.
fn address(machine: MachineId) -> IpAddr {
    let [high, low] = machine.0.to_be_bytes();
    Ipv4Addr::new(10, high, low, 1).into()
}

/// The machine with this IP address.
fn machine_at(address: IpAddr) -> Option<MachineId> {
    match address {
        IpAddr::V4(v4) => match v4.octets() {
            [10, high, low, 1] => Some(MachineId(u16::from_be_bytes([high, low]))),
            _ => None,
        },
        IpAddr::V6(_) => None,
    }
}

fn invalid<T>(why: &str) -> Result<T, SocketError> {
    Err(SocketError::Invalid(why.into()))
}

impl SimProvider<'_> {
    /// Runs `run` in the kernel at this thread's clock, and moves the clock to the end of `run`.
    fn in_kernel<R>(&self, run: impl FnOnce(&mut Kernel, &mut KernelContext<'_>) -> R) -> R {
        self.with(|w| {
            let World { kernels, hosts, devices, env, threads, .. } = w;
            let clock = &mut threads[self.thread].clock;
            let (host, device) = (&mut hosts[self.machine], &mut devices[self.first_device]);
            let mut at = KernelContext { host, device, env, core: self.core, clock: *clock };
            let done = run(kernels[self.machine].as_mut().expect(HAS_TCP), &mut at);
            *clock = at.clock;
            w.wake_others(self.machine);
            done
        })
    }

    /// Runs `look` on a socket.
    fn on_socket<R>(&self, socket: SocketId, look: impl FnOnce(&mut TcpSocket) -> R) -> R {
        self.in_kernel(|kernel, _| look(&mut kernel.sockets[socket]))
    }

    /// Spends time of this thread's core.
    fn spend(&self, span: Ps) {
        self.with(|w| {
            let clock = &mut w.threads[self.thread].clock;
            *clock = w.hosts[self.machine].work(*clock, self.core, span);
        });
        self.sync();
    }

    /// Begins a system call on sockets.
    ///
    /// # Errors
    /// If the machine has no TCP.
    fn call(&self) -> Result<(), SocketError> {
        let cost = self.with(|w| w.kernels[self.machine].as_ref().map(|kernel| Ps(kernel.costs.call)));
        let Some(cost) = cost else {
            let why = "the machine has no TCP: its host's profile has no section [tcp] with the costs of TCP";
            return Err(SocketError::Unsupported(why.into()));
        };
        self.effect();
        self.spend(cost);
        Ok(())
    }

    /// Begins a system call on a socket of this thread.
    fn call_on(&self, handle: SocketHandle) -> Result<SocketId, SocketError> {
        self.call()?;
        let socket = self.in_kernel(|kernel, _| kernel.socket_of(self.thread, handle.0));
        socket.ok_or_else(|| SocketError::Invalid("there is no such socket".into()))
    }

    /// Sleeps until one of these sockets has the wanted event, or `deadline` comes.
    fn sleep(&self, sockets: impl Iterator<Item = SocketId> + Clone, want: SocketWant, deadline: Ps) {
        self.with(|w| {
            let kernel = w.kernels[self.machine].as_mut().expect(HAS_TCP);
            for socket in sockets.clone() {
                kernel.sockets[socket].sleeper = Some(want);
            }
            let thread = &mut w.threads[self.thread];
            thread.waiting = Waiting::Socket { since: thread.clock, deadline, interrupted: Ps::ZERO };
            if deadline < Ps::NEVER {
                w.schedule_deadline(self.thread, deadline);
            }
        });
        self.suspend();
        self.with(|w| {
            let kernel = w.kernels[self.machine].as_mut().expect(HAS_TCP);
            for socket in sockets {
                kernel.sockets[socket].sleeper = None;
            }
        });
    }

    /// Waits until a socket has the wanted event and `ready` returns a value.
    fn wait<R>(
        &self,
        socket: SocketId,
        want: SocketWant,
        mut ready: impl FnMut(&mut TcpSocket) -> Option<R>,
    ) -> R {
        loop {
            if let Some(done) = self.on_socket(socket, &mut ready) {
                return done;
            }
            self.spend(self.in_kernel(|kernel, _| Ps(kernel.costs.sleep)));
            if let Some(done) = self.on_socket(socket, &mut ready) {
                return done;
            }
            self.sleep(std::iter::once(socket), want, Ps::NEVER);
        }
    }

    /// Copies bytes as the kernel does, with prefetches of the lines that it loads.
    fn copy_in_kernel(&self, from: MemPlace, to: MemPlace, len: u64, touch: Touch) {
        let (ahead, instructions) = self.in_kernel(|kernel, _| kernel.copies());
        let mut done = 0;
        while done < len {
            let from = MemPlace { offset: from.offset + done, ..from };
            let to = MemPlace { offset: to.offset + done, ..to };
            let part = (LINE - from.offset % LINE).min(LINE - to.offset % LINE).min(len - done);
            self.sync();
            self.with(|w| {
                let begins = done == 0 || from.offset.is_multiple_of(LINE);
                if begins && ahead > 0 && done + ahead * LINE < len {
                    let place = MemPlace { offset: from.offset + ahead * LINE, ..from };
                    self.access(w, Lines::at(place), AccessKind::Prefetch);
                }
                let accesses = part.div_ceil(WORD) as u32;
                self.scan_line(w, from, ScanSteps { touch: Touch::Load, accesses, instructions: 1 });
                let rest = instructions.saturating_sub(1).max(1);
                let stored = self.scan_line(w, to, ScanSteps { touch, accesses, instructions: rest });
                let memory = &mut w.hosts[self.machine].memory;
                let mut line = [0; LINE as usize];
                let bytes = &mut line[..part as usize];
                memory.read(from, bytes);
                memory.write(to, bytes);
                w.wake(self.machine, stored.woken);
            });
            done += part;
        }
    }

    /// The place of a kernel address.
    fn place(&self, addr: u64, len: u64) -> MemPlace {
        self.with(|w| w.hosts[self.machine].memory.place(addr, len).expect(ALLOCATED))
    }

    /// Copies bytes of the program to the end of the socket's send buffer.
    fn copy_to_socket(&self, socket: SocketId, mem: Mem, offset: u64, len: u64) {
        let mut done = 0;
        while done < len {
            let (addr, until_end) = self.on_socket(socket, |s| s.out.at(s.out.written() + done));
            let part = until_end.min(len - done);
            let from = self.with(|w| self.locate(w, mem, offset + done, part));
            self.copy_in_kernel(from, self.place(addr, part), part, Touch::StoreAround(0));
            done += part;
        }
    }

    /// Sends all segments of a socket that may be sent.
    fn push(&self, socket: SocketId) {
        while let Some(cost) = self.in_kernel(|kernel, _| kernel.next_costs(socket)) {
            self.spend(cost);
            self.in_kernel(|kernel, at| kernel.send_next(at, socket));
        }
        self.sync();
    }

    /// Copies received data of a socket to the program, at most `len` bytes. Returns the number of bytes.
    fn copy_from_socket(&self, socket: SocketId, mem: Mem, offset: u64, len: u64) -> u64 {
        let mut taken = 0;
        while taken < len {
            let Some(held) = self.on_socket(socket, |s| s.into.held.front().copied()) else { break };
            let part = u64::from(held.len).min(len - taken);
            let to = self.with(|w| self.locate(w, mem, offset + taken, part));
            self.copy_in_kernel(self.place(held.addr, part), to, part, Touch::Store(0));
            self.in_kernel(|kernel, at| {
                if let Some(buffer) = kernel.sockets[socket].into.take(part as u32) {
                    at.device.ethernet().buffers.push(buffer);
                }
            });
            taken += part;
        }
        taken
    }

    /// Brings up and returns the device that a machine uses for TCP.
    ///
    /// # Errors
    /// If the machine cannot be reached.
    fn peer(&self, to: SocketAddr) -> Result<DeviceId, SocketError> {
        let unreachable = || SocketError::Errno { what: "connect", errno: EHOSTUNREACH };
        let machine = machine_at(to.ip()).ok_or_else(unreachable)?;
        if machine == self.machine {
            let why = "a machine cannot connect to itself: there is no loopback device";
            return Err(SocketError::Unsupported(why.into()));
        }
        self.with(|w| {
            let World { kernels, hosts, devices, .. } = w;
            let kernel = kernels.get(machine).and_then(Option::as_ref).ok_or_else(unreachable)?;
            let device = hosts[machine].first_device;
            kernel.bring_up(&mut hosts[machine], &mut devices[device]);
            Ok(device)
        })
    }
}

impl Sockets for SimProvider<'_> {
    fn tcp_listen(&self) -> Result<(SocketHandle, SocketAddr), SocketError> {
        self.call()?;
        let made = self.in_kernel(|kernel, at| {
            kernel.bring_up(at.host, at.device);
            kernel.listen(at.host, self.thread)
        });
        let (socket, port) = made.ok_or(SocketError::Errno { what: "bind", errno: EADDRINUSE })?;
        Ok((SocketHandle(socket.index() as u32), SocketAddr::new(address(self.machine), port)))
    }

    fn tcp_accept(&self, listener: SocketHandle) -> Result<SocketHandle, SocketError> {
        let listener = self.call_on(listener)?;
        let accepted = self.wait(listener, SocketWant::Take, |socket| match &mut socket.state {
            SocketState::Listening(backlog) => backlog.pop_front().map(Some),
            _ => Some(None),
        });
        match accepted {
            Some(socket) => Ok(SocketHandle(socket.index() as u32)),
            None => invalid("the socket is not a listener, so it accepts no connections"),
        }
    }

    fn tcp_connect(&self, to: SocketAddr) -> Result<SocketHandle, SocketError> {
        self.call()?;
        let peer = self.peer(to)?;
        let socket = self.with(|w| {
            let World { kernels, hosts, devices, .. } = w;
            let (host, port) = (&mut hosts[self.machine], devices[peer].port(0));
            let kernel = kernels[self.machine].as_mut().expect(HAS_TCP);
            kernel.bring_up(host, &mut devices[self.first_device]);
            kernel.open(host, self.thread, SocketState::Connecting, port)
        });
        self.in_kernel(|kernel, at| {
            kernel.send_control(at, socket, SegmentControl::Syn, Some(SegmentTo::Port(to.port())));
        });
        self.sync();
        let connected = self.wait(socket, SocketWant::Take, |socket| match socket.state {
            SocketState::Connecting => None,
            SocketState::Connected => Some(true),
            _ => Some(false),
        });
        if connected { Ok(SocketHandle(socket.index() as u32)) } else { Err(SocketError::Refused(to)) }
    }

    fn tcp_send(&self, socket: SocketHandle, mem: Mem, offset: u64, len: u64) -> Result<(), SocketError> {
        let socket = self.call_on(socket)?;
        let mut done = 0;
        while done < len {
            let room = self.wait(socket, SocketWant::Room, |socket| match socket.state {
                SocketState::Connected if socket.out.room() == 0 => None,
                SocketState::Connected => Some(Ok(socket.out.room())),
                SocketState::Reset => Some(Err(SocketError::Reset)),
                _ => Some(invalid("the socket is not connected")),
            })?;
            let most = u64::from(self.on_socket(socket, |socket| socket.out.most()));
            let part = room.min(most).min(len - done);
            self.copy_to_socket(socket, mem, offset + done, part);
            done += part;
            let full = self.on_socket(socket, |socket| {
                socket.out.write(part);
                socket.out.pending() >= most || socket.out.room() == 0
            });
            if done == len || full {
                self.push(socket);
            }
        }
        Ok(())
    }

    fn tcp_recv(&self, socket: SocketHandle, mem: Mem, offset: u64, len: u64) -> Result<u64, SocketError> {
        let socket = self.call_on(socket)?;
        if len == 0 {
            return Ok(0);
        }
        let has_some = self.wait(socket, SocketWant::Take, |socket| match socket.state {
            _ if socket.into.bytes() > 0 => Some(Ok(true)),
            SocketState::Connected => socket.into.has_some().then_some(Ok(false)),
            SocketState::Reset => Some(Err(SocketError::Reset)),
            _ => Some(invalid("the socket is not connected")),
        })?;
        if !has_some {
            return Ok(0);
        }
        let taken = self.copy_from_socket(socket, mem, offset, len);
        self.in_kernel(|kernel, at| kernel.taken(at, socket));
        self.sync();
        Ok(taken)
    }

    fn tcp_poll(&self, sockets: &[SocketHandle], deadline: Time) -> Result<Option<usize>, SocketError> {
        self.call()?;
        let named = sockets.iter().map(|handle| SocketId(handle.0));
        let are_all = self.in_kernel(|kernel, _| {
            sockets.iter().all(|handle| kernel.socket_of(self.thread, handle.0).is_some())
        });
        if !are_all {
            return invalid("there is no such socket");
        }
        let each = self.in_kernel(|kernel, _| Ps(kernel.costs.poll_socket));
        let mut slept = false;
        loop {
            self.spend(each * sockets.len() as u64);
            let ready = self.in_kernel(|kernel, _| named.clone().position(|s| kernel.sockets[s].has_some()));
            let late = self.with(|w| w.threads[self.thread].clock >= deadline.into());
            if ready.is_some() || late {
                return Ok(ready);
            }
            if slept {
                self.sleep(named.clone(), SocketWant::Take, deadline.into());
            } else {
                // Sockets are checked once more after the time that falling asleep takes.
                self.spend(self.in_kernel(|kernel, _| Ps(kernel.costs.sleep)));
            }
            slept = !slept;
        }
    }

    fn tcp_close(&self, socket: SocketHandle) {
        if std::thread::panicking() {
            return; // The thread is being dropped.
        }
        if let Ok(socket) = self.call_on(socket) {
            self.in_kernel(|kernel, at| kernel.close(at, socket));
            self.push(socket);
        }
    }
}
