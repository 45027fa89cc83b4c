//! Tests the order in which programs see the effects of a QP: completions, bytes in memory, and events. Each
//! test runs in a process of its own, because it arms points of the code for the whole process.

use super::own_time::HANGS;
use super::peer::{Buffer, OPEN, Peer, RECV_BYTES, arena, buffer, exact};
use super::{PD, Patience, Side};
use crate::fabric::pipe::EventPipe;
use crate::fabric::process::Process;
use crate::fabric::progress::Sleeping;
use crate::memory::records::QPS;
use crate::point::{Point, arm};
use crate::queues::cq::Cq;
use crate::queues::recv_queue::{RecvQueue, Senders, Sizes};
use crate::sync::lock;
use doorbell_verbs::*;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// An environment variable that names the test that a process runs.
const ALONE: &str = "DOORBELL_TEST_ALONE";
/// Longer than all retries of a request on a QP from [`Peer::connect`] take.
const TIMEOUTS: Duration = Duration::from_millis(20);

/// Runs one of the tests of [`program`] in a process of its own.
fn alone(name: &str) {
    let output = exact("tests::order::program").env(ALONE, name).output().expect("it starts");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}

#[test]
#[ignore = "the program of other tests"]
fn program() {
    // Kills the peer even if a test fails. A stopped peer would keep the test's output open.
    struct KillsPeer;
    impl Drop for KillsPeer {
        fn drop(&mut self) {
            lock(&PEER).take().into_iter().for_each(|mut peer| peer.kill());
        }
    }
    let _kills = KillsPeer;
    match std::env::var(ALONE).unwrap_or_default().as_str() {
        "answers" => answers(),
        "parked" => parked(),
        "shared queue" => parked_at_srq(),
        "reads" => reads(),
        "placed" => placed(),
        "placed of srq" => placed_of_srq(),
        "receiver stops" => receiver_stops(),
        "sender stops" => sender_stops(),
        "receiver ends" => receiver_ends(),
        "events" => events(),
        _ => {}
    }
}

#[test]
fn an_answer_during_the_post_comes_after_the_completion() {
    alone("answers");
}

#[test]
fn a_poll_finds_what_a_preempted_poster_has_sent() {
    alone("parked");
    alone("shared queue");
}

#[test]
fn reads_and_recvs_are_in_one_order() {
    alone("reads");
}

#[test]
fn requests_find_the_payload_of_earlier_sends() {
    alone("placed");
    alone("placed of srq");
}

#[test]
fn a_payload_is_placed_once_whoever_stops() {
    alone("receiver stops");
    alone("sender stops");
    alone("receiver ends");
}

#[test]
fn no_event_comes_without_a_completion() {
    alone("events");
}

fn process() -> &'static Process {
    Process::current().expect("this process can use the device")
}

/// The peer of the running test. It is a static because actions at points use it.
static PEER: Mutex<Option<Peer>> = Mutex::new(None);

fn peer<T>(what: impl FnOnce(&mut Peer) -> T) -> T {
    what(lock(&PEER).as_mut().expect("the test has a peer"))
}

fn ask(command: &str) -> Vec<u64> {
    peer(|peer| peer.ask(command))
}

/// A QP that is connected to the peer's QP, and buffers on both sides.
struct Pair {
    side: Side,
    here: Buffer,
    there: Buffer,
}

/// A request that this process posts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ask {
    /// A SEND of this many bytes on the direct path, if that is possible.
    Send(u32),
    /// A SEND of this many bytes on the usual path.
    UsualSend(u32),
    WriteWithImm,
    Write,
    Read,
    FetchAdd(u64),
    CompareSwap(u64),
}

/// Offsets in the buffers: the RECVs' buffer, the word for one-sided requests, this side's payload, and this
/// side's buffer for fetched data.
const RECVS_AT: u64 = 0;
const WORD: u64 = 1024;
const FROM: u64 = 2048;
const INTO: u64 = 3072;
/// The `wr_id` of the first RECV.
const RECV_ID: u64 = 1000;

impl Pair {
    /// Creates a pair with a new peer. If `shared`, the memory of both sides is in arenas.
    fn new(shared: bool) -> Pair {
        *lock(&PEER) = Some(Peer::start());
        Pair::again(shared)
    }

