//! Carries out the commands that librdmacm writes, with the answers that the kernel would give
//! (rdma_user_cm.h of the Linux uapi).

use super::address::{self, Host, any_like};
use super::attributes::{qp_attr, route};
use super::causes::*;
use super::claims::{IN_USE, PortClaim};
use super::connection::{self, CONSUMER_REJECT, clamped, private};
use super::id::{
    BOUND, CmReads, HAS_ADDRESS, HAS_ROUTE, Id, IdStep, NEW, NEW_OR_BOUND, Named, REQUESTED, Space,
};
use super::multicast::{self, JoinedGroup};
use super::state::CmState;
use super::user;
use crate::causes::by_system;
use crate::descriptors::Private;
use crate::errno::{EINVAL, Errno};
use crate::fabric::service;
use crate::queues::calls;
use doorbell_abi::cm::*;
use doorbell_transport::Refused;
use std::fs::File;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Maximum number of connection requests at a listener whose events the program has not fetched (the kernel's
/// `max_backlog`).
const MAX_BACKLOG: u32 = 1024;
/// REJ reason that a program may give besides [`CONSUMER_REJECT`]: a vendor option is not supported.
const VENDOR_OPTION: u8 = 35;
/// `IBV_EVENT_COMM_EST`.
const COMM_EST: u32 = 4;

/// `RDMA_OPTION_ID` and `RDMA_OPTION_IB`, and their options.
const OPTION_ID: u32 = 0;
const OPTION_IB: u32 = 1;
const OPTION_ID_TOS: u32 = 0;
const OPTION_ID_REUSEADDR: u32 = 1;
const OPTION_ID_AFONLY: u32 = 2;
const OPTION_ID_ACK_TIMEOUT: u32 = 3;
const OPTION_IB_PATH: u32 = 1;
/// Largest local ACK timeout, a field of 5 bits.
const MAX_ACK_TIMEOUT: u8 = 31;

/// A command as the program wrote it.
pub(super) struct Command<'a> {
    /// The bytes that follow the header.
    pub(super) body: &'a [u8],
    /// Bytes that the program's answer buffer can hold.
    pub(super) room: usize,
    /// Number of the channel that the command was written to.
    pub(super) channel: u32,
}

impl Command<'_> {
    /// Reads the struct of the command. Fails with `EINVAL` if bytes are missing. Extra bytes belong to later
    /// versions of the struct and are ignored.
    fn read<T: FromBytes>(&self) -> Result<T, Refused> {
        T::read_from_prefix(self.body).map(|(read, _)| read).map_err(|_| CM_COMMAND.bare())
    }

    /// Checks that the answer buffer holds at least `least` bytes. Fails with `ENOSPC` otherwise.
    fn check_room(&self, least: usize) -> Result<(), Refused> {
        if self.room < least { Err(CM_ROOM.of([&self.room, &least])) } else { Ok(()) }
    }

    /// Writes as much of an answer as fits into the buffer.
    ///
    /// # Safety
    /// The memory at `to` belongs to the program and has as many bytes as the program said.
    unsafe fn answer<T: IntoBytes + Immutable>(&self, to: u64, answer: &T) -> Result<(), Refused> {
        let bytes = answer.as_bytes();
        // SAFETY: as the caller says.
        Ok(unsafe { user::write(to, &bytes[..bytes.len().min(self.room)]) }?)
    }
}

