//! Parameters of spinlocks.

use super::layout::Layout;
use super::word;
use crate::config::{LARGEST_MEMORY, OneByOne, Timing};
use crate::names::named;
use doorbell_schema::{Duration, Field, Flag, schema};
use doorbell_verbs::Span;

named! {
    /// How a lock is released.
    Release {
        /// By a store or WRITE of 0.
        Write = "write",
        /// By a compare-and-swap.
        Cas = "cas",
    }
}

schema! {
    /// Locks, and what clients do with them.
    pub struct Locks {
        /// Locks. Each operation takes a random one.
        locks: u32 = Field::count(1, 1 << 28),
        /// Time that a client computes while it has a lock, such as 500ns.
        hold: Duration = Field::time(),
        /// Bytes that a lock guards, a multiple of 8. The holder reads them, increments each word, and writes
        /// them.
        data: u32 = Field::bytes(0, 4096),
        /// First wait after a failed attempt, of which half or more is drawn; it doubles with each failure; 0
        /// for no waits.
        backoff: Duration = Field::time(),
        /// Longest wait after a failed attempt.
        backoff_most: Duration = Field::time(),
    }
}

schema! {
    /// A spinlock for the threads of one machine.
    pub struct LocalSpinlock {
        groups {
            /// Clients.
            clients: OneByOne<true>,
            /// Locks.
            locks: Locks,
            /// When the run measures.
            timing: Timing,
        }
        /// How a lock is released: by a write of 0, or by compare-and-swap.
        release: Release = Field::name(Release::NAMES),
    }
}

schema! {
    /// A spinlock in the server's memory.
    pub struct RemoteSpinlock {
        groups {
            /// Clients.
            clients: OneByOne<false>,
            /// Locks.
            locks: Locks,
            /// When the run measures.
            timing: Timing,
        }
        /// How a lock is released: by a write of 0, or by compare-and-swap.
        release: Release = Field::name(Release::NAMES),
        /// Time after which other clients may take a lock over; 0 for never.
        lease: Duration = Field::time(),
        /// Assumed bound on how far clocks go apart and holders stop: a lease is taken over only this long
        /// after its end.
        drift: Duration = Field::time(),
        /// Publish the data of a lock with a lease on release, rather than write it in place.
        fencing: bool = Field::switch()
            .flags(&[Flag::no(
                "no-fencing",
                "Write the data of a lock with a lease in place, without protection from late holders",
            )]),
    }
}

schema! {
    /// A spinlock that threads of the server keep.
    pub struct RpcSpinlock {
        groups {
            /// Clients.
            clients: OneByOne<false>,
            /// Locks.
            locks: Locks,
            /// When the run measures.
            timing: Timing,
        }
        /// Worker threads of the server, one per core.
        cores: u32 = Field::count(1, 256),
    }
}

impl Locks {
    /// One lock that guards no data. Clients try again at once.
    pub(super) const USUAL: Locks = Locks {
        locks: 1,
        hold: Duration::new(Span::ZERO),
        data: 0,
        backoff: Duration::new(Span::ZERO),
        backoff_most: Duration::new(Span::from_us(64)),
    };

    /// Returns one sentence if parameters do not go together. `layout` is the layout of the locks.
    pub(super) fn refuse(&self, layout: &Layout) -> Result<(), String> {
        let Locks { locks, data, backoff, backoff_most, .. } = self;
        if !data.is_multiple_of(8) {
            return Err(format!("data is {data}, but a lock's data consists of words: use a multiple of 8"));
        }
        if backoff > backoff_most {
            return Err(format!(
                "backoff is {backoff}, but the longest wait, backoff_most, is {backoff_most}"
            ));
        }
        if backoff.span() == Span::ZERO && *backoff_most != Locks::USUAL.backoff_most {
            return Err(format!(
                "backoff_most is {backoff_most}, but clients do not wait without backoff, the first wait: \
                 give both"
            ));
        }
        let bytes = layout.bytes();
        if bytes > LARGEST_MEMORY {
            let slots = if layout.slots > 1 { ", fewer clients" } else { "" };
            return Err(format!(
                "locks is {locks}, which with {data} bytes of data each take {bytes} bytes, but one memory has \
                 at most {LARGEST_MEMORY} (16GiB): use fewer locks{slots} or less data"
            ));
        }
        Ok(())
    }
}

