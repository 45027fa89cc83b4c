//! A thread that loads or stores piece after piece.

use super::config::Op;
use super::pieces::Pieces;
use crate::measure::How;
use crate::{Interval, Measured, SystemError};
use doorbell_verbs::{Mem, Program, Provider};

/// Bytes of the smallest page.
const PAGE: u64 = 4096;

/// A thread and its memory.
#[derive(Clone, Debug)]
pub struct LocalMemoryClient {
    /// Whether the thread loads or stores pieces.
    pub op: Op,
    /// Bytes of a piece.
    pub size: u32,
    /// The pieces in their order.
    pub pieces: Pieces,
    /// The client's memory.
    pub region: Mem,
    /// Whether the thread first stores a 0 byte to each page. A real machine allocates a page at its first
    /// store.
    pub touch: bool,
    /// Stop after this many operations; 0 for no limit.
    pub limit: u64,
    /// When the thread measures, and when it ends at the latest.
    pub interval: Interval,
}

/// The value of all bytes that a writing operation stores.
pub fn written(operation: u64) -> u8 {
    operation as u8
}

impl LocalMemoryClient {
    /// Runs the client. `saw` gets each operation's number, its offset, and the bytes read or written.
    ///
    /// # Errors
    /// None. The return type is the type of a program's output.
    pub fn go<P: Provider>(
        mut self,
        p: &P,
        mut saw: impl FnMut(u64, u64, &[u8]),
    ) -> Result<Measured, SystemError> {
        if self.touch {
            (0..self.region.len()).step_by(PAGE as usize).for_each(|at| p.store_u8(self.region, at, 0));
        }
        let interval = self.interval.begin(p);
        let mut measured = Measured::default();
        let mut piece = vec![0; self.size as usize];
        let (mut now, mut operation) = (p.now(), 0);
        while now < interval.end() && (self.limit == 0 || operation < self.limit) {
            let began = now;
            let offset = self.pieces.next_offset();
            match self.op {
                Op::Read => p.read(self.region, offset, &mut piece),
                Op::Write => {
                    piece.fill(written(operation));
                    p.write(self.region, offset, &piece);
                }
            }
            now = p.now();
            saw(operation, offset, &piece);
            measured.operation(&interval, began, now, How::default());
            operation += 1;
        }
        Ok(measured)
    }
}

impl Program for LocalMemoryClient {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        self.go(&p, |_, _, _| ())
    }
}
