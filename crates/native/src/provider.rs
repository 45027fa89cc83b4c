//! `Provider` on libibverbs.

use crate::exchange::Exchange;
use crate::memory::View;
use crate::objects::{IbvAh, IbvCq, IbvDevice, IbvMr, IbvPd, IbvQp, IbvSrq};
use crate::post::{Scope, Scratch};
use crate::query;
use crate::shared::Shared;
use crate::socket::Socket;
use crate::table::HandleTable;
use doorbell_verbs::{
    AccessFlags, AhAttr, AhHandle, CqHandle, DeviceAttr, DeviceHandle, Mem, MrHandle, MrKeys, PdHandle,
    PortAttr, PostError, Provider, QpAttr, QpHandle, QpInitAttr, QpObjects, QpState, RecvWr, SendWr, SrqAttr,
    SrqHandle, VerbsError, Wc,
};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// A thread's access to its machine and to the device.
#[derive(Clone)]
pub struct NativeProvider(Rc<Thread>);

/// Fields are dropped in order. Objects come first, so that memory regions are dropped before the memory that
/// they register.
struct Thread {
    qps: HandleTable<IbvQp>,
    ahs: HandleTable<IbvAh>,
    srqs: HandleTable<IbvSrq>,
    cqs: HandleTable<IbvCq>,
    mrs: HandleTable<IbvMr>,
    pds: HandleTable<IbvPd>,
    devices: HandleTable<IbvDevice>,
    sockets: HandleTable<Socket>,
    scratch: RefCell<Scratch>,
    pauses: Cell<u32>,
    name: String,
    machine: u32,
    view: View,
    shared: Arc<Shared>,
}

impl NativeProvider {
    /// A provider for the calling thread, which runs on `machine`. `name` is the thread's name in messages.
    pub(crate) fn new(shared: Arc<Shared>, machine: u32, name: String) -> NativeProvider {
        NativeProvider(Rc::new(Thread {
            qps: HandleTable::new("QP"),
            ahs: HandleTable::new("address handle"),
            srqs: HandleTable::new("SRQ"),
            cqs: HandleTable::new("CQ"),
            mrs: HandleTable::new("memory region"),
            pds: HandleTable::new("protection domain"),
            devices: HandleTable::new("device"),
            sockets: HandleTable::new("TCP socket"),
            scratch: RefCell::default(),
            pauses: Cell::new(0),
            name,
            machine,
            view: View::new(shared.memory.clone(), machine),
            shared,
        }))
    }

    pub(crate) fn view(&self) -> &View {
        &self.0.view
    }

    pub(crate) fn exchange(&self) -> &Exchange {
        &self.0.shared.exchange
    }

    pub(crate) fn sockets(&self) -> &HandleTable<Socket> {
        &self.0.sockets
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.0.shared.start.elapsed()
    }

    /// Counts a pause of this thread. Returns the number of pauses so far, which wraps around.
    pub(crate) fn count_pause(&self) -> u32 {
        let pauses = self.0.pauses.get().wrapping_add(1);
        self.0.pauses.set(pauses);
        pauses
    }
}

impl Provider for NativeProvider {
    fn machine(&self) -> u32 {
        self.0.machine
    }

    fn publish(&self, key: &str, value: &[u8]) {
        self.exchange().publish(key, value);
    }

    fn lookup(&self, key: &str) -> Vec<u8> {
        self.exchange().lookup(&self.0.name, key)
    }

    fn num_devices(&self) -> u32 {
        1
    }

    fn open_device(&self, index: u32) -> Result<DeviceHandle, VerbsError> {
        if index != 0 {
            let machine = self.0.machine;
            return Err(VerbsError::NoDevice(format!("machine {machine} has device 0 only, not {index}")));
        }
        self.0.devices.insert(self.0.shared.device.context()?).map(DeviceHandle)
    }

    fn close_device(&self, device: DeviceHandle) {
        self.0.devices.remove(device.0);
    }

    fn query_device(&self, device: DeviceHandle) -> Result<DeviceAttr, VerbsError> {
        query::device(&*self.0.devices.get(device.0)?)
    }

    fn query_port(&self, device: DeviceHandle, port: u8) -> Result<PortAttr, VerbsError> {
        query::port(&*self.0.devices.get(device.0)?, port)
    }

    fn alloc_pd(&self, device: DeviceHandle) -> Result<PdHandle, VerbsError> {
        let pd = IbvPd::alloc(self.0.devices.get(device.0)?)?;
        self.0.pds.insert(pd).map(PdHandle)
    }

