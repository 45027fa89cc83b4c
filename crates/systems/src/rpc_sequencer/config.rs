//! Parameters of the sequencer over HERD's RPCs.

use super::protocol::{MAX_REPLY, MAX_REQUEST};
use crate::config::{Clients, Timing, Travel, Workers};
use crate::herd::{self, Replies, Requests};
use doorbell_schema::{Field, schema};

schema! {
    /// The sequencer over HERD's RPCs.
    pub struct RpcSequencer {
        groups {
            /// Clients.
            clients: Clients,
            /// The server's threads.
            workers: Workers,
            /// How RPCs carry requests.
            travel: Travel,
            /// When the run measures.
            timing: Timing,
        }
        /// Verb and transport of requests.
        request: Requests = Field::name(Requests::NAMES),
        /// Verb and transport of replies; a READ is the client's.
        reply: Replies = Field::name(Replies::NAMES),
    }
}

impl RpcSequencer {
    pub(super) fn herd(&self) -> herd::Config {
        let herd = self.travel.herd(&self.clients, &self.workers, (MAX_REQUEST, MAX_REPLY));
        let requests = if self.travel.datagrams { herd.requests } else { self.request };
        herd::Config { requests, replies: self.reply, ..herd }
    }

    /// Returns one sentence if parameters do not go together.
    pub(super) fn refuse(&self) -> Result<(), String> {
        let RpcSequencer { request, reply, travel, .. } = self;
        if travel.datagrams && *request != Requests::SendUd {
            let request = request.name();
            return Err(format!("datagrams need requests by send-ud, but request is {request}"));
        }
        self.workers.refuse(*request, *reply)
    }
}
