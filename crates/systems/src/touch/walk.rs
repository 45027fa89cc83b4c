//! A walk through a buffer, line by line.

use doorbell_verbs::{Cpu, Mem, Scan, Touch};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Bytes of a cache line.
const LINE: u64 = 64;

/// The order in which a buffer is scanned. The order is known beforehand, so it costs no virtual time.
#[derive(Clone, Debug)]
pub struct LineWalk {
    len: u64,
    step: u32,
    instructions: u32,
    /// Number of lines ahead that are prefetched; 0 for no prefetching.
    ahead: u64,
    /// The drawn order of the lines; `None` for the order of their addresses.
    order: Option<Vec<u32>>,
}

impl LineWalk {
    /// A walk through `len` bytes in steps of `step` bytes, a power of two up to 64. Each step executes
    /// `instructions` instructions.
    pub fn new(len: u64, step: u32, instructions: u32) -> LineWalk {
        LineWalk { len, step, instructions, ahead: 0, order: None }
    }

    /// The walk with prefetches: an instruction prefetches each line when the walk is `lines` lines before
    /// it.
    pub(super) fn ahead(self, lines: u64) -> LineWalk {
        LineWalk { ahead: lines, ..self }
    }

    /// The walk with its lines in an order that is drawn from `seed`.
    pub(super) fn shuffled(self, seed: u64) -> LineWalk {
        let mut draws = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut order: Vec<u32> = (0..self.lines() as u32).collect();
        for last in (1..order.len()).rev() {
            order.swap(last, (draws.next_u64() % (last as u64 + 1)) as usize);
        }
        LineWalk { order: Some(order), ..self }
    }

    fn lines(&self) -> u64 {
        self.len.div_ceil(LINE)
    }

    /// Offset and length of the `n`th line; `None` after the last.
    fn line(&self, n: u64) -> Option<(u64, u64)> {
        let line = match &self.order {
            Some(order) => u64::from(*order.get(n as usize)?),
            None => n,
        };
        let at = line * LINE;
        (at < self.len).then(|| (at, LINE.min(self.len - at)))
    }

    /// Scans the beginning of `mem`.
    pub fn go<C: Cpu>(&self, cpu: &C, mem: Mem, touch: Touch) {
        let scan = Scan { touch, step: self.step, instructions: self.instructions };
        if self.order.is_none() && self.ahead == 0 {
            return cpu.scan(mem, 0, self.len, scan);
        }
        for n in 0..self.lines() {
            if let Some((at, len)) = self.line(n + self.ahead).filter(|_| self.ahead > 0) {
                cpu.prefetch(mem, at, len);
            }
            if let Some((at, len)) = self.line(n) {
                cpu.scan(mem, at, len, scan);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawn_order_has_each_line_once() {
        let walk = LineWalk::new(1000, 8, 8);
        let of = |walk: &LineWalk| (0..).map_while(|n| walk.line(n)).collect::<Vec<_>>();
        let mut drawn = of(&walk.clone().shuffled(1));
        assert_ne!(drawn, of(&walk));
        drawn.sort_unstable();
        assert_eq!(drawn, of(&walk));
        assert_eq!(drawn.last(), Some(&(960, 40)), "the last is not whole");
    }
}