    /// Creates a pair with the current peer.
    fn again(shared: bool) -> Pair {
        let here = if shared { arena(process()) } else { buffer(process()) };
        let there = peer(|peer| if shared { peer.arena() } else { peer.buffer() });
        let pair = Pair { side: peer(|peer| peer.connect(QpType::Rc)), here, there };
        (0..8).for_each(|n| pair.post_recv(n));
        pair
    }

    fn post_recv(&self, number: u64) {
        let addr = self.here.addr + OPEN as u64 + number % 8 * RECV_BYTES as u64;
        let sge = [Sge { addr, length: RECV_BYTES as u32, lkey: self.here.key }];
        self.side.qp.post_recv(RECV_ID + number, &sge).expect("a RECV");
    }

    /// Makes the peer post RECVs that all use one buffer.
    fn recvs_there(&self, count: usize) {
        for _ in 0..count {
            ask(&format!("recv-at {} {}", self.there.addr + RECVS_AT, self.there.key));
        }
    }

    /// Sends a message that the peer receives, so that later messages may take the direct path.
    fn warm_up(&self) {
        self.recvs_there(1);
        self.post(&[(0, Ask::UsualSend(8))]);
        ask("poll");
        assert_eq!(self.side.completions().len(), 1);
    }

    /// Posts a list of requests.
    fn post(&self, asks: &[(u64, Ask)]) {
        let remote = |at: u64| RemoteAddr { addr: self.there.addr + at, rkey: self.there.key };
        let mut posting = self.side.qp.begin_post();
        for &(wr_id, ask) in asks {
            let (op, at, length) = match ask {
                Ask::Send(len) | Ask::UsualSend(len) => (SendOp::Send, FROM, len),
                Ask::WriteWithImm => (SendOp::WriteWithImm(remote(RECVS_AT), 1), FROM, 250),
                Ask::Write => (SendOp::Write(remote(RECVS_AT)), FROM, 250),
                Ask::Read => (SendOp::Read(remote(WORD)), INTO, 8),
                Ask::FetchAdd(add) => (SendOp::FetchAdd { remote: remote(WORD), add }, INTO, 8),
                Ask::CompareSwap(compare) => {
                    (SendOp::CompareSwap { remote: remote(WORD), compare, swap: 0 }, INTO, 8)
                }
            };
            let sge = [Sge { addr: self.here.addr + at, length, lkey: self.here.key }];
            let flags = SendFlags::SIGNALED;
            if !matches!(ask, Ask::Send(_)) || !posting.send_directly(wr_id, &sge[0], flags) {
                posting.post_wr(&SendWr::new(wr_id, op, &sge).flags(flags), None).expect("there is room");
            }
        }
    }

    /// Polls all completions, which must be successful. Returns their `wr_id`s.
    fn ids(&self) -> Vec<u64> {
        let all = self.side.completions();
        assert!(all.iter().all(|wc| wc[1] == 0), "{all:?}");
        all.iter().map(|wc| wc[0]).collect()
    }

    fn fill(&self, byte: u8) {
        // SAFETY: the buffer belongs to this test.
        unsafe { std::ptr::write_bytes((self.here.addr + FROM) as *mut u8, byte, 256) };
    }

    /// Loads the word at this offset of this side's buffer.
    fn word(&self, at: u64) -> u64 {
        // SAFETY: the buffer belongs to this test and stays mapped.
        unsafe { &*((self.here.addr + at) as *const AtomicU64) }.load(SeqCst)
    }

    fn bytes_there(&self, at: u64, len: usize) -> Vec<u8> {
        peer(|peer| peer.bytes(self.there.addr))[at as usize..at as usize + len].to_vec()
    }

