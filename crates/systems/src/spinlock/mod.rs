//! Spinlocks (CLUSTER'21, III-E, Figure 10a): a client acquires a lock, holds it, releases it, and repeats.
//!
//! There are three designs, each a system:
//!
//! - [`LocalSpinlock`]: threads of one machine compare-and-swap a word of its memory. No other machine takes
//!   part.
//! - [`RemoteSpinlock`]: clients compare-and-swap a word of the server's memory by RDMA. The server's
//!   processor takes no part. A client releases the lock by a WRITE, or by another compare-and-swap, on the
//!   QP by which it acquired the lock.
//! - [`RpcSpinlock`]: one thread of the server keeps each lock's holder. Clients ask it by RC SEND. It posts
//!   each reply, an RC SEND, before it takes the next request. The paper does not say how it answers a
//!   request for a lock that another client holds. Here it refuses, like a failed compare-and-swap, and the
//!   client asks again.
//!
//! A client that failed waits, if [`Waits`] says so, for a drawn part of a span that doubles with each
//! failure. An operation begins with its first attempt. It ends when the lock has been released: when the
//! store is done, the WRITE or compare-and-swap has completed, or the reply has arrived. `again` counts
//! failed attempts.
//!
//! # Guarantees
//! One client at a time holds a lock. The data that a lock guards ([`Section::data`]) is read after the lock
//! is acquired, and written before it is released. RC places WRITEs in the order of posting, and before an
//! atomic that follows. If lock and data go by different QPs, the WRITE has completed before the release. RC
//! loses nothing and executes an atomic once, however often a packet is sent again.
//!
//! **Release by WRITE** ([`Release::Write`]) needs compare-and-swaps that leave the word alone if they fail.
//! An HCA's atomics are atomic to each other (IBV_ATOMIC_HCA, ibv_query_device(3)), but not to a WRITE. A
//! failed compare-and-swap that stores the value that it compared may undo a WRITE that arrived in between.
//! The lock then stays held for ever. The Soft-RoCE of Linux 6.1 stores it. There, and wherever the vendor
//! does not promise otherwise, use [`Release::Cas`].
//!
//! Clients are not served in turn: other clients may pass a client any number of times. Results say how
//! unevenly clients were served.
//!
//! Nobody releases the lock of a client that has ended or stopped, unless the lock has a **lease**
//! ([`Leased`]).
//!
//! # Lease and fencing
//! The word of a leased lock has four parts. They are the holder, a token that grows by one with each
//! acquisition, the end of the lease, and the slot of the data. A client that finds the lease expired takes
//! the lock over by a compare-and-swap of the whole word. Holder and waiter use their own clocks, and a
//! holder may be stopped between any two instructions. [`Leased::drift`] is the assumed bound on both
//! together: how long after its end, by the holder's clock, a lease may be in use by any other clock. A
//! waiter takes over after that time, and not before.
//!
//! Mutual exclusion *in time* rests on that bound, whatever is done: nobody can know that a stopped thread is
//! about to go on. The guarded data does not rest on it, if it is fenced. **Nobody refuses a late WRITE** of
//! a holder that has lost its lease. The target's NIC places whatever arrives on a connected QP with a valid
//! key, whenever it arrives. So the WRITE lands where nobody reads. Each client has two slots of its own for
//! a lock's data, and WRITEs to the slot that the word does not name. It publishes this slot by the
//! compare-and-swap that releases the lock, which expects the very word with which the client acquired the
//! lock. If the lock has been taken over, that compare-and-swap fails. Then nobody ever reads the slot, and
//! the operation begins again. No later WRITE of the client overtakes a WRITE that is still in flight,
//! because both go by one QP, and no other client writes to its slots. So no bound on the delay is needed. (A
//! client that comes back after its end has a new number, and so slots of its own. A client with an old
//! number on a new QP may be let in only after the server has destroyed the old QP.)
//!
//! A compare-and-swap compares the whole word. An equal word has an equal meaning, so nothing depends on when
//! the token wraps.
//!
//! Fencing costs memory: two slots for each client and lock, 2 x clients + 1 instead of one. It also costs a
//! compare-and-swap at each release, never a WRITE. The NIC's atomic unit spends as much on it as on the
//! acquisition. The lease costs another compare-and-swap if other clients have had the lock since this client
//! saw its word. Fencing costs no round trip: WRITE and compare-and-swap go with one doorbell, and the answer
//! that grants the lock names the slot of the data. Without fencing ([`Leased::fencing`]) data is WRITTEN in
//! place, as if the bound always held.
//!
//! Alternatives cost more. A QP or region for each holder, which the server revokes, needs the server's
//! processor and a round trip to it for each take-over. Slots by token need as many slots as tokens may pass
//! while a WRITE is in flight, and nobody knows a bound on that.

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
