//! The store over HERD's RPCs. It is linearizable for each key, and refuses requests out of range.

mod client;
mod refusals;
mod server;
mod store;

pub(crate) use client::HerdKvCaseClient;
pub use refusals::refuses;
pub(crate) use server::{config, layout, serve};
pub use store::Herd;

use crate::check::{Check, Trouble};
use crate::deployed;
use crate::kv::KvShape;
use doorbell_systems::herd_kv::HerdKv;
use doorbell_verbs::Cluster;

/// The checks of the store.
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    vec![
        KvShape::new(Herd, 1).check("systems/kv/herd"),
        KvShape::new(Herd, 4).batched().check("systems/kv/herd_batching"),
        KvShape::new(Herd, 4).batched().under(Trouble::Loss).check("systems/kv/herd_lost_messages"),
        Check::new("systems/rpc/refusals", |cluster, scale| refuses(cluster, scale.patience)),
        deployed::check::<HerdKv, C>(),
    ]
}
