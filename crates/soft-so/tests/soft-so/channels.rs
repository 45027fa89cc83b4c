//! Tests descriptors of rdma_cm channels that are closed, copied, passed to another process, or inherited.

use crate::common::cm::{Channel, Result, address, bytes_of, param, port, write};
use crate::common::running::{alone, role};
use crate::common::{ROLE, one_test};
use doorbell_abi::cm::port_space::TCP;
use doorbell_abi::cm::*;
use doorbell_launch::Link;
use libc::{EADDRINUSE, EAGAIN, EBADF, EINVAL, c_int, c_void};
use std::fs::File;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;
use std::process::{Command, Stdio};

const HERE: &str = module_path!();

#[test]
#[ignore = "a program that a test runs"]
fn program() {
    match role().as_str() {
        "closed" => closed(),
        "inherited" => inherited(),
        "spawned" => spawned(),
        "passed on" => passed_on(),
        "takes" => takes(),
        other => panic!("{other}"),
    }
}

#[test]
fn with_its_last_descriptor_a_channel_goes_however_that_is_closed() {
    alone(Link::Ib, HERE, "closed");
}

#[test]
fn another_program_has_a_descriptor_only_where_it_was_opened_so() {
    alone(Link::Ib, HERE, "inherited");
}

#[test]
fn a_program_that_is_spawned_leaves_the_channel_as_it_is() {
    alone(Link::Ib, HERE, "spawned");
}

#[test]
fn who_is_passed_a_channel_can_wait_for_its_events_and_no_more() {
    alone(Link::Ib, HERE, "passed on");
}

/// Creates a channel with a listener. Returns the channel, the listener's id and its address.
fn listener() -> (ManuallyDrop<Channel>, u32, String) {
    let channel = Channel::open(0);
    let id = channel.listener(1, TCP, "127.0.0.1:0");
    let at = format!("127.0.0.1:{}", port(&channel.route(id).src_addr));
    (ManuallyDrop::new(channel), id, at)
}

fn bind(at: &str) -> Result<()> {
    let channel = Channel::open(0);
    channel.bind(channel.create(1, TCP), at)
}

/// Whether a client can connect to the channel's listener.
fn serves(channel: &Channel, at: &str) -> bool {
    let asks = channel.resolved(2, TCP, at);
    channel.connect(asks, param(1, b"")).expect("it asks");
    let asked = channel.expect(event::CONNECT_REQUEST).id;
    channel.accept(asked, 3, param(2, b"")).expect("it accepts");
    channel.expect(event::CONNECT_RESPONSE);
    channel.destroy(asks).is_ok() && channel.destroy(asked).is_ok()
}

fn closed() {
    // Another file takes over the channel's descriptor.
    let (channel, _, at) = listener();
    let other = File::open("/dev/null").expect("it is there");
    // SAFETY: the descriptors belong to this test.
    assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), channel.fd()) }, channel.fd());
    assert_eq!(bind(&at), Ok(()));
    assert_eq!(write(channel.fd(), &[0; 8]), Err(EBADF), "as the other file, which is open for reading");
    // With CLOSE_RANGE_CLOEXEC, close_range(2) closes nothing until exec(2). closefrom(3) then closes all
    // descriptors from a number on.
    let (channel, _, at) = listener();
    // SAFETY: the first descriptor belongs to this test, and nothing uses the numbers from `last` on.
    unsafe {
        let last = libc::fcntl(channel.fd(), libc::F_DUPFD_CLOEXEC, 500);
        libc::close(channel.fd());
        let range = last as u32;
        assert_eq!(libc::close_range(range, range, libc::CLOSE_RANGE_CLOEXEC as c_int), 0);
        assert_eq!(bind(&at), Err(EADDRINUSE));
        closefrom(last);
    }
    assert_eq!(bind(&at), Ok(()));
}

unsafe extern "C" {
    fn closefrom(first: c_int);
}

fn inherited() {
    for (flags, is_there) in [(0, true), (libc::O_CLOEXEC, false)] {
        // SAFETY: the path is a C string. The descriptor is new.
        let channel = unsafe {
            let fd = libc::open(c"/dev/infiniband/rdma_cm".as_ptr(), libc::O_RDWR | flags);
            Channel(OwnedFd::from_raw_fd(fd))
        };
        let script = format!("test -e /proc/self/fd/{}", channel.fd());
        let status = Command::new("/bin/sh").args(["-c", &script]).status().expect("it starts");
        assert_eq!(status.success(), is_there);
    }
}

