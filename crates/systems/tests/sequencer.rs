//! Numbers are unique, dense and monotone, whatever the schedule.

#![allow(clippy::disallowed_types, reason = "proptest's macros name Arc")]

mod common;

use common::{alloc, cluster, interval, results, spawn};
use doorbell_sim::SimConfig;
use doorbell_systems::herd;
use doorbell_systems::sequencer::{Draw, Drawing, Drawn, atomics, rpc, spec};
use doorbell_verbs::{Cluster, Mem, PageSize, Program, Provider, Span};
use proptest::prelude::*;

const LIMIT: u64 = 150;

/// Puts the counter where it is to begin.
struct Begin {
    counter: Mem,
    first: u64,
}

impl Program for Begin {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        p.store_u64(self.counter, 0, self.first);
    }
}

#[derive(Clone, Debug)]
struct Case {
    clients: u32,
    workers: u32,
    outstanding: u32,
    windows: bool,
    gather: u32,
    doorbell: bool,
    queues: u32,
    first: u64,
    guess: u32,
    loss: u32,
    seed: u64,
}

fn cases() -> impl Strategy<Value = Case> {
    let firsts = prop_oneof![Just(0u64), (1u64 << 32) - 400..1 << 32, (7u64 << 32) - 400..7 << 32];
    let shape = (1..7u32, 1..4u32, 0..5u32, any::<bool>(), 1..20u32, any::<bool>(), 1..4u32);
    (shape, firsts, 0..9u32, any::<u64>()).prop_map(|(s, first, guess, seed)| Case {
        clients: s.0,
        workers: s.1,
        outstanding: 1 << s.2,
        windows: s.3,
        gather: s.4,
        doorbell: s.5,
        queues: s.6,
        first,
        guess,
        loss: 0,
        seed,
    })
}

impl Case {
    fn drawing(&self) -> Drawing {
        Drawing { outstanding: self.outstanding, windows: self.windows, limit: LIMIT, record: true }
    }

    fn retry(&self) -> Option<Span> {
        (self.loss > 0).then_some(Span::from_us(50))
    }

    fn config(&self, c: &mut SimConfig) {
        c.seed = self.seed;
        c.loss_ppm = self.loss;
    }

    fn rpc(&self) -> Vec<Drawn> {
        let mut cluster = cluster("cib", 4, |c| self.config(c));
        let config = herd::Config {
            requests: herd::Requests::Write,
            workers: self.workers,
            clients: self.clients,
            window: self.outstanding,
            max_request: rpc::MAX_REQUEST,
            max_reply: rpc::MAX_REPLY,
            gather: self.gather,
            doorbell: self.doorbell,
            queues: self.queues,
            retry: self.retry(),
        };
        let region = alloc(&mut cluster, 0, config.region_bytes());
        let counter = alloc(&mut cluster, 0, 64);
        cluster.spawn(0, 29, Begin { counter, first: self.first });
        for number in 0..self.workers {
            let config = config.clone();
            cluster.spawn(0, number, rpc::Server { config, number, region, counter, interval: interval() });
        }
        let (drawing, interval) = (self.drawing(), interval());
        let tasks = spawn(&mut cluster, self.clients, |number| rpc::Client {
            config: config.clone(),
            number,
            drawing,
            interval,
        });
        cluster.run().expect("the run ends");
        results(tasks)
    }

    fn spec(&self) -> Vec<Drawn> {
        let mut cluster = cluster("cib", 4, |c| self.config(c));
        let config = spec::Config {
            workers: self.workers,
            clients: self.clients,
            outstanding: self.outstanding,
            gather: self.gather,
            doorbell: self.doorbell,
            queues: self.queues,
            inboxes: self.queues,
            retry: self.retry(),
        };
        let counter = alloc(&mut cluster, 0, 64);
        cluster.spawn(0, 29, Begin { counter, first: self.first });
        for number in 0..self.workers {
            let config = config.clone();
            cluster.spawn(0, number, spec::Server { config, number, counter, interval: interval() });
        }
        let (drawing, interval, guess) = (self.drawing(), interval(), self.guess);
        let tasks = spawn(&mut cluster, self.clients, |number| spec::Client {
            config: config.clone(),
            number,
            guess,
            drawing,
            interval,
        });
        cluster.run().expect("the run ends");
        results(tasks)
    }

