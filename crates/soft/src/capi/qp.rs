//! Queue pairs.

use super::handle::hand_out;
use super::object::{QpObject, QpOrigin, SubjectKind, context, cq, is_of, pd, qp, srq, xrcd};
use super::wr::{Plain, plain, rust_wr, sges};
use super::{destroyed, made_or_null, mw, qp_ex, silent_errno, status, tried, xrc};
use crate::causes::*;
use crate::device::{self, MAX_QP};
use crate::limits::limits;
use crate::queues::qp::posting::Posting;
use crate::queues::qp::{Qp, QpKind, QpParts};
use crate::refused::{Asked, Called, NONE, Size};
use crate::wr_opcode;
use doorbell_abi::ibv_qp_attr_mask::*;
use doorbell_abi::{
    CEnum, IBV_QPT_XRC_RECV, IBV_QPT_XRC_SEND, ibv_ah_attr, ibv_context, ibv_cq, ibv_gid, ibv_global_route,
    ibv_pd, ibv_qp, ibv_qp_attr, ibv_qp_cap, ibv_qp_ex, ibv_qp_init_attr, ibv_qp_init_attr_ex, ibv_recv_wr,
    ibv_send_wr,
};
use doorbell_transport::{Refused, state_name};
use doorbell_verbs::{
    AccessFlags, AhAttr, FlowLabel, Gid, GlobalRoute, Mtu, Opcode, QpAttr, QpCap, QpState, QpType,
};
use libc::c_int;
use std::ptr::null_mut;

/// `IBV_QP_CUR_STATE`, `IBV_QP_EN_SQD_ASYNC_NOTIFY`.
const IBV_QP_CUR_STATE: c_int = 1 << 1;
const IBV_QP_EN_SQD_ASYNC_NOTIFY: c_int = 1 << 2;
/// `IBV_QP_INIT_ATTR_PD`, `_XRCD`, `_CREATE_FLAGS`, `_SEND_OPS_FLAGS`.
const INIT_ATTR_PD: u32 = 1;
const INIT_ATTR_XRCD: u32 = 1 << 1;
const INIT_ATTR_CREATE_FLAGS: u32 = 1 << 2;
const INIT_ATTR_SEND_OPS_FLAGS: u32 = 1 << 6;
/// The `IBV_QP_EX_WITH_*` bits that all QPs accept: WRITE, WRITE with immediate, SEND, SEND with immediate,
/// READ and both atomics. RC and UC also accept LOCAL_INV and BIND_MW. Only RC also accepts SEND with
/// invalidate and ATOMIC WRITE.
const SEND_OPS: u64 = 0x7f;
const SEND_OPS_OF_WINDOWS: u64 = 3 << 7;
const SEND_OPS_OF_RC: u64 = 1 << 9 | 1 << 12;

pub unsafe extern "C" fn ibv_create_qp(pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    // SAFETY: the caller's struct and PD.
    unsafe {
        let ibv_qp_init_attr { cap, qp_type, send_cq, recv_cq, .. } = *attr;
        let asked = asked("ibv_create_qp", (pd, qp_type), (send_cq, recv_cq), &cap);
        give_back(asked, create(pd, &*attr), &raw mut (*attr).cap)
    }
}

/// The sizes of a QP that the program may reduce.
fn asked(
    call: &'static str,
    (pd, qp_type): (*mut ibv_pd, u32),
    (send_cq, recv_cq): (*mut ibv_cq, *mut ibv_cq),
    cap: &ibv_qp_cap,
) -> Asked {
    let sizes = [
        Size::new(OF_SEND_WR, cap.max_send_wr),
        Size::new(OF_RECV_WR, cap.max_recv_wr),
        Size::new(OF_SEND_SGE, cap.max_send_sge),
        Size::new(OF_RECV_SGE, cap.max_recv_sge),
        // libfabric searches for the most inline payload.
        Size::growing(OF_INLINE, cap.max_inline_data),
    ];
    let same = [pd.addr() as u64, qp_type.into(), send_cq.addr() as u64, recv_cq.addr() as u64];
    Asked { call: Called::verbs(call), same, sizes }
}

