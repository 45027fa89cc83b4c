//! Queue pairs, shared receive queues, address handles.

use crate::{
    AccessFlags, AhAttr, AhHandle, Context, Cq, Endpoint, GlobalRoute, LinkLayer, Mtu, OperationKey,
    OperationStep, Pd, PortAttr, PostError, Provider, QpAttr, QpHandle, QpInitAttr, QpObjects, QpState,
    QpType, RecvWr, SendWr, SharedQp, SrqAttr, SrqHandle, UdDest, VerbsError,
};
use std::rc::Rc;

/// A queue pair.
#[derive(Clone)]
pub struct Qp<P: Provider> {
    /// The context is stored here because every post needs it. Programs have many QPs, so each further
    /// pointer costs one more cache miss.
    context: Context<P>,
    handle: QpHandle,
    inner: Rc<QpInner<P>>,
}

struct QpInner<P: Provider> {
    pd: Pd<P>,
    /// The QP keeps its CQs and its SRQ alive.
    send_cq: Cq<P>,
    recv_cq: Cq<P>,
    _srq: Option<Srq<P>>,
    handle: QpHandle,
    qp_num: u32,
    qp_type: QpType,
    /// Whether another thread has created the QP, and destroys it.
    joined: bool,
}

impl<P: Provider> Drop for QpInner<P> {
    fn drop(&mut self) {
        if !self.joined {
            self.pd.provider().destroy_qp(self.handle);
        }
    }
}

/// Parameters of [`Qp::connect`]. The defaults suit a lossless fabric and tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectAttr {
    /// Rights of the peer on this QP.
    pub access: AccessFlags,
    /// Path MTU; `None` means the port's MTU.
    pub mtu: Option<Mtu>,
    /// READs and atomics outstanding, as requester and as responder; RC.
    pub max_rd_atomic: u8,
    /// Time-out code (see [`QpAttr::timeout`]); RC.
    pub timeout: u8,
    /// Retries; RC. The default is 6, because Linux's Soft-RoCE takes 7 as no limit. A requester would then
    /// never learn that its peer is gone.
    pub retry_cnt: u8,
    /// RNR retries; RC.
    pub rnr_retry: u8,
    /// RNR timer code (see [`QpAttr::min_rnr_timer`]); RC.
    pub min_rnr_timer: u8,
    /// First PSN in both directions.
    pub psn: u32,
}

impl Default for ConnectAttr {
    fn default() -> ConnectAttr {
        ConnectAttr {
            access: AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_ATOMIC,
            mtu: None,
            max_rd_atomic: 16,
            timeout: 14,
            retry_cnt: 6,
            rnr_retry: 7,
            min_rnr_timer: 12,
            psn: 0,
        }
    }
}

impl AhAttr {
    /// The path to `remote` from a port with the attributes `local`. Ethernet ports use GIDs.
    pub fn to_endpoint(port_num: u8, local: &PortAttr, remote: &Endpoint) -> AhAttr {
        let route = || GlobalRoute::new(remote.gid, local.gid_index);
        let grh = (local.link_layer == LinkLayer::Ethernet).then(route);
        AhAttr { port_num, dlid: remote.lid, sl: 0, grh }
    }
}

/// Creates queues and address handles in a protection domain.
impl<P: Provider> Pd<P> {
    /// Creates a QP in state Reset. One CQ may serve both queues.
    pub fn create_qp(
        &self,
        send_cq: &Cq<P>,
        recv_cq: &Cq<P>,
        srq: Option<&Srq<P>>,
        attr: &QpInitAttr,
    ) -> Result<Qp<P>, VerbsError> {
        let objects =
            QpObjects { send_cq: send_cq.handle(), recv_cq: recv_cq.handle(), srq: srq.map(|s| s.0.handle) };
        let (handle, qp_num) = self.provider().create_qp(self.handle(), &objects, attr)?;
        let inner = Rc::new(QpInner {
            pd: self.clone(),
            send_cq: send_cq.clone(),
            recv_cq: recv_cq.clone(),
            _srq: srq.cloned(),
            handle,
            qp_num,
            qp_type: attr.qp_type,
            joined: false,
        });
        Ok(Qp { context: self.context().clone(), handle, inner })
    }

