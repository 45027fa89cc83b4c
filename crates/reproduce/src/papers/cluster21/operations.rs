//! CLUSTER'21, II-A and III-A: verbs of each transport, and the network and PCIe operations with which each
//! strategy writes N pieces. All numbers come from the accounting alone.

use super::cluster::CLUSTER;
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_nic::{Method, PostShape, accounting};
use doorbell_verbs::{Opcode, QpType};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "operations",
    paper: "cluster21",
    title: "verbs of each transport; network operations, MMIOs and DMAs of vector I/O",
    claims: &["cluster21-s2-transports", "cluster21-s3a-network-rtts", "cluster21-s3a-mmio-dma"],
    runs: Runs::None,
    run,
};

/// Pieces of a call, and bytes of each.
const PIECES: u32 = 8;
const BYTES: u32 = 32;

/// A WRITE with `sges` pieces.
fn write(sges: u32, method: Method) -> PostShape {
    PostShape {
        opcode: Opcode::Write,
        qp_type: QpType::Rc,
        payload: sges * BYTES,
        sges,
        inline: false,
        signaled: true,
        method,
    }
}

/// Verbs that each transport offers.
fn transports() -> Check {
    const ALL: [QpType; 3] = [QpType::Rc, QpType::Uc, QpType::Ud];
    let on = |verb: Opcode| ALL.map(|transport| verb.is_offered_by(transport));
    let [send, write, read, atomic] = [Opcode::Send, Opcode::Write, Opcode::Read, Opcode::FetchAdd].map(on);
    let holds =
        send == [true; 3] && write == [true, true, false] && [read, atomic] == [[true, false, false]; 2];
    let seen = format!("on RC, UC, UD: SEND {send:?}, WRITE {write:?}, READ {read:?}, atomics {atomic:?}");
    Check::statement("cluster21-s2-transports", CLUSTER, holds, seen)
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let profile = ctx.profile(CLUSTER);
    // One WQE with all SGEs, and a list of WQEs with one SGE each.
    let gathered = write(PIECES, Method::Doorbell { batch: 1 });
    let listed = write(1, Method::Doorbell { batch: PIECES });
    let operations = [1, gathered.method.wqes(), listed.method.wqes()];
    let [of_gathered, of_listed] = [gathered, listed].map(|shape| accounting::transfer(profile, &shape));
    let network =
        format!("{PIECES} pieces: SP {}, SGL {}, Doorbell {}", operations[0], operations[1], operations[2]);
    let pcie = format!(
        "{PIECES} pieces: SGL {} MMIO and {} DMA of WQEs, Doorbell {} MMIO and {} DMAs",
        of_gathered.mmio_writes, of_gathered.dma_reads, of_listed.mmio_writes, of_listed.dma_reads
    );
    let one_each = (of_gathered.mmio_writes, of_gathered.dma_reads, of_listed.mmio_writes) == (1, 1, 1);
    let checks = vec![
        transports(),
        Check::statement("cluster21-s3a-network-rtts", CLUSTER, operations == [1, 1, PIECES], network),
        Check::statement("cluster21-s3a-mmio-dma", CLUSTER, one_each, pcie),
    ];
    Ok(Findings { checks, ..Findings::default() })
}
