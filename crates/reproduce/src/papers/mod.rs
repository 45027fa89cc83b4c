//! The experiments: a folder for each paper with a file for each table or figure.

mod atc16;
mod cluster21;
mod conext13;
mod measured;
mod rc_swarm;
mod sets;

pub(crate) use atc16::{number, range};
pub(crate) use measured::found;

use crate::experiment::Register;
use std::sync::LazyLock;

/// All experiments in the order of the papers. Experiments beyond the papers and sets of measurements come
/// last.
pub static REGISTER: LazyLock<Register> = LazyLock::new(|| {
    let papers = atc16::ALL.iter().chain(cluster21::ALL).chain(conext13::ALL).chain(conext13::BEYOND);
    let sets = [&rc_swarm::EXPERIMENT, &cluster21::reads::EXPERIMENT];
    Register { experiments: papers.copied().chain(sets).collect(), beyond: conext13::BEYOND }
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Ctx, Runs};
    use doorbell_lab::{Control, Run, SystemWorkload};
    use doorbell_systems::System;
    use doorbell_systems::touch::Touch;

    /// Compares the runs that each experiment first asks for with its [`Runs`].
    #[test]
    fn experiments_run_what_they_say() {
        for experiment in REGISTER.experiments.iter().filter(|experiment| !experiment.is_of_measurements()) {
            let ctx = Ctx::new(false, Control::quiet()).unwrap();
            let found = (experiment.run)(&ctx);
            let of = |run: &Run| match run.as_system().map(SystemWorkload::name) {
                None => Runs::Verbs,
                Some(Touch::NAME) => Runs::Touch,
                Some(_) => Runs::Systems,
            };
            let (paper, name) = (experiment.paper, experiment.name);
            assert_eq!(found.is_ok(), experiment.runs == Runs::None, "{paper}/{name}");
            for run in ctx.known.wanted() {
                assert_eq!(of(&run), experiment.runs, "{paper}/{name}");
            }
        }
    }
}
