//! Selectors: the part of the papers to reproduce.

use crate::data::claims::{self, Claim};
use crate::data::{holdout, measurements};
use crate::experiment::{Experiment, Register};
use crate::judge::claim_report::NotChecked;
use doorbell_schema::one_of;
use std::collections::BTreeSet;
use thiserror::Error;

/// The reason why nothing can be selected: one sentence.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BadSelector {
    /// A selector that selects nothing.
    #[error(
        "`{selector}` is not a paper (atc16, conext13, cluster21), a table, figure or appendix (atc16/tab4, \
         atc16/fig2, atc16/appA), the id of a claim, or a set of other measurements (rc-swarm, \
         cluster21-reads){meant}"
    )]
    Unknown {
        /// The selector.
        selector: String,
        /// Suggestion of selectors that the user may mean; empty if there is none.
        meant: String,
    },
    /// A compiled-in file is malformed, or an experiment checks a claim that no file has.
    #[error("{0}")]
    Malformed(String),
}

/// A suggestion for a selector without a paper: the experiments with this name, if any.
fn meant(register: &Register, selector: &str) -> String {
    let named = register.experiments.iter().filter(|e| e.name.eq_ignore_ascii_case(selector));
    let names: Vec<String> = named.map(|e| format!("{}/{}", e.paper, e.name)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    if names.is_empty() { String::new() } else { format!("; did you mean {}?", one_of(&names)) }
}

/// Checks that the claims can be read, and that the files hold every claim that an experiment checks.
fn check_claims(register: &Register) -> Result<(), String> {
    claims::check()?;
    holdout::check()?;
    measurements::check()?;
    let lacks = |e: &Experiment| e.claims.iter().copied().find(|id| claims::find(id).is_none());
    match register.experiments.iter().find_map(|e| Some((e, lacks(e)?))) {
        Some((e, id)) => {
            Err(format!("{}/{} checks claim {id}, but no file of papers/ has this claim", e.paper, e.name))
        }
        None => Ok(()),
    }
}

/// The selected experiments and claims.
pub struct Selection {
    /// Experiments to run, in the order of the papers.
    pub experiments: Vec<&'static Experiment>,
    /// Register that the experiments were selected from.
    pub(super) register: &'static Register,
    /// Claims to report.
    claims: BTreeSet<&'static str>,
}

impl Selection {
    /// Selects everything that any of `selectors` names, or all claims if there are none. Experiments beyond
    /// the papers are included only if one selector names them and nothing else. Sets of measurements that
    /// are not claims are included only by name.
    ///
    /// # Errors
    /// If a selector selects nothing, or a file of `papers/` is malformed.
    pub fn new(register: &'static Register, selectors: &[String]) -> Result<Selection, BadSelector> {
        let mut selection = Selection::with_beyond(register, selectors)?;
        let mut asked_for = BTreeSet::new();
        for selector in selectors {
            let alone = Selection::with_beyond(register, std::slice::from_ref(selector))?.experiments;
            if alone.iter().all(|experiment| register.is_beyond(experiment)) {
                asked_for.extend(alone.iter().map(|experiment| (experiment.paper, experiment.name)));
            }
        }
        selection.experiments.retain(|e| !register.is_beyond(e) || asked_for.contains(&(e.paper, e.name)));
        Ok(selection)
    }

    /// Like [`Selection::new`], but experiments beyond the papers are always included.
    ///
    /// # Errors
    /// As [`Selection::new`].
    pub fn with_beyond(register: &'static Register, selectors: &[String]) -> Result<Selection, BadSelector> {
        check_claims(register).map_err(BadSelector::Malformed)?;
        let mut ids = BTreeSet::new();
        for selector in selectors {
            let matching: Vec<&str> = claims::all()
                .iter()
                .filter(|c| selects(register, selector, c))
                .map(|c| c.id.as_str())
                .collect();
            if matching.is_empty() && !register.experiments.iter().any(|e| is_set(selector, e)) {
                return Err(BadSelector::Unknown {
                    selector: selector.clone(),
                    meant: meant(register, selector),
                });
            }
            ids.extend(matching);
        }
        if selectors.is_empty() {
            ids.extend(claims::all().iter().map(|c| c.id.as_str()));
        }
        let named = |e: &Experiment| selectors.iter().any(|selector| is_set(selector, e));
        let experiments = register
            .experiments
            .iter()
            .copied()
            .filter(|e| e.claims.iter().any(|c| ids.contains(c)) || named(e));
        Ok(Selection { experiments: experiments.collect(), register, claims: ids })
    }

    pub(crate) fn wants(&self, claim: &str) -> bool {
        self.claims.contains(claim)
    }

    /// Selected claims that no experiment checks.
    pub(crate) fn not_checked(&self) -> Vec<NotChecked> {
        let selected = claims::not_checked().iter().filter(|(id, _)| self.wants(id));
        selected.map(|(id, reason)| NotChecked { id: id.clone(), reason: reason.clone() }).collect()
    }
}

/// Whether `selector` names this set of measurements.
fn is_set(selector: &str, experiment: &Experiment) -> bool {
    let Experiment { paper, name, .. } = experiment;
    let named = selector == *paper || selector.split_once('/') == Some((*paper, *name));
    experiment.is_of_measurements() && named
}

/// Whether `selector` names the claim, its paper, its table or figure, or its experiment.
fn selects(register: &Register, selector: &str, claim: &Claim) -> bool {
    match selector.split_once('/') {
        None => of_paper(register, selector, claim) || selector == claim.id,
        Some((paper, name)) => {
            let place = || in_place(name, &claim.place) && !shown_by_another(register, paper, name, claim);
            of_paper(register, paper, claim) && (in_experiment(register, paper, name, claim) || place())
        }
    }
}

/// Whether `paper` makes the claim, or one of its experiments checks this statement of Doorbell's own.
fn of_paper(register: &Register, paper: &str, claim: &Claim) -> bool {
    let extends = |e: &Experiment| e.paper == paper && e.claims.contains(&claim.id.as_str());
    paper == claim.paper || (claim.paper == claims::OURS && register.experiments.iter().copied().any(extends))
}

fn named(register: &Register, paper: &str, name: &str) -> Option<&'static Experiment> {
    register.experiments.iter().copied().find(|e| e.paper == paper && e.name.eq_ignore_ascii_case(name))
}

