//! The interface that each system implements.

use crate::Measured;
use crate::config::Timing;
use crate::shape::SystemShape;
use crate::site::{Course, Dress, Site, SiteEnded, SiteError};
use crate::strategy::{Strategy, VectorCalls};
use doorbell_schema::{Given, Schema};
use doorbell_verbs::Cluster;

/// A system: its parameters, and how its programs are placed on machines. Its group [`Timing`] says when a
/// run measures.
pub trait System:
    Schema + AsRef<Timing> + AsMut<Timing> + Clone + std::fmt::Debug + Send + Sync + 'static
{
    /// The name by which command lines and files select the system.
    const NAME: &'static str;
    /// A sentence that says what the system does.
    const ABOUT: &'static str;
    /// If several systems provide one service: the name of the service, and the name of this design.
    const DESIGN: Option<(&'static str, &'static str)> = None;

    /// Default parameters: the paper's values. If the paper states none, they are the values of its authors'
    /// programs.
    fn usual() -> Self;

    /// Fills in defaults that depend on given parameters. `self` already has the given parameters.
    fn settle(&mut self, _given: &Given) {}

    /// Refuses parameters that do not go together.
    ///
    /// # Errors
    /// One sentence that says what does not go together.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// The system's shape with these parameters.
    fn shape(&self) -> SystemShape;

    /// Decides parameters that depend on the profile. `fastest` returns the strategy with the highest rate of
    /// such vector I/O calls.
    fn decide(&mut self, _fastest: &dyn Fn(&VectorCalls) -> Strategy) {}

    /// Deploys the system: allocates memory, and adds the server's threads and the clients.
    ///
    /// # Errors
    /// If the site has no more memory, or a parameter does not fit the others.
    fn deploy<C: Cluster, D: Dress>(&self, site: &mut Site<'_, C, Measured, D>) -> Result<(), SiteError>;

    /// A system with the given parameters, and defaults for the rest.
    ///
    /// # Errors
    /// One sentence if a value is out of its range, or if values do not go together.
    fn of(given: &Given) -> Result<Self, String> {
        let mut system = Self::usual();
        system.apply(given)?;
        system.settle(given);
        system.check_ranges()?;
        system.check()?;
        Ok(system)
    }

    /// The parameters that say when a run measures.
    fn timing(&self) -> &Timing {
        self.as_ref()
    }

    /// Runs the system on a cluster. Returns `None` if machine 0 is another process: that process has the
    /// result.
    ///
    /// # Errors
    /// If the run does not reach its end.
    fn run<C: Cluster>(
        &self,
        cluster: &mut C,
        course: Course,
    ) -> Result<Option<SiteEnded<Measured>>, SiteError> {
        let mut site = Site::new(cluster, course)?;
        self.deploy(&mut site)?;
        site.run()
    }
}

/// A visitor of systems; see [`crate::visit_all`].
pub trait Visit {
    /// Called for each system.
    fn visit<S: System>(&mut self);
}
