//! Experiments that can be selected.

use super::context::Experiment;

/// Experiments that can be selected, and which of them are beyond the papers.
pub struct Register {
    /// All experiments, in the order of reports.
    pub experiments: Vec<&'static Experiment>,
    /// Those of them that ask what no paper has measured, of machines that no paper had.
    pub beyond: &'static [&'static Experiment],
}

impl Register {
    /// The experiment that checks a claim.
    pub fn checking(&self, claim: &str) -> Option<&'static Experiment> {
        self.experiments.iter().copied().find(|experiment| experiment.claims.contains(&claim))
    }

    /// Whether an experiment asks what no paper has measured, of machines that no paper had.
    pub fn is_beyond(&self, experiment: &Experiment) -> bool {
        let is_it = |beyond: &&Experiment| (beyond.paper, beyond.name) == (experiment.paper, experiment.name);
        self.beyond.iter().any(is_it)
    }
}
