//! ATC'16, 1: the best design for a key-value store is not the best for a sequencer.

use super::fig7::{atomics, rpc, spec};
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_lab::{Outcome, SystemWorkload};
use doorbell_systems::System;
use doorbell_systems::config::Clients;
use doorbell_systems::drtm_kv::DrtmKv;
use doorbell_systems::herd_kv::HerdKv;
use doorbell_systems::read_kv::ReadKv;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "designs",
    paper: "atc16",
    title: "designs of a sequencer and of a key-value store, each at its best",
    claims: &["atc16-intro-no-single-best"],
    runs: Runs::Systems,
    run,
};

/// Core counts of the server and client counts. A design is run with each core count or each client count.
/// Its highest rate counts.
const CORES: [u32; 3] = [6, 10, 14];
const CLIENTS: [u32; 3] = [32, 64, 96];

/// PUTs per thousand operations in all stores, as in Figure 9.
const PUT_PERMILLE: u32 = 50;

/// The workload with the highest rate.
fn best(ctx: &Ctx<'_>, what: &str, all: &[SystemWorkload]) -> Result<Outcome, NotYet> {
    let outcomes = ctx.systems("cib", &format!("designs: {what}"), all)?;
    let best = outcomes.into_iter().max_by(|a, b| a.mops.total_cmp(&b.mops));
    Ok(best.expect("there is at least one workload"))
}

fn herd(cores: u32) -> SystemWorkload {
    let mut store = HerdKv::usual();
    (store.workers.cores, store.pairs.put_permille) = (cores, PUT_PERMILLE);
    store.into()
}

fn read(clients: u32) -> SystemWorkload {
    let mut store = ReadKv::usual();
    store.clients = Clients { clients, clients_per_machine: 8, ..store.clients };
    store.pairs.put_permille = PUT_PERMILLE;
    store.into()
}

fn drtm(clients: u32, update: bool) -> SystemWorkload {
    let mut store = DrtmKv { update, ..DrtmKv::usual() };
    store.clients = Clients { clients, clients_per_machine: 8, ..store.clients };
    store.pairs.put_permille = PUT_PERMILLE;
    store.into()
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let herd = best(ctx, "HERD", &CORES.map(herd))?;
    let read = best(ctx, "GET by two READs", &CLIENTS.map(read))?;
    let emulated = best(ctx, "DrTM-KV, emulated", &CLIENTS.map(|c| drtm(c, false)))?;
    let drtm = best(ctx, "DrTM-KV", &CLIENTS.map(|c| drtm(c, true)))?;
    let rpc = best(ctx, "sequencer by HERD RPC", &CORES.map(|c| rpc(c, true, true).into()))?;
    let spec = best(ctx, "Spec-S0", &CORES.map(|c| spec(c).into()))?;
    let atomics = best(ctx, "sequencer by atomics", &[atomics()])?;
    let store = herd.mops > read.mops && herd.mops > drtm.mops;
    let sequencer = spec.mops > rpc.mops;
    let seen = format!(
        "stores with {}% PUTs: HERD RPC {:.1}, DrTM-KV {:.1}, READ-based {:.1}; sequencers: Spec-S0 {:.1}, HERD RPC \
         {:.1}, atomics {:.1} Mrps",
        PUT_PERMILLE / 10,
        herd.mops,
        drtm.mops,
        read.mops,
        spec.mops,
        rpc.mops,
        atomics.mops
    );
    let check =
        Check::statement("atc16-intro-no-single-best", "cib", store && sequencer, seen).note(format!(
            "DrTM-KV that stores the values of PUTs; as emulated in the paper, without storing: {:.1}; its \
         clients know the place of each item",
            emulated.mops
        ));
    Ok(Findings { checks: vec![check], ..Findings::default() })
}
