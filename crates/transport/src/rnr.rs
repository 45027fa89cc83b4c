//! RNR NAK timer codes.

use doorbell_verbs::Span;

/// Units of 10 us for each code (IB specification vol. 1, 9.7.5.2.8, table 45).
const TENS_OF_US: [u32; 32] = [
    65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024, 1_536, 2_048,
    3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768, 49_152,
];

/// The time that a requester waits after an RNR NAK with this code (its low 5 bits).
pub fn rnr_wait(code: u8) -> Span {
    Span::from_us(10 * u64::from(TENS_OF_US[usize::from(code & 31)]))
}
