//! The faults that `doorbell run --fault` injects: selects the work requests that faults hit, and when.
//!
//! A random draw depends on the seed, on the QP's ordinal in its process, and on how often the QP was reset.
//! It also depends on the number of the work request, and on how often faults hit this work request before.
//! It never depends on time, addresses or PIDs. So every run of a program has equal faults.

use doorbell_launch::faults::Faults;
use doorbell_launch::say::say;
use doorbell_launch::variables::{FAULTS, SEED};
use std::collections::VecDeque;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

/// The faults that were requested for this process, and their seed; `None` without faults.
fn own() -> Option<&'static (Faults, u64)> {
    static OWN: OnceLock<Option<(Faults, u64)>> = OnceLock::new();
    let read = || {
        let text = std::env::var(FAULTS).ok().filter(|text| !text.is_empty())?;
        let seed = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
        match text.parse() {
            Ok(faults) => Some((faults, seed)),
            Err(error) => {
                say(format_args!("no faults are injected because {FAULTS} is not valid: {error}"));
                None
            }
        }
    };
    OWN.get_or_init(read).as_ref()
}

/// The times at which the port goes down and comes up again, counted from the first opening of the device.
/// The second is `None` if the port stays down.
pub(super) fn port_down() -> Option<(Duration, Option<Duration>)> {
    own()?.0.port_down
}

/// Kinds of faults that are counted for the report at exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hit {
    Lost,
    Delayed,
    Feigned,
    Killed,
    PortDown,
}

/// The number of each kind of fault. Counters: they order nothing.
static HITS: [AtomicU64; 5] = [const { AtomicU64::new(0) }; 5];

fn count(hit: Hit) {
    HITS[hit as usize].fetch_add(1, Relaxed);
}

/// Arranges that the faults are reported when this process exits. A child of fork(2) counts from zero.
pub(crate) fn tell_at_exit() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    if own().is_some() {
        ONCE.call_once(|| {
            // SAFETY: functions of this library, which is never unloaded.
            unsafe {
                libc::pthread_atfork(None, None, Some(in_child));
                libc::atexit(at_exit);
            }
        });
    }
}

extern "C" fn in_child() {
    HITS.iter().for_each(|hits| hits.store(0, Relaxed));
    QPS.store(0, Relaxed);
}

extern "C" fn at_exit() {
    let (Some((_, seed)), true) = (own(), QPS.load(Relaxed) > 0) else { return };
    let of = |hit: Hit| HITS[hit as usize].load(Relaxed);
    say(format_args!(
        "faults of seed {seed} in process {}: {} lost, {} delayed, {} RNR, {} QPs killed, {} sent while the port was down",
        std::process::id(),
        of(Hit::Lost),
        of(Hit::Delayed),
        of(Hit::Feigned),
        of(Hit::Killed),
        of(Hit::PortDown)
    ));
}

/// Number of QPs that this process has created. A counter: it orders nothing.
static QPS: AtomicU32 = AtomicU32::new(0);

/// The effect of the faults on a work request that is about to be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No fault: the request is carried out.
    Go,
    /// The request is delayed and not due yet.
    Late,
    /// The request puts its QP into the state Err.
    Kill,
    /// The port is down, so the request reaches nothing.
    PortDown,
    /// The request is lost.
    Lose,
    /// The request is answered as if no RECV were posted.
    Feign,
}

/// The state of a QP's faults.
#[derive(Debug)]
pub(crate) struct QpFaults {
    faults: &'static Faults,
    seed: u64,
    /// The QP's ordinal in its process, from 0, and how often it was reset.
    ordinal: u64,
    lives: u64,
    /// The numbers of delayed requests and when each is due, oldest first.
    due: VecDeque<(u64, Instant)>,
    /// The last request with a draw, how often faults hit it before its last draw, and its last verdict.
    number: u64,
    attempt: u64,
    last: Verdict,
}

/// Purposes of random draws. Each purpose has random numbers of its own.
#[derive(Clone, Copy)]
enum Draw {
    Drop,
    Rnr,
    Delay,
}

impl QpFaults {
    /// The faults of a new QP; `None` if no faults were requested.
    pub(crate) fn wanted() -> Option<QpFaults> {
        let (faults, seed) = own()?;
        let ordinal = QPS.fetch_add(1, Relaxed).into();
        Some(QpFaults::new(faults, *seed, ordinal))
    }

    fn new(faults: &'static Faults, seed: u64, ordinal: u64) -> QpFaults {
        let (due, last) = (VecDeque::new(), Verdict::Go);
        QpFaults { faults, seed, ordinal, lives: 0, due, number: 0, attempt: 0, last }
    }

    pub(crate) fn begin_again(&mut self) {
        let lives = self.lives + 1;
        *self = QpFaults { lives, ..QpFaults::new(self.faults, self.seed, self.ordinal) };
    }

