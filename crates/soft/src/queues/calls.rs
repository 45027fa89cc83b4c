//! Calls of this process that wait for another call of the program.

use crate::fabric::process::Process;
use crate::sync::{Anew, thread_id};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

static CALLS: Anew<Vec<Call>> = Anew::new(Vec::new());
/// The process whose helper thread explains calls, if it explains any.
static PROCESS: Anew<Option<&'static Process>> = Anew::new(None);
/// Whether the program has opened a channel of rdma_cm. Relaxed: the flag publishes no other data. It matters
/// only for a program with one thread, which has set the flag long before its wait is explained.
static USES_CM: AtomicBool = AtomicBool::new(false);

/// Bytes after the address of an id in which librdmacm has the condition variable of the id. The struct is
/// shorter.
const ID_BYTES: u64 = 4096;
/// A thread that was not found in the wait of rdma_destroy_id(3) at this many looks does not wait there.
const MISSES: u32 = 5;

/// A call that waits.
#[derive(Clone, Debug)]
pub(super) struct Call {
    /// Identifies the call in this process.
    pub(super) number: u64,
    /// The function that the program has called.
    pub(super) name: &'static str,
    /// Text that names the event that the call waits for.
    pub(super) event: String,
    place: CallPlace,
}

/// Where a call waits.
#[derive(Clone, Copy, Debug)]
enum CallPlace {
    /// In a function of this library, until the [`WaitingCall`] is dropped.
    Library,
    /// In rdma_destroy_id(3), outside this library. `thread` waits for the condition variable of the id at
    /// address `id`. `misses` counts the looks since a look last found the thread in this wait.
    DestroyId { thread: u32, id: u64, misses: u32 },
}

/// A function of this library that waits for the program, until this value is dropped.
pub(in crate::queues) struct WaitingCall(u64);

impl WaitingCall {
    /// The function `name` of libibverbs waits for `event`.
    pub(in crate::queues) fn new(name: &'static str, event: String) -> WaitingCall {
        WaitingCall(add(name, event, CallPlace::Library))
    }
}

impl Drop for WaitingCall {
    fn drop(&mut self) {
        CALLS.lock().retain(|call| call.number != self.0);
    }
}

fn add(name: &'static str, event: String, place: CallPlace) -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    // Relaxed: the number only has to be unique.
    let number = LAST.fetch_add(1, Relaxed);
    let mut calls = CALLS.lock();
    // The thread's last rdma_destroy_id(3) is over.
    if let CallPlace::DestroyId { thread: own, .. } = place {
        calls.retain(|call| !matches!(call.place, CallPlace::DestroyId { thread, .. } if thread == own));
    }
    calls.push(Call { number, name, event, place });
    drop(calls);
    if let Some(process) = *PROCESS.lock() {
        process.progress.start();
    }
    number
}

/// Records that this thread destroys the id that librdmacm has at address `id`. librdmacm then waits until
/// the program has acknowledged `events` events. This library does not see the acknowledgements, so
/// [`waiting`] checks whether the thread waits.
pub(crate) fn destroys_id(id: u64, events: u32) {
    if events > 0 && !doorbell_launch::say::broken("w-id") {
        let event = format!(
            "rdma_ack_cm_event: the program got {events} of the id's events, and has not acknowledged all"
        );
        add("rdma_destroy_id", event, CallPlace::DestroyId { thread: thread_id(), id, misses: 1 });
    }
}

/// Starts the helper thread of this process as soon as a call waits.
pub(super) fn start_thread_of(process: &'static Process) {
    *PROCESS.lock() = Some(process);
}

/// Records that the program uses rdma_cm.
pub(crate) fn use_cm() {
    USES_CM.store(true, Relaxed);
}

/// Whether the program uses rdma_cm.
pub(super) fn uses_cm() -> bool {
    USES_CM.load(Relaxed)
}

/// The calls that wait now.
pub(super) fn waiting() -> Vec<Call> {
    let of_ids = |call: &Call| match call.place {
        CallPlace::DestroyId { thread, id, .. } => Some((call.number, thread, id)),
        CallPlace::Library => None,
    };
    let destroyed: Vec<_> = CALLS.lock().iter().filter_map(of_ids).collect();
    // No thread of the program waits for the lock while this thread reads files.
    let waits = |&(number, thread, id): &(u64, u32, u64)| (number, waits_within(thread, id));
    let seen: HashMap<u64, bool> = destroyed.iter().map(waits).collect();
    let mut calls = CALLS.lock();
    calls.retain_mut(|call| match (&mut call.place, seen.get(&call.number)) {
        (CallPlace::DestroyId { misses, .. }, Some(waits)) => {
            *misses = if *waits { 0 } else { *misses + 1 };
            *misses < MISSES
        }
        _ => true,
    });
    let is_seen = |call: &&Call| !matches!(call.place, CallPlace::DestroyId { misses: 1.., .. });
    calls.iter().filter(is_seen).cloned().collect()
}

/// Whether a thread of this process waits in futex(2) for a word of the `ID_BYTES` bytes at `address`.
fn waits_within(thread: u32, address: u64) -> bool {
    // The file has the number of the system call, its arguments, and two registers (proc_pid_syscall(5)).
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/syscall")).unwrap_or_default();
    let mut fields = text.split_whitespace();
    let is_futex = fields.next().and_then(|number| number.parse().ok()) == Some(libc::SYS_futex);
    let word = fields.next().and_then(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok());
    is_futex && word.is_some_and(|word| (address..address.saturating_add(ID_BYTES)).contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Condvar, Mutex};

    #[test]
    fn a_thread_destroys_one_id_at_a_time() {
        (0..3).for_each(|id| destroys_id(id, 1));
        let own =
            |call: &&Call| matches!(call.place, CallPlace::DestroyId { thread, .. } if thread == thread_id());
        assert_eq!(CALLS.lock().iter().filter(own).count(), 1);
        assert!(waiting().is_empty(), "the thread does not wait");
    }

    #[test]
    fn a_thread_is_found_that_waits_for_a_word_of_an_object() {
        struct Object {
            ends: Mutex<bool>,
            ended: Condvar,
        }
        let object = Arc::new(Object { ends: Mutex::new(false), ended: Condvar::new() });
        let (tells, told) = std::sync::mpsc::channel();
        let waits = object.clone();
        let thread = std::thread::spawn(move || {
            tells.send(thread_id()).expect("the test listens");
            let ends = waits.ends.lock().expect("nobody panics");
            drop(waits.ended.wait_while(ends, |ends| !*ends).expect("nobody panics"));
        });
        let (id, at) = (told.recv().expect("it begins"), Arc::as_ptr(&object).addr() as u64);
        if std::fs::read_to_string(format!("/proc/self/task/{id}/syscall")).is_ok() {
            while !waits_within(id, at) {
                std::thread::yield_now();
            }
        }
        assert!(!waits_within(id, at + (1 << 20)) && !waits_within(thread_id(), at));
        *object.ends.lock().expect("nobody panics") = true;
        object.ended.notify_all();
        thread.join().expect("it ends");
        assert!(!waits_within(id, at));
    }
}
