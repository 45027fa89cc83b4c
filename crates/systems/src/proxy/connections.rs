//! QPs between sockets: each socket has a NIC, or a port of one. Ports of an adapter may be of networks of their own, so a QP has the
//! port of the remote socket at both ends.

use super::config::Proxy;
use crate::device::{self, Device};
use crate::{Interval, SystemError};
use doorbell_verbs::{
    AccessFlags, Cq, Mem, Mr, Program, Provider, Qp, QpCap, QpInitAttr, QpType, RemoteAddr,
};

/// The number of a socket's device, and its port: sockets take turns with devices, then with ports.
fn of_socket<P: Provider>(cpu: &P, socket: u32) -> (u32, u32) {
    let devices = cpu.num_devices().max(1);
    (socket % devices, socket / devices)
}

fn memory_key(end: u32, socket: u32) -> String {
    format!("proxy/memory/{end}/{socket}")
}

fn key(what: &str, client: u32, end: u32) -> String {
    format!("proxy/{what}/{client}/{end}")
}

/// The server's thread: memory at each socket, which each socket's device may read, and an end of each QP.
pub(super) struct Server {
    pub(super) config: Proxy,
    pub(super) memories: Vec<Mem>,
    pub(super) interval: Interval,
}

impl Program for Server {
    type Output = Result<(), SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let Server { config, memories, interval } = self;
        let ends: Vec<End<P>> =
            (0..config.sockets).map(|socket| End::open(&p, socket)).collect::<Result<_, _>>()?;
        let mut regions: Vec<Mr<P>> = Vec::new();
        for (end, at) in (0..).zip(&ends) {
            for (socket, memory) in (0..).zip(&memories) {
                let mr = at.device.register(*memory, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_READ)?;
                p.publish(&memory_key(end, socket), &mr.remote(0).to_bytes());
                regions.push(mr);
            }
        }
        let mut qps = Vec::new();
        for client in 0..config.clients.clients {
            for end in config.ends(client) {
                let at = &ends[end as usize];
                let cq = at.device.context.create_cq(1)?;
                let qp = at.qp(&cq, 1)?;
                p.publish(&key("server", client, end), &qp.endpoint(at.port)?.to_bytes());
                qps.push((client, end, qp));
            }
        }
        for (client, end, qp) in &qps {
            let at = &ends[*end as usize];
            at.connect(qp, at.port, &key("client", *client, *end))?;
            p.publish(&key("connected", *client, *end), &[]);
        }
        while !interval.is_over(&p) {
            p.pause(interval.look());
        }
        Ok(())
    }
}

/// A socket's device and port.
pub(super) struct End<P: Provider> {
    pub(super) device: Device<P>,
    port: u8,
}

impl<P: Provider> End<P> {
    /// That of one of this machine's sockets.
    pub(super) fn open(cpu: &P, socket: u32) -> Result<End<P>, SystemError> {
        let (index, port) = of_socket(cpu, socket);
        let device = Device::open_nth(cpu, index)?;
        let port = device.port(port);
        Ok(End { device, port })
    }

    fn qp(&self, cq: &Cq<P>, depth: u32) -> Result<Qp<P>, SystemError> {
        let cap = QpCap { max_send_wr: depth, max_recv_wr: 1, ..QpCap::default() };
        Ok(self.device.pd.create_qp(cq, cq, None, &QpInitAttr::new(QpType::Rc, cap))?)
    }

    fn connect(&self, qp: &Qp<P>, port: u8, with: &str) -> Result<(), SystemError> {
        let remote = device::find(&self.device.cpu, with)?;
        Ok(qp.connect(port, &remote, &device::connect_attr(&self.device))?)
    }

    /// A client's QP to the server's socket `end`, for `depth` READs.
    pub(super) fn reach(&self, cq: &Cq<P>, client: u32, end: u32, depth: u32) -> Result<Qp<P>, SystemError> {
        let cpu = &self.device.cpu;
        let qp = self.qp(cq, depth)?;
        let port = self.device.port(of_socket(cpu, end).1);
        cpu.publish(&key("client", client, end), &qp.endpoint(port)?.to_bytes());
        self.connect(&qp, port, &key("server", client, end))?;
        cpu.lookup(&key("connected", client, end));
        Ok(qp)
    }
}

/// Where the server's memory at a socket begins, for QPs to its socket `end`.
pub(super) fn memory<P: Provider>(cpu: &P, end: u32, socket: u32) -> Result<RemoteAddr, SystemError> {
    Ok(RemoteAddr::from_bytes(&cpu.lookup(&memory_key(end, socket)))?)
}
