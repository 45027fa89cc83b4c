//! Checks that ibv_post_send(3) and ibv_post_recv(3) make at the call.

use doorbell_verbs::{Mtu, QpState, QpType, SendFlags, SendWr, UdDest, VerbsError, verb_not_offered};

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
    /// Most bytes of inline payload.
    pub max_inline_data: u32,
    /// Path MTU; on UD the port's MTU.
    pub path_mtu: Mtu,
}

impl SendShape {
    /// Checks that the state, the transport, the queue's sizes and the message's length allow the work
    /// request. Returns the message's length. The lkeys are checked when the work request is carried out.
    #[inline(always)]
    pub fn check(&self, wr: &SendWr<'_>) -> Result<u32, VerbsError> {
        self.check_offered(wr)?;
        // A list that is too long is refused before its SGEs are read, because these SGEs need not exist.
        let (sges, most) = (wr.sg_list.len(), self.max_send_sge);
        if sges > most as usize {
            return Err(invalid(|| {
                format!("a send work request has {sges} SGEs; at most {most} are allowed")
            }));
        }
        self.check_message(wr, wr.length(), wr.flags.contains(SendFlags::INLINE))
    }

    /// Checks a work request whose inline payload of `len` bytes was already copied. Returns the message's
    /// length.
    #[inline]
    pub fn check_copied(&self, wr: &SendWr<'_>, len: usize) -> Result<u32, VerbsError> {
        self.check_offered(wr)?;
        self.check_message(&SendWr { sg_list: &[], ..*wr }, len as u64, true)
    }

    #[inline(always)]
    fn check_message(&self, wr: &SendWr<'_>, len: u64, inline: bool) -> Result<u32, VerbsError> {
        let len = self.check_length(wr, len, inline)?;
        self.check_dest(wr.dest)?;
        Ok(len)
    }

    /// Checks that the state and the transport allow the verb.
    #[inline(always)]
    fn check_offered(&self, wr: &SendWr<'_>) -> Result<(), VerbsError> {
        if matches!(self.state, QpState::Reset | QpState::Init | QpState::Rtr) {
            return Err(invalid(|| {
                format!("ibv_post_send on a QP in state {:?}; it must be in Rts", self.state)
            }));
        }
        let opcode = wr.op.opcode();
        if opcode.is_offered_by(self.qp_type) { Ok(()) } else { Err(verb_not_offered(opcode, self.qp_type)) }
    }

    /// Checks the length of a work request's message, and returns it.
    #[inline(always)]
    fn check_length(&self, wr: &SendWr<'_>, len: u64, inline: bool) -> Result<u32, VerbsError> {
        let opcode = wr.op.opcode();
        if len > u64::from(MAX_MESSAGE_BYTES) {
            return Err(invalid(|| {
                format!("a message has {len} bytes; at most {MAX_MESSAGE_BYTES} are allowed")
            }));
        }
        if self.qp_type == QpType::Ud && len > u64::from(self.path_mtu.bytes()) {
            let mtu = self.path_mtu.bytes();
            return Err(invalid(|| format!("a UD message has {len} bytes, but the MTU allows {mtu}")));
        }
        if opcode.is_atomic() && (len != 8 || wr.sg_list.len() != 1) {
            let sges = wr.sg_list.len();
            return Err(invalid(|| {
                format!("an atomic needs one SGE of 8 bytes, but has {sges} with {len} bytes")
            }));
        }
        if inline {
            if opcode.returns_data() {
                return Err(invalid(|| format!("{opcode:?} cannot be inline, only SEND and WRITE can")));
            }
            if len > u64::from(self.max_inline_data) {
                return Err(invalid(|| {
                    format!("an inline payload has {len} bytes; at most {} are allowed", self.max_inline_data)
                }));
            }
        }
        Ok(len as u32)
    }

    #[inline(always)]
    fn check_dest(&self, dest: Option<UdDest>) -> Result<(), VerbsError> {
        match (self.qp_type, dest) {
            (QpType::Ud, None) => Err(invalid(|| "a UD SEND needs a destination".into())),
            (QpType::Ud, Some(dest)) if dest.qpn > 0xff_ffff => {
                Err(invalid(|| format!("destination QP {:#x} has more than 24 bits", dest.qpn)))
            }
            (QpType::Rc | QpType::Uc, Some(_)) => {
                Err(invalid(|| format!("a work request on {} takes no destination", self.qp_type)))
            }
            _ => Ok(()),
        }
    }
}

/// Makes an error. This function keeps the formatting of messages out of the fast path.
#[cold]
#[inline(never)]
fn invalid(why: impl FnOnce() -> String) -> VerbsError {
    VerbsError::Invalid(why())
}

/// Checks that RECVs may be posted to a QP's own receive queue: in every state but Reset.
#[inline]
pub fn check_post_recv(state: QpState, uses_srq: bool) -> Result<(), VerbsError> {
    if uses_srq {
        return Err(VerbsError::Invalid("the QP takes its RECVs from an SRQ; post them there".into()));
    }
    if state == QpState::Reset {
        return Err(VerbsError::Invalid(
            "ibv_post_recv on a QP in state Reset; bring it to Init first".into(),
        ));
    }
    Ok(())
}
