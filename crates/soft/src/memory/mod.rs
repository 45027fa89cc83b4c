//! Memory: what a process shows the others of itself, the memory of programs that verbs reach, and
//! how bytes are moved.

pub mod arena;
pub(crate) mod cause;
pub(crate) mod groups;
pub(crate) mod lock;
pub(crate) mod maps;
pub(crate) mod records;
pub(crate) mod regions;
pub(crate) mod segment;
pub(crate) mod transfer;
pub(crate) mod window;
pub(crate) mod windows;
