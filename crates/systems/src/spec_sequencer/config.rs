//! Parameters of Spec-S0.

use super::protocol::Config;
use crate::config::{Clients, Timing, Workers};
use doorbell_schema::schema;

schema! {
    /// Spec-S0.
    pub struct SpecSequencer {
        groups {
            /// Clients.
            clients: Clients,
            /// The server's threads.
            workers: Workers,
            /// When the run measures.
            timing: Timing,
        }
    }
}

impl SpecSequencer {
    pub(super) fn shared(&self) -> Config {
        Config {
            workers: self.workers.cores,
            clients: self.clients.clients,
            outstanding: self.clients.outstanding,
            gather: self.workers.gather,
            doorbell: self.workers.batching,
            queues: self.workers.queues,
            retry: None,
        }
    }
}
