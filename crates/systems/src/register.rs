//! The register of all systems.

use crate::system::Visit;
use crate::{
    atomics_sequencer, consolidate, drtm_kv, hashtable, herd_kv, join, local_memory, local_sequencer, log,
    ping_pong, proxy, read_kv, rpc, rpc_sequencer, shuffle, spec_sequencer, spinlock, touch, vector_io,
};

/// Visits all systems, in the order in which lists show them.
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
