//! Differences between a profile and the machine that its measurements support.

use super::machine::Profile;
use super::measured::MeasuredMachine;
use super::parameter::{Basis, Parameter, Unit};
use crate::Generation;
use std::fmt;

/// A difference between a profile and the machine that the profile's measurements support.
#[derive(Clone, Debug, PartialEq)]
pub enum Difference<'a> {
    /// Another generation.
    Generation {
        /// The profile's generation.
        here: Generation,
        /// The measured machine's generation.
        measured: Generation,
    },
    /// Another value of a parameter.
    Value {
        /// The profile's parameter.
        parameter: &'a Parameter,
        /// The measured machine's value, in the parameter's unit.
        measured: f64,
    },
    /// A parameter that the measured machine lacks.
    Added(&'a Parameter),
    /// The name of a parameter that only the measured machine has.
    Missing(String),
}

/// A value with its unit.
struct Shown(f64, Unit);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shown(value, unit) = self;
        match unit {
            Unit::Flag => write!(f, "{}", *value != 0.0),
            Unit::Count => write!(f, "{value}"),
            _ => write!(f, "{value} {unit}"),
        }
    }
}

/// A sentence without a full stop.
impl fmt::Display for Difference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Generation { here, measured } => {
                write!(f, "generation is {here}, but the measurements support {measured}")
            }
            Difference::Value { parameter: Parameter { name, value, unit, .. }, measured } => {
                let (here, measured) = (Shown(*value, *unit), Shown(*measured, *unit));
                write!(f, "{name} is {here}, but the measurements support {measured}")
            }
            Difference::Added(parameter) => {
                write!(f, "{} is not a parameter of the measured machine", parameter.name)
            }
            Difference::Missing(name) => write!(f, "only the measured machine has the parameter {name}"),
        }
    }
}

impl Difference<'_> {
    /// The name of the parameter that differs; `None` if the generation differs.
    pub fn parameter(&self) -> Option<&str> {
        match self {
            Difference::Generation { .. } => None,
            Difference::Value { parameter, .. } | Difference::Added(parameter) => Some(&parameter.name),
            Difference::Missing(name) => Some(name),
        }
    }
}

impl Profile {
    /// Differences from the machine that the measurements support. If the file does not record this machine,
    /// these are the parameters that were set over the file. In another host, the host's parameters are left
    /// out, because `moved_to` already marks them.
    pub fn differences(&self) -> Vec<Difference<'_>> {
        let Some(measured) = &self.measured.machine else {
            return self.parameters.iter().filter_map(set_over).collect();
        };
        let here = self.device.generation;
        let generation = (here != measured.generation)
            .then_some(Difference::Generation { here, measured: measured.generation });
        let compared = |name: &str| self.moved_to.is_none() || !Profile::is_of_host(name);
        let own = self.parameters.iter().filter_map(|parameter| match measured.value(&parameter.name) {
            Some(value) if value == parameter.value => None,
            Some(value) => Some(Difference::Value { parameter, measured: value }),
            None => Some(Difference::Added(parameter)),
        });
        let has = |name: &String| self.parameters.iter().any(|parameter| parameter.name == *name);
        let missing = measured.names().filter(|name| !has(name)).map(Difference::Missing);
        let all = generation.into_iter().chain(own).chain(missing);
        all.filter(|difference| difference.parameter().is_none_or(compared)).collect()
    }

    /// Whether the profile has exactly the values that its measurements support.
    pub fn is_measured_machine(&self) -> bool {
        self.measured.machine.is_some() && self.moved_to.is_none() && self.differences().is_empty()
    }

    /// This machine, as the section `[measured.machine]` of a file records it.
    pub fn as_measured(&self) -> MeasuredMachine {
        MeasuredMachine::of(self.device.generation, &self.parameters)
    }
}

/// The difference that setting a parameter over the file made.
fn set_over(parameter: &Parameter) -> Option<Difference<'_>> {
    match parameter.basis {
        Basis::Set { instead_of } if instead_of != parameter.value => {
            Some(Difference::Value { parameter, measured: instead_of })
        }
        _ => None,
    }
}
