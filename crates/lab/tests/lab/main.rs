//! Tests of runs, on the simulator. One program: its tests run beside each other, and each program would be linked anew.

mod allocation;
mod classes;
mod cliffs;
mod cover;
mod mix;
mod options;
mod pace;
mod parameters;
mod simulate;
mod uncertainty;
mod vector_io;
mod walk;
