//! Spinlocks (CLUSTER'21, III-E, Figure 10a): a client acquires a lock, holds it, releases it, and repeats.
//!
//! There are three designs. Each is a system:
//!
//! - [`LocalSpinlock`]: threads of one machine compare-and-swap a word of its memory. No other machine takes
//!   part.
//! - [`RemoteSpinlock`]: clients compare-and-swap a word of the server's memory by RDMA. The server's
//!   processor takes no part. A client releases the lock by a WRITE or by another compare-and-swap, on the QP
//!   of the acquisition.
//! - [`RpcSpinlock`]: one thread of the server keeps each lock's holder. Clients ask it by RC SEND. The
//!   thread posts each reply, an RC SEND, before it takes the next request. The paper does not say how the
//!   thread answers a request for a lock that another client holds. Here the thread refuses the request, and
//!   the client asks again.
//!
//! After a failed attempt, a client waits for a drawn part of a span that doubles with each failure
//! ([`Waits`]). An operation begins with its first attempt. It ends with the release: when the store is done,
//! when the WRITE or compare-and-swap has completed, or when the reply has arrived. `again` counts failed
//! attempts.
//!
//! # Guarantees
//! One client at a time holds a lock. The data that a lock guards ([`Section::data`]) is read after the lock
//! is acquired, and written before it is released. RC places WRITEs in the order of posting, and before an
//! atomic that was posted later. If lock and data use different QPs, the WRITE of the data completes before
//! the release is posted. RC loses nothing and executes an atomic once, however often a packet is sent again.
//!
//! **Release by WRITE** ([`Release::Write`]) needs NICs whose failed compare-and-swaps do not store to the
//! word. An HCA's atomics are atomic to each other (IBV_ATOMIC_HCA, ibv_query_device(3)), but not to a WRITE.
//! A failed compare-and-swap that stores the value that it loaded may undo a WRITE that arrived between load
//! and store. The lock then stays held for ever. The Soft-RoCE of Linux 6.1 stores the value. Use
//! [`Release::Cas`] there, and wherever the vendor does not promise otherwise.
//!
//! Clients do not get the lock in turn: other clients may overtake a client any number of times. Results
//! report how unevenly clients got locks.
//!
//! The lock of a client that has exited or stopped stays held, unless the lock has a **lease** ([`Leased`]).
//!
//! # Lease and fencing
//! The word of a leased lock has four parts: the holder, a token that grows by one with each acquisition, the
//! end of the lease, and the slot of the data. A client that finds the lease expired takes the lock over by a
//! compare-and-swap of the whole word. Holder and waiter use their own clocks, and a holder may be stopped
//! between any two instructions. [`Leased::drift`] is the assumed bound for both together: a holder uses its
//! lease for at most this time after the end of the lease. A waiter takes the lock over only after this time.
//!
//! Mutual exclusion *in time* always depends on this bound, because no client can know that a stopped thread
//! is about to continue. Guarded data does not depend on the bound if it is fenced. **The target does not
//! refuse a late WRITE** of a holder that has lost its lease: its NIC places whatever arrives on a connected
//! QP with a valid key. So the protocol makes such a WRITE harmless. Each client has two slots of its own for
//! a lock's data, and WRITEs to the slot that the word does not name. It publishes this slot by the
//! compare-and-swap that releases the lock. This compare-and-swap expects exactly the word that the
//! acquisition stored. If the lock has been taken over, the compare-and-swap fails. Then no client ever reads
//! the slot, and the operation begins again. No later WRITE of the client overtakes a WRITE that is still in
//! flight, because both go by one QP, and no other client writes to its slots. So the delay needs no bound.
//! (A client that starts again has a new number, and so new slots. A client with an old number on a new QP
//! may be admitted only after the server has destroyed the old QP.)
//!
//! A compare-and-swap compares the whole word. Equal words have equal meanings, so it does no harm that the
//! token wraps.
//!
//! Fencing costs memory: 2 x clients + 1 slots for each lock instead of one. It needs a compare-and-swap for
//! each release, not a WRITE, and the NIC's atomic unit spends as much time on the release as on the
//! acquisition. The lease costs one more compare-and-swap if other clients have had the lock since this
//! client saw its word. Fencing costs no round trip: WRITE and compare-and-swap are posted with one doorbell,
//! and the word that the acquisition returns names the slot of the data. Without fencing
//! ([`Leased::fencing`]) data is WRITTEN in place, as if the bound always held.
//!
//! Alternatives cost more. If the server revokes a QP or region of each holder, every take-over needs the
//! server's processor and a round trip to it. If the token selects the slot, there must be as many slots as
//! acquisitions during the flight of a WRITE, and no bound for this number is known.

pub(crate) mod backoff;
mod client;
mod config;
mod deployment;
mod layout;
mod leased;
mod local;
mod lock;
mod reach;
mod remote;
mod rpc;
pub(crate) mod word;

pub use backoff::Waits;
pub use client::{Held, Section, SpinlockClient};
pub use config::{LocalSpinlock, Locks, Release, RemoteSpinlock, RpcSpinlock};
pub use layout::Layout;
pub use leased::Leased;
pub use local::Local;
pub use lock::{Design, Lock};
pub use remote::Remote;
pub use rpc::Rpc;
