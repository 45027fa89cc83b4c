//! Numbers are unique, dense and monotone.

use crate::faults::Faults;
use crate::stage::{self, Stage, place, text};
use doorbell_systems::Record;
use doorbell_systems::drawing::{Draw, Drawing, Drawn};
use doorbell_systems::{Interval, SystemError, herd};
use doorbell_systems::{atomics_sequencer as atomics, rpc_sequencer as rpc, spec_sequencer as spec};
use doorbell_verbs::{Cluster, Program, Provider, Span, Time};

/// Which sequencer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sequencer {
    /// Over HERD's RPCs.
    HerdRpc,
    /// Header-only SENDs with speculation.
    SpecS0,
    /// RDMA fetch-and-add.
    Atomics,
}

/// Clients that draw numbers.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// From what.
    pub sequencer: Sequencer,
    /// Clients.
    pub clients: u32,
    /// The server's threads.
    pub workers: u32,
    /// Requests that a client has outstanding.
    pub outstanding: u32,
    /// It sends that many and waits for all.
    pub windows: bool,
    /// Requests that a worker takes in a pass.
    pub gather: u32,
    /// One doorbell for the replies of a pass.
    pub doorbell: bool,
    /// QPs that replies take turns with.
    pub queues: u32,
    /// The first number.
    pub first: u64,
    /// The upper half that clients begin to guess with.
    pub guess: u32,
    /// Numbers that each client draws.
    pub draws: u64,
    /// After how long it asks again.
    pub retry: Option<Span>,
    /// What goes wrong.
    pub faults: Faults,
}

/// What a client drew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draws {
    /// Requests that were sent again.
    pub again: u64,
    /// Replies without payload.
    pub header_only: u64,
    /// The numbers.
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

/// A client, of which what it drew is kept.
struct Drawer<T>(T);

impl<T: Program<Output = Result<Drawn, SystemError>>> Program for Drawer<T> {
    type Output = Result<Draws, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let Drawn { measured, draws } = self.0.run(p)?;
        Ok(Draws { again: measured.again, header_only: measured.header_only, draws })
    }
}

impl Case {
    fn drawing(&self) -> Drawing {
        Drawing { outstanding: self.outstanding, windows: self.windows, limit: self.draws, record: true }
    }

    /// Runs it and checks the numbers. Returns what each client drew; nothing where machine 0 is in
    /// another process.
    ///
    /// # Errors
    /// What is wrong.
    pub fn run<C: Cluster>(&self, cluster: &mut C, patience: Span) -> Result<Vec<Draws>, String> {
        let mut stage = stage::stage(cluster, self.faults, patience)?;
        match self.sequencer {
            Sequencer::HerdRpc => self.rpc(&mut stage)?,
            Sequencer::SpecS0 => self.spec(&mut stage)?,
            Sequencer::Atomics => self.atomics(&mut stage)?,
        }
        let drawn = stage::run(stage)?;
        if !drawn.is_empty() {
            self.check(&drawn)?;
        }
        Ok(drawn)
    }

