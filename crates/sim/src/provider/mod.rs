//! A thread's verbs and processor in virtual time, and the synchronisation of its clock with the event queue.

mod cpu;
mod locks;
mod poll;
mod post;
mod sockets;
mod verbs;

use crate::core::index::{CoreId, DeviceId, Id, MachineId, QpId, ThreadId};
use crate::core::queue::EventKey;
use crate::device::SimDevice;
use crate::host::Host;
use crate::world::World;
use corosensei::Yielder;
use doorbell_verbs::{QpHandle, VerbsError};
use std::cell::RefCell;
use std::rc::Rc;

/// The provider of one simulated thread.
///
/// It borrows the world for a moment at a time, and never while the thread is suspended.
#[derive(Clone)]
pub struct SimProvider<'y> {
    world: Rc<RefCell<World>>,
    thread: ThreadId,
    machine: MachineId,
    core: CoreId,
    /// The first device of the thread's machine; the other devices follow.
    first_device: DeviceId,
    yielder: &'y Yielder<(), ()>,
}

/// Bits of a handle that hold an object's number. The bits above hold the device's number on its machine.
const OBJECT_BITS: u32 = 24;

/// The handle of an object on a device. `first` is the first device of the machine.
fn handle(first: DeviceId, device: DeviceId, object: usize) -> u32 {
    let local = device.index() - first.index();
    (local as u32) << OBJECT_BITS | object as u32
}

/// The number of an object on its device.
fn object<I: Id>(handle: u32) -> I {
    I::from_index((handle & ((1 << OBJECT_BITS) - 1)) as usize)
}

fn invalid<T>(message: String) -> Result<T, VerbsError> {
    Err(VerbsError::Invalid(message))
}

impl<'y> SimProvider<'y> {
    pub(crate) fn new(
        world: Rc<RefCell<World>>,
        thread: ThreadId,
        machine: MachineId,
        core: CoreId,
        yielder: &'y Yielder<(), ()>,
    ) -> SimProvider<'y> {
        let first_device = world.borrow().hosts[machine].first_device;
        SimProvider { world, thread, machine, core, first_device, yielder }
    }

    /// Runs `f` on the world.
    #[inline]
    fn with<R>(&self, f: impl FnOnce(&mut World) -> R) -> R {
        f(&mut self.world.borrow_mut())
    }

    /// The device of a handle. A handle that no device has given out may name a device that does not exist.
    fn device_of(&self, handle: u32) -> DeviceId {
        DeviceId(self.first_device.0 + (handle >> OBJECT_BITS) as u16)
    }

    /// Runs `f` on the device of a handle.
    fn on_device<R>(&self, handle: u32, f: impl FnOnce(&mut SimDevice) -> R) -> R {
        self.with(|w| f(&mut w.devices[self.device_of(handle)]))
    }

    /// Runs `f` on the device of a handle and its host.
    fn on_device_with_host<R>(&self, handle: u32, f: impl FnOnce(&mut SimDevice, &mut Host) -> R) -> R {
        let device = self.device_of(handle);
        self.with(|w| f(&mut w.devices[device], &mut w.hosts[self.machine]))
    }

    /// Suspends this thread until its turn.
    fn suspend(&self) {
        let here = 0u8;
        self.with(|w| w.threads[self.thread].stopped_at = std::ptr::from_ref(&here).addr());
        self.yielder.suspend(());
    }

    /// Interrupts this thread's turn during a long operation, so that the run can be stopped.
    fn let_look(&self) {
        if std::thread::panicking() {
            return; // The thread is being dropped.
        }
        self.with(|w| {
            let clock = w.threads[self.thread].clock;
            w.schedule(self.thread, clock);
        });
        self.suspend();
    }

    /// Lets everything before this thread's clock happen: events, and actions of other threads.
    fn sync(&self) {
        if std::thread::panicking() {
            return; // The thread is being dropped.
        }
        if !self.with(|w| self.catch_up(w)) {
            self.suspend();
        }
    }

    /// Does the work of [`SimProvider::sync`]. Stops and returns false if another thread or an interrupt
    /// comes first.
    #[inline]
    fn catch_up(&self, w: &mut World) -> bool {
        let clock = w.threads[self.thread].clock;
        if clock <= w.end && w.run_before(EventKey::thread(clock, self.thread)) {
            return true;
        }
        // An interrupt may have delayed the thread.
        let clock = w.threads[self.thread].clock;
        w.schedule(self.thread, clock);
        false
    }

    /// Lets this thread's MMIO writes leave before the thread creates an object. A thread may run ahead after
    /// MMIO writes. But objects are numbered in the order of creation, and this order must follow virtual
    /// time.
    fn make_in_turn(&self) {
        if self.with(|w| !w.hosts[self.machine].cores[self.core].mmio.is_empty()) {
            self.sync();
        }
    }

    /// Begins an operation that changes shared state, at this thread's clock.
    fn effect(&self) {
        if std::thread::panicking() {
            return;
        }
        let caught_up = self.with(|w| {
            w.threads[self.thread].effect();
            self.catch_up(w)
        });
        if !caught_up {
            self.suspend();
        }
    }

    /// The QP of a handle, if it is alive.
    fn live_qp(&self, qp: QpHandle) -> Result<(DeviceId, QpId), VerbsError> {
        let (device, id) = (self.device_of(qp.0), object(qp.0));
        let lives = |d: &SimDevice| d.qps.get(id).is_some_and(|slot| slot.alive);
        if self.with(|w| w.devices.get(device).is_some_and(lives)) {
            return Ok((device, id));
        }
        invalid("there is no such QP".into())
    }
}
