//! Parameters of the sequencer over HERD's RPCs.

use super::protocol::{MAX_REPLY, MAX_REQUEST};
use crate::config::{Clients, Timing, Travel, Workers};
use crate::herd;
use doorbell_schema::schema;

schema! {
    /// The sequencer over HERD's RPCs.
    pub struct RpcSequencer {
        groups {
            /// Clients.
            clients: Clients,
            /// The server's threads.
            workers: Workers,
            /// How requests travel.
            travel: Travel,
            /// What is measured.
            timing: Timing,
        }
    }
}

impl RpcSequencer {
    pub(super) fn herd(&self) -> herd::Config {
        self.travel.herd(&self.clients, &self.workers, (MAX_REQUEST, MAX_REPLY))
    }
}