    fn rpc<C: Cluster>(&self, stage: &mut Stage<'_, C, Draws>) -> Result<(), String> {
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
            retry: self.retry,
        };
        let region = stage.alloc(config.region_bytes()).map_err(text)?;
        let counter = stage.counter(self.first).map_err(text)?;
        let interval = stage.server_interval();
        for number in 0..self.workers {
            stage.serve(rpc::Server { config: config.clone(), number, region, counter, interval });
        }
        let (drawing, interval) = (self.drawing(), stage.client_interval());
        let machines = stage.cluster().machines();
        for number in 0..self.clients {
            stage.ask(
                place(machines, number),
                Drawer(rpc::Client { config: config.clone(), number, drawing, interval }),
            );
        }
        Ok(())
    }

    fn spec<C: Cluster>(&self, stage: &mut Stage<'_, C, Draws>) -> Result<(), String> {
        let config = spec::Config {
            workers: self.workers,
            clients: self.clients,
            outstanding: self.outstanding,
            gather: self.gather,
            doorbell: self.doorbell,
            queues: self.queues,
            retry: self.retry,
        };
        let counter = stage.counter(self.first).map_err(text)?;
        let interval = stage.server_interval();
        for number in 0..self.workers {
            stage.serve(spec::Server { config: config.clone(), number, counter, interval });
        }
        let (drawing, guess, interval) = (self.drawing(), self.guess, stage.client_interval());
        let machines = stage.cluster().machines();
        for number in 0..self.clients {
            stage.ask(
                place(machines, number),
                Drawer(spec::Client { config: config.clone(), number, guess, drawing, interval }),
            );
        }
        Ok(())
    }

    fn atomics<C: Cluster>(&self, stage: &mut Stage<'_, C, Draws>) -> Result<(), String> {
        let counter = stage.counter(self.first).map_err(text)?;
        let interval = stage.server_interval();
        stage.serve(atomics::Server { clients: self.clients, counter, interval });
        let (drawing, interval): (Drawing, Interval) = (self.drawing(), stage.client_interval());
        let machines = stage.cluster().machines();
        for number in 0..self.clients {
            stage.ask(place(machines, number), Drawer(atomics::Client { number, drawing, interval }));
        }
        Ok(())
    }

    /// Whether a reply is that of a request: Spec-S0's carry no name.
    fn named(&self) -> bool {
        self.sequencer != Sequencer::SpecS0 || self.outstanding == 1
    }

    /// Whether no number is skipped: Spec-S0 does where a client asks again.
    fn dense(&self) -> bool {
        self.sequencer != Sequencer::SpecS0 || self.retry.is_none()
    }

    fn check(&self, drawn: &[Draws]) -> Result<(), String> {
        if let Some(at) = drawn.iter().position(|d| d.draws.len() as u64 != self.draws) {
            return Err(format!("client {at} drew {} numbers, not {}", drawn[at].draws.len(), self.draws));
        }
        let mut draws: Vec<Draw> = drawn.iter().flat_map(|d| d.draws.clone()).collect();
        draws.sort_by_key(|d| d.value);
        if let Some(pair) = draws.windows(2).find(|pair| pair[0].value == pair[1].value) {
            return Err(format!("{:?} and {:?} drew the same", pair[0], pair[1]));
        }
        // Going up in value: nobody may have ended before the latest beginning so far.
        let mut latest = draws[0];
        for draw in &draws {
            if self.named() && draw.ended < latest.began {
                return Err(format!("{draw:?} ended before {latest:?} began"));
            }
            if draw.began > latest.began {
                latest = *draw;
            }
        }
        let (lowest, highest) = (draws[0].value, draws[draws.len() - 1].value);
        let end = self.first + draws.len() as u64;
        if lowest < self.first || self.dense() && highest >= end {
            return Err(format!(
                "numbers from {lowest} to {highest}, not from {} to {}",
                self.first,
                end - 1
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case() -> Case {
        Case {
            sequencer: Sequencer::HerdRpc,
            clients: 2,
            workers: 1,
            outstanding: 1,
            windows: false,
            gather: 1,
            doorbell: true,
            queues: 1,
            first: 10,
            guess: 0,
            draws: 2,
            retry: None,
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
        case().check(&drawn([[10, 12], [11, 13]])).unwrap();
        for bad in [[[10, 12], [11, 12]], [[12, 10], [11, 13]], [[10, 12], [11, 14]], [[9, 12], [11, 13]]] {
            case().check(&drawn(bad)).unwrap_err();
        }
        let spec = Case { sequencer: Sequencer::SpecS0, retry: Some(Span::from_us(1)), ..case() };
        spec.check(&drawn([[10, 12], [11, 14]])).unwrap();
    }

    #[test]
    fn draws_survive_as_words() {
        let draws = drawn([[10, 12], [11, 13]]).remove(0);
        assert_eq!(Draws::from_words(&draws.to_words()), Some(draws));
        assert_eq!(Draws::from_words(&[1, 2, 3]), None);
    }
}
