//! Providers on top of other providers, which change some of the calls.

use doorbell_verbs::{
    AccessFlags, AhAttr, AhHandle, Cpu, CqHandle, DeviceAttr, DeviceHandle, Mem, MrHandle, MrKeys,
    OperationKey, OperationStep, PageSize, PdHandle, PortAttr, PostError, Provider, QpAttr, QpHandle,
    QpInitAttr, QpObjects, QpState, RecvWr, Scan, SendWr, SocketError, SocketHandle, Sockets, Span, SrqAttr,
    SrqHandle, Time, VerbsError, Wc,
};
use std::net::SocketAddr;

/// The changes of a layer. Each function does what the provider `below` does, unless the layer defines it.
pub trait Layer: Clone {
    /// [`Cpu::now`].
    fn now<P: Provider>(&self, below: &P) -> Time {
        below.now()
    }

    /// [`Cpu::pause`].
    fn pause<P: Provider>(&self, below: &P, deadline: Time) {
        below.pause(deadline);
    }

    /// [`Cpu::store_u64`].
    fn store_u64<P: Provider>(&self, below: &P, mem: Mem, offset: u64, value: u64) {
        below.store_u64(mem, offset, value);
    }

    /// [`Cpu::write`].
    fn write<P: Provider>(&self, below: &P, mem: Mem, offset: u64, from: &[u8]) {
        below.write(mem, offset, from);
    }

    /// [`Cpu::compare_swap_u64`].
    fn compare_swap_u64<P: Provider>(
        &self,
        below: &P,
        mem: Mem,
        offset: u64,
        expected: u64,
        new: u64,
    ) -> u64 {
        below.compare_swap_u64(mem, offset, expected, new)
    }

    /// [`Provider::publish`].
    fn publish<P: Provider>(&self, below: &P, key: &str, value: &[u8]) {
        below.publish(key, value);
    }

    /// [`Provider::lookup`].
    fn lookup<P: Provider>(&self, below: &P, key: &str) -> Vec<u8> {
        below.lookup(key)
    }

    /// Called before a QP is created. Returns the attributes to create it with.
    fn creating(&self, attr: &QpInitAttr) -> QpInitAttr {
        *attr
    }

    /// Called after a QP was created.
    fn created(&self, _qp: QpHandle, _attr: &QpInitAttr) {}

    /// Called before a QP is modified. Returns the changes to make.
    fn modifying(&self, attr: &QpAttr) -> QpAttr {
        *attr
    }

    /// Makes a call to a socket, which may wait for another thread.
    fn waiting<T>(&self, call: impl FnOnce() -> T) -> T {
        call()
    }

    /// [`Provider::poll_cq`].
    fn poll_cq<P: Provider>(&self, below: &P, cq: CqHandle, wc: &mut [Wc]) -> Result<usize, VerbsError> {
        below.poll_cq(cq, wc)
    }

    /// [`Provider::post_send`].
    fn post_send<P: Provider>(&self, below: &P, qp: QpHandle, list: &[SendWr<'_>]) -> Result<(), PostError> {
        below.post_send(qp, list)
    }
}

/// The provider `below` with a layer on top.
#[derive(Clone)]
pub struct Layered<P: Provider, L: Layer> {
    below: P,
    layer: L,
}

impl<P: Provider, L: Layer> Layered<P, L> {
    /// Puts `layer` on top of `below`.
    pub fn new(below: P, layer: L) -> Layered<P, L> {
        Layered { below, layer }
    }
}

macro_rules! as_below {
    ($(fn $name:ident(&self $(, $argument:ident: $type:ty)*) $(-> $result:ty)?;)*) => {$(
        fn $name(&self $(, $argument: $type)*) $(-> $result)? {
            self.below.$name($($argument),*)
        }
    )*};
}

impl<P: Provider, L: Layer> Cpu for Layered<P, L> {
    fn now(&self) -> Time {
        self.layer.now(&self.below)
    }

    fn pause(&self, deadline: Time) {
        self.layer.pause(&self.below, deadline);
    }

    fn store_u64(&self, mem: Mem, offset: u64, value: u64) {
        self.layer.store_u64(&self.below, mem, offset, value);
    }

    fn write(&self, mem: Mem, offset: u64, from: &[u8]) {
        self.layer.write(&self.below, mem, offset, from);
    }

    fn compare_swap_u64(&self, mem: Mem, offset: u64, expected: u64, new: u64) -> u64 {
        self.layer.compare_swap_u64(&self.below, mem, offset, expected, new)
    }

