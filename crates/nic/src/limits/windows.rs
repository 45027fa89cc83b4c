//! Bounds from the number of outstanding operations.

use super::latency::LatencyWay;
use super::mix::{Mix, NS_PER_US, Outstanding};
use super::operation_end::OperationEnd;
use super::terms::{InFlight, Limit, Terms};
use crate::{Digits, Resource, counted};

/// Little's law: the number of outstanding operations divided by the time of one operation. The first bound
/// is for all work requests. The second is for READs and atomics, because the NICs limit their number per QP.
pub(super) fn windows(
    requester: &OperationEnd<'_>,
    responder: &OperationEnd<'_>,
    mix: &Mix,
    under_way: &Outstanding,
) -> [Limit; 2] {
    let bound = |by: InFlight, outstanding: u64, what: String, steps: Terms| {
        let text = format!("{what} outstanding, at least {} ns each", Digits(steps.sum(), 0));
        Limit::new(Resource::Latency, outstanding as f64 * NS_PER_US, steps, text).by(Some(by))
    };
    let can = |side: &OperationEnd<'_>| side.profile.device.nic.max_rd_atomic;
    let of_a_qp = can(requester).min(can(responder)).min(mix.max_rd_atomic);
    let reads = under_way.lanes * u64::from(of_a_qp);
    let in_the_nics = match mix.opcode.returns_data() {
        true => LatencyWay::in_the_nics(requester, responder, mix),
        false => Terms::default(),
    };
    let mut whole = LatencyWay::whole(requester, responder, mix);
    whole.once("think time before the next post", mix.think.as_ps());
    [
        bound(InFlight::Window, under_way.operations, counted(under_way.operations, "operation"), whole),
        bound(
            InFlight::Reads,
            reads,
            match reads {
                1 => "1 READ or atomic of the QPs".to_owned(),
                _ => format!("{reads} READs or atomics of the QPs"),
            },
            in_the_nics,
        ),
    ]
}