/// Starts a program like posix_spawn(3) and vfork(2): the child shares the parent's memory until it executes
/// the program.
fn spawned() {
    let (channel, _, at) = listener();
    extern "C" fn child(fd: *mut c_void) -> c_int {
        let fd = fd as usize as RawFd;
        // SAFETY: the descriptors are the child's own, and the child executes another program.
        unsafe {
            libc::dup2(fd, 100);
            libc::close(fd);
            libc::close_range(3, u32::MAX, 0);
            let name = c"/bin/true".as_ptr();
            libc::execv(name, [name, std::ptr::null()].as_ptr());
            libc::_exit(1)
        }
    }
    let mut stack = vec![0u128; 1 << 14];
    let mut status = 0;
    // SAFETY: the child has a stack of its own. This thread goes on once the child executes another program.
    unsafe {
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let top = stack.as_mut_ptr().add(stack.len()).cast();
        let pid = libc::clone(child, top, flags, channel.fd() as usize as *mut c_void);
        assert_eq!(libc::waitpid(pid, &mut status, 0), pid);
    }
    assert_eq!(status, 0);
    assert!(serves(&channel, &at));
    // The Rust library starts this child by posix_spawn(3).
    let script = "for file in /proc/self/fd/*; do readlink $file; done | grep anon_inode";
    let found = Command::new("/bin/sh").args(["-c", script]).output().expect("it starts");
    assert_eq!(String::from_utf8_lossy(&found.stdout), "", "a child has none of its files");
    assert!(serves(&channel, &at));
}

/// Bytes of a buffer for a control message with one descriptor.
const CONTROL: usize = 64;

/// Calls sendmsg(2) or recvmsg(2) with one byte of data and a control message.
fn with_message(control: &mut [u64; CONTROL / 8], call: impl FnOnce(&mut libc::msghdr) -> isize) {
    let mut byte = [7u8];
    let mut part = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    // SAFETY: a msghdr may be all zeros.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (&mut part, 1);
    (message.msg_control, message.msg_controllen) = (control.as_mut_ptr().cast(), CONTROL);
    assert_eq!((call(&mut message), byte[0]), (1, 7));
}

fn send(socket: &UnixDatagram, fd: RawFd) {
    with_message(&mut [0; CONTROL / 8], |message| {
        // SAFETY: there is room for the header and a descriptor.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(message);
            ((*header).cmsg_level, (*header).cmsg_type) = (libc::SOL_SOCKET, libc::SCM_RIGHTS);
            (*header).cmsg_len = libc::CMSG_LEN(4) as usize;
            libc::CMSG_DATA(header).cast::<RawFd>().write(fd);
            message.msg_controllen = libc::CMSG_SPACE(4) as usize;
            libc::sendmsg(socket.as_raw_fd(), message, 0)
        }
    });
}

fn receive(socket: RawFd) -> OwnedFd {
    let mut control = [0u64; CONTROL / 8];
    // SAFETY: the message's lengths match its buffers.
    with_message(&mut control, |message| unsafe { libc::recvmsg(socket, message, 0) });
    // SAFETY: a control message has the descriptor behind its header. The descriptor is new.
    unsafe { OwnedFd::from_raw_fd(control.as_ptr().cast::<libc::cmsghdr>().add(1).cast::<RawFd>().read()) }
}

fn passed_on() {
    let (channel, _, at) = listener();
    let id = channel.create(9, TCP);
    let (own, theirs) = UnixDatagram::pair().expect("sockets");
    let mut other = Command::new(std::env::current_exe().expect("it has a file"));
    other.args(one_test(HERE, "program")).env(ROLE, "takes").stdin(Stdio::from(OwnedFd::from(theirs)));
    let mut other = other.spawn().expect("it starts");
    send(&own, channel.fd());
    let mut byte = [0];
    assert_eq!(own.recv(&mut byte).expect("it waits"), 1);
    channel.resolve(id, "127.0.0.1:1").expect("it resolves");
    assert!(other.wait().expect("it ends").success());
    // The channel is unchanged in this process.
    assert_eq!(channel.expect(event::ADDR_RESOLVED).uid, 9);
    assert!(!channel.is_ready(0) && serves(&channel, &at));
}

/// Receives a channel's descriptor from another process, and uses it.
fn takes() {
    let channel = Channel(receive(0));
    assert!(!channel.is_ready(0));
    // SAFETY: the byte outlives the call.
    assert_eq!(unsafe { libc::write(0, [1u8].as_ptr().cast(), 1) }, 1);
    assert!(channel.is_ready(20_000), "who waits is woken");
    let mut room = [0u8; 8];
    // SAFETY: the length matches `room`.
    let read = unsafe { libc::read(channel.fd(), room.as_mut_ptr().cast(), room.len()) };
    assert_eq!((read, std::io::Error::last_os_error().raw_os_error()), (-1, Some(EINVAL)));
    let bind = rdma_ucm_bind_ip { response: 0, addr: address("127.0.0.1:0"), id: 1 };
    assert_eq!(write(channel.fd(), &bytes_of(command::BIND_IP, &bind, 0)), Err(EINVAL));
    assert!(channel.is_ready(0), "the event is its owner's");
    // A channel of this program's own works.
    let own = Channel::open(libc::O_NONBLOCK);
    assert_eq!(own.event().map(|_| ()), Err(EAGAIN));
    own.listener(1, TCP, "127.0.0.1:0");
}
