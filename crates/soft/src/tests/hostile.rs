//! Corrupts records of a segment. The segment's owner must not crash, and must poll only completions of its
//! own work requests.

use super::{PD, Patience, Side, scribble};
use crate::fabric::process::Process;
use crate::memory::records::*;
use crate::rings::recvs::{Slots, stride};
use doorbell_abi::ibv_wc;
use doorbell_launch::limits::OWN;
use doorbell_transport::Region;
use doorbell_verbs::*;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::HashSet;
use std::sync::atomic::Ordering::*;

/// Sizes of the queues.
const CAP: QpCap =
    QpCap { max_send_wr: 16, max_recv_wr: 16, max_send_sge: 2, max_recv_sge: 2, max_inline_data: 64 };
const CQE: u32 = 64;

#[test]
fn scribbled_records_neither_crash_nor_mislead() {
    let process = Process::current().expect("this process can use the device");
    let seed = 0x5eed_0001;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let buffer = vec![0u8; 4096];
    let region = Region { pd: PD, addr: buffer.as_ptr() as u64, len: 4096, access: AccessFlags::all() };
    let key = process.regions.register(process.segment, region, region.addr).expect("a region");
    for round in 0..300 {
        let side = Side::new(process, QpType::Rc, CAP, CQE);
        let Side { cq, qp, .. } = &side;
        side.connect(qp.num(), Patience { timeout: 1, rnr_retry: 1 });
        let mut expected = HashSet::new();
        let sge = [Sge { addr: region.addr, length: 64, lkey: key }];
        for step in 0..40u64 {
            let wr_id = random.next_u64() | 1;
            let remote = RemoteAddr { addr: region.addr + 512, rkey: key };
            let posted = match random.next_u64() % 4 {
                0 | 1 => qp.post_recv(wr_id, &sge),
                2 => qp
                    .begin_post()
                    .post_wr(&SendWr::new(wr_id, SendOp::Send, &sge).flags(SendFlags::SIGNALED), None),
                _ => qp.begin_post().post_wr(
                    &SendWr::new(wr_id, SendOp::Write(remote), &sge).flags(SendFlags::SIGNALED),
                    None,
                ),
            };
            if posted.is_ok() {
                expected.insert(wr_id);
            }
            let segment = process.segment;
            let index = segment.index_of(qp.num());
            match random.next_u64() % 5 {
                0 => scribble(segment.qp(index).expect("its record"), &mut random, &[]),
                1 => scribble(segment.rq(index).expect("its record"), &mut random, &[]),
                2 => scribble(segment.cq(cq.index as usize).expect("its record"), &mut random, &[]),
                3 => scribble(segment.mr(0).expect("a record"), &mut random, &[0]),
                _ => {
                    let record = segment.rq(index).expect("its record");
                    let slot = random.next_u64() % 16 * stride(CAP.max_recv_sge);
                    let at = record.slots.load(Relaxed).wrapping_add(slot);
                    if let Some(slot) = segment.in_heap::<RqSlot>(at) {
                        let claimed = slot.state();
                        scribble(slot, &mut random, &[0, 4]);
                        // The slot looks as if its claimer had completed it.
                        slot.state.store(claimed.word() | 3 << 62, Relaxed);
                    }
                }
            }
            let mut wcs = [ibv_wc::default(); 4];
            if let Ok(n) = cq.poll(&mut wcs) {
                for wc in &wcs[..n] {
                    let known = expected.remove(&wc.wr_id);
                    assert!(
                        known,
                        "seed {seed:#x} round {round} step {step}: nothing was posted as {:#x}",
                        wc.wr_id
                    );
                }
            }
        }
    }
}

/// Checks that a sender rejects a receive queue whose record claims more slots than the device allows.
#[test]
fn no_number_of_slots_misleads_a_sender() {
    let process = Process::current().expect("this process can use the device");
    let side = Side::new(process, QpType::Ud, CAP, CQE);
    let record = process.segment.rq(process.segment.index_of(side.qp.num())).expect("its record");
    let (own, generation) = (record.capacity.load(Relaxed), record.generation.load(Relaxed));
    for capacity in (0..u32::BITS).map(|bit| 1 << bit) {
        record.capacity.store(capacity, Relaxed);
        let slots = Slots::of(process.segment, record);
        assert_eq!(slots.is_some(), capacity <= OWN.wr, "{capacity} slots");
        assert!(slots.is_none_or(|slots| slots.front(generation).is_err()), "{capacity} slots hold a RECV");
    }
    record.capacity.store(own, Relaxed);
}