pub(crate) unsafe extern "C" fn create_qp_ex(
    context: *mut ibv_context,
    attr: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    // SAFETY: the caller's struct.
    unsafe {
        let ibv_qp_init_attr_ex { cap, qp_type, send_cq, recv_cq, pd, .. } = *attr;
        let asked = asked("ibv_create_qp_ex", (pd, qp_type), (send_cq, recv_cq), &cap);
        give_back(asked, create_extended(context, &*attr), &raw mut (*attr).cap)
    }
}

/// Returns the new QP to the program, and writes the QP's actual sizes to `cap`.
unsafe fn give_back(asked: Asked, made: Result<Box<QpObject>, Refused>, cap: *mut ibv_qp_cap) -> *mut ibv_qp {
    if let Ok(object) = &made {
        // SAFETY: the caller's struct.
        unsafe { cap.write(c_cap(&object.qp.cap)) };
    }
    made_or_null(asked, made).cast()
}

unsafe fn create_extended(
    context: *mut ibv_context,
    attr: &ibv_qp_init_attr_ex,
) -> Result<Box<QpObject>, Refused> {
    let of_type = if attr.qp_type == IBV_QPT_XRC_RECV { INIT_ATTR_XRCD } else { INIT_ATTR_PD };
    let known = of_type | INIT_ATTR_PD | INIT_ATTR_CREATE_FLAGS | INIT_ATTR_SEND_OPS_FLAGS;
    let flags = if attr.comp_mask & INIT_ATTR_CREATE_FLAGS != 0 { attr.create_flags } else { 0 };
    let ops = if attr.comp_mask & INIT_ATTR_SEND_OPS_FLAGS != 0 { attr.send_ops_flags } else { 0 };
    let offered = match transport_of(attr.qp_type) {
        Some(QpType::Rc) => SEND_OPS | SEND_OPS_OF_WINDOWS | SEND_OPS_OF_RC,
        Some(QpType::Uc) => SEND_OPS | SEND_OPS_OF_WINDOWS,
        Some(QpType::Ud) | None => SEND_OPS,
    };
    if attr.comp_mask & !known != 0 || flags != 0 || ops & !offered != 0 {
        return Err(QP_EX_FLAGS.of([&attr.comp_mask, &flags, &ops]));
    }
    if attr.comp_mask & of_type == 0 || (attr.pd.is_null() && of_type == INIT_ATTR_PD) {
        let needed = if of_type == INIT_ATTR_PD { "IBV_QP_INIT_ATTR_PD" } else { "IBV_QP_INIT_ATTR_XRCD" };
        return Err(QP_EX_MASK.of([&attr.comp_mask, &needed]));
    }
    let has_functions = attr.comp_mask & INIT_ATTR_SEND_OPS_FLAGS != 0;
    if attr.qp_type == IBV_QPT_XRC_RECV {
        // SAFETY: vouched for by the caller.
        return unsafe { xrc::create_target(context, attr) };
    }
    // SAFETY: the PD was checked.
    is_of(context, unsafe { (*attr.pd).context }, "pd")?;
    let plain = ibv_qp_init_attr {
        qp_context: attr.qp_context,
        send_cq: attr.send_cq,
        recv_cq: attr.recv_cq,
        srq: attr.srq,
        cap: attr.cap,
        qp_type: attr.qp_type,
        sq_sig_all: attr.sq_sig_all,
    };
    // SAFETY: vouched for by the caller.
    let mut object = unsafe { create(attr.pd, &plain)? };
    if has_functions {
        qp_ex::set_functions(&mut object, ops);
    }
    Ok(object)
}

