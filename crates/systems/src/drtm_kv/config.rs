//! Parameters of DrTM-KV.

use crate::config::{Clients, Pairs, Timing};
use doorbell_schema::{Field, schema};

schema! {
    /// DrTM-KV.
    pub struct DrtmKv {
        groups {
            /// Clients.
            clients: Clients,
            /// What it holds.
            pairs: Pairs,
            /// What is measured.
            timing: Timing,
        }
        /// PUTs write their value, rather than only lock and unlock.
        update: bool = Field::switch(),
    }
}
