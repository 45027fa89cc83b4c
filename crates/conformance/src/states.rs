//! Checks of a QP's states: the transitions of ibv_modify_qp(3), and the work requests that each state
//! accepts.

use crate::bench::{Bench, PORT, QKEY};
use crate::step::{CheckStep, holds, refused, same};
use doorbell_verbs::{
    AccessFlags, AhAttr, Endpoint, LinkLayer, Provider, Qp, QpAttr, QpState, QpType, RecvWr, SendOp, SendWr,
    Span, VerbsError, WcStatus,
};

const TYPES: [QpType; 3] = [QpType::Rc, QpType::Uc, QpType::Ud];

/// All attributes that the transition to `state` needs. The QP is its own peer.
fn to_state<P: Provider>(b: &Bench<P>, qp: &Qp<P>, state: QpState) -> CheckStep<QpAttr> {
    let (rc, ud) = (qp.qp_type() == QpType::Rc, qp.qp_type() == QpType::Ud);
    let options = b.options(qp.qp_type());
    let attr = QpAttr::state(state);
    Ok(match state {
        QpState::Init => QpAttr {
            pkey_index: Some(0),
            port_num: Some(PORT),
            qp_access_flags: (!ud).then_some(AccessFlags::all()),
            qkey: ud.then_some(QKEY),
            ..attr
        },
        QpState::Rtr if !ud => QpAttr {
            ah_attr: Some(own_path(b, &qp.endpoint(PORT)?)),
            path_mtu: options.connect.mtu,
            dest_qp_num: Some(qp.qp_num()),
            rq_psn: Some(0),
            max_dest_rd_atomic: rc.then_some(options.connect.max_rd_atomic),
            min_rnr_timer: rc.then_some(12),
            ..attr
        },
        QpState::Rts => QpAttr {
            sq_psn: Some(0),
            timeout: rc.then_some(14),
            retry_cnt: rc.then_some(7),
            rnr_retry: rc.then_some(7),
            max_rd_atomic: rc.then_some(options.connect.max_rd_atomic),
            ..attr
        },
        _ => attr,
    })
}

fn own_path<P: Provider>(b: &Bench<P>, own: &Endpoint) -> AhAttr {
    AhAttr::to_endpoint(PORT, &b.port, own)
}

/// Brings a QP from Reset to `state` through the states in between.
fn bring<P: Provider>(b: &Bench<P>, qp: &Qp<P>, state: QpState) -> CheckStep {
    let way = [QpState::Init, QpState::Rtr, QpState::Rts];
    let steps = way.iter().position(|&s| s == state).map_or(0, |n| n + 1);
    for next in &way[..steps] {
        qp.modify(&to_state(b, qp, *next)?)?;
        same("the state", qp.state()?, *next)?;
    }
    Ok(())
}

/// A new QP in `state`.
fn qp_in<P: Provider>(b: &Bench<P>, qp_type: QpType, state: QpState) -> CheckStep<Qp<P>> {
    let options = b.options(qp_type);
    let qp = b.qp(&b.parts(&options)?, &options)?;
    bring(b, &qp, state)?;
    Ok(qp)
}

/// A new QP is in Reset (ibv_create_qp(3)).
pub(crate) fn new_qp_is_reset<P: Provider>(b: &Bench<P>) -> CheckStep {
    for qp_type in TYPES {
        same("the state", qp_in(b, qp_type, QpState::Reset)?.state()?, QpState::Reset)?;
    }
    Ok(())
}

/// A QP passes twice through Reset, Init, Rtr, Rts and Err, and then returns to Reset.
pub(crate) fn full_circle<P: Provider>(b: &Bench<P>) -> CheckStep {
    for qp_type in TYPES {
        let qp = qp_in(b, qp_type, QpState::Reset)?;
        for _ in 0..2 {
            bring(b, &qp, QpState::Rts)?;
            for state in [QpState::Err, QpState::Reset] {
                qp.modify(&QpAttr::state(state))?;
                same("the state", qp.state()?, state)?;
            }
        }
    }
    Ok(())
}

/// Transitions from Init, Rtr and Rts to Err and to Reset are allowed (IB specification, 10.3.1).
pub(crate) fn any_state_to_error_and_reset<P: Provider>(b: &Bench<P>) -> CheckStep {
    for qp_type in TYPES {
        for from in [QpState::Init, QpState::Rtr, QpState::Rts] {
            for to in [QpState::Err, QpState::Reset] {
                let qp = qp_in(b, qp_type, from)?;
                qp.modify(&QpAttr::state(to))?;
                same("the state", qp.state()?, to)?;
            }
        }
    }
    Ok(())
}

