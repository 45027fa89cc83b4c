//! Tests rdma_cm's device file: commands must have the kernel's results and events. `stacks` runs
//! librdmacm's own programs.

use crate::common::cm::{self, Channel, address, bytes_of, param, port, told, told_of_ud, write};
use crate::common::running::{Running, alone, hear, role, say};
use crate::common::{launch, leaves_something, own_program};
use doorbell_abi::cm::*;
use doorbell_launch::Link;
use libc::{EADDRINUSE, EADDRNOTAVAIL, EAGAIN, EBADF, EFAULT, EINVAL, ENODEV, ENOENT, ENOSPC, ENOSYS};
use port_space::{TCP, UDP};
use std::os::fd::{FromRawFd, OwnedFd};

/// `IBV_QPS_INIT`, `IBV_QPS_RTR`, `IBV_QPS_RTS`.
const INIT: u32 = 1;
const RTR: u32 = 2;
const RTS: u32 = 3;

macro_rules! alone {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            for link in [Link::Ib, Link::Roce] {
                alone(link, module_path!(), stringify!($name));
            }
        }
    )*};
}

alone! {
    wrong_commands_are_refused
    the_descriptor_is_a_device
    a_connection_begins_and_ends
    who_is_asked_may_refuse
    nobody_listens
    ports_are_claimed
    a_port_may_be_of_each_family
    datagrams_find_their_service
    groups_are_joined
    ids_move_with_their_events
    options_are_heard
    an_address_to_come_from_is_kept
    who_has_not_accepted_is_told_nothing
    both_may_end_at_once
    too_many_ask
    a_thousand_connections
    who_waits_when_the_channel_is_closed_waits_on
    a_child_has_no_channel
}

#[test]
#[ignore = "a program that a test runs"]
fn program() {
    match role().as_str() {
        "wrong_commands_are_refused" => refusals(),
        "the_descriptor_is_a_device" => descriptor(),
        "a_connection_begins_and_ends" => connection(),
        "who_is_asked_may_refuse" => refused(),
        "nobody_listens" => nobody(),
        "ports_are_claimed" => ports(),
        "a_port_may_be_of_each_family" => families(),
        "datagrams_find_their_service" => datagrams(),
        "groups_are_joined" => groups(),
        "ids_move_with_their_events" => migration(),
        "options_are_heard" => options(),
        "an_address_to_come_from_is_kept" => source(),
        "who_has_not_accepted_is_told_nothing" => untold(),
        "both_may_end_at_once" => both_end(),
        "too_many_ask" => backlog(),
        "a_thousand_connections" => thousand(),
        "who_waits_when_the_channel_is_closed_waits_on" => closed(),
        "a_child_has_no_channel" => child(),
        "listens" => listens(),
        "asks" => asks(),
        other => panic!("{other}"),
    }
}

fn refusals() {
    let channel = Channel::open(libc::O_NONBLOCK);
    let (fd, id) = (channel.fd(), channel.create(7, TCP));
    assert_eq!(write(fd, &[0; 7]), Err(EINVAL), "less than a header");
    let body = rdma_ucm_listen { id, backlog: 0 };
    let whole = bytes_of(command::LISTEN, &body, 0);
    assert_eq!(write(fd, &whole[..whole.len() - 1]), Err(EINVAL), "less than the header says");
    assert_eq!(write(fd, &bytes_of(command::LISTEN, &id, 0)), Err(EINVAL), "less than the command has");
    assert_eq!(write(fd, &bytes_of(99, &body, 0)), Err(EINVAL), "no command");
    assert_eq!(write(fd, &bytes_of(13, &body, 0)), Err(ENOSYS), "a command that nobody has");
    // SAFETY: the kernel checks the pointer first.
    for nowhere in [0, 8] {
        let written = unsafe { libc::write(fd, nowhere as *const libc::c_void, 8) };
        assert_eq!((written, std::io::Error::last_os_error().raw_os_error()), (-1, Some(libc::EFAULT)));
    }
    let create = rdma_ucm_create_id { uid: 1, response: 8, ps: TCP, qp_type: 0, reserved: [0; 5] };
    assert_eq!(write(fd, &bytes_of(command::CREATE_ID, &create, 4)), Err(EFAULT), "nowhere to answer");
    let option = rdma_ucm_set_option { optval: 8, id, level: 0, optname: 0, optlen: 1 };
    assert_eq!(write(fd, &bytes_of(command::SET_OPTION, &option, 0)), Err(EFAULT), "no value");
    let mut answer = rdma_ucm_destroy_id_resp::default();
    let destroy = rdma_ucm_destroy_id { response: (&raw mut answer) as u64, id, reserved: 0 };
    assert_eq!(write(fd, &bytes_of(command::DESTROY_ID, &destroy, 3)), Err(ENOSPC), "no room for the answer");
    assert_eq!(channel.event().map(|_| ()), Err(EAGAIN), "there is none");
    assert_eq!(channel.destroy(id + 1), Err(ENOENT));
    let other = Channel::open(0);
    assert_eq!(other.destroy(id), Err(EINVAL), "another channel's");
    assert_eq!(channel.connect(id, param(1, b"")), Err(EINVAL), "it has no route");
    assert_eq!(channel.accept(id, 1, param(1, b"")), Err(EINVAL), "nobody has asked");
    assert_eq!(channel.disconnect(id), Err(EINVAL));
    assert_eq!(channel.attributes(id, INIT).map(|_| ()), Err(EINVAL), "it has no device");
    assert_eq!(channel.set(id, 77, &[0]), Err(ENOSYS));
    assert_eq!(channel.set(id, 0, &[0; 2]), Err(EINVAL), "RDMA_OPTION_ID_TOS is a byte");
    assert_eq!(channel.set(id, 3, &[32]), Err(EINVAL), "an ACK timeout has 5 bits");
    assert_eq!(channel.set(id, 0, &[3]), Ok(()));
    assert_eq!(channel.bind(id, "192.0.2.1:0"), Err(EADDRNOTAVAIL), "an address of nobody's");
    assert_eq!(channel.bind(id, "[fe80::1]:0"), Err(EINVAL), "an address of some link, and of which one?");
    assert_eq!(channel.bind(id, "127.0.0.1:0"), Ok(()));
    assert_eq!(channel.bind(id, "127.0.0.1:0"), Err(EINVAL), "it is bound");
    assert_eq!(channel.destroy(id), Ok(0));
    assert_eq!(channel.destroy(id), Err(ENOENT));
    drop(channel);
    assert_eq!(write(fd, &whole), Err(EBADF));
}

