//! ATC'16, 4.1 and 4.2.1: cost of one connected QP per client as clients grow to thousands.

use crate::experiment::briefly;
use crate::experiment::{Check, Ctx, Curve, Experiment, Findings, Runs};
use crate::experiment::{curve, setting};
use doorbell_lab::NotYet;
use doorbell_lab::{Outcome, SystemWorkload};
use doorbell_nic::NicCache;
use doorbell_systems::System;
use doorbell_systems::config::{Clients, Travel, Workers};
use doorbell_systems::rpc_sequencer::RpcSequencer;
use doorbell_systems::spec_sequencer::SpecSequencer;
use doorbell_verbs::QpType;
use doorbell_workload::{Pattern, Verb, Workload};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "clients",
    paper: "atc16",
    title: "HERD's RPCs by number of clients, with requests over connected QPs and as datagrams",
    claims: &[
        "atc16-seq-rpc-client-limit",
        "atc16-intro-rpc-less-scalable",
        "atc16-s41-herd-rpc-cost",
        "doorbell-requests-cross",
    ],
    runs: Runs::Systems,
    run,
};

const CLUSTERS: [&str; 3] = ["cx", "cx3", "cib"];

/// Client counts of a quick run, a subset that suffices for rates, and further counts for dense curves.
const CLIENTS: [u32; 7] = [35, 70, 140, 280, 560, 1120, 2240];
const SOME: [u32; 5] = [35, 70, 280, 560, EXPLAINED];
const MANY: [u32; 2] = [4480, 8960];

/// Client count with which the bottleneck is observed. With so many clients, every request misses.
const EXPLAINED: u32 = 1120;

/// Outstanding requests of all clients together. Each client has at least one. Figure 7 has 70 times 32.
const LOAD: u32 = 70 * 32;

/// Cores of the server. A server with fewer cores uses all. Spec-S0 is fastest with this many (4.2.2).
const CORES: u32 = 10;

/// A rate of at least this share of the best rate counts as kept.
const KEPT: f64 = 0.9;

/// Range that the paper calls "a few hundred" clients.
const FEW_HUNDRED: std::ops::Range<f64> = 100.0..1000.0;

/// A sequencer and the transport of its requests.
struct Design {
    name: &'static str,
    rpc: Option<Travel>,
}

const WRITES: Design = Design { name: "HERD RPC, requests by WRITE", rpc: Some(Travel { datagrams: false }) };
const SENDS: Design = Design { name: "HERD RPC, requests by SEND", rpc: Some(Travel { datagrams: true }) };
const SPEC: Design = Design { name: "Spec-S0", rpc: None };

fn workload(ctx: &Ctx<'_>, cluster: &str, design: &Design, clients: u32) -> SystemWorkload {
    let cores = CORES.min(ctx.profile(cluster).host.cores);
    with_cores(design, clients, |workers| Workers { cores, ..workers })
}

fn with_cores(design: &Design, clients: u32, workers: impl Fn(Workers) -> Workers) -> SystemWorkload {
    let outstanding = LOAD.div_ceil(clients);
    // With windows, bursts would become shorter as clients become more.
    let asking = |usual: Clients| Clients { clients, outstanding, windows: false, ..usual };
    match design.rpc.clone() {
        Some(travel) => {
            let usual = RpcSequencer::usual();
            let (clients, workers) = (asking(usual.clients.clone()), workers(usual.workers.clone()));
            RpcSequencer { clients, workers, travel, ..usual }.into()
        }
        None => {
            let SpecSequencer { clients, workers: usual, timing } = SpecSequencer::usual();
            SpecSequencer { clients: asking(clients), workers: workers(usual), timing }.into()
        }
    }
}

fn clients_of(o: &Outcome) -> u32 {
    o.system().workload.clients().clients
}

/// Outcomes of a design, by number of clients.
struct DesignByClients {
    name: &'static str,
    outcomes: Vec<Outcome>,
}

impl DesignByClients {
    fn measure(ctx: &Ctx<'_>, cluster: &str, design: &Design) -> Result<DesignByClients, NotYet> {
        let numbers = match (ctx.full, ctx.explains) {
            (true, _) => [&CLIENTS[..], &MANY].concat(),
            (_, true) => CLIENTS.to_vec(),
            _ => SOME.to_vec(),
        };
        let all: Vec<SystemWorkload> =
            numbers.into_iter().map(|c| workload(ctx, cluster, design, c)).collect();
        let outcomes = ctx.systems(cluster, &format!("clients: {}", design.name), &all)?;
        Ok(DesignByClients { name: design.name, outcomes })
    }

    fn rates(&self) -> Vec<(f64, f64)> {
        self.outcomes.iter().map(|o| (f64::from(clients_of(o)), o.mops)).collect()
    }

