//! Parameters of the sequencer by fetch-and-add.

use crate::config::{Clients, Timing};
use doorbell_schema::schema;

schema! {
    /// The sequencer by RDMA fetch-and-add.
    pub struct AtomicsSequencer {
        groups {
            /// Clients.
            clients: Clients,
            /// When the run measures.
            timing: Timing,
        }
    }
}
