//! Checks that stores are linearizable for each key.

mod case;
mod history;
mod script;

pub use case::{CaseStore, History, KvCase};
pub(crate) use case::{KvShape, wait};
pub(crate) use history::{KvEvent, KvOp};
pub(crate) use script::{KEYS, LENGTHS, MAX_REQUEST_VALUE, MAX_VALUE, Script, number, value};
