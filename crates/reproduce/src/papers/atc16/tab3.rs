//! ATC'16, Table 3: sequencers at their best.

use super::fig7::{atomics, rpc, spec};
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_lab::{Outcome, SystemWorkload};
use doorbell_systems::config::{Clients, Workers};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tab3",
    paper: "atc16",
    title: "rate and bottleneck of four sequencers",
    claims: &[
        "atc16-tab3-baseline",
        "atc16-tab3-rpc-opts",
        "atc16-tab3-spec-s0",
        "atc16-tab3-atomics",
        "atc16-seq-atomics-12p2x",
        "atc16-seq-atomics-50x",
        "atc16-seq-order",
        "atc16-seq-regular-fraction",
        "atc16-abs-sequencer-50x",
        "atc16-intro-spec-s0-122",
        "atc16-intro-rpc-16pct-lower",
        "atc16-conc-seq-scales",
    ],
    runs: Runs::Systems,
    run,
};

/// Core counts of the baseline. The paper does not give the number, so the best is used.
const BASELINE_CORES: [u32; 3] = [4, 8, 14];

fn best(ctx: &Ctx<'_>) -> Result<SystemWorkload, NotYet> {
    let all = BASELINE_CORES.map(|c| rpc(c, false, false).into());
    let outcomes = ctx.systems("cib", "tab3: baseline", &all)?;
    let best = outcomes.into_iter().max_by(|a, b| a.mops.total_cmp(&b.mops));
    Ok(best.map_or_else(|| rpc(14, false, false).into(), |o| o.system().workload.clone()))
}

/// Spec-S0 by number of clients.
fn scales(ctx: &Ctx<'_>) -> Result<Check, NotYet> {
    let clients = [70, 100, 140, 200];
    let all = clients.map(|clients| {
        let mut spec = spec(10);
        // For each client count, the clients together have 1120 outstanding requests.
        let outstanding = 1120u32.div_ceil(clients);
        spec.clients = Clients { clients, clients_per_machine: 28, outstanding, ..spec.clients };
        SystemWorkload::from(spec)
    });
    let outcomes = ctx.systems("cib", "tab3: scaling", &all)?;
    let rates: Vec<String> = outcomes.iter().map(|o| format!("{:.1}", o.mops)).collect();
    let holds = outcomes.iter().all(|o| o.mops > 0.95 * outcomes[0].mops);
    let seen = format!("Spec-S0 with {clients:?} clients: {} Mrps", rates.join(", "));
    Ok(Check::statement("atc16-conc-seq-scales", "cib", holds, seen))
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let baseline = ctx.explain_system("cib", "tab3-baseline", &best(ctx)?)?;
    let opts = ctx.explain_system("cib", "tab3-rpc-opts", &rpc(6, true, true).into())?;
    let spec_s0 = ctx.explain_system("cib", "tab3-spec-s0", &spec(10).into())?;
    let atomics = ctx.explain_system("cib", "tab3-atomics", &atomics())?;
    let one = &ctx.systems("cib", "tab3: one core", &[rpc(1, true, true).into()])?[0];
    let fifty = spec_s0.mops / atomics.mops;
    let order = [&spec_s0, &opts, &baseline, &atomics];
    let cores = |o: &Outcome| format!("{} cores; ", o.system().workload.number(&Workers::cores));
    let mut base = Check::rate("atc16-tab3-baseline", "cib", &baseline);
    base.note = cores(&baseline) + &base.note;
    let checks = vec![
        base,
        Check::rate("atc16-tab3-rpc-opts", "cib", &opts),
        Check::rate("atc16-tab3-spec-s0", "cib", &spec_s0),
        Check::rate("atc16-tab3-atomics", "cib", &atomics),
        Check::number("atc16-seq-atomics-12p2x", "cib", one.mops / atomics.mops),
        Check::number("atc16-seq-atomics-50x", "cib", fifty),
        Check::statement(
            "atc16-seq-order",
            "cib",
            order.windows(2).all(|w| w[0].mops > w[1].mops),
            order.map(|o| format!("{:.1}", o.mops)).join(" > "),
        ),
        Check::statement(
            "atc16-seq-regular-fraction",
            "any",
            spec_s0.system().header_only == 1.0,
            format!(
                "{:.4}% of replies are header-only between two multiples of 2^32",
                spec_s0.system().header_only * 100.0
            ),
        )
        .note("each client is corrected at most once per 2^32 numbers and request outstanding"),
        Check::number("atc16-abs-sequencer-50x", "cib", fifty),
        Check::number("atc16-intro-spec-s0-122", "cib", spec_s0.mops),
        Check::number("atc16-intro-rpc-16pct-lower", "cib", (1.0 - opts.mops / spec_s0.mops) * 100.0),
        scales(ctx)?,
    ];
    Ok(Findings { checks, ..Findings::default() })
}
