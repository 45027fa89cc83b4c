//! Tests strict mode: it reports programs that work on the software NIC but not on a NIC, and it runs correct
//! programs.

use crate::common::running::{role, say};
use crate::common::verbs::{Node, Retries, SIGNALED, Wr, call, to_lid};
use crate::common::{launch, own_program, pair, text};
use doorbell_abi::{CEnum, ibv_mr, ibv_pd, ibv_qp_ex, ibv_recv_wr, ibv_send_wr, ibv_sge};
use doorbell_launch::strict::Strict;
use doorbell_launch::{Launch, Link};
use doorbell_verbs::{Mtu, QpType, SendOp, WcStatus};
use libc::{c_int, c_void};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::process::ExitStatusExt;
use std::process::Output;
use std::ptr::null_mut;

/// The module of the test `program`, which the other tests run as a program.
const HERE: &str = module_path!();

/// The program that the tests start: this executable again, with a role for each process.
#[test]
#[ignore = "a program that the other tests run"]
fn program() {
    match &role()[..] {
        "unsignalled" => unsignalled(),
        "recv" => post_bad_recv(),
        "send" => post_bad_send(),
        "freed-send" => free_of_send(),
        "freed-recv" => free_of_recv(),
        "limits" => exceed_limits(),
        "mtu" => exceed_path_mtu(),
        "undeclared" => build_undeclared(),
        "memlock" => exceed_memlock(),
        "file" => register_file(),
        "datagram" => lose_datagram(),
        "results" => look_early(),
        "well" => behave(),
        role => panic!("no role {role:?}"),
    }
    say("went on");
}

fn looped() -> Node {
    let node = Node::open(8192, 1);
    node.connect(0, &node.endpoint(0));
    node
}

/// Fills the send queue with unsignalled work requests, and posts one more.
fn unsignalled() {
    let node = looped();
    let op = SendOp::Write(node.endpoint(0).at(0));
    for _ in 0..64 {
        node.post(0, &[Wr { op, buffers: &[(64, 8)], flags: 0 }]);
    }
    // SAFETY: the struct has integers, pointers and a union of these, which may be zero.
    let mut wr: ibv_send_wr = unsafe { std::mem::zeroed() };
    wr.opcode = 2;
    let mut bad = null_mut();
    // SAFETY: the QP is live, and the work request outlives the call.
    let posted = unsafe { (*node.context).ops.post_send.expect("served")(node.qps[0], &mut wr, &mut bad) };
    assert_eq!(posted, libc::ENOMEM);
}

/// Posts a RECV whose second SGE is in no region. The message fits into the first SGE.
fn post_bad_recv() {
    let node = looped();
    let mut sges = node.sges(&[(0, 64), (64, 64)]);
    sges[1].lkey ^= 0x100_0000;
    let mut wr = ibv_recv_wr { wr_id: 7, next: null_mut(), sg_list: sges.as_mut_ptr(), num_sge: 2 };
    let mut bad = null_mut();
    // SAFETY: the QP is live, and the RECV outlives the call.
    let posted = unsafe { (*node.context).ops.post_recv.expect("served")(node.qps[0], &mut wr, &mut bad) };
    assert_eq!(posted, 0);
    node.post(0, &[Wr { op: SendOp::Send, buffers: &[(128, 64)], flags: SIGNALED }]);
    node.completions(2);
}

fn post_bad_send() {
    let node = looped();
    let mut sge = ibv_sge { addr: 64, length: 8, lkey: 0x77_0001 };
    // SAFETY: the struct has integers, pointers and a union of these, which may be zero.
    let mut wr: ibv_send_wr = unsafe { std::mem::zeroed() };
    (wr.opcode, wr.send_flags, wr.sg_list, wr.num_sge) = (2, SIGNALED, &mut sge, 1);
    let mut bad = null_mut();
    // SAFETY: the QP is live, and the work request outlives the call.
    let posted = unsafe { (*node.context).ops.post_send.expect("served")(node.qps[0], &mut wr, &mut bad) };
    assert_eq!(posted, 0);
    node.completion(WcStatus::LocProtErr);
}

fn deregister(node: &Node) {
    assert_eq!(call!(c"ibv_dereg_mr"(node.mr => *mut ibv_mr) -> c_int), 0);
}

/// Deregisters memory before the completion of its WRITE is polled.
fn free_of_send() {
    let node = looped();
    let op = SendOp::Write(node.endpoint(0).at(0));
    node.post(0, &[Wr { op, buffers: &[(64, 8)], flags: SIGNALED }]);
    deregister(&node);
}

fn free_of_recv() {
    let node = looped();
    node.post_recv(0, 3, &[(64, 8)]);
    deregister(&node);
}

