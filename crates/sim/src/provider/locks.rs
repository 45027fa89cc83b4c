//! Locks of the driver, which several threads of a machine acquire.

use super::SimProvider;
use crate::core::index::{DeviceId, DriverLockId, QpId};
use crate::device::{ENTRIES, SimDevice};
use crate::host::AccessKind;
use crate::world::World;
use doorbell_verbs::{Wc, WcOpcode};

impl SimProvider<'_> {
    /// Acquires a lock. The thread spins while another thread holds the lock.
    #[cold]
    #[inline(never)]
    pub(super) fn acquire(&self, device: DeviceId, lock: DriverLockId) {
        if std::thread::panicking() {
            return; // The thread is being dropped.
        }
        // An atomic waits until the core's MMIO writes have left.
        self.with(|w| w.drain(self.thread));
        self.effect();
        if !self.with(|w| w.try_lock(self.thread, device, lock)) {
            self.suspend();
        }
    }

    /// Releases a lock.
    #[cold]
    #[inline(never)]
    pub(super) fn release(&self, device: DeviceId, lock: DriverLockId) {
        if std::thread::panicking() {
            return;
        }
        self.effect();
        self.with(|w| w.unlock(self.thread, device, lock));
    }

    /// Acquires the lock of a send queue that several threads post to, if there is one.
    pub(super) fn acquire_send_queue(&self, device: DeviceId, qp: QpId) -> Option<DriverLockId> {
        let lock = self.with(|w| w.devices.get(device)?.driver.as_ref()?.qp(qp).send_lock.get())?;
        self.acquire(device, lock);
        self.with(|w| w.use_guarded(self.thread, device, lock));
        Some(lock)
    }

    /// Lets the thread update the send queues of polled completions: it loads the entries of a work request,
    /// and stores the queue's tail. Only lines of queues that threads share have a state.
    pub(super) fn update_tails(&self, w: &mut World, device: DeviceId, polled: &[Wc]) {
        for wc in polled.iter().filter(|wc| !matches!(wc.opcode, WcOpcode::Recv | WcOpcode::RecvWriteWithImm))
        {
            let driver = w.devices[device].driver.as_deref().expect("a lock belongs to a driver");
            let of_qp = SimDevice::qp_numbered(wc.qp_num).and_then(|qp| driver.qp(qp).send_lock.get());
            let Some(lock) = of_qp else { continue };
            ENTRIES.for_each(|line| w.use_line(self.thread, (device, lock), line, AccessKind::Load));
            w.use_line(self.thread, (device, lock), 0, AccessKind::Store);
        }
    }
}
