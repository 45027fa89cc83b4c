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

/// The values of `enum ibv_rate` up to 300 Gb/s: number, multiple of 2.5 Gb/s, and rate in Mb/s.
const RATES: [(c_int, c_int, c_int); 17] = [
    (2, 1, 2500),
    (5, 2, 5000),
    (3, 4, 10000),
    (6, 8, 20000),
    (4, 12, 30000),
    (7, 16, 40000),
    (8, 24, 60000),
    (9, 32, 80000),
    (10, 48, 120000),
    (11, 5, 14062),
    (12, 45, 112500),
    (13, 22, 56250),
    (14, 67, 168750),
    (15, 10, 25781),
    (16, 40, 103125),
    (17, 80, 206250),
    (18, 120, 309375),
];

fn rate_to(rate: c_int, value: impl Fn(&(c_int, c_int, c_int)) -> c_int) -> c_int {
    RATES.iter().find(|entry| entry.0 == rate).map_or(-1, value)
}

pub unsafe extern "C" fn ibv_rate_to_mult(rate: c_int) -> c_int {
    rate_to(rate, |entry| entry.1)
}

pub unsafe extern "C" fn mult_to_ibv_rate(mult: c_int) -> c_int {
    RATES.iter().find(|entry| entry.1 == mult).map_or(0, |entry| entry.0)
}

pub unsafe extern "C" fn ibv_rate_to_mbps(rate: c_int) -> c_int {
    rate_to(rate, |entry| entry.2)
}

pub unsafe extern "C" fn mbps_to_ibv_rate(mbps: c_int) -> c_int {
    RATES.iter().find(|entry| entry.2 == mbps).map_or(0, |entry| entry.0)
}
