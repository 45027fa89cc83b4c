//! A front-end that executes drawn operations until its interval ends.

use super::config::Hashtable;
use super::entry::fill;
use super::front_end::{Done, FrontEnd, Published, TableOp, Work};
use super::neighbours::Neighbours;
use crate::kv::load::Draws;
use crate::measure::How;
use crate::random::Random;
use crate::{Interval, Measured, SystemError};
use doorbell_verbs::{Program, Provider, Time};

/// The program of a front-end in a deployment.
#[derive(Clone, Debug)]
pub(super) struct TableClient {
    pub(super) number: u32,
    pub(super) config: Hashtable,
    pub(super) neighbours: Neighbours,
    pub(super) interval: Interval,
}

/// The operations of the program, and its measurements.
struct Drawn {
    draws: Draws,
    /// Decides at random which operations move their key.
    moves: Random,
    move_permille: u64,
    number: u64,
    value: u32,
    interval: Interval,
    measured: Measured,
}

impl Work for Drawn {
    fn next(&mut self, _: Time) -> Option<TableOp> {
        let key = self.draws.number();
        if self.move_permille > 0 && self.moves.below(1000) < self.move_permille {
            return Some(TableOp::Move(key));
        }
        if !self.draws.is_put() {
            return Some(TableOp::Get(key));
        }
        self.number += 1;
        let mut value = vec![0; self.value as usize];
        fill(key, self.number, &mut value);
        Some(TableOp::Put(key, value))
    }

    fn is_over(&self) -> bool {
        false
    }

    fn done(&mut self, done: Done<'_>) {
        let how = How { again: done.again, ..How::default() };
        self.measured.operation(&self.interval, done.began, done.ended, how);
    }

    /// Counts publications as lists of replies are counted: `posts` counts publications, and `replies` counts
    /// their writes.
    fn published(&mut self, published: Published<'_>) {
        if published.writes > 0 {
            self.measured.post(&self.interval, published.ended, published.writes.into());
        }
    }
}

impl Program for TableClient {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let TableClient { number, config, neighbours, interval } = self;
        let mut front_end = FrontEnd::open(&p, &config, number, neighbours)?;
        let interval = interval.begin(&p);
        let mut drawn = Drawn {
            draws: Draws::new(config.load(), number),
            moves: Random::new(!config.timing.seed, u64::from(number)),
            move_permille: config.move_permille.into(),
            number: u64::from(number) << 40,
            value: config.values.value,
            interval: interval.clone(),
            measured: Measured::default(),
        };
        front_end.run(&mut drawn, &interval)?;
        front_end.serve(&interval)?;
        Ok(drawn.measured)
    }
}
