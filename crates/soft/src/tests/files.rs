//! Tests how this process finds out whether peers live, and how it opens files of peers.

use super::Side;
use super::own_time::HANGS;
use super::peer::Peer;
use crate::fabric::peer::Peer as KnownPeer;
use crate::fabric::process::Process;
use crate::memory::records::{EVENT_BYTES, EventRecord};
use doorbell_verbs::QpType;
use rustix::io::ioctl_fionread;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

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
