//! For `doorbell run --strict`: reports mistakes of programs that the software NIC tolerates, but that would
//! fail on a NIC.

use crate::memory::regions::Regions;
use crate::sync::lock;
use doorbell_launch::say::say;
use doorbell_launch::strict::Strict;
use doorbell_transport::Region;
use doorbell_verbs::{AccessFlags, Sge};
use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Mutex;

/// Reports a mistake of the program that would fail on a NIC. Aborts the process if the mode is
/// [`Strict::Fail`].
#[cold]
pub(crate) fn violated(what: impl Display) {
    say(format_args!("strict: {what}"));
    if Strict::own() == Some(Strict::Fail) {
        std::process::abort();
    }
}

/// The queue whose work requests use a memory region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Holder {
    /// Send work requests of a QP.
    Sends(u32),
    /// RECVs of the receive queue with this index.
    Recvs(u32),
}

/// For each lkey and queue, the number of work requests that use the region and were not polled yet.
static HELD: Mutex<Option<HashMap<(u32, Holder), u32>>> = Mutex::new(None);

/// Counts a work request as a user of its memory regions. Dropping the value ends the use.
#[derive(Debug)]
pub(crate) struct Held {
    keys: Vec<u32>,
    holder: Holder,
}

impl Held {
    pub(crate) fn new(sges: &[Sge], holder: Holder) -> Held {
        let mut keys: Vec<u32> = sges.iter().filter(|sge| sge.length > 0).map(|sge| sge.lkey).collect();
        keys.dedup();
        let mut held = lock(&HELD);
        let held = held.get_or_insert_default();
        keys.iter().for_each(|key| *held.entry((*key, holder)).or_default() += 1);
        Held { keys, holder }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut held = lock(&HELD);
        let Some(held) = held.as_mut() else { return };
        for key in &self.keys {
            if let Some(count) = held.get_mut(&(*key, self.holder)) {
                if !doorbell_launch::say::broken("s-held") { *count -= 1; }
                if *count == 0 {
                    held.remove(&(*key, self.holder));
                }
            }
        }
    }
}

/// Reports the work requests that use a region which is being deregistered. Does nothing outside strict mode.
pub(crate) fn deregistered(key: u32) {
    if Strict::own().is_none() {
        return;
    }
    let found = lock(&HELD).as_ref().and_then(|held| {
        held.iter().find(|((other, _), _)| *other == key).map(|((_, holder), count)| (*holder, *count))
    });
    let Some((holder, count)) = found else { return };
    let who = match holder {
        Holder::Sends(qpn) => format!("{count} send work requests of QP {qpn:#x}"),
        Holder::Recvs(index) => format!("{count} RECVs of receive queue {index}"),
    };
    violated(format_args!(
        "the memory region of lkey {key:#x} is deregistered while {who} use it: their completions were not \
         polled (ibv_dereg_mr(3))"
    ));
}

/// The lkey of a region that covers all memory, in this protection domain. Results that the program may not
/// see yet are written through this region. The region is registered once for each protection domain.
pub(crate) fn everywhere(
    regions: &Regions,
    segment: &crate::memory::segment::Segment,
    pd: u32,
) -> Option<u32> {
    static KEYS: Mutex<Vec<(u32, u32, u32)>> = Mutex::new(Vec::new());
    // The PID is part of the key, because a child of fork(2) has regions of its own.
    let pid = std::process::id();
    let mut keys = lock(&KEYS);
    if let Some((_, _, key)) = keys.iter().find(|known| (known.0, known.1) == (pid, pd)) {
        return Some(*key);
    }
    let region = Region { pd, addr: 0, len: u64::MAX, access: AccessFlags::LOCAL_WRITE };
    let key = regions.register(segment, region, 0).ok()?;
    keys.push((pid, pd, key));
    Some(key)
}
