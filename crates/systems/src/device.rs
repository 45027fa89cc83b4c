//! A thread's device, and the helpers that make its QPs and memory regions.

use crate::SystemError;
use doorbell_verbs::{
    AccessFlags, ConnectAttr, Context, Cpu, Cq, DeviceAttr, Endpoint, GRH_BYTES, Gid, Mem, Mr, PageSize, Pd,
    Provider, Qp, QpCap, QpInitAttr, QpType, Wc, WcStatus,
};

/// Q_Key of every UD QP of the systems.
pub(crate) const QKEY: u32 = 0x1111_1111;

/// Bytes up to which payload is copied into a WQE rather than read by DMA. Such a WQE takes three cache
/// lines.
const INLINE_MOST: u32 = 128;

/// A thread's device.
pub struct Device<P: Provider> {
    /// The thread's provider.
    pub cpu: P,
    /// The opened device.
    pub context: Context<P>,
    /// The one protection domain of the thread.
    pub pd: Pd<P>,
    /// Attributes and limits that the device reports.
    pub attr: DeviceAttr,
}

impl<P: Provider> Device<P> {
    /// Opens the machine's first device.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn open(cpu: &P) -> Result<Device<P>, SystemError> {
        Device::open_nth(cpu, 0)
    }

    /// Opens the device with this number, from 0.
    ///
    /// # Errors
    /// If there is no such device, or the device cannot be opened.
    pub fn open_nth(cpu: &P, number: u32) -> Result<Device<P>, SystemError> {
        let context = Context::open(cpu, number)?;
        let pd = context.alloc_pd()?;
        let attr = context.query_device()?;
        Ok(Device { cpu: cpu.clone(), context, pd, attr })
    }

    /// Opens the device nearest to a socket. Socket s has device s modulo the number of devices. Sockets that
    /// share a device take its ports in turn.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub fn at_socket(cpu: &P, socket: u32) -> Result<Device<P>, SystemError> {
        Device::open_nth(cpu, of_socket(cpu, socket).0)
    }

    /// The number of the port, from 1, that belongs to a socket. All machines are like this one.
    pub fn port_of_socket(&self, socket: u32) -> u8 {
        self.port(of_socket(&self.cpu, socket).1)
    }

    /// The number of the port, from 1, that user `n` of the device uses. Users take turns with the ports.
    pub fn port(&self, n: u32) -> u8 {
        1 + (n % u32::from(self.attr.ports)) as u8
    }

    /// Inline limit in bytes for messages of up to `len` bytes.
    pub fn inline(&self, len: u32) -> u32 {
        len.min(INLINE_MOST).min(self.attr.max_inline_data.unwrap_or(64))
    }

    /// Allocates and registers memory.
    ///
    /// # Errors
    /// If the machine has no more memory, or the device no more regions.
    pub fn registered(&self, len: u64, access: AccessFlags) -> Result<Mr<P>, SystemError> {
        let mem = self.cpu.alloc(len.max(1), PageSize::Huge)?;
        Ok(self.pd.reg_mr(mem, access)?)
    }

    /// Allocates and registers memory at the socket of a core.
    ///
    /// # Errors
    /// As [`Device::registered`].
    pub fn registered_near(&self, core: u32, len: u64, access: AccessFlags) -> Result<Mr<P>, SystemError> {
        let mem = self.cpu.alloc_near(core, len.max(1), PageSize::Huge)?;
        Ok(self.pd.reg_mr(mem, access)?)
    }

    /// Registers memory that is already allocated.
    ///
    /// # Errors
    /// If the device has no more regions.
    pub fn register(&self, mem: Mem, access: AccessFlags) -> Result<Mr<P>, SystemError> {
        Ok(self.pd.reg_mr(mem, access)?)
    }

    /// A UD QP ready to send through `port`, and to receive `recvs` messages.
    pub(crate) fn ud(
        &self,
        port: u8,
        cqs: (&Cq<P>, &Cq<P>),
        sends: u32,
        recvs: u32,
        inline: u32,
    ) -> Result<Qp<P>, SystemError> {
        let cap = QpCap {
            max_send_wr: sends.max(1),
            max_recv_wr: recvs.max(1),
            max_inline_data: inline,
            ..QpCap::default()
        };
        let qp = self.pd.create_qp(cqs.0, cqs.1, None, &QpInitAttr::new(QpType::Ud, cap))?;
        qp.activate(port, QKEY)?;
        Ok(qp)
    }
}

/// Numbers of a socket's device, and of its port on this device, both from 0.
fn of_socket<P: Provider>(cpu: &P, socket: u32) -> (u32, u32) {
    let devices = cpu.num_devices().max(1);
    (socket % devices, socket / devices)
}

/// Stores zeros to all lines of `mem` once, so that requests find the memory in caches and page tables.
pub(crate) fn warm<C: Cpu>(cpu: &C, mem: Mem) {
    for line in 0..mem.len() / 64 {
        cpu.store_u64(mem, line * 64, 0);
    }
}

/// Status of a QP's first failed work request. After a failure no thread may wait for other completions of
/// the QP, because the poll that found the failure may have consumed them.
#[derive(Debug, Default)]
pub(crate) struct Failure(Option<WcStatus>);

impl Failure {
    /// Returns an error if a work request has failed.
    pub(crate) fn check(&self) -> Result<(), SystemError> {
        self.0.map_or(Ok(()), |status| Err(SystemError::Completion(status)))
    }

