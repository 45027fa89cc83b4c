//! QPs between sockets. Each socket has a NIC, or a port of a shared NIC. Ports of one adapter may belong to
//! separate networks. So the port of the remote socket determines the port of both ends of a QP.

use crate::SystemError;
use crate::device::{self, Device};
use crate::site::Until;
use doorbell_verbs::{
    AccessFlags, Cq, Mem, Mr, Program, Provider, Qp, QpCap, QpInitAttr, QpType, RemoteAddr,
};

fn memory_key(service: &str, end: u32, socket: u32) -> String {
    format!("{service}/memory/{end}/{socket}")
}

fn key(service: &str, what: &str, client: u32, end: u32) -> String {
    format!("{service}/{what}/{client}/{end}")
}

/// A server's thread that takes no part in operations. It registers the memory of each socket with the device
/// of each socket, and owns the server's end of each QP.
pub(crate) struct EndsServer {
    /// Prefix of all keys that are published.
    pub(crate) service: String,
    /// Memory at each socket. `access` says what clients may do with it.
    pub(crate) memories: Vec<Mem>,
    pub(crate) access: AccessFlags,
    /// For each QP: the client, and the socket of the server at its other end.
    pub(crate) links: Vec<(u32, u32)>,
    /// When the thread ends.
    pub(crate) until: Until,
}

impl Program for EndsServer {
    type Output = Result<(), SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let EndsServer { service, memories, access, links, until } = self;
        let sockets = 0..memories.len() as u32;
        let ends: Vec<SocketEnd<P>> =
            sockets.map(|socket| SocketEnd::open(&p, socket)).collect::<Result<_, _>>()?;
        let mut regions: Vec<Mr<P>> = Vec::new();
        for (end, at) in (0..).zip(&ends) {
            for (socket, memory) in (0..).zip(&memories) {
                let mr = at.device.register(*memory, AccessFlags::LOCAL_WRITE | access)?;
                p.publish(&memory_key(&service, end, socket), &mr.remote(0).to_bytes());
                regions.push(mr);
            }
        }
        let mut qps = Vec::new();
        for (client, end) in links {
            let at = &ends[end as usize];
            let cq = at.device.context.create_cq(1)?;
            let qp = at.qp(&cq, QpCap { max_send_wr: 1, max_recv_wr: 1, ..QpCap::default() })?;
            p.publish(&key(&service, "server", client, end), &qp.endpoint(at.port)?.to_bytes());
            qps.push((client, end, qp));
        }
        for (client, end, qp) in &qps {
            let at = &ends[*end as usize];
            at.connect(qp, at.port, &key(&service, "client", *client, *end))?;
            p.publish(&key(&service, "connected", *client, *end), &[]);
        }
        until.wait(&p);
        Ok(())
    }
}

/// A socket's device and port.
pub(crate) struct SocketEnd<P: Provider> {
    pub(crate) device: Device<P>,
    port: u8,
}

impl<P: Provider> SocketEnd<P> {
    /// Opens the device of one of this machine's sockets.
    pub(crate) fn open(cpu: &P, socket: u32) -> Result<SocketEnd<P>, SystemError> {
        let device = Device::at_socket(cpu, socket)?;
        let port = device.port_of_socket(socket);
        Ok(SocketEnd { device, port })
    }

    fn qp(&self, cq: &Cq<P>, cap: QpCap) -> Result<Qp<P>, SystemError> {
        Ok(self.device.pd.create_qp(cq, cq, None, &QpInitAttr::new(QpType::Rc, cap))?)
    }

    fn connect(&self, qp: &Qp<P>, port: u8, with: &str) -> Result<(), SystemError> {
        let remote = device::find(&self.device.cpu, with)?;
        Ok(qp.connect(port, &remote, &device::connect_attr(&self.device))?)
    }

    /// A client's QP, connected to socket `end` of the server of `service`.
    pub(crate) fn reach(
        &self,
        cq: &Cq<P>,
        (service, client, end): (&str, u32, u32),
        cap: QpCap,
    ) -> Result<Qp<P>, SystemError> {
        let cpu = &self.device.cpu;
        let qp = self.qp(cq, cap)?;
        let port = self.device.port_of_socket(end);
        cpu.publish(&key(service, "client", client, end), &qp.endpoint(port)?.to_bytes());
        self.connect(&qp, port, &key(service, "server", client, end))?;
        cpu.lookup(&key(service, "connected", client, end));
        Ok(qp)
    }
}

/// The start of the server's memory at `socket`, as a remote address for QPs to the server's socket `end`.
pub(crate) fn memory<P: Provider>(
    cpu: &P,
    service: &str,
    end: u32,
    socket: u32,
) -> Result<RemoteAddr, SystemError> {
    Ok(RemoteAddr::from_bytes(&cpu.lookup(&memory_key(service, end, socket)))?)
}
