//! ATC'16, 5.4: the addresses that share a lock. They are inferred only from the rates of pairs of addresses.

use super::micro;
use crate::experiment::briefly;
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_nic::Profile;
use doorbell_workload::Workload;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "locks",
    paper: "atc16",
    title: "locks for atomics, inferred from pairs of addresses",
    claims: &["atc16-atomics-buckets", "atc16-atomics-12lsb"],
    runs: Runs::Verbs,
    run,
};

/// Address bits that are tried. Atomics work on aligned words, so bits 0 to 2 are always zero.
const BITS: [u32; 18] = [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20];

/// Number of random pairs that agree in their 12 low bits. There are as many random pairs that do not agree.
const PAIRS: usize = 12;

/// A pair has two locks if its rate exceeds this many times the rate of one word.
const TWO_LOCKS: f64 = 1.3;

/// Fetch-and-adds on two words that are `distance` bytes apart. Each operation chooses one of them at random.
/// Distance 0 means a single word.
fn pair(profile: &Profile, distance: u32) -> Workload {
    let workload = match distance {
        0 => micro::atomics(profile, 1, 8),
        _ => micro::atomics(profile, 2, distance),
    };
    briefly(60, Workload { machines: Some(2), threads: Some(4), qps: Some(1), ..workload })
}

/// The locks, as inferred from pairs.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Locks {
    /// Address bits that choose the lock. Two words that differ in a single one of these bits do not
    /// conflict.
    pub(super) bits: Vec<u32>,
    /// Whether random pairs conflict exactly if they agree in these bits.
    pub(super) confirmed: bool,
}

impl Locks {
    /// Number of locks that aligned words reach.
    pub(super) fn reached(&self) -> u64 {
        1 << self.bits.len()
    }

    /// Number of locks, if the bits are contiguous. As in the paper, bits 0 to 2 count, too, if bit 3 was
    /// found, although they are equal in aligned words.
    fn buckets(&self) -> u64 {
        match (self.bits.first(), self.bits.last()) {
            (Some(&low), Some(&high)) => 1 << (high + 1 - if low == BITS[0] { 0 } else { low }),
            _ => 1,
        }
    }
}

/// A run of the experiment.
pub(super) struct Inference {
    pub(super) locks: Locks,
    /// Mean rate of random pairs whose 12 low bits are equal, and of pairs whose 12 low bits differ, Mops.
    equal: f64,
    different: f64,
}

/// Random distances below 1 MiB between aligned words whose 12 low bits agree, or do not agree.
fn distances(agree: bool) -> Vec<u32> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(if agree { 12 } else { 21 });
    let mut draw = || match agree {
        true => (random.next_u32() % 255 + 1) << 12,
        false => (random.next_u32() % (1 << 17)) << 3,
    };
    let mut found = Vec::new();
    while found.len() < PAIRS {
        let d = draw();
        if d > 0 && agree == (d % 4096 == 0) {
            found.push(d);
        }
    }
    found
}

/// Infers the locks of cib.
pub(super) fn infer(ctx: &Ctx<'_>) -> Result<Inference, NotYet> {
    let profile = ctx.profile("cib");
    let rates = |distances: &[u32]| -> Result<Vec<f64>, NotYet> {
        let workloads: Vec<Workload> = distances.iter().map(|&d| pair(profile, d)).collect();
        Ok(ctx.measure("cib", "locks", &workloads)?.iter().map(|o| o.mops).collect())
    };
    let one = rates(&[0])?[0];
    let apart = |rate: f64| rate > TWO_LOCKS * one;
    let by_bit = rates(&BITS.map(|bit| 1 << bit))?;
    let bits: Vec<u32> = BITS.into_iter().zip(by_bit).filter(|(_, r)| apart(*r)).map(|(b, _)| b).collect();
    // None of these bits is set in the address of a pair's first word.
    let differ = |d: u32| bits.iter().any(|b| d >> b & 1 == 1);
    let (same, other) = (distances(true), distances(false));
    let (equal, different) = (rates(&same)?, rates(&other)?);
    let mut pairs = same.iter().zip(&equal).chain(other.iter().zip(&different));
    let confirmed = pairs.all(|(d, r)| differ(*d) == apart(*r));
    let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len() as f64;
    let (equal, different) = (mean(&equal), mean(&different));
    Ok(Inference { locks: Locks { bits, confirmed }, equal, different })
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let Inference { locks, equal, different } = infer(ctx)?;
    let bits = match (locks.bits.first(), locks.bits.last()) {
        (Some(low), Some(high)) => format!("address bits {low} to {high}"),
        _ => "no address bit".to_owned(),
    };
    let note = format!(
        "{bits} choose the lock ({}by random pairs); 8-byte aligned words reach {} locks, and bits 0 to 2, \
         which are equal in such words, are counted as in the paper",
        if locks.confirmed { "confirmed " } else { "NOT confirmed " },
        locks.reached(),
    );
    let seen = format!("{equal:.2} and {different:.2} Mops");
    let checks = vec![
        Check::number("atc16-atomics-buckets", "cib", locks.buckets() as f64).note(note),
        Check::statement("atc16-atomics-12lsb", "cib", equal < 0.9 * different, seen),
    ];
    Ok(Findings { checks, ..Findings::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_lab::Control;
    use std::collections::BTreeSet;

    /// The inference sees rates only. This test compares the inferred locks with the profile.
    #[test]
    fn finds_the_locks_of_any_profile() {
        for (slots, low) in [(4096, 0), (4096, 3), (64, 3), (256, 6), (1, 0)] {
            let control = Control::quiet();
            let mut ctx = Ctx::new(false, control).unwrap();
            let cib = ctx.profiles.iter_mut().find(|p| p.name == "cib").unwrap();
            (cib.device.atomics.slots, cib.device.atomics.slot_low_bit) = (slots, low);
            let words = (0..1u64 << 21).step_by(8);
            let reached: BTreeSet<u32> = words.map(|a| cib.device.atomics.slot(a)).collect();
            let locks = ctx.until_known(infer).locks;
            assert_eq!(locks.reached(), reached.len() as u64, "{slots} from bit {low}: {locks:?}");
            assert!(locks.confirmed, "{slots} from bit {low}: {locks:?}");
        }
    }
}
