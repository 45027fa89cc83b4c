//! Strings for status codes and event types, and conversions of rates.

use libc::{c_char, c_int};
use std::ffi::CStr;

fn name(names: &[&'static CStr], number: u32) -> *const c_char {
    names.get(number as usize).copied().unwrap_or(c"unknown").as_ptr()
}

pub unsafe extern "C" fn ibv_wc_status_str(status: u32) -> *const c_char {
    name(
        &[
            c"success",
            c"local length error",
            c"local QP operation error",
            c"local EE context operation error",
            c"local protection error",
            c"Work Request Flushed Error",
            c"memory window bind error",
            c"bad response error",
            c"local access error",
            c"remote invalid request error",
            c"remote access error",
            c"remote operation error",
            c"transport retry counter exceeded",
            c"RNR retry counter exceeded",
            c"local RDD violation error",
            c"remote invalid RD request",
            c"aborted error",
            c"invalid EE context number",
            c"invalid EE context state",
            c"fatal error",
            c"response timeout error",
            c"general error",
            c"TM error",
            c"TM software rendezvous",
        ],
        status,
    )
}

pub unsafe extern "C" fn ibv_event_type_str(event_type: u32) -> *const c_char {
    name(
        &[
            c"CQ error",
            c"local work queue catastrophic error",
            c"invalid request local work queue error",
            c"local access violation work queue error",
            c"communication established",
            c"send queue drained",
            c"path migrated",
            c"path migration request error",
            c"local catastrophic error",
            c"port active",
            c"port error",
            c"LID change",
            c"P_Key change",
            c"SM change",
            c"SRQ catastrophic error",
            c"SRQ limit reached",
            c"last WQE reached",
            c"client reregistration",
            c"GID table change",
            c"WQ fatal",
        ],
        event_type,
    )
}

pub unsafe extern "C" fn ibv_node_type_str(node_type: c_int) -> *const c_char {
    name(
        &[
            c"unknown",
            c"InfiniBand channel adapter",
            c"InfiniBand switch",
            c"InfiniBand router",
            c"iWARP NIC",
        ],
        u32::try_from(node_type).unwrap_or(0),
    )
}

pub unsafe extern "C" fn ibv_port_state_str(state: u32) -> *const c_char {
    name(&[c"no state change (NOP)", c"down", c"init", c"armed", c"active", c"active defer"], state)
}

/// The values of `enum ibv_rate`: number, rate in Mb/s, and multiple of 2.5 Gb/s. A rate without a multiple
/// in rdma-core has [`NO_MULT`].
const RATES: [(c_int, c_int, c_int); 23] = [
    (2, 2500, 1),
    (3, 10000, 4),
    (4, 30000, 12),
    (5, 5000, 2),
    (6, 20000, 8),
    (7, 40000, 16),
    (8, 60000, 24),
    (9, 80000, 32),
    (10, 120_000, 48),
    (11, 14062, NO_MULT),
    (12, 56250, NO_MULT),
    (13, 112_500, NO_MULT),
    (14, 168_750, NO_MULT),
    (15, 25781, NO_MULT),
    (16, 103_125, NO_MULT),
    (17, 206_250, NO_MULT),
    (18, 309_375, NO_MULT),
    (19, 28125, 11),
    (20, 53125, 20),
    (21, 425_000, 160),
    (22, 637_500, 240),
    (23, 850_000, 320),
    (24, 1_275_000, 480),
];

/// The result for a rate without a multiple, and for an unknown rate.
const NO_MULT: c_int = -1;

/// The first rate that `is_it` accepts; `IBV_RATE_MAX` if there is none.
fn rate_of(is_it: impl Fn(&(c_int, c_int, c_int)) -> bool) -> c_int {
    RATES.iter().find(|entry| is_it(entry)).map_or(0, |entry| entry.0)
}

fn rate_to(rate: c_int, value: impl Fn(&(c_int, c_int, c_int)) -> c_int) -> c_int {
    RATES.iter().find(|entry| entry.0 == rate).map_or(NO_MULT, value)
}

pub unsafe extern "C" fn ibv_rate_to_mult(rate: c_int) -> c_int {
    rate_to(rate, |&(_, _, mult)| mult)
}

pub unsafe extern "C" fn mult_to_ibv_rate(mult: c_int) -> c_int {
    rate_of(|&(_, _, known)| known == mult && mult != NO_MULT)
}

pub unsafe extern "C" fn ibv_rate_to_mbps(rate: c_int) -> c_int {
    rate_to(rate, |&(_, mbps, _)| mbps)
}

pub unsafe extern "C" fn mbps_to_ibv_rate(mbps: c_int) -> c_int {
    rate_of(|&(_, known, _)| known == mbps)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results are those of rdma-core 44 for all numbers.
    #[test]
    fn rates_are_converted_as_by_rdma_core() {
        // SAFETY: the functions take numbers.
        unsafe {
            for (rate, mbps, mult) in [(2, 2500, 1), (12, 56250, -1), (13, 112_500, -1), (19, 28125, 11)] {
                assert_eq!((ibv_rate_to_mbps(rate), ibv_rate_to_mult(rate)), (mbps, mult), "rate {rate}");
                assert_eq!(mbps_to_ibv_rate(mbps), rate);
            }
            let known = |rate: &c_int| ibv_rate_to_mbps(*rate) != -1;
            assert!((0..100).filter(known).eq(2..=24));
            let with_mult = (0..100).filter(|rate| ibv_rate_to_mult(*rate) != -1);
            assert!(with_mult.eq((2..=10).chain(19..=24)));
            assert!((2..=24).all(|rate| mbps_to_ibv_rate(ibv_rate_to_mbps(rate)) == rate));
            assert!((19..=24).all(|rate| mult_to_ibv_rate(ibv_rate_to_mult(rate)) == rate));
            assert_eq!([mult_to_ibv_rate(-1), mult_to_ibv_rate(10), mbps_to_ibv_rate(1)], [0; 3]);
        }
    }
}