/// Carries out any command except GET_EVENT. Fails with `ENOSYS` for an unsupported command.
///
/// # Safety
/// The pointers in the command are the program's.
pub(super) unsafe fn run(state: &mut CmState, number: u32, command: &Command<'_>) -> Result<(), Refused> {
    // SAFETY: as the caller says.
    unsafe {
        match number {
            command::CREATE_ID => create_id(state, command),
            command::DESTROY_ID => destroy_id(state, command),
            command::BIND_IP => bind_ip(state, command),
            command::RESOLVE_IP => resolve_ip(state, command),
            command::RESOLVE_ROUTE => resolve_route(state, command),
            command::QUERY_ROUTE => query_route(state, command),
            command::CONNECT => connect(state, command),
            command::LISTEN => listen(state, command),
            command::ACCEPT => accept(state, command),
            command::REJECT => reject(state, command),
            command::DISCONNECT => disconnect(state, command),
            command::INIT_QP_ATTR => init_qp_attr(state, command),
            command::SET_OPTION => set_option(state, command),
            command::NOTIFY => notify(state, command),
            command::JOIN_IP_MCAST => join(state, command),
            command::LEAVE_MCAST => leave(state, command),
            command::MIGRATE_ID => migrate_id(state, command),
            _ => Err(CM_UNKNOWN.bare()),
        }
    }
}

/// The function of librdmacm that writes a command; `None` if librdmacm writes the command for several
/// functions, or when it disconnects, which programs also do when they exit.
pub(super) fn call(number: u32) -> Option<&'static str> {
    Some(match number {
        command::CREATE_ID => "rdma_create_id",
        command::DESTROY_ID => "rdma_destroy_id",
        command::BIND_IP => "rdma_bind_addr",
        command::RESOLVE_IP => "rdma_resolve_addr",
        command::RESOLVE_ROUTE => "rdma_resolve_route",
        command::CONNECT => "rdma_connect",
        command::LISTEN => "rdma_listen",
        command::ACCEPT => "rdma_accept",
        command::REJECT => "rdma_reject",
        command::INIT_QP_ATTR => "rdma_init_qp_attr",
        command::SET_OPTION => "rdma_set_option",
        command::NOTIFY => "rdma_notify",
        command::JOIN_IP_MCAST => "rdma_join_multicast",
        command::LEAVE_MCAST => "rdma_leave_multicast",
        command::MIGRATE_ID => "rdma_migrate_id",
        _ => return None,
    })
}

unsafe fn create_id(state: &mut CmState, command: &Command<'_>) -> Result<(), Refused> {
    let asked: rdma_ucm_create_id = command.read()?;
    command.check_room(size_of::<rdma_ucm_create_id_resp>())?;
    let space = Space::new(asked.ps)?;
    let id = state.add(asked.uid, command.channel, (space, space.qp_type(asked.qp_type)));
    // SAFETY: the program's answer.
    let answered = unsafe { command.answer(asked.response, &rdma_ucm_create_id_resp { id }) };
    // The program cannot use an id that it never received, so the id is removed.
    answered.inspect_err(|_| {
        state.remove(id);
    })
}

unsafe fn destroy_id(state: &mut CmState, command: &Command<'_>) -> Result<(), Refused> {
    let asked: rdma_ucm_destroy_id = command.read()?;
    command.check_room(size_of::<rdma_ucm_destroy_id_resp>())?;
    let uid = state.id(command.channel, asked.id)?.uid;
    let events_reported = state.remove(asked.id);
    calls::destroys_id(uid, events_reported);
    // SAFETY: the program's answer.
    unsafe { command.answer(asked.response, &rdma_ucm_destroy_id_resp { events_reported }) }
}

fn bind_ip(state: &mut CmState, command: &Command<'_>) -> Result<(), Refused> {
    let asked: rdma_ucm_bind_ip = command.read()?;
    let address = parse(&asked.addr)?;
    let step = state.id(command.channel, asked.id)?.step;
    if step != IdStep::Idle {
        return Err(step.is_not(NEW));
    }
    bind(state, asked.id, address)
}

/// The address in a program's `sockaddr`, which must have one.
fn parse(bytes: &Address) -> Result<SocketAddr, Refused> {
    address::parse(bytes).ok().flatten().ok_or_else(|| CM_FAMILY.bare())
}