fn descriptor() {
    let channel = Channel::open(0);
    let fd = channel.fd();
    // SAFETY: the descriptors belong to this test, and the calls fill the structs in.
    unsafe {
        let mut about: libc::stat = std::mem::zeroed();
        assert_eq!(libc::fstat(fd, &mut about), 0);
        assert_eq!(about.st_mode & libc::S_IFMT, libc::S_IFCHR);
        let shown = std::fs::read_to_string("/sys/class/misc/rdma_cm/dev").expect("it is shown");
        let told = format!("{}:{}\n", libc::major(about.st_rdev), libc::minor(about.st_rdev));
        assert_eq!(told, shown);
        let mut more: libc::statx = std::mem::zeroed();
        assert_eq!(libc::statx(fd, c"".as_ptr(), libc::AT_EMPTY_PATH, libc::STATX_ALL, &mut more), 0);
        assert_eq!(u32::from(more.stx_mode) & libc::S_IFMT, libc::S_IFCHR);
        let mut bytes = [0u8; 8];
        assert_eq!(libc::read(fd, bytes.as_mut_ptr().cast(), 8), -1, "it has nothing to read");
        assert_ne!(libc::fcntl(fd, libc::F_GETFD) & libc::FD_CLOEXEC, 0);
    }
    // All copies of a descriptor share one channel.
    // SAFETY: the descriptors belong to this test.
    let copies = unsafe {
        let spare = libc::dup(0);
        [libc::dup(fd), libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 100), libc::dup2(fd, spare)]
    };
    for copy in copies {
        // SAFETY: the copy belongs to this test.
        let copy = Channel(unsafe { OwnedFd::from_raw_fd(copy) });
        let id = channel.create(9, TCP);
        assert!(!copy.is_ready(0));
        channel.resolve(id, "127.0.0.1:9").expect("it resolves");
        assert!(copy.is_ready(0) && channel.is_ready(0));
        assert_eq!(copy.expect(event::ADDR_RESOLVED).uid, 9);
        assert!(!copy.is_ready(0) && !channel.is_ready(0));
        assert_eq!(copy.destroy(id), Ok(1));
    }
    // A channel and its ids exist until the last descriptor is closed.
    let listener = channel.listener(1, TCP, "127.0.0.1:0");
    let at = format!("127.0.0.1:{}", port(&channel.route(listener).src_addr));
    // SAFETY: the descriptor belongs to this test.
    let copy = unsafe { libc::dup(fd) };
    drop(channel);
    let other = Channel::open(0);
    let id = other.create(1, TCP);
    assert_eq!(other.bind(id, &at), Err(EADDRINUSE));
    // SAFETY: the range has only the copy, which belongs to this test.
    unsafe { libc::close_range(copy as u32, copy as u32, 0) };
    assert_eq!(other.bind(id, &at), Ok(()));
}

