//! Tests operations between two processes: lists of work requests, faults, and memory that processes share.

use super::own_time::OwnTime;
use super::peer::{BUFFER, Buffer, HOLE, OPEN, Peer, RECV_BYTES, RECVS, all_of, buffer, run_on};
use super::{Patience, Side};
use crate::fabric::process::Process;
use crate::memory::transfer;
use doorbell_abi::CEnum;
use doorbell_verbs::*;
use proptest::prelude::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A work request of a test. Offsets and lengths are in bytes of the buffers.
#[derive(Clone, Debug)]
enum Op {
    Write {
        from: usize,
        to: usize,
        len: usize,
    },
    WriteInline {
        from: usize,
        to: usize,
        len: usize,
    },
    /// A WRITE of two SGEs that are far apart.
    WriteTwo {
        from: usize,
        to: usize,
        len: usize,
    },
    Read {
        from: usize,
        to: usize,
        len: usize,
    },
    Send {
        from: usize,
        len: usize,
    },
    WriteWithImm {
        from: usize,
        to: usize,
        len: usize,
    },
    FetchAdd {
        word: usize,
        to: usize,
    },
    CompareSwap {
        word: usize,
        to: usize,
        compare: u64,
    },
    /// A WRITE or READ whose remote memory begins in mapped pages and runs into the unmapped page.
    IntoHole {
        before: usize,
        read: bool,
    },
    /// A WRITE or READ whose local memory begins in mapped pages and runs into the unmapped page.
    FromHole {
        before: usize,
        read: bool,
    },
    /// A SEND whose payload runs into the unmapped page. The payload is too long to travel with its
    /// completion.
    SendFromHole,
    BadRkey,
    BadLkey,
    OutOfBounds,
    /// A WRITE to the buffer that the peer shares.
    WriteShared {
        from: usize,
        to: usize,
        len: usize,
    },
    ReadShared {
        from: usize,
        to: usize,
        len: usize,
    },
}

/// The buffers of a test: this process's buffer, the peer's private buffer, and a buffer that the peer
/// shares.
#[derive(Clone, Copy)]
struct Buffers {
    here: Buffer,
    there: Buffer,
    shared: Buffer,
}

/// Builds the work request of an operation, with its SGEs in `sges`. Every third request is signalled.
fn request<'a>(op: &Op, number: usize, buffers: &Buffers, sges: &'a mut [Sge; 2]) -> SendWr<'a> {
    let Buffers { here, there, shared } = buffers;
    let remote_shared = |at: usize| RemoteAddr { addr: shared.addr + at as u64, rkey: shared.key };
    let remote = |at: usize| RemoteAddr { addr: there.addr + at as u64, rkey: there.key };
    let mut one = |from: usize, len: usize| {
        sges[0] = Sge { addr: here.addr + from as u64, length: len as u32, lkey: here.key };
        1
    };
    let mut flags = SendFlags::empty();
    let (verb, count) = match *op {
        Op::Write { from, to, len } => (SendOp::Write(remote(to)), one(from, len)),
        Op::WriteInline { from, to, len } => {
            flags = SendFlags::INLINE;
            (SendOp::Write(remote(to)), one(from, len))
        }
        Op::WriteTwo { from, to, len } => {
            one(from, len);
            sges[1] = Sge { addr: sges[0].addr / 2 + here.addr / 2, ..sges[0] };
            (SendOp::Write(remote(to)), 2)
        }
        Op::Read { from, to, len } => (SendOp::Read(remote(from)), one(to, len)),
        Op::Send { from, len } => (SendOp::Send, one(from, len)),
        Op::WriteWithImm { from, to, len } => (SendOp::WriteWithImm(remote(to), 7), one(from, len)),
        Op::FetchAdd { word, to } => (SendOp::FetchAdd { remote: remote(word * 8), add: 3 }, one(to, 8)),
        Op::CompareSwap { word, to, compare } => {
            (SendOp::CompareSwap { remote: remote(word * 8), compare, swap: 77 }, one(to, 8))
        }
        Op::IntoHole { before, read } => {
            let remote = remote(HOLE - before);
            (if read { SendOp::Read(remote) } else { SendOp::Write(remote) }, one(0, before + 100))
        }
        Op::FromHole { before, read } => {
            let remote = remote(2000);
            let verb = if read { SendOp::Read(remote) } else { SendOp::Write(remote) };
            (verb, one(HOLE - before, before + 100))
        }
        Op::SendFromHole => (SendOp::Send, one(HOLE - 100, RECV_BYTES)),
        Op::BadRkey => (SendOp::Write(RemoteAddr { rkey: there.key ^ 0xff, ..remote(0) }), one(0, 8)),
        Op::BadLkey => {
            one(0, 8);
            sges[0].lkey ^= 0xff;
            (SendOp::Write(remote(0)), 1)
        }
        Op::OutOfBounds => (SendOp::Write(remote(BUFFER - 8)), one(0, 9)),
        Op::WriteShared { from, to, len } => (SendOp::Write(remote_shared(to)), one(from, len)),
        Op::ReadShared { from, to, len } => (SendOp::Read(remote_shared(from)), one(to, len)),
    };
    if number.is_multiple_of(3) {
        flags |= SendFlags::SIGNALED;
    }
    SendWr::new(number as u64, verb, &sges[..count]).flags(flags)
}

