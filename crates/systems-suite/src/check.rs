//! A check by its name, how much it does, and what goes wrong in it.

use crate::faults::{Faults, Stop};
use doorbell_conformance::{CheckResult, Outcome, Report};
use doorbell_verbs::{Cluster, Span};

/// Machines that a check needs, unless it says otherwise: a server and two with clients.
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
    /// The least time-out code of RC QPs ([`doorbell_verbs::QpAttr::timeout`]) of machines in processes of their own: a
    /// peer that lives answers within it, also where it waits for a processor.
    pub time_out: u8,
    /// How long clients of deployed systems measure.
    pub deployed: Span,
    /// Whether a WRITE to a word may be lost which others compare-and-swap, as the device writes back what it has compared in vain. No specification
    /// forbids that: atomics are atomic to each other.
    pub writes_back: bool,
}

impl Scale {
    /// For processors of today.
    pub const FULL: Scale = Scale {
        draws: 1_500,
        requests: 600,
        operations: 300,
        steps: 750,
        clients: 5,
        retry: Span::from_ms(5),
        hesitation: Span::from_us(100),
        patience: Span::from_ms(60_000),
        time_out: 14,
        deployed: Span::from_ms(100),
        writes_back: false,
    };
    /// For processors that are emulated, and the Soft-RoCE of Linux 6.1 on them.
    pub const SMALL: Scale = Scale {
        draws: 60,
        requests: 40,
        operations: 30,
        steps: 120,
        clients: 3,
        retry: Span::from_ms(50),
        hesitation: Span::from_us(500),
        patience: Span::from_ms(60_000),
        // 0.5 s, seven times. The kernel of a machine that is emulated beside other work answers late.
        time_out: 17,
        deployed: Span::from_ms(500),
        writes_back: true,
    };
}

/// Messages lost in a million, where some are.
const LOSS_PPM: u32 = 30_000;

/// Where clients stop, they do so before one in so many things that they do.
const STOPS: u32 = 40;

/// What goes wrong in a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    None,
    /// Messages are lost.
    Loss,
    /// Threads stop in the middle of stores, and WRITEs are placed in two parts.
    Hesitation,
    /// Clients repeat far too early, and the device reads late what it sends.
    Late,
    /// Clients stop for longer than what they ask for takes.
    Stops,
}

impl Trouble {
    /// How long the device takes to come to what it sends, where it is late.
    fn lateness(scale: &Scale) -> Span {
        Span::from_ps(scale.hesitation.as_ps() / 4)
    }

    pub(crate) fn faults(self, scale: &Scale) -> Faults {
        Faults {
            loss_ppm: if self == Trouble::Loss { LOSS_PPM } else { 0 },
            hesitation: (self == Trouble::Hesitation).then_some(scale.hesitation),
            late: (self == Trouble::Late).then_some(Trouble::lateness(scale)),
            stop: (self == Trouble::Stops).then_some(Stop { one_in: STOPS, span: scale.retry * 2 }),
            late_write: None,
            apart: None,
            kill: None,
            seed: 1,
        }
    }

    /// After how long clients send again.
    pub(crate) fn retry(self, scale: &Scale) -> Option<Span> {
        match self {
            Trouble::None | Trouble::Hesitation | Trouble::Stops => None,
            Trouble::Loss => Some(scale.retry),
            Trouble::Late => Some(Trouble::lateness(scale)),
        }
    }

    /// What is done is this part of what is usual.
    pub(crate) fn part(self) -> u32 {
        match self {
            Trouble::None | Trouble::Loss => 1,
            Trouble::Hesitation | Trouble::Late | Trouble::Stops => 4,
        }
    }
}

/// What a check does with a cluster.
type Run<C> = dyn Fn(&mut C, &Scale) -> Result<(), String>;

/// A check with its name.
pub struct Check<C> {
    name: String,
    machines: (u32, u32),
    run: Box<Run<C>>,
}

impl<C: Cluster> Check<C> {
    /// A check of this name; `run` says what is wrong.
    pub fn new(
        name: impl Into<String>,
        run: impl Fn(&mut C, &Scale) -> Result<(), String> + 'static,
    ) -> Check<C> {
        Check { name: name.into(), machines: (MACHINES, MACHINES), run: Box::new(run) }
    }

    /// The same on so many machines, each of which has to be a process: of them so many are there at first, and another one comes with each
    /// that is killed.
    pub(crate) fn of_processes(self, all: u32, at_first: u32) -> Check<C> {
        Check { machines: (all, at_first), ..self }
    }

    /// Its name: `systems/`, what it is about, `/`, what it checks of that.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Machines that it needs, and those that are there at first.
    pub fn machines(&self) -> (u32, u32) {
        self.machines
    }

    /// Runs it on a fresh cluster of [`Check::machines`] with cores 0 to 29.
    ///
    /// # Errors
    /// What is wrong.
    pub fn run(&self, cluster: &mut C, scale: &Scale) -> Result<(), String> {
        (self.run)(cluster, scale)
    }
}

/// Runs those of `checks` whose name contains `filter` (all without one), each on a fresh cluster of as
/// many machines as `make` is given, and tells `each` how it ended.
pub fn run_all<C: Cluster>(
    checks: &[Check<C>],
    make: &mut dyn FnMut(u32) -> C,
    filter: Option<&str>,
    scale: &Scale,
    each: &mut dyn FnMut(&CheckResult),
) -> Report {
    let mut report = Report::default();
    for check in checks.iter().filter(|check| filter.is_none_or(|part| check.name.contains(part))) {
        let ended = check.run(&mut make(MACHINES), scale);
        // Few, and results name their checks for as long as the program runs.
        let (name, outcome) =
            (check.name.clone().leak(), ended.map_or_else(Outcome::Failed, |()| Outcome::Passed));
        let result = CheckResult { name, outcome };
        each(&result);
        report.checks.push(result);
    }
    report
}
