//! CLUSTER'21, Figure 13b and IV-B: rate of the hashtable of Figure 12 by theta. Theta is the number of
//! modifications of a block that are published together.

use super::fig12::{SPLIT, table};
use super::fig13a::FRONT_ENDS;
use crate::experiment::curve;
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_lab::SystemWorkload;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig13b",
    paper: "cluster21",
    title: "rate of a disaggregated hashtable by theta",
    claims: &["cluster21-ht-batch-sublinear"],
    runs: Runs::Systems,
    run,
};

const THETAS: [u32; 6] = [1, 2, 4, 8, 16, 32];

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let workload = |theta| {
        let mut table = table(FRONT_ENDS);
        table.theta = theta;
        SystemWorkload::from(table)
    };
    let found = ctx.timed(SPLIT, "fig13b", &THETAS.map(workload))?;
    let rates: Vec<f64> = found.iter().map(|outcome| outcome.mops).collect();
    let pairs = || THETAS.windows(2).zip(rates.windows(2));
    let holds = pairs().all(|(theta, rate)| {
        let growth = rate[1] / rate[0];
        growth > 1.0 && growth < f64::from(theta[1]) / f64::from(theta[0])
    });
    let seen: Vec<String> =
        THETAS.iter().zip(&rates).map(|(n, rate)| format!("{rate:.2} M/s with {n}")).collect();
    let points = THETAS.iter().map(|theta| f64::from(*theta)).zip(rates.clone()).collect();
    Ok(Findings {
        checks: vec![
            Check::statement("cluster21-ht-batch-sublinear", SPLIT, holds, seen.join(", "))
                .note(format!("{FRONT_ENDS} front-ends")),
        ],
        curves: vec![curve("cluster21/fig13b", "theta", SPLIT, "theta", "Mops", points)],
        ..Findings::default()
    })
}