    /// Creates a shared receive queue.
    pub fn create_srq(&self, attr: &SrqAttr) -> Result<Srq<P>, VerbsError> {
        let handle = self.provider().create_srq(self.handle(), attr)?;
        Ok(Srq(Rc::new(SrqInner { pd: self.clone(), handle })))
    }

    /// Creates an address handle.
    pub fn create_ah(&self, attr: &AhAttr) -> Result<Ah<P>, VerbsError> {
        let handle = self.provider().create_ah(self.handle(), attr)?;
        Ok(Ah(Rc::new(AhInner { pd: self.clone(), handle })))
    }
}

/// A QP of another thread of this machine, and its PD and CQs.
pub struct JoinedQp<P: Provider> {
    /// The QP.
    pub qp: Qp<P>,
    /// Protection domain of the QP.
    pub pd: Pd<P>,
    /// CQ of the send queue.
    pub send_cq: Cq<P>,
    /// CQ of the receive queue.
    pub recv_cq: Cq<P>,
}

impl<P: Provider> Context<P> {
    /// Uses a QP that another thread of this machine shares ([`Qp::share`]). This thread has opened the same
    /// device. The QP lives as long as the other thread keeps it.
    ///
    /// # Errors
    /// If threads of this provider share no objects, or if there is no such QP.
    pub fn join(&self, shared: &SharedQp) -> Result<JoinedQp<P>, VerbsError> {
        self.provider().join_qp(shared)?;
        let pd = self.joined_pd(shared.pd);
        let [send_cq, recv_cq] = [shared.send_cq, shared.recv_cq].map(|cq| self.joined_cq(cq));
        let inner = Rc::new(QpInner {
            pd: pd.clone(),
            send_cq: send_cq.clone(),
            recv_cq: recv_cq.clone(),
            _srq: None,
            handle: shared.qp,
            qp_num: shared.qp_num,
            qp_type: shared.qp_type,
            joined: true,
        });
        let qp = Qp { context: self.clone(), handle: shared.qp, inner };
        Ok(JoinedQp { qp, pd, send_cq, recv_cq })
    }
}

impl<P: Provider> Qp<P> {
    /// Lets other threads of this machine use the QP, by [`Context::join`].
    pub fn share(&self) -> SharedQp {
        SharedQp {
            qp: self.handle,
            qp_num: self.qp_num(),
            qp_type: self.qp_type(),
            pd: self.inner.pd.handle(),
            send_cq: self.inner.send_cq.handle(),
            recv_cq: self.inner.recv_cq.handle(),
        }
    }

    fn provider(&self) -> &P {
        self.context.provider()
    }

    /// Number of the QP.
    pub fn qp_num(&self) -> u32 {
        self.inner.qp_num
    }

    /// Transport of the QP.
    pub fn qp_type(&self) -> QpType {
        self.inner.qp_type
    }

    /// Changes attributes and state.
    pub fn modify(&self, attr: &QpAttr) -> Result<(), VerbsError> {
        self.provider().modify_qp(self.handle, attr)
    }

    /// Reads the state of the QP.
    pub fn state(&self) -> Result<QpState, VerbsError> {
        self.provider().query_qp(self.handle)
    }

    /// Marks a step of an operation for a tracer; see [`crate::Cpu::mark`].
    #[inline]
    pub fn mark(&self, key: OperationKey, step: OperationStep) {
        self.provider().mark(key, step);
    }