unsafe fn create(pd_pointer: *mut ibv_pd, attr: &ibv_qp_init_attr) -> Result<Box<QpObject>, Refused> {
    let qp_type = transport_of(attr.qp_type).ok_or_else(|| QP_TYPE.of([&attr.qp_type]))?;
    let is_initiator = attr.qp_type == IBV_QPT_XRC_SEND;
    // An XRC initiator receives nothing, so its receive CQ and SRQ are ignored.
    let attr = &match is_initiator {
        false => *attr,
        true => ibv_qp_init_attr { recv_cq: attr.send_cq, srq: null_mut(), ..*attr },
    };
    if pd_pointer.is_null() {
        return Err(QP_PD.bare());
    }
    if attr.send_cq.is_null() {
        return Err(QP_SEND_CQ.bare());
    }
    if attr.recv_cq.is_null() {
        return Err(QP_RECV_CQ.bare());
    }
    // SAFETY: objects of ours.
    let (pd, send_cq, recv_cq) = unsafe { (pd(pd_pointer), cq(attr.send_cq), cq(attr.recv_cq)) };
    // SAFETY: an SRQ of ours, or null.
    let srq = unsafe { if attr.srq.is_null() { None } else { Some(srq(attr.srq)) } };
    let srq_context = srq.map_or(pd.base.context, |srq| srq.base.context);
    for (of, field) in
        [(send_cq.base.context, "send_cq"), (recv_cq.base.context, "recv_cq"), (srq_context, "srq")]
    {
        is_of(pd.base.context, of, field)?;
    }
    let kind = match is_initiator {
        false => QpKind::Plain { qp_type, srq: srq.map(|srq| srq.rq.clone()) },
        true => QpKind::Initiator,
    };
    // SAFETY: the PD's context.
    let owner = unsafe { context(pd.base.context) };
    let made = Qp::new(
        owner.process,
        QpParts {
            pd: pd.base.handle,
            cap: checked_cap(&attr.cap, kind.uses_srq())?,
            kind,
            sq_sig_all: attr.sq_sig_all != 0,
            send_cq: send_cq.cq.clone(),
            recv_cq: recv_cq.cq.clone(),
            async_pipe: owner.async_pipe.clone(),
        },
    )
    .map_err(|errno| at_limit(&QP_ROOM, errno, [&MAX_QP]))?;
    pd.uses.begin();
    send_cq.uses.begin();
    recv_cq.uses.begin();
    if let Some(srq) = srq {
        srq.uses.begin();
    }
    // SAFETY: the PD's context.
    Ok(unsafe { hand_out(pd.base.context, pd_pointer, attr, made, QpOrigin::Made) })
}

/// The transport of a QP with this `enum ibv_qp_type`; `None` if the type is not supported here.
/// `xrc::create_target` creates XRC targets.
fn transport_of(qp_type: u32) -> Option<QpType> {
    match qp_type {
        IBV_QPT_XRC_SEND => Some(QpType::Rc),
        other => QpType::from_c(other),
    }
}

/// Checks the requested sizes. Fails if they exceed the device's limits. A QP with an SRQ has no receive
/// queue.
fn checked_cap(cap: &ibv_qp_cap, uses_srq: bool) -> Result<QpCap, Refused> {
    let recv = if uses_srq { (0, 0) } else { (cap.max_recv_wr, cap.max_recv_sge) };
    let most = limits();
    for (cause, asked, most) in [
        (&QP_SEND_WR, cap.max_send_wr, most.wr),
        (&QP_RECV_WR, recv.0, most.wr),
        (&QP_SEND_SGE, cap.max_send_sge, most.sge),
        (&QP_RECV_SGE, recv.1, most.sge),
        (&QP_INLINE, cap.max_inline_data, most.inline),
    ] {
        if asked > most {
            return Err(cause.of([&asked, &most]));
        }
    }
    Ok(QpCap {
        max_send_wr: cap.max_send_wr,
        max_recv_wr: recv.0,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: recv.1,
        max_inline_data: inline_room(cap.max_inline_data),
    })
}

/// Bytes of inline payload that a WQE can hold if the program requests `asked` bytes. The WQEs of NICs are
/// multiples of 64 bytes, so their QPs accept some inline payload even if none is requested. Programs rely on
/// this.
fn inline_room(asked: u32) -> u32 {
    asked.max(1).next_multiple_of(64).min(limits().inline)
}

fn c_cap(cap: &QpCap) -> ibv_qp_cap {
    ibv_qp_cap {
        max_send_wr: cap.max_send_wr,
        max_recv_wr: cap.max_recv_wr,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: cap.max_recv_sge,
        max_inline_data: cap.max_inline_data,
    }
}

/// Returns null for a QP that was created without `IBV_QP_INIT_ATTR_SEND_OPS_FLAGS`, as drivers do.
pub unsafe extern "C" fn ibv_qp_to_qp_ex(pointer: *mut ibv_qp) -> *mut ibv_qp_ex {
    // SAFETY: a QP of ours.
    let has_functions = unsafe { qp(pointer) }.base.wr_start.is_some();
    if has_functions { pointer.cast() } else { null_mut() }
}

