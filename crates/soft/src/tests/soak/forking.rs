//! Calls fork(2) while other threads use the device. No action of the child may harm either process.

use super::super::own_time::HANGS;
use super::parts::queue;
use crate::fabric::process::Process;
use doorbell_abi::ibv_wc;
use doorbell_verbs::*;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Forks `times` children, one after the other, while other threads create and destroy QPs. Returns an error
/// for the first child that fails or hangs.
pub(super) fn run(times: u64) -> Result<(), String> {
    let process = Process::current().map_err(|errno| format!("no device: {}", errno.0))?;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    send_to_itself(process);
                    let _ = Process::current();
                }
            });
        }
        let result = (0..times).try_for_each(fork_one);
        stop.store(true, Relaxed);
        result
    })
}

fn fork_one(number: u64) -> Result<(), String> {
    // SAFETY: the child calls `in_child`, which does not return.
    let child = unsafe { libc::fork() };
    if child == 0 {
        in_child(number);
    }
    let expected = if number % 4 == 3 { libc::SIGKILL } else { 0 };
    let begin = Instant::now();
    let mut status = 0;
    // SAFETY: the process is a child of this process.
    while unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == 0 {
        if begin.elapsed() > HANGS {
            // SAFETY: the process is a child of this process.
            unsafe {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, &mut status, 0);
            }
            return Err(format!("child {number} hangs"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    if status == expected { Ok(()) } else { Err(format!("child {number} ends with {status:#x}")) }
}

fn in_child(number: u64) -> ! {
    let right = match number % 4 {
        0 => true,
        // SAFETY: the arguments are C strings, and the list ends with null.
        1 => unsafe {
            let name = c"/bin/true".as_ptr();
            libc::execv(name, [name, std::ptr::null()].as_ptr()) == 0
        },
        _ => Process::current().is_ok_and(send_to_itself),
    };
    // SAFETY: the calls take only numbers. `_exit` runs no exit handlers of the parent.
    unsafe {
        if number % 4 == 3 {
            libc::raise(libc::SIGKILL);
        }
        libc::_exit(i32::from(!right));
    }
}

/// Creates a QP that is connected to itself and sends a message. Returns whether the message arrives.
fn send_to_itself(process: &'static Process) -> bool {
    let side = queue(process, QpType::Rc, None, None);
    side.connect_patiently(side.qp.num());
    let wr = SendWr::new(1, SendOp::Send, &[]).flags(SendFlags::SIGNALED);
    let posted = side.qp.post_recv(2, &[]).is_ok() && side.qp.begin_post().post_wr(&wr, None).is_ok();
    let mut wcs = [ibv_wc::default(); 2];
    let come = side.cq.poll(&mut wcs);
    posted && come == Ok(2) && wcs.iter().all(|wc| wc.status == 0)
}
