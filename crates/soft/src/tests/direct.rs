//! Tests the direct path of WRITEs and SENDs, which skips checks of the usual path. No request may take the
//! direct path after a change that one of the skipped checks would detect.

use super::Side;
use super::own_time::OwnTime;
use super::peer::{BUFFER, Buffer, HOLE, Peer, RECV_BYTES, RECVS, buffer};
use crate::fabric::process::Process;
use doorbell_abi::CEnum;
use doorbell_verbs::*;

/// A QP that is connected to a peer process, and registered memory on both sides.
struct Pair {
    peer: Peer,
    side: Side,
    here: Buffer,
    there: Buffer,
}

impl Pair {
    /// Creates a pair whose WRITEs to the peer's arena take the direct path.
    fn new() -> Pair {
        Pair::to(Peer::arena)
    }

    /// Creates a pair whose WRITEs to this memory of the peer take the direct path.
    fn to(there: impl Fn(&mut Peer) -> Buffer) -> Pair {
        let process = Process::current().expect("this process can use the device");
        let mut peer = Peer::start();
        let (there, here) = (there(&mut peer), buffer(process));
        let side = peer.connect(QpType::Rc);
        let pair = Pair { peer, side, here, there };
        pair.prepare();
        pair
    }

    fn prepare(&self) {
        assert!(!self.goes(0, 8, |_, _| {}), "nothing is known yet");
        self.write_long();
        assert!(self.goes(0, 8, |_, _| {}), "a WRITE like the one before");
    }

    /// Posts a WRITE of `len` bytes to offset `to` on the direct path, after `change`. Returns false, and
    /// posts nothing, if the WRITE cannot take the direct path.
    fn goes(&self, to: usize, len: u32, change: impl Fn(&mut RemoteAddr, &mut Sge)) -> bool {
        let mut sge = Sge { addr: self.here.addr, length: len, lkey: self.here.key };
        let mut remote = RemoteAddr { addr: self.there.addr + to as u64, rkey: self.there.key };
        change(&mut remote, &mut sge);
        self.side.qp.begin_post().write_directly(0, remote, &sge, SendFlags::SIGNALED)
    }

    /// Posts a WRITE on the usual path, and returns its status.
    fn write_long(&self) -> u64 {
        self.side.completions();
        let sge = [Sge { addr: self.here.addr, length: 8, lkey: self.here.key }];
        let remote = RemoteAddr { addr: self.there.addr, rkey: self.there.key };
        let wr = SendWr::new(1, SendOp::Write(remote), &sge).flags(SendFlags::SIGNALED);
        self.side.qp.begin_post().post_wr(&wr, None).expect("there is room");
        self.side.wait_for(1)[0][1]
    }

    /// Asserts that after a command to the peer, a WRITE does not take the direct path and completes with
    /// this status.
    fn ends(command: impl Fn(&Buffer) -> String, status: WcStatus) {
        let mut pair = Pair::new();
        let command = command(&pair.there);
        pair.peer.ask(&command);
        assert!(!pair.goes(0, 8, |_, _| {}), "after {command}");
        assert_eq!(pair.write_long(), u64::from(status.to_c()), "after {command}");
    }
}

