//! Converts work requests to C and completions from C.

use crate::error::refused;
use crate::memory::View;
use crate::objects::{IbvAh, IbvCq, IbvQp, IbvSrq};
use crate::table::HandleTable;
use doorbell_abi::{
    CEnum, IBV_WC_WITH_IMM, ibv_recv_wr, ibv_send_wr, ibv_send_wr_atomic, ibv_send_wr_bind_mw,
    ibv_send_wr_operands, ibv_send_wr_rdma, ibv_send_wr_ud, ibv_sge, ibv_wc,
};
use doorbell_verbs::{
    Opcode, PostError, QpState, QpType, RecvWr, SendFlags, SendOp, SendWr, Sge, UdDest, VerbsError, Wc,
    WcOpcode, WcStatus, verb_not_offered,
};
use std::ffi::c_int;
use std::ptr;

/// Buffers for lists of work requests and completions in C. They are kept for reuse.
#[derive(Default)]
pub(crate) struct Scratch {
    sges: Vec<ibv_sge>,
    sends: Vec<ibv_send_wr>,
    recvs: Vec<ibv_recv_wr>,
    completions: Vec<ibv_wc>,
}

/// The objects that a send work request may refer to.
pub(crate) struct Scope<'t> {
    pub(crate) ahs: &'t HandleTable<IbvAh>,
    pub(crate) view: &'t View,
}

fn invalid(message: impl Into<String>) -> VerbsError {
    VerbsError::Invalid(message.into())
}

fn at_first(cause: VerbsError) -> PostError {
    PostError { index: 0, cause }
}

/// Reserves room for the SGEs of a whole list, so that pointers to them stay valid.
fn room_for_sges<'a>(sges: &mut Vec<ibv_sge>, lists: impl Iterator<Item = &'a [Sge]>) {
    sges.clear();
    sges.reserve(lists.map(<[Sge]>::len).sum());
}

/// Appends an SGE list, for which `sges` must have room. Returns a pointer to its first SGE.
fn push_sges(sges: &mut Vec<ibv_sge>, list: &[Sge]) -> *mut ibv_sge {
    let first = sges.len();
    sges.extend(list.iter().map(|s| ibv_sge { addr: s.addr, length: s.length, lkey: s.lkey }));
    sges.as_mut_ptr().wrapping_add(first)
}

fn num_sge(list: &[Sge]) -> Result<c_int, VerbsError> {
    c_int::try_from(list.len()).map_err(|_| invalid("a work request must have fewer than 2^31 SGEs"))
}

/// The destination in C, if the transport needs one.
fn destination(
    transport: QpType,
    dest: Option<UdDest>,
    ahs: &HandleTable<IbvAh>,
) -> Result<Option<ibv_send_wr_ud>, VerbsError> {
    match (transport, dest) {
        (QpType::Ud, Some(dest)) => {
            // The table keeps the address handle alive during the call.
            let ah = ahs.get(dest.ah.0)?.raw();
            Ok(Some(ibv_send_wr_ud { ah, remote_qpn: dest.qpn, remote_qkey: dest.qkey }))
        }
        (QpType::Ud, None) => Err(invalid("a work request on a UD QP needs a destination")),
        (_, Some(_)) => {
            Err(invalid(format!("a {transport} QP is connected, so its work requests take no destination")))
        }
        (_, None) => Ok(None),
    }
}

fn operands(op: &SendOp, ud: Option<ibv_send_wr_ud>) -> ibv_send_wr_operands {
    let atomic = |compare_add, swap, remote: doorbell_verbs::RemoteAddr| {
        let (remote_addr, rkey) = (remote.addr, remote.rkey);
        ibv_send_wr_operands { atomic: ibv_send_wr_atomic { remote_addr, compare_add, swap, rkey } }
    };
    match *op {
        SendOp::Write(remote) | SendOp::WriteWithImm(remote, _) | SendOp::Read(remote) => {
            ibv_send_wr_operands { rdma: ibv_send_wr_rdma { remote_addr: remote.addr, rkey: remote.rkey } }
        }
        SendOp::CompareSwap { remote, compare, swap } => atomic(compare, swap, remote),
        SendOp::FetchAdd { remote, add } => atomic(add, 0, remote),
        SendOp::Send | SendOp::SendWithImm(_) => match ud {
            Some(ud) => ibv_send_wr_operands { ud },
            None => atomic(0, 0, Default::default()),
        },
    }
}

/// libibverbs itself reads inline payloads at post time, so they must be memory of this machine.
fn check_inline(wr: &SendWr<'_>, view: &View) -> Result<(), VerbsError> {
    if !wr.flags.contains(SendFlags::INLINE) {
        return Ok(());
    }
    if wr.op.opcode().returns_data() {
        return Err(invalid(format!("{:?} has no payload to send inline", wr.op.opcode())));
    }
    match wr.sg_list.iter().find(|s| !view.covers(s.addr, s.length.into())) {
        None => Ok(()),
        Some(&Sge { addr, length, .. }) => Err(invalid(format!(
            "inline payload of {length} bytes at {addr:#x} is not memory of this machine"
        ))),
    }
}

