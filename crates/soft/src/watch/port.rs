//! The state of the port, which `--fault port-down` takes down and up again.

use super::faults::port_down;
use crate::fabric::peer::Owner;
use crate::fabric::pipe::tell;
use crate::memory::records::EventRecord;
use crate::sync::lock;
use crate::thread::spawn;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// `IBV_EVENT_PORT_ACTIVE`, `IBV_EVENT_PORT_ERR`.
pub(crate) const EVENT_PORT_ACTIVE: u32 = 9;
pub(crate) const EVENT_PORT_ERR: u32 = 10;

/// The device while this process has it open.
struct Opened {
    pid: u32,
    /// When the process first opened the device.
    since: Instant,
    /// The pipes for the device's events, as numbers in the form that records hold.
    pipes: Vec<u32>,
}

static OPENED: Mutex<Option<Opened>> = Mutex::new(None);

/// Records that the device was opened. Its events go to this pipe. The first call starts the thread that
/// sends the port's events.
pub(crate) fn opened(pipe: u32) {
    let Some((down, up)) = port_down() else { return };
    let mut opened = lock(&OPENED);
    let pid = std::process::id();
    match opened.as_mut().filter(|opened| opened.pid == pid) {
        Some(opened) => opened.pipes.push(pipe),
        None => {
            *opened = Some(Opened { pid, since: Instant::now(), pipes: vec![pipe] });
            let run = move || {
                sleep_until(down);
                tell_all(EVENT_PORT_ERR);
                if let Some(up) = up {
                    sleep_until(up);
                    tell_all(EVENT_PORT_ACTIVE);
                }
            };
            // If the thread cannot be started, the port still goes down, but no event is sent.
            let _ = spawn(c"doorbell-port", run);
        }
    }
}

/// Time since the device was first opened.
fn age() -> Option<Duration> {
    lock(&OPENED).as_ref().map(|opened| opened.since.elapsed())
}

fn sleep_until(when: Duration) {
    while let Some(left) = age().and_then(|age| when.checked_sub(age)).filter(|left| !left.is_zero()) {
        std::thread::sleep(left);
    }
}

fn tell_all(event_type: u32) {
    let pipes = lock(&OPENED).as_ref().map(|opened| opened.pipes.clone()).unwrap_or_default();
    for pipe in pipes {
        tell(Owner::This, pipe, EventRecord { event_type, index: 0, generation: 0 });
    }
}

/// Whether the port is down now.
pub(crate) fn is_down() -> bool {
    let Some((down, up)) = port_down() else { return false };
    age().is_some_and(|age| age >= down && up.is_none_or(|up| age < up))
}
