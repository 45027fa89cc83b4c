//! The message channel between the two sides of a check, over the out-of-band exchange.
//!
//! Each side numbers its messages, so that no message is overwritten before it is read. A side announces its
//! end, so that the other side does not wait in vain.

use crate::step::{CheckStep, CheckStop};
use doorbell_verbs::Provider;
use std::cell::Cell;

/// Role of a thread in a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineSide {
    /// Machine 0, which usually posts.
    Requester,
    /// Machine 1, which usually is the target.
    Responder,
}

impl LineSide {
    pub(crate) fn name(self) -> &'static str {
        match self {
            LineSide::Requester => "requester",
            LineSide::Responder => "responder",
        }
    }

    fn peer(self) -> LineSide {
        match self {
            LineSide::Requester => LineSide::Responder,
            LineSide::Responder => LineSide::Requester,
        }
    }
}

const DATA: u8 = 0;
const END: u8 = 1;

/// One side's end of the channel.
pub(crate) struct TestLine<P> {
    provider: P,
    side: LineSide,
    said: Cell<u32>,
    heard: Cell<u32>,
    /// Whether the other side has announced its end.
    over: Cell<bool>,
}

impl<P: Provider> TestLine<P> {
    pub(crate) fn new(provider: P, side: LineSide) -> TestLine<P> {
        TestLine { provider, side, said: Cell::new(0), heard: Cell::new(0), over: Cell::new(false) }
    }

    pub(crate) fn side(&self) -> LineSide {
        self.side
    }

    fn publish(&self, tag: u8, bytes: &[u8]) {
        let key = format!("conformance/{}/{}", self.side.name(), self.said.replace(self.said.get() + 1));
        self.provider.publish(&key, &[&[tag], bytes].concat());
    }

    /// Waits for the next message from the other side. Returns `None` once the other side has ended.
    fn next(&self) -> Option<Vec<u8>> {
        if self.over.get() {
            return None;
        }
        let n = self.heard.replace(self.heard.get() + 1);
        let said = self.provider.lookup(&format!("conformance/{}/{n}", self.side.peer().name()));
        match said.split_first() {
            Some((&DATA, bytes)) => Some(bytes.to_vec()),
            _ => {
                self.over.set(true);
                None
            }
        }
    }

    /// Sends a message to the other side.
    pub(crate) fn say(&self, bytes: &[u8]) {
        self.publish(DATA, bytes);
    }

    /// Waits for the next message from the other side.
    pub(crate) fn hear(&self) -> CheckStep<Vec<u8>> {
        self.next().ok_or(CheckStop::PeerStopped)
    }

    /// Waits until the other side has ended.
    pub(crate) fn until_peer_ends(&self) {
        while self.next().is_some() {}
    }

    /// Announces the end of this side and waits until the other side has ended.
    pub(crate) fn end(&self) {
        self.publish(END, &[]);
        self.until_peer_ends();
    }
}
