//! The gain from more of a resource, and other options with a higher rate.

use doorbell_nic::{LatencyPart, More, Resource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A relative change of the rate, and how sure it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gain {
    /// 0.1 is 10% more.
    pub gain: f64,
    /// Half of the interval around it that holds the true one in 95 of 100 cases; `None` where it is not known.
    pub half: Option<f64>,
}

/// A gain below this is none: it is chance, or not worth a word.
const NOTICEABLE: f64 = 0.01;

impl Gain {
    /// No change at all.
    pub(crate) const NONE: Gain = Gain { gain: 0.0, half: Some(0.0) };

    /// From one rate to another, each with half of its interval.
    pub(crate) fn between(before: (f64, Option<f64>), after: (f64, Option<f64>)) -> Gain {
        if before.0 <= 0.0 {
            return Gain { gain: 0.0, half: None };
        }
        let ratio = after.0 / before.0;
        // Draws are the same, but what they do is not: rates are taken to err independently, which is rather more.
        let half = before.1.zip(after.1).map(|(a, b)| (ratio * a / before.0).hypot(b / before.0));
        Gain { gain: ratio - 1.0, half }
    }

    /// Whether it is a change, up or down.
    pub fn is_noticeable(self) -> bool {
        self.gain.abs() >= NOTICEABLE.max(self.half.unwrap_or(0.0))
    }

    /// Whether the rate is higher, or looks so and is not known well enough.
    pub(crate) fn may_be_more(self) -> bool {
        self.gain >= NOTICEABLE
    }

    /// Whether the rate is higher.
    pub fn is_more(self) -> bool {
        self.gain > 0.0 && self.is_noticeable()
    }
}

/// What more of a resource brings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Lift {
    /// Name of the resource.
    #[schemars(with = "String")]
    pub resource: Resource,
    /// Relative change of the rate: 0.1 is 10% more.
    pub gain: f64,
    /// Half of the interval around it that holds the true one in 95 of 100 cases; null where it is not known.
    #[serde(default)]
    pub gain_half: Option<f64>,
    /// How many times as much of the resource there was.
    pub factor: f64,
    /// What of: faster or larger by a part, or a multiple of the number of its entries, units, requests under way.
    pub of: Relaxed,
}

/// What there was more of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Relaxed {
    /// Rates and sizes are multiplied, times divided.
    Speed,
    /// The number of its entries, units, requests under way.
    Number,
}

impl Lift {
    pub(crate) fn of(more: More, gain: Gain) -> Lift {
        let of = match more {
            More::Tenth(_) => Relaxed::Speed,
            More::Times(..) => Relaxed::Number,
        };
        Lift { resource: more.resource(), gain: gain.gain, gain_half: gain.half, factor: more.factor(), of }
    }

    /// The change of the rate.
    pub fn change(&self) -> Gain {
        Gain { gain: self.gain, half: self.gain_half }
    }

    /// What there was more of, in words: `dma-bw +10%`, `nic-qp-cache x2`.
    pub fn more(&self) -> String {
        format!("{} {}", self.resource, self.amount())
    }

    /// How much more, in words: `+10%`, `x2`.
    pub fn amount(&self) -> String {
        match self.of {
            Relaxed::Speed => format!("{:+.0}%", (self.factor - 1.0) * 100.0),
            Relaxed::Number => format!("x{}", self.factor),
        }
    }
}

/// What more of several resources at once brings, of which no single one brings as much.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TogetherLift {
    /// Names of the resources.
    #[schemars(with = "Vec<String>")]
    pub resources: Vec<Resource>,
    /// What there was more of, in words, in the same order.
    pub more: Vec<String>,
    /// Relative change of the rate: 0.1 is 10% more.
    pub gain: f64,
    /// Half of the interval around it that holds the true one in 95 of 100 cases; null where it is not known.
    pub gain_half: Option<f64>,
}

/// What more of a resource brings, on the machines of a group alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GroupLift {
    /// Number of the group in the workload.
    pub group: usize,
    /// Name of the resource.
    #[schemars(with = "String")]
    pub resource: Resource,
    /// Relative change of the rate.
    pub gain: f64,
    /// Half of the interval around it that holds the true one in 95 of 100 cases; null where it is not known.
    #[serde(default)]
    pub gain_half: Option<f64>,
}

/// What the time of an operation consists of, on the average.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperationTime {
    /// What it takes where nothing waits for anything, by the part that takes it, the largest first.
    pub parts: Vec<TimePart>,
    /// Nanoseconds of all these parts.
    pub least_ns: f64,
    /// Nanoseconds beyond that: waiting for others, and what a QP takes that was idle.
    pub waiting_ns: f64,
}

/// What a part of the machines takes of an operation's time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimePart {
    /// Which: `PCIe`, `core`, `sending unit`, `receiving unit`, `link`, `cables and switch`.
    #[schemars(with = "String")]
    pub part: LatencyPart,
    /// Nanoseconds.
    pub ns: f64,
}

/// Other options with which the rate is higher.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Advice {
    /// The command with them, whole.
    pub command: String,
    /// Its rate in millions per second.
    pub mops: f64,
    /// Half of the interval around it that holds the true one in 95 of 100 cases; null where it is not known.
    pub mops_half: Option<f64>,
    /// Relative change of the rate: 0.1 is 10% more.
    pub gain: f64,
    /// Half of its interval.
    pub gain_half: Option<f64>,
    /// Why its measured time does not tell the rate in the long run, in words; absent where it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsettled: Option<String>,
}

impl Advice {
    /// The change of the rate.
    pub fn change(&self) -> Gain {
        Gain { gain: self.gain, half: self.gain_half }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gain_is_as_sure_as_both_rates() {
        let gain = Gain::between((10.0, Some(0.3)), (20.0, Some(0.8)));
        assert_eq!(gain.gain, 1.0);
        assert!((gain.half.unwrap() - 0.1).abs() < 1e-12, "{gain:?}: 2 x 3% and 8%");
        assert_eq!(Gain::between((10.0, None), (20.0, Some(1.0))).half, None);
        assert_eq!(Gain::between((0.0, None), (20.0, Some(1.0))).gain, 0.0);
    }

    #[test]
    fn what_is_within_its_interval_is_none() {
        let noticeable = |gain, half| Gain { gain, half: Some(half) }.is_noticeable();
        assert!(noticeable(0.03, 0.02) && noticeable(-0.03, 0.02));
        assert!(!noticeable(0.03, 0.04) && !noticeable(0.009, 0.0));
        assert!(Gain { gain: 0.02, half: None }.is_more() && !Gain { gain: -0.02, half: None }.is_more());
    }

    #[test]
    fn a_lift_says_what_there_was_more_of() {
        let tenth = Lift::of(More::Tenth(Resource::DmaBandwidth), Gain::NONE);
        let twice = Lift::of(More::Times(Resource::QpContextCache, 2), Gain::NONE);
        assert_eq!((tenth.more(), tenth.factor), ("dma-bw +10%".to_owned(), 1.1));
        assert_eq!((twice.more(), twice.factor), ("nic-qp-cache x2".to_owned(), 2.0));
    }
}