impl RemoteSpinlock {
    /// Default of `drift` for locks with a lease.
    pub(super) const USUAL_DRIFT: Duration = Duration::new(Span::from_us(10));

    /// Whether locks have a lease.
    pub(super) fn is_leased(&self) -> bool {
        self.lease.span() > Span::ZERO
    }

    /// Returns one sentence if parameters do not go together.
    pub(super) fn refuse(&self) -> Result<(), String> {
        self.locks.refuse(&self.layout())?;
        let RemoteSpinlock { lease, drift, release, fencing, clients, .. } = self;
        if !self.is_leased() {
            return match fencing {
                true if *drift == Self::USUAL_DRIFT => Ok(()),
                true => Err(format!("drift is {drift}, but has no effect without a lease: give both")),
                false => Err("fencing is off (--no-fencing), but has no effect without a lease".into()),
            };
        }
        if *release == Release::Write {
            return Err(
                "release is write, but another client may have taken over a lock with a lease: only cas \
                 detects this"
                    .into(),
            );
        }
        let (clients, most) = (clients.clients().clients, word::CLIENTS);
        if clients > most {
            return Err(format!("clients is {clients}, but a lock with a lease has at most {most} clients"));
        }
        if lease.span().as_ps().saturating_add(drift.span().as_ps()) > word::LONGEST.as_ps() {
            let longest = Duration::new(word::LONGEST);
            return Err(format!(
                "lease is {lease} and drift is {drift}, but their sum must be at most {longest}"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::System;

    #[test]
    fn what_cannot_be_is_refused_in_one_sentence() {
        let us = |us| Duration::new(Span::from_us(us));
        let usual = RemoteSpinlock::usual;
        let leased = || RemoteSpinlock { lease: us(50), release: Release::Cas, ..usual() };
        let locks = |change: fn(&mut Locks)| {
            let mut spinlock = usual();
            change(&mut spinlock.locks);
            spinlock
        };
        for (spinlock, said) in [
            (
                locks(|locks| locks.data = 12),
                "data is 12, but a lock's data consists of words: use a multiple of 8",
            ),
            (
                locks(|locks| locks.backoff = Duration::new(Span::from_us(65))),
                "backoff is 65us, but the longest wait, backoff_most, is 64us",
            ),
            (
                locks(|locks| locks.backoff_most = Duration::new(Span::from_us(65))),
                "backoff_most is 65us, but clients do not wait without backoff, the first wait: give both",
            ),
            (
                RemoteSpinlock { drift: us(20), ..usual() },
                "drift is 20us, but has no effect without a lease: give both",
            ),
            (
                RemoteSpinlock { fencing: false, ..usual() },
                "fencing is off (--no-fencing), but has no effect without a lease",
            ),
            (
                RemoteSpinlock { release: Release::Write, ..leased() },
                "release is write, but another client may have taken over a lock with a lease: only cas \
                 detects this",
            ),
            (
                RemoteSpinlock { clients: OneByOne::new(600, 16), ..leased() },
                "clients is 600, but a lock with a lease has at most 511 clients",
            ),
            (
                RemoteSpinlock { drift: us(500_000), ..leased() },
                "lease is 50us and drift is 500ms, but their sum must be at most 500ms",
            ),
            (
                locks(|locks| (locks.locks, locks.data) = (1 << 28, 8)),
                "locks is 268435456, which with 8 bytes of data each take 34359738368 bytes, but one memory has \
                 at most 17179869184 (16GiB): use fewer locks or less data",
            ),
            (
                RemoteSpinlock { locks: Locks { locks: 1 << 24, data: 64, ..Locks::USUAL }, ..leased() },
                "locks is 16777216, which with 64 bytes of data each take 19327352832 bytes, but one memory has \
                 at most 17179869184 (16GiB): use fewer locks, fewer clients or less data",
            ),
        ] {
            assert_eq!(spinlock.check().unwrap_err(), said);
        }
        assert!(leased().check().is_ok() && RemoteSpinlock { fencing: false, ..leased() }.check().is_ok());
        assert!(locks(|locks| locks.locks = 1 << 28).check().is_ok());
    }
}
