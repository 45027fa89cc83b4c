//! The line between the two sides of a check, over the out-of-band exchange.
//!
//! Each side numbers what it says, so that nothing is overwritten before it is heard; and a side
//! that stops early says so, so that the other never waits for it in vain.

use crate::step::{Step, Stop};
use doorbell_verbs::Provider;
use std::cell::Cell;

/// Which part a thread plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Machine 0, which mostly posts.
    Requester,
    /// Machine 1, which mostly is posted to.
    Responder,
}

impl Side {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Side::Requester => "requester",
            Side::Responder => "responder",
        }
    }

    fn peer(self) -> Side {
        match self {
            Side::Requester => Side::Responder,
            Side::Responder => Side::Requester,
        }
    }
}

const DATA: u8 = 0;
const END: u8 = 1;

/// A side's end of the line.
pub(crate) struct Line<P> {
    provider: P,
    side: Side,
    said: Cell<u32>,
    heard: Cell<u32>,
    /// Whether the other side has said that it ended.
    over: Cell<bool>,
}

impl<P: Provider> Line<P> {
    pub(crate) fn new(provider: P, side: Side) -> Line<P> {
        Line { provider, side, said: Cell::new(0), heard: Cell::new(0), over: Cell::new(false) }
    }

    pub(crate) fn side(&self) -> Side {
        self.side
    }

    fn publish(&self, tag: u8, bytes: &[u8]) {
        let key = format!("conformance/{}/{}", self.side.name(), self.said.replace(self.said.get() + 1));
        self.provider.publish(&key, &[&[tag], bytes].concat());
    }

    /// What the other side says next; nothing once it has ended.
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

    /// Says something to the other side.
    pub(crate) fn say(&self, bytes: &[u8]) {
        self.publish(DATA, bytes);
    }

    /// Waits for what the other side says next.
    pub(crate) fn hear(&self) -> Step<Vec<u8>> {
        self.next().ok_or(Stop::PeerStopped)
    }

    /// Waits until the other side has ended.
    pub(crate) fn until_peer_ends(&self) {
        while self.next().is_some() {}
    }

    /// Says that this side has ended, and waits until the other has.
    pub(crate) fn end(&self) {
        self.publish(END, &[]);
        self.until_peer_ends();
    }
}