/// Connects and disconnects. Checks the values that both sides agree on, and the attributes of their QPs.
fn connection() {
    let (server, client) = (Channel::open(0), Channel::open(0));
    let listener = server.listener(1, TCP, "127.0.0.1:0");
    let route = server.route(listener);
    assert_ne!(route.node_guid, 0, "its address is of the device");
    let to = format!("127.0.0.1:{}", port(&route.src_addr));
    let asks = client.resolved(2, TCP, &to);
    let route = client.route(asks);
    assert_eq!((route.num_paths, route.port_num, route.dst_addr), (1, 1, address(&to)));
    assert_eq!(client.attributes(asks, INIT).expect("it has a device").qp_access_flags, 0);
    assert_eq!(client.attributes(asks, RTR).map(|_| ()), Err(EINVAL), "nobody has answered");
    assert_eq!(client.connect(asks, param(0x11, &[7; 57])), Err(EINVAL), "a REQ has 56 bytes");
    client.connect(asks, param(0x11, &[6; 56])).expect("it asks");
    let request = server.expect(event::CONNECT_REQUEST);
    assert_eq!(request.uid, 1, "the listener's");
    let said = told(&request);
    assert_eq!((said.private_data_len, said.private_data[55], said.private_data[56]), (56, 6, 0));
    assert_eq!((said.responder_resources, said.initiator_depth), (5, 3), "as this side sees it");
    assert_eq!((said.qp_num, said.retry_count, said.rnr_retry_count), (0x11, 7, 7));
    let (asked, route) = (request.id, server.route(request.id));
    assert_eq!((route.dst_addr, route.src_addr), (client.route(asks).src_addr, address(&to)));
    assert_eq!(server.attributes(asked, RTR).expect("it is known").dest_qp_num, 0x11);
    let answer = rdma_ucm_conn_param { retry_count: 2, rnr_retry_count: 1, ..param(0x22, &[5; 196]) };
    assert_eq!(server.accept(asked, 3, param(0x22, &[5; 197])), Err(EINVAL), "a REP has 196 bytes");
    server.accept(asked, 3, answer).expect("it accepts");
    assert!(!server.is_ready(50), "the RTU is missing");
    let response = client.expect(event::CONNECT_RESPONSE);
    let said = told(&response);
    assert_eq!((response.uid, said.qp_num, said.private_data_len), (2, 0x22, 196));
    assert_eq!((said.private_data[195], said.private_data[196]), (5, 0));
    client.accept(asks, 2, Default::default()).expect("its QP is ready");
    assert_eq!(server.expect(event::ESTABLISHED).uid, 3);
    let [one, other] = [(&client, asks), (&server, asked)].map(|(channel, id)| {
        [INIT, RTR, RTS].map(|state| channel.attributes(id, state).expect("it is connected"))
    });
    assert_eq!((one[1].dest_qp_num, other[1].dest_qp_num), (0x22, 0x11));
    assert_eq!((one[1].rq_psn, other[1].rq_psn), (other[2].sq_psn, one[2].sq_psn));
    assert_eq!((one[1].max_dest_rd_atomic, one[2].max_rd_atomic), (5, 3), "the other side's have the say");
    assert_eq!((other[1].max_dest_rd_atomic, other[2].max_rd_atomic), (3, 5));
    assert_eq!([one[2].retry_cnt, other[2].retry_cnt], [7, 7], "who has asked says it");
    assert_eq!([one[2].rnr_retry, other[2].rnr_retry], [1, 7], "each says it to the other");
    assert_eq!(one[0].qp_access_flags, 0b1110, "WRITEs, READs and atomics");
    client.disconnect(asks).expect("it is connected");
    server.expect(event::DISCONNECTED);
    client.expect(event::DISCONNECTED);
    assert_eq!((server.disconnect(asked), client.disconnect(asks)), (Ok(()), Ok(())), "again is no error");
    assert!(!server.is_ready(0) && !client.is_ready(0));
    assert_eq!(
        (client.destroy(asks), server.destroy(asked), server.destroy(listener)),
        (Ok(4), Ok(2), Ok(1))
    );
}

fn refused() {
    let (server, client) = (Channel::open(0), Channel::open(0));
    let listener = server.listener(1, TCP, "0.0.0.0:0");
    assert_eq!(server.route(listener).node_guid, 0, "a wildcard is of no device");
    let to = format!("127.0.0.1:{}", port(&server.route(listener).src_addr));
    let ask = || {
        let id = client.resolved(2, TCP, &to);
        client.connect(id, param(1, b"")).expect("it asks");
        (id, server.expect(event::CONNECT_REQUEST).id)
    };
    for (reason, seen) in [(0, 28), (35, 35)] {
        let (asks, asked) = ask();
        assert_eq!(server.reject(asked, 9, b""), Err(EINVAL), "no reason of a program's");
        assert_eq!(server.reject(asked, reason, &[1; 149]), Err(EINVAL), "a REJ has 148 bytes");
        server.reject(asked, reason, &[1; 148]).expect("it was asked");
        let rejected = client.expect(event::REJECTED);
        assert_eq!((rejected.uid, rejected.status), (2, seen));
        let said = told(&rejected);
        assert_eq!((said.private_data_len, said.private_data[147], said.private_data[148]), (148, 1, 0));
        assert_eq!((server.destroy(asked), client.destroy(asks)), (Ok(0), Ok(3)));
    }
    // The server destroys the id of a request without an answer. Then it destroys the listener before it
    // reads another request.
    let (_, asked) = ask();
    server.destroy(asked).expect("it is there");
    let rejected = client.expect(event::REJECTED);
    assert_eq!(
        (rejected.status, told(&rejected).private_data_len),
        (28, 148),
        "a REJ has so many in any case"
    );
    let id = client.resolved(2, TCP, &to);
    client.connect(id, param(1, b"")).expect("it asks");
    assert!(server.is_ready(20_000));
    assert_eq!(server.destroy(listener), Ok(3));
    assert_eq!(client.expect(event::REJECTED).status, 28);
    assert!(!server.is_ready(0), "the events of what is gone are gone");
    // Now the client rejects the server's response. In the next connection, the client destroys its id before
    // the server accepts.
    let listener = server.listener(1, TCP, &to);
    let (asks, asked) = ask();
    server.accept(asked, 3, param(2, b"")).expect("it accepts");
    client.expect(event::CONNECT_RESPONSE);
    client.reject(asks, 0, b"").expect("it may say so");
    assert_eq!(server.expect(event::REJECTED).uid, 3);
    let (asks, asked) = ask();
    client.destroy(asks).expect("it is there");
    while server.accept(asked, 3, param(2, b"")) == Ok(()) {
        // The server has not noticed the destroyed id yet, and gets an event when it does.
        assert_eq!(server.expect(event::REJECTED).status, 28);
    }
    server.destroy(listener).expect("it is there");
}

