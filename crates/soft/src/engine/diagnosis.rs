//! Determines why a work request was refused or not answered, by repeating the checks. The checks before the
//! refusal record no cause, because nearly all checks succeed.

use super::request::Request;
use crate::fabric::link::Link;
use crate::fabric::peer::Owner;
use crate::fabric::process::Process;
use crate::memory::cause::{Cause, Check, Memory};
use crate::memory::records::{DESTROYED, QpRecord};
use crate::memory::regions::{Place, find_in};
use crate::memory::segment::Segment;
use crate::memory::transfer::is_missing;
use crate::memory::window::domain_like;
use crate::rings::recvs::{Front, Slots};
use doorbell_abi::CEnum;
use doorbell_transport::{KeyError, check_enabled, local_rights, takes_requests};
use doorbell_verbs::{AccessFlags, GlobalRoute, QpState, QpType, SendFlags, SendOp, Sge};
use std::sync::atomic::Ordering::*;

/// An access to memory whose checks are repeated.
#[derive(Clone, Copy)]
struct CheckedAccess {
    memory: Memory,
    pd: u32,
    key: u32,
    addr: u64,
    len: u64,
    need: AccessFlags,
}

impl CheckedAccess {
    fn cause(&self, check: Check, found: u64, other: u64) -> Cause {
        Cause { check, key: self.key, addr: self.addr, len: self.len, found, other }
    }

    /// Why the access is refused; `None` if it is allowed. The checks come in their usual order. `place` is
    /// the region with the key.
    fn refused(&self, place: Option<Place>) -> Option<Cause> {
        let key = |error| Check::Key(self.memory, error);
        let Some(place) = place else { return Some(self.cause(key(KeyError::Unknown), 0, 0)) };
        let error = place.check(self.pd, self.addr, self.len, self.need).err()?;
        let region = place.region;
        let (found, other) = match error {
            KeyError::Unknown => (0, 0),
            KeyError::ProtectionDomain => (region.pd.into(), self.pd.into()),
            KeyError::Bounds => (region.addr, region.len),
            KeyError::Rights => ((self.need - region.access).bits().into(), 0),
        };
        Some(self.cause(key(error), found, other))
    }

    /// Why a refused access was refused. If all checks succeed, the memory itself was not mapped.
    fn must_be_refused(&self, place: Option<Place>) -> Cause {
        self.refused(place).unwrap_or_else(|| self.cause(Check::NotThere(self.memory), 0, 0))
    }
}

/// Why the requester's own memory cannot be used.
pub(crate) fn local(process: &Process, pd: u32, request: &Request<'_>) -> Cause {
    let need = local_rights(request.op.opcode());
    let is_inline = request.flags.contains(SendFlags::INLINE);
    let used = || request.sg_list.iter().filter(|sge| sge.length > 0 && !is_inline);
    let refused = used().find_map(|sge| of_sge(process, Memory::Local, pd, sge, need));
    refused
        .or_else(|| used().find_map(|sge| missing(process, sge, need)))
        .unwrap_or(Cause::of(Check::Changed, 0))
}

/// The cause if the memory of an SGE is not mapped for the access, although its region exists. `None`
/// otherwise.
fn missing(process: &Process, sge: &Sge, need: AccessFlags) -> Option<Cause> {
    let place = process.regions.find(sge.lkey)?;
    let begin = place.host.wrapping_add(sge.addr.wrapping_sub(place.region.addr));
    let bytes = begin..begin.saturating_add(sge.length.into());
    let (key, addr, len) = (sge.lkey, sge.addr, sge.length.into());
    let cause = Cause { key, addr, len, ..Cause::of(Check::NotThere(Memory::Local), 0) };
    is_missing(bytes, need.contains(AccessFlags::LOCAL_WRITE)).then_some(cause)
}

/// Why an SGE of this process does not allow this access; `None` if it does.
pub(crate) fn of_sge(
    process: &Process,
    memory: Memory,
    pd: u32,
    sge: &Sge,
    need: AccessFlags,
) -> Option<Cause> {
    let len = sge.length.into();
    let access = CheckedAccess { memory, pd, key: sge.lkey, addr: sge.addr, len, need };
    access.refused(process.regions.find(sge.lkey))
}

