//! The list of checks for devices where time is real.

use crate::kv::Store;
use crate::sequencer::Sequencer;
use crate::{Faults, deployed, forgetting, kv, refusals, rpc, sequencer};
use doorbell_conformance::{CheckResult, Outcome, Report};
use doorbell_systems::herd::Requests;
use doorbell_verbs::{Cluster, Span};

/// Machines that a check needs: a server and two with clients.
pub const MACHINES: u32 = 3;

/// How much each check does; those in which threads hesitate, or the device does, do a quarter.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Numbers that each client of a sequencer draws.
    pub draws: u64,
    /// Requests that each client of the RPCs sends.
    pub requests: u32,
    /// Operations of each client of a store.
    pub operations: u64,
    /// Operations of the check of eviction.
    pub steps: u64,
    /// Clients of each check.
    pub clients: u32,
    /// After how long lost messages are sent again. Longer than a reply mostly takes; what is sent
    /// again without need is found and not executed twice.
    pub retry: Span,
    /// How long a thread stops in the middle of a store where it hesitates.
    pub hesitation: Span,
    /// After how long threads give up.
    pub patience: Span,
    /// How long clients of deployed systems measure.
    pub deployed: Span,
}

impl Scale {
    /// For processors of today.
    pub const FULL: Scale = Scale {
        draws: 3_000,
        requests: 1_500,
        operations: 300,
        steps: 1_500,
        clients: 5,
        retry: Span::from_ms(5),
        hesitation: Span::from_us(100),
        patience: Span::from_ms(60_000),
        deployed: Span::from_ms(100),
    };
    /// For processors that are emulated.
    pub const SMALL: Scale = Scale {
        draws: 60,
        requests: 40,
        operations: 30,
        steps: 120,
        clients: 3,
        retry: Span::from_ms(50),
        hesitation: Span::from_us(500),
        patience: Span::from_ms(60_000),
        deployed: Span::from_ms(2_000),
    };
}

/// Messages lost in a million, where some are.
const LOSS_PPM: u32 = 30_000;
/// Shortly before the upper half of a number changes.
const BEFORE_CARRY: u64 = (3 << 32) - 100;

/// What goes wrong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trouble {
    None,
    /// Messages are lost.
    Loss,
    /// Threads stop in the middle of stores, and WRITEs are placed in two parts.
    Hesitation,
    /// Clients repeat far too early, and the device reads late what it sends.
    Late,
}

#[derive(Clone, Copy)]
enum Scenario {
    Rpc { by: Requests, batched: bool, queues: u32, trouble: Trouble },
    Draw { sequencer: Sequencer, outstanding: u32, batched: bool, first: u64, guess: u32, trouble: Trouble },
    Operate { store: Store, outstanding: u32, batched: bool, trouble: Trouble },
    Forgetting,
    HerdRefusals,
    DrtmRefusals,
}

use Scenario::*;

const fn rpc(by: Requests, batched: bool, queues: u32, trouble: Trouble) -> Scenario {
    Rpc { by, batched, queues, trouble }
}

const fn draw(sequencer: Sequencer, outstanding: u32, batched: bool) -> Scenario {
    Draw { sequencer, outstanding, batched, first: 0, guess: 0, trouble: Trouble::None }
}

const fn across(sequencer: Sequencer, outstanding: u32, guess: u32, trouble: Trouble) -> Scenario {
    Draw { sequencer, outstanding, batched: true, first: BEFORE_CARRY, guess, trouble }
}

const fn store(store: Store, outstanding: u32, batched: bool) -> Scenario {
    Operate { store, outstanding, batched, trouble: Trouble::None }
}

const fn troubled(store: Store, trouble: Trouble) -> Scenario {
    Operate { store, outstanding: 4, batched: true, trouble }
}

const SCENARIOS: [(&str, Scenario); 32] = [
    ("systems/rpc/baseline", rpc(Requests::Write, false, 1, Trouble::None)),
    ("systems/rpc/batching", rpc(Requests::Write, true, 1, Trouble::None)),
    ("systems/rpc/multi_queue", rpc(Requests::Write, false, 3, Trouble::None)),
    ("systems/rpc/batching_multi_queue", rpc(Requests::Write, true, 3, Trouble::None)),
    ("systems/rpc/lost_messages", rpc(Requests::Write, true, 2, Trouble::Loss)),
    ("systems/rpc/requests_that_are_being_written", rpc(Requests::Write, true, 2, Trouble::Hesitation)),
    ("systems/rpc/repeated_without_need", rpc(Requests::Write, true, 2, Trouble::Late)),
    ("systems/rpc/refusals", HerdRefusals),
    ("systems/datagram_rpc/baseline", rpc(Requests::Send, false, 1, Trouble::None)),
    ("systems/datagram_rpc/batching_multi_queue", rpc(Requests::Send, true, 3, Trouble::None)),
    ("systems/datagram_rpc/lost_messages", rpc(Requests::Send, true, 2, Trouble::Loss)),
    ("systems/sequencer/herd_rpc", draw(Sequencer::HerdRpc, 1, false)),
    ("systems/sequencer/herd_rpc_batching", draw(Sequencer::HerdRpc, 8, true)),
    ("systems/sequencer/herd_rpc_across_2_32", across(Sequencer::HerdRpc, 4, 0, Trouble::None)),
    ("systems/sequencer/herd_rpc_lost_messages", across(Sequencer::HerdRpc, 4, 0, Trouble::Loss)),
    ("systems/sequencer/spec_s0", draw(Sequencer::SpecS0, 1, false)),
    ("systems/sequencer/spec_s0_batching", draw(Sequencer::SpecS0, 8, true)),
    ("systems/sequencer/spec_s0_stale_guess", across(Sequencer::SpecS0, 1, 0, Trouble::None)),
    ("systems/sequencer/spec_s0_across_2_32", across(Sequencer::SpecS0, 8, 2, Trouble::None)),
    ("systems/sequencer/spec_s0_lost_messages", across(Sequencer::SpecS0, 1, 2, Trouble::Loss)),
    ("systems/sequencer/atomics", draw(Sequencer::Atomics, 4, false)),
    ("systems/sequencer/atomics_across_2_32", across(Sequencer::Atomics, 4, 0, Trouble::None)),
    ("systems/kv/herd", store(Store::Herd, 1, false)),
    ("systems/kv/herd_batching", store(Store::Herd, 4, true)),
    ("systems/kv/herd_lost_messages", troubled(Store::Herd, Trouble::Loss)),
    ("systems/kv/reads", store(Store::Reads, 4, true)),
    ("systems/kv/reads_lost_messages", troubled(Store::Reads, Trouble::Loss)),
    ("systems/kv/reads_of_what_is_being_written", troubled(Store::Reads, Trouble::Hesitation)),
    ("systems/kv/reads_forget_as_the_server_does", Forgetting),
    ("systems/kv/drtm", store(Store::Drtm, 4, false)),
    ("systems/kv/drtm_of_what_is_being_written", troubled(Store::Drtm, Trouble::Hesitation)),
    ("systems/kv/drtm_refusals", DrtmRefusals),
];

