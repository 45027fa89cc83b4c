//! Runs the systems in real time on this machine, over its RDMA device and its TCP.
//!
//! This crate compiles each system for threads of this process. It is separate from the command-line crate,
//! so that a change there does not recompile the systems.
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

/// The result of one live run.
pub struct LiveRun {
    /// Sum of the measurements of all clients.
    pub clients: Measured,
    /// Length of the measured time.
    pub span: Span,
    /// Threads of the run and their cache accesses.
    pub threads: Threads,
}

/// The reason why a run has no result.
#[derive(Debug, Error)]
pub enum LiveError {
    /// The parameters contradict each other.
    #[error("{0}")]
    Refused(String),
    /// The run did not finish.
    #[error("{0}")]
    Failed(SiteError),
}

/// Runs the system `name` with the parameters, warm-up and duration in `given`. Returns `None` if the run was
/// interrupted.
///
/// # Errors
/// If the parameters contradict each other, or the run does not finish.
///
/// # Panics
/// If no system has this name, or the parameters lack a warm-up or duration.
pub fn run(
    name: &str,
    given: &Given,
    device: &NativeDevice,
    interrupt: &Arc<AtomicBool>,
) -> Result<Option<LiveRun>, LiveError> {
    let mut named = Named { name, given, device, interrupt, run: None };
    doorbell_systems::visit_all(&mut named);
    named.run.unwrap_or_else(|| panic!("{name} is not a system of the register"))
}

/// A visitor of all systems that runs the system `name`.
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
        unreachable!("both have usual real times");
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