/// Binds an id to an address of this host.
fn bind(state: &mut CmState, name: u32, address: SocketAddr) -> Result<(), Refused> {
    address::check_link(address).map_err(|errno| match errno {
        EINVAL => CM_LINK.of([&address]),
        _ => CM_INTERFACE.of([&address]),
    })?;
    if !address.ip().is_unspecified() && !Host::own().has(address.ip()) {
        return Err(CM_ADDR.of([&address.ip()]));
    }
    let folder = state.folder()?;
    let Some(id) = state.any(name) else { return Ok(()) };
    let (is_shared, is_v6_only) = (id.options.may_share_port, id.options.is_of_one_family);
    let asked = PortClaim { space: id.space, address, is_shared, is_v6_only };
    let taken = state.claims.take(folder, name, asked).map_err(|errno| match errno {
        IN_USE => CM_PORT_USED.of([&address]),
        Errno(libc::EADDRNOTAVAIL) => CM_PORT_NONE.bare(),
        other => by_system(other),
    });
    let address = taken?;
    if let Some(id) = state.any(name) {
        (id.local, id.step) = (Some(address), IdStep::Bound);
    }
    Ok(())
}

fn resolve_ip(state: &mut CmState, command: &Command<'_>) -> Result<(), Refused> {
    let asked: rdma_ucm_resolve_ip = command.read()?;
    let to = parse(&asked.dst_addr)?;
    let from = address::parse(&asked.src_addr).map_err(|_| CM_FAMILY.bare())?;
    let folder = state.folder()?;
    match state.id(command.channel, asked.id)?.step {
        IdStep::Idle => bind(state, asked.id, from.unwrap_or_else(|| any_like(to)))?,
        IdStep::Bound => {}
        other => return Err(other.is_not(NEW_OR_BOUND)),
    }
    let id = state.id(command.channel, asked.id)?;
    let local = id.local.ok_or_else(|| id.step.is_not(BOUND))?;
    // A wildcard means this host.
    let to = if to.ip().is_unspecified() {
        SocketAddr::new(Host::own().source(local_of(local, to)), to.port())
    } else {
        to
    };
    let Some(source) = Host::own().source_if_found(to.ip(), folder) else {
        state.tell(asked.id, event::UNREACHABLE, -libc::EHOSTUNREACH, &[]);
        return Ok(());
    };
    if local.ip().is_unspecified() {
        id.local = Some(address::on_link_of(to, SocketAddr::new(source, local.port())));
    }
    (id.remote, id.step) = (Some(to), IdStep::AddressResolved);
    state.tell(asked.id, event::ADDR_RESOLVED, 0, &[]);
    Ok(())
}

/// The address of this host that the wildcard address `to` stands for, for an id that is bound to `local`.
fn local_of(local: SocketAddr, to: SocketAddr) -> IpAddr {
    match (local.ip(), to) {
        (ip, _) if !ip.is_unspecified() => ip,
        (_, SocketAddr::V4(_)) => std::net::Ipv4Addr::LOCALHOST.into(),
        (_, SocketAddr::V6(_)) => std::net::Ipv6Addr::LOCALHOST.into(),
    }
}

fn resolve_route(state: &mut CmState, command: &Command<'_>) -> Result<(), Refused> {
    let asked: rdma_ucm_resolve_route = command.read()?;
    route_resolved(state, command.channel, asked.id)
}

/// Resolves a route at once, because the fabric has only one path.
fn route_resolved(state: &mut CmState, channel: u32, name: u32) -> Result<(), Refused> {
    let id = state.id(channel, name)?;
    if id.step != IdStep::AddressResolved {
        return Err(id.step.is_not(HAS_ADDRESS));
    }
    id.step = IdStep::RouteResolved;
    state.tell(name, event::ROUTE_RESOLVED, 0, &[]);
    Ok(())
}

