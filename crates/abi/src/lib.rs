//! The C ABI of libibverbs, as programs compiled against rdma-core 44 see it.
//!
//! rdma-core only ever appends to these structs, so the layouts of version 44 are good for calling
//! every later library. `serve.rs` has what only a library that serves programs needs. Every size and every offset that matters is asserted at compile time
//! (`layout.rs`). Structs and fields keep their C names; enumerations are plain `u32` fields that
//! [`CEnum`] turns into those of `doorbell_verbs` and back.
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