/// A transition that skips a state, or that goes back without passing Reset, is refused. The QP's state does
/// not change.
pub(crate) fn illegal_transitions<P: Provider>(b: &Bench<P>) -> CheckStep {
    use QpState::{Err, Init, Reset, Rtr, Rts};
    for qp_type in TYPES {
        for (from, to) in [(Reset, Rtr), (Reset, Rts), (Init, Rts), (Rtr, Init), (Rts, Init), (Rts, Rtr)] {
            let qp = qp_in(b, qp_type, from)?;
            refused(&format!("{qp_type} {from:?} to {to:?}"), qp.modify(&to_state(b, &qp, to)?))?;
            same("the state", qp.state()?, from)?;
        }
        let qp = qp_in(b, qp_type, Rts)?;
        qp.modify(&QpAttr::state(Err))?;
        refused(&format!("{qp_type} Err to Rts"), qp.modify(&to_state(b, &qp, Rts)?))?;
        same("the state", qp.state()?, Err)?;
    }
    Ok(())
}

/// All variants of the attributes with one attribute missing.
fn with_one_less(attr: &QpAttr) -> Vec<(&'static str, QpAttr)> {
    macro_rules! without {
        ($($field:ident)*) => {
            [$(attr.$field.is_some().then(|| (stringify!($field), QpAttr { $field: None, ..*attr }))),*]
        };
    }
    let ways = without!(pkey_index port_num qp_access_flags qkey path_mtu dest_qp_num rq_psn ah_attr
        max_dest_rd_atomic min_rnr_timer sq_psn timeout retry_cnt rnr_retry max_rd_atomic);
    ways.into_iter().flatten().collect()
}

/// A transition without any one of the attributes that ibv_modify_qp(3) lists for it is refused.
pub(crate) fn missing_attributes<P: Provider>(b: &Bench<P>) -> CheckStep {
    use QpState::{Init, Reset, Rtr, Rts};
    for qp_type in TYPES {
        for (from, to) in [(Reset, Init), (Init, Rtr), (Rtr, Rts)] {
            let qp = qp_in(b, qp_type, from)?;
            for (missing, attr) in with_one_less(&to_state(b, &qp, to)?) {
                refused(&format!("{qp_type} {from:?} to {to:?} without {missing}"), qp.modify(&attr))?;
                same("the state", qp.state()?, from)?;
            }
            qp.modify(&to_state(b, &qp, to)?)?;
        }
    }
    Ok(())
}

/// An attribute that does not belong to the transition is refused.
pub(crate) fn foreign_attributes<P: Provider>(b: &Bench<P>) -> CheckStep {
    let qp = qp_in(b, QpType::Rc, QpState::Reset)?;
    let init = to_state(b, &qp, QpState::Init)?;
    refused("a Q_Key on RC", qp.modify(&QpAttr { qkey: Some(QKEY), ..init }))?;
    refused("sq_psn on the way to Init", qp.modify(&QpAttr { sq_psn: Some(0), ..init }))?;
    let qp = qp_in(b, QpType::Ud, QpState::Init)?;
    let rtr = to_state(b, &qp, QpState::Rtr)?;
    refused("dest_qp_num on UD", qp.modify(&QpAttr { dest_qp_num: Some(1), ..rtr }))?;
    let qp = qp_in(b, QpType::Uc, QpState::Rtr)?;
    let rts = to_state(b, &qp, QpState::Rts)?;
    refused("retry_cnt on UC", qp.modify(&QpAttr { retry_cnt: Some(7), ..rts })).map(drop)
}

/// A port that the device does not have is refused.
pub(crate) fn bad_port<P: Provider>(b: &Bench<P>) -> CheckStep {
    for port in [0, b.device.ports + 1] {
        refused(&format!("querying port {port}"), b.context.query_port(port))?;
        let qp = qp_in(b, QpType::Rc, QpState::Reset)?;
        let init = to_state(b, &qp, QpState::Init)?;
        refused(&format!("Init on port {port}"), qp.modify(&QpAttr { port_num: Some(port), ..init }))?;
        same("the state", qp.state()?, QpState::Reset)?;
    }
    Ok(())
}

/// On Ethernet, the path of a connected QP needs a GID. Without it, the QP stays in Init.
pub(crate) fn path_without_gid<P: Provider>(b: &Bench<P>) -> CheckStep {
    for qp_type in [QpType::Rc, QpType::Uc] {
        let qp = qp_in(b, qp_type, QpState::Init)?;
        let rtr = to_state(b, &qp, QpState::Rtr)?;
        if b.port.link_layer == LinkLayer::Ethernet {
            let path = rtr.ah_attr.map(|path| AhAttr { grh: None, ..path });
            refused(
                &format!("a path of {qp_type} without GID"),
                qp.modify(&QpAttr { ah_attr: path, ..rtr }),
            )?;
            same("the state", qp.state()?, QpState::Init)?;
        }
        qp.modify(&rtr)?;
    }
    Ok(())
}

/// `min_rnr_timer` is a code of 5 bits, but any value is accepted.
pub(crate) fn any_rnr_timer<P: Provider>(b: &Bench<P>) -> CheckStep {
    for timer in [31, 32, 32 + 12, 255] {
        let qp = qp_in(b, QpType::Rc, QpState::Init)?;
        qp.modify(&QpAttr { min_rnr_timer: Some(timer), ..to_state(b, &qp, QpState::Rtr)? })?;
        same("the state", qp.state()?, QpState::Rtr)?;
    }
    Ok(())
}