unsafe fn query_route(state: &mut CmState, command: &Command<'_>) -> Result<(), Refused> {
    let asked: rdma_ucm_query = command.read()?;
    command.check_room(std::mem::offset_of!(rdma_ucm_query_route_resp, ibdev_index))?;
    let route = route(state.id(command.channel, asked.id)?);
    // SAFETY: the program's answer.
    unsafe { command.answer(asked.response, &route) }
}

fn connect(state: &mut CmState, command: &Command<'_>) -> Result<(), Refused> {
    let asked: rdma_ucm_connect = command.read()?;
    let id = state.id(command.channel, asked.id)?;
    let room = if id.is_ud() { private::SIDR_REQ } else { private::REQ };
    if id.step != IdStep::RouteResolved {
        return Err(id.step.is_not(HAS_ROUTE));
    }
    if asked.conn_param.valid == 0 {
        return Err(CM_PARAM.bare());
    }
    check_private_data(&asked.conn_param, room)?;
    id.own = clamped(asked.conn_param);
    id.reads = CmReads::of(&id.own);
    (id.is_active, id.step) = (true, IdStep::Connecting { sent: false });
    Ok(connection::ask(state, asked.id)?)
}

/// Checks that private data fits into its message.
fn check_private_data(param: &rdma_ucm_conn_param, room: usize) -> Result<(), Refused> {
    match usize::from(param.private_data_len) {
        len if len > room => Err(CM_PRIVATE.of([&len, &room])),
        _ => Ok(()),
    }
}

fn listen(state: &mut CmState, command: &Command<'_>) -> Result<(), Refused> {
    let asked: rdma_ucm_listen = command.read()?;
    let folder = state.folder()?;
    let id = state.id(command.channel, asked.id)?;
    let any = SocketAddr::new(std::net::Ipv4Addr::UNSPECIFIED.into(), 0);
    match id.step {
        IdStep::Idle => bind(state, asked.id, any)?,
        IdStep::Bound => {}
        other => return Err(other.is_not(NEW_OR_BOUND)),
    }
    listen_at(state, folder, (asked.id, asked.backlog))
}

fn listen_at(state: &mut CmState, folder: &File, (name, backlog): (u32, u32)) -> Result<(), Refused> {
    let Some(Id { space, local: Some(at), options, .. }) = state.any(name) else {
        return Err(CM_ID.bare());
    };
    let socket = connection::name(*space, Host::own(), *at, at.is_ipv4() || options.is_of_one_family);
    state.claims.take_alone(folder, name).map_err(|errno| match errno {
        IN_USE => CM_LISTEN_PORT.bare(),
        other => by_system(other),
    })?;
    let named = Named { path: address::path(folder, &socket) };
    let listener = service::listen(folder, socket.as_str()).map_err(Errno::from)?;
    let most = if (1..MAX_BACKLOG).contains(&backlog) { backlog } else { MAX_BACKLOG };
    if let Some(id) = state.any(name) {
        (id.named, id.step) = (Some(named), IdStep::Listening { backlog: most });
    }
    Ok(state.watch(name, Private::new(listener).map_err(Errno::from)?)?)
}

fn accept(state: &mut CmState, command: &Command<'_>) -> Result<(), Refused> {
    let asked: rdma_ucm_accept = command.read()?;
    let id = state.id(command.channel, asked.id)?;
    match (id.step, asked.conn_param.valid) {
        (IdStep::Requested, 0) => return Err(CM_PARAM.bare()),
        (IdStep::Requested, _) => {
            let room = if id.is_ud() { private::SIDR_REP } else { private::REP };
            check_private_data(&asked.conn_param, room)?;
            connection::accept(id, asked.uid, asked.conn_param);
        }
        (IdStep::Answered, _) => connection::establish(id),
        (other, _) => return Err(other.is_not(REQUESTED)),
    }
    state.wake();
    Ok(())
}

