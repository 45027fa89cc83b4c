//! QP numbers. Each names a process by its slot in the registry, and a QP of the process. A process with more
//! QPs than one slot has takes further slots.

/// Bits of a QP number that name the QP within its slot; the other 11 name the slot.
pub const QP_BITS: u32 = 13;

/// The number of slots: the most processes that may use the device at a time.
pub const PROCESSES: usize = 1 << (24 - QP_BITS);

/// The destination QP number of datagrams to groups (IB specification vol. 1, 10.5.2).
pub const MULTICAST_QPN: u32 = 0xff_ffff;

/// The number of QP `index` of this slot.
pub const fn qp_num(slot: u32, index: u32) -> u32 {
    slot << QP_BITS | index
}

/// The slot that has this QP.
pub const fn slot_of(qp_num: u32) -> u32 {
    qp_num >> QP_BITS
}