    fn has_event(&self) -> bool {
        let mut one = libc::pollfd { fd: self.side.pipe.read_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the array has one entry.
        unsafe { libc::poll(&mut one, 1, 0) == 1 }
    }

    fn take_event(&self) {
        assert!(self.has_event());
        self.side.pipe.next().expect("an event");
    }
}

/// Makes the peer poll its messages and send one.
fn take_and_answer() {
    ask("poll");
    ask("answer");
}

fn answer() {
    ask("answer");
}

/// Makes the peer answer while the posting thread is at a point after the request has taken effect. The
/// request's completion must precede the answer.
fn answers() {
    let at_done = [Ask::Send(16), Ask::UsualSend(16), Ask::Send(250), Ask::WriteWithImm];
    let mut cases: Vec<_> = at_done.map(|ask| (ask, Point::Done, 1, take_and_answer as fn())).into();
    cases.push((Ask::Write, Point::CarriedOut, 1, answer));
    cases.push((Ask::FetchAdd(1), Point::CarriedOut, 1, answer));
    for shared in [false, true] {
        drop(Pair::new(shared));
        let mut cases = cases.clone();
        if !shared {
            cases.push((Ask::Write, Point::AfterForeign, 1, answer));
            cases.push((Ask::FetchAdd(1), Point::AfterForeign, 2, answer));
        }
        for (ask, point, nth, action) in cases {
            let pair = Pair::again(shared);
            pair.warm_up();
            pair.recvs_there(1);
            arm(point, nth, action);
            pair.post(&[(1, ask)]);
            assert_eq!(pair.ids(), [1, RECV_ID], "{ask:?} at {point:?}, shared {shared}");
        }
        let pair = Pair::again(shared);
        pair.warm_up();
        ask("crowd 64");
        pair.recvs_there(1);
        arm(Point::CellWritten, 1, take_and_answer);
        pair.post(&[(1, Ask::Send(16))]);
        assert_eq!(pair.ids(), [1, RECV_ID], "with another QP at the peer's CQ");
    }
}

/// The state of the thread that [`while_parked`] parks at a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Open,
    Parked,
}

static GATE: (Mutex<Gate>, Condvar) = (Mutex::new(Gate::Open), Condvar::new());

fn park() {
    *lock(&GATE.0) = Gate::Parked;
    GATE.1.notify_all();
    drop(GATE.1.wait_while(lock(&GATE.0), |gate| *gate == Gate::Parked));
}

/// Runs `post` in another thread, which parks at a point. Runs `meanwhile` in this thread, and then lets the
/// other thread go on.
fn while_parked(point: Point, post: impl FnOnce() + Send, meanwhile: impl FnOnce()) {
    arm(point, 1, park);
    std::thread::scope(|scope| {
        let poster = scope.spawn(post);
        drop(GATE.1.wait_while(lock(&GATE.0), |gate| *gate != Gate::Parked));
        // Lets the parked thread go on even if an assertion fails.
        struct Opens;
        impl Drop for Opens {
            fn drop(&mut self) {
                *lock(&GATE.0) = Gate::Open;
                GATE.1.notify_all();
            }
        }
        let opens = Opens;
        meanwhile();
        drop(opens);
        poster.join().expect("it does not panic");
    });
}

/// Polls in one thread while a posting thread is parked at a point.
fn parked() {
    for shared in [false, true] {
        drop(Pair::new(shared));
        for request in [Ask::Send(16), Ask::UsualSend(16), Ask::Send(250), Ask::WriteWithImm] {
            for point in [Point::Entered, Point::Done, Point::CarriedOut, Point::MarkedDone] {
                let about = format!("{request:?} at {point:?}, shared {shared}");
                let pair = Pair::again(shared);
                pair.warm_up();
                pair.recvs_there(1);
                let is_sent = point != Point::Entered;
                let meanwhile = || {
                    let is_marked = point == Point::MarkedDone;
                    let first: &[u64] = if is_marked { &[1] } else { &[] };
                    assert_eq!(pair.ids(), first, "the peer has not taken it: {about}");
                    if is_sent {
                        assert_eq!(ask("poll").len(), 3, "{about}");
                    }
                    ask("answer");
                    let all: &[u64] = if is_sent && !is_marked { &[1, RECV_ID] } else { &[RECV_ID] };
                    assert_eq!(pair.ids(), all, "{about}");
                };
                while_parked(point, || pair.post(&[(1, request)]), meanwhile);
                let last: &[u64] = if is_sent { &[] } else { &[1] };
                assert_eq!(pair.ids(), last, "{about}");
                // The answer arrives during a poll.
                pair.post_recv(8);
                pair.recvs_there(1);
                let meanwhile = || {
                    arm(Point::SendsSought, 1, take_and_answer);
                    assert_eq!(pair.ids(), [3, RECV_ID + 1], "during the poll: {about}");
                };
                if is_sent {
                    while_parked(Point::CarriedOut, || pair.post(&[(3, request)]), meanwhile);
                } else {
                    ask("poll");
                }
                // The QP still works.
                pair.recvs_there(1);
                pair.post(&[(2, request)]);
                assert_eq!(pair.ids(), [2], "{about}");
            }
        }
    }
}

