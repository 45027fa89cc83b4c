//! Parameters of the counter over SENDs.

use doorbell_schema::{Duration, Field, schema};
use doorbell_systems::config::{Clients, Timing};

schema! {
    /// The counter over RC SENDs.
    pub struct Ping {
        groups {
            /// Clients.
            clients: Clients,
            /// When the run measures.
            timing: Timing,
        }
        /// Work of the server for each ping besides its verbs, such as 100ns. In real time there is none.
        service: Duration = Field::time(),
    }
}
