//! What a system says of itself, and the register of all.

use crate::config::{Clients, Timing};
use crate::site::{Course, Dress, Ended, Site, SiteError};
use crate::{
    Measured, atomics_sequencer, consolidate, drtm_kv, hashtable, herd_kv, join, local_memory,
    local_sequencer, log, ping_pong, proxy, read_kv, rpc, rpc_sequencer, shuffle, spec_sequencer, spinlock,
    touch, vector_io,
};
use doorbell_schema::{Given, Schema};
use doorbell_verbs::{Cluster, Span, Time};

/// Virtual time that a thread has to set up at least, and to use a line of its memory once.
const SETUP: Span = Span::from_us(1500);
const SETUP_LINE: Span = Span::from_ns(200);

/// What comes round again and again in a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// After this time.
    Time(Span),
    /// After so many operations.
    Operations(u64),
}

/// A system: its parameters, and how its programs are put on machines.
pub trait System: Schema + Clone + std::fmt::Debug + Send + Sync + 'static {
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

    /// Its clients.
    fn clients(&self) -> &Clients;

    /// Its machines; 0 is the server.
    fn machines(&self) -> u32 {
        self.clients().machines()
    }

    /// What is measured.
    fn timing(&self) -> &Timing;

    /// The same, to be changed.
    fn timing_mut(&mut self) -> &mut Timing;

    /// Bytes of the memory that the server's store has.
    fn store_bytes(&self) -> u64 {
        0
    }

    /// Bytes that a thread uses once before it is ready.
    fn warmed_bytes(&self) -> u64 {
        0
    }

    /// Bytes of the buffers that a client has, where parameters decide that.
    fn client_bytes(&self) -> u64 {
        0
    }

    /// The bytes of its longest UD message, where a parameter decides that, and which.
    fn datagram(&self) -> Option<(&'static str, u32)> {
        None
    }

    /// Cores that parameters name, each with its parameter.
    fn cores(&self) -> Vec<(&'static str, u32)> {
        Vec::new()
    }

    /// What a latency is of, where it is not from the start of an operation to its end.
    fn latency_of(&self) -> Option<&'static str> {
        None
    }

    /// Bytes that an operation moves, where how many a second is what is asked for.
    fn moved_bytes(&self) -> Option<u64> {
        None
    }

    /// What comes round again and again, where less than some rounds of it say nothing of the long run.
    fn round(&self) -> Option<Round> {
        None
    }

    /// For how long an operation may be held back before it is begun, and the parameter that says so.
    fn held_back(&self) -> Option<(&'static str, Span)> {
        None
    }

    /// A thread of the server that is no part of any operation: how busy its core is says nothing of the rate.
    fn beside(&self) -> Option<u32> {
        None
    }

    /// Whether clients want what one has at a time: how evenly they get it is told.
    fn competes(&self) -> bool {
        false
    }

    /// Whether all clients are threads of one machine, whatever clients_per_machine is.
    fn is_of_one_machine(&self) -> bool {
        false
    }

    /// Sockets of a machine and cores of each, where parameters say them.
    fn sockets(&self) -> Option<(u32, u32)> {
        None
    }

    /// A parameter, with its value, that changes nothing on a host of the model whose caches have no sizes.
    fn needs_sizes(&self) -> Option<(&'static str, String)> {
        None
    }

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

    /// When clients begin where time is virtual: threads are ready.
    fn begin(&self) -> Time {
        Time::START + SETUP.max(SETUP_LINE * (self.warmed_bytes() / 64))
    }

    /// Runs it on a cluster; `None` where machine 0 is another process, which has the result.
    ///
    /// # Errors
    /// If it does not reach its end.
    fn run<C: Cluster>(&self, cluster: &mut C, course: Course) -> Result<Option<Ended<Measured>>, SiteError> {
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

/// Shows all systems, in the order of lists.
pub fn visit_all(visitor: &mut impl Visit) {
    visitor.visit::<rpc_sequencer::RpcSequencer>();
    visitor.visit::<spec_sequencer::SpecSequencer>();
    visitor.visit::<atomics_sequencer::AtomicsSequencer>();
    visitor.visit::<local_sequencer::LocalSequencer>();
    visitor.visit::<herd_kv::HerdKv>();
    visitor.visit::<read_kv::ReadKv>();
    visitor.visit::<drtm_kv::DrtmKv>();
    visitor.visit::<rpc::Rpc>();
    visitor.visit::<touch::Touch>();
    visitor.visit::<ping_pong::PingPong>();
    visitor.visit::<vector_io::VectorIo>();
    visitor.visit::<local_memory::LocalMemory>();
    visitor.visit::<spinlock::RemoteSpinlock>();
    visitor.visit::<spinlock::LocalSpinlock>();
    visitor.visit::<spinlock::RpcSpinlock>();
    visitor.visit::<consolidate::Consolidate>();
    visitor.visit::<proxy::Proxy>();
    visitor.visit::<hashtable::Hashtable>();
    visitor.visit::<shuffle::Shuffle>();
    visitor.visit::<join::Join>();
    visitor.visit::<log::Log>();
}
