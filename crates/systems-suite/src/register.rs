//! The register of all checks.

use crate::check::Check;
use crate::{
    atomics_sequencer, consolidate, drtm_kv, hashtable, herd, herd_kv, join, local_memory, local_sequencer,
    log, ping_pong, proxy, read_kv, rpc, rpc_sequencer, shuffle, spec_sequencer, spinlock, touch, vector_io,
};
use doorbell_verbs::Cluster;

/// All checks: first the checks of HERD's RPCs, then a line for each system.
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    let mut all = herd::checks();
    all.extend(rpc_sequencer::checks());
    all.extend(spec_sequencer::checks());
    all.extend(atomics_sequencer::checks());
    all.extend(local_sequencer::checks());
    all.extend(herd_kv::checks());
    all.extend(read_kv::checks());
    all.extend(drtm_kv::checks());
    all.extend(rpc::checks());
    all.extend(touch::checks());
    all.extend(ping_pong::checks());
    all.extend(vector_io::checks());
    all.extend(local_memory::checks());
    all.extend(spinlock::checks());
    all.extend(consolidate::checks());
    all.extend(proxy::checks());
    all.extend(hashtable::checks());
    all.extend(log::checks());
    all.extend(shuffle::checks());
    all.extend(join::checks());
    all
}
