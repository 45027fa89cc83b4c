//! Retries of a requester: their times and limits.

use doorbell_verbs::{Span, WcStatus};

/// The value of `rnr_retry` that means no limit.
const RNR_UNLIMITED: u8 = 7;

/// Units of 10 us for each code (IB specification vol. 1, 9.7.5.2.8, table 45).
const TENS_OF_US: [u32; 32] = [
    65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024, 1_536, 2_048,
    3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768, 49_152,
];

/// The time that a requester waits after an RNR NAK with this code (its low 5 bits).
pub fn rnr_wait(code: u8) -> Span {
    Span::from_us(10 * u64::from(TENS_OF_US[usize::from(code & 31)]))
}

/// The time that a requester waits for an answer: 4.096 us * 2^code. Code 0 gives zero, which means forever
/// (IB specification vol. 1, 9.7.6.1.3).
pub fn ack_timeout(code: u8) -> Span {
    if code == 0 { Span::ZERO } else { Span::from_ns(4096) * (1 << code) }
}

/// Remaining retries of a requester (IB specification vol. 1, 9.7.5.1.4 and 9.7.5.2.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retries {
    unanswered: u8,
    rnr_naks: u8,
}

impl Retries {
    /// The retries that these attributes allow.
    pub const fn new(retry_cnt: u8, rnr_retry: u8) -> Retries {
        Retries { unanswered: retry_cnt, rnr_naks: rnr_retry }
    }

    /// Uses a retry, because no answer arrived or because an answer shows a loss. If no retry is left,
    /// returns the status with which the work request fails.
    pub fn take_unanswered(&mut self) -> Result<(), WcStatus> {
        self.unanswered = self.unanswered.checked_sub(1).ok_or(WcStatus::RetryExcErr)?;
        Ok(())
    }

    /// Uses a retry, because the responder had no RECV. If no retry is left, returns the status with which
    /// the work request fails.
    pub fn take_rnr_nak(&mut self) -> Result<(), WcStatus> {
        if self.rnr_naks != RNR_UNLIMITED {
            self.rnr_naks = self.rnr_naks.checked_sub(1).ok_or(WcStatus::RnrRetryExcErr)?;
        }
        Ok(())
    }
}

/// Repeated transmissions of a requester since its QP was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repeats {
    /// RNR NAKs after which the requester waited.
    pub rnr_naks: u32,
    /// Time-outs of answers.
    pub timeouts: u32,
    /// Packets that were sent again, for any reason.
    pub packets: u32,
}
