//! CLUSTER'21, Figure 13a and IV-B: rate of the hashtable of Figure 12 by the share of hot keys.

use super::fig12::{SPLIT, table};
use crate::experiment::curve;
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_lab::SystemWorkload;
use doorbell_schema::Share;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig13a",
    paper: "cluster21",
    title: "rate of a disaggregated hashtable by the share of keys that are hot",
    claims: &["cluster21-ht-hot-fraction", "cluster21-ht-hot-monotone"],
    runs: Runs::Systems,
    run,
};

/// One key in this many is hot.
const ONE_IN: [u32; 4] = [4, 8, 16, 32];
/// Number of front-ends with which Figure 12 has its peak.
pub(super) const FRONT_ENDS: u32 = 6;

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let workload = |one_in| {
        let mut table = table(FRONT_ENDS);
        table.hot = Share::of_millionths(1_000_000 / one_in);
        SystemWorkload::from(table)
    };
    let found = ctx.timed(SPLIT, "fig13a", &ONE_IN.map(workload))?;
    let rates: Vec<f64> = found.iter().map(|outcome| outcome.mops).collect();
    let (most, least) = (rates[0], rates[ONE_IN.len() - 1]);
    let seen: Vec<String> =
        ONE_IN.iter().zip(&rates).map(|(one_in, rate)| format!("{rate:.2} M/s with 1/{one_in}")).collect();
    let falls = rates.windows(2).all(|two| two[1] < two[0]);
    let points = ONE_IN.iter().map(|one_in| 1.0 / f64::from(*one_in)).zip(rates).collect();
    Ok(Findings {
        checks: vec![
            Check::number("cluster21-ht-hot-fraction", SPLIT, most - least)
                .note(format!("{FRONT_ENDS} front-ends: {}", seen.join(", "))),
            Check::statement("cluster21-ht-hot-monotone", SPLIT, falls, seen.join(", ")),
        ],
        curves: vec![curve("cluster21/fig13a", "hot keys", SPLIT, "share of keys", "Mops", points)],
        ..Findings::default()
    })
}