    fn atomics(&self) -> Vec<Drawn> {
        let mut cluster = cluster("cib", 4, |c| self.config(c));
        let counter = cluster.alloc(0, 64, PageSize::Huge).expect("memory");
        cluster.spawn(0, 29, Begin { counter, first: self.first });
        let (drawing, interval) = (self.drawing(), interval());
        cluster.spawn(0, 0, atomics::Server { clients: self.clients, counter, interval });
        let tasks = spawn(&mut cluster, self.clients, |number| atomics::Client { number, drawing, interval });
        cluster.run().expect("the run ends");
        results(tasks)
    }
}

/// Each number once; where replies are `named`, of two draws one of which began after the other ended
/// it has the larger.
fn unique_and_in_order(drawn: &[Drawn], named: bool) -> Result<Vec<u64>, TestCaseError> {
    let mut draws: Vec<Draw> = drawn.iter().flat_map(|d| d.draws.clone()).collect();
    draws.sort_by_key(|d| d.value);
    for pair in draws.windows(2) {
        prop_assert!(pair[0].value < pair[1].value, "{:?} was drawn twice", pair[0].value);
    }
    // Going up in value: nobody may have ended before the latest beginning so far.
    let mut latest = draws[0];
    for draw in &draws {
        prop_assert!(!named || draw.ended >= latest.began, "{draw:?} ended before {latest:?} began");
        if draw.began > latest.began {
            latest = *draw;
        }
    }
    Ok(draws.iter().map(|d| d.value).collect())
}

fn dense(case: &Case, drawn: &[Drawn], named: bool) -> Result<(), TestCaseError> {
    let values = unique_and_in_order(drawn, named)?;
    let all = case.first..case.first + LIMIT * u64::from(case.clients);
    prop_assert_eq!(values, all.collect::<Vec<_>>());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn herd_rpc(case in cases()) {
        dense(&case, &case.rpc(), true)?;
    }

    #[test]
    fn herd_rpc_executes_a_request_once_when_messages_are_lost(case in cases()) {
        let case = Case { loss: 30_000, ..case };
        let drawn = case.rpc();
        dense(&case, &drawn, true)?;
    }

    #[test]
    fn spec_s0(case in cases()) {
        dense(&case, &case.spec(), case.outstanding == 1)?;
    }

    #[test]
    fn spec_s0_skips_numbers_when_messages_are_lost(case in cases()) {
        let case = Case { loss: 30_000, ..case };
        unique_and_in_order(&case.spec(), case.outstanding == 1)?;
    }

    #[test]
    fn atomics_draw(case in cases()) {
        dense(&case, &case.atomics(), true)?;
    }
}

fn case() -> Case {
    Case {
        clients: 5,
        workers: 2,
        outstanding: 8,
        windows: false,
        gather: 16,
        doorbell: true,
        queues: 2,
        first: (3 << 32) - 200,
        guess: 0,
        loss: 0,
        seed: 1,
    }
}

#[test]
fn wrong_guesses_are_corrected_once() {
    for (first, guess, wrong) in [((3 << 32) - 200, 2, 1), ((3 << 32) - 200, 0, 2), (100, 0, 0)] {
        let case = Case { first, guess, outstanding: 1, ..case() };
        for drawn in case.spec() {
            let regular = LIMIT - drawn.measured.header_only;
            assert_eq!(regular, wrong, "from {first} with guess {guess}");
        }
    }
}

#[test]
fn loss_is_noticed() {
    let case = Case { loss: 30_000, ..case() };
    for drawn in [case.rpc(), case.spec()] {
        assert!(drawn.iter().map(|d| d.measured.again).sum::<u64>() > 0);
    }
}
