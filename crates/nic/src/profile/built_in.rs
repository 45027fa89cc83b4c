//! The profiles that come with Doorbell.

use super::machine::Profile;

/// A profile that comes with Doorbell: a file in `profiles/`.
pub(super) struct BuiltIn {
    pub(super) name: &'static str,
    /// The processor of its host. Other profiles refer to the host by this name.
    pub(super) processor: Option<&'static str>,
    pub(super) text: &'static str,
}

// `BUILT_IN` and `NIC_MODELS`, which the build script generates from the files.
include!(concat!(env!("OUT_DIR"), "/built_in.rs"));

/// All built-in profiles.
pub(super) fn all() -> &'static [BuiltIn] {
    BUILT_IN
}

/// Name and text of each model of a NIC: a file in `profiles/nics`.
pub(super) fn models() -> &'static [(&'static str, &'static str)] {
    NIC_MODELS
}

impl Profile {
    /// Names of the built-in profiles.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|built_in| built_in.name)
    }

    /// Names of hosts, by their processors.
    pub fn host_names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().filter_map(|built_in| built_in.processor)
    }
}