    fn rate(&self, clients: u32) -> f64 {
        self.outcomes.iter().find(|o| clients_of(o) == clients).map_or(0.0, |o| o.mops)
    }

    /// Number of clients at which the rate falls below [`KEPT`] of its highest; `None` if it never does.
    fn limit(&self) -> Option<f64> {
        limit(&self.rates())
    }

    fn curves(&self, cluster: &str) -> Vec<Curve> {
        let line = |what: &str, y: &str, points| {
            curve("atc16/clients", &format!("{}: {what}", self.name), cluster, "clients", y, points)
        };
        let mut curves = vec![line("rate", "Mrps", self.rates())];
        for (cache, what) in [
            (NicCache::QpResponder, "receiving QP contexts found"),
            (NicCache::QpRequester, "sending QP contexts found"),
            (NicCache::Wqe, "WQEs found"),
        ] {
            let found = |o: &Outcome| (f64::from(clients_of(o)), found_in(o, cache));
            curves.push(line(
                what,
                "share of look-ups in the cache",
                self.outcomes.iter().map(found).collect(),
            ));
        }
        curves
    }
}

/// The x at which y first falls below [`KEPT`] of its highest value, by linear interpolation between points.
fn limit(points: &[(f64, f64)]) -> Option<f64> {
    let best = points.iter().map(|p| p.1).fold(0.0, f64::max);
    let from = points.iter().position(|p| p.1 == best)?;
    points[from..].windows(2).find(|w| w[1].1 < KEPT * best).map(|w| {
        let (x, y) = (w[1].0 - w[0].0, w[0].1 - w[1].1);
        w[0].0 + x * (w[0].1 - KEPT * best) / y
    })
}

/// Hit rate of a cache of the server's NIC.
fn found_in(o: &Outcome, cache: NicCache) -> f64 {
    let of = o.caches.iter().find(|c| c.machine == 0 && c.cache == cache);
    of.map_or(0.0, |c| c.hits as f64 / (c.hits + c.misses).max(1) as f64)
}

/// Outcomes of the three designs on a cluster.
struct DesignsByClients {
    cluster: &'static str,
    writes: DesignByClients,
    sends: DesignByClients,
    spec: DesignByClients,
}

impl DesignsByClients {
    fn measure(ctx: &Ctx<'_>, cluster: &'static str) -> Result<DesignsByClients, NotYet> {
        let series = |design| DesignByClients::measure(ctx, cluster, design);
        Ok(DesignsByClients {
            cluster,
            writes: series(&WRITES)?,
            sends: series(&SENDS)?,
            spec: series(&SPEC)?,
        })
    }

    /// Smallest client count from which on requests by SEND are always faster than requests by WRITE. Only
    /// client counts that were run are compared.
    fn crossing(&self) -> Option<u32> {
        let both = || self.writes.outcomes.iter().zip(&self.sends.outcomes);
        let behind = both().filter(|(write, send)| send.mops <= write.mops).count();
        let (first, _) = both().nth(behind)?;
        both().skip(behind).all(|(write, send)| send.mops > write.mops).then_some(clients_of(first))
    }
}

fn clients(n: Option<f64>) -> String {
    n.map_or("no limit".to_owned(), |n| format!("{n:.0} clients"))
}

fn client_limit(sweeps: &[DesignsByClients], limited: &Outcome) -> Check {
    let limits = || sweeps.iter().map(|s| (s.cluster, s.writes.limit()));
    let holds = limits().all(|(_, l)| l.is_some_and(|l| FEW_HUNDRED.contains(&l)));
    let seen: Vec<String> = limits().map(|(cluster, l)| format!("{cluster}: {}", clients(l))).collect();
    let check = Check::statement("atc16-seq-rpc-client-limit", "any", holds, seen.join(", "))
        .note("most clients with a rate within 10% of the best; one QP each");
    because(check, limited)
}

fn less_scalable(cib: &DesignsByClients, limited: &Outcome) -> Check {
    let (rpc, spec) = (cib.writes.limit(), cib.spec.limit());
    let holds = rpc.is_some_and(|rpc| spec.is_none_or(|spec| rpc < spec));
    let seen = format!("HERD-RPC {}, Spec-S0 {}", clients(rpc), clients(spec));
    let rates = |s: &DesignByClients| {
        s.outcomes.iter().map(|o| format!("{:.1}", o.mops)).collect::<Vec<_>>().join(", ")
    };
    let check = Check::statement("atc16-intro-rpc-less-scalable", "cib", holds, seen).note(format!(
        "HERD-RPC {}; Spec-S0 {} Mrps with {:?} clients",
        rates(&cib.writes),
        rates(&cib.spec),
        cib.spec.outcomes.iter().map(clients_of).collect::<Vec<_>>()
    ));
    because(check, limited)
}

