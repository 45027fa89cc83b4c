//! Tests memory that two processes share and both register. Atomics on one word are atomic with each other
//! even if they name regions of different processes.

use super::peer::{BUFFER, Buffer, Peer};
use super::revoking::{CAUGHT, caught_at};
use super::{PD, Patience, Side};
use crate::fabric::process::Process;
use crate::memory::maps;
use crate::memory::objects::HostMemory;
use crate::point::Point;
use doorbell_transport::Region;
use doorbell_verbs::*;
use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};

/// How the processes share the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shared {
    /// A file that may shrink. No peer maps such a file.
    File,
    /// A sealed memfd. A peer maps it by an open descriptor of the region's owner.
    Sealed,
    /// A sealed memfd that this process has closed, so that peers cannot map it by this process.
    SealedAndClosed,
}

/// Creates a file of zeros, and maps and registers it in this process and in `other`. Returns both regions.
fn register(process: &'static Process, other: &mut Peer, how: Shared) -> [Buffer; 2] {
    // SAFETY: the calls create a new file and a new mapping.
    let (file, addr) = unsafe {
        let fd = libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
        let file = File::from_raw_fd(fd);
        file.set_len(BUFFER as u64).expect("its size");
        if how != Shared::File {
            assert_eq!(libc::fcntl(fd, libc::F_ADD_SEALS, libc::F_SEAL_SHRINK), 0, "a seal");
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let addr = libc::mmap(std::ptr::null_mut(), BUFFER, protection, libc::MAP_SHARED, fd, 0);
        assert_ne!(addr, libc::MAP_FAILED, "{}", std::io::Error::last_os_error());
        (file, addr as u64)
    };
    let there = other.ask(&format!("map /proc/{}/fd/{}", std::process::id(), file.as_raw_fd()));
    if how == Shared::SealedAndClosed {
        drop(file);
    } else {
        std::mem::forget(file);
    }
    let object = maps::check(addr..addr + BUFFER as u64, maps::Wanted { write: true, atomics: true })
        .expect("it is mapped");
    let region = Region { pd: PD, addr, len: BUFFER as u64, access: AccessFlags::all() };
    let host = HostMemory { addr, object };
    let key = process.regions.register(process.segment, region, host).expect("a region");
    [Buffer { addr, key }, Buffer { addr: there[0], key: there[1] as u32 }]
}

/// Connects a QP with a long time-out to the peer.
fn connect(peer: &mut Peer) -> Side {
    let side = peer.connect(QpType::Rc);
    let dest = side.qp.query().1.dest_qp_num.expect("it is connected");
    side.reconnect(dest, Patience { timeout: 21, rnr_retry: 7 });
    side
}

#[test]
fn atomics_by_two_owners_are_atomic() {
    let process = Process::current().expect("this process can use the device");
    for (how, point) in [
        (Shared::File, Point::AtomicRead),
        (Shared::Sealed, Point::LockHeld),
        (Shared::SealedAndClosed, Point::AtomicRead),
    ] {
        let (mut owner, mut client) = (Peer::start(), Peer::start());
        let [here, there] = register(process, &mut owner, how);
        let (to_owner, _to_client) = (connect(&mut owner), connect(&mut client));
        let own = [0u64];
        let local = [Sge { addr: own.as_ptr() as u64, length: 8, lkey: super::peer::register_all(process) }];
        let remote = RemoteAddr { addr: there.addr, rkey: there.key };
        let add = SendWr::new(1, SendOp::FetchAdd { remote, add: 1 }, &local).flags(SendFlags::SIGNALED);
        // The client is halted while it adds to the word in this process's region.
        client.ask(&format!("catch-at {} 1", caught_at(point)));
        client.tell(&format!("post add {} {} 8", here.addr, here.key));
        assert_eq!(client.answer(), [CAUGHT], "{how:?}");
        // This process adds to the same word in the other owner's region. The addition must wait.
        to_owner.qp.begin_post().post_wr(&add, None).expect("there is room");
        assert_eq!(to_owner.completions().len(), 0, "{how:?}: an addition amid another one");
        client.tell("go on");
        assert_eq!(client.answer(), [0], "{how:?}");
        assert_eq!(to_owner.wait_for(1)[0][1], 0, "{how:?}");
        // SAFETY: the mapping belongs to this test.
        assert_eq!(unsafe { (here.addr as *const u64).read_volatile() }, 2, "{how:?}: an addition is lost");
    }
}
