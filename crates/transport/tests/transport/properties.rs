//! Random verbs over a faulty network against a reference.

use crate::net::{BASE, Faults, Host, Net, QKEY, Setup};
use doorbell_transport::Queue;
use doorbell_verbs::{
    AhHandle, QpType, RecvWr, RemoteAddr, SendFlags, SendOp, SendWr, Sge, UdDest, Wc, WcOpcode, WcStatus,
};
use proptest::prelude::*;

/// A random work request.
#[derive(Clone, Copy, Debug)]
struct Work {
    kind: Kind,
    len: u32,
    flags: SendFlags,
    /// The byte at which the local data are split into two SGEs.
    split: u32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Send,
    SendImm,
    Write,
    WriteImm,
    Read,
    FetchAdd,
    CompareSwap,
}

const LONGEST: u32 = 1500;

fn work(kinds: Vec<Kind>, longest: u32) -> impl Strategy<Value = Work> {
    let len =
        prop_oneof![Just(0), 1..65u32, Just(256u32.min(longest)), Just(512u32.min(longest)), 0..longest + 1];
    (prop::sample::select(kinds), len, any::<[bool; 4]>(), 0..LONGEST).prop_map(
        |(kind, len, flags, split)| {
            let atomic = matches!(kind, Kind::FetchAdd | Kind::CompareSwap);
            let len = if atomic { 8 } else { len };
            let mut set = SendFlags::empty();
            set.set(SendFlags::SIGNALED, flags[0]);
            set.set(SendFlags::SOLICITED, flags[1]);
            set.set(SendFlags::FENCE, flags[2] && !atomic);
            set.set(SendFlags::INLINE, flags[3] && len <= 64 && !atomic && kind != Kind::Read);
            Work { kind, len, flags: set, split: if atomic { 0 } else { split.min(len) } }
        },
    )
}

fn faults() -> impl Strategy<Value = (Faults, u64)> {
    let faults = prop_oneof![
        Just(Faults::default()),
        (0..80u64, 0..80u64, 0..80u64).prop_map(|(loss, duplication, reordering)| Faults {
            loss,
            duplication,
            reordering
        }),
    ];
    (faults, any::<u64>())
}

// Memory of a host. Every work request has its own source, destination and RECV buffer; the
// counter for atomics is one word.
const COUNTER: u64 = BASE;
const SOURCES: u64 = BASE + 4096;
const AREA: u64 = 64 * 2048;
const RESULTS: u64 = SOURCES + AREA;
const TARGETS: u64 = RESULTS + AREA;
const RECVS: u64 = TARGETS + AREA;
const MEMORY: usize = 4096 + 4 * AREA as usize;

const fn at(area: u64, index: usize) -> u64 {
    area + index as u64 * 2048
}

fn pattern(host: usize, index: usize, byte: u64) -> u8 {
    (host as u64 * 101 + index as u64 * 31 + byte * 7 + 1) as u8 | 1
}

fn expected(host: usize, index: usize, len: u32) -> Vec<u8> {
    (0..u64::from(len)).map(|b| pattern(host, index, b)).collect()
}

fn new_net(setup: Setup, faults: Faults, seed: u64) -> Net {
    let mut net = Net::new(Setup { memory: MEMORY, ..setup });
    net.rng.0 = seed;
    net.faults = faults;
    for host in 0..2 {
        for index in 0..64 {
            let from = net.hosts[host].bytes_mut(at(SOURCES, index), 2048);
            for (b, byte) in from.iter_mut().enumerate() {
                *byte = pattern(host, index, b as u64);
            }
        }
    }
    net
}

/// Posts work request `index` if there is room. Frees the slots of polled completions.
fn post(net: &mut Net, host: usize, index: usize, work: &Work) -> bool {
    let remote_key = net.hosts[1 - host].key;
    let remote = |addr| RemoteAddr { addr, rkey: remote_key };
    let qp_type = net.hosts[host].qp.qp_type();
    let imm = index as u32;
    let (op, area) = match work.kind {
        Kind::Send => (SendOp::Send, SOURCES),
        Kind::SendImm => (SendOp::SendWithImm(imm), SOURCES),
        Kind::Write => (SendOp::Write(remote(at(TARGETS, index))), SOURCES),
        Kind::WriteImm => (SendOp::WriteWithImm(remote(at(TARGETS, index)), imm), SOURCES),
        Kind::Read => (SendOp::Read(remote(at(SOURCES, index))), RESULTS),
        Kind::FetchAdd => (SendOp::FetchAdd { remote: remote(COUNTER), add: 3 }, RESULTS),
        Kind::CompareSwap => {
            (SendOp::CompareSwap { remote: remote(COUNTER), compare: u64::from(imm), swap: 1 << 40 }, RESULTS)
        }
    };
    let lkey = net.hosts[host].key;
    let addr = at(area, index);
    let sges = [
        Sge { addr, length: work.split, lkey },
        Sge { addr: addr + u64::from(work.split), length: work.len - work.split, lkey },
    ];
    let list = if work.split == 0 { &sges[1..] } else { &sges[..] };
    let dest = UdDest { ah: AhHandle(0), qpn: 2 - host as u32, qkey: QKEY };
    let dest = (qp_type == QpType::Ud).then_some(dest);
    let wr = SendWr { wr_id: index as u64, op, sg_list: list, flags: work.flags, dest };
    net.post_send(host, &wr).is_ok()
}

