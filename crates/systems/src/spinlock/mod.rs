//! Spinlocks (CLUSTER'21, III-E, Figure 10a): a client takes a lock, holds it, gives it back, and again.
//!
//! There are three designs, each a system:
//!
//! - [`LocalSpinlock`]: threads of one machine compare-and-swap a word of its memory. Nobody else takes part.
//! - [`RemoteSpinlock`]: clients compare-and-swap a word of the server's memory by RDMA, whose processor takes no part. The
//!   lock is given back by a WRITE, or by another compare-and-swap, on the QP by which it was taken.
//! - [`RpcSpinlock`]: one thread of the server knows who has which lock, and is asked by RC SEND; its replies are RC SENDs, each
//!   posted before the next request is taken. The paper does not say what becomes of who asks for a lock that another has: here he is refused, as
//!   by a failed compare-and-swap, and asks again.
//!
//! Who has failed waits, if [`Waits`] says so, for a drawn part of a span that doubles with each failure. An operation begins with its first attempt, and ends
//! when the lock has been given back: when the store is done, the WRITE or compare-and-swap has completed, or the reply has come.
//! `again` counts attempts that failed.
//!
//! # What is guaranteed
//! One client at a time has a lock. What a lock guards ([`Section::data`]) is read after the lock was taken and written before it is given back:
//! RC places WRITEs in the order in which they were posted, and before an atomic that follows; where the lock goes by another way than
//! the data, the WRITE has completed before. RC loses nothing and does an atomic once, however often a packet is sent again.
//!
//! **A lock that is given back by a WRITE** ([`Release::Write`]) is so only where a compare-and-swap that fails leaves the word alone. An HCA's atomics are atomic to each other
//! (IBV_ATOMIC_HCA, ibv_query_device(3)), not to a WRITE: one that stores what it has compared in vain may undo a WRITE that came in between, and the lock stays taken for
//! ever. The Soft-RoCE of Linux 6.1 does. There, and wherever the vendor does not promise it, [`Release::Cas`] is right.
//!
//! Nobody is served in turn: a client may be passed over for as long as others come before it. The result says how unevenly clients were served.
//!
//! Nobody frees the lock of a client that has ended or stopped, unless it has a **lease** ([`Leased`]).
//!
//! # Lease and fencing
//! The word of such a lock holds who has it, a token that grows by one with each time the lock is taken, when the lease ends, and where the data lie. Who finds it
//! expired takes it over by a compare-and-swap of the whole word. Holder and waiter look at clocks of their own, and a holder may be stopped between any two instructions. [`Leased::drift`]
//! states the bound that is assumed of both together: for how long after its end by the holder's clock a lease may be in use by anybody else's. Whoever waits
//! takes over after that, and not before.
//!
//! Mutual exclusion of *times* rests on that bound, whatever is done: nobody can know that a thread is about to go on. What the lock
//! guards does not, if it is fenced. **Who refuses the WRITE of a holder whose lease has been taken?** Not the target: its NIC places whatever comes by a
//! connected QP, with a valid key, whenever it comes. So it is let land where nobody reads. Each client has two slots of its own for what a lock
//! guards; it WRITEs to the one that the word does not name, and publishes it by the compare-and-swap that gives the lock back, of the very word with which it took the lock. Where the lock has been taken
//! over that compare-and-swap fails: nobody ever reads the slot, and the operation begins again. A WRITE that is still on its way then is overtaken by none that the same client posts later, as
//! these go by the same QP; and nobody else writes to its slots. No bound on how late it comes is needed. (Who comes back after its end
//! has a new number, and so slots of its own; by a new QP with the old number it must be let in only when the server has destroyed the old one.)
//!
//! The word that has been read is compared as a whole: a word that is the same again says the same, so nothing depends on how far the token counts before it begins anew.
//!
//! What fencing costs: two slots for each client and lock, 2 x clients + 1 instead of one; and the lock goes back by a compare-and-swap, on which the NIC's
//! atomic unit spends as much as on taking it, never by a WRITE. The lease costs another compare-and-swap where others have had the lock since this client saw its word. Fencing costs no round trip: WRITE and compare-and-swap go with one doorbell, and the answer that gives the lock says
//! where the data are. Without fencing ([`Leased::fencing`]) data are WRITTEN in place, as if the bound always held.
//!
//! Alternatives: a QP or region for each holder, which the server takes away, needs the server's processor for each take-over and a round trip to it; slots
//! by token need as many as tokens may pass while a WRITE is under way, of which nobody knows a bound.

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
