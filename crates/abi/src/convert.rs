//! Conversions between the enumerations of `doorbell_verbs` and verbs.h.

use doorbell_verbs::{AccessFlags, LinkLayer, Mtu, Opcode, QpState, QpType, SendFlags, WcOpcode, WcStatus};

/// An enumeration that is numbered in verbs.h.
pub trait CEnum: Sized {
    /// The number in verbs.h.
    fn to_c(self) -> u32;

    /// The value with this number. `None` if `doorbell_verbs` does not define it.
    fn from_c(code: u32) -> Option<Self>;
}

macro_rules! numbered {
    ($($type:ident { $($variant:ident = $code:literal),* $(,)? })*) => {$(
        impl CEnum for $type {
            fn to_c(self) -> u32 {
                match self { $($type::$variant => $code),* }
            }

            fn from_c(code: u32) -> Option<$type> {
                match code { $($code => Some($type::$variant),)* _ => None }
            }
        }
    )*};
}

numbered! {
    QpType { Rc = 2, Uc = 3, Ud = 4 }
    QpState { Reset = 0, Init = 1, Rtr = 2, Rts = 3, Sqd = 4, Sqe = 5, Err = 6 }
    Opcode {
        Write = 0, WriteWithImm = 1, Send = 2, SendWithImm = 3, Read = 4, CompareSwap = 5, FetchAdd = 6,
    }
    WcOpcode { Send = 0, Write = 1, Read = 2, CompareSwap = 3, FetchAdd = 4, Recv = 128, RecvWriteWithImm = 129 }
    WcStatus {
        Success = 0, LocLenErr = 1, LocQpOpErr = 2, LocProtErr = 4, WrFlushErr = 5, MwBindErr = 6, BadRespErr = 7,
        LocAccessErr = 8, RemInvReqErr = 9, RemAccessErr = 10, RemOpErr = 11, RetryExcErr = 12,
        RnrRetryExcErr = 13, GeneralErr = 21,
    }
    Mtu { Mtu256 = 1, Mtu512 = 2, Mtu1024 = 3, Mtu2048 = 4, Mtu4096 = 5 }
    LinkLayer { Infiniband = 1, Ethernet = 2 }
}

// The flag sets use the bits of verbs.h.
const _: () = {
    assert!(AccessFlags::LOCAL_WRITE.bits() == 1);
    assert!(AccessFlags::REMOTE_WRITE.bits() == 2);
    assert!(AccessFlags::REMOTE_READ.bits() == 4);
    assert!(AccessFlags::REMOTE_ATOMIC.bits() == 8);
    assert!(SendFlags::FENCE.bits() == 1);
    assert!(SendFlags::SIGNALED.bits() == 2);
    assert!(SendFlags::SOLICITED.bits() == 4);
    assert!(SendFlags::INLINE.bits() == 8);
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the numbers that have a name, and checks that each converts back to itself.
    fn named<T: CEnum>() -> usize {
        (0..256).filter(|&code| T::from_c(code).is_some_and(|value| value.to_c() == code)).count()
    }

    #[test]
    fn every_number_leads_back_to_itself() {
        let counts = [
            named::<QpType>(),
            named::<QpState>(),
            named::<Opcode>(),
            named::<WcOpcode>(),
            named::<WcStatus>(),
            named::<Mtu>(),
            named::<LinkLayer>(),
        ];
        assert_eq!(counts, [3, 7, 7, 7, 14, 5, 2]);
    }

    #[test]
    fn numbers_without_a_name_are_refused() {
        assert_eq!(QpType::from_c(8), None); // raw packet
        assert_eq!(WcStatus::from_c(22), None); // response time-out
        assert_eq!(Mtu::from_c(0), None);
    }
}