fn nobody() {
    let channel = Channel::open(0);
    let id = channel.resolved(2, TCP, "127.0.0.1:1");
    channel.connect(id, param(1, b"")).expect("it asks");
    assert_eq!(channel.expect(event::REJECTED).status, 8, "an invalid service id");
    let id = channel.resolved(2, UDP, "[::1]:1");
    channel.connect(id, param(1, b"")).expect("it asks");
    assert_eq!(channel.expect(event::UNREACHABLE).status, 1, "unsupported");
    let id = channel.create(5, TCP);
    channel.resolve(id, "192.0.2.1:1").expect("it tries");
    assert_eq!(channel.expect(event::UNREACHABLE).status as i32, -libc::EHOSTUNREACH);
    // The listener begins only after the request.
    let id = channel.resolved(2, TCP, "127.0.0.1:45117");
    channel.connect(id, param(1, b"")).expect("it asks");
    channel.listener(1, TCP, "127.0.0.1:45117");
    channel.expect(event::CONNECT_REQUEST);
}

fn ports() {
    let channel = Channel::open(0);
    let first = channel.listener(1, TCP, "127.0.0.1:0");
    let taken = port(&channel.route(first).src_addr);
    let bind = |ps, at: &str| channel.bind(channel.create(1, ps), &at.replace("PORT", &taken.to_string()));
    assert_eq!(bind(TCP, "127.0.0.1:PORT"), Err(EADDRINUSE));
    assert_eq!(bind(TCP, "0.0.0.0:PORT"), Err(EADDRINUSE));
    assert_eq!(bind(TCP, "[::]:PORT"), Err(EADDRINUSE));
    assert_eq!(bind(TCP, "127.0.0.2:PORT"), Ok(()));
    assert_eq!(bind(UDP, "127.0.0.1:PORT"), Ok(()));
    // Several ids may share one port with REUSEADDR, but then none may listen.
    const REUSEADDR: u32 = 1;
    let ids = [channel.create(1, TCP), channel.create(1, TCP)];
    for id in ids {
        assert_eq!(channel.set(id, REUSEADDR, &1u32.to_ne_bytes()), Ok(()));
        assert_eq!(channel.bind(id, "127.0.0.3:45118"), Ok(()));
    }
    assert_eq!(channel.listen(ids[0], 1), Err(EADDRINUSE));
    channel.destroy(ids[1]).expect("it is there");
    assert_eq!(channel.listen(ids[0], 1), Ok(()));
    assert_eq!(channel.listen(ids[0], 1), Err(EINVAL), "it does");
    // An id that was never bound gets a port too.
    let id = channel.create(1, TCP);
    channel.listen(id, 1).expect("it listens");
    assert_ne!(port(&channel.route(id).src_addr), 0);
}

/// Checks wildcard addresses. An IPv6 wildcard covers both address families unless AFONLY is set. An IPv4
/// wildcard covers only IPv4.
fn families() {
    const AFONLY: u32 = 2;
    let (channel, client) = (Channel::open(0), Channel::open(0));
    let first = channel.listener(4, TCP, "0.0.0.0:0");
    let taken = port(&channel.route(first).src_addr);
    let at = |ip: &str| format!("{ip}:{taken}");
    let asks = |ip: &str| {
        let id = client.resolved(2, TCP, &at(ip));
        client.connect(id, param(1, b"")).expect("it asks");
    };
    let second = channel.create(6, TCP);
    assert_eq!(channel.bind(second, &at("[::]")), Err(EADDRINUSE));
    asks("[::1]");
    client.expect(event::REJECTED);
    channel.set(second, AFONLY, &1u32.to_ne_bytes()).expect("it may be");
    channel.bind(second, &at("[::]")).expect("it is of IPv6 alone");
    channel.listen(second, 1).expect("it listens");
    for (ip, uid) in [("127.0.0.1", 4), ("[::1]", 6)] {
        asks(ip);
        assert_eq!(channel.expect(event::CONNECT_REQUEST).uid, uid, "{ip}");
    }
    // A listener of both families gets a request to an IPv4 address.
    let both = channel.listener(8, TCP, "[::]:0");
    let to = format!("127.0.0.1:{}", port(&channel.route(both).src_addr));
    let id = client.resolved(2, TCP, &to);
    client.connect(id, param(1, b"")).expect("it asks");
    assert_eq!(channel.expect(event::CONNECT_REQUEST).uid, 8);
}