#[test]
fn a_write_goes_the_short_way_within_its_regions_alone() {
    let pair = Pair::new();
    // SAFETY: the memory belongs to this test.
    unsafe { (pair.here.addr as *mut u64).write(0x0123_4567_89ab_cdef) };
    let last = BUFFER - 8;
    for to in [8, 65, last] {
        assert!(pair.goes(to, 8, |_, _| {}), "to {to}");
        let mut found = [0; 8];
        crate::memory::transfer::read(
            &[super::peer::all_of(&mut found)],
            pair.peer.far(pair.there.addr + to as u64),
        )
        .expect("the peer lives");
        assert_eq!(u64::from_ne_bytes(found), 0x0123_4567_89ab_cdef, "at {to}");
    }
    assert_eq!(pair.side.wait_for(4).len(), 4, "each has its completion");
    assert!(!pair.goes(last + 1, 8, |_, _| {}), "behind the peer's region");
    assert!(!pair.goes(0, 0, |_, _| {}), "without a byte no key is looked at");
    assert!(!pair.goes(0, 8, |remote, _| remote.addr -= 1), "before the peer's region");
    assert!(!pair.goes(0, 8, |remote, _| remote.rkey ^= 1), "another rkey");
    assert!(!pair.goes(0, 8, |_, sge| sge.lkey ^= 1), "another lkey");
    assert!(!pair.goes(0, 8, |_, sge| sge.addr -= 1), "before the own region");
    assert!(!pair.goes(0, 8, |_, sge| sge.addr += BUFFER as u64 - 7), "behind the own region");
    assert!(pair.goes(0, 8, |_, _| {}), "nothing has changed");
}

#[test]
fn writes_to_private_memory_are_gathered_the_short_way() {
    let mut pair = Pair::to(Peer::buffer);
    let arena = pair.peer.arena();
    pair.side.completions();
    // SAFETY: the memory belongs to this test.
    unsafe { (pair.here.addr as *mut u64).write(0x0123_4567_89ab_cdef) };
    let sge = Sge { addr: pair.here.addr, length: 8, lkey: pair.here.key };
    let to = |there: &Buffer, at: usize| RemoteAddr { addr: there.addr + at as u64, rkey: there.key };
    let signaled = SendFlags::SIGNALED;
    let mut posting = pair.side.qp.begin_post();
    assert!(posting.write_directly(1, to(&pair.there, 0), &sge, signaled));
    assert!(posting.write_directly(2, to(&pair.there, 64), &sge, SendFlags::empty()));
    assert!(posting.write_directly(3, to(&pair.there, BUFFER - 8), &sge, signaled | SendFlags::INLINE));
    assert!(!posting.write_directly(4, to(&pair.there, BUFFER - 7), &sge, signaled), "behind the region");
    assert!(!posting.write_directly(4, to(&arena, 0), &sge, signaled), "not before those that are gathered");
    assert_eq!(pair.side.completions().len(), 0, "nothing is moved yet");
    drop(posting);
    let ids: Vec<u64> = pair.side.wait_for(2).iter().map(|wc| wc[0]).collect();
    assert_eq!(ids, [1, 3]);
    for at in [0, 64, BUFFER - 8] {
        let mut found = [0; 8];
        let there = pair.peer.far(pair.there.addr + at as u64);
        crate::memory::transfer::read(&[super::peer::all_of(&mut found)], there).expect("the peer lives");
        assert_eq!(u64::from_ne_bytes(found), 0x0123_4567_89ab_cdef, "at {at}");
    }
    // A WRITE to unmapped memory fails, and the WRITEs behind it are flushed.
    let mut posting = pair.side.qp.begin_post();
    for (wr_id, at) in [(5, 8), (6, HOLE), (7, 16)] {
        assert!(posting.write_directly(wr_id, to(&pair.there, at), &sge, signaled));
    }
    drop(posting);
    let ends = pair.side.wait_for(3).iter().map(|wc| (wc[0], wc[1])).collect::<Vec<_>>();
    let status = |status: WcStatus| u64::from(status.to_c());
    let expected = [WcStatus::Success, WcStatus::RemAccessErr, WcStatus::WrFlushErr].map(status);
    assert_eq!(ends, [(5, expected[0]), (6, expected[1]), (7, expected[2])]);
}

#[test]
fn no_write_goes_the_short_way_to_private_memory_that_has_changed() {
    let read = AccessFlags::REMOTE_READ.bits();
    for command in ["deregister", "rights"] {
        let mut pair = Pair::to(Peer::buffer);
        pair.peer.ask(&format!("{command} {} {read}", pair.there.key));
        assert!(!pair.goes(0, 8, |_, _| {}), "after {command}");
        assert_eq!(pair.write_long(), u64::from(WcStatus::RemAccessErr.to_c()), "after {command}");
    }
}

