//! The faults that `doorbell run --fault` injects, and their text form.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;
use std::time::Duration;
use thiserror::Error;

/// The probability of `rnr` if none is given.
const USUAL_RNR: &str = "1e-2";

/// Faults to inject into a program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// The probability that a transmission is lost.
    pub drop: Chance,
    /// The shortest and the longest delay of a work request.
    pub delay: Option<(Duration, Duration)>,
    /// The probability that the responder answers as if it had no RECV.
    pub rnr: Chance,
    /// In each QP, the send work request with this number (from 1) moves the QP to the error state.
    pub kill: Option<u64>,
    /// The times at which the port goes down and comes up again, counted from the opening of the device.
    /// Without the second time, the port stays down.
    pub port_down: Option<(Duration, Option<Duration>)>,
    text: String,
}

/// A probability, in units of 1 / (2^64 - 1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Chance(u64);

/// The reason why a text is not a list of faults.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct BadFaults(String);

impl Chance {
    fn parse(fault: &str, text: &str) -> Result<Chance, BadFaults> {
        let number: Option<f64> = text.parse().ok().filter(|number| (0.0..=1.0).contains(number));
        let wrong =
            || BadFaults(format!("{fault}={text}: {text:?} is not a probability from 0 to 1, such as 1e-4"));
        // The cast saturates, so a probability of 1 becomes `u64::MAX`.
        Ok(Chance((number.ok_or_else(wrong)? * u64::MAX as f64) as u64))
    }

    /// Whether a uniformly drawn 64-bit number is a hit.
    pub fn is_hit(self, drawn: u64) -> bool {
        self.0 != 0 && drawn <= self.0
    }
}

/// Parses a time of at most an hour, such as `10us`. The limit is an hour, because no test takes longer.
pub fn time(text: &str) -> Option<Duration> {
    let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let parsed = units.iter().find_map(|(unit, ns)| Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * ns));
    let ns = parsed.filter(|ns| (0.0..=3.6e12).contains(ns))?;
    Some(Duration::from_nanos(ns as u64))
}

fn duration(fault: &str, text: &str) -> Result<Duration, BadFaults> {
    time(text).ok_or_else(|| {
        BadFaults(format!(
            "{fault}: {text:?} is not a time of at most an hour; write a number with ns, us, ms or s, such \
             as 10us"
        ))
    })
}

/// Parses `T` or `T1..T2`. T1 must not exceed T2.
fn span(fault: &str, text: &str) -> Result<(Duration, Option<Duration>), BadFaults> {
    let Some((from, to)) = text.split_once("..") else { return Ok((duration(fault, text)?, None)) };
    let (from, to) = (duration(fault, from)?, duration(fault, to)?);
    if from > to {
        return Err(BadFaults(format!(
            "{fault}: {text} ends before it begins; write the smaller time first"
        )));
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
                            "kill-qp@{value}: {value:?} is not the number of a work request; numbers start \
                             at 1"
                        ))
                    };
                    faults.kill = Some(number.ok_or_else(wrong)?);
                }
                ("port-down", Some(b'@'), Some(value)) => faults.port_down = Some(span(name, value)?),
                _ => {
                    return Err(BadFaults(format!(
                        "{fault:?} is not a fault; the faults are drop=P, delay=T or T1..T2, rnr or rnr=P, \
                         kill-qp@N, port-down@T or T1..T2, separated by commas"
                    )));
                }
            }
            if seen.contains(&name) {
                return Err(BadFaults(format!("{name} is given twice; give it once")));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_faults_are_refused_in_a_sentence() {
        for (text, what) in [
            ("", "\"\" is not a fault; the faults are drop=P"),
            ("drop", "\"drop\" is not a fault"),
            ("drop@3", "\"drop@3\" is not a fault"),
            ("drop=2", "drop=2: \"2\" is not a probability from 0 to 1"),
            ("drop=NaN", "is not a probability"),
            ("drop=0.1,drop=0.2", "drop is given twice"),
            ("delay=10", "delay: \"10\" is not a time of at most an hour"),
            ("delay=20us..10us", "ends before it begins"),
            ("kill-qp@0", "kill-qp@0: \"0\" is not the number of a work request"),
            ("kill-qp=5", "\"kill-qp=5\" is not a fault"),
            ("port-down@-1s", "is not a time"),
            ("rnr,", "\"\" is not a fault"),
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
