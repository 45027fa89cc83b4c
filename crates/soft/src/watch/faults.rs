//! Faults that `doorbell run --fault` asks for: which work requests they come to, and when.
//!
//! What is drawn depends on the seed, on the how-manyth QP of its process this is and how often that was reset, on the
//! number of the work request, and on how often it was lost before; never on time, addresses or numbers of processes.
//! So the same program meets the same faults in every run.

use crate::say::say;
use std::collections::VecDeque;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};
use thiserror::Error;

/// The faults as the command line has them, and the seed.
pub(crate) const FAULTS_VARIABLE: &str = "DOORBELL_FAULT";
pub(crate) const SEED_VARIABLE: &str = "DOORBELL_SEED";

/// How often the responder has no RECV, where nothing else is said.
const USUAL_RNR: &str = "1e-2";

/// Faults that come to a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// How often a message is lost.
    drop: Chance,
    /// By how much work requests are carried out later, at least and at most.
    delay: Option<(Duration, Duration)>,
    /// How often the responder answers as if it had no RECV.
    rnr: Chance,
    /// Number of the send work request by which each QP ends.
    kill: Option<u64>,
    /// From when on the port is down, and until when, since the device was opened.
    port_down: Option<(Duration, Option<Duration>)>,
    text: String,
}

/// A probability, in parts of 2^64 - 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Chance(u64);

/// Why a text says no faults.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct BadFaults(String);

impl Chance {
    fn parse(fault: &str, text: &str) -> Result<Chance, BadFaults> {
        let number: Option<f64> = text.parse().ok().filter(|number| (0.0..=1.0).contains(number));
        let wrong = || BadFaults(format!("{fault}={text}: {text:?} is no probability from 0 to 1, as 1e-4"));
        // The conversion saturates.
        Ok(Chance((number.ok_or_else(wrong)? * u64::MAX as f64) as u64))
    }

    fn is_hit(self, drawn: u64) -> bool {
        self.0 != 0 && drawn <= self.0
    }
}

fn duration(fault: &str, text: &str) -> Result<Duration, BadFaults> {
    let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let parsed = units.iter().find_map(|(unit, ns)| Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * ns));
    // An hour is more than any test takes.
    let ns = parsed.filter(|ns| (0.0..=3.6e12).contains(ns));
    let wrong = || {
        BadFaults(format!(
            "{fault}: {text:?} is no time up to an hour: give a number with ns, us, ms or s, as 10us"
        ))
    };
    ns.map(|ns| Duration::from_nanos(ns as u64)).ok_or_else(wrong)
}

/// Two times, the second not before the first.
fn span(fault: &str, text: &str) -> Result<(Duration, Option<Duration>), BadFaults> {
    let Some((from, to)) = text.split_once("..") else { return Ok((duration(fault, text)?, None)) };
    let (from, to) = (duration(fault, from)?, duration(fault, to)?);
    if from > to {
        return Err(BadFaults(format!("{fault}: {text} ends before it begins: give the lesser time first")));
    }
    Ok((from, Some(to)))
}

impl FromStr for Faults {
    type Err = BadFaults;

    fn from_str(text: &str) -> Result<Faults, BadFaults> {
        let mut faults = Faults { text: text.to_owned(), ..Faults::default() };
        let mut seen: Vec<&str> = Vec::new();
        for fault in text.split(',') {
            let (name, value) = match fault.split_once(['=', '@']) {
                Some((name, value)) => (name, Some(value)),
                None => (fault, None),
            };
            let sign = fault.as_bytes().get(name.len());
            match (name, sign, value) {
                ("drop", Some(b'='), Some(value)) => faults.drop = Chance::parse(name, value)?,
                ("delay", Some(b'='), Some(value)) => {
                    let (least, most) = span(name, value)?;
                    faults.delay = Some((least, most.unwrap_or(least)));
                }
                ("rnr", None, None) => faults.rnr = Chance::parse(name, USUAL_RNR)?,
                ("rnr", Some(b'='), Some(value)) => faults.rnr = Chance::parse(name, value)?,
                ("kill-qp", Some(b'@'), Some(value)) => {
                    let number = value.parse().ok().filter(|number: &u64| *number > 0);
                    let wrong = || {
                        BadFaults(format!(
                            "kill-qp@{value}: {value:?} is no number of a work request from 1 on"
                        ))
                    };
                    faults.kill = Some(number.ok_or_else(wrong)?);
                }
                ("port-down", Some(b'@'), Some(value)) => faults.port_down = Some(span(name, value)?),
                _ => {
                    return Err(BadFaults(format!(
                        "{fault:?} is no fault: give drop=P, delay=T or T1..T2, rnr or rnr=P, kill-qp@N, port-down@T or \
                         T1..T2, with commas between"
                    )));
                }
            }
            if seen.contains(&name) {
                return Err(BadFaults(format!("{name} is given twice, and is to be given once")));
            }
            seen.push(name);
        }
        Ok(faults)
    }
}