fn exceed_limits() {
    let node = Node::open(8192, 1);
    let own = node.endpoint(0);
    let retries = Retries { timeout: 14, retry_cnt: 7, rnr_retry: 7 };
    node.connect_altered(0, to_lid(own.lid), own.qpn, retries, |attr| {
        attr.max_rd_atomic = 4;
        attr.max_dest_rd_atomic = 2;
        0
    });
    node.carry_out(0, SendOp::Write(own.at(0)), &[(64, 8)]);
    node.carry_out(0, SendOp::Read(own.at(0)), &[(64, 8)]);
}

/// Sends a message that needs longer packets than its receiver accepts, after a message that does not.
fn exceed_path_mtu() {
    let node = Node::open(8192, 2);
    let retries = Retries { timeout: 14, retry_cnt: 7, rnr_retry: 7 };
    for (own, peer, mtu) in [(0, 1, Mtu::Mtu4096), (1, 0, Mtu::Mtu1024)] {
        let peer = node.endpoint(peer);
        node.connect_altered(own, to_lid(peer.lid), peer.qpn, retries, |attr| {
            attr.path_mtu = mtu.to_c();
            0
        });
    }
    let target = node.endpoint(1);
    for bytes in [1024, 1025, 4096] {
        node.carry_out(0, SendOp::Write(target.at(0)), &[(4096, bytes)]);
    }
}

/// Builds two WRITEs and a SEND for a QP that was created without any operation.
fn build_undeclared() {
    let mut node = Node::open(8192, 0);
    node.add_extended_qp();
    node.connect(0, &node.endpoint(0));
    node.post_recv(0, 1, &[(4096, 64)]);
    let target = node.endpoint(0).at(64);
    // SAFETY: the QP is live, and is an extended QP.
    unsafe {
        let qp = node.qps[0].cast::<ibv_qp_ex>();
        (*qp).wr_start.expect("served")(qp);
        (*qp).wr_flags = SIGNALED;
        for _ in 0..2 {
            (*qp).wr_rdma_write.expect("served")(qp, target.rkey, target.addr);
        }
        (*qp).wr_send.expect("served")(qp);
        assert_eq!((*qp).wr_complete.expect("served")(qp), 0);
    }
    node.completions(4);
}

/// Registers more memory than the process may lock. A privileged process drops the privilege first.
fn exceed_memlock() {
    const CAP_IPC_LOCK: u32 = 1 << 14;
    // struct __user_cap_header_struct and __user_cap_data_struct of linux/capability.h, version 3.
    let (header, mut sets) = ([0x2008_0522_u32, 0], [0_u32; 6]);
    // SAFETY: the kernel reads the header, and reads or writes the sets.
    unsafe {
        assert_eq!(libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr()), 0);
        sets[0] &= !CAP_IPC_LOCK;
        assert_eq!(libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()), 0);
        let limit = libc::rlimit { rlim_cur: 16 << 10, rlim_max: 16 << 10 };
        assert_eq!(libc::setrlimit(libc::RLIMIT_MEMLOCK, &limit), 0);
    }
    let node = Node::open(8192, 0);
    // SAFETY: the region is live.
    let memory = unsafe { (*node.mr).addr };
    let register = |bytes: usize| {
        call!(c"ibv_reg_mr"(
            node.pd => *mut ibv_pd, memory => *mut c_void, bytes => usize, 1 => c_int
        ) -> *mut ibv_mr)
    };
    // Pages count once for each region. A region that was deregistered does not count.
    let other = register(8192);
    assert_eq!(call!(c"ibv_dereg_mr"(other => *mut ibv_mr) -> c_int), 0);
    register(8192);
    say("reached the limit");
    register(1);
}

/// Registers a shared mapping of a file in memory, and of a file in the folder of this program. The device
/// may change the first file, then only read the second one, then change it.
fn register_file() {
    let node = Node::open(8192, 0);
    let beside = std::env::current_exe().expect("it has a file").with_extension("strict-test");
    let register = |file: &std::fs::File, access: c_int| {
        file.set_len(4096).expect("there is room");
        let (protection, of) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
        // SAFETY: a new mapping of a file of one page.
        let mapped = unsafe { libc::mmap(null_mut(), 4096, protection, libc::MAP_SHARED, of, 0) };
        assert_ne!(mapped, libc::MAP_FAILED);
        let mr = call!(c"ibv_reg_mr"(
            node.pd => *mut ibv_pd, mapped => *mut c_void, 4096_usize => usize, access => c_int
        ) -> *mut ibv_mr);
        assert!(!mr.is_null());
    };
    // SAFETY: the name is a string, and the descriptor is new.
    let in_memory = unsafe { std::fs::File::from_raw_fd(libc::memfd_create(c"strict-test".as_ptr(), 0)) };
    register(&in_memory, 1);
    let on_disk = std::fs::File::options().read(true).write(true).create(true).truncate(true).open(&beside);
    let on_disk = on_disk.expect("the folder of tests can be written");
    // The device only reads the first region.
    register(&on_disk, 0);
    register(&on_disk, 1);
    std::fs::remove_file(&beside).expect("it was just made");
}

