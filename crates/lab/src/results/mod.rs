//! What runs gave.

pub(crate) mod outcome;