/// Creates an RC QP with a CQ of its own, and with this SRQ if there is one.
fn side_with(srq: Option<Arc<RecvQueue>>) -> Side {
    let cap = QpCap { max_send_wr: 16, max_recv_wr: 4, max_send_sge: 2, max_recv_sge: 2, max_inline_data: 0 };
    let pipe = Arc::new(EventPipe::new().expect("a pipe"));
    let cq = Arc::new(Cq::new(process(), 64, pipe.in_record(), pipe.in_record()).expect("a CQ"));
    Side::of(process(), QpType::Rc, cap, cq, srq, pipe)
}

/// Creates two QPs of this process that are connected to each other. The second uses an SRQ.
fn sides_with_srq() -> (Side, Side, Arc<RecvQueue>) {
    let sizes = Sizes { depth: 8, max_sge: 2 };
    let srq = RecvQueue::new(process(), QPS as u32 + 17, PD, sizes, Senders::Many, 0).expect("an SRQ");
    let srq = Arc::new(srq);
    let (one, other) = (side_with(None), side_with(Some(srq.clone())));
    let patience = Patience { timeout: 14, rnr_retry: 7 };
    one.connect(other.qp.num(), patience);
    other.connect(one.qp.num(), patience);
    (one, other, srq)
}

fn ids_of(side: &Side) -> Vec<u64> {
    side.completions().iter().map(|wc| wc[0]).collect()
}

fn parked_at_srq() {
    let (one, other, srq) = sides_with_srq();
    let memory = buffer(process());
    let sge = |at: u64, length| Sge { addr: memory.addr + at, length, lkey: memory.key };
    let post = |side: &Side, wr_id: u64, len: u32| {
        let sges = [sge(FROM, len)];
        let wr = SendWr::new(wr_id, SendOp::Send, &sges).flags(SendFlags::SIGNALED);
        side.qp.begin_post().post_wr(&wr, None).expect("there is room");
    };
    for len in [16, 250] {
        one.qp.post_recv(11, &[sge(WORD, 64)]).expect("a RECV");
        srq.enqueue(12, &[sge(RECVS_AT, 256)]).expect("a RECV");
        let meanwhile = || {
            assert_eq!(ids_of(&one), [0; 0]);
            assert_eq!(ids_of(&other), [12]);
            post(&other, 2, 8);
            assert_eq!(ids_of(&one), [1, 11]);
        };
        while_parked(Point::CarriedOut, || post(&one, 1, len), meanwhile);
        assert_eq!(ids_of(&one), [0; 0]);
        assert_eq!(ids_of(&other), [2]);
    }
}

/// Makes the peer send a message and change a word, in either order, while this process fetches the word. The
/// completions must be in an order that a NIC can give.
fn reads() {
    fn answer_then_store() {
        ask("answer");
        store_next();
    }
    fn store_then_answer() {
        store_next();
        ask("answer");
    }
    fn store_next() {
        let [addr, value] = [&WORD_THERE, &VALUE].map(|word| word.load(SeqCst));
        ask(&format!("store {addr} {}", value + 1));
        VALUE.store(value + 1, SeqCst);
    }
    static WORD_THERE: AtomicU64 = AtomicU64::new(0);
    static VALUE: AtomicU64 = AtomicU64::new(100);
    let pair = Pair::new(false);
    WORD_THERE.store(pair.there.addr + WORD, SeqCst);
    store_next();
    let lists: [&[Ask]; 4] =
        [&[Ask::Read], &[Ask::Read, Ask::Read], &[Ask::FetchAdd(0)], &[Ask::CompareSwap(1)]];
    let mut recvs = (RECV_ID..).peekable();
    for list in lists {
        for (point, is_stored_first) in [
            (Point::BeforeForeign, false),
            (Point::BeforeForeign, true),
            (Point::AfterForeign, false),
            (Point::AfterForeign, true),
        ] {
            let action = if is_stored_first { store_then_answer } else { answer_then_store };
            let before = VALUE.load(SeqCst);
            arm(point, 1, action);
            let asks: Vec<_> = (0..).zip(list).map(|(n, ask)| (n, *ask)).collect();
            pair.post(&asks);
            let (ids, found) = (pair.ids(), pair.word(INTO));
            let recv = recvs.next().expect("it has no end");
            let about = format!("{list:?} at {point:?}: {ids:?}, {before} became {found}");
            assert_eq!(ids.len(), list.len() + 1, "{about}");
            let is_answer_first = ids[0] == recv;
            assert!(is_answer_first || ids[list.len()] == recv, "{about}");
            // The peer changed the word before it sent the message.
            if is_stored_first && is_answer_first {
                assert_eq!(found, before + 1, "{about}");
            }
            // The peer knew that its message had arrived when it changed the word.
            if !is_stored_first && !is_answer_first {
                assert_eq!(found, before, "{about}");
            }
            pair.post_recv(recv - RECV_ID + 8);
        }
    }
}

