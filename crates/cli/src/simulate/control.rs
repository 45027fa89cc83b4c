//! How runs of `doorbell simulate` are made.

use crate::args::SimulateArgs;
use crate::trace::Watched;
use doorbell_lab::Control;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// How runs are made that these arguments ask for.
pub(super) fn control<'a>(
    args: &SimulateArgs,
    interrupt: &Arc<AtomicBool>,
    watch: &'a Watched<'_>,
) -> Control<'a> {
    let max_wall = std::time::Duration::from_nanos(args.max_wall.span().as_ns());
    Control { interrupt: interrupt.clone(), jobs: doorbell_lab::cores(), max_wall: Some(max_wall), watch }
}