pub unsafe extern "C" fn ibv_destroy_qp(pointer: *mut ibv_qp) -> c_int {
    // rdma_destroy_qp(3) passes null for an id without a QP. qperf does this when it exits.
    if pointer.is_null() {
        return silent_errno(&QP_NULL, None);
    }
    // SAFETY: a QP of ours, not used after this, and the objects that it was created with.
    unsafe {
        let object = qp(pointer);
        if let Err(busy) = object.qp.check_unused() {
            return destroyed("ibv_destroy_qp", pointer, Err(busy));
        }
        let base = &object.base.qp_base;
        if object.qp.close() {
            object.qp.destroy();
        }
        if object.origin == QpOrigin::Made {
            context(base.context).subjects.remove(SubjectKind::Qp, object.qp.event_identity().0);
            let about = format_args!("QP {:#x}", base.qp_num);
            object.qp.events.wait_for_all("ibv_destroy_qp", "ibv_ack_async_event", about);
        }
        if object.xrcd.is_null() {
            pd(base.pd).uses.end();
            cq(base.send_cq).uses.end();
            cq(base.recv_cq).uses.end();
        } else {
            xrcd(object.xrcd).uses.end();
        }
        if !base.srq.is_null() {
            srq(base.srq).uses.end();
        }
        drop(Box::from_raw(pointer.cast::<QpObject>()));
    }
    destroyed("ibv_destroy_qp", pointer, Ok(()))
}