fn datagrams() {
    let (server, client) = (Channel::open(0), Channel::open(0));
    let listener = server.listener(1, UDP, "[::1]:0");
    let to = format!("[::1]:{}", port(&server.route(listener).src_addr));
    let ask = || {
        let id = client.resolved(2, UDP, &to);
        let init = client.attributes(id, INIT).expect("it has a device");
        assert_eq!((init.qkey, init.qp_access_flags), (0x0123_4567, 0));
        client.connect(id, param(0x11, &[9; 180])).expect("it asks");
        let request = server.expect(event::CONNECT_REQUEST);
        let said = told_of_ud(&request);
        assert_eq!((said.private_data_len, said.private_data[179], said.private_data[180]), (180, 9, 0));
        (id, request.id)
    };
    let (_, asked) = ask();
    server.accept(asked, 3, param(0x22, b"here")).expect("it answers");
    let answer = client.expect(event::ESTABLISHED);
    let said = told_of_ud(&answer);
    assert_eq!((said.qp_num, said.qkey, said.private_data_len), (0x22, 0x0123_4567, 136));
    assert_eq!((&said.private_data[..5], said.ah_attr.port_num), (&b"here\0"[..], 1));
    assert!(!server.is_ready(0), "who answers is told nothing more");
    let (_, asked) = ask();
    server.reject(asked, 0, b"").expect("it was asked");
    assert_eq!(client.expect(event::UNREACHABLE).status, 2, "rejected");
}

fn groups() {
    let channel = Channel::open(0);
    let id = channel.create(1, UDP);
    channel.bind(id, "127.0.0.1:0").expect("it is bound");
    let join = |uid, at: &str| -> cm::Result<u32> {
        let addr = address(at);
        let body = |response| rdma_ucm_join_ip_mcast { response, uid, addr, id };
        channel.ask(command::JOIN_IP_MCAST, body).map(|made: rdma_ucm_create_id_resp| made.id)
    };
    assert_eq!(join(4, "127.0.0.1:0"), Err(EINVAL), "no group");
    let group = join(4, "239.7.7.7:0").expect("it joins");
    let joined = channel.expect(event::MULTICAST_JOIN);
    assert_eq!((joined.uid, told_of_ud(&joined).qp_num), (4, 0xff_ffff));
    let said = told_of_ud(&joined);
    assert_eq!((said.ah_attr.grh.dgid[0], said.qkey), (0xff, 0x0123_4567));
    let leave = |id| {
        let body = |response| rdma_ucm_destroy_id { response, id, reserved: 0 };
        channel.ask(command::LEAVE_MCAST, body).map(|gone: rdma_ucm_destroy_id_resp| gone.events_reported)
    };
    assert_eq!(leave(group), Ok(1));
    assert_eq!(leave(group), Err(ENOENT));
    join(5, "[ff0e::7]:0").expect("it joins");
    assert_eq!(channel.destroy(id), Ok(0));
    assert!(!channel.is_ready(0), "the events of what is gone are gone");
}

/// Creates an id that resolves an address and its route. Does not fetch the events, because the channel has
/// events of other ids too.
fn other_id(channel: &Channel, to: &str) -> u32 {
    let id = channel.create(3, TCP);
    channel.resolve(id, to).expect("it resolves");
    channel.resolve_route(id).expect("it resolves");
    id
}

fn migration() {
    let (one, other) = (Channel::open(0), Channel::open(libc::O_NONBLOCK));
    let id = one.create(1, TCP);
    one.resolve(id, "127.0.0.1:1").expect("it resolves");
    let listener = one.listener(2, TCP, "127.0.0.1:0");
    let to = format!("127.0.0.1:{}", port(&one.route(listener).src_addr));
    let asks = other_id(&one, &to);
    let migrate = |id, fd: i32| {
        let body = |response| rdma_ucm_migrate_id { response, id, fd: fd as u32 };
        other.ask(command::MIGRATE_ID, body).map(|moved: rdma_ucm_destroy_id_resp| moved.events_reported)
    };
    assert_eq!(migrate(id, -1), Err(ENOENT));
    assert_eq!(migrate(id, other.fd()), Err(EINVAL), "another channel's");
    assert_eq!(migrate(id, one.fd()), Ok(0));
    assert_eq!(other.expect(event::ADDR_RESOLVED).id, id);
    assert_eq!(one.resolve_route(id), Err(EINVAL));
    other.resolve_route(id).expect("it is this one's now");
    other.expect(event::ROUTE_RESOLVED);
    // A request moves with its listener.
    one.expect(event::ADDR_RESOLVED);
    one.expect(event::ROUTE_RESOLVED);
    one.connect(asks, param(1, b"")).expect("it asks");
    assert!(one.is_ready(20_000));
    assert_eq!(migrate(listener, one.fd()), Ok(0));
    let request = other.expect(event::CONNECT_REQUEST);
    other.accept(request.id, 3, param(2, b"")).expect("it accepts");
    one.expect(event::CONNECT_RESPONSE);
    one.accept(asks, 0, Default::default()).expect("it is ready");
    other.expect(event::ESTABLISHED);
}

/// Creates a channel with a listener and a channel for a client. Also returns the listener's address.
fn server_and_client() -> (Channel, Channel, String) {
    let (server, client) = (Channel::open(0), Channel::open(0));
    let listener = server.listener(1, TCP, "127.0.0.1:0");
    let to = format!("127.0.0.1:{}", port(&server.route(listener).src_addr));
    (server, client, to)
}