fn reject(state: &mut CmState, command: &Command<'_>) -> Result<(), Refused> {
    let asked: rdma_ucm_reject = command.read()?;
    let id = state.id(command.channel, asked.id)?;
    let reason = match asked.reason {
        0 => CONSUMER_REJECT,
        VENDOR_OPTION => VENDOR_OPTION.into(),
        own if u32::from(own) == CONSUMER_REJECT => CONSUMER_REJECT,
        other => return Err(CM_REASON.of([&other])),
    };
    let room = if id.is_ud() { private::SIDR_REP } else { private::REJ };
    let bytes = asked.private_data.get(..asked.private_data_len.into()).filter(|bytes| bytes.len() <= room);
    if !matches!(id.step, IdStep::Requested | IdStep::Answered) {
        return Err(id.step.is_not(REQUESTED));
    }
    let bytes = bytes.ok_or_else(|| CM_PRIVATE.of([&asked.private_data_len, &room]))?;
    connection::reject(id, reason, bytes);
    Ok(())
}

fn disconnect(state: &mut CmState, command: &Command<'_>) -> Result<(), Refused> {
    let asked: rdma_ucm_disconnect = command.read()?;
    let id = state.id(command.channel, asked.id)?;
    match id.step {
        IdStep::Connected | IdStep::Accepted | IdStep::Answered => connection::disconnect(id),
        // The other side disconnected first.
        IdStep::Disconnecting | IdStep::Ended => return Ok(()),
        other => return Err(other.is_not("connected")),
    }
    state.wake();
    Ok(())
}

unsafe fn init_qp_attr(state: &mut CmState, command: &Command<'_>) -> Result<(), Refused> {
    let asked: rdma_ucm_init_qp_attr = command.read()?;
    command.check_room(size_of::<ib_uverbs_qp_attr>())?;
    let attr = qp_attr(state.id(command.channel, asked.id)?, asked.qp_state)?;
    // SAFETY: the program's answer.
    unsafe { command.answer(asked.response, &attr) }
}

unsafe fn set_option(state: &mut CmState, command: &Command<'_>) -> Result<(), Refused> {
    let asked: rdma_ucm_set_option = command.read()?;
    let id = state.id(command.channel, asked.id)?;
    let len = asked.optlen as usize;
    // No supported option is longer than 4 bytes.
    let mut value = [0; 4];
    let used = len.min(value.len());
    // SAFETY: the program's value.
    value[..used].copy_from_slice(&unsafe { user::read(asked.optval, used) }?);
    let (byte, number) = (value[0], u32::from_ne_bytes(value));
    let is_of = |size: usize| if len == size { Ok(()) } else { Err(CM_OPTLEN.of([&len, &size])) };
    match (asked.level, asked.optname) {
        (OPTION_ID, OPTION_ID_TOS) => {
            is_of(1)?;
            id.options.tos = byte;
        }
        (OPTION_ID, OPTION_ID_REUSEADDR) => {
            is_of(4)?;
            if !matches!(id.step, IdStep::Idle) && number != 0 {
                return Err(id.step.is_not(NEW));
            }
            id.options.may_share_port = number != 0;
        }
        // As in the kernel, the option does not change a port that the id has already claimed.
        (OPTION_ID, OPTION_ID_AFONLY) => {
            is_of(4)?;
            if !matches!(id.step, IdStep::Idle | IdStep::Bound) {
                return Err(id.step.is_not(NEW_OR_BOUND));
            }
            id.options.is_of_one_family = number != 0;
        }
        (OPTION_ID, OPTION_ID_ACK_TIMEOUT) => {
            is_of(1)?;
            if byte > MAX_ACK_TIMEOUT {
                return Err(CM_ACK_TIMEOUT.of([&byte]));
            }
            id.options.ack_timeout = Some(byte);
        }
        // Any path that the program sets stands for the fabric's only path.
        (OPTION_IB, OPTION_IB_PATH) => return route_resolved(state, command.channel, asked.id),
        _ => return Err(CM_UNKNOWN.bare()),
    }
    Ok(())
}

