//! Held-out numbers. They were set aside before calibration (`papers/holdout.toml`).

use crate::data::claims::{self, Claim, Kind, Value};
use serde::Deserialize;
use std::sync::LazyLock;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Holdout {
    /// One of this many numbers is held out.
    modulus: u64,
    exempt: Vec<Exempt>,
}

/// A number that is used although the rule holds it out.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Exempt {
    id: String,
    /// Reason for the exemption, for readers of the file.
    #[serde(rename = "reason")]
    _reason: String,
}

static HOLDOUT: LazyLock<Result<Holdout, String>> =
    LazyLock::new(|| claims::read("papers/holdout.toml", include_str!("../../../../papers/holdout.toml")));

/// The contents of the file, which is compiled into the program.
fn holdout() -> &'static Holdout {
    HOLDOUT.as_ref().unwrap_or_else(|error| panic!("{error}"))
}

/// Checks that the compiled-in file can be read.
///
/// # Errors
/// If the file is malformed: one sentence, with the line.
pub(crate) fn check() -> Result<(), String> {
    HOLDOUT.as_ref().map(|_| ()).map_err(String::clone)
}

/// FNV-1a, 64 bits.
pub(super) fn hash(id: &str) -> u64 {
    id.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

/// Whether a claim is held out. No parameter may be set from a held-out claim.
pub(crate) fn is_held_out(claim: &Claim) -> bool {
    let measured = claim.kind == Kind::Measured && matches!(claim.value, Value::Number(_));
    let id = claims::first_of_group(&claim.id);
    measured
        && hash(id).is_multiple_of(holdout().modulus)
        && !holdout().exempt.iter().any(|exempt| exempt.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_nic::Profile;

    #[test]
    fn about_a_third_is_set_aside() {
        let measured = claims::all().iter().filter(|c| c.paper == "atc16" && c.kind == Kind::Measured);
        let measured = measured.filter(|c| matches!(c.value, Value::Number(_)));
        let alone = measured.filter(|c| claims::first_of_group(&c.id) == c.id);
        let (out, all): (Vec<&Claim>, Vec<&Claim>) =
            (alone.clone().filter(|c| is_held_out(c)).collect(), alone.collect());
        let share = out.len() as f64 / all.len() as f64;
        assert!((0.25..0.45).contains(&share), "{} of {}", out.len(), all.len());
        for exempt in &holdout().exempt {
            assert!(claims::find(&exempt.id).is_some(), "there is no claim {}", exempt.id);
            assert!(hash(&exempt.id).is_multiple_of(holdout().modulus), "{} needs no exemption", exempt.id);
        }
    }

    #[test]
    fn no_parameter_is_set_from_what_is_set_aside() {
        for name in Profile::names() {
            let profile = Profile::named(name).unwrap();
            for id in profile.calibrated_claims() {
                let claim = claims::find(id).unwrap_or_else(|| panic!("{name}: there is no claim {id}"));
                assert!(!is_held_out(claim), "{name} is calibrated from {id}");
            }
        }
    }
}