    /// Draws the delay of a work request that is being posted.
    pub(crate) fn posted(&mut self, number: u64) {
        let Some((least, most)) = self.faults.delay else { return };
        let range = (most - least).as_nanos() as u64;
        let drawn = (u128::from(self.draw(Draw::Delay, number, 0)) * u128::from(range)) >> 64;
        let due = Instant::now() + least + Duration::from_nanos(drawn as u64);
        // A later request is never due before an earlier one.
        let due = self.due.back().map_or(due, |(_, before)| due.max(*before));
        self.due.push_back((number, due));
        count(Hit::Delayed);
    }

    /// When the oldest delayed request is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due.front().map(|(_, due)| *due)
    }

    /// The verdict for the oldest work request, for one attempt to carry it out. The verdict is drawn once
    /// for a request, and again only after a fault has hit it. Attempts for other reasons draw nothing,
    /// because their number depends on time.
    pub(crate) fn verdict(&mut self, number: u64, takes_recv: bool, port_is_down: bool) -> Verdict {
        while let Some((at, due)) = self.due.front() {
            if *at == number && *due > Instant::now() {
                return Verdict::Late;
            }
            if *at >= number {
                break;
            }
            self.due.pop_front();
        }
        if self.faults.kill == Some(number) {
            count(Hit::Killed);
            return Verdict::Kill;
        }
        if port_is_down {
            count(Hit::PortDown);
            return Verdict::PortDown;
        }
        if self.number == number && self.last == Verdict::Go {
            return Verdict::Go;
        }
        self.attempt = if self.number == number { self.attempt + 1 } else { 0 };
        self.number = number;
        self.last = self.drawn(number, takes_recv);
        match self.last {
            Verdict::Lose => count(Hit::Lost),
            Verdict::Feign => count(Hit::Feigned),
            _ => {}
        }
        self.last
    }

    fn drawn(&self, number: u64, takes_recv: bool) -> Verdict {
        if self.faults.drop.is_hit(self.draw(Draw::Drop, number, self.attempt)) {
            Verdict::Lose
        } else if takes_recv && self.faults.rnr.is_hit(self.draw(Draw::Rnr, number, self.attempt)) {
            Verdict::Feign
        } else {
            Verdict::Go
        }
    }

    /// The last drawn fault of the oldest work request; `None` if its last draw was no fault.
    pub(crate) fn pending(&self, number: u64) -> Option<Verdict> {
        (self.number == number && self.last != Verdict::Go).then_some(self.last)
    }

    /// Whether this work request kills the QP.
    pub(crate) fn kills(&self, number: u64) -> bool {
        self.faults.kill == Some(number)
    }

    /// How many times drawn faults have hit this work request.
    pub(crate) fn times(&self, number: u64) -> u64 {
        if self.pending(number).is_some() { self.attempt + 1 } else { 0 }
    }

    fn draw(&self, what: Draw, number: u64, attempt: u64) -> u64 {
        let words = [self.seed, self.ordinal, self.lives, number, attempt, what as u64];
        words.into_iter().fold(0, |mixed: u64, word| mix(mixed ^ word))
    }
}

/// A step of SplitMix64.
fn mix(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> &'static Faults {
        Box::leak(Box::new(text.parse().expect("faults")))
    }

    /// The numbers of the work requests from 1 to 10 000 whose verdict is `what`.
    fn hit(seed: u64, ordinal: u64, what: Verdict) -> Vec<u64> {
        let mut qp = QpFaults::new(faults("drop=0.5,rnr=0.25"), seed, ordinal);
        (1..=10_000).filter(|number| qp.verdict(*number, true, false) == what).collect()
    }

    #[test]
    fn what_is_hit_depends_on_the_seed_and_the_qp_alone() {
        let lost = hit(7, 0, Verdict::Lose);
        assert_eq!(lost, hit(7, 0, Verdict::Lose));
        assert_ne!(lost, hit(8, 0, Verdict::Lose));
        assert_ne!(lost, hit(7, 1, Verdict::Lose));
        // Five standard deviations of a binomial distribution are 250.
        assert!(lost.len().abs_diff(5000) < 250, "{}", lost.len());
        let feigned = hit(7, 0, Verdict::Feign);
        assert!(feigned.len().abs_diff(1250) < 170, "{}", feigned.len());
    }

    #[test]
    fn one_that_is_lost_is_drawn_for_again_and_no_other() {
        let mut qp = QpFaults::new(faults("drop=0.5"), 1, 0);
        let mut attempts = 0u32;
        for number in 1..=1000 {
            while qp.verdict(number, false, false) == Verdict::Lose {
                attempts += 1;
                assert_eq!(qp.pending(number), Some(Verdict::Lose));
            }
            // Further attempts draw nothing.
            assert!((0..10).all(|_| qp.verdict(number, false, false) == Verdict::Go));
        }
        // The expected number of losses is one for each request; the standard deviation of the sum is 45.
        assert!(attempts.abs_diff(1000) < 225, "{attempts}");
    }

    #[test]
    fn never_and_always() {
        let mut never = QpFaults::new(faults("drop=0,rnr=0"), 1, 0);
        let mut always = QpFaults::new(faults("drop=1"), 1, 0);
        for number in 1..1000 {
            assert_eq!(never.verdict(number, true, false), Verdict::Go);
            assert_eq!(always.verdict(number, true, false), Verdict::Lose);
        }
    }
}