/// Handles NOTIFY, by which a program reports that its QP received data before the RTU arrived.
fn notify(state: &mut CmState, command: &Command<'_>) -> Result<(), Refused> {
    let asked: rdma_ucm_notify = command.read()?;
    let id = state.id(command.channel, asked.id)?;
    match (asked.event, id.step) {
        (COMM_EST, IdStep::Accepted) => {
            (id.step, id.until) = (IdStep::Connected, None);
            state.tell(asked.id, event::ESTABLISHED, 0, &[]);
            Ok(())
        }
        (COMM_EST, IdStep::Connected) => Ok(()),
        (event, step) => Err(CM_NOTIFY.of([&event, &step.name()])),
    }
}

unsafe fn join(state: &mut CmState, command: &Command<'_>) -> Result<(), Refused> {
    let asked: rdma_ucm_join_ip_mcast = command.read()?;
    command.check_room(size_of::<rdma_ucm_create_id_resp>())?;
    let address = parse(&asked.addr)?;
    let id = state.id(command.channel, asked.id)?;
    if !id.is_ud() {
        return Err(CM_JOIN_UD.bare());
    }
    if !matches!(id.step, IdStep::Bound | IdStep::AddressResolved | IdStep::RouteResolved) {
        return Err(id.step.is_not(BOUND));
    }
    let told = multicast::told(address.ip(), id.options.tos)?;
    let group = state.join(JoinedGroup { of: asked.id, events_reported: 0 });
    // SAFETY: the program's answer.
    if let Err(error) = unsafe { command.answer(asked.response, &rdma_ucm_create_id_resp { id: group }) } {
        let _ = state.leave(command.channel, group);
        return Err(error);
    }
    state.push(command.channel, group, (asked.uid, group), (event::MULTICAST_JOIN, 0, told.as_bytes()));
    Ok(())
}

unsafe fn leave(state: &mut CmState, command: &Command<'_>) -> Result<(), Refused> {
    let asked: rdma_ucm_destroy_id = command.read()?;
    command.check_room(size_of::<rdma_ucm_destroy_id_resp>())?;
    let events_reported = state.leave(command.channel, asked.id)?;
    // SAFETY: the program's answer.
    unsafe { command.answer(asked.response, &rdma_ucm_destroy_id_resp { events_reported }) }
}

unsafe fn migrate_id(state: &mut CmState, command: &Command<'_>) -> Result<(), Refused> {
    let asked: rdma_ucm_migrate_id = command.read()?;
    command.check_room(size_of::<rdma_ucm_destroy_id_resp>())?;
    let from = state.channel_of(asked.fd as RawFd).map_err(|_| CM_MIGRATE_FD.bare())?;
    let events_reported = state.migrate(from, command.channel, asked.id)?;
    // SAFETY: the program's answer.
    unsafe { command.answer(asked.response, &rdma_ucm_destroy_id_resp { events_reported }) }
}

/// Carries out GET_EVENT; `false` if the channel has no event.
///
/// # Safety
/// The pointer in the command is the program's.
pub(super) unsafe fn get_event(state: &mut CmState, command: &Command<'_>) -> Result<bool, Refused> {
    let asked: rdma_ucm_get_event = command.read()?;
    command.check_room(std::mem::offset_of!(rdma_ucm_event_resp, reserved))?;
    let Some(event) = state.channel(command.channel).ok_or_else(|| CM_FD.bare())?.pop() else {
        return Ok(false);
    };
    state.count(event.of);
    if event.told.event == event::CONNECT_REQUEST
        && let Some(Id { step: IdStep::Listening { backlog }, .. }) = state.any(event.of)
    {
        *backlog += 1;
    }
    // SAFETY: the program's answer.
    unsafe { command.answer(asked.response, &event.told) }?;
    Ok(true)
}