/// Whether work requests are posted in one call or in a call each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Posted {
    InOneList,
    OneByOne,
}

/// The visible results of work requests: completions and memory on both sides.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    sends: Vec<[u64; 3]>,
    recvs: Vec<u64>,
    here: Vec<u8>,
    there: Vec<u8>,
    shared: Vec<u8>,
}

/// Posts the work requests on a new QP, and returns their results. All buffers get the initial content
/// before.
fn run(peer: &mut Peer, qp_type: QpType, ops: &[Op], posted: Posted, buffers: &Buffers) -> Seen {
    let Buffers { here, there, shared } = buffers;
    let pattern: Vec<u8> = (0..HOLE).map(|n| (n * 7 / 3) as u8).collect();
    let mut other: Vec<u8> = pattern.iter().map(|byte| !byte).collect();
    // SAFETY: the buffer belongs to this test, and these bytes are mapped. Nothing else uses them now.
    let own = unsafe { std::slice::from_raw_parts_mut(here.addr as *mut u8, HOLE) };
    own.copy_from_slice(&pattern);
    for buffer in [there, shared] {
        transfer::write(&[all_of(&mut other)], peer.far(buffer.addr)).expect("the peer lives");
    }
    let side = peer.connect(qp_type);
    peer.ask(&format!("recv {RECVS}"));
    let mut sges = vec![[Sge::default(); 2]; ops.len()];
    let mut posting = side.qp.begin_post();
    for (number, (op, sges)) in ops.iter().zip(&mut sges).enumerate() {
        posting.post_wr(&request(op, number, buffers, sges), None).expect("there is room");
        if posted == Posted::OneByOne {
            drop(posting);
            posting = side.qp.begin_post();
        }
    }
    drop(posting);
    let sends = side.completions();
    let recvs = peer.ask("poll");
    let (there, shared) = (peer.bytes(there.addr), peer.bytes(shared.addr));
    Seen { sends, recvs, here: own.to_vec(), there, shared }
}

