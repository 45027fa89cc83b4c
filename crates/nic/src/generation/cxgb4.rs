//! Chelsio's Terminator 4 and later, which speak iWARP.
//!
//! Sizes come from the firmware's interface (Linux, drivers/infiniband/hw/cxgb4/t4fw_ri_api.h: fw_ri_send_wr,
//! fw_ri_rdma_write_wr, fw_ri_isgl, fw_ri_sge; struct t4_cqe).

use super::layout::{CompletionLayout, GenerationLayout, Headers, Posting, WqeLayout};

/// Ethernet with its FCS, IPv4 and TCP without options, MPA's length and CRC (RFC 5044, section 4), and the
/// header of a tagged DDP segment (RFC 5041, section 4.2).
const EVERY: u32 = 14 + 4 + 20 + 20 + 2 + 4 + 14;
/// Extra header bytes of an untagged segment (RFC 5041, section 4.3).
const UNTAGGED: u32 = 4;
/// RDMA Read Request (RFC 5040, section 4.4).
const READ_REQUEST: u32 = 28;

pub(super) const LAYOUT: GenerationLayout = GenerationLayout {
    // A WQE before its payload has two headers, and the header of a list of SGEs.
    wqe: WqeLayout { connected: 40, datagram: 40, sge: 16, atomic: 16, recv_sge: 32 },
    // The driver writes a 4-byte Doorbell, which costs as much as an 8-byte one.
    posting: Posting { alone_by_mmio: false, doorbell: 8 },
    headers: Headers {
        every: EVERY,
        send: UNTAGGED,
        // Every tagged segment carries its destination address.
        reth: 0,
        read_request: UNTAGGED + READ_REQUEST,
        // iWARP has no datagrams, atomics or immediates; TCP sends the ACKs.
        deth: 0,
        atomic_eth: 0,
        aeth: 0,
        atomic_ack_eth: 0,
        imm: 0,
    },
    completion: CompletionLayout { sizes: &[64] },
};
