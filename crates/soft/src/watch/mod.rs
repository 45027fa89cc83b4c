//! Counts, faults, strict mode and traces: optional code that observes the posts of a QP or interferes with
//! them.
//!
//! A QP has a [`Watch`] only if one of these options was requested, so that a post without options costs only
//! one test.

pub(crate) mod faults;
pub(crate) mod flights;
pub(crate) mod pinning;
pub(crate) mod port;
pub(crate) mod strict;
pub(crate) mod trace;

use crate::memory::cause::Cause;
use crate::sync::thread_id;
use doorbell_launch::counts::drops::DropCause;
use doorbell_launch::counts::qp::QpCounter;
use doorbell_launch::say::say;
use doorbell_launch::strict::Strict;
use doorbell_verbs::QpType;
use faults::QpFaults;
use std::fmt::{self, Display, Formatter};

/// The requested options of a QP. They apply to its send work requests.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) counts: Option<Box<QpCounter>>,
    pub(crate) faults: Option<QpFaults>,
    pub(crate) strict: Option<QpStrict>,
    pub(crate) traced: Option<QpTraced>,
}

/// The trace of the list of work requests that is being posted.
#[derive(Debug)]
pub(crate) struct QpTraced {
    /// Name of the QP's track in the trace.
    pub(crate) track: String,
    /// Number of work requests in the list so far.
    pub(crate) list: u32,
}

/// State of strict mode for a QP.
#[derive(Debug, Default)]
pub(crate) struct QpStrict {
    /// Number of the last work request that asked for a completion.
    pub(crate) signaled: u64,
    /// Whether the QP's limits for outstanding READs and atomics were already compared with the peer's.
    pub(crate) compared: bool,
    /// Whether a message that needs longer packets than its receiver accepts was already reported.
    pub(crate) mtu_is_told: bool,
    /// One bit for each cause of an undelivered message that was already reported.
    undelivered: u32,
}

/// A message of UC or UD that no receiver took.
pub(crate) struct Loss {
    pub(crate) cause: DropCause,
    /// The cause with its values, if they were found.
    pub(crate) found: Option<Cause>,
    /// Number and name of the work request, and the QP numbers of requester and responder.
    pub(crate) number: u64,
    pub(crate) name: &'static str,
    pub(crate) from: u32,
    pub(crate) to: u32,
}

impl Display for Loss {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Loss { cause, found, number, name, from, to } = self;
        write!(f, "work request {number} ({name}) of QP {from:#x} to QP {to:#x}: ")?;
        match found {
            Some(found) => found.fmt(f),
            None => f.write_str(cause.text()),
        }
    }
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

    /// Resets the watch after the QP was reset.
    pub(crate) fn begin_again(&mut self) {
        if let Some(counts) = &mut self.counts {
            counts.begin_again();
        }
        if let Some(faults) = &mut self.faults {
            faults.begin_again();
        }
        if let Some(strict) = &mut self.strict {
            *strict = QpStrict { undelivered: strict.undelivered, ..QpStrict::default() };
        }
    }

    /// Records that a UC or UD message completed although no QP or RECV took it. In strict mode, the first
    /// such message of a QP is reported for each cause.
    #[cold]
    pub(crate) fn undelivered(&mut self, loss: &Loss) {
        let bit = 1 << loss.cause as u32;
        if let Some(strict) = self.strict.as_mut().filter(|strict| strict.undelivered & bit == 0) {
            if !doorbell_launch::say::broken("s-once") { strict.undelivered |= bit; }
            say(format_args!(
                "strict: no receiver took a message of UC or UD, but it completed with success, as on a \
                 network: {loss}. Printed once for each QP and cause"
            ));
        }
        if let Some(counts) = &mut self.counts {
            counts.undelivered(loss.cause);
        }
    }

    /// Records the end of a list of work requests. The list's last message went to the process `peer`.
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
