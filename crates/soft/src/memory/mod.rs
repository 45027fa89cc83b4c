//! The segment that a process shares with its peers, the program memory that verbs access, and payload
//! copies.

pub mod arena;
pub(crate) mod cause;
pub(crate) mod copies;
pub(crate) mod copy;
pub(crate) mod groups;
pub(crate) mod lock;
pub(crate) mod maps;
pub(crate) mod objects;
pub(crate) mod records;
pub(crate) mod regions;
pub(crate) mod segment;
pub(crate) mod transfer;
pub(crate) mod window;
pub(crate) mod windows;
