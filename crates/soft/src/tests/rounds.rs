//! Tests requests and answers in rounds: an answer to a request must never precede the request's completion.

use super::Side;
use super::own_time::HANGS;
use super::peer::{Buffer, OPEN, Peer, RECV_BYTES, arena, buffer, run_on};
use crate::fabric::process::Process;
use doorbell_abi::{CEnum, ibv_wc};
use doorbell_verbs::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::Instant;

/// An environment variable with the number of rounds of each combination. If it is set, all combinations run.
/// Otherwise `DRAWN` random combinations run.
const LONG: &str = "DOORBELL_ORDER_ROUNDS";
const SEED: &str = "DOORBELL_ORDER_SEED";
const USUAL_SEED: u64 = 0x04de4;
const DRAWN: usize = 12;
const ROUNDS: u64 = 150;

/// The number of RECVs that are posted at a time.
const DEPTH: u64 = 8;
/// Offsets in the buffers: the word that one-sided requests and answers change, and the payload to send.
const WORD: u64 = 0;
const FROM: u64 = 4096;

/// The requests of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Send(u32),
    WriteWithImm,
    /// A READ and a SEND in one list.
    ReadThenSend,
    FetchAdd,
    CompareSwap,
    Write,
}

/// The operation by which the peer answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Send,
    /// A WRITE, which this process sees in memory.
    Write,
}

/// The processors on which the processes run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cores {
    /// Both processes run on one processor.
    One,
    Two,
    /// Both processes run on one processor, together with two threads that spin.
    OneBusy,
}

#[derive(Clone, Copy, Debug)]
struct Rounds {
    asked: Asked,
    answer: Answer,
    /// Whether the peer's memory is in its arena.
    shared: bool,
    events: bool,
    cores: Cores,
    /// Whether one thread posts and another polls.
    apart: bool,
}

const ASKED: [Asked; 8] = [
    Asked::Send(16),
    Asked::Send(224),
    Asked::Send(250),
    Asked::WriteWithImm,
    Asked::ReadThenSend,
    Asked::FetchAdd,
    Asked::CompareSwap,
    Asked::Write,
];

impl Asked {
    fn takes_recv(self) -> bool {
        matches!(self, Asked::Send(_) | Asked::WriteWithImm | Asked::ReadThenSend)
    }

    /// The number of completions of a round's requests.
    fn completions(self) -> usize {
        if self == Asked::ReadThenSend { 2 } else { 1 }
    }
}

/// All combinations that are tested. Two kinds are left out. A peer sees a one-sided request in memory before
/// the device completes it, so a separate polling thread may see the answer a moment early. An answer by
/// WRITE causes no event.
fn all() -> Vec<Rounds> {
    let mut all = Vec::new();
    for asked in ASKED {
        for bits in 0..16 {
            let bit = |n: u32| bits >> n & 1 == 1;
            let (shared, events, apart) = (bit(0), bit(1), bit(2));
            let answer = if bit(3) { Answer::Write } else { Answer::Send };
            if apart && !asked.takes_recv() || events && answer == Answer::Write {
                continue;
            }
            for cores in [Cores::One, Cores::Two, Cores::OneBusy] {
                all.push(Rounds { asked, answer, shared, events, cores, apart });
            }
        }
    }
    all
}

/// The word at this address, which must stay mapped.
fn word(addr: u64) -> &'static AtomicU64 {
    // SAFETY: the word is mapped and aligned, and only atomics access it.
    unsafe { &*(addr as *const AtomicU64) }
}

/// Waits until `is_so` returns true. Yields the processor, so that the other process can run.
fn spin_until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    let mut asked = 0u32;
    while !is_so() {
        asked += 1;
        if asked.is_multiple_of(100) {
            std::thread::yield_now();
            assert!(begin.elapsed() < HANGS, "{what} does not come");
        }
    }
}

/// Polls completions one at a time, with or without events.
struct Taker<'a> {
    side: &'a Side,
    events: bool,
}

