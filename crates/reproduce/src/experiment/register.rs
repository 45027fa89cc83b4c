//! The register of experiments that can be selected.

use super::context::Experiment;

/// The experiments that a selector can select. Some of them go beyond the papers.
pub struct Register {
    /// All experiments, in the order of reports.
    pub experiments: Vec<&'static Experiment>,
    /// The experiments that go beyond the papers: they ask about machines that no paper measured.
    pub beyond: &'static [&'static Experiment],
}

impl Register {
    /// The experiment that checks a claim.
    pub fn checking(&self, claim: &str) -> Option<&'static Experiment> {
        self.experiments.iter().copied().find(|experiment| experiment.claims.contains(&claim))
    }

    /// Whether an experiment goes beyond the papers: it asks about machines that no paper measured.
    pub fn is_beyond(&self, experiment: &Experiment) -> bool {
        let is_it = |beyond: &&Experiment| (beyond.paper, beyond.name) == (experiment.paper, experiment.name);
        self.beyond.iter().any(is_it)
    }
}