/// Posts requests to the buffer of a RECV whose completion the peer has not polled. They must find the
/// payload in place.
fn placed() {
    for (shared, is_crowded) in [(false, false), (true, false), (false, true), (true, true)] {
        drop(Pair::new(shared));
        for len in [1, 8, 63, 224, 225, 250] {
            let about = format!("{len} bytes, shared {shared}, crowded {is_crowded}");
            let pair = Pair::again(shared);
            if is_crowded {
                ask("crowd 64");
            }
            pair.warm_up();
            pair.recvs_there(3);
            let at = |at: u64| RemoteAddr { addr: pair.there.addr + at, rkey: pair.there.key };
            let post = |wr_id: u64, op: SendOp, from: u64, length: u32| {
                let sge = Sge { addr: pair.here.addr + from, length, lkey: pair.here.key };
                let flags = SendFlags::SIGNALED;
                let mut posting = pair.side.qp.begin_post();
                let is_posted = match op {
                    SendOp::Write(remote) => posting.write_directly(wr_id, remote, &sge, flags),
                    SendOp::Send => posting.send_directly(wr_id, &sge, flags),
                    _ => false,
                };
                if !is_posted {
                    let wr = SendWr::new(wr_id, op, std::slice::from_ref(&sge)).flags(flags);
                    posting.post_wr(&wr, None).expect("there is room");
                }
                drop(posting);
                assert_eq!(pair.ids(), [wr_id], "{about}");
            };
            let fetched = || {
                // SAFETY: the buffer belongs to this test.
                unsafe { std::slice::from_raw_parts((pair.here.addr + INTO) as *const u8, len as usize) }
            };
            pair.fill(7);
            post(1, SendOp::Send, FROM, len);
            post(2, SendOp::Read(at(RECVS_AT)), INTO, len);
            assert_eq!(fetched(), vec![7; len as usize], "a READ after a SEND: {about}");
            // A WRITE to the last byte of a message whose payload is still in the receive queue.
            pair.fill(8);
            post(3, SendOp::Send, FROM, len);
            pair.fill(9);
            post(4, SendOp::Write(at(RECVS_AT + u64::from(len) - 1)), FROM, 1);
            assert_eq!(ask("poll").len(), 2 * 3, "{about}");
            let mut expected = vec![8; len as usize];
            expected[len as usize - 1] = 9;
            assert_eq!(pair.bytes_there(RECVS_AT, len as usize), expected, "a WRITE after a SEND: {about}");
            // A longer message to the same buffer, after an atomic to the buffer.
            pair.fill(1);
            post(5, SendOp::Send, FROM, len.min(200));
            if len >= 8 {
                post(6, SendOp::FetchAdd { remote: at(RECVS_AT), add: 1 }, INTO, 8);
                assert_eq!(pair.word(INTO), u64::from_ne_bytes([1; 8]), "an atomic after a SEND: {about}");
            }
            pair.recvs_there(1);
            pair.fill(2);
            post(7, SendOp::Send, FROM, 250);
            assert_eq!(ask("poll").len(), 2 * 3, "{about}");
            assert_eq!(pair.bytes_there(RECVS_AT, 250), [2; 250], "a longer SEND: {about}");
        }
    }
}

