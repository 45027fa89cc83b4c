//! The vocabulary of libibverbs in safe Rust, and the provider interface behind it.
//!
//! A [`Program`] uses [`Context`], the objects created from it, and [`Cpu`]. A [`Provider`] carries out their
//! calls: in virtual time, or on a device that libibverbs knows. Nouns, flags, limits and error names come
//! from the man pages.
#![forbid(unsafe_code)]

mod attr;
mod cluster;
mod cpu;
mod device;
mod endpoint;
mod error;
mod handle;
mod mem;
mod provider;
mod qp;
mod shared;
mod sockets;
mod step;
mod tcp;
mod time;
mod types;
mod wr;

pub use attr::{AhAttr, DeviceAttr, FlowLabel, GlobalRoute, PortAttr, QpAttr, QpCap, QpInitAttr, SrqAttr};
pub use cluster::{Cluster, Program, RunError, Task, TaskSlot};
pub use cpu::{Cpu, Scan, Touch};
pub use device::{Context, Cq, Mr, Pd};
pub use endpoint::Endpoint;
pub use error::{PostError, VerbsError};
pub use handle::{AhHandle, CqHandle, DeviceHandle, MrHandle, PdHandle, QpHandle, SrqHandle};
pub use mem::{Mem, PageSize};
pub use provider::{MrKeys, Provider, QpObjects, verb_not_offered};
pub use qp::{Ah, ConnectAttr, JoinedQp, Qp, Srq};
pub use shared::SharedQp;
pub use sockets::{SocketError, SocketHandle, Sockets};
pub use step::{OperationKey, OperationStep};
pub use tcp::{TcpListener, TcpStream};
pub use time::{Span, Time};
pub use types::{AccessFlags, Gid, LinkLayer, Mtu, Opcode, QpState, QpType, SendFlags, WcOpcode, WcStatus};
pub use wr::{GRH_BYTES, RecvWr, RemoteAddr, SendOp, SendWr, Sge, UdDest, Wc};
