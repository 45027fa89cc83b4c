//! Parameters of the store over HERD's RPCs.

use super::protocol::{max_reply, max_request};
use super::server::StoreServer;
use crate::config::{Clients, Pairs, Scale, Timing, Travel, Values, Workers};
use doorbell_schema::{Field, schema};

schema! {
    /// The store over HERD's RPCs.
    pub struct HerdKv {
        groups {
            /// The clients, and their operations outstanding.
            clients: Clients,
            /// The server's threads, each with a partition.
            workers: Workers,
            /// The verb and the repetition of requests.
            travel: Travel,
            /// The pairs of the store.
            pairs: Pairs,
            /// The values of the pairs.
            values: Values,
            /// The size of the store that the pairs stand for.
            scale: Scale,
            /// The interval that is measured, and the seed.
            timing: Timing,
        }
        /// GET only values that have changed since the client read them.
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
