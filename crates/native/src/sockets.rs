//! `Sockets` on the kernel's TCP.
//!
//! The machines of a cluster are threads of one process, or processes that share one device. So all of them
//! are on one host. Listeners use the loopback interface. All machines of the cluster reach it, and other
//! hosts do not.
//!
//! Sockets block for at most a time slice. Usually a call needs one system call. A call that waits longer
//! checks between slices whether the run was stopped.

use crate::provider::NativeProvider;
use crate::socket::Socket;
use doorbell_verbs::{Cpu, Mem, SocketError, SocketHandle, Sockets, Span, Time, VerbsError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout, set_tcp_nodelay};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::net::{accept_with, bind, connect, getsockname, listen, socket_with};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

/// Longest wait of a call before it checks whether the run was stopped.
const SLICE: Span = Span::from_ms(20);
/// Largest number of connections that wait to be accepted. The kernel limits it to `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Converts the error of a call.
fn refused(what: &'static str) -> impl Fn(Errno) -> SocketError {
    move |errno| match errno {
        Errno::CONNRESET | Errno::PIPE | Errno::CONNABORTED | Errno::TIMEDOUT => SocketError::Reset,
        Errno::BADF | Errno::INVAL | Errno::NOTCONN => {
            SocketError::Invalid(format!("{what} failed: {errno}"))
        }
        _ => SocketError::Errno { what, errno: errno.raw_os_error() },
    }
}

/// Whether the call must be repeated, because its slice has ended, a signal arrived, or the connection is not
/// established yet.
fn is_again(errno: Errno) -> bool {
    matches!(errno, Errno::AGAIN | Errno::INTR | Errno::INPROGRESS | Errno::ALREADY)
}

/// The error for an unknown socket handle.
fn unknown(cause: VerbsError) -> SocketError {
    match cause {
        VerbsError::Invalid(why) => SocketError::Invalid(why),
        other => SocketError::Invalid(other.to_string()),
    }
}

/// Creates a TCP socket.
fn socket() -> Result<OwnedFd, SocketError> {
    socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(refused("socket(2)"))
}

/// Limits the time for which calls on the socket block.
fn in_slices(fd: &OwnedFd) -> Result<(), SocketError> {
    let slice = Some(Duration::from_nanos(SLICE.as_ns()));
    [Timeout::Recv, Timeout::Send]
        .into_iter()
        .try_for_each(|way| set_socket_timeout(fd, way, slice))
        .map_err(refused("setsockopt(2)"))
}

/// Converts the result of send(2) or recv(2): a number of bytes, or -1 with the cause in errno.
fn bytes(returned: isize) -> Result<u64, Errno> {
    u64::try_from(returned).map_err(|_| {
        let errno = std::io::Error::last_os_error().raw_os_error();
        Errno::from_raw_os_error(errno.unwrap_or(libc::EIO))
    })
}

impl NativeProvider {
    /// Repeats a call while it fails as [`is_again`] describes. Unwinds if the run is stopped.
    fn blocking<T>(&self, mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
        loop {
            self.exchange().check();
            match call() {
                Err(errno) if is_again(errno) => {}
                done => return done,
            }
        }
    }

    fn keep(&self, socket: Socket) -> Result<SocketHandle, SocketError> {
        self.sockets().insert(socket).map(SocketHandle).map_err(unknown)
    }

    fn socket(&self, handle: SocketHandle) -> Result<Rc<Socket>, SocketError> {
        self.sockets().get(handle.0).map_err(unknown)
    }

    /// The connection with this handle. Refuses a listener.
    fn stream(&self, handle: SocketHandle) -> Result<Rc<Socket>, SocketError> {
        let socket = self.socket(handle)?;
        match *socket {
            Socket::Stream(_) => Ok(socket),
            Socket::Listener(_) => Err(SocketError::Invalid(format!(
                "socket {} only listens; send and receive on a connection",
                handle.0
            ))),
        }
    }
}

impl Sockets for NativeProvider {
    fn tcp_listen(&self) -> Result<(SocketHandle, SocketAddr), SocketError> {
        let fd = socket()?;
        bind(&fd, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).map_err(refused("bind(2)"))?;
        listen(&fd, BACKLOG).map_err(refused("listen(2)"))?;
        in_slices(&fd)?;
        let address = getsockname(&fd).and_then(SocketAddr::try_from).map_err(refused("getsockname(2)"))?;
        Ok((self.keep(Socket::Listener(fd))?, address))
    }

