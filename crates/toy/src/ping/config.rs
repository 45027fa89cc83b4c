//! Parameters of the counter over SENDs.

use doorbell_schema::{Duration, Field, schema};
use doorbell_systems::config::{Clients, Timing};

schema! {
    /// The counter over RC SENDs.
    pub struct Ping {
        groups {
            /// Clients.
            clients: Clients,
            /// What is measured.
            timing: Timing,
        }
        /// Work of the server for each ping beside its verbs, as 100ns; where time is real, none.
        service: Duration = Field::time(),
    }
}