/// A send work request in C, without its SGEs and its successor.
fn c_send_wr(wr: &SendWr<'_>, transport: QpType, scope: &Scope<'_>) -> Result<ibv_send_wr, VerbsError> {
    let opcode = wr.op.opcode();
    if !Opcode::is_offered_by(opcode, transport) {
        return Err(verb_not_offered(opcode, transport));
    }
    check_inline(wr, scope.view)?;
    let ud = destination(transport, wr.dest, scope.ahs)?;
    Ok(ibv_send_wr {
        wr_id: wr.wr_id,
        next: ptr::null_mut(),
        sg_list: ptr::null_mut(),
        num_sge: num_sge(wr.sg_list)?,
        opcode: opcode.to_c(),
        send_flags: wr.flags.bits(),
        imm_data: wr.op.imm().unwrap_or(0).to_be(),
        wr: operands(&wr.op, ud),
        remote_srqn: 0,
        bind_mw: ibv_send_wr_bind_mw::default(),
    })
}

/// The outcome of posting `list`. If `errno` is not 0, `bad` is the first work request that was not posted.
fn posted<T>(what: &'static str, errno: c_int, list: &[T], bad: *const T) -> Result<(), PostError> {
    if errno == 0 {
        return Ok(());
    }
    // Providers that fail after queueing leave `bad` null.
    let index = list.iter().position(|wr| ptr::eq(wr, bad)).unwrap_or(0);
    Err(PostError { index, cause: refused(what, errno) })
}