/// Connects a client to the listener. Returns the ids of client and server.
fn connected(server: &Channel, client: &Channel, to: &str) -> [u32; 2] {
    let asks = client.resolved(2, TCP, to);
    client.connect(asks, param(1, b"")).expect("it asks");
    let asked = server.expect(event::CONNECT_REQUEST).id;
    server.accept(asked, 3, param(2, b"")).expect("it accepts");
    client.expect(event::CONNECT_RESPONSE);
    client.accept(asks, 2, Default::default()).expect("it is ready");
    server.expect(event::ESTABLISHED);
    [asks, asked]
}

/// Checks the effects of rdma_set_option(3) and rdma_notify(3).
fn options() {
    let (server, client, to) = server_and_client();
    let id = client.create(2, TCP);
    client.resolve(id, &to).expect("it resolves");
    client.expect(event::ADDR_RESOLVED);
    let (tos, timeout) = (0x60u8, 12u8);
    client.set(id, 0, &[tos]).expect("it has one");
    client.set(id, 3, &[timeout]).expect("it has one");
    // The program sets its own path (RDMA_OPTION_IB_PATH).
    let path = [0u8; 72];
    let (optval, optlen) = (path.as_ptr() as u64, path.len() as u32);
    let option = rdma_ucm_set_option { optval, id, level: 1, optname: 1, optlen };
    client.tell(command::SET_OPTION, &option).expect("there is one");
    client.expect(event::ROUTE_RESOLVED);
    client.connect(id, param(1, b"")).expect("it asks");
    let asked = server.expect(event::CONNECT_REQUEST).id;
    server.accept(asked, 3, param(2, b"")).expect("it accepts");
    client.expect(event::CONNECT_RESPONSE);
    let [rtr, rts] = [RTR, RTS].map(|state| client.attributes(id, state).expect("it is known"));
    let grh = rtr.ah_attr.grh;
    assert_eq!(grh.traffic_class, if rtr.ah_attr.is_global == 0 { 0 } else { tos });
    assert_eq!(rts.timeout, timeout);
    // A program that gets IBV_EVENT_COMM_EST calls rdma_notify(3): a message to its QP shows that the other
    // side is ready. The later RTU then causes no event.
    let notify = |event| server.tell(command::NOTIFY, &rdma_ucm_notify { id: asked, event });
    assert_eq!(notify(5), Err(EINVAL), "no such event");
    assert_eq!(notify(4), Ok(()));
    assert_eq!(server.expect(event::ESTABLISHED).uid, 3);
    assert_eq!(notify(4), Ok(()), "it is known");
    client.accept(id, 2, Default::default()).expect("it is ready");
    client.disconnect(id).expect("it is connected");
    server.expect(event::DISCONNECTED);
}

/// Resolves an address with a source address, as rdma_resolve_addr(3) does.
fn source() {
    let channel = Channel::open(0);
    let resolve = |id, from: &str| {
        let (src_addr, dst_addr) = (address(from), address("127.0.0.1:1"));
        let body = rdma_ucm_resolve_ip { src_addr, dst_addr, id, timeout_ms: 2000 };
        channel.tell(command::RESOLVE_IP, &body)
    };
    let id = channel.create(1, TCP);
    assert_eq!(resolve(id, "192.0.2.1:0"), Err(EADDRNOTAVAIL));
    assert_eq!(resolve(id, "127.0.0.9:45119"), Ok(()));
    channel.expect(event::ADDR_RESOLVED);
    assert_eq!(channel.route(id).src_addr, address("127.0.0.9:45119"));
    assert_eq!(channel.bind(channel.create(1, TCP), "127.0.0.9:45119"), Err(EADDRINUSE), "it is claimed");
    // If the id is bound to a wildcard, resolving replaces the address but keeps the port.
    let id = channel.create(1, TCP);
    channel.bind(id, "0.0.0.0:45120").expect("it is bound");
    channel.resolve(id, "127.0.0.1:1").expect("it resolves");
    channel.expect(event::ADDR_RESOLVED);
    assert_eq!(channel.route(id).src_addr, address("127.0.0.1:45120"));
}

/// Checks that an id without a uid gets no events, as in the kernel. A call on the id fails if the peer has
/// gone.
fn untold() {
    let (server, client, to) = server_and_client();
    let asks = client.resolved(2, TCP, &to);
    client.connect(asks, param(1, b"")).expect("it asks");
    let asked = server.expect(event::CONNECT_REQUEST).id;
    client.destroy(asks).expect("it is there");
    // One thread handles both requests in order, so the server has seen the first client's end.
    let next = client.resolved(4, TCP, &to);
    client.connect(next, param(1, b"")).expect("it asks");
    assert_eq!(server.expect(event::CONNECT_REQUEST).uid, 1, "and nothing before it");
    assert_eq!(server.accept(asked, 3, param(2, b"")), Err(EINVAL), "who asked has gone");
    assert_eq!(server.destroy(asked), Ok(0));
    let nameless = client.create(0, TCP);
    client.resolve(nameless, &to).expect("it resolves");
    assert!(!client.is_ready(0));
}

/// Disconnects both sides at the same time. Each side gets one event.
fn both_end() {
    let (server, client, to) = server_and_client();
    for _ in 0..20 {
        let [asks, asked] = connected(&server, &client, &to);
        let both = [client.disconnect(asks), server.disconnect(asked)];
        assert_eq!(both, [Ok(()), Ok(())]);
        client.expect(event::DISCONNECTED);
        server.expect(event::DISCONNECTED);
        assert_eq!((client.destroy(asks), server.destroy(asked)), (Ok(4), Ok(2)));
    }
    assert!(!client.is_ready(0) && !server.is_ready(0));
}

