//! Uncertainty of results, from runs with drawn parameters and from the model's own error.

mod causes;
mod draws;
mod interval;

pub use causes::Cause;
pub use draws::DRAWS;
pub use interval::{quantiles, relative};

use crate::plan::{Control, Run, all};
use crate::results::{MeasuredTime, Outcome};
use crate::run_error::SimulateError;
use doorbell_nic::{ModelError, Profile};
use doorbell_programs::steady::Ended;
use draws::Uncertain;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use schemars::JsonSchema;
use serde::Serialize;

/// Intervals that hold a result with 90% probability, as far as the profile's ranges and data tell.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Uncertainty {
    /// Number of runs with drawn parameters.
    pub runs: usize,
    /// Interval of the rate, in millions per second.
    pub mops: [f64; 2],
    /// Interval of the mean latency, in nanoseconds; `None` if nothing completed in some of the runs.
    pub latency_ns: Option<[f64; 2]>,
    /// Relative standard error of the model itself, which is part of both intervals.
    pub model: f64,
    /// Whether all profiles have the values that their measurements support. Otherwise `model` is the error
    /// with these supported values.
    #[serde(skip)]
    pub as_measured: bool,
    /// Parameters that make the rate uncertain, most important first.
    pub because: Vec<Cause>,
}

/// Checks that the uncertainty of all profiles is known.
///
/// # Errors
/// One sentence if the uncertainty of a profile is unknown.
pub fn known<'a>(profiles: impl IntoIterator<Item = &'a Profile>) -> Result<(), UncertaintyError> {
    profiles.into_iter().try_for_each(|p| Uncertain::of(p).map(drop)).map_err(UncertaintyError::Unknown)
}

/// Why a result has no uncertainty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UncertaintyError {
    /// The uncertainty of a profile is unknown.
    #[error("{0}")]
    Unknown(String),
    /// The run itself was interrupted, or took too long.
    #[error(
        "the run was cut short, so there is no interval: runs with drawn parameters are measured for \
         the same time"
    )]
    Itself,
    /// Runs with drawn parameters were interrupted, or took too long.
    #[error("only {0} of {DRAWS} runs with drawn parameters finished, so there is no interval")]
    Cut(usize),
    /// A run with drawn parameters failed.
    #[error("{0}")]
    Run(#[from] SimulateError),
}

/// Computes the uncertainty of a run. `measured` is the time that the run measured with its own profiles. If
/// a limit of wall-clock time cut this time short, the runs with drawn parameters need a deadline, because
/// each takes as long.
///
/// # Errors
/// One sentence if the uncertainty of a profile is unknown; else the error of a run.
pub fn of(
    run: &Run,
    measured: &MeasuredTime,
    control: &Control<'_>,
) -> Result<Uncertainty, UncertaintyError> {
    let is_cut = match measured.ended {
        Ended::Interrupted => true,
        Ended::MaxWall => control.deadline.is_none(),
        _ => false,
    };
    if is_cut {
        return Err(UncertaintyError::Itself);
    }
    let groups: Vec<Profile> = run.profiles.all().cloned().collect();
    let drawn = Drawn::of(&groups, run.seed()).map_err(UncertaintyError::Unknown)?;
    let runs: Vec<(String, Run)> = drawn
        .profiles
        .iter()
        .enumerate()
        .map(|(i, p)| (format!("draw {i}"), run.on(p).timed_as(measured)))
        .collect();
    let ended = all(&runs, control)?;
    let ended: Vec<Outcome> = ended.into_iter().flatten().filter(|ran| ran.ended().is_repeatable()).collect();
    if ended.len() < runs.len() {
        return Err(UncertaintyError::Cut(ended.len()));
    }
    let steps: Vec<&Vec<f64>> = drawn.steps.iter().collect();
    let model = drawn.model(run.is_of_system());
    let rates: Vec<f64> = ended.iter().map(|ran| ran.told_rate().0).collect();
    let latencies: Option<Vec<f64>> = ended.iter().map(|ran| ran.latency_ns.mean).collect();
    // Even on faster machines, no more operations complete than are due.
    let most = run.due().map_or(f64::INFINITY, |due| due as f64 / 1e6);
    Ok(Uncertainty {
        runs: ended.len(),
        mops: relative(&rates, model).map(|mops| mops.min(most)),
        latency_ns: latencies.map(|all| relative(&all, model)),
        model,
        as_measured: groups.iter().all(Profile::is_measured_machine),
        because: causes::of(&drawn.names, &steps, &rates),
    })
}

