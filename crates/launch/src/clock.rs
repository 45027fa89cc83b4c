//! Clocks of the kernel.
//!
//! rustix has these calls, but it reads the vDSO by itself. A process under valgrind has no vDSO, and rustix
//! crashes there.

use std::time::Duration;

/// Nanoseconds of CLOCK_MONOTONIC, which all processes share.
pub fn monotonic_ns() -> u64 {
    time_of(libc::CLOCK_MONOTONIC).as_nanos() as u64
}

/// The processor time that this process has used.
pub fn processor_time() -> Duration {
    time_of(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn time_of(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel only writes to the struct.
    let failed = unsafe { libc::clock_gettime(clock, &mut time) };
    assert_eq!(failed, 0, "every process has clock {clock}");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
