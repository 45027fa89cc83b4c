//! Four versions of one program, because CLUSTER'21's Table I grades programmability. Here changed lines
//! measure it. The program writes records that are scattered in its memory to another machine's memory.
//! [`each`] posts a WRITE for every record. Each other version is a change of [`each`] for a strategy. A file
//! has only the parts that depend on how records are written: the set-up, the writes, and the offset at which
//! readers find a record.

pub mod doorbell;
pub mod each;
pub mod sgl;
pub mod sp;

use crate::SystemError;
use crate::device::{self, Device, check};
use doorbell_verbs::{Cq, Mem, Provider, Qp, QpCap, QpInitAttr, QpType, Sge, Time};

/// Name and source of the program, and of its versions for Doorbell, SGL and SP.
pub const SOURCES: [(&str, &str); 4] = [
    ("each", include_str!("each.rs")),
    ("Doorbell", include_str!("doorbell.rs")),
    ("SGL", include_str!("sgl.rs")),
    ("SP", include_str!("sp.rs")),
];

/// Maximum number of records in a call.
pub const RECORDS: usize = 16;
/// Maximum bytes of a record.
pub const LONGEST: u32 = 64;

/// A record, and its offset at the target.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// The memory that contains the record.
    pub mem: Mem,
    /// Offset of the record in `mem`.
    pub offset: u64,
    /// The SGE of the record, for work requests.
    pub sge: Sge,
    /// Offset of the record at the target.
    pub to: u64,
}

/// A QP connected to the memory server, and its CQ.
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