/// Drawn profiles for all machine groups. Groups with equal profiles get equal draws.
pub struct Drawn {
    /// Names of the drawn parameters. With several profiles, a name includes the profile.
    names: Vec<String>,
    /// For each draw, the deviation of each parameter in standard deviations.
    steps: Vec<Vec<f64>>,
    /// For each draw, the profiles in the order of the groups.
    pub profiles: Vec<Vec<Profile>>,
    /// The largest model error of the profiles.
    model: ModelError,
}

impl Drawn {
    /// Draws profiles with this seed.
    ///
    /// # Errors
    /// One sentence if the uncertainty of a profile is unknown.
    pub fn of(profiles: &[Profile], seed: u64) -> Result<Drawn, String> {
        let mut distinct: Vec<&Profile> = Vec::new();
        for profile in profiles {
            if !distinct.contains(&profile) {
                distinct.push(profile);
            }
        }
        let uncertain = distinct.into_iter().map(Uncertain::of).collect::<Result<Vec<_>, _>>()?;
        let alike = |name: &str| uncertain.iter().filter(|u| u.profile.name == name).count();
        let of = |i: usize, u: &Uncertain<'_>| match (uncertain.len(), alike(&u.profile.name)) {
            (1, _) => String::new(),
            (_, 1) => format!(" of {}", u.profile.name),
            // Several profiles have one name, so their order in the file tells them apart.
            _ => format!(" of {} (profile {} of {})", u.profile.name, i + 1, uncertain.len()),
        };
        let names = uncertain.iter().enumerate().flat_map(|(i, u)| {
            let of = of(i, u);
            u.moving.iter().map(move |(name, _)| format!("{name}{of}"))
        });
        let names = names.collect();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (mut all, mut steps) = (Vec::new(), Vec::new());
        for i in 0..DRAWS {
            let drawn = uncertain.iter().map(|u| u.draw(i, &mut random)).collect::<Result<Vec<_>, _>>()?;
            let place = |p: &Profile| uncertain.iter().position(|u| u.profile == p);
            all.push(profiles.iter().filter_map(|p| Some(drawn[place(p)?].0.clone())).collect());
            steps.push(drawn.into_iter().flat_map(|(_, steps)| steps).collect());
        }
        let largest = |of: fn(ModelError) -> f64| uncertain.iter().map(|u| of(u.model())).fold(0.0, f64::max);
        let model = ModelError { verbs: largest(|m| m.verbs), systems: largest(|m| m.systems) };
        Ok(Drawn { names, steps, profiles: all, model })
    }

    /// Relative standard error of the model itself.
    pub fn model(&self, of_system: bool) -> f64 {
        if of_system { self.model.systems } else { self.model.verbs }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two profiles of one name are drawn separately if one has changed parameters.
    #[test]
    fn profiles_of_one_name_are_drawn_each() {
        let cib = Profile::named("cib").expect("a built-in profile");
        let other = cib.with_set(&[("rx.packet_ns".to_owned(), 1000.0)].into()).expect("a value it may have");
        let drawn = Drawn::of(&[cib.clone(), other.clone(), cib], 1).expect("cib was calibrated");
        for profiles in &drawn.profiles {
            let packet =
                |i: usize| profiles[i].parameters.iter().find(|p| p.name == "rx.packet_ns").map(|p| p.value);
            assert_eq!((packet(1), packet(0)), (Some(1000.0), packet(2)));
            assert_ne!(packet(0), packet(1));
        }
        let of = |name: &str| drawn.names.iter().any(|drawn| drawn == name);
        assert!(
            of("tx.send_ns of cib (profile 1 of 2)") && of("tx.send_ns of cib (profile 2 of 2)"),
            "{:?}",
            drawn.names
        );
    }
}