/// The names of all checks.
pub fn names() -> Vec<String> {
    SCENARIOS.iter().map(|(name, _)| (*name).to_owned()).chain(deployed::names()).collect()
}

impl Scenario {
    fn run<C: Cluster>(self, cluster: &mut C, scale: &Scale) -> Result<(), String> {
        let clients = scale.clients;
        let faults = |trouble: Trouble| Faults {
            loss_ppm: if trouble == Trouble::Loss { LOSS_PPM } else { 0 },
            hesitation: (trouble == Trouble::Hesitation).then_some(scale.hesitation),
            late: (trouble == Trouble::Late).then_some(Span::from_ps(scale.hesitation.as_ps() / 4)),
            seed: 1,
        };
        let retry = |trouble: Trouble| match trouble {
            Trouble::None | Trouble::Hesitation => None,
            Trouble::Loss => Some(scale.retry),
            Trouble::Late => Some(Span::from_ps(scale.hesitation.as_ps() / 4)),
        };
        let part = |trouble: Trouble| match trouble {
            Trouble::None | Trouble::Loss => 1,
            Trouble::Hesitation | Trouble::Late => 4,
        };
        match self {
            Rpc { by, batched, queues, trouble } => rpc::Case {
                by,
                clients,
                workers: 2,
                outstanding: 8,
                gather: if batched { 16 } else { 1 },
                doorbell: batched,
                queues,
                requests: scale.requests / part(trouble),
                retry: retry(trouble),
                faults: faults(trouble),
            }
            .run(cluster, scale.patience)
            .map(drop),
            Draw { sequencer, outstanding, batched, first, guess, trouble } => sequencer::Case {
                sequencer,
                clients,
                workers: 2,
                outstanding,
                windows: false,
                gather: if batched { 16 } else { 1 },
                doorbell: batched,
                queues: if batched { 2 } else { 1 },
                first,
                guess,
                // Spec-S0 waits alone for each message that is lost, and goes on with a fresh QP.
                draws: if trouble == Trouble::Loss { scale.draws / 10 } else { scale.draws },
                retry: retry(trouble),
                faults: faults(trouble),
            }
            .run(cluster, scale.patience)
            .map(drop),
            Operate { store, outstanding, batched, trouble } => kv::Case {
                store,
                clients,
                workers: 2,
                outstanding,
                gather: if batched { 8 } else { 1 },
                doorbell: batched,
                prefetch: batched,
                operations: scale.operations / u64::from(part(trouble)),
                retry: retry(trouble),
                faults: faults(trouble),
                seed: 1,
            }
            .run(cluster, scale.patience)
            .map(drop),
            Forgetting => forgetting::run(cluster, scale.steps, 1, scale.patience).map(drop),
            HerdRefusals => refusals::herd(cluster, scale.patience),
            DrtmRefusals => refusals::drtm(cluster, scale.patience),
        }
    }
}

/// Runs the check of this name on a fresh cluster of [`MACHINES`] machines with cores 0 to 29.
///
/// # Errors
/// What is wrong, or that there is no such check.
pub fn run<C: Cluster>(name: &str, cluster: &mut C, scale: &Scale) -> Result<(), String> {
    if let Some(ended) = deployed::run(name, cluster, scale) {
        return ended;
    }
    match SCENARIOS.iter().find(|(n, _)| *n == name) {
        Some((_, scenario)) => scenario.run(cluster, scale),
        None => Err(format!("no check is called {name}")),
    }
}

/// Runs the checks whose name contains `filter` (all without one), each on a fresh cluster of as
/// many machines as `make` is given, and tells `each` how it ended.
pub fn run_all<C: Cluster>(
    make: &mut dyn FnMut(u32) -> C,
    filter: Option<&str>,
    scale: &Scale,
    each: &mut dyn FnMut(&CheckResult),
) -> Report {
    let mut report = Report::default();
    for name in names().into_iter().filter(|name| filter.is_none_or(|f| name.contains(f))) {
        let ended = run(&name, &mut make(MACHINES), scale);
        // Few, and results name their checks for as long as the program runs.
        let (name, outcome) = (name.leak(), ended.map_or_else(Outcome::Failed, |()| Outcome::Passed));
        let result = CheckResult { name, outcome };
        each(&result);
        report.checks.push(result);
    }
    report
}
