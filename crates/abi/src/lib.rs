//! The C ABI of libibverbs for programs that were compiled against rdma-core 44.
//!
//! rdma-core only ever appends to these structs, so the layouts of version 44 work with every later library.
//! `serve.rs` has definitions that only an implementation of libibverbs needs. `layout.rs` checks sizes and
//! important offsets at compile time. Structs and fields keep their C names. Enumerations are plain `u32`
//! fields, which [`CEnum`] converts to and from the types of `doorbell_verbs`.
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