/// Posts RECV `index`; its buffer is in two pieces.
fn post_recv(net: &mut Net, host: usize, index: usize) -> bool {
    let lkey = net.hosts[host].key;
    let addr = at(RECVS, index);
    let sges = [Sge { addr, length: 100, lkey }, Sge { addr: addr + 100, length: 1948, lkey }];
    net.post_recv(host, &RecvWr { wr_id: index as u64, sg_list: &sges }).is_ok()
}

/// Posts all work requests and RECVs whenever the queues have room, and runs to the end.
fn carry_out(net: &mut Net, work: [&[Work]; 2], recvs: usize) {
    let mut posted = [0, 0];
    let mut received = [0, 0];
    let mut polled = [0, 0];
    loop {
        let before = (posted, received, net.now);
        for host in 0..2 {
            while received[host] < recvs && post_recv(net, host, received[host]) {
                received[host] += 1;
            }
            while posted[host] < work[host].len() && post(net, host, posted[host], &work[host][posted[host]])
            {
                posted[host] += 1;
            }
        }
        net.run_until(net.now + doorbell_verbs::Span::from_us(3));
        let mut freed = false;
        for (host, h) in net.hosts.iter_mut().enumerate() {
            for (queue, _, slot) in &h.cqes[polled[host]..] {
                if *queue == Queue::Send {
                    h.qp.release(*slot);
                    freed = true;
                }
            }
            polled[host] = h.cqes.len();
        }
        let idle = net.hosts.iter().all(|h| h.qp.deadline().is_none());
        if idle && !freed && before == (posted, received, net.now) {
            return;
        }
    }
}

fn completions(host: &Host, queue: Queue) -> Vec<Wc> {
    host.completed.iter().filter(|(q, _)| *q == queue).map(|(_, wc)| *wc).collect()
}

/// Checks that every work request completed once, in order and successfully, and has a CQE if it asked for
/// one.
fn check_sends(host: &Host, work: &[Work]) {
    let done = completions(host, Queue::Send);
    assert_eq!(
        done.iter().map(|wc| wc.wr_id).collect::<Vec<_>>(),
        (0..work.len() as u64).collect::<Vec<_>>()
    );
    for wc in &done {
        assert_eq!(wc.status, WcStatus::Success);
    }
    let cqes: Vec<u64> =
        host.cqes.iter().filter(|(q, ..)| *q == Queue::Send).map(|(_, wc, _)| wc.wr_id).collect();
    let asked = work.iter().enumerate().filter(|(_, w)| w.flags.contains(SendFlags::SIGNALED));
    assert_eq!(cqes, asked.map(|(i, _)| i as u64).collect::<Vec<_>>());
}

fn with_signals(mut work: Vec<Work>) -> Vec<Work> {
    // Slots are freed only by a polled CQE.
    for w in work.iter_mut().skip(7).step_by(8) {
        w.flags |= SendFlags::SIGNALED;
    }
    work
}

/// Checks that data received by RC equals the messages of the other host, in order.
fn check_reliable(net: &Net, from: usize, work: &[Work]) {
    let (sender, receiver) = (&net.hosts[from], &net.hosts[1 - from]);
    let recvs = completions(receiver, Queue::Recv);
    let mut next_recv = 0;
    let mut counter = 0u64;
    let mut atomics = 0;
    for (index, w) in work.iter().enumerate() {
        let bytes = expected(from, index, w.len);
        if matches!(w.kind, Kind::Send | Kind::SendImm | Kind::WriteImm) {
            let wc = recvs[next_recv];
            assert_eq!((wc.wr_id, wc.status, wc.byte_len), (next_recv as u64, WcStatus::Success, w.len));
            assert_eq!(wc.imm, (w.kind != Kind::Send).then_some(index as u32));
            if w.kind == Kind::WriteImm {
                assert_eq!(wc.opcode, WcOpcode::RecvWriteWithImm);
            } else {
                assert_eq!(wc.opcode, WcOpcode::Recv);
                assert_eq!(receiver.bytes(at(RECVS, next_recv), w.len), bytes);
            }
            next_recv += 1;
        }
        match w.kind {
            Kind::Write | Kind::WriteImm => {
                assert_eq!(receiver.bytes(at(TARGETS, index), w.len), bytes);
                let after = receiver.bytes(at(TARGETS, index) + u64::from(w.len), 2048 - w.len);
                assert!(after.iter().all(|b| *b == 0), "WRITE {index} went too far");
            }
            Kind::Read => {
                assert_eq!(sender.bytes(at(RESULTS, index), w.len), expected(1 - from, index, w.len));
                let after = sender.bytes(at(RESULTS, index) + u64::from(w.len), 2048 - w.len);
                assert!(after.iter().all(|b| *b == 0), "READ {index} went too far");
            }
            Kind::FetchAdd => {
                assert_eq!(sender.word(at(RESULTS, index)), counter);
                counter += 3;
                atomics += 1;
            }
            Kind::CompareSwap => {
                assert_eq!(sender.word(at(RESULTS, index)), counter);
                if counter == index as u64 {
                    counter = 1 << 40;
                }
                atomics += 1;
            }
            Kind::Send | Kind::SendImm => {}
        }
    }
    assert_eq!(recvs.len(), next_recv, "a completion too many");
    assert_eq!(receiver.word(COUNTER), counter);
    assert_eq!(receiver.atomics, atomics);
}

