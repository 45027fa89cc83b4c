//! Conversions of work requests from the structs of verbs.h.

use crate::causes::{SGE_COUNT, SGE_NULL};
use doorbell_abi::{ibv_send_wr, ibv_sge};
use doorbell_transport::Refused;
use doorbell_verbs::{AhHandle, Opcode, QpType, RemoteAddr, SendFlags, SendOp, SendWr, Sge, UdDest};
use libc::c_int;
use std::mem::{offset_of, size_of};

const _: () = {
    assert!(size_of::<Sge>() == size_of::<ibv_sge>());
    assert!(offset_of!(Sge, addr) == offset_of!(ibv_sge, addr));
    assert!(offset_of!(Sge, length) == offset_of!(ibv_sge, length));
    assert!(offset_of!(Sge, lkey) == offset_of!(ibv_sge, lkey));
};

/// The SGEs of a work request.
///
/// # Safety
/// The list has `count` entries and lives as long as the result.
#[inline(always)]
pub(crate) unsafe fn sges<'a>(list: *const ibv_sge, count: c_int) -> Result<&'a [Sge], Refused> {
    match usize::try_from(count) {
        Ok(0) => Ok(&[]),
        // SAFETY: vouched for by the caller; both structs are laid out alike.
        Ok(count) if !list.is_null() => Ok(unsafe { std::slice::from_raw_parts(list.cast(), count) }),
        _ => Err(no_list(count)),
    }
}

/// The error for a list of SGEs that is null or has a negative number of entries. `count` is passed by value,
/// so that the caller keeps it in a register.
#[cold]
fn no_list(count: c_int) -> Refused {
    if count < 0 { SGE_COUNT.of([&count]) } else { SGE_NULL.of([&count]) }
}

/// A work request that may take the direct path.
pub(crate) enum Plain {
    Write(RemoteAddr),
    Send,
}

/// The operation, SGE and flags of a WRITE or SEND with exactly one SGE; `None` for any other work request.
///
/// # Safety
/// As for [`sges`].
#[inline(always)]
pub(crate) unsafe fn plain(wr: &ibv_send_wr) -> Option<(Plain, &Sge, SendFlags)> {
    const IBV_WR_RDMA_WRITE: u32 = 0;
    const IBV_WR_SEND: u32 = 2;
    if wr.num_sge != 1 {
        return None;
    }
    // SAFETY: vouched for by the caller; both structs are laid out alike. The members of the union are
    // integers.
    let (sge, rdma) = unsafe { (wr.sg_list.cast::<Sge>().as_ref()?, wr.wr.rdma) };
    let plain = match wr.opcode {
        IBV_WR_RDMA_WRITE => Plain::Write(RemoteAddr { addr: rdma.remote_addr, rkey: rdma.rkey }),
        IBV_WR_SEND => Plain::Send,
        _ => return None,
    };
    Some((plain, sge, SendFlags::from_bits_truncate(wr.send_flags)))
}

/// Converts a send work request with this opcode.
///
/// # Safety
/// As for [`sges`]. If the QP is UD, the address handle is one of ours or null.
#[inline(always)]
pub(crate) unsafe fn rust_wr<'a>(
    wr: &'a ibv_send_wr,
    opcode: Opcode,
    qp_type: QpType,
) -> Result<SendWr<'a>, Refused> {
    let imm = u32::from_be(wr.imm_data);
    // SAFETY: the members are integers and a pointer; any bytes are valid for each of them.
    let (rdma, atomic, ud) = unsafe { (wr.wr.rdma, wr.wr.atomic, wr.wr.ud) };
    let remote = RemoteAddr { addr: rdma.remote_addr, rkey: rdma.rkey };
    let word = RemoteAddr { addr: atomic.remote_addr, rkey: atomic.rkey };
    let op = match opcode {
        Opcode::Send => SendOp::Send,
        Opcode::SendWithImm => SendOp::SendWithImm(imm),
        Opcode::Write => SendOp::Write(remote),
        Opcode::WriteWithImm => SendOp::WriteWithImm(remote, imm),
        Opcode::Read => SendOp::Read(remote),
        Opcode::CompareSwap => {
            SendOp::CompareSwap { remote: word, compare: atomic.compare_add, swap: atomic.swap }
        }
        Opcode::FetchAdd => SendOp::FetchAdd { remote: word, add: atomic.compare_add },
    };
    let dest = if qp_type == QpType::Ud && !ud.ah.is_null() {
        // SAFETY: vouched for by the caller.
        let ah = AhHandle(unsafe { (*ud.ah).handle });
        Some(UdDest { ah, qpn: ud.remote_qpn, qkey: ud.remote_qkey })
    } else {
        None
    };
    Ok(SendWr {
        wr_id: wr.wr_id,
        op,
        // SAFETY: vouched for by the caller.
        sg_list: unsafe { sges(wr.sg_list, wr.num_sge)? },
        flags: SendFlags::from_bits_truncate(wr.send_flags),
        dest,
    })
}
