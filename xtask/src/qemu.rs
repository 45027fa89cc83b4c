//! Runs the emulated machine.

use crate::command::{Problem, Task, failed, program};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// A machine that prints nothing for this long is considered hung. The program in the machine prints a line
/// for each check, and more lines during a long check. So a slow machine may take as long as it needs.
const SILENCE: Duration = Duration::from_secs(600);

/// The emulated processor, without fast string instructions. The kernel would copy with these instructions,
/// and an emulated processor executes them byte by byte. Without them, the kernel copies aligned words whole,
/// as on real processors.
const PROCESSOR: &str = "max,erms=off,fsrm=off";

/// Starts the machine, prints its output, and returns its exit code.
pub(crate) fn boot(vmlinux: &Path, archive: &Path) -> Task<u8> {
    // `--pdeathsig` kills the machine when this process exits, even if this process is killed.
    let mut command = program("setpriv");
    command.args(["--pdeathsig", "KILL", "qemu-system-x86_64", "-M", "q35"]);
    command.args(["-accel", "tcg,thread=multi", "-cpu", PROCESSOR]);
    command.args(["-m", "1024", "-smp", "2", "-kernel"]).arg(vmlinux).arg("-initrd").arg(archive);
    command.args(["-append", "console=ttyS0 panic=-1 quiet nokaslr mitigations=off"]);
    command.args(["-display", "none", "-monitor", "none", "-serial", "stdio", "-no-reboot", "-nic", "none"]);
    command.args(["-device", "isa-debug-exit,iobase=0xf4,iosize=4"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(|error| failed("setpriv", error))?;
    if let Some(lines) = child.stdout.take().map(lines_of)
        && !print(&lines)
    {
        child.kill().and_then(|()| child.wait()).map_err(|error| failed("qemu-system-x86_64", error))?;
        return Err(Problem::Failed(format!("the emulated machine printed nothing for {SILENCE:?}")));
    }
    let status = child.wait().map_err(|error| failed("qemu-system-x86_64", error))?;
    // The isa-debug-exit device turns a value v that is written to it into the exit code 2v + 1.
    match status.code() {
        Some(code) if code & 1 == 1 => Ok((code >> 1) as u8),
        _ => Err(Problem::Failed(format!("the emulated machine ended by itself ({status})"))),
    }
}

/// Reads the lines of a pipe on a separate thread.
fn lines_of(pipe: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        BufReader::new(pipe).split(b'\n').map_while(Result::ok).try_for_each(|line| sender.send(line))
    });
    lines
}

/// Prints lines until the pipe closes. Returns `false` if no line arrives for [`SILENCE`].
fn print(lines: &Receiver<Vec<u8>>) -> bool {
    loop {
        match lines.recv_timeout(SILENCE) {
            Ok(line) => println!("{}", String::from_utf8_lossy(&line).trim_end()),
            Err(why) => return why == RecvTimeoutError::Disconnected,
        }
    }
}
