//! An rdma_cm client that writes commands to the device file, as librdmacm does.

use super::own_time::HANGS;
use doorbell_abi::cm::*;
use std::ffi::CStr;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

const DEVICE: &CStr = c"/dev/infiniband/rdma_cm";
/// The longest wait for an event that must come, in milliseconds.
const PATIENCE_MS: i32 = HANGS.as_millis() as i32;

/// The result of a write(2) that passes a command, or its errno.
pub(crate) type Result<T> = std::result::Result<T, i32>;

/// The result of a call, or errno if it is negative.
fn checked(result: isize) -> Result<isize> {
    if result < 0 { Err(io::Error::last_os_error().raw_os_error().unwrap_or(0)) } else { Ok(result) }
}

/// Writes bytes to the device file. They need not be a valid command.
pub(crate) fn write(fd: RawFd, bytes: &[u8]) -> Result<usize> {
    // SAFETY: the bytes outlive the call.
    checked(unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) }).map(|written| written as usize)
}

/// The bytes of a command with its header. `room` is the length of the buffer for the answer, in bytes.
pub(crate) fn bytes_of<T: IntoBytes + Immutable>(cmd: u32, body: &T, room: usize) -> Vec<u8> {
    let header = rdma_ucm_cmd_hdr { cmd, r#in: size_of::<T>() as u16, out: room as u16 };
    [header.as_bytes(), body.as_bytes()].concat()
}

/// An open descriptor of the device file.
pub(crate) struct Channel(pub(crate) OwnedFd);

/// Encodes an address as a sockaddr_in or sockaddr_in6.
pub(crate) fn address(text: &str) -> Address {
    let mut bytes = Address::default();
    match text.parse::<SocketAddr>().expect("an address") {
        SocketAddr::V4(v4) => {
            bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
            bytes[4..8].copy_from_slice(&v4.ip().octets());
            bytes[2..4].copy_from_slice(&v4.port().to_be_bytes());
        }
        SocketAddr::V6(v6) => {
            bytes[..2].copy_from_slice(&(libc::AF_INET6 as u16).to_ne_bytes());
            bytes[8..24].copy_from_slice(&v6.ip().octets());
            bytes[2..4].copy_from_slice(&v6.port().to_be_bytes());
        }
    }
    bytes
}

/// The port in an address.
pub(crate) fn port(address: &Address) -> u16 {
    u16::from_be_bytes([address[2], address[3]])
}

impl Channel {
    pub(crate) fn open(flags: i32) -> Channel {
        // SAFETY: the path is a C string.
        let fd = unsafe { libc::open(DEVICE.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC | flags) };
        assert!(fd >= 0, "{}", io::Error::last_os_error());
        // SAFETY: the descriptor is new, and nothing else owns it.
        Channel(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// Writes a command that has no answer.
    pub(crate) fn tell<T: IntoBytes + Immutable>(&self, cmd: u32, body: &T) -> Result<()> {
        let bytes = bytes_of(cmd, body, 0);
        assert_eq!(write(self.fd(), &bytes)?, bytes.len());
        Ok(())
    }

    /// Writes a command that has an answer, and returns the answer. `body` gets the answer's address.
    pub(crate) fn ask<T, R>(&self, cmd: u32, body: impl FnOnce(u64) -> T) -> Result<R>
    where
        T: IntoBytes + Immutable,
        R: FromZeros + FromBytes + IntoBytes,
    {
        let mut answer = R::new_zeroed();
        let bytes = bytes_of(cmd, &body((&raw mut answer) as u64), size_of::<R>());
        write(self.fd(), &bytes).map(|_| answer)
    }

    pub(crate) fn create(&self, uid: u64, ps: u16) -> u32 {
        let made: rdma_ucm_create_id_resp = self
            .ask(command::CREATE_ID, |response| rdma_ucm_create_id {
                uid,
                response,
                ps,
                qp_type: 2,
                reserved: [0; 5],
            })
            .expect("an id");
        made.id
    }

    /// Destroys an id. Returns the number of its events that the program fetched.
    pub(crate) fn destroy(&self, id: u32) -> Result<u32> {
        let body = |response| rdma_ucm_destroy_id { response, id, reserved: 0 };
        self.ask(command::DESTROY_ID, body).map(|gone: rdma_ucm_destroy_id_resp| gone.events_reported)
    }

    pub(crate) fn bind(&self, id: u32, at: &str) -> Result<()> {
        self.tell(command::BIND_IP, &rdma_ucm_bind_ip { response: 0, addr: address(at), id })
    }

    pub(crate) fn listen(&self, id: u32, backlog: u32) -> Result<()> {
        self.tell(command::LISTEN, &rdma_ucm_listen { id, backlog })
    }

    /// Creates an id that listens at an address.
    pub(crate) fn listener(&self, uid: u64, ps: u16, at: &str) -> u32 {
        let id = self.create(uid, ps);
        self.bind(id, at).expect("it is bound");
        self.listen(id, 0).expect("it listens");
        id
    }

    pub(crate) fn route(&self, id: u32) -> rdma_ucm_query_route_resp {
        self.ask(command::QUERY_ROUTE, |response| rdma_ucm_query { response, id, option: 0 })
            .expect("a route")
    }

    pub(crate) fn resolve(&self, id: u32, to: &str) -> Result<()> {
        let body =
            rdma_ucm_resolve_ip { src_addr: Address::default(), dst_addr: address(to), id, timeout_ms: 2000 };
        self.tell(command::RESOLVE_IP, &body)
    }

    pub(crate) fn resolve_route(&self, id: u32) -> Result<()> {
        self.tell(command::RESOLVE_ROUTE, &rdma_ucm_resolve_route { id, timeout_ms: 2000 })
    }

    pub(crate) fn connect(&self, id: u32, conn_param: rdma_ucm_conn_param) -> Result<()> {
        self.tell(command::CONNECT, &rdma_ucm_connect { conn_param, id, reserved: 0 })
    }

    pub(crate) fn accept(&self, id: u32, uid: u64, conn_param: rdma_ucm_conn_param) -> Result<()> {
        self.tell(command::ACCEPT, &rdma_ucm_accept { uid, conn_param, id, reserved: 0 })
    }

    pub(crate) fn reject(&self, id: u32, reason: u8, private: &[u8]) -> Result<()> {
        let mut private_data = [0; RDMA_MAX_PRIVATE_DATA];
        private_data[..private.len()].copy_from_slice(private);
        let body = rdma_ucm_reject {
            id,
            private_data_len: private.len() as u8,
            reason,
            reserved: [0; 2],
            private_data,
        };
        self.tell(command::REJECT, &body)
    }

    pub(crate) fn disconnect(&self, id: u32) -> Result<()> {
        self.tell(command::DISCONNECT, &rdma_ucm_disconnect { id })
    }

    pub(crate) fn attributes(&self, id: u32, qp_state: u32) -> Result<ib_uverbs_qp_attr> {
        self.ask(command::INIT_QP_ATTR, |response| rdma_ucm_init_qp_attr { response, id, qp_state })
    }

    /// Sets an option of level `RDMA_OPTION_ID`.
    pub(crate) fn set(&self, id: u32, optname: u32, value: &[u8]) -> Result<()> {
        let (optval, optlen) = (value.as_ptr() as u64, value.len() as u32);
        self.tell(command::SET_OPTION, &rdma_ucm_set_option { optval, id, level: 0, optname, optlen })
    }

    /// Returns the next event. Waits for an event unless the channel is non-blocking.
    pub(crate) fn event(&self) -> Result<rdma_ucm_event_resp> {
        self.ask(command::GET_EVENT, |response| rdma_ucm_get_event { response })
    }

    /// Waits for the next event, which must be of type `wanted`.
    pub(crate) fn expect(&self, wanted: u32) -> rdma_ucm_event_resp {
        assert!(self.is_ready(PATIENCE_MS), "event {wanted} does not come");
        let event = self.event().expect("there is one");
        assert_eq!(event.event, wanted, "status {}", event.status as i32);
        event
    }

    pub(crate) fn is_ready(&self, patience_ms: i32) -> bool {
        let mut one = libc::pollfd { fd: self.fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the array has one entry.
        unsafe { libc::poll(&mut one, 1, patience_ms) == 1 }
    }

    /// Creates an id and resolves this address and its route.
    pub(crate) fn resolved(&self, uid: u64, ps: u16, to: &str) -> u32 {
        let id = self.create(uid, ps);
        self.resolve(id, to).expect("it resolves");
        assert_eq!(self.expect(event::ADDR_RESOLVED).uid, uid);
        self.resolve_route(id).expect("it resolves");
        self.expect(event::ROUTE_RESOLVED);
        id
    }
}

/// The connection parameters that a side sends, with private data.
pub(crate) fn param(qp_num: u32, private: &[u8]) -> rdma_ucm_conn_param {
    let mut private_data = [0; RDMA_MAX_PRIVATE_DATA];
    private_data[..private.len()].copy_from_slice(private);
    rdma_ucm_conn_param {
        qp_num,
        private_data,
        private_data_len: private.len() as u8,
        responder_resources: 3,
        initiator_depth: 5,
        retry_count: 15,
        rnr_retry_count: 9,
        valid: 1,
        ..Default::default()
    }
}

/// The connection parameters in an event.
pub(crate) fn told(event: &rdma_ucm_event_resp) -> rdma_ucm_conn_param {
    rdma_ucm_conn_param::read_from_prefix(&event.param).expect("there is room").0
}

/// The datagram parameters in an event.
pub(crate) fn told_of_ud(event: &rdma_ucm_event_resp) -> rdma_ucm_ud_param {
    rdma_ucm_ud_param::read_from_prefix(&event.param).expect("there is room").0
}