    /// Posts send work requests in order, with one doorbell for all of them.
    pub fn post_send(&self, list: &[SendWr<'_>]) -> Result<(), PostError> {
        self.provider().post_send(self.handle, list)
    }

    /// Posts receive work requests in order, with one doorbell for all of them.
    pub fn post_recv(&self, list: &[RecvWr<'_>]) -> Result<(), PostError> {
        self.provider().post_recv(self.handle, list)
    }

    /// The address by which a peer reaches this QP through `port`.
    pub fn endpoint(&self, port: u8) -> Result<Endpoint, VerbsError> {
        let attr = self.context.query_port(port)?;
        Ok(Endpoint { lid: attr.lid, gid: attr.gid, qpn: self.qp_num() })
    }

    /// Moves the QP from Reset to Init on `port`. RECVs may be posted from then on. `qkey` is for UD.
    pub fn init(&self, port: u8, access: AccessFlags, qkey: u32) -> Result<(), VerbsError> {
        let ud = self.qp_type() == QpType::Ud;
        self.modify(&QpAttr {
            qp_state: Some(QpState::Init),
            pkey_index: Some(0),
            port_num: Some(port),
            qp_access_flags: (!ud).then_some(access),
            qkey: ud.then_some(qkey),
            ..QpAttr::default()
        })
    }

    /// Moves the QP from Init to Rts, connected to `remote`; RC and UC.
    pub fn connect_from_init(
        &self,
        port: u8,
        remote: &Endpoint,
        attr: &ConnectAttr,
    ) -> Result<(), VerbsError> {
        let local = self.context.query_port(port)?;
        let rc = self.qp_type() == QpType::Rc;
        self.modify(&QpAttr {
            qp_state: Some(QpState::Rtr),
            ah_attr: Some(AhAttr::to_endpoint(port, &local, remote)),
            path_mtu: Some(attr.mtu.unwrap_or(local.active_mtu)),
            dest_qp_num: Some(remote.qpn),
            rq_psn: Some(attr.psn),
            max_dest_rd_atomic: rc.then_some(attr.max_rd_atomic),
            min_rnr_timer: rc.then_some(attr.min_rnr_timer),
            ..QpAttr::default()
        })?;
        self.modify(&QpAttr {
            qp_state: Some(QpState::Rts),
            sq_psn: Some(attr.psn),
            timeout: rc.then_some(attr.timeout),
            retry_cnt: rc.then_some(attr.retry_cnt),
            rnr_retry: rc.then_some(attr.rnr_retry),
            max_rd_atomic: rc.then_some(attr.max_rd_atomic),
            ..QpAttr::default()
        })
    }

    /// Moves the QP from Reset to Rts, connected to `remote`; RC and UC.
    pub fn connect(&self, port: u8, remote: &Endpoint, attr: &ConnectAttr) -> Result<(), VerbsError> {
        self.init(port, attr.access, 0)?;
        self.connect_from_init(port, remote, attr)
    }

    /// Moves the QP from Init to Rts; UD.
    pub fn activate_from_init(&self, psn: u32) -> Result<(), VerbsError> {
        self.modify(&QpAttr::state(QpState::Rtr))?;
        self.modify(&QpAttr { qp_state: Some(QpState::Rts), sq_psn: Some(psn), ..QpAttr::default() })
    }

    /// Moves the QP from Reset to Rts; UD.
    pub fn activate(&self, port: u8, qkey: u32) -> Result<(), VerbsError> {
        self.init(port, AccessFlags::empty(), qkey)?;
        self.activate_from_init(0)
    }
}

/// A shared receive queue.
#[derive(Clone)]
pub struct Srq<P: Provider>(Rc<SrqInner<P>>);

struct SrqInner<P: Provider> {
    pd: Pd<P>,
    handle: SrqHandle,
}

impl<P: Provider> Drop for SrqInner<P> {
    fn drop(&mut self) {
        self.pd.provider().destroy_srq(self.handle);
    }
}

impl<P: Provider> Srq<P> {
    /// Posts receive work requests in order.
    pub fn post_recv(&self, list: &[RecvWr<'_>]) -> Result<(), PostError> {
        self.0.pd.provider().post_srq_recv(self.0.handle, list)
    }
}

/// An address handle.
#[derive(Clone)]
pub struct Ah<P: Provider>(Rc<AhInner<P>>);

struct AhInner<P: Provider> {
    pd: Pd<P>,
    handle: AhHandle,
}

impl<P: Provider> Drop for AhInner<P> {
    fn drop(&mut self) {
        self.pd.provider().destroy_ah(self.handle);
    }
}

impl<P: Provider> Ah<P> {
    /// An address handle for the port of `remote`, reached through the local `port`.
    pub fn to_endpoint(pd: &Pd<P>, port: u8, remote: &Endpoint) -> Result<Ah<P>, VerbsError> {
        let local = pd.context().query_port(port)?;
        pd.create_ah(&AhAttr::to_endpoint(port, &local, remote))
    }

    /// The destination of a datagram to QP `qpn` at this address.
    pub fn dest(&self, qpn: u32, qkey: u32) -> UdDest {
        UdDest { ah: self.0.handle, qpn, qkey }
    }
}
