//! What is watched of a QP's posts, or done to them, where somebody wants that: they are counted, faults come to them.
//!
//! A QP of which nothing is wanted has none of it, and its posts look at that once.

pub(crate) mod faults;
pub(crate) mod port;

use crate::counts::qp::QpCounter;
use faults::QpFaults;

/// What is wanted of a QP's send work requests.
#[derive(Debug)]
pub(crate) struct Watch {
    pub(crate) counts: Option<Box<QpCounter>>,
    pub(crate) faults: Option<QpFaults>,
}

impl Watch {
    /// That of a new QP; `None` where nothing is wanted.
    pub(crate) fn new(counts: Option<QpCounter>) -> Option<Box<Watch>> {
        let watch = Watch { counts: counts.map(Box::new), faults: QpFaults::wanted() };
        let is_any = watch.counts.is_some() || watch.faults.is_some();
        is_any.then(|| Box::new(watch))
    }

    /// The QP begins anew, as after a reset.
    pub(crate) fn begin_again(&mut self) {
        if let Some(faults) = &mut self.faults {
            faults.begin_again();
        }
    }

    /// A message of UC or UD is complete that nobody took.
    #[cold]
    pub(crate) fn undelivered(&mut self) {
        if let Some(counts) = &mut self.counts {
            counts.undelivered();
        }
    }

    /// A list ends, whose last message went to this process.
    #[inline]
    pub(crate) fn list_ends(&mut self, peer: u32) {
        if let Some(counts) = &mut self.counts {
            counts.list_ends(peer);
        }
    }
}