#[test]
fn no_write_goes_the_short_way_to_what_has_changed() {
    let read = AccessFlags::REMOTE_READ.bits();
    Pair::ends(|there| format!("deregister {}", there.key), WcStatus::RemAccessErr);
    Pair::ends(|there| format!("rights {} {read}", there.key), WcStatus::RemAccessErr);
    Pair::ends(|_| format!("allow {read}"), WcStatus::RemInvReqErr);
    for state in [QpState::Err, QpState::Reset] {
        Pair::ends(|_| format!("state {}", state.to_c()), WcStatus::RetryExcErr);
    }
}

#[test]
fn no_write_goes_the_short_way_where_this_side_has_changed() {
    let pair = Pair::new();
    let attr = QpAttr { min_rnr_timer: Some(3), ..QpAttr::state(QpState::Rts) };
    pair.side.qp.modify(&attr).expect("it may change");
    pair.prepare();
    let process = Process::current().expect("this process can use the device");
    let revoked = process.regions.deregister(process.segment, pair.here.key).expect("a region");
    process.settle(revoked, "deregister");
    assert!(!pair.goes(0, 8, |_, _| {}), "the own region is gone");
    assert_eq!(pair.write_long(), u64::from(WcStatus::LocProtErr.to_c()));
    assert!(!pair.goes(0, 8, |_, _| {}), "the QP is in Err");
}

#[test]
fn no_write_goes_the_short_way_to_a_process_that_has_ended() {
    let mut pair = Pair::new();
    pair.peer.kill();
    let begin = OwnTime::start();
    while pair.goes(0, 8, |_, _| {}) {
        pair.side.completions();
        assert!(!begin.is_hang(), "its end is not seen");
        std::thread::yield_now();
    }
    assert_eq!(pair.write_long(), u64::from(WcStatus::RetryExcErr.to_c()));
}

#[test]
fn no_more_writes_go_the_short_way_than_the_queue_has_room_for() {
    let pair = Pair::new();
    pair.side.completions();
    let posted = (0..10_000).take_while(|_| pair.goes(0, 8, |_, _| {})).count();
    assert_eq!(posted as u32, pair.side.qp.cap.max_send_wr);
}

impl Pair {
    /// Creates a pair whose SENDs take the direct path if the peer has posted a RECV.
    fn of_sends() -> Pair {
        let process = Process::current().expect("this process can use the device");
        let mut peer = Peer::start();
        let (there, here) = (peer.buffer(), buffer(process));
        let side = peer.connect(QpType::Rc);
        let mut pair = Pair { peer, side, here, there };
        pair.peer.ask("recv 1");
        assert!(!pair.sends(8), "nothing is known yet");
        assert_eq!(pair.send_long(), u64::from(WcStatus::Success.to_c()));
        pair.received(1);
        pair
    }

    /// Posts a SEND of `len` bytes on the direct path. Returns false, and posts nothing, if the SEND cannot
    /// take the direct path.
    fn sends(&self, len: u32) -> bool {
        let sge = Sge { addr: self.here.addr, length: len, lkey: self.here.key };
        self.side.qp.begin_post().send_directly(0, &sge, SendFlags::SIGNALED)
    }

    /// Posts a SEND of 8 bytes on the usual path, and returns its status.
    fn send_long(&self) -> u64 {
        self.side.completions();
        let sge = [Sge { addr: self.here.addr, length: 8, lkey: self.here.key }];
        let wr = SendWr::new(1, SendOp::Send, &sge).flags(SendFlags::SIGNALED);
        self.side.qp.begin_post().post_wr(&wr, None).expect("there is room");
        self.side.wait_for(1)[0][1]
    }

