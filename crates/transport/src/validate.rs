//! Checks that ibv_post_send(3) and ibv_post_recv(3) make at the call.

use crate::Refused;
use crate::causes::*;
use crate::names::{opcode_name, state_name};
use doorbell_verbs::{Mtu, QpState, QpType, SendFlags, SendWr, UdDest};

/// Longest message in bytes (IB specification vol. 1, 9.7.7: 2^31).
pub const MAX_MESSAGE_BYTES: u32 = 1 << 31;

/// The properties of a QP that decide whether it accepts a send work request.
#[derive(Clone, Copy, Debug)]
pub struct SendShape {
    /// Transport.
    pub qp_type: QpType,
    /// State.
    pub state: QpState,
    /// Most SGEs of a send work request.
    pub max_send_sge: u32,
    /// Maximum number of bytes of inline payload.
    pub max_inline_data: u32,
    /// Path MTU; on UD the port's MTU.
    pub path_mtu: Mtu,
}

impl SendShape {
    /// Checks that the state, the transport, the queue's sizes and the message's length allow the work
    /// request. Returns the message's length. The lkeys are checked when the work request is carried out.
    #[inline(always)]
    pub fn check(&self, wr: &SendWr<'_>) -> Result<u32, Refused> {
        self.check_offered(wr)?;
        // A list that is too long is refused before its SGEs are read, because these SGEs need not exist.
        if wr.sg_list.len() > self.max_send_sge as usize {
            return Err(SEND_NUM_SGE.of([&wr.sg_list.len(), &self.max_send_sge]));
        }
        self.check_message(wr, wr.length(), wr.flags.contains(SendFlags::INLINE))
    }

    /// Checks a work request whose inline payload of `len` bytes was already copied. Returns the message's
    /// length.
    #[inline]
    pub fn check_copied(&self, wr: &SendWr<'_>, len: usize) -> Result<u32, Refused> {
        self.check_offered(wr)?;
        self.check_message(&SendWr { sg_list: &[], ..*wr }, len as u64, true)
    }

    #[inline(always)]
    fn check_message(&self, wr: &SendWr<'_>, len: u64, inline: bool) -> Result<u32, Refused> {
        let len = self.check_length(wr, len, inline)?;
        self.check_dest(wr.dest)?;
        Ok(len)
    }

    /// Checks that the state and the transport allow the verb.
    #[inline(always)]
    fn check_offered(&self, wr: &SendWr<'_>) -> Result<(), Refused> {
        if matches!(self.state, QpState::Reset | QpState::Init | QpState::Rtr) {
            return Err(SEND_STATE.of([&state_name(self.state)]));
        }
        let opcode = wr.op.opcode();
        match opcode.is_offered_by(self.qp_type) {
            true => Ok(()),
            false => Err(SEND_OPCODE.of([&opcode_name(opcode), &self.qp_type])),
        }
    }

    /// Checks the length of a work request's message, and returns it.
    #[inline(always)]
    fn check_length(&self, wr: &SendWr<'_>, len: u64, inline: bool) -> Result<u32, Refused> {
        let opcode = wr.op.opcode();
        // The errors refer to copies of `len`, so that `len` itself stays in a register.
        if len > u64::from(MAX_MESSAGE_BYTES) {
            return Err(SEND_LENGTH.of([&{ len }, &MAX_MESSAGE_BYTES]));
        }
        if self.qp_type == QpType::Ud && len > u64::from(self.path_mtu.bytes()) {
            return Err(SEND_MTU.of([&{ len }, &self.path_mtu.bytes()]));
        }
        if opcode.is_atomic() && (len != 8 || wr.sg_list.len() != 1) {
            return Err(SEND_ATOMIC.of([&wr.sg_list.len(), &{ len }]));
        }
        if inline {
            if opcode.returns_data() {
                return Err(SEND_INLINE_FLAG.of([&opcode_name(opcode)]));
            }
            if len > u64::from(self.max_inline_data) {
                return Err(SEND_INLINE_LENGTH.of([&{ len }, &self.max_inline_data]));
            }
        }
        Ok(len as u32)
    }

    #[inline(always)]
    fn check_dest(&self, dest: Option<UdDest>) -> Result<(), Refused> {
        match (self.qp_type, dest) {
            (QpType::Ud, None) => Err(SEND_NO_AH.bare()),
            (QpType::Ud, Some(dest)) if dest.qpn > 0xff_ffff => Err(SEND_REMOTE_QPN.of([&dest.qpn])),
            (QpType::Rc | QpType::Uc, Some(_)) => Err(SEND_DEST.of([&self.qp_type])),
            _ => Ok(()),
        }
    }
}

/// Checks that RECVs may be posted to a QP's own receive queue: in every state but Reset.
#[inline]
pub fn check_post_recv(state: QpState, uses_srq: bool) -> Result<(), Refused> {
    if uses_srq {
        return Err(RECV_SRQ.bare());
    }
    if state == QpState::Reset {
        return Err(RECV_STATE.bare());
    }
    Ok(())
}