fn in_experiment(register: &Register, paper: &str, name: &str, claim: &Claim) -> bool {
    named(register, paper, name).is_some_and(|e| e.claims.contains(&claim.id.as_str()))
}

/// Whether `name` is an experiment, but another experiment checks the claim. Thus, selecting a table does not
/// run every figure that repeats a number of the table.
fn shown_by_another(register: &Register, paper: &str, name: &str, claim: &Claim) -> bool {
    named(register, paper, name).is_some() && register.checking(&claim.id).is_some()
}

/// Whether `place` is the table, figure or appendix `name`. A place has the form that claims use (`S5.4;
/// Table 4`, `Fig 13b`). A name has the form of selectors (`tab4`, `fig13`, `fig13b`, `appA`).
fn in_place(name: &str, place: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let kinds = ["fig", "tab", "app"];
    if !kinds.iter().any(|k| name.strip_prefix(k).is_some_and(|rest| !rest.is_empty())) {
        return false;
    }
    place.split([';', ',']).any(|part| {
        let part: String = part.to_ascii_lowercase().replace("table", "tab").replace([' ', '.'], "");
        part.strip_prefix(&name).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::REGISTER;

    fn select(selector: &str) -> Result<Selection, BadSelector> {
        Selection::new(&REGISTER, &[selector.to_owned()])
    }

    #[test]
    fn every_claim_is_checked_or_listed_with_a_reason() {
        let listed: Vec<&str> = claims::not_checked().iter().map(|(id, _)| id.as_str()).collect();
        let checked: Vec<&str> = REGISTER.experiments.iter().flat_map(|e| e.claims.iter().copied()).collect();
        for claim in claims::all() {
            let times = |ids: &[&str]| ids.iter().filter(|id| **id == claim.id).count();
            assert_eq!(times(&listed) + times(&checked), 1, "{}", claim.id);
        }
        assert_eq!(listed.len() + checked.len(), claims::all().len(), "an id is no claim");
    }

    #[test]
    fn selectors() {
        for (selector, experiments) in [
            (
                "conext13",
                vec![
                    "fig1",
                    "tab1",
                    "tab2",
                    "tab3",
                    "fig4",
                    "fig5",
                    "fig6",
                    "nics",
                    "sides",
                    "tenant",
                    "unaffected",
                ],
            ),
            ("atc16/fig2b", vec!["fig2", "appA"]),
            ("atc16/tab4", vec!["tab4"]),
            ("atc16/Tab4", vec!["tab4"]),
            ("atc16/fig13", vec!["fig13"]),
            ("atc16/fig13b", vec!["fig13"]),
            ("atc16/fig14", vec!["fig14"]),
            ("atc16/inline-recv", vec!["inline-recv"]),
            ("atc16-tab4-read-64", vec!["tab4"]),
        ] {
            let selection = select(selector).unwrap();
            let names: Vec<&str> = selection.experiments.iter().map(|e| e.name).collect();
            let expected: Vec<&str> = match selector {
                // One experiment has all claims of Figure 2b.
                "atc16/fig2b" => vec!["fig2"],
                _ => experiments,
            };
            assert_eq!(names, expected, "{selector}");
        }
        assert_eq!(select("atc16-tab4-read-64").unwrap().claims.len(), 1);
        assert_eq!(
            select("atc16/fig1").map(|s| s.claims.len()),
            select("atc16/fig1").map(|s| s.claims.len())
        );
        assert!(!select("atc16/fig1").is_ok_and(|s| s.wants("atc16-fig11b-labels")));
        assert!(!select("cluster21/fig4").unwrap().not_checked().is_empty());
        let beyond = ["conext13/beyond".to_owned()];
        assert_eq!(
            Selection::new(&REGISTER, &beyond).unwrap().experiments.len(),
            1,
            "who names it asks for it"
        );
        let (paper, both) = (["conext13".to_owned()], ["conext13".to_owned(), beyond[0].clone()]);
        let count = |selectors: &[String]| Selection::new(&REGISTER, selectors).unwrap().experiments.len();
        assert_eq!(count(&both), count(&paper) + 1);
        assert_eq!(Selection::with_beyond(&REGISTER, &paper).unwrap().experiments.len(), count(&both));
    }

    #[test]
    fn what_is_of_measurements_is_asked_for_by_its_name() {
        for selector in ["rc-swarm", "rc-swarm/runs"] {
            let selection = select(selector).unwrap();
            let names: Vec<&str> = selection.experiments.iter().map(|e| e.name).collect();
            assert_eq!(names, ["runs"], "{selector}");
            assert!(selection.claims.is_empty());
        }
        for selectors in [vec![], vec!["atc16".to_owned()], vec!["conext13".to_owned()]] {
            for selection in
                [Selection::new(&REGISTER, &selectors), Selection::with_beyond(&REGISTER, &selectors)]
            {
                assert!(!selection.unwrap().experiments.iter().any(|e| e.is_of_measurements()));
            }
        }
    }

    #[test]
    fn bad_selectors() {
        for selector in [
            "atc17",
            "atc16/fig99",
            "atc16/",
            "atc16/tab",
            "",
            "atc16-tab4",
            "tab4",
            "rc-swarm/",
            "rc-swarm/tab4",
        ] {
            assert!(select(selector).is_err(), "{selector}");
        }
    }
}
