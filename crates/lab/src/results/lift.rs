//! Gains from more of a resource, and options with a higher rate.

use doorbell_nic::{LatencyPart, More, Resource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A relative change of the rate, with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gain {
    /// Relative change: 0.1 is 10% more.
    pub gain: f64,
    /// Half-width of the 95% confidence interval; `None` if not known.
    pub half: Option<f64>,
}

/// Smaller gains count as none.
const NOTICEABLE: f64 = 0.01;

impl Gain {
    /// No change, known exactly.
    pub(crate) const NONE: Gain = Gain { gain: 0.0, half: Some(0.0) };

    /// The change from one rate to another. Each rate comes with the half-width of its interval.
    pub(crate) fn between(before: (f64, Option<f64>), after: (f64, Option<f64>)) -> Gain {
        if before.0 <= 0.0 {
            return Gain { gain: 0.0, half: None };
        }
        let ratio = after.0 / before.0;
        // Both runs use equal draws, but the draws act differently. So the errors count as independent,
        // although this overestimates the error of the ratio.
        let half = before.1.zip(after.1).map(|(a, b)| (ratio * a / before.0).hypot(b / before.0));
        Gain { gain: ratio - 1.0, half }
    }

    /// Whether the rate changes noticeably, up or down.
    pub fn is_noticeable(self) -> bool {
        self.gain.abs() >= NOTICEABLE.max(self.half.unwrap_or(0.0))
    }

    /// Whether the rate is higher, or seems higher with an interval too wide to be sure.
    pub(crate) fn may_be_more(self) -> bool {
        self.gain >= NOTICEABLE
    }

    /// Whether the rate is noticeably higher.
    pub fn is_more(self) -> bool {
        self.gain > 0.0 && self.is_noticeable()
    }
}

/// Gain from more of a resource.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Lift {
    /// Name of the resource.
    #[schemars(with = "String")]
    pub resource: Resource,
    /// Relative change of the rate: 0.1 is 10% more.
    pub gain: f64,
    /// Half-width of the 95% confidence interval of the gain; null if not known.
    #[serde(default)]
    pub gain_half: Option<f64>,
    /// Factor by which the resource was increased.
    pub factor: f64,
    /// Kind of the increase: speed or size, or the number of entries, units or outstanding requests.
    pub of: Relaxed,
}

/// Kind of an increase of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Relaxed {
    /// Rates and sizes are multiplied, times are divided.
    Speed,
    /// The number of entries, units or outstanding requests is multiplied.
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

    /// The increase in words: `dma-bw +10%`, `nic-qp-cache x2`.
    pub fn more(&self) -> String {
        format!("{} {}", self.resource, self.amount())
    }

    /// Amount of the increase: `+10%`, `x2`.
    pub fn amount(&self) -> String {
        match self.of {
            Relaxed::Speed => format!("{:+.0}%", (self.factor - 1.0) * 100.0),
            Relaxed::Number => format!("x{}", self.factor),
        }
    }
}

/// Gain from more of several resources at once, if no single one gains as much.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TogetherLift {
    /// Names of the resources.
    #[schemars(with = "Vec<String>")]
    pub resources: Vec<Resource>,
    /// The increases in words, in the order of `resources`.
    pub more: Vec<String>,
    /// Relative change of the rate: 0.1 is 10% more.
    pub gain: f64,
    /// Half-width of the 95% confidence interval of the gain; null if not known.
    pub gain_half: Option<f64>,
}

/// Gain from more of a resource on the machines of one group only.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GroupLift {
    /// Number of the group in the workload.
    pub group: usize,
    /// Name of the resource.
    #[schemars(with = "String")]
    pub resource: Resource,
    /// Relative change of the rate: 0.1 is 10% more.
    pub gain: f64,
    /// Half-width of the 95% confidence interval of the gain; null if not known.
    #[serde(default)]
    pub gain_half: Option<f64>,
}

/// Parts of the mean latency of an operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperationTime {
    /// Parts of the latency if nothing has to wait, largest first.
    pub parts: Vec<TimePart>,
    /// Sum of these parts in nanoseconds.
    pub least_ns: f64,
    /// Rest of the latency in nanoseconds: waiting, and the extra cost of a QP that was idle.
    pub waiting_ns: f64,
}

/// A part of an operation's latency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TimePart {
    /// Name of the part: `PCIe`, `core`, `sending unit`, `receiving unit`, `link`, `cables and switch`.
    #[schemars(with = "String")]
    pub part: LatencyPart,
    /// Duration in nanoseconds.
    pub ns: f64,
}

/// Changed options with a higher rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Advice {
    /// The complete command with these options.
    pub command: String,
    /// Rate of this command in millions per second.
    pub mops: f64,
    /// Half-width of the 95% confidence interval of the rate; null if not known.
    pub mops_half: Option<f64>,
    /// Relative change of the rate: 0.1 is 10% more.
    pub gain: f64,
    /// Half-width of the 95% confidence interval of the gain; null if not known.
    pub gain_half: Option<f64>,
    /// Why the measured rate may differ from the long-run rate, in words; absent if it does not.
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
