//! Parameters of DrTM-KV.

use crate::config::{Clients, Pairs, Timing};
use doorbell_schema::{Field, schema};

schema! {
    /// DrTM-KV: GET by READ, PUT by atomics.
    pub struct DrtmKv {
        groups {
            /// The clients, and their operations outstanding.
            clients: Clients,
            /// The items of the store.
            pairs: Pairs,
            /// The interval that is measured, and the seed.
            timing: Timing,
        }
        /// PUTs write their value, rather than only lock and unlock.
        update: bool = Field::switch(),
    }
}
