//! Tests of runs on the simulator. They are one program, so that they run in parallel and are linked only
//! once.

mod allocation;
mod changed_profiles;
mod classes;
mod cliffs;
mod cover;
mod inline;
mod mix;
mod nearest;
mod optional;
mod options;
mod pace;
mod parameters;
mod simulate;
mod uncertainty;
mod vector_io;
mod walk;