fn lose_datagram() {
    let node = Node::open_as(QpType::Ud, 4096, 1);
    let own = node.endpoint(0);
    node.connect(0, &own);
    let ah = node.ah(to_lid(own.lid));
    for _ in 0..3 {
        node.post_to(0, &[Wr { op: SendOp::Send, buffers: &[(0, 8)], flags: SIGNALED }], Some((ah, own.qpn)));
        node.completions(1);
    }
}

/// Checks that in strict mode, fetched bytes appear only when their completion is polled.
fn look_early() {
    let node = looped();
    let own = node.endpoint(0);
    node.fill(0, 64, 5);
    // An unsignalled READ into two SGEs, then an atomic, then another READ.
    let list = [
        Wr { op: SendOp::Read(own.at(0)), buffers: &[(1024, 40), (2048, 24)], flags: 0 },
        Wr { op: SendOp::FetchAdd { remote: own.at(4096), add: 3 }, buffers: &[(1200, 8)], flags: SIGNALED },
        Wr { op: SendOp::Read(own.at(0)), buffers: &[(3000, 16)], flags: SIGNALED },
    ];
    node.post(0, &list);
    // Before the poll, the targets hold strict mode's pattern.
    assert!(node.is_all(1024, 40, 0xdb) && node.is_all(2048, 24, 0xdb) && node.is_all(1200, 8, 0xdb));
    node.completions(1);
    assert!(node.is_all(1024, 40, 5) && node.is_all(2048, 24, 5) && node.is_all(1200, 8, 0));
    assert!(node.is_all(3000, 16, 0xdb));
    node.completions(1);
    assert!(node.is_all(3000, 16, 5) && node.read(4096, 1) == [3]);
    // A READ that fails leaves no result.
    node.post(0, &[Wr { op: SendOp::Read(own.at(8192)), buffers: &[(3000, 16)], flags: SIGNALED }]);
    node.completion(WcStatus::RemAccessErr);
    assert!(node.is_all(3000, 16, 0xdb));
}

/// Uses the features of the other roles correctly.
fn behave() {
    let node = looped();
    let own = node.endpoint(0);
    for round in 0..200 {
        node.post_recv(0, 2, &[(2048, 512)]);
        let write = |flags| Wr { op: SendOp::Write(own.at(0)), buffers: &[(64, 8)], flags };
        let list =
            [write(0), write(0), Wr { op: SendOp::Read(own.at(0)), buffers: &[(100, 16)], flags: SIGNALED }];
        node.post(0, &list);
        node.completions(1);
        node.post(
            0,
            &[
                Wr { op: SendOp::Send, buffers: &[(1024, 400)], flags: SIGNALED },
                Wr { op: SendOp::SendWithImm(1), buffers: &[(1024, 8)], flags: SIGNALED },
            ],
        );
        node.completions(4);
        if round % 50 == 49 {
            node.post_recv(0, 2, &[(2048, 512)]);
            node.reset(0);
            node.connect(0, &own);
        }
    }
    node.post_recv(0, 2, &[(2048, 512)]);
    node.reset(0);
    deregister(&node);
}

fn run(role: &str, strict: Option<Strict>) -> Output {
    let launch = Launch { strict, ..launch(Link::Ib) };
    let child = own_program(&launch, HERE, role).spawn().expect("it starts");
    // If the program hangs, its own alarm kills it.
    child.wait_with_output().expect("it can be heard")
}