/// The memory of a responder.
#[derive(Clone, Copy)]
pub(super) struct ResponderMemory<'a> {
    pub(super) process: &'static Process,
    pub(super) owner: Owner<'a>,
    pub(super) segment: &'a Segment,
}

impl ResponderMemory<'_> {
    fn region(&self, key: u32) -> Option<Place> {
        match self.owner {
            Owner::This => self.process.regions.find(key),
            Owner::Peer(_) => find_in(self.segment, key).ok().flatten(),
        }
    }

    /// Why a QP refuses a one-sided request for `len` bytes. The QP is given by its record, protection domain
    /// and number.
    pub(super) fn remote(&self, (qp, pd, qpn): (&QpRecord, u32, u32), op: &SendOp, len: u32) -> Cause {
        let (remote, need, len) = match *op {
            SendOp::Send | SendOp::SendWithImm(_) => return Cause::of(Check::Changed, 0),
            SendOp::Write(remote) | SendOp::WriteWithImm(remote, _) => {
                (remote, AccessFlags::REMOTE_WRITE, u64::from(len))
            }
            SendOp::Read(remote) => (remote, AccessFlags::REMOTE_READ, u64::from(len)),
            SendOp::CompareSwap { remote, .. } | SendOp::FetchAdd { remote, .. } => {
                (remote, AccessFlags::REMOTE_ATOMIC, 8)
            }
        };
        let access =
            CheckedAccess { memory: Memory::Remote, pd, key: remote.rkey, addr: remote.addr, len, need };
        let enabled = AccessFlags::from_bits_truncate(qp.access.load(Relaxed));
        let most = qp.max_dest_rd_atomic.load(Relaxed).min(u8::MAX.into()) as u8;
        if check_enabled(need, remote.addr, enabled, most).is_err() {
            return match enabled.contains(need) {
                false => access.cause(Check::NotEnabled, (need - enabled).bits().into(), 0),
                true if most == 0 && need != AccessFlags::REMOTE_WRITE => {
                    access.cause(Check::NoResources, 0, 0)
                }
                true => access.cause(Check::Misaligned, 0, 0),
            };
        }
        let place = self.region(remote.rkey);
        if need == AccessFlags::REMOTE_ATOMIC
            && let Some(offset) =
                place.and_then(|place| place.check_remote((pd, qpn), remote.addr, 8, need).ok())
            && !place.is_some_and(|place| place.host.wrapping_add(offset).is_multiple_of(8))
        {
            return access.cause(Check::Misaligned, 0, 0);
        }
        // The record of a window has a window domain in place of a protection domain, see `domain_like`.
        let domain = place.and_then(|place| domain_like(place.region.pd, pd, qpn)).unwrap_or(pd);
        CheckedAccess { pd: domain, ..access }.must_be_refused(place)
    }

    /// Why the oldest RECV cannot take a message of `total` bytes. `pd` is the protection domain of the
    /// RECV's queue.
    pub(super) fn recv(&self, front: &Front<'_>, pd: u32, total: u64) -> Cause {
        let (sges, room) = front.room();
        let mut left = total;
        for sge in (0..sges).map_while(|n| front.sge(n)) {
            let len = left.min(sge.length.into());
            left -= len;
            let need = AccessFlags::LOCAL_WRITE;
            let access = CheckedAccess { memory: Memory::Recv, pd, key: sge.lkey, addr: sge.addr, len, need };
            // The length of a message is checked before its keys.
            if len > 0
                && total <= room.into()
                && let Some(cause) = access.refused(self.region(sge.lkey))
            {
                return cause;
            }
        }
        match total > room.into() {
            true => Cause { len: total, ..Cause::of(Check::RecvTooSmall, room.into()) },
            false => Cause { len: total, ..Cause::of(Check::NotThere(Memory::Recv), 0) },
        }
    }
}

/// A message that gets no answer, as its requester has sent it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unanswered {
    pub(crate) from: u32,
    pub(crate) qp_type: QpType,
    pub(crate) dest_qpn: u32,
    pub(crate) psn: u32,
    pub(crate) qkey: u32,
    /// Type of the responder QPs, as in their records.
    pub(crate) responder_type: u32,
}

