//! The emulated machine.

use crate::command::{Problem, Task, failed, program};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

/// Seconds after which the machine is killed. Its program ends earlier by itself.
const TIME_LIMIT: &str = "2460";

/// Starts the machine, prints its output, and returns its exit code.
pub(crate) fn boot(vmlinux: &Path, archive: &Path) -> Task<u8> {
    // `timeout` kills the machine even if this process is killed.
    let mut command = program("timeout");
    command.args([
        TIME_LIMIT,
        "qemu-system-x86_64",
        "-M",
        "q35",
        "-accel",
        "tcg,thread=multi",
        "-cpu",
        "max",
    ]);
    command.args(["-m", "1024", "-smp", "2", "-kernel"]).arg(vmlinux).arg("-initrd").arg(archive);
    command.args(["-append", "console=ttyS0 panic=-1 quiet nokaslr mitigations=off"]);
    command.args(["-display", "none", "-monitor", "none", "-serial", "stdio", "-no-reboot", "-nic", "none"]);
    command.args(["-device", "isa-debug-exit,iobase=0xf4,iosize=4"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| failed("timeout", error))?;
    if let Some(stdout) = child.stdout.take() {
        for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
            println!("{}", String::from_utf8_lossy(&line).trim_end());
        }
    }
    let status = child.wait().map_err(|error| failed("qemu-system-x86_64", error))?;
    // The debug-exit device turns every value that is written to it into an odd exit code.
    match status.code() {
        Some(124) => Err(Problem::Failed(format!("the emulated machine did not end within {TIME_LIMIT} s"))),
        Some(code) if code & 1 == 1 => Ok((code >> 1) as u8),
        _ => Err(Problem::Failed(format!("the emulated machine ended by itself ({status})"))),
    }
}