/// Posts requests to the two buffers of an SRQ's RECV before its completion is polled.
fn placed_of_srq() {
    let (one, other, srq) = sides_with_srq();
    let memory = buffer(process());
    let sge = |at: u64, length| Sge { addr: memory.addr + at, length, lkey: memory.key };
    let remote = |at: u64| RemoteAddr { addr: memory.addr + at, rkey: memory.key };
    let byte = |at: u64| {
        // SAFETY: the buffer belongs to this test.
        unsafe { &mut *((memory.addr + at) as *mut u8) }
    };
    let post = |op: SendOp, from: u64, len: u32| {
        let sges = [sge(from, len)];
        let wr = SendWr::new(1, op, &sges).flags(SendFlags::SIGNALED);
        one.qp.begin_post().post_wr(&wr, None).expect("there is room");
        assert_eq!(ids_of(&one), [1]);
    };
    for round in 0..10u8 {
        srq.enqueue(round.into(), &[sge(RECVS_AT, 10), sge(WORD, 90)]).expect("a RECV");
        for n in 0..100 {
            *byte(FROM + n) = round + n as u8;
        }
        post(SendOp::Send, FROM, 100);
        post(SendOp::Read(remote(WORD + 89)), INTO, 1);
        assert_eq!(*byte(INTO), round + 99);
        assert_eq!(*byte(RECVS_AT + 9), round + 9, "all of the message is placed");
        *byte(FROM) = 200;
        post(SendOp::Write(remote(RECVS_AT)), FROM, 1);
        assert_eq!(ids_of(&other), [u64::from(round)]);
        assert_eq!((*byte(RECVS_AT), *byte(RECVS_AT + 1)), (200, round + 1));
    }
}

/// Stops the receiver while it copies a payload. Requests to the same bytes wait, but no call waits.
fn receiver_stops() {
    let pair = Pair::new(false);
    for request in [Ask::Write, Ask::Send(250)] {
        pair.warm_up();
        pair.recvs_there(2);
        pair.fill(7);
        pair.post(&[(1, Ask::Send(8))]);
        assert_eq!(pair.ids(), [1]);
        peer(|peer| {
            peer.stop_at(Point::TakingBegun);
            peer.tell("poll");
            peer.wait_until_stopped();
        });
        pair.fill(9);
        pair.post(&[(2, request)]);
        // Waits longer than all time-outs. The requests must not fail, because on a NIC the receiving program
        // does not matter.
        let begin = Instant::now();
        while begin.elapsed() < TIMEOUTS {
            assert_eq!(pair.ids(), [0; 0], "{request:?} overtakes the payload, or fails");
        }
        peer(|peer| {
            peer.go_on();
            peer.answer();
        });
        assert_eq!(pair.side.wait_for(1)[0][..2], [2, 0]);
        ask("poll");
        assert_eq!(pair.bytes_there(RECVS_AT, 8), [9; 8], "{request:?}");
        if request == Ask::Write {
            // The WRITE has not taken the second RECV, so this SEND takes it.
            pair.post(&[(3, Ask::Send(8))]);
            ask("poll");
            assert_eq!(pair.ids(), [3]);
        }
    }
}

/// Stops or kills the sender while it places a payload. The receiver must get the message once.
fn sender_stops() {
    for (point, is_killed) in
        [Point::PlacingBegun, Point::PlacingEnds].map(|point| [(point, false), (point, true)]).concat()
    {
        for is_crowded in [false, true] {
            let about = format!("{point:?}, killed {is_killed}, crowded {is_crowded}");
            *lock(&PEER) = Some(Peer::start());
            let there = peer(Peer::buffer);
            let side = peer(|peer| peer.connect(QpType::Rc));
            let _beside = is_crowded.then(|| side.beside());
            let here = buffer(process());
            // SAFETY: the buffer belongs to this test.
            let word = unsafe { &*((here.addr + WORD) as *const AtomicU64) };
            let sge = [Sge { addr: here.addr + WORD, length: 64, lkey: here.key }];
            side.qp.post_recv(RECV_ID, &sge).expect("a RECV");
            ask(&format!("store {} 7", there.addr));
            ask("send 8");
            ask(&format!("store {} 9", there.addr));
            let write = format!("write {} {} 8", here.addr + WORD, here.key);
            peer(|peer| {
                if is_killed {
                    peer.kill_at(point)
                } else {
                    peer.stop_at(point)
                }
                peer.tell(&write);
            });
            if is_killed {
                peer(|peer| drop(peer.process.wait()));
                let begin = Instant::now();
                while ids_of(&side).is_empty() {
                    assert!(begin.elapsed() < HANGS, "the message is lost: {about}");
                }
                assert_eq!(word.load(SeqCst), 7, "{about}");
                continue;
            }
            peer(|peer| peer.wait_until_stopped());
            (0..100).for_each(|_| assert_eq!(ids_of(&side), [0; 0], "{about}"));
            peer(|peer| {
                peer.go_on();
                peer.answer();
            });
            assert_eq!(ids_of(&side), [RECV_ID], "{about}");
            assert_eq!(word.load(SeqCst), 9, "{about}");
        }
    }
}