/// Adds the limit of `limited`, a run in which contexts miss in the cache.
fn because(check: Check, limited: &Outcome) -> Check {
    let found = 100.0 * found_in(limited, NicCache::QpResponder);
    let note = format!("{}; {found:.0}% of QP contexts found: {}", check.note, setting(limited));
    check.limited_by(limited).note(note)
}

/// Largest client count for comparing replies. It exceeds the number of contexts that the NIC caches for
/// requesters, and the number for responders.
const SEVERAL_HUNDRED: u32 = 560;

/// Compares HERD's RPCs with two others: requests by SEND, and replies by WRITE over one connected QP per
/// client. For connected replies, only the replies are run.
fn cost(ctx: &Ctx<'_>, cib: &DesignsByClients) -> Result<Check, NotYet> {
    // A core that replies one by one, as HERD's cores do.
    let one = |workers| Workers { cores: 1, batching: false, gather: 1, ..workers };
    let alone = |design: &Design| with_cores(design, 70, one);
    let core = ctx.systems("cib", "clients: one core", &[alone(&WRITES), alone(&SENDS)])?;
    let replies = [70, SEVERAL_HUNDRED].map(|clients| connected_replies(clients / CORES));
    let replies = ctx.measure("cib", "clients: replies by WRITE", &replies)?;
    let kept = |few: f64, many: f64| 100.0 * many / few;
    let herd = kept(cib.writes.rate(70), cib.writes.rate(SEVERAL_HUNDRED));
    let connected = kept(replies[0].mops, replies[1].mops);
    let holds = core[0].mops > core[1].mops && herd > connected;
    let seen = format!(
        "a core does {:.1} Mrps, with requests by SEND {:.1}; {SEVERAL_HUNDRED} clients keep {herd:.0}% of the rate \
         of 70, replies by WRITE {connected:.0}%",
        core[0].mops, core[1].mops
    );
    Ok(Check::statement("atc16-s41-herd-rpc-cost", "cib", holds, seen)
        .note("other RPCs are HERD's with one half changed: requests by SEND, or replies over connected QPs"))
}

/// The posts of a server that replies by WRITE over connected QPs, with this many QPs per core.
fn connected_replies(qps: u32) -> Workload {
    let workload = Workload {
        verb: Some(Verb::Write),
        transport: Some(QpType::Uc),
        pattern: Some(Pattern::Outbound),
        size: Some(8),
        inline: Some(true),
        machines: Some(15),
        threads: Some(CORES),
        qps: Some(qps),
        window_per_qp: Some(32),
        ..Workload::default()
    };
    // In this time, a core posts more than one window on each of its QPs.
    briefly(1500, workload)
}

fn crossing(sweeps: &[DesignsByClients]) -> Check {
    let holds = sweeps.iter().all(|s| s.crossing().is_some_and(|c| f64::from(c) < FEW_HUNDRED.end));
    let seen = sweeps.iter().map(|s| match s.crossing() {
        Some(c) => format!("{}: from {c} clients on", s.cluster),
        None => format!("{}: nowhere", s.cluster),
    });
    Check::statement("doorbell-requests-cross", "any", holds, seen.collect::<Vec<_>>().join(", "))
        .note(format!("with {CLIENTS:?} clients"))
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let sweeps = CLUSTERS.map(|cluster| DesignsByClients::measure(ctx, cluster));
    let sweeps: Vec<DesignsByClients> = sweeps.into_iter().collect::<Result<_, _>>()?;
    let cib = &sweeps[2];
    let limited = ctx.explain_system("cib", "clients", &workload(ctx, "cib", &WRITES, EXPLAINED))?;
    let checks = vec![
        client_limit(&sweeps, &limited),
        less_scalable(cib, &limited),
        cost(ctx, cib)?,
        crossing(&sweeps),
    ];
    let series =
        sweeps.iter().flat_map(|s| [(s.cluster, &s.writes), (s.cluster, &s.sends), (s.cluster, &s.spec)]);
    Ok(Findings {
        checks,
        curves: series.flat_map(|(cluster, s)| s.curves(cluster)).collect(),
        ..Findings::default()
    })
}

#[cfg(test)]
mod tests {
    use super::limit;

    #[test]
    fn the_limit_is_where_the_rate_has_lost_a_tenth() {
        assert_eq!(limit(&[(10.0, 100.0), (20.0, 100.0), (40.0, 80.0), (80.0, 10.0)]), Some(30.0));
        assert_eq!(
            limit(&[(10.0, 50.0), (20.0, 100.0), (40.0, 91.0)]),
            None,
            "it rises first, and never falls"
        );
        assert_eq!(limit(&[]), None);
    }
}
