//! A client that writes small ranges without end.

use super::config::Consolidate;
use super::consolidator::Consolidator;
use crate::device::Device;
use crate::measure::How;
use crate::random::Random;
use crate::{Interval, Measured, SystemError, memory_server};
use doorbell_verbs::{Program, Provider};
use std::collections::VecDeque;

/// Prefix of the keys that are published.
pub const SERVICE: &str = "consolidate";

/// Bytes up to which a WRITE is inline.
const INLINE: u32 = 64;

/// A client.
#[derive(Clone, Debug)]
pub struct ConsolidateClient {
    /// Number of this client.
    pub number: u32,
    /// Its writes, and how they are held back.
    pub io: Consolidate,
    /// When it measures, and when it ends at the latest.
    pub interval: Interval,
}

impl Program for ConsolidateClient {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let ConsolidateClient { number, ref io, .. } = self;
        let device = Device::open(&p)?;
        let memory = memory_server::find(&p, SERVICE)?.at(io.region() * u64::from(number));
        let region = (memory, io.region());
        let mut consolidator = Consolidator::connect(&device, (number, SERVICE), region, io.rules(), INLINE)?;
        let bytes = vec![0x5a; io.modification as usize];
        let (block, size) = (u64::from(io.block), u64::from(io.modification));
        let mut random = Random::new(io.timing.seed, number.into());
        // These writes bring each block into a frame.
        for at in (0..io.region()).step_by(io.block as usize) {
            consolidator.write(at, &bytes)?;
        }
        consolidator.flush()?;
        consolidator.fence()?;
        consolidator.poll()?;
        // For each block, when its writes that have not completed began.
        let mut begun = vec![VecDeque::new(); io.blocks as usize];
        let mut measured = Measured::default();
        let interval = self.interval.begin(&p);
        while p.now() < interval.end() {
            let mut written = 0;
            // The client polls for completions about once for each post.
            while written < io.theta && consolidator.has_room() {
                let offset = random.below(io.region() / size) * size;
                begun[(offset / block) as usize].push_back(p.now());
                consolidator.write(offset, &bytes)?;
                written += 1;
            }
            let polled = consolidator.poll()?;
            let idle = written == 0 && polled.is_idle();
            for done in polled.completed {
                let now = p.now();
                for began in begun[done.block as usize].drain(..done.writes as usize) {
                    measured.operation(&interval, began, now, How::default());
                }
            }
            if idle {
                p.pause(interval.look().min(consolidator.due()));
            }
        }
        Ok(measured)
    }
}