    /// Asserts that the peer polls `count` completions, and that all are successful.
    fn received(&mut self, count: usize) {
        let got = self.peer.ask("poll");
        assert_eq!(got.len(), 3 * count, "{got:?}");
        assert!(got.chunks(3).all(|wc| wc[1] == 0), "{got:?}");
    }
}

#[test]
fn a_send_goes_the_short_way_where_a_recv_has_room() {
    let mut pair = Pair::of_sends();
    assert!(!pair.sends(8), "no RECV");
    pair.peer.ask(&format!("recv {RECVS}"));
    for (n, len) in [1u32, 8, 9, 63, 224].into_iter().enumerate() {
        let bytes: Vec<u8> = (0..len).map(|at| (at * 7 + n as u32) as u8).collect();
        // SAFETY: the memory belongs to this test.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), pair.here.addr as *mut u8, bytes.len()) };
        assert!(pair.sends(len), "{len} bytes");
        pair.received(1);
        let found = pair.peer.ask(&format!("bytes {n} {len}"));
        assert!(
            found.iter().zip(&bytes).all(|(found, sent)| *found == u64::from(*sent)),
            "{len} bytes: {found:?}"
        );
    }
    assert_eq!(pair.side.wait_for(5).len(), 5, "each has its completion");
    assert!(!pair.sends(225), "more than a completion carries");
    assert!(!pair.sends(0));
    assert!(pair.sends(8));
}

#[test]
fn a_send_does_not_go_the_short_way_to_a_recv_that_cannot_take_it() {
    let too_short = |there: &Buffer| format!("recv-of 7 {}", there.key);
    let bad_key = |there: &Buffer| format!("recv-of 8 {}", there.key ^ 1);
    type Recv<'a> = (&'a dyn Fn(&Buffer) -> String, WcStatus);
    let cases: [Recv<'_>; 2] = [(&too_short, WcStatus::RemInvReqErr), (&bad_key, WcStatus::RemOpErr)];
    for (recv, status) in cases {
        let mut pair = Pair::of_sends();
        let recv = recv(&pair.there);
        pair.peer.ask(&recv);
        assert!(!pair.sends(8), "{recv}");
        assert_eq!(pair.send_long(), u64::from(status.to_c()), "{recv}");
    }
    // The RECV's lkey was valid when the RECV was posted, and is not valid any more.
    let mut pair = Pair::of_sends();
    pair.peer.ask("recv 1");
    let key = pair.there.key;
    pair.peer.ask(&format!("deregister {key}"));
    assert!(!pair.sends(8));
    assert_eq!(pair.send_long(), u64::from(WcStatus::RemOpErr.to_c()));
    assert_eq!(RECV_BYTES, 256, "there is room for what a completion carries");
}

#[test]
fn a_send_the_short_way_to_a_full_cq_fails_as_on_the_long_one() {
    let mut pair = Pair::of_sends();
    pair.peer.ask("crowd 1");
    pair.peer.ask("recv 2");
    assert!(pair.sends(8), "there is room for one");
    assert_eq!(pair.side.wait_for(1)[0][1], 0);
    assert!(pair.sends(8), "it takes a RECV");
    assert_eq!(pair.side.wait_for(1)[0][1], u64::from(WcStatus::RemOpErr.to_c()));
    assert!(!pair.sends(8), "the QP is in Err");
}

#[test]
fn a_write_does_not_go_the_short_way_where_only_a_send_is_allowed() {
    let mut pair = Pair::of_sends();
    pair.peer.ask(&format!("allow {}", AccessFlags::REMOTE_READ.bits()));
    pair.peer.ask("recv 2");
    assert_eq!(pair.send_long(), u64::from(WcStatus::Success.to_c()));
    assert!(pair.sends(8), "a SEND like the one before");
    assert!(!pair.goes(0, 8, |_, _| {}), "the QP allows no WRITE");
    assert_eq!(pair.write_long(), u64::from(WcStatus::RemInvReqErr.to_c()));
}
