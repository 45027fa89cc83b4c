//! Parameters of the sequencer of a machine.

use crate::config::{OneByOne, Timing};
use doorbell_schema::schema;

schema! {
    /// The sequencer by fetch-and-add of a machine's threads.
    pub struct LocalSequencer {
        groups {
            /// Clients.
            clients: OneByOne<true>,
            /// What is measured.
            timing: Timing,
        }
    }
}