fn backlog() {
    let (server, client) = (Channel::open(0), Channel::open(0));
    let listener = server.create(1, TCP);
    server.bind(listener, "127.0.0.1:0").expect("it is bound");
    server.listen(listener, 2).expect("it listens");
    let to = format!("127.0.0.1:{}", port(&server.route(listener).src_addr));
    let ids: Vec<u32> = (0..3).map(|uid| client.resolved(uid + 1, TCP, &to)).collect();
    for id in &ids[..2] {
        client.connect(*id, param(1, b"")).expect("it asks");
    }
    let request = server.expect(event::CONNECT_REQUEST);
    client.connect(ids[2], param(1, b"")).expect("it asks");
    // The server has fetched one request, so the backlog of 2 has room for the third, but not for a fourth.
    const FOURTH: u64 = 4;
    let fourth = client.resolved(FOURTH, TCP, &to);
    client.connect(fourth, param(1, b"")).expect("it asks");
    let rejected = client.expect(event::REJECTED);
    assert_eq!((rejected.uid, rejected.status), (FOURTH, 28));
    server.destroy(request.id).expect("it is there");
}

/// Opens a thousand connections at the same time. After all have ended, as many files are open as before.
fn thousand() {
    const MANY: usize = 1000;
    // SAFETY: the struct belongs to this function.
    unsafe {
        let mut files: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut files);
        files.rlim_cur = files.rlim_max.min(10_000);
        libc::setrlimit(libc::RLIMIT_NOFILE, &files);
    }
    let files = || std::fs::read_dir("/proc/self/fd").expect("it is there").count();
    let (server, client) = (Channel::open(0), Channel::open(0));
    let listener = server.listener(1, TCP, "127.0.0.1:0");
    let to = format!("127.0.0.1:{}", port(&server.route(listener).src_addr));
    let before = files();
    let pairs: Vec<[u32; 2]> = (0..MANY).map(|_| connected(&server, &client, &to)).collect();
    for (at, [asks, asked]) in pairs.into_iter().enumerate() {
        if at % 2 == 0 {
            client.disconnect(asks).expect("it is connected");
            client.expect(event::DISCONNECTED);
        } else {
            client.destroy(asks).expect("it is there");
        }
        server.expect(event::DISCONNECTED);
        server.destroy(asked).expect("it is there");
        if at % 2 == 0 {
            client.destroy(asks).expect("it is there");
        }
    }
    assert_eq!(files(), before);
}

/// Closes a channel while another thread waits for an event. As in the kernel, the waiting call keeps the
/// file. rping does this at its end.
fn closed() {
    for _ in 0..20 {
        let channel = Channel::open(0);
        let fd = channel.fd();
        let id = channel.create(1, TCP);
        let (said, heard) = std::sync::mpsc::channel();
        let (begins, begun) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            // SAFETY: the call takes no arguments.
            let _ = begins.send(unsafe { libc::gettid() });
            // SAFETY: the descriptor is open when the thread begins. The thread does not own it, because it
            // is closed below.
            let channel = std::mem::ManuallyDrop::new(Channel(unsafe { OwnedFd::from_raw_fd(fd) }));
            let _ = said.send(channel.event().map(|_| ()));
        });
        let thread = format!("/proc/self/task/{}/stat", begun.recv().expect("it begins"));
        let sleeps = || std::fs::read_to_string(&thread).is_ok_and(|stat| stat.contains(") S "));
        while !sleeps() {
            std::thread::yield_now();
        }
        // The event of a destroyed id may wake the thread for nothing.
        channel.resolve(id, "127.0.0.1:1").expect("it resolves");
        channel.destroy(id).expect("it is there");
        drop(channel);
        match heard.recv_timeout(std::time::Duration::from_millis(50)) {
            // The thread fetched the event before the id was destroyed, or began after the close.
            Ok(got) => assert!(matches!(got, Ok(()) | Err(EBADF)), "{got:?}"),
            Err(why) => assert_eq!(why, std::sync::mpsc::RecvTimeoutError::Timeout),
        }
    }
}

/// Forks a child. The child cannot use the parent's channel, and its calls do not affect that channel.
fn child() {
    let channel = Channel::open(0);
    let listener = channel.listener(1, TCP, "127.0.0.1:0");
    let to = format!("127.0.0.1:{}", port(&channel.route(listener).src_addr));
    let asks = channel.resolved(2, TCP, &to);
    channel.connect(asks, param(1, b"")).expect("it asks");
    let asked = channel.expect(event::CONNECT_REQUEST).id;
    let command = bytes_of(command::LISTEN, &rdma_ucm_listen { id: listener, backlog: 0 }, 0);
    // SAFETY: the child calls only functions that are safe after fork(2).
    let child = unsafe { libc::fork() };
    if child == 0 {
        let is_refused = write(channel.fd(), &command) == Err(ENODEV);
        // SAFETY: the descriptor is the child's own copy.
        unsafe {
            libc::close(channel.fd());
            // A channel that the child opens does not have the parent's ids.
            let own = Channel::open(0);
            let is_other = own.destroy(listener) == Err(ENOENT);
            libc::_exit(if is_refused && is_other { 0 } else { 1 });
        }
    }
    let mut status = 0;
    // SAFETY: the process is a child of this test.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    channel.accept(asked, 3, param(2, b"")).expect("it accepts");
    channel.expect(event::CONNECT_RESPONSE);
}

