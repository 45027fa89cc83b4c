//! Differences between a profile and the machine that its measurements support.

use super::machine::{OtherHost, Profile};
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
    /// Another value of a parameter of the host to which the NIC was moved.
    OtherHost {
        /// The profile's parameter.
        parameter: &'a Parameter,
        /// The host's name.
        host: &'a str,
        /// The host's value, in the parameter's unit.
        own: f64,
    },
    /// A value that was set over a profile without a record of supported values.
    Set {
        /// The profile's parameter.
        parameter: &'a Parameter,
        /// The profile's own value, in the parameter's unit.
        instead_of: f64,
    },
    /// A parameter that the measured machine lacks.
    Added(&'a Parameter),
    /// The name of a parameter that only the measured machine has.
    Missing(String),
}

/// A value with its unit.
struct ShownValue(f64, Unit);

impl fmt::Display for ShownValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ShownValue(value, unit) = self;
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
                let (here, measured) = (ShownValue(*value, *unit), ShownValue(*measured, *unit));
                write!(f, "{name} is {here}, but the measurements support {measured}")
            }
            Difference::OtherHost { parameter: Parameter { name, value, unit, .. }, host, own } => {
                write!(
                    f,
                    "{name} is {}, but {host} has {}",
                    ShownValue(*value, *unit),
                    ShownValue(*own, *unit)
                )
            }
            Difference::Set { parameter: Parameter { name, value, unit, .. }, instead_of } => {
                let (here, own) = (ShownValue(*value, *unit), ShownValue(*instead_of, *unit));
                write!(f, "{name} is set by you to {here}, instead of {own}")
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
            Difference::Value { parameter, .. }
            | Difference::OtherHost { parameter, .. }
            | Difference::Set { parameter, .. }
            | Difference::Added(parameter) => Some(&parameter.name),
            Difference::Missing(name) => Some(name),
        }
    }
}

impl Profile {
    /// Differences from the machine that the measurements support. If the file does not record this machine,
    /// these are the parameters that were set over the file. If the NIC was moved, parameters of the host are
    /// compared with the values of the new host.
    pub fn differences(&self) -> Vec<Difference<'_>> {
        let Some(measured) = &self.measured.machine else {
            return self.parameters.iter().filter_map(set_over).collect();
        };
        let here = self.device.generation;
        let generation = (here != measured.generation)
            .then_some(Difference::Generation { here, measured: measured.generation });
        let own = self.parameters.iter().filter_map(|parameter| match self.other_host(&parameter.name) {
            Some(host) => of_other_host(parameter, host),
            None => of_measured(parameter, measured),
        });
        let is_missing = |name: &String| {
            let is_here = self.parameters.iter().any(|parameter| parameter.name == *name);
            !is_here && self.other_host(name).is_none()
        };
        let missing = measured.names().filter(is_missing).map(Difference::Missing);
        generation.into_iter().chain(own).chain(missing).collect()
    }

    /// The host to which the NIC was moved, for the name of a parameter of the host.
    fn other_host(&self, name: &str) -> Option<&OtherHost> {
        self.moved_to.as_ref().filter(|_| Profile::is_of_host(name))
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

/// The difference between a parameter and the measured machine.
fn of_measured<'a>(parameter: &'a Parameter, machine: &MeasuredMachine) -> Option<Difference<'a>> {
    match machine.value(&parameter.name) {
        Some(value) if value == parameter.value => None,
        Some(measured) => Some(Difference::Value { parameter, measured }),
        None => Some(added(parameter)),
    }
}

/// The difference of a parameter that the measured machine lacks.
fn added(parameter: &Parameter) -> Difference<'_> {
    set_over(parameter).unwrap_or(Difference::Added(parameter))
}

/// The difference between a parameter and the host to which the NIC was moved.
fn of_other_host<'a>(parameter: &'a Parameter, host: &'a OtherHost) -> Option<Difference<'a>> {
    match host.values.get(&parameter.name) {
        Some(value) if *value == parameter.value => None,
        Some(own) => Some(Difference::OtherHost { parameter, host: &host.name, own: *own }),
        None => Some(added(parameter)),
    }
}

/// The difference that setting a parameter over the file made.
fn set_over(parameter: &Parameter) -> Option<Difference<'_>> {
    match parameter.basis {
        Basis::Set { instead_of } if instead_of != parameter.value => {
            Some(Difference::Set { parameter, instead_of })
        }
        _ => None,
    }
}