impl Display for Faults {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The faults of this process, and their seed.
fn own() -> Option<&'static (Faults, u64)> {
    static OWN: OnceLock<Option<(Faults, u64)>> = OnceLock::new();
    let read = || {
        let text = std::env::var(FAULTS_VARIABLE).ok().filter(|text| !text.is_empty())?;
        let seed = std::env::var(SEED_VARIABLE).ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
        match text.parse() {
            Ok(faults) => Some((faults, seed)),
            Err(error) => {
                say(format_args!("there are no faults, as {FAULTS_VARIABLE} cannot be read: {error}"));
                None
            }
        }
    };
    OWN.get_or_init(read).as_ref()
}

/// From when on the port is down, and until when.
pub(super) fn port_down() -> Option<(Duration, Option<Duration>)> {
    own()?.0.port_down
}

/// What has happened to a process's work requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hit {
    Lost,
    Delayed,
    Feigned,
    Killed,
    PortDown,
}

static HITS: [AtomicU64; 5] = [const { AtomicU64::new(0) }; 5];

fn count(hit: Hit) {
    HITS[hit as usize].fetch_add(1, Relaxed);
}

/// Has it told when this process ends what has happened; a child of fork(2) begins anew.
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

/// QPs that this process has made.
static QPS: AtomicU32 = AtomicU32::new(0);

/// What comes to a work request that is to be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing: it is carried out.
    Go,
    /// It is not yet time for it.
    Late,
    /// The QP ends by it.
    Kill,
    /// Nobody is reached.
    PortDown,
    /// It is lost.
    Lose,
    /// It is answered as if no RECV were posted.
    Feign,
}

/// The faults of a QP.
#[derive(Debug)]
pub(crate) struct QpFaults {
    faults: &'static Faults,
    seed: u64,
    /// Which QP of its process it is, from 0, and how often it was reset.
    ordinal: u64,
    lives: u64,
    /// When those that wait are to be carried out, the oldest first.
    due: VecDeque<(u64, Instant)>,
    /// The work request that was drawn for last; how often it was drawn for, and what came of it.
    number: u64,
    attempt: u64,
    last: Verdict,
}

/// Draws that are made of one work request.
#[derive(Clone, Copy)]
enum Draw {
    Drop,
    Rnr,
    Delay,
}

impl QpFaults {
    /// Those of a new QP, where faults are wanted.
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

    /// A work request is posted.
    pub(crate) fn posted(&mut self, number: u64) {
        let Some((least, most)) = self.faults.delay else { return };
        let range = (most - least).as_nanos() as u64;
        let drawn = (u128::from(self.draw(Draw::Delay, number, 0)) * u128::from(range)) >> 64;
        let due = Instant::now() + least + Duration::from_nanos(drawn as u64);
        // What is posted later is not carried out sooner.
        let due = self.due.back().map_or(due, |(_, before)| due.max(*before));
        self.due.push_back((number, due));
        count(Hit::Delayed);
    }

    /// When the oldest that waits for its time is due.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due.front().map(|(_, due)| *due)
    }

    /// What comes to the oldest work request, each time that it is tried. Whether it is lost is drawn once, and again after
    /// it was: how often it is tried for other reasons depends on time.
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

    /// What the oldest work request waits for, if a fault has come to it.
    pub(crate) fn pending(&self, number: u64) -> Option<Verdict> {
        (self.number == number && self.last != Verdict::Go).then_some(self.last)
    }

    /// Whether the QP ends by this work request.
    pub(crate) fn kills(&self, number: u64) -> bool {
        self.faults.kill == Some(number)
    }

    /// How often a fault has come to it.
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

    /// The work requests of 1 to 10 000 that are lost, or answered so.
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
            // However often it is tried now.
            assert!((0..10).all(|_| qp.verdict(number, false, false) == Verdict::Go));
        }
        // One loss each is expected; the standard deviation of the sum is 45.
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

    #[test]
    fn bad_faults_are_refused_in_a_sentence() {
        for (text, what) in [
            ("", "\"\" is no fault: give drop=P"),
            ("drop", "\"drop\" is no fault"),
            ("drop@3", "\"drop@3\" is no fault"),
            ("drop=2", "drop=2: \"2\" is no probability from 0 to 1"),
            ("drop=NaN", "is no probability"),
            ("drop=0.1,drop=0.2", "drop is given twice"),
            ("delay=10", "delay: \"10\" is no time up to an hour"),
            ("delay=20us..10us", "ends before it begins"),
            ("kill-qp@0", "kill-qp@0: \"0\" is no number of a work request"),
            ("kill-qp=5", "\"kill-qp=5\" is no fault"),
            ("port-down@-1s", "is no time"),
            ("rnr,", "\"\" is no fault"),
        ] {
            let error = text.parse::<Faults>().expect_err(text).to_string();
            assert!(error.contains(what), "{text}: {error}");
        }
        for text in
            ["drop=1e-4", "delay=10us..1ms,rnr", "kill-qp@5,port-down@1s..2s,drop=1", "rnr=0.5,delay=0ns"]
        {
            assert_eq!(text.parse::<Faults>().expect(text).to_string(), text);
        }
    }
}
