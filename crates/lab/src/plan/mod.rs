//! Plans and makes runs.
//!
//! Code that needs results requests runs. Runs without a known result go to a list. The cores make the listed
//! runs, and then the requesting code is called again. This repeats until the code has all results that it
//! needs. So each distinct run is made only once.

mod execute;
mod known;
mod make;
mod memory;
mod not_yet;
mod patience;
mod run;
mod stored;
mod system;
mod verbs;
mod work;

pub use execute::{Control, Making, cores};
pub use known::Known;
pub(crate) use make::all;
pub use make::simulate;
pub use not_yet::NotYet;
pub(crate) use run::Key;
pub use run::Run;
pub(crate) use stored::MODEL;
pub use stored::{Size, Stored, Taken};
pub(crate) use work::Work;