pub unsafe extern "C" fn ibv_modify_qp(pointer: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int {
    // SAFETY: a QP of ours and the caller's struct.
    let (modified, attr) = unsafe { (modify(pointer, &*attr, mask), &*attr) };
    // The program need not set fields that the mask does not select.
    let size = |bit: c_int, value: u32| if mask & bit != 0 { value } else { 0 };
    let asked = Asked {
        call: Called::verbs("ibv_modify_qp"),
        same: [pointer.addr() as u64, mask as u64, size(IBV_QP_STATE, attr.qp_state).into(), 0],
        sizes: [
            Size::new(OF_RD_ATOMIC, size(IBV_QP_MAX_QP_RD_ATOMIC, attr.max_rd_atomic.into())),
            Size::new(OF_DEST_RD_ATOMIC, size(IBV_QP_MAX_DEST_RD_ATOMIC, attr.max_dest_rd_atomic.into())),
            Size::new(OF_PATH_MTU, size(IBV_QP_PATH_MTU, attr.path_mtu)),
            NONE,
            NONE,
        ],
    };
    tried(asked, modified)
}

unsafe fn modify(pointer: *mut ibv_qp, attr: &ibv_qp_attr, mask: c_int) -> Result<(), Refused> {
    // SAFETY: vouched for by the caller.
    let object = unsafe { qp(pointer) };
    if object.origin == QpOrigin::Foreign {
        return Err(QP_ELSEWHERE.bare());
    }
    if mask & IBV_QP_CUR_STATE != 0 {
        let state = object.qp.query().0;
        if attr.cur_qp_state != state.to_c() {
            let given = QpState::from_c(attr.cur_qp_state).map(state_name);
            let given = given.map_or_else(|| attr.cur_qp_state.to_string(), str::to_owned);
            return Err(QP_CUR_STATE.of([&given, &state_name(state)]));
        }
    }
    let state = object.qp.modify(&rust_attr(attr, mask & !IBV_QP_CUR_STATE)?)?;
    // SAFETY: as above.
    unsafe { (*pointer).state = state.to_c() };
    Ok(())
}

/// Converts the attributes that the mask selects. Fails for an unknown bit or an invalid value.
fn rust_attr(attr: &ibv_qp_attr, mask: c_int) -> Result<QpAttr, Refused> {
    let known = IBV_QP_STATE
        | IBV_QP_EN_SQD_ASYNC_NOTIFY
        | IBV_QP_ACCESS_FLAGS
        | IBV_QP_PKEY_INDEX
        | IBV_QP_PORT
        | IBV_QP_QKEY
        | IBV_QP_AV
        | IBV_QP_PATH_MTU
        | IBV_QP_TIMEOUT
        | IBV_QP_RETRY_CNT
        | IBV_QP_RNR_RETRY
        | IBV_QP_RQ_PSN
        | IBV_QP_MAX_QP_RD_ATOMIC
        | IBV_QP_MIN_RNR_TIMER
        | IBV_QP_SQ_PSN
        | IBV_QP_MAX_DEST_RD_ATOMIC
        | IBV_QP_DEST_QPN;
    if mask & !known != 0 {
        return Err(QP_MASK_BITS.of([&format_args!("{:#x}", mask & !known)]));
    }
    let has = |bit: c_int| mask & bit != 0;
    let state = || QpState::from_c(attr.qp_state).ok_or_else(|| QP_STATE.of([&attr.qp_state]));
    let mtu = || Mtu::from_c(attr.path_mtu).ok_or_else(|| QP_PATH_MTU.of([&attr.path_mtu]));
    Ok(QpAttr {
        qp_state: if has(IBV_QP_STATE) { Some(state()?) } else { None },
        pkey_index: has(IBV_QP_PKEY_INDEX).then_some(attr.pkey_index),
        port_num: has(IBV_QP_PORT).then_some(attr.port_num),
        qp_access_flags: has(IBV_QP_ACCESS_FLAGS)
            .then_some(AccessFlags::from_bits_truncate(attr.qp_access_flags)),
        qkey: has(IBV_QP_QKEY).then_some(attr.qkey),
        path_mtu: if has(IBV_QP_PATH_MTU) { Some(mtu()?) } else { None },
        dest_qp_num: has(IBV_QP_DEST_QPN).then_some(attr.dest_qp_num),
        rq_psn: has(IBV_QP_RQ_PSN).then_some(attr.rq_psn & 0xff_ffff),
        ah_attr: has(IBV_QP_AV).then_some(rust_path(&attr.ah_attr)),
        max_dest_rd_atomic: has(IBV_QP_MAX_DEST_RD_ATOMIC).then_some(attr.max_dest_rd_atomic),
        min_rnr_timer: has(IBV_QP_MIN_RNR_TIMER).then_some(attr.min_rnr_timer),
        sq_psn: has(IBV_QP_SQ_PSN).then_some(attr.sq_psn & 0xff_ffff),
        timeout: has(IBV_QP_TIMEOUT).then_some(attr.timeout),
        retry_cnt: has(IBV_QP_RETRY_CNT).then_some(attr.retry_cnt),
        rnr_retry: has(IBV_QP_RNR_RETRY).then_some(attr.rnr_retry),
        max_rd_atomic: has(IBV_QP_MAX_QP_RD_ATOMIC).then_some(attr.max_rd_atomic),
    })
}

pub(crate) fn rust_path(attr: &ibv_ah_attr) -> AhAttr {
    AhAttr {
        port_num: attr.port_num,
        dlid: attr.dlid,
        sl: attr.sl & 0xf,
        grh: (attr.is_global != 0).then_some(GlobalRoute {
            dgid: Gid(attr.grh.dgid.raw),
            sgid_index: attr.grh.sgid_index,
            flow_label: FlowLabel::new(attr.grh.flow_label),
            hop_limit: attr.grh.hop_limit,
            traffic_class: attr.grh.traffic_class,
        }),
    }
}

pub(crate) fn c_path(path: &AhAttr) -> ibv_ah_attr {
    let grh = path.grh.map(|route| ibv_global_route {
        dgid: ibv_gid { raw: route.dgid.0 },
        flow_label: route.flow_label.number(),
        sgid_index: route.sgid_index,
        hop_limit: route.hop_limit,
        traffic_class: route.traffic_class,
    });
    ibv_ah_attr {
        grh: grh.unwrap_or_default(),
        dlid: path.dlid,
        sl: path.sl,
        is_global: path.grh.is_some().into(),
        port_num: path.port_num,
        ..ibv_ah_attr::default()
    }
}

pub unsafe extern "C" fn ibv_query_qp(
    pointer: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    _mask: c_int,
    init: *mut ibv_qp_init_attr,
) -> c_int {
    // SAFETY: a QP of ours.
    let object = unsafe { qp(pointer) };
    let (state, known) = match object.origin {
        // SAFETY: the QP's domain.
        QpOrigin::Foreign => unsafe { xrc::known_elsewhere(object) },
        QpOrigin::Made | QpOrigin::Opened => object.qp.query(),
    };
    let cap = c_cap(&object.qp.cap);
    let base = &object.base.qp_base;
    // SAFETY: the caller's structs, and the QP's.
    unsafe {
        attr.write(c_attr(state, &known, cap));
        init.write(ibv_qp_init_attr {
            qp_context: base.qp_context,
            send_cq: base.send_cq,
            recv_cq: base.recv_cq,
            srq: base.srq,
            cap,
            qp_type: base.qp_type,
            sq_sig_all: object.qp.sq_sig_all.into(),
        });
        (*pointer).state = state.to_c();
    }
    0
}

fn c_attr(state: QpState, attr: &QpAttr, cap: ibv_qp_cap) -> ibv_qp_attr {
    ibv_qp_attr {
        qp_state: state.to_c(),
        cur_qp_state: state.to_c(),
        path_mtu: attr.path_mtu.unwrap_or(device::MTU).to_c(),
        qkey: attr.qkey.unwrap_or_default(),
        rq_psn: attr.rq_psn.unwrap_or_default(),
        sq_psn: attr.sq_psn.unwrap_or_default(),
        dest_qp_num: attr.dest_qp_num.unwrap_or_default(),
        qp_access_flags: attr.qp_access_flags.unwrap_or_default().bits(),
        cap,
        ah_attr: attr.ah_attr.map(|path| c_path(&path)).unwrap_or_default(),
        pkey_index: attr.pkey_index.unwrap_or_default(),
        max_rd_atomic: attr.max_rd_atomic.unwrap_or_default(),
        max_dest_rd_atomic: attr.max_dest_rd_atomic.unwrap_or_default(),
        min_rnr_timer: attr.min_rnr_timer.unwrap_or_default(),
        port_num: attr.port_num.unwrap_or_default(),
        timeout: attr.timeout.unwrap_or_default(),
        retry_cnt: attr.retry_cnt.unwrap_or_default(),
        rnr_retry: attr.rnr_retry.unwrap_or_default(),
        ..ibv_qp_attr::default()
    }
}

pub(crate) unsafe extern "C" fn post_send(
    pointer: *mut ibv_qp,
    mut list: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: a QP of ours.
    let object = unsafe { qp(pointer) };
    let mut posting = object.qp.begin_post();
    // SAFETY: the caller's list, which ends with null.
    while let Some(wr) = unsafe { list.as_ref() } {
        // SAFETY: the caller's work request.
        let posted = unsafe {
            let done = match plain(wr) {
                Some((Plain::Write(remote), sge, flags)) => {
                    posting.write_directly(wr.wr_id, remote, sge, flags)
                }
                Some((Plain::Send, sge, flags)) => posting.send_directly(wr.wr_id, sge, flags),
                None => false,
            };
            if done { Ok(()) } else { post_any(&mut posting, wr) }
        };
        if let Err(error) = posted {
            // SAFETY: the caller's variable.
            unsafe { bad.write(list) };
            drop(posting);
            return status("ibv_post_send", Err(error));
        }
        list = wr.next;
    }
    0
}

/// Posts a work request of any kind. This is a separate function, so that the direct path in `post_send`
/// needs few registers.
#[inline(never)]
unsafe fn post_any(posting: &mut Posting<'_>, wr: &ibv_send_wr) -> Result<(), Refused> {
    // SAFETY: the caller's work request.
    unsafe {
        posting.name_srq(wr.remote_srqn);
        if wr.opcode == wr_opcode::ATOMIC_WRITE {
            return posting.post_atomic_write(&rust_wr(wr, Opcode::Write, posting.qp_type())?, None);
        }
        let Some(opcode) = Opcode::from_c(wr.opcode) else { return mw::post(posting, wr) };
        posting.post_wr(&rust_wr(wr, opcode, posting.qp_type())?, None)
    }
}

pub(crate) unsafe extern "C" fn post_recv(
    pointer: *mut ibv_qp,
    mut list: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: a QP of ours.
    let object = unsafe { qp(pointer) };
    let (mut posted, mut most_sges) = (0, 0);
    // SAFETY: the caller's list, which ends with null.
    while let Some(wr) = unsafe { list.as_ref() } {
        // SAFETY: the caller's work request.
        let result =
            unsafe { sges(wr.sg_list, wr.num_sge) }.and_then(|sges| object.qp.post_recv(wr.wr_id, sges));
        if let Err(error) = result {
            object.qp.recvs_posted(posted, most_sges);
            // SAFETY: the caller's variable.
            unsafe { bad.write(list) };
            return status("ibv_post_recv", Err(error));
        }
        (posted, most_sges) = (posted + 1, most_sges.max(wr.num_sge as u32));
        list = wr.next;
    }
    object.qp.recvs_posted(posted, most_sges);
    0
}
