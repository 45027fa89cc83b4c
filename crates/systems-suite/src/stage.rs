//! Sets up checks: injects faults into their programs, and places their clients on the machines.

use crate::faults::{Faults, Faulty};
use crate::layer::Layered;
use doorbell_systems::Record;
use doorbell_systems::site::{Course, Dress, Site};
use doorbell_verbs::{Cluster, Program, Provider, Span};

/// The site of a check.
pub type Stage<'c, C, R> = Site<'c, C, R, Faults>;

/// The side of a thread: the server or a client, with its number.
#[derive(Clone, Copy)]
enum FaultSide {
    Server(u32),
    Client(u32),
}

/// A program with injected faults.
struct WithFaults<T> {
    program: T,
    faults: Faults,
    side: FaultSide,
}

impl<T: Program> Program for WithFaults<T> {
    type Output = T::Output;

    fn run<P: Provider>(self, p: P) -> T::Output {
        let faulty = match self.side {
            FaultSide::Server(thread) => Faulty::server(self.faults, thread),
            FaultSide::Client(number) => Faulty::client(self.faults, number),
        };
        self.program.run(Layered::new(p, faulty))
    }
}

impl Dress for Faults {
    fn server<T: Program>(self, thread: u32, program: T) -> impl Program<Output = T::Output> {
        WithFaults { program, faults: self, side: FaultSide::Server(thread) }
    }

    fn client<T: Program>(self, number: u32, program: T) -> impl Program<Output = T::Output> {
        WithFaults { program, faults: self, side: FaultSide::Client(number) }
    }

    fn hands_back(&self, number: u32) -> bool {
        !self.kill.is_some_and(|kill| kill.concerns(number))
    }
}

/// A site with threads that give up after `patience`.
pub fn stage<C: Cluster, R: Record>(
    cluster: &mut C,
    faults: Faults,
    patience: Span,
) -> Result<Stage<'_, C, R>, String> {
    Site::dressed(cluster, Course::Patience(patience), faults).map_err(text)
}

/// Machine and core of a client, on a cluster of `machines` machines.
pub fn place(machines: u32, number: u32) -> (u32, u32) {
    let others = machines - 1;
    (1 + number % others, number / others)
}

/// Runs a check. Returns the clients' records, or nothing if machine 0 is another process.
pub fn run<C: Cluster, R: Record>(stage: Stage<'_, C, R>) -> Result<Vec<R>, String> {
    Ok(stage.run().map_err(text)?.map(|ended| ended.clients).unwrap_or_default())
}

/// An error as text.
pub fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
