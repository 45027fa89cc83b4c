//! The verbs that make, change and destroy objects; they take no time.

use super::{SimProvider, invalid};
use crate::core::slab::Payload;
use crate::core::thread::Waiting;
use crate::device::tx::FIRST_LID;
use crate::device::{CqSlot, FIRST_QPN, Flow, NONE, QpSlot, RecvSlot, WqeSlot};
use crate::world::World;
use doorbell_nic::wqe;
use doorbell_transport::{Qp, RecvQueue, Region};
use doorbell_verbs::{
    AccessFlags, AhAttr, AhHandle, CqHandle, DeviceAttr, DeviceHandle, Gid, LinkLayer, Mem, MrHandle, MrKeys,
    PdHandle, PortAttr, PostError, Provider, QpAttr, QpHandle, QpInitAttr, QpObjects, QpState, RecvWr,
    SendWr, SrqAttr, SrqHandle, VerbsError, Wc,
};
use std::collections::VecDeque;

impl Provider for SimProvider<'_> {
    fn machine(&self) -> u32 {
        u32::from(self.machine)
    }

    fn publish(&self, key: &str, value: &[u8]) {
        self.effect();
        let mut w = self.world.borrow_mut();
        w.published.insert(key.to_owned(), value.to_vec());
        let clock = w.threads[self.thread as usize].clock;
        for t in w.awaited.remove(key).unwrap_or_default() {
            let thread = &mut w.threads[t as usize];
            thread.waiting = Waiting::Turn;
            thread.clock = thread.clock.max(clock);
            let at = thread.clock;
            w.schedule(t, at);
        }
    }

    fn lookup(&self, key: &str) -> Vec<u8> {
        self.effect();
        loop {
            {
                let mut w = self.world.borrow_mut();
                if let Some(value) = w.published.get(key) {
                    return value.clone();
                }
                w.threads[self.thread as usize].waiting = Waiting::Key(key.to_owned());
                w.awaited.entry(key.to_owned()).or_default().push(self.thread);
            }
            self.yielder.suspend(());
        }
    }

    fn num_devices(&self) -> u32 {
        1
    }

    fn open_device(&self, index: u32) -> Result<DeviceHandle, VerbsError> {
        match index {
            0 => Ok(DeviceHandle(0)),
            _ => Err(VerbsError::NoDevice(format!("a simulated machine has device 0 only, not {index}"))),
        }
    }

    fn close_device(&self, _device: DeviceHandle) {}

    fn query_device(&self, _device: DeviceHandle) -> Result<DeviceAttr, VerbsError> {
        let w = self.world.borrow();
        let nic = &w.profile.nic;
        Ok(DeviceAttr {
            name: format!("{}_sim", w.profile.name),
            ports: w.profile.link.ports as u8,
            max_qp_wr: nic.max_qp_wr,
            max_sge: nic.max_sge,
            max_cqe: nic.max_cqe,
            max_qp_rd_atom: nic.max_rd_atomic as u8,
            max_qp_init_rd_atom: nic.max_rd_atomic as u8,
            max_srq_wr: nic.max_qp_wr,
            atomics: true,
            max_inline_data: Some(nic.max_inline),
        })
    }

    fn query_port(&self, _device: DeviceHandle, port: u8) -> Result<PortAttr, VerbsError> {
        let w = self.world.borrow();
        let ports = w.profile.link.ports as u8;
        if port == 0 || port > ports {
            return Err(VerbsError::NoDevice(format!("the device has ports 1 to {ports}, not {port}")));
        }
        let lid = FIRST_LID + self.machine * u16::from(ports) + u16::from(port - 1);
        let mut gid = [0; 16];
        gid[..2].copy_from_slice(&[0xfe, 0x80]);
        gid[14..].copy_from_slice(&lid.to_be_bytes());
        Ok(PortAttr {
            active: true,
            active_mtu: w.profile.link.mtu(),
            lid,
            link_layer: LinkLayer::Infiniband,
            gid_index: 0,
            gid: Gid(gid),
        })
    }

    fn alloc_pd(&self, _device: DeviceHandle) -> Result<PdHandle, VerbsError> {
        let mut w = self.world.borrow_mut();
        let nic = &mut w.machines[usize::from(self.machine)].nic;
        nic.pds += 1;
        Ok(PdHandle(nic.pds))
    }

    fn dealloc_pd(&self, _pd: PdHandle) {}

    fn reg_mr(&self, pd: PdHandle, mem: Mem, access: AccessFlags) -> Result<(MrHandle, MrKeys), VerbsError> {
        let needs_local = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_ATOMIC;
        if access.intersects(needs_local) && !access.contains(AccessFlags::LOCAL_WRITE) {
            return invalid("remote write and atomic access need local write access".into());
        }
        let mut w = self.world.borrow_mut();
        let machine = &mut w.machines[usize::from(self.machine)];
        if !machine.memory.owns(mem) {
            return invalid("the memory is not this machine's".into());
        }
        let key = machine.nic.keys.register(Region { pd: pd.0, addr: mem.addr(0), len: mem.len(), access });
        Ok((MrHandle(key), MrKeys { lkey: key, rkey: key }))
    }

    fn dereg_mr(&self, mr: MrHandle) {
        self.world.borrow_mut().machines[usize::from(self.machine)].nic.keys.deregister(mr.0);
    }

    fn create_cq(&self, _device: DeviceHandle, cqe: u32) -> Result<CqHandle, VerbsError> {
        let mut w = self.world.borrow_mut();
        let max = w.profile.nic.max_cqe;
        if cqe == 0 || cqe > max {
            return invalid(format!("a CQ has 1 to {max} entries, not {cqe}"));
        }
        let nic = &mut w.machines[usize::from(self.machine)].nic;
        nic.cqs.push(Some(CqSlot {
            entries: VecDeque::with_capacity(cqe.min(1024) as usize),
            capacity: cqe as usize,
            overrun: false,
            watchers: 0,
        }));
        Ok(CqHandle(nic.cqs.len() as u32 - 1))
    }

    fn destroy_cq(&self, cq: CqHandle) {
        self.world.borrow_mut().machines[usize::from(self.machine)].nic.cqs[cq.0 as usize] = None;
    }

    fn create_srq(&self, pd: PdHandle, attr: &SrqAttr) -> Result<SrqHandle, VerbsError> {
        let mut w = self.world.borrow_mut();
        let (max_wr, max_sge) = (w.profile.nic.max_qp_wr, w.profile.nic.max_sge);
        if attr.max_wr == 0 || attr.max_wr > max_wr || attr.max_sge > max_sge {
            return invalid(format!("an SRQ holds 1 to {max_wr} RECVs of at most {max_sge} SGEs"));
        }
        let queue = RecvQueue::new(pd.0, attr.max_wr, attr.max_sge);
        let queues = &mut w.machines[usize::from(self.machine)].nic.recv_queues;
        queues.push(RecvSlot { queue, wqe_bytes: wqe::recv_bytes(attr.max_sge), qp: NONE });
        Ok(SrqHandle(queues.len() as u32 - 1))
    }

    fn destroy_srq(&self, _srq: SrqHandle) {}

    fn post_srq_recv(&self, srq: SrqHandle, list: &[RecvWr<'_>]) -> Result<(), PostError> {
        self.effect();
        self.post_to(srq.0, list)
    }

    fn create_ah(&self, _pd: PdHandle, attr: &AhAttr) -> Result<AhHandle, VerbsError> {
        let mut w = self.world.borrow_mut();
        let ports = w.profile.link.ports as u8;
        if attr.port_num == 0 || attr.port_num > ports {
            return invalid(format!("the device has ports 1 to {ports}, not {}", attr.port_num));
        }
        let ahs = &mut w.machines[usize::from(self.machine)].nic.ahs;
        ahs.push(Some(*attr));
        Ok(AhHandle(ahs.len() as u32 - 1))
    }

    fn destroy_ah(&self, ah: AhHandle) {
        self.world.borrow_mut().machines[usize::from(self.machine)].nic.ahs[ah.0 as usize] = None;
    }

    fn create_qp(
        &self,
        pd: PdHandle,
        objects: &QpObjects,
        attr: &QpInitAttr,
    ) -> Result<(QpHandle, u32), VerbsError> {
        let mut w = self.world.borrow_mut();
        let limits = w.profile.nic;
        let mtu = w.profile.link.mtu();
        let cap = attr.cap;
        let queues_fit = cap.max_send_wr.max(cap.max_recv_wr) <= limits.max_qp_wr;
        let sges_fit = cap.max_send_sge.max(cap.max_recv_sge) <= limits.max_sge;
        if !queues_fit || !sges_fit || cap.max_inline_data > limits.max_inline {
            return invalid(format!(
                "a QP has at most {} work requests a queue, {} SGEs and {} bytes of inline data, not {cap:?}",
                limits.max_qp_wr, limits.max_sge, limits.max_inline
            ));
        }
        let nic = &mut w.machines[usize::from(self.machine)].nic;
        let exists = |cq: CqHandle| nic.cqs.get(cq.0 as usize).is_some_and(Option::is_some);
        if !exists(objects.send_cq) || !exists(objects.recv_cq) {
            return invalid("there is no such CQ".into());
        }
        let index = nic.qps.len() as u32;
        let recv_queue = match objects.srq {
            Some(srq) if (srq.0 as usize) < nic.recv_queues.len() => srq.0,
            Some(_) => return invalid("there is no such SRQ".into()),
            None => {
                let queue = RecvQueue::new(pd.0, cap.max_recv_wr, cap.max_recv_sge);
                let wqe_bytes = wqe::recv_bytes(cap.max_recv_sge);
                nic.recv_queues.push(RecvSlot { queue, wqe_bytes, qp: index });
                nic.recv_queues.len() as u32 - 1
            }
        };
        let num = FIRST_QPN + index;
        let mut qp = Qp::new(num, pd.0, attr, objects.srq.is_some());
        qp.set_port_mtu(mtu);
        let empty = WqeSlot { inline: Payload::EMPTY, bytes: 0, by_mmio: false, entered: 0 };
        nic.qps.push(QpSlot {
            qp,
            send_cq: objects.send_cq.0,
            recv_cq: objects.recv_cq.0,
            recv_queue,
            alive: true,
            wqes: vec![empty; cap.max_send_wr.max(1) as usize],
            posted: VecDeque::with_capacity(cap.max_send_wr as usize),
            fetching: 0,
            work: VecDeque::new(),
            flow: Flow::default(),
            served: false,
            tx_busy: 0,
            active: false,
            requests: VecDeque::new(),
            max_inl_recv: attr.max_inl_recv,
            answers: VecDeque::new(),
            timer_at: u64::MAX,
        });
        Ok((QpHandle(index), num))
    }

    fn destroy_qp(&self, qp: QpHandle) {
        let mut w = self.world.borrow_mut();
        let World { machines, payloads, .. } = &mut *w;
        if let Some(slot) = machines[usize::from(self.machine)].nic.qps.get_mut(qp.0 as usize) {
            slot.alive = false;
            slot.forget(payloads);
        }
    }

    fn modify_qp(&self, qp: QpHandle, attr: &QpAttr) -> Result<(), VerbsError> {
        self.live_qp(qp)?;
        self.effect();
        let mut w = self.world.borrow_mut();
        let ports = w.profile.link.ports as u8;
        if attr.port_num.is_some_and(|p| p == 0 || p > ports) {
            return invalid(format!("the device has ports 1 to {ports}, not {:?}", attr.port_num));
        }
        let max_rd_atomic = w.profile.nic.max_rd_atomic;
        for asked in [attr.max_rd_atomic, attr.max_dest_rd_atomic].into_iter().flatten() {
            if u32::from(asked) > max_rd_atomic {
                return invalid(format!(
                    "the device has at most {max_rd_atomic} READs outstanding, not {asked}"
                ));
            }
        }
        let mut actions = w.take_actions();
        let World { machines, payloads, .. } = &mut *w;
        let nic = &mut machines[usize::from(self.machine)].nic;
        let slot = &mut nic.qps[qp.0 as usize];
        let recv_queue = &mut nic.recv_queues[slot.recv_queue as usize].queue;
        let done = slot.qp.modify(attr, recv_queue, &mut actions);
        if done.is_ok() && attr.qp_state == Some(QpState::Reset) {
            slot.forget(payloads);
        }
        w.apply(self.machine, qp.0, None, &actions);
        w.give_actions(actions);
        if done.is_ok() {
            w.kick(self.machine, qp.0);
        }
        done
    }

    fn query_qp(&self, qp: QpHandle) -> Result<QpState, VerbsError> {
        self.live_qp(qp)?;
        self.effect();
        Ok(self.world.borrow().machines[usize::from(self.machine)].nic.qps[qp.0 as usize].qp.state())
    }

    fn poll_cq(&self, cq: CqHandle, wc: &mut [Wc]) -> Result<usize, VerbsError> {
        self.poll(cq, wc)
    }

    fn post_send(&self, qp: QpHandle, list: &[SendWr<'_>]) -> Result<(), PostError> {
        self.post_list(qp, list)
    }

    fn post_recv(&self, qp: QpHandle, list: &[RecvWr<'_>]) -> Result<(), PostError> {
        self.post_recv_list(qp, list)
    }
}
