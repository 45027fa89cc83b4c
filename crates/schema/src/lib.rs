//! Fields of user input. Each field is described once: its name, unit, range, usual value and one sentence.
//!
//! [`schema!`] makes types of lists of [`Field`]s. TOML, JSON and flags become a [`Given`], which is checked
//! against the fields as it is read. Types take their values from it. Pages contain tables of the fields
//! ([`table`]). This crate does not know the meaning of the fields: durations, shares, arrivals and ends of
//! runs are types of values that several fields have.
#![forbid(unsafe_code)]

mod arrivals;
mod duration;
mod field;
pub mod json_schema;
mod number;
mod read;
mod settings;
mod share;
mod types;
mod until;
mod value;

pub use arrivals::Arrivals;
pub use duration::{BadDuration, Duration};
pub use field::{Field, FieldKind, Flag, Flags, Says, check, named, one_of, table};
pub use number::{BadNumber, NumberUnit, check_percentages, weight};
pub use read::{FieldTable, SchemaError, VERSION, line_of, meant, nearest, synonyms};
pub use settings::{Real, Settings};
pub use share::{BadShare, Share};
pub use types::Schema;
pub use until::Until;
pub use value::{Given, Value};

/// Re-exported for [`schema!`].
#[doc(hidden)]
pub use {schemars, serde};
