//! A machine's own memory: reads find the bytes that are there, writes stay, and nothing else changes.

use crate::check::{Check, Scale};
use crate::deployed;
use crate::faults::Faults;
use crate::stage::{self, text};
use doorbell_systems::local_memory::{
    Addresses, LocalMemory, LocalMemoryClient, MACHINE, Op, Pieces, written,
};
use doorbell_systems::{Measured, SystemError};
use doorbell_verbs::{Cluster, PageSize, Program, Provider};

/// Bytes of a region: no whole number of lines or pieces.
const REGION: u64 = 20_011;
/// Bytes of a piece: within a line, a line, and over several lines.
const SIZES: [u32; 4] = [1, 24, 64, 333];

/// The byte that a region has at first at an offset.
fn at_first(offset: u64) -> u8 {
    (offset * 7 + offset / 251) as u8
}

/// A client that compares all bytes it reads with a copy, and in the end all its memory.
struct Compared(LocalMemoryClient);

impl Program for Compared {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let Compared(client) = self;
        let (op, region) = (client.op, client.region);
        let mut copy: Vec<u8> = (0..region.len()).map(at_first).collect();
        let mut wrong = None;
        let measured = client.go(&p, |operation, offset, bytes| {
            let there = &mut copy[offset as usize..][..bytes.len()];
            match op {
                Op::Write => there.fill(written(operation)),
                Op::Read if there != bytes => wrong = wrong.or(Some(offset)),
                Op::Read => (),
            }
        })?;
        let mut all = vec![0; copy.len()];
        p.read(region, 0, &mut all);
        let differs = all.iter().zip(&copy).position(|(found, wanted)| found != wanted);
        match wrong.or(differs.map(|at| at as u64)) {
            None => Ok(measured),
            Some(at) => {
                Err(SystemError::Protocol(format!("byte {at} of {REGION} differs from the stored byte")))
            }
        }
    }
}

fn run<C: Cluster>(cluster: &mut C, (op, addresses): (Op, Addresses), scale: &Scale) -> Result<(), String> {
    for size in SIZES {
        let mut stage = stage::stage::<C, Measured>(cluster, Faults::default(), scale.patience)?;
        for number in 0..scale.clients {
            // Regions are also at sockets of other cores than the client's.
            let region =
                stage.cluster().alloc_near(MACHINE, number / 2, REGION, PageSize::Small).map_err(text)?;
            stage.cluster().preset(MACHINE, region, |bytes| {
                (0..).zip(bytes).for_each(|(offset, byte)| *byte = at_first(offset));
            });
            let pieces = Pieces::new(addresses, size, REGION, (7, number));
            let (interval, limit) = (stage.client_interval(), scale.draws);
            let client = LocalMemoryClient { op, size, pieces, region, touch: false, limit, interval };
            stage.add_client((MACHINE, number), Compared(client));
        }
        stage::run(stage)?;
    }
    Ok(())
}

fn check<C: Cluster>(op: Op, addresses: Addresses) -> Check<C> {
    let name = format!("systems/local_memory/{}_{}", op.name(), addresses.name().replace('-', "_"));
    Check::new(name, move |cluster: &mut C, scale| run(cluster, (op, addresses), scale))
}

/// The checks of local memory.
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    let all = [Addresses::Sequential, Addresses::Random, Addresses::AnyByte];
    let mut checks: Vec<Check<C>> =
        [Op::Read, Op::Write].into_iter().flat_map(|op| all.map(|addresses| check(op, addresses))).collect();
    checks.push(deployed::check::<LocalMemory, C>());
    checks
}
