//! The systems on this machine, over its verbs and its TCP.
//!
//! This crate compiles each system for threads of this process. It is apart from the command, so that a change of the
//! command does not compile the systems again.
#![forbid(unsafe_code)]

mod counted;

pub use counted::{Llc, LlcUse, Threads};

use counted::Counted;
use doorbell_native::NativeDevice;
use doorbell_schema::Given;
use doorbell_systems::config::Timing;
use doorbell_systems::site::{Course, SiteEnded, SiteError};
use doorbell_systems::{Measured, System, Visit};
use doorbell_verbs::{RunError, Span};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use thiserror::Error;

/// What one run gave.
pub struct LiveRun {
    /// What all clients measured together.
    pub clients: Measured,
    /// The time that was measured.
    pub span: Span,
    /// Its threads.
    pub threads: Threads,
}

/// Why a run has no result.
#[derive(Debug, Error)]
pub enum LiveError {
    /// Its parameters do not go together.
    #[error("{0}")]
    Refused(String),
    /// It did not come to its end.
    #[error("{0}")]
    Failed(SiteError),
}

/// Runs the system of a name with these parameters, which say for how long; `None` where somebody stopped it.
///
/// # Errors
/// If the parameters do not go together, or the run does not come to its end.
///
/// # Panics
/// If there is no system of this name, or nothing says for how long it is to run.
pub fn run(
    name: &str,
    given: &Given,
    device: &NativeDevice,
    interrupt: &Arc<AtomicBool>,
) -> Result<Option<LiveRun>, LiveError> {
    let mut named = Named { name, given, device, interrupt, run: None };
    doorbell_systems::visit_all(&mut named);
    named.run.unwrap_or_else(|| panic!("{name} is no system of the register"))
}

/// Runs the system of a name when it is shown.
struct Named<'a> {
    name: &'a str,
    given: &'a Given,
    device: &'a NativeDevice,
    interrupt: &'a Arc<AtomicBool>,
    run: Option<Result<Option<LiveRun>, LiveError>>,
}

impl Visit for Named<'_> {
    fn visit<S: System>(&mut self) {
        if S::NAME == self.name {
            let system = S::of(self.given).map_err(LiveError::Refused);
            self.run = Some(system.and_then(|system| run_system(&system, self.device, self.interrupt)));
        }
    }
}

fn run_system<S: System>(
    system: &S,
    device: &NativeDevice,
    interrupt: &Arc<AtomicBool>,
) -> Result<Option<LiveRun>, LiveError> {
    let mut cluster = Counted::new(device, system.shape().machines, interrupt);
    let Timing { warmup, duration, .. } = *system.timing();
    let (Some(warmup), Some(duration)) = (warmup, duration) else {
        unreachable!("what is usual of real time says both");
    };
    let course = Course::Together { warmup: warmup.span(), span: duration.span() };
    let ended = match system.run(&mut cluster, course) {
        Err(SiteError::Run(RunError::Interrupted)) => return Ok(None),
        ended => ended.map_err(LiveError::Failed)?,
    };
    let SiteEnded { clients: each, .. } = ended.expect("all machines are in this process");
    let mut clients = Measured::default();
    each.iter().for_each(|client| clients.add(client));
    Ok(Some(LiveRun { clients, span: duration.span(), threads: cluster.threads() }))
}
