//! One program written four ways, as its lines are what CLUSTER'21's Table I calls programmability: it writes records that lie scattered in its memory to
//! another machine's. [`each`] has a WRITE for every record; the others are that program changed for a strategy. A file is all that depends on
//! how records are written: what is made for it, the writing, and where readers find a record.

pub mod doorbell;
pub mod each;
pub mod sgl;
pub mod sp;

use crate::SystemError;
use crate::device::{self, Device, check};
use doorbell_verbs::{Cq, Mem, Provider, Qp, QpCap, QpInitAttr, QpType, Sge, Time};

/// Name and lines of the program, and of it changed for Doorbell, SGL and SP.
pub const SOURCES: [(&str, &str); 4] = [
    ("each", include_str!("each.rs")),
    ("Doorbell", include_str!("doorbell.rs")),
    ("SGL", include_str!("sgl.rs")),
    ("SP", include_str!("sp.rs")),
];

/// Records of a call at most.
pub const RECORDS: usize = 16;
/// Bytes of a record at most.
pub const LONGEST: u32 = 64;

/// A record, and the place at the target that is its own.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// The memory it is in.
    pub mem: Mem,
    /// Where it begins there.
    pub offset: u64,
    /// The same as the device knows it.
    pub sge: Sge,
    /// Its place.
    pub to: u64,
}

/// A QP to the memory server, and its CQ.
fn connected<P: Provider>(
    device: &Device<P>,
    number: u32,
    cap: QpCap,
) -> Result<(Qp<P>, Cq<P>), SystemError> {
    let cq = device.context.create_cq(1)?;
    let qp = device.pd.create_qp(&cq, &cq, None, &QpInitAttr::new(QpType::Rc, cap))?;
    device::connect_qp(device, &qp, number, super::SERVICE)?;
    Ok((qp, cq))
}

/// Waits for a completion.
fn completed<P: Provider>(cq: &Cq<P>) -> Result<(), SystemError> {
    loop {
        if let Some(wc) = cq.wait(Time::NEVER)? {
            return check(&wc);
        }
    }
}
