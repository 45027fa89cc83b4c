//! What needs to be run, and the running of it.
//!
//! Whoever needs results asks for them. What is asked for and not known becomes part of one list; the list goes to
//! the cores, and those who asked are asked again, until they have all they need. So every distinct run is made
//! once, and nothing is listed twice.

mod execute;
mod known;
mod make;
mod memory;
mod not_yet;
mod run;
mod stored;
mod system;
mod verbs;
mod work;

pub use execute::{Control, cores};
pub use known::Known;
pub(crate) use make::all;
pub use make::simulate;
pub use not_yet::NotYet;
pub use run::Run;
pub(crate) use stored::MODEL;
pub use stored::{Size, Stored, Taken};
pub use work::Work;
