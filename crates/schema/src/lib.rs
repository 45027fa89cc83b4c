//! Fields of what can be asked for, each said once: its name, unit, range, what is usual, one sentence.
//!
//! [`schema!`] makes types of lists of [`Field`]s. What people write in TOML, in JSON and as flags becomes a
//! [`Given`], which is checked against the fields as it is read; types take their values from it. Docs are
//! tables of the fields ([`table`]). Nothing here knows what the fields are about: durations, shares and arrivals are types of
//! values that several of them have.
#![forbid(unsafe_code)]

mod arrivals;
mod duration;
mod field;
pub mod json_schema;
mod read;
mod settings;
mod share;
mod types;
mod value;

pub use arrivals::Arrivals;
pub use duration::{BadDuration, Duration};
pub use field::{Field, FieldKind, Flag, Flags, Says, check, one_of, table};
pub use read::{FieldTable, SchemaError, VERSION, line_of, meant, nearest};
pub use settings::{Real, Settings};
pub use share::{BadShare, Share};
pub use types::Schema;
pub use value::{Given, Value};

/// For [`schema!`].
#[doc(hidden)]
pub use {schemars, serde};