fn ops(qp_type: QpType) -> impl Strategy<Value = Vec<Op>> {
    let len = prop_oneof![Just(1usize), Just(8), Just(9), Just(16), 1..200usize, 1000..1200usize];
    let short = 1..64usize;
    let at = 0..OPEN - 1200;
    // Few offsets are possible, so that WRITEs are often contiguous and READs often fetch written bytes.
    let to = prop_oneof![at.clone(), (0..20usize).prop_map(|n| n * 8)];
    let word = 0..32usize;
    let from_to = (to.clone(), at, len).prop_map(|(to, from, len)| (from, to, len));
    let write = from_to.clone().prop_map(|(from, to, len)| Op::Write { from, to, len });
    let two = from_to.clone().prop_map(|(from, to, len)| Op::WriteTwo { from, to, len: len / 2 + 1 });
    let inline = (from_to.clone(), short).prop_map(|((from, to, _), len)| Op::WriteInline { from, to, len });
    let imm = from_to.clone().prop_map(|(from, to, len)| Op::WriteWithImm { from, to, len });
    let send = from_to.clone().prop_map(|(from, _, len)| Op::Send { from, len: len.min(RECV_BYTES) });
    let write_shared = from_to.clone().prop_map(|(from, to, len)| Op::WriteShared { from, to, len });
    let read_shared = from_to.clone().prop_map(|(to, from, len)| Op::ReadShared { from, to, len });
    let read = from_to.prop_map(|(to, from, len)| Op::Read { from, to, len });
    let add = (word.clone(), to.clone()).prop_map(|(word, to)| Op::FetchAdd { word, to });
    let swap = (word, to, prop_oneof![Just(0u64), any::<u64>()])
        .prop_map(|(word, to, compare)| Op::CompareSwap { word, to, compare });
    let hole = (1..200usize, any::<bool>()).prop_map(|(before, read)| Op::IntoHole { before, read });
    let own_hole = (1..200usize, any::<bool>()).prop_map(|(before, read)| Op::FromHole { before, read });
    let fault = prop_oneof![
        3 => hole,
        3 => own_hole,
        1 => Just(Op::SendFromHole),
        1 => Just(Op::BadRkey),
        1 => Just(Op::BadLkey),
        1 => Just(Op::OutOfBounds)
    ];
    let op = prop_oneof![
        20 => write, 4 => two, 4 => inline, 2 => imm, 2 => send, 1 => fault, 2 => write_shared,
        8 => read, 2 => add, 2 => swap, 2 => read_shared,
    ];
    let has = move |op: &Op| qp_type == QpType::Rc || !returns_data(op);
    proptest::collection::vec(op, 1..60).prop_map(move |ops| ops.into_iter().filter(has).collect())
}

fn returns_data(op: &Op) -> bool {
    matches!(op, Op::Read { .. } | Op::ReadShared { .. } | Op::FetchAdd { .. } | Op::CompareSwap { .. })
        || matches!(op, Op::IntoHole { read: true, .. } | Op::FromHole { read: true, .. })
}

/// Starts a peer, and creates the buffers of both sides.
fn begin() -> (Peer, Buffers) {
    let process = Process::current().expect("this process can use the device");
    let mut peer = Peer::start();
    let buffers = Buffers { here: buffer(process), there: peer.buffer(), shared: peer.shared("system-v").0 };
    (peer, buffers)
}

#[test]
fn a_list_does_what_its_work_requests_do_one_by_one() {
    let (mut peer, buffers) = begin();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let peer = std::cell::RefCell::new(&mut peer);
    for qp_type in [QpType::Rc, QpType::Uc] {
        let same = |ops: Vec<Op>| {
            let peer: &mut Peer = &mut peer.borrow_mut();
            // There are at most as many messages as RECVs.
            let takes = |op: &&Op| matches!(op, Op::Send { .. } | Op::WriteWithImm { .. });
            prop_assume!(ops.iter().filter(takes).count() <= RECVS);
            let list = run(peer, qp_type, &ops, Posted::InOneList, &buffers);
            let single = run(peer, qp_type, &ops, Posted::OneByOne, &buffers);
            prop_assert_eq!(&list.sends, &single.sends);
            prop_assert_eq!(&list.recvs, &single.recvs);
            let differs =
                |one: &[u8], other: &[u8]| one.iter().zip(other).position(|(one, other)| one != other);
            prop_assert_eq!(differs(&list.here, &single.here), None, "memory here");
            prop_assert_eq!(differs(&list.there, &single.there), None, "memory there");
            prop_assert_eq!(differs(&list.shared, &single.shared), None, "shared memory");
            Ok(())
        };
        runner.run(&ops(qp_type), same).unwrap_or_else(|failure| panic!("{qp_type}: {failure}"));
    }
}

