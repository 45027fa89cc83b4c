//! The thread that accepts connections, receives messages, and checks the deadlines of awaited messages.

use super::connection::{ask, hear, too_late};
use super::id::IdStep;
use super::state::{CmState, STATE, WAKE, Waits};
use crate::descriptors::Private;
use crate::errno::Errno;
use crate::fabric::wire;
use crate::thread::spawn;
use rustix::event::{Timespec, epoll};
use rustix::io::read;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Sleep of the thread when no file descriptor is left for a new connection.
const NO_FILE: Duration = Duration::from_millis(20);
/// Time after which a connection request is retried because the listener's connection queue was full or the
/// listener did not exist yet.
const AGAIN: Duration = Duration::from_millis(1);
const AT_ONCE: usize = 64;

/// Starts the thread if it does not run.
///
/// # Errors
/// If the thread or its descriptors cannot be created.
pub(super) fn start(state: &mut CmState) -> Result<(), Errno> {
    if state.waits.is_none() {
        let waits = Waits::new()?;
        let all = waits.all.get().as_raw_fd();
        // SAFETY: if the program has closed this number, epoll(7) on it fails, and the thread ends.
        let all = unsafe { BorrowedFd::borrow_raw(all) };
        spawn(c"doorbell-cm", move || run(all))?;
        state.waits = Some(waits);
    }
    Ok(())
}

fn run(all: BorrowedFd<'static>) {
    let mut time = None;
    loop {
        let Some(ready) = wait(all, time) else { return };
        let mut state = STATE.lock();
        let mut has_files = true;
        for name in ready {
            match u32::try_from(name) {
                Ok(name) => has_files &= serve(&mut state, name),
                Err(_) => wake_up(&state, name),
            }
        }
        time = look_at_times(&mut state);
        drop(state);
        if !has_files {
            std::thread::sleep(NO_FILE);
        }
    }
}

/// Waits for events, at most for `time`. `None` if the program has closed the thread's descriptor.
fn wait(all: BorrowedFd<'_>, time: Option<Duration>) -> Option<Vec<u64>> {
    let mut room = [MaybeUninit::uninit(); AT_ONCE];
    // epoll_wait(2) takes milliseconds, and rustix rounds up, so the call does not return before a deadline.
    let time = time.and_then(|time| Timespec::try_from(time).ok());
    match epoll::wait(all, &mut room, time.as_ref()) {
        Ok((ready, _)) => Some(ready.iter().map(|event| event.data.u64()).collect()),
        Err(rustix::io::Errno::INTR) => Some(Vec::new()),
        Err(_) => None,
    }
}

fn wake_up(state: &CmState, name: u64) {
    debug_assert_eq!(name, WAKE);
    if let Some(waits) = &state.waits {
        // The read fails if the eventfd's counter is 0. The failure does not matter.
        let _ = read(waits.wake.get(), &mut [0; 8]);
    }
}

/// Handles an event of an id; `false` if no file descriptor is left for it.
fn serve(state: &mut CmState, name: u32) -> bool {
    match state.any(name).map(|id| id.step) {
        Some(IdStep::Listening { .. }) => take_all(state, name),
        Some(_) => {
            hear(state, name);
            true
        }
        None => true,
    }
}

/// Accepts all waiting connections at a listener; `false` if no file descriptor is left for one of them.
fn take_all(state: &mut CmState, listener: u32) -> bool {
    loop {
        let Some(listens) = state.any(listener) else { return true };
        let Some(listener_socket) = &listens.socket else { return true };
        let (channel, kind) = (listens.channel, (listens.space, listens.qp_type));
        let socket = match wire::accept(listener_socket.get()) {
            Ok(Some(socket)) => socket,
            // The connection comes from another user's process.
            Ok(None) => continue,
            Err(error) if error.raw_os_error() == Some(libc::ECONNABORTED) => continue,
            Err(error) => return !matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)),
        };
        let Ok(socket) = Private::new(socket) else { continue };
        let name = state.add(0, channel, kind);
        if let Some(id) = state.any(name) {
            id.step = IdStep::Arriving { listener };
        }
        match state.watch(name, socket) {
            Ok(()) => hear(state, name),
            Err(_) => drop(state.remove(name)),
        }
    }
}

/// Handles passed deadlines, and retries connection requests that were not sent. Returns the time until the
/// next deadline or retry.
fn look_at_times(state: &mut CmState) -> Option<Duration> {
    let now = Instant::now();
    let times = state.all().filter_map(|(name, id)| Some((name, id.until?, id.step)));
    let mut all: Vec<_> = times.collect();
    all.retain(|(_, until, step)| *until <= now || matches!(step, IdStep::Connecting { sent: false }));
    for (name, until, _) in all {
        if until <= now || ask(state, name).is_err() {
            too_late(state, name);
        }
    }
    let next = |id: &super::id::Id| match id.step {
        IdStep::Connecting { sent: false } => Some(AGAIN),
        _ => id.until.map(|until| until.saturating_duration_since(now)),
    };
    state.all().filter_map(|(_, id)| next(id)).min()
}
