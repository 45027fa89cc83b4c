//! The workload of a point: the series' workload with the axis set.

use super::refusal::Refusal;
use crate::format::{Locality, MeasuredWorkload};

/// The workload with the key of its axis set to an element of the axis.
///
/// # Errors
/// If the axis is no key with numbers, or the element is not a whole number.
pub(super) fn at(series: &MeasuredWorkload, x: f64) -> Result<MeasuredWorkload, Refusal> {
    let mut w = series.clone();
    if let Some(key) = count_of(&mut w) {
        *key = Some(whole(&series.axis, x)?);
        return Ok(w);
    }
    match series.axis.as_str() {
        "size" => w.size = Some(whole(&series.axis, x)?.into()),
        "region_bytes" => w.region_bytes = Some(whole(&series.axis, x)?.into()),
        "socket_hops" if x == 0.0 => w.socket = Some(Locality::Near),
        "socket_hops" => w.socket = Some(Locality::Far),
        // Intervals of one run: every point has the same workload.
        "report" => {}
        "case" => return Err(Refusal::Cases),
        axis => return Err(Refusal::Axis(axis.to_owned())),
    }
    Ok(w)
}

/// The count that the axis varies.
fn count_of(w: &mut MeasuredWorkload) -> Option<&mut Option<u32>> {
    Some(match w.axis.as_str() {
        "threads" => &mut w.threads,
        "qps_per_thread" => &mut w.qps_per_thread,
        "threads_per_qp" => &mut w.threads_per_qp,
        "qps" => &mut w.qps,
        "window" => &mut w.window,
        "window_per_thread" => &mut w.window_per_thread,
        "outstanding" => &mut w.outstanding,
        "sge" => &mut w.sge,
        "inline" => &mut w.inline,
        "signal_every" => &mut w.signal_every,
        "batch" => &mut w.batch,
        "requests" => &mut w.requests,
        "keys" => &mut w.keys,
        "rd_atomic" => &mut w.rd_atomic,
        "mtu" => &mut w.mtu,
        "hops" => &mut w.hops,
        "nics" => &mut w.nics,
        "functions" => &mut w.functions,
        _ => return None,
    })
}

fn whole(key: &str, x: f64) -> Result<u32, Refusal> {
    let in_range = x.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&x);
    if in_range { Ok(x as u32) } else { Err(Refusal::NotWhole { key: key.to_owned(), x }) }
}
