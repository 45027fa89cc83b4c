//! Fetch-and-add on a counter in memory of the thread's own machine (CLUSTER'21, III-E:
//! `__sync_fetch_and_add`).

use crate::drawing::{Drawer, Drawing, Drawn};
use crate::{Interval, SystemError};
use doorbell_verbs::{Mem, Program, Provider};

/// A thread that draws one number at a time.
#[derive(Clone, Debug)]
pub struct LocalSequencerClient {
    /// The counter that all threads share. Its value is the next number.
    pub counter: Mem,
    /// How the thread draws numbers.
    pub drawing: Drawing,
    /// When the thread measures, and when it ends at the latest.
    pub interval: Interval,
}

impl Program for LocalSequencerClient {
    type Output = Result<Drawn, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let interval = self.interval.begin(&p);
        let mut drawer = Drawer::new(self.drawing, &interval);
        let mut now = p.now();
        while !drawer.is_done(now) {
            let began = now;
            drawer.sent(1);
            let value = p.fetch_add_u64(self.counter, 0, 1);
            now = p.now();
            drawer.got(value, began, now, false);
        }
        Ok(drawer.drawn)
    }
}