    fn dealloc_pd(&self, pd: PdHandle) {
        self.0.pds.remove(pd.0);
    }

    fn reg_mr(&self, pd: PdHandle, mem: Mem, access: AccessFlags) -> Result<(MrHandle, MrKeys), VerbsError> {
        let pd = self.0.pds.get(pd.0)?;
        let base = self.0.view.base(mem)?;
        // SAFETY: `base` checked the memory. It stays mapped as long as this thread's view, which outlives
        // the thread's regions. The memory is mapped, so its length fits a usize.
        let mr = unsafe { IbvMr::register(pd, base, mem.len() as usize, access)? };
        let keys = mr.keys();
        Ok((MrHandle(self.0.mrs.insert(mr)?), keys))
    }

    fn dereg_mr(&self, mr: MrHandle) {
        self.0.mrs.remove(mr.0);
    }

    fn create_cq(&self, device: DeviceHandle, cqe: u32) -> Result<CqHandle, VerbsError> {
        let cq = IbvCq::create(self.0.devices.get(device.0)?, cqe)?;
        self.0.cqs.insert(cq).map(CqHandle)
    }

    fn destroy_cq(&self, cq: CqHandle) {
        self.0.cqs.remove(cq.0);
    }

    fn poll_cq(&self, cq: CqHandle, wc: &mut [Wc]) -> Result<usize, VerbsError> {
        self.0.scratch.borrow_mut().poll_cq(&*self.0.cqs.get(cq.0)?, wc)
    }

    fn create_srq(&self, pd: PdHandle, attr: &SrqAttr) -> Result<SrqHandle, VerbsError> {
        let srq = IbvSrq::create(self.0.pds.get(pd.0)?, attr)?;
        self.0.srqs.insert(srq).map(SrqHandle)
    }

    fn destroy_srq(&self, srq: SrqHandle) {
        self.0.srqs.remove(srq.0);
    }

    fn post_srq_recv(&self, srq: SrqHandle, list: &[RecvWr<'_>]) -> Result<(), PostError> {
        let srq = self.0.srqs.get(srq.0).map_err(unknown)?;
        self.0.scratch.borrow_mut().post_srq_recv(&srq, list)
    }

    fn create_ah(&self, pd: PdHandle, attr: &AhAttr) -> Result<AhHandle, VerbsError> {
        let ah = IbvAh::create(self.0.pds.get(pd.0)?, attr)?;
        self.0.ahs.insert(ah).map(AhHandle)
    }

    fn destroy_ah(&self, ah: AhHandle) {
        self.0.ahs.remove(ah.0);
    }

    fn create_qp(
        &self,
        pd: PdHandle,
        objects: &QpObjects,
        attr: &QpInitAttr,
    ) -> Result<(QpHandle, u32), VerbsError> {
        let pd = self.0.pds.get(pd.0)?;
        let send_cq = self.0.cqs.get(objects.send_cq.0)?;
        let recv_cq = self.0.cqs.get(objects.recv_cq.0)?;
        let srq = objects.srq.map(|srq| self.0.srqs.get(srq.0)).transpose()?;
        let qp = IbvQp::create(pd, send_cq, recv_cq, srq, attr)?;
        let qp_num = qp.qp_num();
        Ok((QpHandle(self.0.qps.insert(qp)?), qp_num))
    }

    fn destroy_qp(&self, qp: QpHandle) {
        self.0.qps.remove(qp.0);
    }

    fn modify_qp(&self, qp: QpHandle, attr: &QpAttr) -> Result<(), VerbsError> {
        query::modify_qp(&*self.0.qps.get(qp.0)?, attr)
    }

    fn query_qp(&self, qp: QpHandle) -> Result<QpState, VerbsError> {
        query::qp_state(&*self.0.qps.get(qp.0)?)
    }

    fn post_send(&self, qp: QpHandle, list: &[SendWr<'_>]) -> Result<(), PostError> {
        let qp = self.0.qps.get(qp.0).map_err(unknown)?;
        let scope = Scope { ahs: &self.0.ahs, view: &self.0.view };
        self.0.scratch.borrow_mut().post_send(&qp, &scope, list)
    }

    fn post_recv(&self, qp: QpHandle, list: &[RecvWr<'_>]) -> Result<(), PostError> {
        let qp = self.0.qps.get(qp.0).map_err(unknown)?;
        self.0.scratch.borrow_mut().post_recv(&qp, list)
    }
}

/// The refusal of a whole list because its queue is unknown.
fn unknown(cause: VerbsError) -> PostError {
    PostError { index: 0, cause }
}
