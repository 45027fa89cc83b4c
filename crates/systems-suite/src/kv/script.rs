//! The operations of clients, drawn at random on few keys. Values identify their writers.

use super::case::{CaseStore, KvCase};
use super::history::KvOp;
use doorbell_systems::SystemError;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

pub(crate) const KEYS: u64 = 4;
/// Bytes of values: in one line of the log, and in several.
pub(crate) const LENGTHS: [usize; 2] = [32, 300];
pub(crate) const MAX_VALUE: u32 = 320;
/// Longer than a value may be. The store refuses such values.
pub(crate) const MAX_REQUEST_VALUE: u32 = 400;

/// A value that repeats its number in every word and in the rest.
pub(crate) fn value(number: u64, len: usize) -> Vec<u8> {
    number.to_le_bytes().into_iter().cycle().take(len).collect()
}

/// The number of a value.
///
/// # Errors
/// If the value is torn.
pub(crate) fn number(value: &[u8]) -> Result<u64, SystemError> {
    let number = value.first_chunk().map(|word| u64::from_le_bytes(*word));
    match number {
        Some(number) if value == self::value(number, value.len()) => Ok(number),
        _ => Err(SystemError::Protocol(format!("a value is torn: {value:x?}"))),
    }
}

/// Draws operations on few keys.
pub(crate) struct Script {
    random: Xoshiro256PlusPlus,
    client: u64,
    written: u64,
    only_put_and_get: bool,
    lengths: [usize; 2],
}

impl Script {
    pub(crate) fn new<S: CaseStore>(case: &KvCase<S>, client: u32) -> Script {
        Script {
            random: Xoshiro256PlusPlus::seed_from_u64(case.seed ^ u64::from(client) << 40),
            client: client.into(),
            written: 0,
            // With hesitation nothing is deleted, so that no client may miss a key that was there.
            only_put_and_get: S::ONLY_PUT_AND_GET || case.faults.hesitation.is_some(),
            lengths: S::LENGTHS,
        }
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.random.next_u64() % n
    }

    /// The next operation, and its key.
    pub(crate) fn draw(&mut self) -> (u64, KvOp) {
        self.written += 1;
        let fresh = (self.client + 1) << 32 | self.written;
        let key = self.below(KEYS);
        let op = match self.below(if self.only_put_and_get { 8 } else { 12 }) {
            0..5 => KvOp::Get(None),
            5..8 => KvOp::Put(fresh),
            8 => KvOp::Insert(fresh, false),
            9 => KvOp::Update(fresh, false),
            _ => KvOp::Delete(false),
        };
        (key, op)
    }

    pub(crate) fn value(&mut self, number: u64) -> Vec<u8> {
        let length = self.lengths[self.below(2) as usize];
        value(number, length)
    }
}
