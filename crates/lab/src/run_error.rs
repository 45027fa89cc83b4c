//! Why a simulation has no result.

use doorbell_programs::worker::ProgramError;
use doorbell_systems::SystemError;
use doorbell_systems::site::SiteError;
use doorbell_verbs::{RunError, SocketError, VerbsError};
use thiserror::Error;

/// Why a simulation has no result.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SimulateError {
    /// This machine lacks the memory for the run.
    #[error(
        "the run may take {} of memory, but this machine has {}: use fewer machines, threads, QPs or \
         clients, or less memory for each",
        gib(*needed),
        gib(*memory)
    )]
    TooLarge {
        /// Bytes of memory that the run may need.
        needed: u64,
        /// Bytes of memory of this machine.
        memory: u64,
    },
    /// The wall-clock time was over before the run measured anything.
    #[error(
        "the wall-clock time (--max-wall) was over before anything was measured: try a longer --max-wall"
    )]
    OutOfTime,
    /// The run did not finish.
    #[error("{0}")]
    Run(#[from] RunError),
    /// Memory for the counters could not be allocated.
    #[error("counters: {0}")]
    Counters(#[from] VerbsError),
    /// A thread stopped with an error.
    #[error("thread {thread} of machine {machine}: {cause}")]
    Thread {
        /// Machine of the thread.
        machine: u32,
        /// Number of the thread on its machine.
        thread: u32,
        /// Error of the thread.
        cause: ProgramError,
    },
    /// A system did not finish.
    #[error("{0}")]
    System(SiteError),
    /// The counts of the run contradict each other.
    #[error(
        "the counts of the run contradict each other, which is a bug in Doorbell, so there is no \
         result: {0}"
    )]
    Fault(String),
    /// A thread did not end in time.
    #[error("thread {thread} of machine {machine} did not end in time")]
    Unfinished {
        /// Machine of the thread.
        machine: u32,
        /// Number of the thread on its machine.
        thread: u32,
    },
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
}

impl From<SiteError> for SimulateError {
    fn from(error: SiteError) -> SimulateError {
        match error {
            SiteError::Run(error) => SimulateError::Run(error),
            error => SimulateError::System(error),
        }
    }
}

impl SimulateError {
    /// Whether the request itself causes the error.
    pub fn is_bad_input(&self) -> bool {
        let refused = |cause: &SystemError| match cause {
            SystemError::Config(_) | SystemError::Verbs(_) => true,
            SystemError::Post(post) => matches!(post.cause, VerbsError::Unsupported(_)),
            SystemError::Socket(error) => matches!(error, SocketError::Unsupported(_)),
            _ => false,
        };
        match self {
            SimulateError::TooLarge { .. } | SimulateError::System(SiteError::Memory(_)) => true,
            SimulateError::System(SiteError::Thread { cause, .. }) => refused(cause),
            _ => false,
        }
    }

    /// Whether the run was cut short, by an interrupt or because the wall-clock time was over.
    pub fn is_cut(&self) -> bool {
        matches!(self, SimulateError::Run(RunError::Interrupted) | SimulateError::OutOfTime)
    }
}
