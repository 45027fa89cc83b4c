//! Processor time of the child processes, and of all programs.

use std::time::Duration;

/// Unit of the times in `/proc/self/stat` and `/proc/stat`. Linux reports hundredths of a second to user
/// space on every architecture that Rust supports.
const TICKS_PER_SECOND: u64 = 100;

/// User and system time of all children that were waited for, and of their descendants. `None` if `/proc`
/// does not provide it.
pub(crate) fn time_of_children() -> Option<Duration> {
    parse(&std::fs::read_to_string("/proc/self/stat").ok()?)
}

/// Reads the times of children. The program's name, in parentheses, may contain spaces. So fields are counted
/// from the closing parenthesis.
fn parse(stat: &str) -> Option<Duration> {
    let (_, fields) = stat.rsplit_once(')')?;
    // Fields 16 and 17 of proc_pid_stat(5) are cutime and cstime. Field 3 is the first field after the
    // parenthesis.
    let mut fields = fields.split_whitespace().skip(16 - 3).map(str::parse::<u64>);
    let ticks = fields.next()?.ok()? + fields.next()?.ok()?;
    Some(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

/// Time for which these processors were not idle. It includes time that the host spent on other virtual
/// machines.
pub(crate) fn time_of_all(processors: &[u32]) -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/stat").ok()?;
    processors.iter().map(|number| busy(&stat, *number)).sum()
}

/// The busy time of one processor: fields 1 to 8 of proc_stat(5), without 4 (idle) and 5 (iowait).
fn busy(stat: &str, processor: u32) -> Option<Duration> {
    let line = stat.lines().find_map(|line| line.strip_prefix(&format!("cpu{processor} ")))?;
    let fields =
        line.split_whitespace().take(8).map(str::parse::<u64>).collect::<Result<Vec<_>, _>>().ok()?;
    let ticks = fields.iter().sum::<u64>() - fields.get(3)? - fields.get(4)?;
    Some(Duration::from_millis(ticks * 1000 / TICKS_PER_SECOND))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_is_busy_when_it_is_not_idle() {
        let stat =
            "cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 100 20 30 5000 600 1 2 47 0 0\ncpu1 0 0 0 7 0 0 0 100 0 0\n";
        assert_eq!(busy(stat, 0), Some(Duration::from_secs(2)));
        assert_eq!(busy(stat, 1), Some(Duration::from_secs(1)));
        assert_eq!(busy(stat, 2), None);
    }

    #[test]
    fn times_are_found_behind_a_name_with_spaces() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 4194304 109 0 0 0 11 12 250 50 20 0 1 0 9";
        assert_eq!(parse(stat), Some(Duration::from_secs(3)));
        assert_eq!(parse("7 (a) S 1"), None);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_child_that_computes_is_counted() {
        let before = time_of_children().expect("/proc says it");
        let mut child = std::process::Command::new("sh");
        child.args(["-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"]);
        assert!(child.status().expect("it runs").success());
        assert!(time_of_children().expect("/proc says it") > before);
    }
}
