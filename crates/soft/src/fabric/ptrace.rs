//! Lets other processes of this user access this process's memory where Yama, a Linux security module, would
//! deny the access.
//!
//! Peers move bytes to and from private memory by process_vm_writev(2), which needs the right to ptrace(2)
//! the process. With a `ptrace_scope` of 1, Yama gives this right only to ancestors of the process. By
//! PR_SET_PTRACER(2const), a process may give the right to one other process or to all processes, but not to
//! the processes of a fabric.

use doorbell_launch::Ptrace;
use doorbell_launch::say::say;
use rustix::process::{PTracer, set_ptracer};

/// The file in which the kernel reports Yama's setting; absent without Yama.
const SCOPE: &str = "/proc/sys/kernel/yama/ptrace_scope";

/// Lets all processes of this user access this process's memory, if the setting allows it and Yama would deny
/// the access. Prints a message about it.
pub(crate) fn open() {
    let scope = std::fs::read_to_string(SCOPE).unwrap_or_default();
    if is_wanted() && helps(&scope) && set_ptracer(PTracer::Any).is_ok() {
        say(format_args!(
            "every process of this user may now read and write the memory of process {} \
             (PR_SET_PTRACER_ANY), because its peers need this access; with `doorbell run --ptrace no` a \
             thread of the process serves the peers instead",
            std::process::id()
        ));
    }
}

/// Whether peers may access this process's memory directly: `DOORBELL_PTRACE` is unset or `yes`.
pub(crate) fn is_wanted() -> bool {
    Ptrace::own() == Ptrace::Yes
}

/// Whether PR_SET_PTRACER has an effect with this `ptrace_scope`. Scope 0 allows the access anyway. Scopes 2
/// and 3 deny it to all processes without `CAP_SYS_PTRACE`.
fn helps(scope: &str) -> bool {
    scope.trim() == "1"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_scope_that_a_process_may_widen_is_widened() {
        for (scope, expected) in [
            ("1\n", true),
            ("1", true),
            ("0\n", false),
            ("2\n", false),
            ("3\n", false),
            ("", false),
            ("11", false),
        ] {
            assert_eq!(helps(scope), expected, "{scope:?}");
        }
    }
}
