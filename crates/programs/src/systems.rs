//! The systems on simulated machines: all code that is generic over the cluster is compiled here, once for each system.

use doorbell_schema::{Field, Given, Schema, Value};
use doorbell_sim::SimCluster;
use doorbell_systems::config::Timing;
use doorbell_systems::site::{self, SiteError};
use doorbell_systems::vector_io::Strategy;
use doorbell_systems::{Measured, System, SystemShape, VectorCalls, Visit};
use std::fmt::Debug;
use std::sync::{Arc, LazyLock};

/// A system with its parameters, whichever it is.
pub trait Simulated: Debug + Send + Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Its parameters with their values.
    fn values(&self) -> Vec<(&'static str, Option<Value>)>;

    /// Its shape with these parameters.
    fn shape(&self) -> SystemShape;

    /// Its shape where its parameters are as usual.
    fn usual_shape(&self) -> SystemShape;

    /// What is measured.
    fn timing(&self) -> &Timing;

    /// The system measured at other times.
    fn timed(&self, timing: Timing) -> Arc<dyn Simulated>;

    /// The system with what its parameters leave to the profile decided. `fastest` names the strategy with which
    /// most of these calls of vector I/O are done in a second.
    fn decided(&self, fastest: &dyn Fn(&VectorCalls) -> Strategy) -> Arc<dyn Simulated>;

    /// Runs it on simulated machines; `None` where machine 0 is another process.
    ///
    /// # Errors
    /// If it does not reach its end.
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

/// A system of a register: how to read its parameters, and how to run it.
pub struct SystemEntry {
    /// Its name.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Where several do the same: what that is, and the name of this design of it.
    pub design: Option<(&'static str, &'static str)>,
    /// Its parameters.
    pub fields: Vec<&'static Field>,
    /// What is usual.
    pub usual: Given,
    /// It with parameters.
    of: fn(&Given) -> Result<Arc<dyn Simulated>, String>,
    /// It with these values of all of its parameters, which are not checked.
    unchecked: fn(&Given) -> Result<Arc<dyn Simulated>, String>,
}

impl SystemEntry {
    /// A system.
    pub fn new<S: System>() -> SystemEntry {
        SystemEntry {
            name: S::NAME,
            about: S::ABOUT,
            design: S::DESIGN,
            fields: S::fields(),
            usual: S::usual().given(),
            of: |given| Ok(Arc::new(S::of(given)?)),
            unchecked: |given| {
                let mut system = S::usual();
                system.apply(given)?;
                Ok(Arc::new(system))
            },
        }
    }

    /// It with parameters as given, else as usual.
    ///
    /// # Errors
    /// One sentence where a value is out of its range.
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

/// The entry of a name.
pub fn entry(name: &str) -> Option<&'static SystemEntry> {
    SYSTEMS.iter().find(|entry| entry.name == name)
}

/// A system of [`SYSTEMS`] as one that can be run. It is looked up: what runs it is compiled in this crate, and not
/// again where this is called.
///
/// # Panics
/// If the system is not of that register, which [`SystemEntry`] makes for itself; or if its parameters' values are
/// not all that there is to it.
pub fn simulated<S: System>(system: &S) -> Arc<dyn Simulated> {
    let Some(entry) = entry(S::NAME) else {
        panic!("{} is not of the register: a SystemEntry of its own makes it", S::NAME)
    };
    let made = (entry.unchecked)(&system.given()).unwrap_or_else(|why| panic!("{}: {why}", S::NAME));
    assert_eq!(made.values(), Schema::values(system), "values of {} got lost", S::NAME);
    made
}
