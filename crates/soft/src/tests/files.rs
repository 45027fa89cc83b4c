//! Tests how this process finds out whether peers live, and how it opens files of peers.

use super::Side;
use super::own_time::HANGS;
use super::peer::{Peer, exact};
use crate::fabric::peer::Peer as KnownPeer;
use crate::fabric::process::Process;
use crate::memory::records::{EVENT_BYTES, EventRecord};
use doorbell_launch::variables;
use doorbell_verbs::*;
use rustix::io::ioctl_fionread;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// An environment variable that is set in a process that forbids itself pidfds.
const WITHOUT_PIDFDS: &str = "DOORBELL_TEST_WITHOUT_PIDFDS";

const EVENT: EventRecord = EventRecord { event_type: 1, index: 2, generation: 3 };

fn process() -> &'static Process {
    Process::current().expect("this process can use the device")
}

/// Starts a peer and connects a QP to a QP of the peer. Also returns the peer as this process knows it, and
/// the descriptor of the pipe for events of the peer's QP.
fn connected() -> (Peer, Side, Arc<KnownPeer>, u32) {
    let mut peer = Peer::start();
    let side = peer.connect(QpType::Rc);
    let dest = side.qp.query().1.dest_qp_num.expect("it is connected");
    let known = process().peer(dest).expect("it lives");
    let record = known.segment.qp(known.segment.index_of(dest)).expect("its record");
    let fd = record.async_fd.load(Relaxed) - 1;
    (peer, side, known, fd)
}

/// The error of an event for this descriptor of a peer.
fn refused(peer: &KnownPeer, fd: u32) -> Option<i32> {
    peer.write_to_pipe(fd, EVENT).err().and_then(|error| error.raw_os_error())
}

#[test]
fn this_process_lives() {
    // The kernel does not report this process's own locks.
    assert!(process().has_peer(process().qp_num(1)));
}

#[test]
fn an_event_reaches_a_peer_by_its_pidfd_or_by_a_path() {
    let (_peer, _side, known, fd) = connected();
    let pipe = known.copy(fd).expect("it lives").expect("the kernel copies a peer's descriptor");
    let waiting = || ioctl_fionread(&pipe).expect("a pipe");
    for by_path in [false, true] {
        known.refuses_copies.store(by_path, Relaxed);
        let before = waiting();
        known.write_to_pipe(fd, EVENT).expect("it lives");
        assert_eq!(waiting() - before, EVENT_BYTES as u64, "by path: {by_path}");
        let segment = known.member.fd;
        assert_eq!(refused(&known, segment), Some(libc::EINVAL), "no pipe, by path: {by_path}");
    }
}

#[test]
fn no_full_pipe_of_a_peer_blocks_this_process() {
    for by_path in [false, true] {
        let (mut peer, _side, known, _) = connected();
        known.refuses_copies.store(by_path, Relaxed);
        // The peer's standard output is a pipe that blocks its writers, and that nobody reads now.
        let fill = move || (0..1 << 16).find_map(|_| refused(&known, 1));
        let (send, filled) = std::sync::mpsc::channel();
        std::thread::spawn(move || send.send(fill()));
        assert_eq!(filled.recv_timeout(HANGS), Ok(Some(libc::EAGAIN)), "by path: {by_path}");
        peer.kill();
    }
}

#[test]
fn no_file_of_an_exited_peer_is_opened() {
    for by_path in [false, true] {
        let (mut peer, _side, known, fd) = connected();
        known.refuses_copies.store(by_path, Relaxed);
        peer.process.kill().expect("it lives");
        // The call leaves the peer a zombie, whose folder in /proc remains.
        let id = WaitId::Pid(Pid::from_child(&peer.process));
        waitid(id, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).expect("a child");
        assert_eq!(refused(&known, fd), Some(libc::ESRCH), "by path: {by_path}");
        peer.kill();
    }
}

/// A seccomp(2) filter answers EPERM, as the sandboxes of containers do. Peers are reached all the same, by
/// /proc or by their service threads, and their exit is noticed.
#[test]
fn peers_are_reached_without_pidfds() {
    for ptrace in ["yes", "no"] {
        let fabric = format!("without-pidfds-{ptrace}-{}", std::process::id());
        let mut command = exact("tests::files::a_process_without_pidfds");
        command.env(WITHOUT_PIDFDS, "1").env(variables::FABRIC, fabric).env(variables::PTRACE, ptrace);
        let output = command.stdin(Stdio::null()).output().expect("it starts");
        let said = [output.stdout, output.stderr].concat();
        assert!(output.status.success(), "ptrace {ptrace}: {}", String::from_utf8_lossy(&said));
    }
}

#[test]
#[ignore = "a process that another test starts"]
fn a_process_without_pidfds() {
    if std::env::var_os(WITHOUT_PIDFDS).is_none() {
        return;
    }
    forbid_pidfds();
    // The peer inherits the filter.
    let (mut peer, side, known, fd) = connected();
    assert!(known.process().is_none(), "the filter has no effect");
    known.write_to_pipe(fd, EVENT).expect("it lives");
    for memory in [peer.buffer(), peer.arena()] {
        let own = super::peer::buffer(process());
        let sge = [Sge { addr: own.addr, length: 8, lkey: own.key }];
        let remote = RemoteAddr { addr: memory.addr, rkey: memory.key };
        let wr = SendWr::new(1, SendOp::Write(remote), &sge).flags(SendFlags::SIGNALED);
        side.qp.begin_post().post_wr(&wr, None).expect("there is room");
        assert_eq!(side.wait_for(1)[0][1], 0);
    }
    peer.kill();
    let begin = Instant::now();
    while !known.is_dead() {
        assert!(begin.elapsed() < HANGS, "its exit is not noticed");
        std::thread::yield_now();
    }
}

/// Makes the kernel refuse pidfd_open(2) and pidfd_getfd(2) to this thread, and to the threads and processes
/// that it starts.
fn forbid_pidfds() {
    const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const IS: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const ANSWER: u32 = libc::BPF_RET | libc::BPF_K;
    let one = |code: u32, jt, k| libc::sock_filter { code: code as u16, jt, jf: 0, k };
    let mut filter = [
        // The number of the system call is the first word.
        one(LOAD, 0, 0),
        one(IS, 2, libc::SYS_pidfd_open as u32),
        one(IS, 1, libc::SYS_pidfd_getfd as u32),
        one(ANSWER, 0, libc::SECCOMP_RET_ALLOW),
        one(ANSWER, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the kernel copies the filter, which outlives the calls.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program), 0);
    }
}