impl<'a> Taker<'a> {
    fn new(side: &'a Side, events: bool) -> Taker<'a> {
        if events {
            side.cq.request_notify(false);
        }
        Taker { side, events }
    }

    fn poll(&self) -> Option<ibv_wc> {
        let mut wcs = [ibv_wc::default()];
        let taken = self.side.cq.poll(&mut wcs).expect("the CQ has room");
        assert_eq!(wcs[0].status, 0);
        (taken == 1).then_some(wcs[0])
    }

    /// Waits for the next completion. Sleeps until the next event if `events` is set.
    fn next(&self) -> ibv_wc {
        let begin = Instant::now();
        loop {
            if let Some(wc) = self.poll() {
                return wc;
            }
            if self.events {
                let mut one = libc::pollfd { fd: self.side.pipe.read_fd(), events: libc::POLLIN, revents: 0 };
                // SAFETY: the array has one entry.
                let ready = unsafe { libc::poll(&mut one, 1, HANGS.as_millis() as i32) };
                assert_eq!(ready, 1, "an event");
                self.side.pipe.next().expect("an event");
                self.side.cq.request_notify(false);
            } else {
                std::hint::spin_loop();
            }
            assert!(begin.elapsed() < HANGS, "a completion");
        }
    }
}

fn is_recv(wc: &ibv_wc) -> bool {
    wc.opcode >= WcOpcode::Recv.to_c()
}

fn post_recv(side: &Side, memory: &Buffer, number: u64) {
    let addr = memory.addr + OPEN as u64 + number % DEPTH * RECV_BYTES as u64;
    let sge = [Sge { addr, length: RECV_BYTES as u32, lkey: memory.key }];
    side.qp.post_recv(number, &sge).expect("a RECV");
}

/// Posts a list like ibv_post_send(3): on the direct path if possible.
pub(super) fn post(side: &Side, wrs: &[SendWr<'_>]) {
    let mut posting = side.qp.begin_post();
    for wr in wrs {
        let is_posted = match (wr.op, wr.sg_list) {
            (SendOp::Write(remote), [sge]) => posting.write_directly(wr.wr_id, remote, sge, wr.flags),
            (SendOp::Send, [sge]) => posting.send_directly(wr.wr_id, sge, wr.flags),
            _ => false,
        };
        if !is_posted {
            posting.post_wr(wr, None).expect("there is room");
        }
    }
}

impl Rounds {
    /// The command that makes the peer answer all rounds.
    fn command(&self, rounds: u64, here: &Buffer) -> String {
        let asked = ASKED.iter().position(|asked| *asked == self.asked).expect("one of them");
        let core = match self.cores {
            Cores::One | Cores::OneBusy => 1,
            Cores::Two => 2,
        };
        let numbers = [
            u64::from(self.shared),
            rounds,
            asked as u64,
            u64::from(self.answer == Answer::Write),
            u64::from(self.events),
            core,
            here.addr,
            here.key.into(),
        ];
        let words: Vec<String> = numbers.iter().map(u64::to_string).collect();
        format!("echo {}", words.join(" "))
    }

    /// Posts the requests of a round.
    fn ask(&self, side: &Side, here: &Buffer, there: &Buffer, round: u64) {
        let remote = |at: u64| RemoteAddr { addr: there.addr + at, rkey: there.key };
        let sge = |len: u32| [Sge { addr: here.addr + FROM, length: len, lkey: here.key }];
        let word_sge = sge(8);
        word(here.addr + FROM).store(round, SeqCst);
        let wr = |op, sges| SendWr::new(round, op, sges).flags(SendFlags::SIGNALED);
        match self.asked {
            Asked::Send(len) => post(side, &[wr(SendOp::Send, &sge(len))]),
            Asked::WriteWithImm => post(side, &[wr(SendOp::WriteWithImm(remote(64), 1), &sge(64))]),
            Asked::ReadThenSend => {
                let into = [Sge { addr: here.addr + FROM + 64, ..word_sge[0] }];
                post(side, &[wr(SendOp::Read(remote(64)), &into), wr(SendOp::Send, &word_sge)]);
            }
            Asked::FetchAdd => {
                post(side, &[wr(SendOp::FetchAdd { remote: remote(WORD), add: 1 }, &word_sge)])
            }
            Asked::CompareSwap => {
                let op = SendOp::CompareSwap { remote: remote(WORD), compare: round - 1, swap: round };
                post(side, &[wr(op, &word_sge)]);
            }
            Asked::Write => post(side, &[wr(SendOp::Write(remote(WORD)), &word_sge)]),
        }
    }

    /// Runs the rounds with a new pair of QPs. Returns the number of answers that preceded a completion.
    fn run(&self, peer: &mut Peer, rounds: u64) -> u64 {
        let process = Process::current().expect("this process can use the device");
        let here = if self.shared { arena(process) } else { buffer(process) };
        let there = if self.shared { peer.arena() } else { peer.buffer() };
        peer.ask(&format!("store {} 0", there.addr + WORD));
        let side = peer.connect(QpType::Rc);
        (0..DEPTH).for_each(|n| post_recv(&side, &here, n));
        let command = self.command(rounds, &here);
        peer.tell(&command);
        run_on(0);
        let stop = AtomicBool::new(false);
        let posted = AtomicU64::new(0);
        let wrong = std::thread::scope(|scope| {
            if self.cores == Cores::OneBusy {
                for _ in 0..2 {
                    scope.spawn(|| {
                        while !stop.load(Relaxed) {
                            std::hint::spin_loop();
                        }
                    });
                }
            }
            // Posts a round's requests when `posted` reaches the round's number.
            if self.apart {
                scope.spawn(|| {
                    for round in 1..=rounds {
                        spin_until("the next round", || posted.load(Acquire) >= round || stop.load(Relaxed));
                        if posted.load(Acquire) >= round {
                            self.ask(&side, &here, &there, round);
                        }
                    }
                });
            }
            let taker = Taker::new(&side, self.events);
            let ended = StopAtEnd(&stop);
            let wrong = (1..=rounds).filter(|&round| {
                match self.apart {
                    true => posted.store(round, Release),
                    false => self.ask(&side, &here, &there, round),
                }
                !self.is_answered_in_order(&taker, &here, round)
            });
            let wrong = wrong.count() as u64;
            drop(ended);
            wrong
        });
        assert_eq!(peer.answer(), [rounds]);
        wrong
    }

    /// Waits for the answer of a round and the completions of its requests. Returns whether the completions
    /// came first.
    fn is_answered_in_order(&self, taker: &Taker<'_>, here: &Buffer, round: u64) -> bool {
        let wanted = self.asked.completions();
        let mut found = 0;
        if self.answer == Answer::Write {
            spin_until("the answer", || word(here.addr + WORD).load(Acquire) == round);
            // By now, all completions must be in the CQ.
            while found < wanted && taker.poll().is_some() {
                found += 1;
            }
            let is_right = found == wanted;
            for _ in found..wanted {
                taker.next();
            }
            return is_right;
        }
        let mut is_right = true;
        for _ in 0..wanted + 1 {
            let wc = taker.next();
            if !is_recv(&wc) {
                found += 1;
                continue;
            }
            is_right = found == wanted;
            post_recv(taker.side, here, wc.wr_id + DEPTH);
        }
        is_right
    }
}

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn no_answer_precedes_the_completion_of_its_request() {
    let long = from_environment(LONG);
    let seed = from_environment(SEED).unwrap_or(USUAL_SEED);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut combinations = all();
    (1..combinations.len()).rev().for_each(|n| combinations.swap(n, random.next_u64() as usize % (n + 1)));
    combinations.truncate(if long.is_some() { usize::MAX } else { DRAWN });
    let mut peer = Peer::start();
    let mut wrong = Vec::new();
    for combination in combinations {
        let begin = Instant::now();
        let rounds = long.unwrap_or(ROUNDS);
        let early = combination.run(&mut peer, rounds);
        println!("{early} of {rounds} in {:.1} s: {combination:?}", begin.elapsed().as_secs_f64());
        if early > 0 {
            wrong.push(format!("in {early} of {rounds} rounds: {combination:?}"));
        }
    }
    assert!(wrong.is_empty(), "the answer came first (seed {seed}) {}", wrong.join("\n"));
}

/// Stops the threads of a test when it is dropped, also if the test fails.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Runs the peer's part of [`Rounds`]. Returns the number of rounds.
pub(super) fn echo(side: &Side, memory: Buffer, words: &[u64]) -> u64 {
    let &[rounds, asked, by_write, events, core, addr, key] = words else { panic!("{words:?}") };
    let asked = ASKED[asked as usize];
    run_on(core as usize - 1);
    let remote = RemoteAddr { addr: addr + WORD, rkey: key as u32 };
    let sge = [Sge { addr: memory.addr + FROM, length: 8, lkey: memory.key }];
    let taker = Taker::new(side, events == 1);
    (0..DEPTH).for_each(|n| post_recv(side, &memory, n));
    for round in 1..=rounds {
        if asked.takes_recv() {
            let recv = loop {
                let wc = taker.next();
                if is_recv(&wc) {
                    break wc;
                }
            };
            post_recv(side, &memory, recv.wr_id + DEPTH);
        } else {
            spin_until("the request", || word(memory.addr + WORD).load(Acquire) == round);
            // Polls the completions of earlier answers.
            while taker.poll().is_some() {}
        }
        word(memory.addr + FROM).store(round, SeqCst);
        let op = if by_write == 1 { SendOp::Write(remote) } else { SendOp::Send };
        post(side, &[SendWr::new(round, op, &sge).flags(SendFlags::SIGNALED)]);
    }
    rounds
}