/// Send work requests are refused in Reset, Init and Rtr (IB specification, 10.3.1). A refused work request
/// is not sent later.
pub(crate) fn no_sends_before_rts<P: Provider>(b: &Bench<P>) -> CheckStep {
    for qp_type in [QpType::Rc, QpType::Uc] {
        let options = b.options(qp_type);
        let parts = b.parts(&options)?;
        let sges = [parts.mr.sge(0, 8)];
        let write = SendWr::new(1, SendOp::Write(parts.mr.remote(64)), &sges);
        let qp = b.qp(&parts, &options)?;
        for state in [QpState::Reset, QpState::Init, QpState::Rtr] {
            if state != QpState::Reset {
                qp.modify(&to_state(b, &qp, state)?)?;
            }
            let error = refused(&format!("a WRITE on {qp_type} in {state:?}"), qp.post_send(&[write]))?;
            same("the index of the refused work request", error.index, 0)?;
        }
        b.provider.write(parts.mr.mem(), 0, &[1; 8]);
        qp.modify(&to_state(b, &qp, QpState::Rts)?)?;
        b.silence();
        same("the memory", b.provider.load_u64(parts.mr.mem(), 64), 0)?;
    }
    Ok(())
}

/// RECVs are refused in Reset and accepted from Init on (IB specification, 10.3.1).
pub(crate) fn recvs_from_init_on<P: Provider>(b: &Bench<P>) -> CheckStep {
    for qp_type in TYPES {
        let options = b.options(qp_type);
        let parts = b.parts(&options)?;
        let qp = b.qp(&parts, &options)?;
        let sges = [parts.mr.sge(0, 64)];
        let recv = [RecvWr { wr_id: 1, sg_list: &sges }];
        let error = refused(&format!("a RECV on {qp_type} in Reset"), qp.post_recv(&recv))?;
        holds("the refusal of a RECV in Reset is EINVAL", matches!(error.cause, VerbsError::Invalid(_)))?;
        for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
            qp.modify(&to_state(b, &qp, state)?)?;
            qp.post_recv(&recv)?;
        }
    }
    Ok(())
}

/// A RECV posted in Init receives the first message, and a QP in Rtr can receive.
pub(crate) fn rtr_receives<P: Provider>(b: &Bench<P>) -> CheckStep {
    let options = b.options(QpType::Rc);
    if b.is_requester() {
        let p = b.pair(&options)?;
        p.fill(0, 100, 1);
        p.post(1, SendOp::Send, 0, 100)?;
        p.sent(1, WcStatus::Success)?;
        return Ok(());
    }
    let parts = b.parts(&options)?;
    let qp = b.qp(&parts, &options)?;
    qp.init(PORT, AccessFlags::empty(), 0)?;
    qp.post_recv(&[RecvWr { wr_id: 7, sg_list: &[parts.mr.sge(0, 100)] }])?;
    let (peer, _) = b.exchange(&qp, &parts.mr)?;
    let rtr = to_state(b, &qp, QpState::Rtr)?;
    let path = own_path(b, &peer);
    qp.modify(&QpAttr { ah_attr: Some(path), dest_qp_num: Some(peer.qpn), ..rtr })?;
    b.meet()?;
    let wc = parts.recv_cq.wait(b.deadline())?;
    same("the completed RECV", wc.map(|wc| (wc.wr_id, wc.status)), Some((7, WcStatus::Success)))?;
    same("the state", qp.state()?, QpState::Rtr)
}

/// Reset discards posted work requests without completions (IB specification, 10.3.1.1).
pub(crate) fn reset_forgets<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.loopback(&b.options(QpType::Rc))?;
    p.recv(1, 0, 64)?;
    p.recv(2, 64, 64)?;
    p.qp.modify(&QpAttr::state(QpState::Reset))?;
    b.silence();
    p.has_no_completions()?;
    bring(b, &p.qp, QpState::Rts)?;
    p.recv(3, 128, 64)?;
    p.fill(1024, 64, 5);
    p.post(4, SendOp::Send, 1024, 64)?;
    p.sent(4, WcStatus::Success)?;
    p.received(3, WcStatus::Success)?;
    p.has(128, 64, 5)
}

/// In Sqd, posted work requests wait. After the return to Rts, they are executed (IB specification,
/// 10.3.1.5).
pub(crate) fn sqd_holds_back<P: Provider>(b: &Bench<P>) -> CheckStep {
    let p = b.loopback(&b.options(QpType::Rc))?;
    p.qp.modify(&QpAttr::state(QpState::Sqd))?;
    same("the state", p.qp.state()?, QpState::Sqd)?;
    p.fill(0, 64, 3);
    p.post(1, SendOp::Write(p.remote.at(1024)), 0, 64)?;
    b.sleep(Span::from_ms(20));
    p.has_no_completions()?;
    p.is_untouched(1024, 64)?;
    p.qp.modify(&QpAttr::state(QpState::Rts))?;
    p.sent(1, WcStatus::Success)?;
    p.has(1024, 64, 3)
}