fn status(status: WcStatus) -> u64 {
    status.to_c().into()
}

fn write(from: usize, to: usize, len: usize) -> Op {
    Op::Write { from, to, len }
}

#[test]
fn those_before_a_fault_complete_and_those_after_it_are_flushed() {
    let (mut peer, buffers) = begin();
    // Every third work request is signalled.
    let mut list: Vec<Op> = (0..7).map(|n| write(n * 100, n * 50, 20)).collect();
    for (fault, expected) in [
        (Op::IntoHole { before: 30, read: false }, WcStatus::RemAccessErr),
        (Op::BadRkey, WcStatus::RemAccessErr),
        (Op::OutOfBounds, WcStatus::RemAccessErr),
        (Op::BadLkey, WcStatus::LocProtErr),
        (Op::FromHole { before: 30, read: false }, WcStatus::LocProtErr),
        (Op::SendFromHole, WcStatus::LocProtErr),
    ] {
        list[4] = fault;
        let seen = run(&mut peer, QpType::Rc, &list, Posted::InOneList, &buffers);
        let became: Vec<[u64; 2]> = seen.sends.iter().map(|&[number, status, _]| [number, status]).collect();
        let flushed = status(WcStatus::WrFlushErr);
        assert_eq!(became, [[0, 0], [3, 0], [4, status(expected)], [5, flushed], [6, flushed]], "{list:?}");
        for n in 0..7 {
            let arrived = seen.there[n * 50..n * 50 + 20] == seen.here[n * 100..n * 100 + 20];
            assert_eq!(arrived, n < 4, "{n} of {list:?}");
        }
        let seen = run(&mut peer, QpType::Uc, &list, Posted::InOneList, &buffers);
        let goes_on = expected == WcStatus::RemAccessErr;
        assert_eq!(seen.there[300..320] == seen.here[600..620], goes_on, "UC: {list:?}");
    }
}

#[test]
fn a_list_may_be_longer_than_what_one_call_takes() {
    let (mut peer, buffers) = begin();
    // The WRITEs are not contiguous, so that each is a separate piece at the far side too.
    let places = |n: usize| (128 + n % 500 * 16, n * 10 % 8000);
    let mut list: Vec<Op> = (0..1500).map(|n| write(places(n).0, places(n).1, 10)).collect();
    list.push(Op::IntoHole { before: 5, read: true });
    let seen = run(&mut peer, QpType::Rc, &list, Posted::InOneList, &buffers);
    assert_eq!(seen.sends.len(), 501, "one in three, and the fault");
    assert_eq!(seen.sends[500], [1500, status(WcStatus::RemAccessErr), WcOpcode::Read.to_c().into()]);
    for n in 700..1500 {
        let (from, to) = places(n);
        assert_eq!(seen.there[to..to + 10], seen.here[from..from + 10], "{n}");
    }
}

#[test]
fn those_behind_one_that_waits_come_after_it() {
    let (mut peer, buffers) = begin();
    let side = peer.connect(QpType::Rc);
    let before = peer.bytes(buffers.there.addr);
    let ops = [write(0, 0, 20), Op::Send { from: 20, len: 20 }, write(40, 40, 20), write(60, 60, 20)];
    // SAFETY: the buffer belongs to this test, and this many of its bytes are mapped.
    unsafe { std::slice::from_raw_parts_mut(buffers.here.addr as *mut u8, 80) }.fill(9);
    let mut sges = [[Sge::default(); 2]; 4];
    let mut posting = side.qp.begin_post();
    for (number, (op, sges)) in ops.iter().zip(&mut sges).enumerate() {
        posting.post_wr(&request(op, number, &buffers, sges), None).expect("there is room");
    }
    drop(posting);
    let waiting = peer.bytes(buffers.there.addr);
    assert_eq!(waiting[..20], [9; 20]);
    assert_eq!(waiting[20..], before[20..], "nothing overtakes the SEND");
    peer.ask("recv 1");
    assert_eq!(side.wait_for(2).len(), 2, "one in three asks for a completion");
    assert_eq!(peer.bytes(buffers.there.addr)[40..80], [9; 40]);
}

