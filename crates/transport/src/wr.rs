//! Properties of send work requests at the requester.

use doorbell_verbs::{AccessFlags, Opcode, SendFlags, UdDest, WcStatus};

/// Bit of a work request's Q_Key that selects the QP's own Q_Key (IB specification vol. 1, 10.2.5).
const QKEY_OWN: u32 = 1 << 31;

/// The Q_Key that a datagram carries, if `own` is the Q_Key of its QP.
pub const fn sent_qkey(dest: &UdDest, own: u32) -> u32 {
    if dest.qkey & QKEY_OWN != 0 { own } else { dest.qkey }
}

/// The rights that a work request needs of its lkeys, unless it is inline.
pub const fn local_rights(opcode: Opcode) -> AccessFlags {
    if opcode.returns_data() { AccessFlags::LOCAL_WRITE } else { AccessFlags::empty() }
}

/// Checks that the QP may start the operation. If `max_rd_atomic` is 0, a READ or atomic fails with the
/// returned status.
pub fn check_initiator(opcode: Opcode, max_rd_atomic: u8) -> Result<(), WcStatus> {
    if opcode.returns_data() && max_rd_atomic == 0 { Err(WcStatus::LocQpOpErr) } else { Ok(()) }
}

/// Whether a work request with this status gives a CQE: if it asks for one, or if it failed.
pub fn is_signaled(status: WcStatus, flags: SendFlags, sq_sig_all: bool) -> bool {
    status != WcStatus::Success || sq_sig_all || flags.contains(SendFlags::SIGNALED)
}