    fn tcp_accept(&self, listener: SocketHandle) -> Result<SocketHandle, SocketError> {
        let socket = self.socket(listener)?;
        let Socket::Listener(fd) = &*socket else {
            return Err(SocketError::Invalid(format!("socket {} does not listen", listener.0)));
        };
        let accepted =
            self.blocking(|| accept_with(fd, SocketFlags::CLOEXEC)).map_err(refused("accept(2)"))?;
        set_tcp_nodelay(&accepted, true).map_err(refused("setsockopt(2)"))?;
        in_slices(&accepted)?;
        self.keep(Socket::Stream(accepted))
    }

    fn tcp_connect(&self, to: SocketAddr) -> Result<SocketHandle, SocketError> {
        let fd = socket()?;
        set_tcp_nodelay(&fd, true).map_err(refused("setsockopt(2)"))?;
        in_slices(&fd)?;
        match self.blocking(|| connect(&fd, &to)) {
            // The connection may be established between two slices.
            Ok(()) | Err(Errno::ISCONN) => self.keep(Socket::Stream(fd)),
            Err(Errno::CONNREFUSED) => Err(SocketError::Refused(to)),
            Err(errno) => Err(SocketError::Errno { what: "connect(2)", errno: errno.raw_os_error() }),
        }
    }

    fn tcp_send(&self, socket: SocketHandle, mem: Mem, offset: u64, len: u64) -> Result<(), SocketError> {
        let stream = self.stream(socket)?;
        let from = self.view().pointer(mem, offset, len);
        let fd = stream.as_fd().as_raw_fd();
        let mut sent = 0;
        while sent < len {
            let send = || {
                // SAFETY: `pointer` checked the range. It stays mapped as long as the view, and its length
                // fits a usize. The kernel reads it as a device would, so there is no reference to memory
                // that other threads store to.
                bytes(unsafe {
                    libc::send(fd, from.add(sent as usize).cast(), (len - sent) as usize, libc::MSG_NOSIGNAL)
                })
            };
            sent += self.blocking(send).map_err(refused("send(2)"))?;
        }
        Ok(())
    }

    fn tcp_recv(&self, socket: SocketHandle, mem: Mem, offset: u64, len: u64) -> Result<u64, SocketError> {
        let stream = self.stream(socket)?;
        if len == 0 {
            return Err(SocketError::Invalid(
                "recv(2) of 0 bytes would look like the end of the connection".into(),
            ));
        }
        let to = self.view().pointer(mem, offset, len);
        let fd = stream.as_fd().as_raw_fd();
        // SAFETY: As in `tcp_send`, `pointer` checked the range, and it stays mapped. The kernel writes it as
        // a device would.
        let recv = || bytes(unsafe { libc::recv(fd, to.cast(), len as usize, 0) });
        self.blocking(recv).map_err(refused("recv(2)"))
    }

    fn tcp_poll(&self, sockets: &[SocketHandle], deadline: Time) -> Result<Option<usize>, SocketError> {
        let sockets = sockets.iter().map(|handle| self.socket(*handle)).collect::<Result<Vec<_>, _>>()?;
        let mut fds: Vec<_> = sockets.iter().map(|socket| PollFd::new(socket, PollFlags::IN)).collect();
        loop {
            let slice = deadline.since(self.now()).min(SLICE);
            let timeout = Timespec { tv_sec: 0, tv_nsec: slice.as_ns() as i64 };
            match self.blocking(|| poll(&mut fds, Some(&timeout))) {
                // An error or a close by the peer also makes a socket ready. recv(2) then reports the cause.
                Ok(1..) => return Ok(fds.iter().position(|fd| !fd.revents().is_empty())),
                Ok(0) if self.now() >= deadline => return Ok(None),
                Ok(0) => {}
                Err(errno) => return Err(refused("poll(2)")(errno)),
            }
        }
    }

    fn tcp_close(&self, socket: SocketHandle) {
        self.sockets().remove(socket.0);
    }
}
