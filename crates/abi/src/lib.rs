//! The C ABI of libibverbs, as programs compiled against rdma-core 44 see it.
//!
//! rdma-core only ever appends to these structs, so the layouts of version 44 work with every later library.
//! `serve.rs` has definitions that only a library that serves programs needs. Every relevant size and offset
//! is asserted at compile time (`layout.rs`). Structs and fields keep their C names. Enumerations are plain
//! `u32` fields, which [`CEnum`] converts to and from the types of `doorbell_verbs`.
#![forbid(unsafe_code)]

mod attr;
pub mod cm;
mod convert;
mod layout;
mod names;
mod objects;
mod serve;

pub use attr::*;
pub use convert::CEnum;
pub use names::{opcode_name, status_name};
pub use objects::*;
pub use serve::*;
