//! Parameters of the sequencer on one machine.

use crate::config::{OneByOne, Timing};
use doorbell_schema::schema;

schema! {
    /// A sequencer by fetch-and-add among one machine's threads.
    pub struct LocalSequencer {
        groups {
            /// Clients.
            clients: OneByOne<true>,
            /// When the run measures.
            timing: Timing,
        }
    }
}