#[test]
fn a_list_to_a_process_that_has_ended_fails_as_a_whole() {
    let (mut peer, buffers) = begin();
    let side = peer.connect(QpType::Rc);
    peer.process.kill().expect("it lives");
    peer.process.wait().expect("it ends");
    let mut sges = [[Sge::default(); 2]; 5];
    let mut posting = side.qp.begin_post();
    for (number, sges) in sges.iter_mut().enumerate() {
        let op = write(number * 64, number * 64, 20);
        posting.post_wr(&request(&op, number, &buffers, sges), None).expect("there is room");
    }
    drop(posting);
    let became: Vec<u64> = side.wait_for(5).iter().map(|wc| wc[1]).collect();
    let flushed = status(WcStatus::WrFlushErr);
    assert_eq!(became, [status(WcStatus::RetryExcErr), flushed, flushed, flushed, flushed]);
}

/// Posts one work request, and returns its status.
fn post_one(side: &Side, op: &Op, buffers: &Buffers) -> u64 {
    let mut sges = [Sge::default(); 2];
    side.qp.begin_post().post_wr(&request(op, 0, buffers, &mut sges), None).expect("there is room");
    side.wait_for(1)[0][1]
}

/// Accesses a region while its owner changes the record. The access is retried until the change ends or the
/// time-out passes.
#[test]
fn a_region_that_is_being_changed_is_waited_for() {
    let (mut peer, buffers) = begin();
    let write = write(0, 0, 20);
    let side = peer.connect(QpType::Rc);
    peer.ask(&format!("change {}", buffers.there.key));
    assert_eq!(post_one(&side, &write, &buffers), status(WcStatus::RetryExcErr));
    let side = peer.connect(QpType::Rc);
    let dest = side.qp.query().1.dest_qp_num.expect("it is connected");
    side.reconnect(dest, Patience { timeout: 19, rnr_retry: 7 });
    let mut sges = [Sge::default(); 2];
    side.qp.begin_post().post_wr(&request(&write, 0, &buffers, &mut sges), None).expect("there is room");
    peer.ask(&format!("change {}", buffers.there.key));
    assert_eq!(side.wait_for(1)[0][1], 0);
}

/// Accesses memory that the peer shares, before and after the peer unmaps it. Afterwards, only memory that
/// this process has mapped itself is accessible.
#[test]
fn what_a_program_shares_is_accessed_where_it_lies() {
    for (how, mapped_here) in [("system-v", true), ("sealed", true), ("unsealed", false)] {
        let (mut peer, mut buffers) = begin();
        let (shared, second, _) = peer.shared(how);
        buffers.shared = shared;
        buffers.there = shared;
        // SAFETY: the buffer belongs to this test, and this many of its bytes are mapped.
        let own = unsafe { std::slice::from_raw_parts_mut(buffers.here.addr as *mut u8, HOLE) };
        own.fill(5);
        let side = peer.connect(QpType::Rc);
        assert_eq!(post_one(&side, &Op::WriteShared { from: 0, to: 100, len: 50 }, &buffers), 0, "{how}");
        assert_eq!(peer.bytes(second)[100..150], [5; 50], "{how}");
        peer.ask(&format!("unmap {}", shared.addr));
        let outcome = if mapped_here { 0 } else { status(WcStatus::RemAccessErr) };
        assert_eq!(
            post_one(&side, &Op::WriteShared { from: 0, to: 200, len: 50 }, &buffers),
            outcome,
            "{how}"
        );
        assert_eq!(peer.bytes(second)[200..250] == [5; 50], mapped_here, "{how}");
        if mapped_here {
            assert_eq!(post_one(&side, &Op::FetchAdd { word: 40, to: 0 }, &buffers), 0, "{how}");
            assert_eq!(peer.bytes(second)[320..328], [3, 0, 0, 0, 0, 0, 0, 0], "{how}");
            assert_eq!(post_one(&side, &Op::ReadShared { from: 320, to: 8, len: 8 }, &buffers), 0, "{how}");
            assert_eq!(own[..16], [0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0], "{how}");
        }
    }
}

