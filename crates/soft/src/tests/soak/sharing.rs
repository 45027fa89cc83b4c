//! Uses objects that belong to the whole fabric: multicast groups and XRC domains.

use super::parts::{Queue, try_queue};
use super::watch::Watch;
use crate::errno::EINVAL;
use crate::fabric::domains::Opening;
use crate::fabric::process::Process;
use crate::memory::groups::Group;
use crate::path::Path;
use doorbell_abi::ibv_wc;
use doorbell_launch::qp_numbers::MULTICAST_QPN;
use doorbell_verbs::*;
use std::fs::File;
use std::time::Duration;

const GROUP: Group = Group { gid: Gid([0xff; 16]), lid: 0xc0de };
/// The number of RECVs of the group's member.
const RECVS: u64 = 16;
/// The most datagrams to send, a millisecond apart, until one arrives.
const TIMES: u32 = 3000;

/// Joins a group with members in other processes, receives a datagram that was sent to the group, and leaves
/// it. `room` is the buffer for the datagram's header.
pub(super) fn use_group(process: &'static Process, room: Sge, watch: &mut Watch) {
    let mut make = || watch.timed("create", || try_queue(process, QpType::Ud, None, None));
    // If the process may not open a file, it cannot create a QP.
    let (Ok(member), Ok(sender)) = (make(), make()) else { return };
    [&member, &sender].into_iter().for_each(Queue::connect_ud);
    (0..RECVS).for_each(|n| member.qp.post_recv(n, &[room]).expect("there is room"));
    if let Err(errno) = watch.timed("attach", || member.qp.attach(GROUP)) {
        return watch.say(format!("attaching gives {}", errno.errno()));
    }
    // Datagrams of other processes may take all RECVs, for example while this process is stopped. Then a
    // datagram is dropped.
    let came = (0..TIMES).any(|_| {
        watch.timed("post", || send(process, &sender));
        std::thread::sleep(Duration::from_millis(1));
        comes(&member, sender.qp.num(), room)
    });
    if !came {
        watch.say("what is sent to a group does not come to its member".to_owned());
    }
    if let Err(errno) = watch.timed("detach", || member.qp.detach(GROUP)) {
        watch.say(format!("detaching gives {}", errno.errno()));
    }
    watch.timed("destroy", || (drop(member), drop(sender)));
}

fn send(process: &Process, sender: &Queue) {
    let attr = AhAttr { port_num: 1, dlid: GROUP.lid, sl: 0, grh: None };
    let ah = process.paths.add(Path::new(&attr).expect("a path")).expect("an address handle");
    let dest = UdDest { ah, qpn: MULTICAST_QPN, qkey: 7 };
    let wr = SendWr { dest: Some(dest), flags: SendFlags::SIGNALED, ..SendWr::new(0, SendOp::Send, &[]) };
    sender.cq.poll(&mut [ibv_wc::default()]).expect("its CQ is right");
    sender.qp.begin_post().post_wr(&wr, None).expect("there is room");
    process.paths.remove(ah);
}

/// Polls once, and posts the RECV of each datagram again. Returns whether a datagram of the sender `from` has
/// arrived.
fn comes(member: &Queue, from: u32, room: Sge) -> bool {
    let mut wcs = [ibv_wc::default(); RECVS as usize];
    let got = member.cq.poll(&mut wcs).expect("its CQ is right");
    wcs[..got].iter().for_each(|wc| member.qp.post_recv(wc.wr_id, &[room]).expect("there is room"));
    wcs[..got].iter().any(|wc| wc.status == 0 && wc.src_qp == from)
}

/// Opens and closes a domain that other processes open and close too.
pub(super) fn use_domain(process: &Process, is_exclusive: bool, watch: &mut Watch) {
    let Ok(file) = File::open("/proc/self/exe") else { return };
    let opening = Opening { file: Some(file), creates: true, is_exclusive };
    match watch.timed("open domain", || process.open_domain(opening)) {
        Ok(domain) => process.close_domain(&domain),
        // Another process has the domain open.
        Err(EINVAL) if is_exclusive => {}
        Err(errno) => watch.say(format!("opening a domain gives {}", errno.0)),
    }
}