impl Scratch {
    /// ibv_post_send(3).
    pub(crate) fn post_send(
        &mut self,
        qp: &IbvQp,
        scope: &Scope<'_>,
        list: &[SendWr<'_>],
    ) -> Result<(), PostError> {
        // IB specification vol. 1, 10.8.3.1. Some providers queue a work request without checking the state.
        if let Some(state @ (QpState::Reset | QpState::Init | QpState::Rtr)) = qp.known_state() {
            return Err(at_first(invalid(format!("a QP in state {state:?} takes no send work requests"))));
        }
        let refusal = self.build_sends(qp.qp_type(), scope, list).err();
        if let Some(first) = self.sends.first_mut() {
            let mut bad = ptr::null_mut();
            // SAFETY: The QP is live. The list is linked within `sends`, its SGEs are in `sges`, its address
            // handles are live, and its inline payloads were checked. libibverbs reads these payloads as a
            // device reads memory. The device checks all other memory by key.
            let errno = unsafe { (qp.post_send())(qp.raw(), first, &mut bad) };
            posted("ibv_post_send", errno, &self.sends, bad)?;
        }
        refusal.map_or(Ok(()), Err)
    }

    /// Converts `list` to C in the buffers, up to the first work request that is refused.
    fn build_sends(
        &mut self,
        transport: QpType,
        scope: &Scope<'_>,
        list: &[SendWr<'_>],
    ) -> Result<(), PostError> {
        room_for_sges(&mut self.sges, list.iter().map(|wr| wr.sg_list));
        self.sends.clear();
        let mut refusal = None;
        for (index, wr) in list.iter().enumerate() {
            match c_send_wr(wr, transport, scope) {
                Ok(c) => self.sends.push(ibv_send_wr { sg_list: push_sges(&mut self.sges, wr.sg_list), ..c }),
                Err(cause) => {
                    refusal = Some(PostError { index, cause });
                    break;
                }
            }
        }
        let start = self.sends.as_mut_ptr();
        for index in 1..self.sends.len() {
            self.sends[index - 1].next = start.wrapping_add(index);
        }
        refusal.map_or(Ok(()), Err)
    }

    /// ibv_post_recv(3).
    pub(crate) fn post_recv(&mut self, qp: &IbvQp, list: &[RecvWr<'_>]) -> Result<(), PostError> {
        if qp.has_srq() {
            return Err(at_first(invalid("the QP takes its RECVs from an SRQ; post them there")));
        }
        // IB specification vol. 1, 10.8.3.2.
        if qp.known_state() == Some(QpState::Reset) {
            return Err(at_first(invalid("a QP in state Reset takes no receive work requests")));
        }
        self.build_recvs(list)?;
        let Some(first) = self.recvs.first_mut() else { return Ok(()) };
        let mut bad = ptr::null_mut();
        // SAFETY: The QP is live. The list is linked within `recvs`, and its SGEs are in `sges`. The device
        // checks the memory by key.
        let errno = unsafe { (qp.post_recv())(qp.raw(), first, &mut bad) };
        posted("ibv_post_recv", errno, &self.recvs, bad)
    }

    /// ibv_post_srq_recv(3).
    pub(crate) fn post_srq_recv(&mut self, srq: &IbvSrq, list: &[RecvWr<'_>]) -> Result<(), PostError> {
        self.build_recvs(list)?;
        let Some(first) = self.recvs.first_mut() else { return Ok(()) };
        let mut bad = ptr::null_mut();
        let (srq, post) = srq.post_recv();
        // SAFETY: The SRQ is live. The rest holds as in `post_recv`.
        let errno = unsafe { post(srq, first, &mut bad) };
        posted("ibv_post_srq_recv", errno, &self.recvs, bad)
    }

    fn build_recvs(&mut self, list: &[RecvWr<'_>]) -> Result<(), PostError> {
        room_for_sges(&mut self.sges, list.iter().map(|wr| wr.sg_list));
        self.recvs.clear();
        for (index, wr) in list.iter().enumerate() {
            let num_sge = num_sge(wr.sg_list).map_err(|cause| PostError { index, cause })?;
            let sg_list = push_sges(&mut self.sges, wr.sg_list);
            self.recvs.push(ibv_recv_wr { wr_id: wr.wr_id, next: ptr::null_mut(), sg_list, num_sge });
        }
        let start = self.recvs.as_mut_ptr();
        for index in 1..self.recvs.len() {
            self.recvs[index - 1].next = start.wrapping_add(index);
        }
        Ok(())
    }

    /// ibv_poll_cq(3).
    pub(crate) fn poll_cq(&mut self, cq: &IbvCq, into: &mut [Wc]) -> Result<usize, VerbsError> {
        let room = into.len().min(c_int::MAX as usize);
        if self.completions.len() < room {
            self.completions.resize(room, ibv_wc::default());
        }
        let (cq, poll) = cq.poll();
        // SAFETY: The CQ is live, and the buffer has room for `room` completions.
        let count = unsafe { poll(cq, room as c_int, self.completions.as_mut_ptr()) };
        let count = usize::try_from(count).map_err(|_| refused("ibv_poll_cq", count))?;
        for (to, from) in into.iter_mut().zip(&self.completions[..count.min(room)]) {
            *to = wc(from);
        }
        Ok(count.min(room))
    }
}

/// A completion from C. Fields that C leaves undefined for a failed work request keep the defaults of `Wc`.
fn wc(c: &ibv_wc) -> Wc {
    let status = WcStatus::from_c(c.status).unwrap_or(WcStatus::GeneralErr);
    if status != WcStatus::Success {
        return Wc { wr_id: c.wr_id, status, qp_num: c.qp_num, ..Wc::default() };
    }
    Wc {
        wr_id: c.wr_id,
        status,
        // Every verb that can be posted here has a `WcOpcode`.
        opcode: WcOpcode::from_c(c.opcode).unwrap_or(WcOpcode::Send),
        byte_len: c.byte_len,
        imm: (c.wc_flags & IBV_WC_WITH_IMM != 0).then(|| u32::from_be(c.imm_data)),
        qp_num: c.qp_num,
        src_qp: c.src_qp,
        slid: c.slid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_verbs::{AhHandle, PageSize, RemoteAddr};
    use std::sync::Arc;

    const REMOTE: RemoteAddr = RemoteAddr { addr: 0x1000, rkey: 7 };

    /// Builds a list for a QP of this transport, in a thread with 64 bytes of memory. `list` gets the address
    /// of the memory.
    fn built(
        transport: QpType,
        list: impl Fn(u64) -> Vec<(SendOp, SendFlags, Sge)>,
    ) -> (Scratch, Result<(), PostError>) {
        let view = View::new(Arc::default(), 0);
        let ahs = HandleTable::new("address handle");
        let addr = view.alloc(64, PageSize::Small).unwrap().addr(0);
        let parts = list(addr);
        let wrs: Vec<_> = parts
            .iter()
            .enumerate()
            .map(|(id, (op, flags, sge))| {
                SendWr::new(id as u64, *op, std::slice::from_ref(sge)).flags(*flags)
            })
            .collect();
        let mut scratch = Scratch::default();
        let outcome = scratch.build_sends(transport, &Scope { ahs: &ahs, view: &view }, &wrs);
        (scratch, outcome)
    }

    #[test]
    fn a_list_is_linked_in_order() {
        let sge = |length| Sge { addr: 16, length, lkey: 3 };
        let (scratch, outcome) = built(QpType::Rc, |_| {
            vec![
                (SendOp::Send, SendFlags::empty(), sge(1)),
                (SendOp::WriteWithImm(REMOTE, 0x01020304), SendFlags::SIGNALED, sge(2)),
                (SendOp::FetchAdd { remote: REMOTE, add: 5 }, SendFlags::FENCE, sge(8)),
            ]
        });
        outcome.unwrap();
        let [first, second, third] = &scratch.sends[..] else { panic!("three work requests") };
        assert!(ptr::eq(first.next, second) && ptr::eq(second.next, third) && third.next.is_null());
        assert_eq!((first.opcode, second.opcode, third.opcode), (2, 1, 6));
        assert_eq!((second.send_flags, third.send_flags), (2, 1));
        assert_eq!(second.imm_data.to_ne_bytes(), [1, 2, 3, 4]);
        // SAFETY: The operands belong to the opcode, and the SGEs are in the scratch buffers.
        unsafe {
            assert_eq!((second.wr.rdma.remote_addr, second.wr.rdma.rkey), (0x1000, 7));
            assert_eq!((third.wr.atomic.compare_add, third.wr.atomic.rkey), (5, 7));
            assert_eq!(((*second.sg_list).length, (*third.sg_list).length), (2, 8));
        }
    }

    #[test]
    fn a_list_is_built_up_to_the_first_refusal() {
        let sge = Sge { addr: 16, length: 8, lkey: 3 };
        let (scratch, outcome) = built(QpType::Uc, |_| {
            vec![
                (SendOp::Write(REMOTE), SendFlags::empty(), sge),
                (SendOp::Read(REMOTE), SendFlags::empty(), sge),
                (SendOp::Send, SendFlags::empty(), sge),
            ]
        });
        assert_eq!(outcome, Err(PostError { index: 1, cause: verb_not_offered(Opcode::Read, QpType::Uc) }));
        assert_eq!(scratch.sends.len(), 1);
        assert!(scratch.sends[0].next.is_null());
    }

    #[test]
    fn inline_payloads_must_be_memory_of_the_machine() {
        let inline = |addr, length| (SendOp::Send, SendFlags::INLINE, Sge { addr, length, lkey: 0 });
        let (_, outcome) = built(QpType::Rc, |addr| vec![inline(addr, 64), inline(addr, 65)]);
        let refusal = outcome.unwrap_err();
        assert_eq!(refusal.index, 1);
        assert!(refusal.to_string().contains("inline payload of 65 bytes"), "{refusal}");
        let (_, outcome) = built(QpType::Rc, |_| vec![inline(0, 8)]);
        assert!(outcome.is_err());
        let (_, outcome) = built(QpType::Rc, |addr| {
            vec![(SendOp::Read(REMOTE), SendFlags::INLINE, Sge { addr, length: 8, lkey: 0 })]
        });
        assert!(outcome.unwrap_err().to_string().contains("no payload"));
    }

    #[test]
    fn a_destination_is_for_ud_only() {
        let ahs = HandleTable::new("address handle");
        let dest = UdDest { ah: AhHandle(0), qpn: 1, qkey: 2 };
        let refusal = |transport, dest| destination(transport, dest, &ahs).err().unwrap().to_string();
        assert!(refusal(QpType::Ud, None).contains("needs a destination"));
        assert!(refusal(QpType::Rc, Some(dest)).contains("RC QP is connected"));
        assert!(refusal(QpType::Ud, Some(dest)).contains("no address handle 0"));
        assert!(destination(QpType::Uc, None, &ahs).is_ok_and(|d| d.is_none()));
    }

    #[test]
    fn the_refused_work_request_is_found() {
        let list = [1, 2, 3];
        assert_eq!(posted("v", 0, &list, ptr::null()), Ok(()));
        assert_eq!(posted("v", libc::ENOMEM, &list, &list[2]).unwrap_err().index, 2);
        assert_eq!(posted("v", libc::ENOMEM, &list, ptr::null()).unwrap_err().index, 0);
    }

    #[test]
    fn completions_are_decoded() {
        let c = ibv_wc {
            wr_id: 9,
            opcode: 129,
            byte_len: 64,
            imm_data: 0x01020304_u32.to_be(),
            qp_num: 5,
            src_qp: 6,
            wc_flags: IBV_WC_WITH_IMM,
            ..ibv_wc::default()
        };
        let good = wc(&c);
        assert_eq!(
            (good.opcode, good.imm, good.byte_len),
            (WcOpcode::RecvWriteWithImm, Some(0x01020304), 64)
        );
        assert_eq!(wc(&ibv_wc { wc_flags: 0, ..c }).imm, None);
        let flushed = wc(&ibv_wc { status: 5, opcode: 77, ..c });
        assert_eq!((flushed.status, flushed.wr_id, flushed.qp_num), (WcStatus::WrFlushErr, 9, 5));
        assert_eq!(wc(&ibv_wc { status: 99, ..c }).status, WcStatus::GeneralErr);
    }
}
