//! State that the threads of a run share besides memory: published values, and whether the run was stopped.

use std::collections::HashMap;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// Payload with which a thread unwinds when the run is stopped. It distinguishes the unwinding from a panic
/// of the thread.
pub(crate) struct Stopped;

#[derive(Default)]
struct ExchangeState {
    values: HashMap<String, Vec<u8>>,
    /// Number of threads that have not ended.
    running: usize,
    /// Threads in `lookup`: name and key.
    waiting: Vec<(String, String)>,
    deadlock: Option<String>,
}

impl ExchangeState {
    /// The waiting threads and their keys, if every running thread waits for a key that was not published.
    /// Then no thread can publish a key any more.
    fn deadlock(&self) -> Option<String> {
        let stuck = !self.waiting.is_empty()
            && self.waiting.len() == self.running
            && self.waiting.iter().all(|(_, key)| !self.values.contains_key(key));
        stuck.then(|| {
            let who: Vec<_> =
                self.waiting.iter().map(|(name, key)| format!("{name} waits for {key:?}")).collect();
            who.join(", ")
        })
    }
}

/// Exchange between the threads of a cluster.
#[derive(Default)]
pub(crate) struct Exchange {
    state: Mutex<ExchangeState>,
    changed: Condvar,
    stopped: AtomicBool,
    /// A flag that ends the run when it is set.
    interrupt: OnceLock<Arc<AtomicBool>>,
}

impl Exchange {
    fn state(&self) -> MutexGuard<'_, ExchangeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a run of `threads` threads, with nothing published.
    pub(crate) fn begin(&self, threads: usize) {
        *self.state() = ExchangeState { running: threads, ..ExchangeState::default() };
        self.stopped.store(false, Ordering::Relaxed);
    }

    /// Publishes `value` under `key`. It replaces an earlier value.
    pub(crate) fn publish(&self, key: &str, value: &[u8]) {
        self.state().values.insert(key.to_owned(), value.to_owned());
        self.changed.notify_all();
    }

    /// Waits until `key` has a value and returns the value. Unwinds if the run is stopped before that.
    pub(crate) fn lookup(&self, thread: &str, key: &str) -> Vec<u8> {
        let mut state = self.state();
        if let Some(value) = state.values.get(key) {
            return value.clone();
        }
        state.waiting.push((thread.to_owned(), key.to_owned()));
        self.stop_if_stuck(&mut state);
        let stopped = || self.stopped.load(Ordering::Relaxed);
        let wait = |state: &mut ExchangeState| !state.values.contains_key(key) && !stopped();
        state = self.changed.wait_while(state, wait).unwrap_or_else(PoisonError::into_inner);
        state.waiting.retain(|(name, _)| name != thread);
        let value = state.values.get(key).cloned();
        drop(state);
        value.unwrap_or_else(|| resume_unwind(Box::new(Stopped)))
    }

    /// Lets `flag` stop runs. When one thread finds it set, all threads unwind. Only the first call has an
    /// effect.
    pub(crate) fn interrupted_by(&self, flag: Arc<AtomicBool>) {
        self.interrupt.get_or_init(|| flag);
    }

    /// Whether the flag that ends the run is set.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupt.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// Unwinds if the run is stopped or interrupted, unless the thread is already unwinding.
    pub(crate) fn check(&self) {
        let ends = self.stopped.load(Ordering::Relaxed) || self.is_interrupted();
        if ends && !std::thread::panicking() {
            resume_unwind(Box::new(Stopped));
        }
    }

    /// Records that a thread has ended. Stops the run if the remaining threads are in a deadlock.
    pub(crate) fn end(&self) {
        let mut state = self.state();
        state.running -= 1;
        self.stop_if_stuck(&mut state);
    }

    /// Makes all threads unwind at their next `check`, or in a `lookup` that has to wait.
    pub(crate) fn stop(&self) {
        // The lock ensures that no thread misses the stop between its check and its wait.
        let state = self.state();
        self.stopped.store(true, Ordering::Relaxed);
        drop(state);
        self.changed.notify_all();
    }

    fn stop_if_stuck(&self, state: &mut ExchangeState) {
        // Threads of a stopped run may still be listed as waiting until they wake up.
        if self.stopped.load(Ordering::Relaxed) {
            return;
        }
        if let Some(who) = state.deadlock() {
            state.deadlock = Some(who);
            self.stopped.store(true, Ordering::Relaxed);
            self.changed.notify_all();
        }
    }

    /// The deadlock that ended the run, if one did.
    pub(crate) fn deadlock(&self) -> Option<String> {
        self.state().deadlock.clone()
    }
}
