//! Spreading received bytes over SGEs.

use crate::{Action, KeyError, Keys};
use doorbell_verbs::{AccessFlags, Sge};

/// Writes `len` payload bytes to the SGEs, from byte `skip` of the SGEs on. The caller has checked that the
/// bytes fit. If an lkey is not valid for the access, nothing is written.
pub(crate) fn scatter(
    keys: &Keys,
    pd: u32,
    sges: &[Sge],
    skip: u64,
    len: u32,
    out: &mut Vec<Action>,
) -> Result<(), KeyError> {
    let start = out.len();
    let mut skip = skip;
    let mut done = 0;
    for sge in sges {
        if done == len {
            break;
        }
        let length = u64::from(sge.length);
        if skip >= length {
            skip -= length;
            continue;
        }
        let piece = (length - skip).min(u64::from(len - done)) as u32;
        let addr = sge.addr.wrapping_add(skip);
        if let Err(error) = keys.check(sge.lkey, pd, addr, u64::from(piece), AccessFlags::LOCAL_WRITE) {
            out.truncate(start);
            return Err(error);
        }
        out.push(Action::Place { addr, payload_offset: done, len: piece });
        done += piece;
        skip = 0;
    }
    debug_assert_eq!(done, len, "the caller checks the room");
    Ok(())
}
