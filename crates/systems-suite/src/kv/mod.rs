//! The stores are linearizable for each key.

mod case;
mod history;
mod script;

pub use case::{Case, History, Store};
pub(crate) use case::{Shape, wait};
pub(crate) use history::{Event, Op};
pub(crate) use script::{KEYS, LENGTHS, MAX_REQUEST_VALUE, MAX_VALUE, Script, number, value};