    /// Takes note of a completion. Returns an error if this work request or an earlier one has failed.
    pub(crate) fn note(&mut self, wc: &Wc) -> Result<(), SystemError> {
        if wc.status != WcStatus::Success {
            self.0.get_or_insert(wc.status);
        }
        self.check()
    }
}

/// Checks that a work request succeeded.
///
/// # Errors
/// If the completion is not a success.
pub fn check(wc: &Wc) -> Result<(), SystemError> {
    if wc.status == WcStatus::Success { Ok(()) } else { Err(SystemError::Completion(wc.status)) }
}

/// Waits until an endpoint is published as `key`, and returns it.
pub(crate) fn find<P: Provider>(cpu: &P, key: &str) -> Result<Endpoint, SystemError> {
    Ok(Endpoint::from_bytes(&cpu.lookup(key))?)
}

/// The server's RC QPs, one for each client. Each QP answers as many READs and atomics at a time as the
/// device allows. Client c uses port c modulo the number of ports.
pub(crate) fn serve_rc<P: Provider>(
    device: &Device<P>,
    clients: u32,
    service: &str,
) -> Result<Vec<Qp<P>>, SystemError> {
    let cq = device.context.create_cq(1)?;
    let cap = QpCap { max_send_wr: 1, max_recv_wr: 1, ..QpCap::default() };
    serve_qps(device, clients, service, |_| {
        Ok(device.pd.create_qp(&cq, &cq, None, &QpInitAttr::new(QpType::Rc, cap))?)
    })
}

/// Makes an RC or UC QP for each client by `make`, publishes the QP's endpoint, and connects the QP to the
/// client's QP.
///
/// # Errors
/// If a QP cannot be created or connected.
pub fn serve_qps<P: Provider>(
    device: &Device<P>,
    clients: u32,
    service: &str,
    mut make: impl FnMut(u32) -> Result<Qp<P>, SystemError>,
) -> Result<Vec<Qp<P>>, SystemError> {
    let mut qps = Vec::new();
    for client in 0..clients {
        let qp = make(client)?;
        let endpoint = qp.endpoint(device.port(client))?;
        device.cpu.publish(&format!("{service}/server/{client}"), &endpoint.to_bytes());
        qps.push(qp);
    }
    for (client, qp) in (0..).zip(&qps) {
        let remote = find(&device.cpu, &format!("{service}/client/{client}"))?;
        qp.connect(device.port(client), &remote, &connect_attr(device))?;
        device.cpu.publish(&format!("{service}/connected/{client}"), &[]);
    }
    Ok(qps)
}

/// A client's RC QP, connected to the server of `service`, for `depth` operations and up to 64 bytes inline.
pub(crate) fn connect_rc<P: Provider>(
    device: &Device<P>,
    cq: &Cq<P>,
    depth: u32,
    client: u32,
    service: &str,
) -> Result<Qp<P>, SystemError> {
    let cap =
        QpCap { max_send_wr: depth, max_recv_wr: 1, max_inline_data: device.inline(64), ..QpCap::default() };
    let qp = device.pd.create_qp(cq, cq, None, &QpInitAttr::new(QpType::Rc, cap))?;
    connect_qp(device, &qp, client, service)?;
    Ok(qp)
}

/// Connects a client's QP to the QP that the server of `service` made for this client by [`serve_qps`].
///
/// # Errors
/// If the QP cannot be connected.
pub fn connect_qp<P: Provider>(
    device: &Device<P>,
    qp: &Qp<P>,
    client: u32,
    service: &str,
) -> Result<(), SystemError> {
    let port = device.port(client);
    device.cpu.publish(&format!("{service}/client/{client}"), &qp.endpoint(port)?.to_bytes());
    let remote = find(&device.cpu, &format!("{service}/server/{client}"))?;
    qp.connect(port, &remote, &connect_attr(device))?;
    device.cpu.lookup(&format!("{service}/connected/{client}"));
    Ok(())
}

pub(crate) fn connect_attr<P: Provider>(device: &Device<P>) -> ConnectAttr {
    let most = device.attr.max_qp_rd_atom.min(device.attr.max_qp_init_rd_atom);
    ConnectAttr { max_rd_atomic: most, ..ConnectAttr::default() }
}

/// The sender of a datagram: its LID on InfiniBand, else its GID. The GID is in the global route header at
/// `offset` of `mem`. This header is an IPv6 header, or 20 zeros and an IPv4 header (RoCEv2 annex,
/// A17.4.5.1).
pub(crate) fn sender<P: Provider>(cpu: &P, wc: &Wc, mem: Mem, offset: u64) -> (u16, Gid) {
    if wc.slid != 0 {
        return (wc.slid, Gid::default());
    }
    let mut grh = [0; GRH_BYTES as usize];
    cpu.read(mem, offset, &mut grh);
    (0, source_gid(&grh))
}

fn source_gid(grh: &[u8; GRH_BYTES as usize]) -> Gid {
    let mut gid = [0; 16];
    if grh[0] >> 4 == 6 {
        gid.copy_from_slice(&grh[8..24]);
    } else {
        gid[10..12].fill(0xff);
        gid[12..].copy_from_slice(&grh[32..36]);
    }
    Gid(gid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_is_read_from_either_header() {
        let mut v6 = [0; 40];
        v6[0] = 0x60;
        v6[8..24].copy_from_slice(&[7; 16]);
        assert_eq!(source_gid(&v6), Gid([7; 16]));
        let mut v4 = [0; 40];
        v4[20] = 0x45;
        v4[32..36].copy_from_slice(&[192, 168, 0, 9]);
        assert_eq!(source_gid(&v4), Gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 168, 0, 9]));
    }
}
