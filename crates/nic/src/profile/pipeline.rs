//! Parameters of the pipeline that all sending units of a NIC share.

use super::parameter::{ProfileError, ProfileReader, Section, Unit, section};
use doorbell_verbs::Span;
use toml::Spanned;

section! {
    /// The pipeline through which all sending units pass their requests. It limits the rate of the whole NIC,
    /// while the units limit the rate of a few QPs. A profile without this section has no such limit.
    Pipeline in "pipeline" {
        /// Least time between the beginnings of two request packets; 0 for no limit.
        request: Span = "request_ns" Nanoseconds 0..=1000;
    }
}