/// Checks that data received by UC or UD is whole messages of the other host, identified by their immediates.
fn check_unreliable(net: &Net, from: usize, work: &[Work], header: u32) {
    let receiver = &net.hosts[1 - from];
    let mut last = None;
    let lossless = net.faults.loss + net.faults.duplication + net.faults.reordering == 0;
    let recvs = completions(receiver, Queue::Recv);
    for wc in &recvs {
        let index = wc.imm.expect("all carry one") as usize;
        let w = &work[index];
        assert_eq!((wc.status, wc.byte_len), (WcStatus::Success, w.len + header));
        if w.kind == Kind::SendImm {
            let addr = at(RECVS, wc.wr_id as usize) + u64::from(header);
            assert_eq!(receiver.bytes(addr, w.len), expected(from, index, w.len));
        } else {
            // The immediate comes with the last packet, so all packets of this WRITE were written.
            assert_eq!(receiver.bytes(at(TARGETS, index), w.len), expected(from, index, w.len));
        }
        if net.faults.reordering + net.faults.duplication == 0 {
            assert!(last < Some(index), "out of order");
            last = Some(index);
        }
    }
    let ids: Vec<u64> = recvs.iter().map(|wc| wc.wr_id).collect();
    assert_eq!(ids, (0..ids.len() as u64).collect::<Vec<_>>());
    if lossless {
        let with_imm = work.iter().filter(|w| matches!(w.kind, Kind::SendImm | Kind::WriteImm));
        assert_eq!(recvs.len(), with_imm.count());
    }
    for (index, w) in work.iter().enumerate() {
        let target = receiver.bytes(at(TARGETS, index), 2048);
        for (b, byte) in target.iter().enumerate() {
            let written = matches!(w.kind, Kind::Write | Kind::WriteImm) && (b as u32) < w.len;
            assert!(*byte == 0 || (written && *byte == pattern(from, index, b as u64)));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn rc_delivers_everything_once(
        a in prop::collection::vec(work(
            vec![Kind::Send, Kind::SendImm, Kind::Write, Kind::WriteImm, Kind::Read, Kind::FetchAdd, Kind::CompareSwap],
            LONGEST), 0..40).prop_map(with_signals),
        b in prop::collection::vec(work(
            vec![Kind::Send, Kind::WriteImm, Kind::Read, Kind::FetchAdd], LONGEST), 0..20).prop_map(with_signals),
        (faults, seed) in faults(),
        max_rd_atomic in 1..5u8,
        retry_without_recv in any::<bool>(),
    ) {
        let mut setup = Setup { max_rd_atomic, max_dest_rd_atomic: max_rd_atomic, ..Setup::new(QpType::Rc) };
        if retry_without_recv {
            setup.cap.max_recv_wr = 2;
        }
        let mut net = new_net(setup, faults, seed);
        carry_out(&mut net, [&a, &b], 64);
        for (host, work) in [(0, &a), (1, &b)] {
            check_sends(&net.hosts[host], work);
            check_reliable(&net, host, work);
        }
    }

    #[test]
    fn uc_never_corrupts(
        a in prop::collection::vec(work(vec![Kind::SendImm, Kind::Write, Kind::WriteImm], LONGEST), 0..40)
            .prop_map(with_signals),
        (faults, seed) in faults(),
        srq in any::<bool>(),
    ) {
        let mut setup = Setup { srq, ..Setup::new(QpType::Uc) };
        setup.cap.max_recv_wr = 64;
        let mut net = new_net(setup, faults, seed);
        carry_out(&mut net, [&a, &[]], 64);
        check_sends(&net.hosts[0], &a);
        check_unreliable(&net, 0, &a, 0);
    }

    #[test]
    fn ud_never_corrupts(
        a in prop::collection::vec(work(vec![Kind::SendImm], 256), 0..40).prop_map(with_signals),
        (faults, seed) in faults(),
    ) {
        let mut setup = Setup::new(QpType::Ud);
        setup.cap.max_recv_wr = 64;
        let mut net = new_net(setup, faults, seed);
        carry_out(&mut net, [&a, &[]], 64);
        check_sends(&net.hosts[0], &a);
        check_unreliable(&net, 0, &a, 40);
    }
}
