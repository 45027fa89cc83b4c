//! The store that clients READ. It is linearizable for each key, and a READ misses only keys that the server
//! has forgotten.

mod forgetting;
mod store;

pub use forgetting::forgets;
pub use store::Reads;

use crate::check::{Check, Trouble};
use crate::deployed;
use crate::kv::KvShape;
use doorbell_systems::read_kv::ReadKv;
use doorbell_verbs::Cluster;

/// The checks of the store.
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    let with = |trouble| KvShape::new(Reads, 4).batched().under(trouble);
    vec![
        with(Trouble::None).check("systems/kv/reads"),
        with(Trouble::Loss).check("systems/kv/reads_lost_messages"),
        with(Trouble::Hesitation).check("systems/kv/reads_of_what_is_being_written"),
        Check::new("systems/kv/reads_forget_as_the_server_does", |cluster, scale| {
            forgets(cluster, scale.steps, 1, scale.patience).map(drop)
        }),
        deployed::check::<ReadKv, C>(),
    ]
}
