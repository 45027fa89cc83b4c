//! DrTM-KV: linearizable for each key, and without items beyond the last.

mod refusals;
mod store;

pub use refusals::refuses;
pub use store::Drtm;

use crate::check::{Check, Trouble};
use crate::deployed;
use crate::kv::KvShape;
use doorbell_systems::drtm_kv::DrtmKv;
use doorbell_verbs::Cluster;

/// The checks of DrTM-KV.
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    let of_what_is_being_written = KvShape::new(Drtm, 4).batched().under(Trouble::Hesitation);
    vec![
        KvShape::new(Drtm, 4).check("systems/kv/drtm"),
        of_what_is_being_written.check("systems/kv/drtm_of_what_is_being_written"),
        Check::new("systems/kv/drtm_refusals", |cluster, scale| refuses(cluster, scale.patience)),
        deployed::check::<DrtmKv, C>(),
    ]
}
