//! Memory of this machine.

/// Bytes to assume if `/proc/meminfo` has no such line.
const USUAL: u64 = 4 << 30;

/// Bytes of available memory.
pub(super) fn left() -> u64 {
    line("MemAvailable:")
}

/// Bytes of total memory.
pub(super) fn of_machine() -> u64 {
    line("MemTotal:")
}

fn line(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.map_or(USUAL, |kib| kib * 1024)
}
