//! Tests the library with programs that load it. All tests are in one executable, because cargo runs
//! executables one after the other and links each. A test that needs its own process runs this executable
//! again as its program.

mod atomic_write;
mod calls;
mod channels;
mod ci;
mod cm;
mod common;
mod drawn;
mod drops;
mod edges;
mod ends;
mod errors;
mod events;
mod fabrics;
mod faults;
mod files;
mod headers;
mod joined;
mod library;
mod loading;
mod multicast;
mod places;
mod processes;
mod programs;
mod pyverbs;
mod refusals;
mod refused;
mod shared_words;
mod shown_as;
mod stacks;
mod statistics;
mod strict;
mod systems;
mod timers;
mod trace;
mod waits;
mod why;
mod windows;
mod xrc;
