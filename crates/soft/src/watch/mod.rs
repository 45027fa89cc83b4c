//! Observes a QP's posts or interferes with them, on request: counts, faults, strict mode, traces.
//!
//! A QP for which nothing is requested has no [`Watch`], so a post tests for it once.

pub(crate) mod faults;
pub(crate) mod flights;
pub(crate) mod port;
pub(crate) mod strict;
pub(crate) mod trace;

use crate::sync::thread_id;
use doorbell_launch::counts::qp::QpCounter;
use doorbell_launch::say::say;
use doorbell_launch::strict::Strict;
use doorbell_verbs::QpType;
use faults::QpFaults;

/// The parts of a watch that were requested for a QP's send work requests.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) counts: Option<Box<QpCounter>>,
    pub(crate) faults: Option<QpFaults>,
    pub(crate) strict: Option<QpStrict>,
    pub(crate) traced: Option<QpTraced>,
}

/// The trace of the list being posted.
#[derive(Debug)]
pub(crate) struct QpTraced {
    /// The QP's track.
    pub(crate) track: String,
    /// Work requests in the list.
    pub(crate) list: u32,
}

/// State of strict mode for a QP.
#[derive(Debug, Default)]
pub(crate) struct QpStrict {
    /// Number of the last work request that asked for a completion.
    pub(crate) signaled: u64,
    /// Whether the READ and atomic limits of both sides were compared.
    pub(crate) compared: bool,
    /// Whether an undelivered message was already reported.
    undelivered: bool,
}

impl Watch {
    /// The watch of a new QP; `None` if nothing is requested.
    pub(crate) fn new(num: u32, qp_type: QpType, counts: Option<QpCounter>) -> Option<Box<Watch>> {
        let strict = Strict::own().map(|_| QpStrict::default());
        let track = format!("QP {num:#x} {qp_type} sends");
        let traced = trace::is_wanted().then_some(QpTraced { track, list: 0 });
        let watch = Watch { counts: counts.map(Box::new), faults: QpFaults::wanted(), strict, traced };
        let is_any = watch.counts.is_some()
            || watch.faults.is_some()
            || watch.strict.is_some()
            || watch.traced.is_some();
        is_any.then(|| Box::new(watch))
    }

    /// The QP begins anew, after a reset.
    pub(crate) fn begin_again(&mut self) {
        if let Some(faults) = &mut self.faults {
            faults.begin_again();
        }
        if let Some(strict) = &mut self.strict {
            *strict = QpStrict { undelivered: strict.undelivered, ..QpStrict::default() };
        }
    }

    /// A message of UC or UD is complete, although no QP or RECV took it.
    #[cold]
    pub(crate) fn undelivered(&mut self) {
        if let Some(strict) = self.strict.as_mut().filter(|strict| !strict.undelivered) {
            strict.undelivered = true;
            say("strict: no receiver took a message of UC or UD, but it completed with success, as on a \
                 network. No RECV was posted for the message, or no QP matches it. Printed once for each QP");
        }
        if let Some(counts) = &mut self.counts {
            counts.undelivered();
        }
    }

    /// A list ends. Its last message went to the process `peer`.
    #[inline]
    pub(crate) fn list_ends(&mut self, peer: u32) {
        if let Some(counts) = &mut self.counts {
            counts.list_ends(peer, thread_id);
        }
        if let Some(traced) = self.traced.as_mut().filter(|traced| traced.list > 0) {
            trace::instant(&traced.track, "doorbell", &format!("\"wqes\":{}", traced.list));
            traced.list = 0;
        }
    }
}
