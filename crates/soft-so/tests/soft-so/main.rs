//! Tests of the library, with programs that load it. One program: its tests run beside each other, and each program would be
//! linked anew. What must be alone in a process is a program that a test runs: this executable once more.

mod channels;
mod ci;
mod cm;
mod common;
mod edges;
mod ends;
mod events;
mod fabrics;
mod faults;
mod files;
mod headers;
mod joined;
mod library;
mod loading;
mod multicast;
mod processes;
mod programs;
mod pyverbs;
mod refusals;
mod shown_as;
mod stacks;
mod statistics;
mod strict;
mod systems;
mod trace;
mod why;
mod windows;
mod xrc;
