//! Counts the delivered events of an object that the program has not acknowledged.

use super::calls::WaitingCall;
use crate::sync::lock;
use std::fmt::Display;
use std::sync::{Condvar, Mutex};

/// Counts events that were delivered to the program and not acknowledged (ibv_ack_cq_events(3)). The
/// destruction of an object waits until all its events are acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Events {
    open: Mutex<u32>,
    none: Condvar,
}

impl Events {
    pub(crate) fn delivered(&self) {
        *lock(&self.open) += 1;
    }

    pub(crate) fn acknowledged(&self, n: u32) {
        let mut open = lock(&self.open);
        *open = open.saturating_sub(n);
        self.none.notify_all();
    }

    /// Waits until all delivered events of `object` are acknowledged. The function `call` of libibverbs
    /// waits, and the function `acknowledge` ends the wait.
    pub(crate) fn wait_for_all(&self, call: &'static str, acknowledge: &str, object: impl Display) {
        let open = lock(&self.open);
        if *open == 0 {
            return;
        }
        let events = match *open {
            1 => "1 event that the program got is".into(),
            n => format!("{n} events that the program got are"),
        };
        let event = format!("{acknowledge}: {events} not acknowledged ({object})");
        let is_left_out = doorbell_launch::say::broken("w-call") && call == "ibv_destroy_cq" || doorbell_launch::say::broken("w-async") && call == "ibv_destroy_srq";
        let _waits = (!is_left_out).then(|| WaitingCall::new(call, event));
        let waited = self.none.wait_while(open, |open| *open > 0);
        drop(waited);
    }
}
