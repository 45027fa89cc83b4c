//! Parameters of the store over HERD's RPCs.

use super::protocol::{max_reply, max_request};
use super::server::StoreServer;
use crate::config::{Clients, Pairs, Scale, Timing, Travel, Values, Workers};
use doorbell_schema::{Field, schema};

schema! {
    /// The store over HERD's RPCs.
    pub struct HerdKv {
        groups {
            /// Clients.
            clients: Clients,
            /// The server's threads, each with a partition.
            workers: Workers,
            /// How requests travel.
            travel: Travel,
            /// What it holds.
            pairs: Pairs,
            /// Their values.
            values: Values,
            /// What that stands for.
            scale: Scale,
            /// What is measured.
            timing: Timing,
        }
        /// GET only what has changed since the client read it.
        speculate: bool = Field::switch(),
    }
}

impl HerdKv {
    pub(super) fn server(&self) -> StoreServer {
        let longest = (max_request(self.values.value), max_reply(self.values.value));
        StoreServer {
            config: self.travel.herd(&self.clients, &self.workers, longest),
            load: self.pairs.load(self.workers.cores, self.values.value, &self.clients, &self.timing),
            partition: self.pairs.pairs,
            scale: self.scale.clone(),
            readers: 0,
        }
    }
}
