//! Measures the sentences of pages, comments and messages.
//!
//! [`markdown()`] and [`comments`] turn a text into [`Passage`]s, [`sentences`] splits a passage, and
//! [`Measure`] counts. [`words_by_hand`] returns the length of a page. The rules are on the page
//! `docs/notes/prose.md`.
#![forbid(unsafe_code)]

mod by_hand;
mod markdown;
mod measure;
mod passage;
mod rust_source;
mod sentence;
mod verbs;
mod width;

pub use by_hand::words_by_hand;
pub use markdown::markdown;
pub use measure::{Breach, Measure, ProseLimits};
pub use passage::{Form, Passage};
pub use rust_source::{comments, literal_length, messages};
pub use sentence::{Sentence, sentences};
pub use width::{MOST_COLUMNS, too_wide_comments, too_wide_lines};
