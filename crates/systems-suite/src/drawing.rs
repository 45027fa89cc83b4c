//! Checks that clients of a sequencer draw unique, dense and monotone numbers.

use crate::check::{Check, Trouble};
use crate::faults::Faults;
use crate::stage::{self, Stage};
use doorbell_systems::drawing::{Draw, Drawing, Drawn};
use doorbell_systems::{Record, SystemError};
use doorbell_verbs::{Cluster, Program, Provider, Span, Time};

/// A sequencer, as cases set it up.
pub trait Sequencer: Copy + std::fmt::Debug + 'static {
    /// Whether a client knows which request a reply answers.
    fn names_replies(_case: &DrawingCase<Self>) -> bool {
        true
    }

    /// Whether no number is skipped.
    fn is_dense(_case: &DrawingCase<Self>) -> bool {
        true
    }

    /// Adds the server's threads and the clients.
    ///
    /// # Errors
    /// If there is no more memory.
    fn put_up<C: Cluster>(case: &DrawingCase<Self>, stage: &mut Stage<'_, C, Draws>) -> Result<(), String>;
}

/// Clients that draw numbers.
#[derive(Clone, Copy, Debug)]
pub struct DrawingCase<S> {
    /// The sequencer.
    pub sequencer: S,
    /// Number of clients.
    pub clients: u32,
    /// Threads of the server.
    pub workers: u32,
    /// Requests that a client has outstanding.
    pub outstanding: u32,
    /// Whether a client sends that many requests and waits for all of them before it goes on.
    pub windows: bool,
    /// Requests that a worker takes in a pass.
    pub gather: u32,
    /// Whether the replies of a pass share one doorbell.
    pub doorbell: bool,
    /// Number of QPs that replies use in turn.
    pub queues: u32,
    /// The first number.
    pub first: u64,
    /// Numbers that each client draws.
    pub draws: u64,
    /// Time after which a client repeats a request.
    pub retry: Option<Span>,
    /// The injected faults.
    pub faults: Faults,
}

/// The draws of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draws {
    /// Requests that were sent again.
    pub again: u64,
    /// Replies without payload.
    pub header_only: u64,
    /// The numbers, with begin and end of each draw.
    pub draws: Vec<Draw>,
}

impl Record for Draws {
    fn to_words(&self) -> Vec<u64> {
        let draws = self.draws.iter().flat_map(|d| [d.value, d.began.as_ps(), d.ended.as_ps()]);
        [self.again, self.header_only].into_iter().chain(draws).collect()
    }

    fn from_words(words: &[u64]) -> Option<Draws> {
        let (&[again, header_only], rest) = words.split_first_chunk()?;
        let draw = |&[value, began, ended]: &[u64; 3]| Draw {
            value,
            began: Time::from_ps(began),
            ended: Time::from_ps(ended),
        };
        let (draws, []) = rest.as_chunks() else { return None };
        Some(Draws { again, header_only, draws: draws.iter().map(draw).collect() })
    }
}

/// A client whose draws are kept.
pub struct Keeping<T>(pub T);

impl<T: Program<Output = Result<Drawn, SystemError>>> Program for Keeping<T> {
    type Output = Result<Draws, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let Drawn { measured, draws } = self.0.run(p)?;
        Ok(Draws { again: measured.again, header_only: measured.header_only, draws })
    }
}

impl<S: Sequencer> DrawingCase<S> {
    /// How the clients draw.
    pub fn drawing(&self) -> Drawing {
        Drawing { outstanding: self.outstanding, windows: self.windows, limit: self.draws, record: true }
    }

    /// Runs the case and checks the numbers. Returns each client's draws, or nothing if machine 0 is in
    /// another process.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn run<C: Cluster>(&self, cluster: &mut C, patience: Span) -> Result<Vec<Draws>, String> {
        let mut stage = stage::stage(cluster, self.faults, patience)?;
        S::put_up(self, &mut stage)?;
        let drawn = stage::run(stage)?;
        if !drawn.is_empty() {
            self.check(&drawn)?;
        }
        Ok(drawn)
    }

    fn check(&self, drawn: &[Draws]) -> Result<(), String> {
        if let Some(at) = drawn.iter().position(|d| d.draws.len() as u64 != self.draws) {
            return Err(format!("client {at} drew {} numbers, not {}", drawn[at].draws.len(), self.draws));
        }
        let mut draws: Vec<Draw> = drawn.iter().flat_map(|d| d.draws.clone()).collect();
        draws.sort_by_key(|d| d.value);
        if let Some(pair) = draws.windows(2).find(|pair| pair[0].value == pair[1].value) {
            return Err(format!("{:?} and {:?} drew one number twice", pair[0], pair[1]));
        }
        // In order of value, no draw may have ended before the latest begin so far.
        let mut latest = draws[0];
        for draw in &draws {
            if S::names_replies(self) && draw.ended < latest.began {
                return Err(format!("{draw:?} ended before {latest:?} began"));
            }
            if draw.began > latest.began {
                latest = *draw;
            }
        }
        let (lowest, highest) = (draws[0].value, draws[draws.len() - 1].value);
        let end = self.first + draws.len() as u64;
        if lowest < self.first || S::is_dense(self) && highest >= end {
            return Err(format!(
                "clients drew numbers {lowest} to {highest}, not {} to {}",
                self.first,
                end - 1
            ));
        }
        Ok(())
    }
}