#[test]
fn a_file_that_its_program_truncates_fails_accesses_and_nothing_else() {
    let (mut peer, mut buffers) = begin();
    buffers.shared = peer.shared("unsealed").0;
    let side = peer.connect(QpType::Rc);
    let write = Op::WriteShared { from: 0, to: 100, len: 50 };
    assert_eq!(post_one(&side, &write, &buffers), 0);
    peer.ask("truncate");
    assert_eq!(post_one(&side, &write, &buffers), status(WcStatus::RemAccessErr));
}

#[test]
fn a_region_that_takes_the_place_of_another_is_found() {
    let (mut peer, mut buffers) = begin();
    let side = peer.connect(QpType::Rc);
    let write = Op::WriteShared { from: 0, to: 100, len: 50 };
    assert_eq!(post_one(&side, &write, &buffers), 0);
    let before = peer.bytes(buffers.shared.addr);
    let key = peer.ask(&format!("replace {}", buffers.shared.key))[0] as u32;
    assert_eq!(key >> 8, buffers.shared.key >> 8, "the same place");
    let old = buffers.shared;
    buffers.shared = Buffer { key, ..buffers.there };
    // SAFETY: the buffer belongs to this test, and this many of its bytes are mapped.
    unsafe { std::slice::from_raw_parts_mut(buffers.here.addr as *mut u8, 50) }.fill(6);
    assert_eq!(post_one(&side, &write, &buffers), 0);
    assert_eq!(peer.bytes(buffers.there.addr)[100..150], [6; 50]);
    assert_eq!(peer.bytes(old.addr), before, "what was there before is left alone");
}

#[test]
fn a_record_that_says_more_than_is_mapped_is_not_believed() {
    let (mut peer, buffers) = begin();
    for first in [None, Some(Op::WriteShared { from: 0, to: 100, len: 50 })] {
        let side = peer.connect(QpType::Rc);
        if let Some(op) = first {
            assert_eq!(post_one(&side, &op, &buffers), 0);
        }
        peer.ask(&format!("lie {}", buffers.shared.key));
        let beyond = Op::WriteShared { from: 0, to: 1 << 30, len: 50 };
        assert_eq!(post_one(&side, &beyond, &buffers), status(WcStatus::RemAccessErr));
    }
}

/// The number of attachments of a System V segment, or `None` if the segment does not exist.
fn attachments(id: i32) -> Option<u64> {
    // SAFETY: the struct has only integers, which may be zero. shmctl(2) fills it in.
    unsafe {
        let mut about: libc::shmid_ds = std::mem::zeroed();
        (libc::shmctl(id, libc::IPC_STAT, &mut about) == 0).then_some(about.shm_nattch)
    }
}

#[test]
fn shared_memory_is_mapped_once_and_not_longer_than_needed() {
    let (mut peer, mut buffers) = begin();
    let (shared, second, id) = peer.shared("system-v");
    let other = Buffer { addr: second, key: peer.ask(&format!("register {second}"))[0] as u32 };
    let write = Op::WriteShared { from: 0, to: 100, len: 50 };
    assert_eq!(attachments(id), Some(2), "the peer's own");
    for region in [shared, shared, other] {
        buffers.shared = region;
        let side = peer.connect(QpType::Rc);
        assert_eq!(post_one(&side, &write, &buffers), 0);
        assert_eq!(attachments(id), Some(3), "one here, whoever uses it");
    }
    for region in [shared, other] {
        peer.ask(&format!("replace {}", region.key));
    }
    let (shared, _, next) = peer.shared("system-v");
    buffers.shared = shared;
    let side = peer.connect(QpType::Rc);
    assert_eq!(post_one(&side, &write, &buffers), 0);
    assert_eq!((attachments(id), attachments(next)), (Some(2), Some(3)), "there is no such region any more");
    drop(side);
    peer.process.kill().expect("it lives");
    peer.process.wait().expect("it ends");
    let waits = OwnTime::start();
    while attachments(next).is_some() {
        assert!(!waits.is_hang(), "the segment is left behind");
        std::thread::yield_now();
    }
}