/// Destroys the QP while a stopped sender places a payload. The message and its payload must stay.
fn receiver_ends() {
    *lock(&PEER) = Some(Peer::start());
    let there = peer(Peer::buffer);
    let side = peer(|peer| peer.connect(QpType::Rc));
    let here = buffer(process());
    let sge = [Sge { addr: here.addr + WORD, length: 64, lkey: here.key }];
    side.qp.post_recv(RECV_ID, &sge).expect("a RECV");
    ask(&format!("store {} 7", there.addr));
    ask("send 8");
    peer(|peer| {
        peer.stop_at(Point::PlacingBegun);
        peer.tell(&format!("write {} {} 8", here.addr + WORD, here.key));
        peer.wait_until_stopped();
    });
    let cq = side.cq.clone();
    drop(side);
    // SAFETY: the buffer belongs to this test.
    let word = unsafe { &*((here.addr + WORD) as *const AtomicU64) };
    assert_eq!(word.load(SeqCst), 7, "the payload is in place when the QP is gone");
    let mut wcs = [doorbell_abi::ibv_wc::default(); 2];
    assert_eq!(cq.poll(&mut wcs).expect("the CQ has room"), 1);
    assert_eq!((wcs[0].wr_id, wcs[0].status), (RECV_ID, 0));
}

fn events() {
    let pair = Pair::new(false);
    let cq = &pair.side.cq;
    // Checks the CQ for missing events, as the device's thread does periodically.
    let look = || (0..3).for_each(|_| cq.look());
    let is_quiet = |about: &str| {
        look();
        assert!(!pair.has_event(), "{about}");
    };
    cq.request_notify(false);
    is_quiet("nothing has come");
    let side = side_with(None);
    side.cq.request_notify(false);
    side.cq.look();
    side.cq.look();
    let mut one = libc::pollfd { fd: side.pipe.read_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the array has one entry.
    assert_eq!(unsafe { libc::poll(&mut one, 1, 0) }, 0, "no RECV is posted");
    // A message causes one event.
    ask("answer");
    pair.take_event();
    is_quiet("it has its event");
    // The message is still in the CQ when the next event is requested.
    cq.request_notify(true);
    is_quiet("it is not solicited");
    cq.request_notify(false);
    pair.take_event();
    is_quiet("one event");
    assert_eq!(pair.ids(), [RECV_ID]);
    cq.request_notify(false);
    is_quiet("it was taken");
    // The peer stops before it sends the event, and this program polls the message.
    for is_crowded in [false, true] {
        let _beside = is_crowded.then(|| pair.side.beside());
        let point = if is_crowded { Point::CellWritten } else { Point::TurnPassed };
        peer(|peer| {
            peer.stop_at(point);
            peer.tell("answer");
            peer.wait_until_stopped();
        });
        assert_eq!(pair.ids().len(), 1);
        cq.request_notify(false);
        peer(|peer| {
            peer.go_on();
            peer.answer();
        });
        is_quiet("the message was taken before the event was requested");
    }
    // The program does not poll the message. The check of the CQ sends the event in place of the stopped
    // peer.
    peer(|peer| {
        peer.stop_at(Point::CellWritten);
        peer.tell("answer");
        peer.wait_until_stopped();
    });
    assert!(!pair.has_event());
    look();
    pair.take_event();
    assert_eq!(pair.ids().len(), 1);
    peer(|peer| {
        peer.go_on();
        peer.answer();
    });
    is_quiet("it was notified");
    // Another thread polls a completion of this program's own SEND.
    pair.warm_up();
    pair.recvs_there(1);
    let meanwhile = || {
        assert_eq!(pair.ids(), [1]);
        cq.request_notify(false);
    };
    while_parked(Point::MarkedDone, || pair.post(&[(1, Ask::Send(8))]), meanwhile);
    is_quiet("the completion was taken before the event was requested");
    pair.recvs_there(1);
    pair.post(&[(2, Ask::Send(8))]);
    pair.take_event();
    cq.request_notify(true);
    is_quiet("it is no error");
    cq.request_notify(false);
    pair.take_event();
    assert_eq!(pair.ids(), [2]);
}