/// Reads an address from the test. A port alone means 127.0.0.1.
fn heard_address() -> String {
    let heard = hear();
    if heard.contains(':') { heard } else { format!("127.0.0.1:{heard}") }
}

/// Listens at an address, prints the port, and accepts a request if the test says so.
fn listens() {
    let channel = Channel::open(0);
    let listener = channel.listener(1, TCP, &heard_address());
    say(port(&channel.route(listener).src_addr));
    let asked = channel.expect(event::CONNECT_REQUEST).id;
    say("asked");
    if hear() == "accept" {
        channel.accept(asked, 2, param(1, b"")).expect("it accepts");
        channel.expect(event::ESTABLISHED);
        say("established");
    }
    hear();
}

/// Connects to the address that the test sends, and prints the resulting events.
fn asks() {
    let channel = Channel::open(0);
    let id = channel.create(1, TCP);
    channel.resolve(id, &heard_address()).expect("it tries");
    let first = channel.event().expect("one comes");
    if first.event == event::UNREACHABLE {
        return say("unreachable");
    }
    channel.resolve_route(id).expect("its address is known");
    channel.expect(event::ROUTE_RESOLVED);
    channel.connect(id, param(1, b"")).expect("it asks");
    let first = channel.event().expect("one comes");
    say(format!("{} {}", first.event, first.status));
    if first.event == event::CONNECT_RESPONSE {
        channel.accept(id, 1, Default::default()).expect("it is ready");
        channel.expect(event::DISCONNECTED);
        say("disconnected");
    }
    hear();
}

/// Runs listeners on hosts: programs with different IP addresses. Each host has its own ports and its own
/// 127.0.0.1.
#[test]
fn hosts_listen_on_one_port() {
    let launch = launch(Link::Roce);
    let start = |role: &str, ip: Option<&str>, tell: &str| {
        let mut command = own_program(&launch, module_path!(), role);
        if let Some(ip) = ip {
            command.env(doorbell_launch::variables::IP, ip);
        }
        let mut started = Running::of(command);
        started.tell(tell);
        started
    };
    const PORT: u16 = 7471;
    let mut listeners = [
        start("listens", Some("10.77.0.1"), &format!("0.0.0.0:{PORT}")),
        start("listens", Some("10.77.0.2"), &format!("10.77.0.2:{PORT}")),
        start("listens", None, &format!("127.0.0.1:{PORT}")),
    ];
    for listener in &mut listeners {
        assert_eq!(listener.line(), PORT.to_string());
    }
    let mut gone = start("asks", Some("10.77.0.1"), &format!("10.77.0.3:{PORT}"));
    assert_eq!(gone.line(), "unreachable");
    gone.end("who asked nobody");
    // The address of a host leads to that host. 127.0.0.1 always means the client's own host.
    let asked = [(Some("10.77.0.2"), "10.77.0.1", 0), (None, "10.77.0.2", 1), (None, "127.0.0.1", 2)];
    for (ip, to, at) in asked {
        let mut client = start("asks", ip, &format!("{to}:{PORT}"));
        assert_eq!(listeners[at].line(), "asked", "{to}");
        listeners[at].tell("accept");
        assert_eq!(client.line(), format!("{} 0", event::CONNECT_RESPONSE));
        assert_eq!(listeners[at].line(), "established");
        client.child.kill().expect("it can be killed");
    }
    for listener in listeners {
        listener.end("who listened");
    }
}

/// Kills a listener while a client connects, and while a client is connected. Clients get an event, and the
/// port is free again.
#[test]
fn a_killed_listener_is_seen_and_its_port_is_free() {
    let launch = launch(Link::Ib);
    let start = |role: &str, tell: &str| {
        let mut started = Running::new(&launch, module_path!(), role);
        started.tell(tell);
        started
    };
    let mut listener = start("listens", "0");
    let port = listener.line();
    // The listener is killed before it accepts the client's request.
    let mut client = start("asks", &port);
    assert_eq!(listener.line(), "asked");
    listener.child.kill().expect("it can be killed");
    listener.child.wait().expect("it ends");
    assert_eq!(client.line(), format!("{} 28", event::REJECTED));
    client.end("who asked");
    // A new listener gets the port, and is killed while a client is connected.
    let mut listener = start("listens", &port);
    assert_eq!(listener.line(), port);
    let mut client = start("asks", &port);
    assert_eq!(listener.line(), "asked");
    listener.tell("accept");
    assert_eq!(client.line(), format!("{} 0", event::CONNECT_RESPONSE));
    assert_eq!(listener.line(), "established");
    listener.child.kill().expect("it can be killed");
    listener.child.wait().expect("it ends");
    assert_eq!(client.line(), "disconnected");
    // No process listens there any more.
    let mut late = start("asks", &port);
    assert_eq!(late.line(), format!("{} 8", event::REJECTED));
    late.end("who came late");
    client.end("who asked");
    let fabric = launch.fabric.unwrap_or_default();
    assert!(!leaves_something(&fabric), "the fabric {fabric} is still there");
}
