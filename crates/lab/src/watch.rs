//! Who watches runs.

use doorbell_sim::{Traced, Tracing};

/// Who watches runs.
pub trait Watch: Sync {
    /// So many more runs are going to be made.
    fn planned(&self, _runs: u64) {}

    /// A run is done.
    fn done(&self, _what: &str) {}

    /// What is to be seen of the run that begins. Reruns are not asked about, nor are runs of experiments.
    fn trace(&self) -> Option<Tracing> {
        None
    }

    /// That is what was seen.
    fn traced(&self, _traced: Traced) {}
}

impl Watch for () {}
