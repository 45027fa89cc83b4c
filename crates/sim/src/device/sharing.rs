//! QPs that several threads use, and the locks that they take for that.

use super::driver::{Driver, SpinLock};
use super::nic::SimDevice;
use crate::core::index::{CoreId, DriverLockId, QpId};
use crate::host::Host;
use doorbell_verbs::VerbsError;

impl SimDevice {
    /// Lets several threads use a QP and its CQs.
    ///
    /// # Errors
    /// If the driver takes no locks.
    pub(crate) fn share_qp(&mut self, host: &mut Host, core: CoreId, qp: QpId) -> Result<(), VerbsError> {
        let (settings, device) = (self.settings, &self.profile.device);
        let slot = &self.qps[qp];
        let driver = self.driver.get_or_insert_with(|| Box::new(Driver::new(device, settings, true)));
        driver.share(host, core, qp, [slot.send_cq, slot.recv_cq])
    }

    /// A lock of the driver.
    ///
    /// # Panics
    /// If the device has no locks.
    pub(crate) fn lock_mut(&mut self, lock: DriverLockId) -> &mut SpinLock {
        &mut self.driver.as_mut().expect("a lock belongs to a driver").locks[lock]
    }
}
