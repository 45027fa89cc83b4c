//! How the code of all crates is put together.

mod circles;
mod source;
mod type_names;
mod typed_names;