#[test]
fn a_peer_that_posts_on_the_same_processor_is_let_run_once() {
    let (mut peer, buffers) = begin();
    let side = peer.connect(QpType::Rc);
    // SAFETY: the call takes no arguments.
    let here = unsafe { libc::sched_getcpu() } as usize;
    run_on(here);
    let gives_way = |op: &Op| {
        let mut sges = [Sge::default(); 2];
        let mut posting = side.qp.begin_post();
        posting.post_wr(&request(op, 0, &buffers, &mut sges), None).expect("there is room");
        posting.gives_way()
    };
    let (write, read) = (write(0, 0, 8), Op::Read { from: 0, to: 0, len: 8 });
    assert!(!gives_way(&write), "the peer has not posted");
    side.wait_for(1);
    peer.ask(&format!("post-on {here}"));
    assert!(!gives_way(&read), "the peer learns nothing");
    assert!(!gives_way(&write), "it is one of several");
    side.wait_for(2);
    assert!(gives_way(&write));
    side.wait_for(1);
    assert!(!gives_way(&write), "the peer has not posted since");
    side.wait_for(1);
    peer.ask(&format!("post-on {here}"));
    side.cq.request_notify(false);
    assert!(!gives_way(&write), "the program waits for an event");
}

/// READs from a peer that corrupts its records. WRITEs would damage the peer, because corrupted records may
/// give wrong addresses.
#[test]
fn a_peer_that_scribbles_in_its_records_does_no_harm() {
    let (mut peer, mut buffers) = begin();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(0x5eed_0002);
    for round in 0..300 {
        let memory = if round % 2 == 0 { buffers.there.addr } else { buffers.shared.addr };
        buffers.shared = Buffer { addr: memory, key: peer.ask(&format!("register {memory}"))[0] as u32 };
        let side = peer.connect(QpType::Rc);
        let mut next = 0;
        for step in 0..4 {
            let ops: Vec<Op> = (0..1 + random.next_u64() % 8)
                .map(|_| {
                    let len = 1 + random.next_u64() as usize % 300;
                    Op::ReadShared { from: random.next_u64() as usize % (BUFFER - len), to: 0, len }
                })
                .collect();
            let mut sges = vec![[Sge::default(); 2]; ops.len()];
            let mut posting = side.qp.begin_post();
            for (number, (op, sges)) in ops.iter().zip(&mut sges).enumerate() {
                let number = step * 100 + number;
                posting.post_wr(&request(op, number, &buffers, sges), None).expect("there is room");
            }
            drop(posting);
            let posted = (step * 100 + ops.len()) as u64;
            for [number, ..] in side.completions() {
                assert!((next..posted).contains(&number), "round {round}: {number}");
                next = number + 1;
            }
            peer.ask(&format!("scribble {} {}", buffers.shared.key, random.next_u64()));
        }
    }
}

#[test]
fn an_error_that_a_peer_causes_survives_the_owners_next_state() {
    let process = Process::current().expect("this process can use the device");
    let cap = QpCap { max_send_wr: 4, max_recv_wr: 4, max_send_sge: 1, max_recv_sge: 1, max_inline_data: 0 };
    let side = Side::new(process, QpType::Rc, cap, 16);
    side.connect(side.qp.num(), Patience { timeout: 1, rnr_retry: 1 });
    let record = process.segment.qp(process.segment.index_of(side.qp.num())).expect("its record");
    // The peer's request fails after the owner has checked the state, and before the owner shows the next.
    assert!(record.enter_error(|state| state == QpState::Rts.to_c()));
    let before = record.shown();
    record.show(QpState::Rts);
    assert!(record.is_in_error() && record.shown() != before, "{:?}", record.shown());
    assert_eq!(side.qp.query().0, QpState::Err);
    side.qp.modify(&QpAttr::state(QpState::Reset)).expect("it can be reset");
    assert_eq!(record.shown().state(), QpState::Reset.to_c());
}