/// The cause for a path with this LID or route, which leads to no port.
pub(crate) fn nowhere(dlid: u16, route: Option<GlobalRoute>) -> Cause {
    let Some(route) = route else { return Cause::of(Check::Lid, dlid.into()) };
    let gid = u128::from_be_bytes(route.dgid.0);
    Cause { other: gid as u64, ..Cause::of(Check::Gid, (gid >> 64) as u64) }
}

/// The cause if the process of a QP has exited. Its segment may still be open here, because this process
/// notices the exit of a peer a moment later.
pub(crate) fn ended(process: &'static Process, qpn: u32) -> Option<Cause> {
    let peer = process.peer(qpn).filter(|peer| peer.has_ended())?;
    Some(Cause::of(Check::Ended, peer.member.number().into()))
}

/// Why a request gets no answer although its path leads to this fabric's port.
pub(crate) fn silent(process: &'static Process, sent: &Unanswered) -> Cause {
    if let Some(cause) = ended(process, sent.dest_qpn) {
        return cause;
    }
    if let Some(cause) = process.look_at(sent.dest_qpn, |segment| Some(deaf(segment, sent))) {
        let waits =
            || process.peer(sent.dest_qpn).is_some_and(|peer| peer.link.as_ref().is_some_and(Link::waits));
        return if cause.check == Check::Changed && waits() { Cause::of(Check::NoAnswer, 0) } else { cause };
    }
    match process.last_seen(sent.dest_qpn) {
        Some(pid) if process.has_peer(sent.dest_qpn) => Cause::of(Check::OutOfReach, pid.into()),
        Some(pid) => Cause::of(Check::Ended, pid.into()),
        None => Cause::of(Check::NoProcess, 0),
    }
}

/// Why a message of `total` bytes, with the room for the GRH, does not fit into the responder's oldest RECV.
/// `None` if that RECV was used up, as every RECV of an SRQ is.
pub(crate) fn too_long(process: &'static Process, dest_qpn: u32, total: u64) -> Option<Cause> {
    let room = process.look_at(dest_qpn, |segment| {
        let qp = segment.qp(segment.index_of(dest_qpn)).filter(|qp| qp.uses_srq.load(Relaxed) == 0)?;
        let rq = segment.rq(qp.rq.load(Relaxed) as usize)?;
        let slots = Slots::of(segment, rq)?;
        let front = slots.front(rq.generation.load(Acquire)).ok()?;
        Some(front.room().1)
    });
    let room = room.map(u64::from).filter(|room| *room < total)?;
    Some(Cause { len: total, ..Cause::of(Check::RecvTooSmall, room) })
}

/// Why a QP does not take a message.
fn deaf(segment: &Segment, sent: &Unanswered) -> Cause {
    let Some(qp) = segment.qp(segment.index_of(sent.dest_qpn)) else {
        return Cause::of(Check::NoProcess, 0);
    };
    let (state, qp_type) = (qp.shown().state(), qp.qp_type.load(Relaxed));
    let (dest, psn, qkey) = (qp.dest_qpn.load(Relaxed), qp.rq_psn.load(Relaxed), qp.qkey.load(Relaxed));
    let connected = sent.qp_type != QpType::Ud;
    if state == DESTROYED {
        Cause::of(Check::Destroyed, 0)
    } else if qp.generation.load(Relaxed) == 0 {
        Cause::of(Check::NoQp, 0)
    } else if !QpState::from_c(state).is_some_and(takes_requests) {
        Cause::of(Check::State, state.into())
    } else if qp_type != sent.responder_type {
        Cause::of(Check::Type, qp_type.into())
    } else if connected && dest != sent.from {
        Cause::of(Check::Dest, dest.into())
    } else if sent.qp_type == QpType::Rc && psn != sent.psn {
        Cause { other: sent.psn.into(), ..Cause::of(Check::Psn, psn.into()) }
    } else if !connected && qkey != sent.qkey {
        Cause { other: sent.qkey.into(), ..Cause::of(Check::Qkey, qkey.into()) }
    } else {
        Cause::of(Check::Changed, 0)
    }
}
