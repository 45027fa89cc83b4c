//! The systems on simulated machines. All code generic over the cluster is compiled here, once per system.

use doorbell_schema::{Field, Given, Schema, Value};
use doorbell_sim::SimCluster;
use doorbell_systems::config::Timing;
use doorbell_systems::site::{self, SiteError};
use doorbell_systems::vector_io::Strategy;
use doorbell_systems::{Measured, System, SystemShape, VectorCalls, Visit};
use std::fmt::Debug;
use std::sync::{Arc, LazyLock};

/// A system with its parameters. Hides the type of the system.
pub trait Simulated: Debug + Send + Sync {
    /// Name of the system, as in the register.
    fn name(&self) -> &'static str;

    /// Parameters with their values.
    fn values(&self) -> Vec<(&'static str, Option<Value>)>;

    /// The shape that these parameters give the system.
    fn shape(&self) -> SystemShape;

    /// The shape that the usual parameters give the system.
    fn usual_shape(&self) -> SystemShape;

    /// Warm-up, duration and precision of the measurement.
    fn timing(&self) -> &Timing;

    /// Returns the system with other measurement times.
    fn timed(&self, timing: Timing) -> Arc<dyn Simulated>;

    /// Returns the system with values for the parameters that depend on the profile. `fastest` returns the
    /// strategy with the highest rate of such vector I/O calls.
    fn decided(&self, fastest: &dyn Fn(&VectorCalls) -> Strategy) -> Arc<dyn Simulated>;

    /// Runs the system on simulated machines. Returns `None` if machine 0 is another process.
    ///
    /// # Errors
    /// If the run does not finish.
    fn run(
        &self,
        cluster: &mut SimCluster,
        course: site::Course,
    ) -> Result<Option<site::SiteEnded<Measured>>, SiteError>;
}

impl<S: System> Simulated for S {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn values(&self) -> Vec<(&'static str, Option<Value>)> {
        Schema::values(self)
    }

    fn shape(&self) -> SystemShape {
        System::shape(self)
    }

    fn usual_shape(&self) -> SystemShape {
        S::usual().shape()
    }

    fn timing(&self) -> &Timing {
        System::timing(self)
    }

    fn timed(&self, timing: Timing) -> Arc<dyn Simulated> {
        let mut system = self.clone();
        *system.as_mut() = timing;
        Arc::new(system)
    }

    fn decided(&self, fastest: &dyn Fn(&VectorCalls) -> Strategy) -> Arc<dyn Simulated> {
        let mut system = self.clone();
        system.decide(fastest);
        Arc::new(system)
    }

    fn run(
        &self,
        cluster: &mut SimCluster,
        course: site::Course,
    ) -> Result<Option<site::SiteEnded<Measured>>, SiteError> {
        System::run(self, cluster, course)
    }
}

/// An entry of the register of systems: the system's parameters, and how to build the system.
pub struct SystemEntry {
    /// Name of the system.
    pub name: &'static str,
    /// One-line description of the system.
    pub about: &'static str,
    /// If several systems provide one service: the name of the service, and the name of this design.
    pub design: Option<(&'static str, &'static str)>,
    /// Parameters of the system.
    pub fields: Vec<&'static Field>,
    /// Values of the usual parameters.
    pub usual: Given,
    /// Whether a trace can follow the operations of the system with its usual parameters.
    pub followed: bool,
    /// Builds the system from parameters and checks them.
    of: fn(&Given) -> Result<Arc<dyn Simulated>, String>,
    /// Builds the system from values for all of its parameters, without checks.
    unchecked: fn(&Given) -> Result<Arc<dyn Simulated>, String>,
}

impl SystemEntry {
    /// The entry of the system `S`.
    pub fn new<S: System>() -> SystemEntry {
        SystemEntry {
            name: S::NAME,
            about: S::ABOUT,
            design: S::DESIGN,
            fields: S::fields(),
            usual: S::usual().given(),
            followed: S::usual().shape().followed.is_ok(),
            of: |given| Ok(Arc::new(S::of(given)?)),
            unchecked: |given| {
                let mut system = S::usual();
                system.apply(given)?;
                Ok(Arc::new(system))
            },
        }
    }

    /// Builds the system with these parameters, and with usual values for all other parameters.
    ///
    /// # Errors
    /// One sentence if a value is out of its range.
    pub fn with(&self, given: &Given) -> Result<Arc<dyn Simulated>, String> {
        (self.of)(given)
    }
}

/// All systems, in the order of lists.
pub static SYSTEMS: LazyLock<Vec<SystemEntry>> = LazyLock::new(|| {
    struct Collect(Vec<SystemEntry>);
    impl Visit for Collect {
        fn visit<S: System>(&mut self) {
            self.0.push(SystemEntry::new::<S>());
        }
    }
    let mut all = Collect(Vec::new());
    doorbell_systems::visit_all(&mut all);
    all.0
});

/// Looks up the entry with this name.
pub fn entry(name: &str) -> Option<&'static SystemEntry> {
    SYSTEMS.iter().find(|entry| entry.name == name)
}

/// Makes a system of [`SYSTEMS`] runnable. The function looks up the system's entry, so that the code that
/// runs the system is compiled in this crate, and not again in the caller's.
///
/// # Panics
/// If the system is not in the register (use a [`SystemEntry`] of its own instead), or if it has more state
/// than the values of its parameters.
pub fn simulated<S: System>(system: &S) -> Arc<dyn Simulated> {
    let Some(entry) = entry(S::NAME) else {
        panic!("{} is not in the register: use a SystemEntry of its own", S::NAME)
    };
    let made = (entry.unchecked)(&system.given()).unwrap_or_else(|why| panic!("{}: {why}", S::NAME));
    assert_eq!(made.values(), Schema::values(system), "values of {} got lost", S::NAME);
    made
}
