//! A check with its name, its scale, and the faults that are injected into it.

use crate::faults::{Faults, Stop};
use doorbell_conformance::{CheckResult, Outcome, Report};
use doorbell_verbs::{Cluster, Span};

/// Machines that a check needs by default: a server and two with clients.
pub const MACHINES: u32 = 3;

/// How much each check does. Checks in which threads hesitate or stop, or the device is late, do a quarter.
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
    /// Time after which lost messages are sent again. It is mostly longer than a reply takes. A request that
    /// is repeated needlessly is recognized and not executed twice.
    pub retry: Span,
    /// How long a hesitating thread stops in the middle of a store.
    pub hesitation: Span,
    /// Time after which threads give up.
    pub patience: Span,
    /// Smallest time-out code of RC QPs ([`doorbell_verbs::QpAttr::timeout`]) if each machine is a process. A
    /// live peer answers within it, even if it waits for a processor.
    pub time_out: u8,
    /// How long the clients of deployed systems measure.
    pub deployed: Span,
    /// Whether a WRITE to a word may be lost if others compare-and-swap the word, because the device writes
    /// the word back when a comparison fails. No specification forbids that: atomics are atomic to each
    /// other.
    pub writes_back: bool,
}

impl Scale {
    /// For current processors.
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
    /// For emulated processors, and the Soft-RoCE of Linux 6.1 on them.
    pub const SMALL: Scale = Scale {
        draws: 60,
        requests: 40,
        operations: 30,
        steps: 120,
        clients: 3,
        retry: Span::from_ms(50),
        hesitation: Span::from_us(500),
        patience: Span::from_ms(60_000),
        // 0.5 s, seven times. The kernel of an emulated machine answers late if the machine runs beside other
        // work.
        time_out: 17,
        deployed: Span::from_ms(500),
        writes_back: true,
    };
}

/// Lost messages per million, in checks that lose messages.
const LOSS_PPM: u32 = 30_000;

/// A client that stops does so before one step in this many.
const STOPS: u32 = 40;

/// The faults of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    None,
    /// Messages are lost.
    Loss,
    /// Threads stop in the middle of stores, and WRITEs are placed in two parts.
    Hesitation,
    /// Clients repeat requests far too early, and the device reads outbound data late.
    Late,
    /// Clients stop for longer than their requests take.
    Stops,
}

impl Trouble {
    /// The time after which a late device reads outbound data.
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

    /// Time after which clients repeat a request.
    pub(crate) fn retry(self, scale: &Scale) -> Option<Span> {
        match self {
            Trouble::None | Trouble::Hesitation | Trouble::Stops => None,
            Trouble::Loss => Some(scale.retry),
            Trouble::Late => Some(Trouble::lateness(scale)),
        }
    }

    /// The divisor of the usual amount of work.
    pub(crate) fn part(self) -> u32 {
        match self {
            Trouble::None | Trouble::Loss => 1,
            Trouble::Hesitation | Trouble::Late | Trouble::Stops => 4,
        }
    }
}

/// The work of a check on a cluster.
type Run<C> = dyn Fn(&mut C, &Scale) -> Result<(), String>;

/// A check with its name.
pub struct Check<C> {
    name: String,
    machines: (u32, u32),
    run: Box<Run<C>>,
}

impl<C: Cluster> Check<C> {
    /// A check of this name. `run` returns an error that describes the failure.
    pub fn new(
        name: impl Into<String>,
        run: impl Fn(&mut C, &Scale) -> Result<(), String> + 'static,
    ) -> Check<C> {
        Check { name: name.into(), machines: (MACHINES, MACHINES), run: Box::new(run) }
    }

    /// Runs the check on `all` machines, each a process. `at_first` of them exist at the start. One more
    /// starts with each machine that is killed.
    pub(crate) fn of_processes(self, all: u32, at_first: u32) -> Check<C> {
        Check { machines: (all, at_first), ..self }
    }

    /// The check's name: `systems/`, its subject, `/`, and the property that it checks.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of machines that the check needs, and how many of them exist at the start.
    pub fn machines(&self) -> (u32, u32) {
        self.machines
    }

    /// Runs the check on a fresh cluster of [`Check::machines`] with cores 0 to 29.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn run(&self, cluster: &mut C, scale: &Scale) -> Result<(), String> {
        (self.run)(cluster, scale)
    }
}

/// Runs the checks whose name contains `filter`, or all without a filter. `make` creates a fresh cluster of
/// [`MACHINES`] machines for each check. `each` gets each result.
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
        // Leaked names: there are few, and results need them for as long as the program runs.
        let (name, outcome) =
            (check.name.clone().leak(), ended.map_or_else(Outcome::Failed, |()| Outcome::Passed));
        let result = CheckResult { name, outcome };
        each(&result);
        report.checks.push(result);
    }
    report
}
