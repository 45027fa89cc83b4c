//! The systems on simulated machines: all code that is generic over the cluster is compiled here, once for each system.

use doorbell_schema::{Field, Given, Value};
use doorbell_sim::SimCluster;
use doorbell_systems::config::{Clients, Timing};
use doorbell_systems::site::{self, SiteError};
use doorbell_systems::{Measured, Round, System, Visit};
use doorbell_verbs::{Span, Time};
use std::any::Any;
use std::fmt::Debug;
use std::sync::{Arc, LazyLock};

/// A system with its parameters, whichever it is.
pub trait Simulated: Any + Debug + Send + Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Its parameters with their values.
    fn values(&self) -> Vec<(&'static str, Option<Value>)>;

    /// Its clients.
    fn clients(&self) -> &Clients;

    /// Its machines; 0 is the server.
    fn machines(&self) -> u32;

    /// What is measured.
    fn timing(&self) -> &Timing;

    /// When its clients begin where time is virtual.
    fn begin(&self) -> Time;

    /// Bytes of the memory that the server's store has.
    fn store_bytes(&self) -> u64;

    /// Bytes that a thread uses once before it is ready.
    fn warmed_bytes(&self) -> u64;

    /// Bytes of the buffers that a client has, where parameters decide that.
    fn client_bytes(&self) -> u64;

    /// The bytes of its longest UD message, where a parameter decides that, and which.
    fn datagram(&self) -> Option<(&'static str, u32)>;

    /// Cores that parameters name, each with its parameter.
    fn cores(&self) -> Vec<(&'static str, u32)>;

    /// What a latency is of, where it is not from the start of an operation to its end.
    fn latency_of(&self) -> Option<&'static str>;

    /// Bytes that an operation moves, where how many a second is what is asked for.
    fn moved_bytes(&self) -> Option<u64>;

    /// What comes round again and again, where less than some rounds of it say nothing of the long run.
    fn round(&self) -> Option<Round>;

    /// For how long an operation may be held back before it is begun, and the parameter that says so.
    fn held_back(&self) -> Option<(&'static str, Span)>;

    /// A thread of the server that is no part of any operation: how busy its core is says nothing of the rate.
    fn beside(&self) -> Option<u32>;

    /// Whether clients want what one has at a time: how evenly they get it is told.
    fn competes(&self) -> bool;

    /// A parameter, with its value, that changes nothing on a host of the model whose caches have no sizes.
    fn needs_sizes(&self) -> Option<(&'static str, String)>;

    /// Whether all clients are threads of one machine, whatever clients_per_machine is.
    fn is_of_one_machine(&self) -> bool;

    /// Sockets of a machine and cores of each, where parameters say them.
    fn sockets(&self) -> Option<(u32, u32)>;

    /// It with other times.
    fn timed(&self, timing: Timing) -> Arc<dyn Simulated>;

    /// Runs it on simulated machines; `None` where machine 0 is another process.
    ///
    /// # Errors
    /// If it does not reach its end.
    fn run(
        &self,
        cluster: &mut SimCluster,
        course: site::Course,
    ) -> Result<Option<site::Ended<Measured>>, SiteError>;
}

impl<S: System> Simulated for S {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn values(&self) -> Vec<(&'static str, Option<Value>)> {
        doorbell_schema::Schema::values(self)
    }

    fn clients(&self) -> &Clients {
        System::clients(self)
    }

    fn machines(&self) -> u32 {
        System::machines(self)
    }

    fn timing(&self) -> &Timing {
        System::timing(self)
    }

    fn begin(&self) -> Time {
        System::begin(self)
    }

    fn store_bytes(&self) -> u64 {
        System::store_bytes(self)
    }

    fn warmed_bytes(&self) -> u64 {
        System::warmed_bytes(self)
    }

    fn client_bytes(&self) -> u64 {
        System::client_bytes(self)
    }

    fn datagram(&self) -> Option<(&'static str, u32)> {
        System::datagram(self)
    }

    fn cores(&self) -> Vec<(&'static str, u32)> {
        System::cores(self)
    }

    fn latency_of(&self) -> Option<&'static str> {
        System::latency_of(self)
    }

    fn moved_bytes(&self) -> Option<u64> {
        System::moved_bytes(self)
    }

    fn round(&self) -> Option<Round> {
        System::round(self)
    }

    fn held_back(&self) -> Option<(&'static str, Span)> {
        System::held_back(self)
    }

    fn beside(&self) -> Option<u32> {
        System::beside(self)
    }

    fn competes(&self) -> bool {
        System::competes(self)
    }

    fn needs_sizes(&self) -> Option<(&'static str, String)> {
        System::needs_sizes(self)
    }

    fn is_of_one_machine(&self) -> bool {
        System::is_of_one_machine(self)
    }

    fn sockets(&self) -> Option<(u32, u32)> {
        System::sockets(self)
    }

    fn timed(&self, timing: Timing) -> Arc<dyn Simulated> {
        let mut system = self.clone();
        *system.timing_mut() = timing;
        Arc::new(system)
    }

    fn run(
        &self,
        cluster: &mut SimCluster,
        course: site::Course,
    ) -> Result<Option<site::Ended<Measured>>, SiteError> {
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
    /// It made of a value of its type; nothing where the value has another type.
    made_of: fn(Box<dyn Any>) -> Option<Arc<dyn Simulated>>,
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
            made_of: |system| Some(Arc::new(*system.downcast::<S>().ok()?)),
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
/// If the system is not of that register. Such a system is made by its own [`SystemEntry`].
pub fn simulated<S: System>(system: S) -> Arc<dyn Simulated> {
    let made = entry(S::NAME).and_then(|entry| (entry.made_of)(Box::new(system)));
    made.unwrap_or_else(|| panic!("{} is not of the register: a SystemEntry of its own makes it", S::NAME))
}