    as_below! {
        fn work(&self, span: Span);
        fn compute(&self, span: Span);
        fn mark(&self, key: OperationKey, step: OperationStep);
        fn alloc(&self, len: u64, page: PageSize) -> Result<Mem, VerbsError>;
        fn alloc_near(&self, core: u32, len: u64, page: PageSize) -> Result<Mem, VerbsError>;
        fn load_u8(&self, mem: Mem, offset: u64) -> u8;
        fn load_u32(&self, mem: Mem, offset: u64) -> u32;
        fn load_u64(&self, mem: Mem, offset: u64) -> u64;
        fn store_u8(&self, mem: Mem, offset: u64, value: u8);
        fn store_u32(&self, mem: Mem, offset: u64, value: u32);
        fn read(&self, mem: Mem, offset: u64, into: &mut [u8]);
        fn copy(&self, to: Mem, to_offset: u64, from: Mem, from_offset: u64, len: u64);
        fn prefetch(&self, mem: Mem, offset: u64, len: u64);
        fn scan(&self, mem: Mem, offset: u64, len: u64, scan: Scan);
        fn flush(&self, mem: Mem, offset: u64, len: u64);
        fn fetch_add_u64(&self, mem: Mem, offset: u64, add: u64) -> u64;
    }
}

impl<P: Provider, L: Layer> Sockets for Layered<P, L> {
    as_below! {
        fn tcp_listen(&self) -> Result<(SocketHandle, SocketAddr), SocketError>;
        fn tcp_close(&self, socket: SocketHandle);
    }

    fn tcp_accept(&self, listener: SocketHandle) -> Result<SocketHandle, SocketError> {
        self.layer.waiting(|| self.below.tcp_accept(listener))
    }

    fn tcp_connect(&self, to: SocketAddr) -> Result<SocketHandle, SocketError> {
        self.layer.waiting(|| self.below.tcp_connect(to))
    }

    fn tcp_send(&self, socket: SocketHandle, mem: Mem, offset: u64, len: u64) -> Result<(), SocketError> {
        self.layer.waiting(|| self.below.tcp_send(socket, mem, offset, len))
    }

    fn tcp_recv(&self, socket: SocketHandle, mem: Mem, offset: u64, len: u64) -> Result<u64, SocketError> {
        self.layer.waiting(|| self.below.tcp_recv(socket, mem, offset, len))
    }

    /// The layer's clock may differ from the clock below, and be slower.
    fn tcp_poll(&self, sockets: &[SocketHandle], deadline: Time) -> Result<Option<usize>, SocketError> {
        loop {
            let left = deadline.since(self.now());
            let ready = self.layer.waiting(|| self.below.tcp_poll(sockets, self.below.now() + left))?;
            if ready.is_some() || self.now() >= deadline {
                return Ok(ready);
            }
        }
    }
}

impl<P: Provider, L: Layer> Provider for Layered<P, L> {
    fn publish(&self, key: &str, value: &[u8]) {
        self.layer.publish(&self.below, key, value);
    }

    fn lookup(&self, key: &str) -> Vec<u8> {
        self.layer.lookup(&self.below, key)
    }

    fn create_qp(
        &self,
        pd: PdHandle,
        objects: &QpObjects,
        attr: &QpInitAttr,
    ) -> Result<(QpHandle, u32), VerbsError> {
        let created = self.below.create_qp(pd, objects, &self.layer.creating(attr))?;
        self.layer.created(created.0, attr);
        Ok(created)
    }

    fn modify_qp(&self, qp: QpHandle, attr: &QpAttr) -> Result<(), VerbsError> {
        self.below.modify_qp(qp, &self.layer.modifying(attr))
    }

    fn poll_cq(&self, cq: CqHandle, wc: &mut [Wc]) -> Result<usize, VerbsError> {
        self.layer.poll_cq(&self.below, cq, wc)
    }

    fn post_send(&self, qp: QpHandle, list: &[SendWr<'_>]) -> Result<(), PostError> {
        self.layer.post_send(&self.below, qp, list)
    }

    as_below! {
        fn machine(&self) -> u32;
        fn num_devices(&self) -> u32;
        fn open_device(&self, index: u32) -> Result<DeviceHandle, VerbsError>;
        fn close_device(&self, device: DeviceHandle);
        fn query_device(&self, device: DeviceHandle) -> Result<DeviceAttr, VerbsError>;
        fn query_port(&self, device: DeviceHandle, port: u8) -> Result<PortAttr, VerbsError>;
        fn alloc_pd(&self, device: DeviceHandle) -> Result<PdHandle, VerbsError>;
        fn dealloc_pd(&self, pd: PdHandle);
        fn reg_mr(&self, pd: PdHandle, mem: Mem, access: AccessFlags) -> Result<(MrHandle, MrKeys), VerbsError>;
        fn dereg_mr(&self, mr: MrHandle);
        fn create_cq(&self, device: DeviceHandle, cqe: u32) -> Result<CqHandle, VerbsError>;
        fn destroy_cq(&self, cq: CqHandle);
        fn create_srq(&self, pd: PdHandle, attr: &SrqAttr) -> Result<SrqHandle, VerbsError>;
        fn destroy_srq(&self, srq: SrqHandle);
        fn post_srq_recv(&self, srq: SrqHandle, list: &[RecvWr<'_>]) -> Result<(), PostError>;
        fn create_ah(&self, pd: PdHandle, attr: &AhAttr) -> Result<AhHandle, VerbsError>;
        fn destroy_ah(&self, ah: AhHandle);
        fn destroy_qp(&self, qp: QpHandle);
        fn query_qp(&self, qp: QpHandle) -> Result<QpState, VerbsError>;
        fn post_recv(&self, qp: QpHandle, list: &[RecvWr<'_>]) -> Result<(), PostError>;
    }
}
