//! Spinlocks (CLUSTER'21, III-E, Figure 10a): a client acquires a lock, holds it, releases it, and repeats.
//!
//! There are three designs. Each is a system:
//!
//! - [`LocalSpinlock`]: threads of one machine compare-and-swap a word of this machine's memory. No other
//!   machine takes part.
//! - [`RemoteSpinlock`]: clients compare-and-swap a word of the server's memory by RDMA. The server's
//!   processor takes no part. A client releases the lock by a WRITE or by another compare-and-swap, on the QP
//!   of the acquisition.
//! - [`RpcSpinlock`]: a thread of the server keeps the holder of a lock. Clients ask this thread by RC SEND.
//!   The thread posts each reply, an RC SEND, before it takes the next request. Locks take the server's
//!   threads in turn, and the paper has one thread. The paper does not say how the thread answers a request
//!   for a lock that another client holds. Here the thread refuses the request, and the client asks again.
//!
//! After a failed attempt, a client waits for a drawn time ([`Waits`]). The longest wait doubles with each
//! failure. An operation begins with its first attempt, and ends with the release of the lock. `again` counts
//! failed attempts. The release ends
//! - of a local lock, when the store is done;
//! - of a remote lock, when the WRITE or compare-and-swap has completed;
//! - of a lock by RPC, when the reply has arrived.
//!
//! # Guarantees
//! - One client at a time holds a lock.
//! - The data that a lock guards ([`Section::data`]) is read after the lock is acquired, and written before
//!   it is released. RC places WRITEs in the order of posting, and before an atomic that was posted later. If
//!   lock and data use different QPs, the WRITE of the data completes before the release is posted.
//! - RC loses nothing. It executes an atomic once, however often a packet is sent again.
//! - Clients do not get the lock in turn: other clients may overtake a client any number of times. Results
//!   report how unevenly clients got locks.
//! - The lock of a client that has exited or stopped stays held, unless the lock has a **lease**
//!   ([`Leased`]).
//!
//! **Release by WRITE** ([`Release::Write`]) needs NICs whose failed compare-and-swaps do not store to the
//! word. An HCA's atomics are atomic to each other (IBV_ATOMIC_HCA, ibv_query_device(3)), but not to a WRITE.
//! A WRITE may arrive between the load and the store of a failed compare-and-swap. If the compare-and-swap
//! then stores the value that it loaded, it undoes the WRITE, and the lock stays held for ever. The Soft-RoCE
//! of Linux 6.1 stores the value. Use [`Release::Cas`] there, and wherever the vendor does not promise
//! otherwise.
//!
//! # Lease and fencing
//! Terms:
//! - The *word* of a lock with a lease has four parts: the holder, a token, the end of the lease, and the
//!   slot of the data. The token grows by one with each acquisition.
//! - The *holder* is the client that has acquired the lock.
//! - A *take-over* is an acquisition while another client still holds the lock.
//! - A *slot* is memory for the data that the lock guards. With *fencing* ([`Leased::fencing`]), each client
//!   has two slots of its own for each lock. Without fencing, a lock has one slot.
//! - The *valid* slot is the slot that the word names.
//!
//! *Take-over.* A client that finds the lease expired takes the lock over by a compare-and-swap of the whole
//! word.
//! - A client's wait for a held lock begins when its attempt fails because another client holds the lock.
//! - The wait ends when the holder releases the lock, or when [`Leased::lease`] + [`Leased::drift`] have
//!   passed since the acquisition. In the latter case the client may take the lock over.
//! - [`Leased::drift`] is an assumed bound. Holder and waiter use their own clocks, and a holder may be
//!   stopped between any two instructions. A holder is assumed to use its lease for at most this time after
//!   the end of the lease.
//!
//! Mutual exclusion *in time* always depends on this bound, because no client can know that a stopped thread
//! is about to continue. Guarded data does not depend on the bound if it is fenced.
//!
//! *Fencing.* **The target does not refuse a late WRITE** of a holder that has lost its lease: its NIC places
//! whatever arrives on a connected QP with a valid key. So the protocol makes such a WRITE harmless:
//! 1. A holder WRITEs the data to one of its own slots that is not valid.
//! 2. The holder releases the lock by a compare-and-swap that makes this slot the valid one. The
//!    compare-and-swap expects exactly the word that the acquisition stored.
//! 3. If another client has taken the lock over, the compare-and-swap fails. Then no client ever reads the
//!    slot, and the operation begins again.
//!
//! The delay of a WRITE needs no bound. No other client writes to a client's slots. The client's own later
//! WRITEs do not overtake a WRITE in flight, because all of them go by one QP. (A client that starts again
//! has a new number, and so new slots. A client with an old number on a new QP may be admitted only after the
//! server has destroyed the old QP.)
//!
//! A compare-and-swap compares the whole word. Equal words have equal meanings, so it does no harm that the
//! token wraps.
//!
//! *Costs.*
//! - Fencing needs 2 x clients + 1 slots for each lock instead of one.
//! - Fencing needs a compare-and-swap for each release, not a WRITE. The NIC's atomic unit spends as much
//!   time on the release as on the acquisition.
//! - The lease costs one more compare-and-swap if other clients have had the lock since this client saw its
//!   word.
//! - Fencing costs no round trip: WRITE and compare-and-swap are posted with one doorbell, and the word that
//!   the acquisition returns names the slot of the data.
//!
//! Without fencing, data is WRITTEN in place, as if the bound always held.
//!
//! Alternatives cost more. If the server revokes a QP or region of each holder, every take-over needs the
//! server's processor and a round trip to it. If the token selects the slot, there must be as many slots as
//! acquisitions during the flight of a WRITE. No bound for this number is known.

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
