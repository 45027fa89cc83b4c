//! QP numbers. The upper 11 of their 24 bits are the process's slot in the registry. The lower 13 bits are
//! the index of the QP in the process.

/// The number of low bits of a QP number that are the index of the QP in its process.
pub const QP_BITS: u32 = 13;

/// The most processes of a fabric at a time.
pub const PROCESSES: usize = 1 << (24 - QP_BITS);

/// The destination QP number of datagrams to groups (IB specification vol. 1, 10.5.2).
pub const MULTICAST_QPN: u32 = 0xff_ffff;

/// The number of QP `index` of the process in `slot`.
pub const fn qp_num(slot: u32, index: u32) -> u32 {
    slot << QP_BITS | index
}

/// The slot of the process to which this QP belongs.
pub const fn slot_of(qp_num: u32) -> u32 {
    qp_num >> QP_BITS
}
