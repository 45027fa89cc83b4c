//! Runs of the experiments: the server that scans, on the paper's machines.

use crate::experiment::percent_more;
use crate::experiment::{Ctx, Curve};
use doorbell_lab::NotYet;
use doorbell_lab::{Outcome, SystemWorkload};
use doorbell_nic::{Hierarchy, Profile};
use doorbell_systems::config::Timing;
use doorbell_systems::touch::{Mode, Scanned, Touch};
use doorbell_systems::{Phase, System};
use doorbell_verbs::Span;

/// Profile of the paper's machines.
pub(super) const CLUSTER: &str = "e7520-t4";

pub(super) const KB: u32 = 1 << 10;
pub(super) const MB: u32 = 1 << 20;

/// Bytes of the response in Table 3 and Figure 4.
pub(super) const TABLE_3: u32 = 256 * KB;

/// Response sizes of the figures in bytes: powers of two up to 1 MB, and two larger sizes. The last size
/// exceeds the LLC. The paper's text does not list the sizes.
pub(super) const SIZES: [u32; 17] = [
    64,
    128,
    256,
    512,
    KB,
    2 * KB,
    4 * KB,
    8 * KB,
    16 * KB,
    32 * KB,
    64 * KB,
    128 * KB,
    256 * KB,
    512 * KB,
    MB,
    4 * MB,
    32 * MB,
];

/// Both scans with their names.
pub(super) const SCANS: [(Scanned, &str); 2] = [(Scanned::Write, "Write Scan"), (Scanned::Read, "Read Scan")];

/// A run of several requests. The requests of the warm-up fill the caches.
pub(super) fn touch(mode: Mode, scan: Scanned, size: u32) -> Touch {
    let mut touch = Touch { mode, scan, size, instructions: scan.instructions(), ..Touch::usual() };
    let (warm, measured) = if size > MB { (1, 3) } else { (3, 8) };
    measure(&mut touch, warm, measured);
    touch
}

/// Sets the warm-up of a run to at least the time of `warm` requests, and the measured time to at least the
/// time of `measured` requests.
pub(super) fn measure(touch: &mut Touch, warm: u64, measured: u64) {
    let each = Span::from_us(40) + Span::from_ns(2) * u64::from(touch.size) + touch.compute.span();
    touch.timing = Timing::of(each * warm, each * measured);
}

/// Time of a request in microseconds.
pub(super) fn us(outcome: &Outcome) -> f64 {
    // There is no mean if no request completes, for example if a caller shortens runs too much.
    outcome.latency_ns.mean.map_or(f64::NAN, |ns| ns / 1e3)
}

/// Time of a phase of a request in microseconds.
pub(super) fn phase_us(outcome: &Outcome, phase: Phase) -> f64 {
    outcome.system().phases.iter().find(|p| p.phase == phase).map_or(0.0, |p| p.mean_ns / 1e3)
}

/// The paper's machines with changed caches.
pub(super) fn with_caches(ctx: &Ctx<'_>, change: impl FnOnce(&mut Hierarchy)) -> Profile {
    let mut profile = ctx.profile(CLUSTER).clone();
    change(profile.hierarchy.as_mut().expect("its caches have sizes"));
    profile
}

/// The paper's machines with all prefetchers off, as by a BIOS setting.
pub(super) fn without_prefetchers(ctx: &Ctx<'_>) -> Profile {
    with_caches(ctx, |h| (h.next_line, h.adjacent_line, h.streamer) = (false, false, 0))
}

/// Outcomes of a run with NoTouch and of a run with Touch.
#[derive(Clone)]
pub(super) struct Pair {
    pub(super) notouch: Outcome,
    pub(super) touch: Outcome,
}

impl Pair {
    /// Additional time with Touch, in percent of the time with NoTouch.
    pub(super) fn loss(&self) -> f64 {
        percent_more(us(&self.notouch), us(&self.touch))
    }
}

/// Runs each of `all` in both modes. The context learns of all runs before the first unknown result returns.
pub(super) fn pairs(
    ctx: &Ctx<'_>,
    profile: &Profile,
    what: &str,
    all: &[Touch],
) -> Result<Vec<Pair>, NotYet> {
    let both = |t: &Touch| [Mode::NoTouch, Mode::Touch].map(|mode| Touch { mode, ..t.clone() });
    let outcomes = systems(ctx, profile, what, &all.iter().flat_map(both).collect::<Vec<_>>())?;
    let pair = |pair: &[Outcome; 2]| Pair { notouch: pair[0].clone(), touch: pair[1].clone() };
    Ok(outcomes.as_chunks().0.iter().map(pair).collect())
}

/// Runs each of `all`. The outcomes are in the order of `all`.
pub(super) fn systems(
    ctx: &Ctx<'_>,
    profile: &Profile,
    what: &str,
    all: &[Touch],
) -> Result<Vec<Outcome>, NotYet> {
    let all: Vec<SystemWorkload> = all.iter().cloned().map(SystemWorkload::from).collect();
    ctx.systems_on(profile, &format!("conext13/{what}"), &all)
}

/// A size in the paper's notation.
pub(super) fn size_text(size: u32) -> String {
    match size {
        ..KB => format!("{size} B"),
        KB..MB => format!("{} kB", size / KB),
        _ => format!("{} MB", size / MB),
    }
}

/// A curve over response sizes, in kB.
pub(super) fn curve(experiment: &str, name: &str, y: &str, points: &[(u32, f64)]) -> Curve {
    Curve {
        experiment: format!("conext13/{experiment}"),
        name: name.into(),
        profile: CLUSTER.into(),
        x: "response in kB".into(),
        y: y.into(),
        points: points.iter().map(|(size, y)| (f64::from(*size) / f64::from(KB), *y)).collect(),
    }
}

/// Points in words: `256 kB 58.6`, separated by `,`.
pub(super) fn text(points: &[(u32, f64)]) -> String {
    let point = |(size, y): &(u32, f64)| format!("{} {y:.1}", size_text(*size));
    points.iter().map(point).collect::<Vec<_>>().join(", ")
}
