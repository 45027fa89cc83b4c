//! Tests of the code's structure, for all crates.

mod circles;
mod ignored;
mod source;
mod type_names;
mod typed_names;