/// The program's standard error. Standard output does not count, because the test harness prints this
/// module's name there, which contains `strict`.
fn told(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_would_not_work_on_a_nic_ends_the_program() {
    let cases = [
        ("unsignalled", "is full with 64 work requests, and none of them is signalled"),
        ("recv", "the RECV with wr_id 0x7 of receive queue "),
        ("send", "cannot use its memory: no region has lkey 0x770001"),
        ("freed-send", "is deregistered while 1 send work requests of QP 0x"),
        ("freed-recv", "is deregistered while 3 RECVs of receive queue "),
        ("mtu", "needs packets of 1025 bytes, but path_mtu is 4096 here and 1024 at QP 0x"),
        ("undeclared", "was not created with IBV_QP_EX_WITH_RDMA_WRITE: with the driver of a NIC"),
        ("memlock", "but a NIC's driver may pin only 16 KiB (RLIMIT_MEMLOCK"),
        ("limits", "may have 4 READs and atomics outstanding (max_rd_atomic), but QP 0x"),
    ];
    for (role, line) in cases {
        let failed = run(role, Some(Strict::Fail));
        assert_eq!(failed.status.signal(), Some(libc::SIGABRT), "{role}: {}", text(&failed));
        let warned = run(role, Some(Strict::Warn));
        assert!(warned.status.success() && text(&warned).contains("> went on"), "{role}: {}", text(&warned));
        for output in [&failed, &warned] {
            let said = told(output);
            let lines =
                said.lines().filter(|said| said.contains("doorbell: strict: ") && said.contains(line));
            assert_eq!(lines.count(), 1, "{role}: {said}");
        }
        let without = run(role, None);
        assert!(without.status.success() && !told(&without).contains("strict"), "{role}: {}", text(&without));
    }
}

/// Without a file system that writes changed pages back, no mapping is reported.
#[test]
fn a_mapped_file_that_the_kernel_writes_back_is_reported() {
    let here = std::env::current_exe().expect("it has a file");
    let here = std::ffi::CString::new(here.as_os_str().as_encoded_bytes()).expect("a path has no 0");
    // SAFETY: the struct has integers, and the kernel writes it.
    let kind = unsafe {
        let mut system: libc::statfs = std::mem::zeroed();
        assert_eq!(libc::statfs(here.as_ptr(), &mut system), 0);
        system.f_type
    };
    let writes_back =
        [libc::EXT4_SUPER_MAGIC, libc::XFS_SUPER_MAGIC, libc::BTRFS_SUPER_MAGIC].contains(&kind);
    let output = run("file", Some(Strict::Warn));
    assert!(output.status.success(), "{}", text(&output));
    let reports = told(&output).matches("strict: the memory region is a shared mapping of the file").count();
    assert_eq!(reports, usize::from(writes_back), "{}", text(&output));
}

#[test]
fn a_datagram_that_nobody_took_is_told_of_once() {
    let output = run("datagram", Some(Strict::Fail));
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(text(&output).matches("doorbell: strict: no receiver took a message of UC or UD").count(), 1);
}

#[test]
fn results_are_not_there_before_their_completion() {
    let output = run("results", Some(Strict::Fail));
    assert!(output.status.success(), "{}", text(&output));
}

/// Whether this process may lock this many bytes.
fn may_lock(bytes: usize) -> bool {
    let memory = vec![0_u8; bytes];
    // SAFETY: the memory is mapped, and a lock changes none of it. Its end unmaps and so unlocks it.
    unsafe { libc::mlock(memory.as_ptr().cast(), bytes) == 0 }
}

#[test]
fn programs_that_do_nothing_of_it_run() {
    let well = run("well", Some(Strict::Fail));
    assert!(well.status.success() && !told(&well).contains("strict"), "{}", text(&well));
    let runs: [(&str, &[&str]); 14] = [
        ("ib_write_lat", &["-n", "200"]),
        ("ib_write_bw", &["-n", "1600", "-s", "64", "--post_list", "16"]),
        ("ib_read_bw", &["-n", "300"]),
        ("ib_read_lat", &["-n", "200", "-a"]),
        ("ib_send_bw", &["-n", "500", "-Q", "10"]),
        ("ib_send_lat", &["-n", "200", "-s", "1000"]),
        ("ib_send_bw", &["-n", "500", "-r", "64", "--use-srq"]),
        ("ib_atomic_bw", &["-n", "200"]),
        ("ib_atomic_lat", &["-n", "200"]),
        ("ibv_rc_pingpong", &["-n", "200", "-c"]),
        ("ibv_uc_pingpong", &["-n", "200"]),
        ("ibv_ud_pingpong", &["-n", "200", "-c"]),
        ("ibv_srq_pingpong", &["-n", "200"]),
        ("ibv_rc_pingpong", &["-n", "200", "-N"]),
    ];
    // `-a` registers 16 MiB, which a NIC refuses to a user with the kernel's usual limit of 8 MiB.
    let runs = runs.iter().filter(|(_, arguments)| !arguments.contains(&"-a") || may_lock(64 << 20));
    for (program, arguments) in runs {
        let strict = Launch { strict: Some(Strict::Fail), ..launch(Link::Ib) };
        let Some(said) = pair(&strict, program, arguments) else { return };
        assert!(!said.contains("strict"), "{program}: {said}");
    }
}
