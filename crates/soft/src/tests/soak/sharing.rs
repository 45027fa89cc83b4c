//! What is the fabric's, not one process's: members of multicast groups, and XRC domains.

use super::parts::{Queue, try_queue};
use super::watch::Watch;
use crate::errno::{EAGAIN, EINVAL};
use crate::fabric::domains::Opening;
use crate::fabric::process::Process;
use crate::memory::groups::Group;
use crate::path::Path;
use doorbell_abi::ibv_wc;
use doorbell_launch::qp_numbers::MULTICAST_QPN;
use doorbell_verbs::*;
use std::fs::File;
use std::time::{Duration, Instant};

const GROUP: Group = Group { gid: Gid([0xff; 16]), lid: 0xc0de };
/// Of the group's RECVs.
const RECVS: u64 = 16;
/// So many datagrams a millisecond apart are enough for one to come, though others send there too.
const TIMES: u32 = 3000;
/// Who is stopped while it looks whether it is the only one keeps others from a domain for so long at most.
const COMES_WITHIN: Duration = Duration::from_secs(3);

/// A QP joins a group that others are in too, gets what is sent there, and leaves. `room` is for a datagram's header.
pub(super) fn use_group(process: &'static Process, room: Sge, watch: &mut Watch) {
    let mut make = || watch.timed("create", || try_queue(process, QpType::Ud, None, None));
    // Where no file may be opened there is none.
    let (Ok(member), Ok(sender)) = (make(), make()) else { return };
    [&member, &sender].into_iter().for_each(Queue::connect_ud);
    (0..RECVS).for_each(|n| member.qp.post_recv(n, &[room]).expect("there is room"));
    if let Err(errno) = watch.timed("attach", || member.qp.attach(GROUP)) {
        return watch.say(format!("attaching gives {}", errno.0));
    }
    // One is dropped where those of others have taken all RECVs, as they do while this process is stopped.
    let came = (0..TIMES).any(|_| {
        watch.timed("post", || send(process, &sender));
        std::thread::sleep(Duration::from_millis(1));
        comes(&member, sender.qp.num(), room)
    });
    if !came {
        watch.say("what is sent to a group does not come to its member".to_owned());
    }
    if let Err(errno) = watch.timed("detach", || member.qp.detach(GROUP)) {
        watch.say(format!("detaching gives {}", errno.0));
    }
    watch.timed("destroy", || (drop(member), drop(sender)));
}

fn send(process: &Process, sender: &Queue) {
    let attr = AhAttr { port_num: 1, dlid: GROUP.lid, grh: None };
    let ah = process.paths.add(Path::new(&attr).expect("a path")).expect("an address handle");
    let dest = UdDest { ah, qpn: MULTICAST_QPN, qkey: 7 };
    let wr = SendWr { dest: Some(dest), flags: SendFlags::SIGNALED, ..SendWr::new(0, SendOp::Send, &[]) };
    sender.cq.poll(&mut [ibv_wc::default()]).expect("its CQ is right");
    sender.qp.begin_post().post_wr(&wr, None).expect("there is room");
    process.paths.remove(ah);
}

/// Whether a datagram of this sender has come; each that has makes room for another.
fn comes(member: &Queue, from: u32, room: Sge) -> bool {
    let mut wcs = [ibv_wc::default(); RECVS as usize];
    let got = member.cq.poll(&mut wcs).expect("its CQ is right");
    wcs[..got].iter().for_each(|wc| member.qp.post_recv(wc.wr_id, &[room]).expect("there is room"));
    wcs[..got].iter().any(|wc| wc.status == 0 && wc.src_qp == from)
}

/// A domain that others open and close too.
pub(super) fn use_domain(process: &Process, is_exclusive: bool, watch: &mut Watch) {
    let begin = Instant::now();
    loop {
        let Ok(file) = File::open("/proc/self/exe") else { return };
        let opening = Opening { file: Some(file), creates: true, is_exclusive };
        match process.open_domain(opening) {
            Ok(domain) => return process.close_domain(&domain),
            // Another has it.
            Err(EINVAL) if is_exclusive => return,
            // Another sees just now whether it is the only one.
            Err(EAGAIN) if begin.elapsed() < COMES_WITHIN => {}
            Err(errno) => return watch.say(format!("opening a domain gives {}", errno.0)),
        }
    }
}
