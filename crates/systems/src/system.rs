//! What a system says of itself.

use crate::Measured;
use crate::config::Timing;
use crate::shape::SystemShape;
use crate::site::{Course, Dress, Site, SiteEnded, SiteError};
use crate::strategy::{Strategy, VectorCalls};
use doorbell_schema::{Given, Schema};
use doorbell_verbs::Cluster;

/// A system: its parameters, and how its programs are put on machines. One of its parameters' groups says what is
/// measured.
pub trait System:
    Schema + AsRef<Timing> + AsMut<Timing> + Clone + std::fmt::Debug + Send + Sync + 'static
{
    /// Its name.
    const NAME: &'static str;
    /// What it is, in one sentence.
    const ABOUT: &'static str;
    /// Where several systems do the same: what that is, and the name of this design of it.
    const DESIGN: Option<(&'static str, &'static str)> = None;

    /// Its parameters as its paper has them; where that does not say, as its authors' programs.
    fn usual() -> Self;

    /// Fills in what is usual and depends on what is given; `self` has all that is given.
    fn settle(&mut self, _given: &Given) {}

    /// Refuses what does not go together.
    ///
    /// # Errors
    /// One sentence.
    fn check(&self) -> Result<(), String> {
        Ok(())
    }

    /// Its shape with these parameters.
    fn shape(&self) -> SystemShape;

    /// Decides what its parameters leave to the profile. `fastest` names the strategy with which most of these calls of
    /// vector I/O are done in a second.
    fn decide(&mut self, _fastest: &dyn Fn(&VectorCalls) -> Strategy) {}

    /// Puts it up: allocates, and adds the server's threads and the clients.
    ///
    /// # Errors
    /// If the site has no more memory, or a parameter does not fit the others.
    fn deploy<C: Cluster, D: Dress>(&self, site: &mut Site<'_, C, Measured, D>) -> Result<(), SiteError>;

    /// Its parameters as given, else as usual.
    ///
    /// # Errors
    /// One sentence where a value is out of its range, or values do not go together.
    fn of(given: &Given) -> Result<Self, String> {
        let mut system = Self::usual();
        system.apply(given)?;
        system.settle(given);
        system.check_ranges()?;
        system.check()?;
        Ok(system)
    }

    /// What is measured.
    fn timing(&self) -> &Timing {
        self.as_ref()
    }

    /// Runs it on a cluster; `None` where machine 0 is another process, which has the result.
    ///
    /// # Errors
    /// If it does not reach its end.
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

/// Who is shown systems.
pub trait Visit {
    /// A system.
    fn visit<S: System>(&mut self);
}
