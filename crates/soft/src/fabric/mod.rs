//! The processes that use the device: how they find, map and wake each other, and how they detect that a
//! process has exited.

pub(crate) mod copier;
pub(crate) mod domains;
pub(crate) mod folder;
pub(crate) mod link;
pub(crate) mod locks;
pub(crate) mod mapping;
pub(crate) mod member;
pub(crate) mod peer;
pub(crate) mod pipe;
pub(crate) mod process;
pub(crate) mod progress;
pub(crate) mod ptrace;
pub(crate) mod registry;
mod revoking;
pub(crate) mod service;
pub(crate) mod spare_copies;
pub(crate) mod wire;
pub(crate) mod words;