/// Shortly before a carry into the upper half of a number.
const BEFORE_CARRY: u64 = (3 << 32) - 100;

/// A case for the fixed list of checks. By default it has no faults.
#[derive(Clone, Copy, Debug)]
pub struct DrawingShape<S> {
    sequencer: S,
    outstanding: u32,
    batched: bool,
    first: u64,
    trouble: Trouble,
}

impl<S: Sequencer> DrawingShape<S> {
    /// Clients have `outstanding` requests each. The server posts each reply alone.
    pub fn new(sequencer: S, outstanding: u32) -> DrawingShape<S> {
        DrawingShape { sequencer, outstanding, batched: false, first: 0, trouble: Trouble::None }
    }

    /// Lets the server take up to 16 requests in a pass, and post their replies together.
    pub fn batched(self) -> DrawingShape<S> {
        DrawingShape { batched: true, ..self }
    }

    /// Makes the upper half of the numbers change during the draws.
    pub fn across_2_32(self) -> DrawingShape<S> {
        DrawingShape { first: BEFORE_CARRY, ..self }
    }

    /// Makes messages get lost.
    pub fn losing(self) -> DrawingShape<S> {
        DrawingShape { trouble: Trouble::Loss, ..self }
    }

    /// The check of this name.
    pub fn check<C: Cluster>(self, name: &str) -> Check<C> {
        Check::new(name, move |cluster, scale| {
            let case = DrawingCase {
                sequencer: self.sequencer,
                clients: scale.clients,
                workers: 2,
                outstanding: self.outstanding,
                windows: false,
                gather: if self.batched { 16 } else { 1 },
                doorbell: self.batched,
                queues: if self.batched { 2 } else { 1 },
                first: self.first,
                // Spec-S0 waits alone for each lost message, and goes on with a fresh QP.
                draws: if self.trouble == Trouble::Loss { scale.draws / 10 } else { scale.draws },
                retry: self.trouble.retry(scale),
                faults: self.trouble.faults(scale),
            };
            case.run(cluster, scale.patience).map(drop)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc_sequencer::HerdRpc;
    use crate::spec_sequencer::SpecS0;

    fn case<S: Sequencer>(sequencer: S, retry: Option<Span>) -> DrawingCase<S> {
        DrawingCase {
            sequencer,
            clients: 2,
            workers: 1,
            outstanding: 1,
            windows: false,
            gather: 1,
            doorbell: true,
            queues: 1,
            first: 10,
            draws: 2,
            retry,
            faults: Faults::default(),
        }
    }

    fn drawn(values: [[u64; 2]; 2]) -> Vec<Draws> {
        let draw = |(at, value): (u64, u64)| Draw {
            value,
            began: Time::from_ps(10 * at),
            ended: Time::from_ps(10 * at + 5),
        };
        values.map(|v| Draws { again: 0, header_only: 0, draws: (0..).zip(v).map(draw).collect() }).to_vec()
    }

    #[test]
    fn good_numbers_are_told_from_bad() {
        let herd = case(HerdRpc, None);
        herd.check(&drawn([[10, 12], [11, 13]])).unwrap();
        for bad in [[[10, 12], [11, 12]], [[12, 10], [11, 13]], [[10, 12], [11, 14]], [[9, 12], [11, 13]]] {
            herd.check(&drawn(bad)).unwrap_err();
        }
        let spec = case(SpecS0 { guess: 0 }, Some(Span::from_us(1)));
        spec.check(&drawn([[10, 12], [11, 14]])).unwrap();
    }

    #[test]
    fn draws_survive_as_words() {
        let draws = drawn([[10, 12], [11, 13]]).remove(0);
        assert_eq!(Draws::from_words(&draws.to_words()), Some(draws));
        assert_eq!(Draws::from_words(&[1, 2, 3]), None);
    }
}
