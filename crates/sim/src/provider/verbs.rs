//! Verbs that create, change and destroy objects. They take no time.

use super::{SimProvider, handle, invalid, object};
use crate::core::index::{CqId, DeviceId, Id, Maybe, QpId, RecvQueueId};
use crate::device::{CqSlot, FIRST_QPN, QpSlot, RecvSlot, SimDevice};
use crate::host::RingQueue;
use crate::world::Waiting;
use crate::world::World;
use doorbell_nic::{Generation, wqe};
use doorbell_transport::{Qp, RecvQueue, Region};
use doorbell_verbs::{
    AccessFlags, AhAttr, AhHandle, CqHandle, DeviceAttr, DeviceHandle, Gid, LinkLayer, Mem, MrHandle, MrKeys,
    Opcode, PdHandle, PortAttr, PostError, Provider, QpAttr, QpHandle, QpInitAttr, QpObjects, QpState,
    QpType, RecvWr, SendWr, SrqAttr, SrqHandle, VerbsError, Wc,
};

impl SimProvider<'_> {
    /// The handle of an object on `device`.
    fn handle(&self, device: DeviceId, object: impl Id) -> u32 {
        handle(self.first_device, device, object.index())
    }
}

/// Bytes of the largest WQE of a send queue. This is also the distance between the queue's entries.
fn largest_wqe(generation: Generation, attr: &QpInitAttr) -> u32 {
    let layout = generation.wqe();
    let sges = wqe::Payload::Sges(attr.cap.max_send_sge.max(1));
    let inline = wqe::Payload::Inline(attr.cap.max_inline_data);
    let with_sges = layout.send_bytes(Opcode::FetchAdd, attr.qp_type, sges);
    wqe::pad(with_sges.max(layout.send_bytes(Opcode::Send, attr.qp_type, inline)))
}

/// Checks a port number as programs give it, from 1.
fn check_port(device: &SimDevice, port: u8) -> Result<(), String> {
    match device.profile.device.link.ports as u8 {
        ports if port == 0 || port > ports => Err(format!("the device has ports 1 to {ports}, not {port}")),
        _ => Ok(()),
    }
}

impl Provider for SimProvider<'_> {
    fn machine(&self) -> u32 {
        self.machine.index() as u32
    }

    fn publish(&self, key: &str, value: &[u8]) {
        self.effect();
        self.with(|w| {
            w.exchange.published.insert(key.into(), value.into());
            let clock = w.threads[self.thread].clock;
            for t in w.exchange.awaited.remove(key).unwrap_or_default() {
                let thread = &mut w.threads[t];
                thread.waiting = Waiting::Turn;
                thread.clock = thread.clock.max(clock);
                let at = thread.clock;
                w.schedule(t, at);
            }
        });
    }

    fn lookup(&self, key: &str) -> Vec<u8> {
        self.effect();
        loop {
            let value = self.with(|w| {
                let value = w.exchange.published.get(key).map(|value| value.to_vec());
                if value.is_none() {
                    w.threads[self.thread].waiting = Waiting::Key(key.to_owned());
                    w.exchange.awaited.entry(key.to_owned()).or_default().push(self.thread);
                }
                value
            });
            match value {
                Some(value) => return value,
                None => self.yielder.suspend(()),
            }
        }
    }

    fn num_devices(&self) -> u32 {
        self.with(|w| w.hosts[self.machine].devices())
    }

    fn open_device(&self, index: u32) -> Result<DeviceHandle, VerbsError> {
        let devices = self.num_devices();
        if index >= devices {
            let text = format!("a simulated machine has devices 0 to {}, not {index}", devices - 1);
            return Err(VerbsError::NoDevice(text));
        }
        Ok(DeviceHandle(handle(self.first_device, DeviceId(self.first_device.0 + index as u16), 0)))
    }

    fn close_device(&self, _device: DeviceHandle) {}

    fn query_device(&self, device: DeviceHandle) -> Result<DeviceAttr, VerbsError> {
        let profile = self.on_device(device.0, |d| d.profile.clone());
        let nic = &profile.device.nic;
        Ok(DeviceAttr {
            name: format!("{}_sim", profile.name),
            ports: profile.device.link.ports as u8,
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

    fn query_port(&self, device: DeviceHandle, port: u8) -> Result<PortAttr, VerbsError> {
        self.with(|w| {
            let device = &w.devices[self.device_of(device.0)];
            check_port(device, port).map_err(VerbsError::NoDevice)?;
            let lid = w.env.fabric.lid(device.port(port - 1));
            let mut gid = [0; 16];
            gid[..2].copy_from_slice(&[0xfe, 0x80]);
            gid[14..].copy_from_slice(&lid.to_be_bytes());
            Ok(PortAttr {
                active: true,
                active_mtu: device.profile.device.link.mtu(),
                lid,
                link_layer: LinkLayer::Infiniband,
                gid_index: 0,
                gid: Gid(gid),
            })
        })
    }

    fn alloc_pd(&self, device: DeviceHandle) -> Result<PdHandle, VerbsError> {
        self.make_in_turn();
        // The handle is also the number of the protection domain.
        let number = self.on_device(device.0, |d| {
            d.pds += 1;
            d.pds
        });
        Ok(PdHandle(handle(self.first_device, self.device_of(device.0), number as usize)))
    }

    fn dealloc_pd(&self, _pd: PdHandle) {}

    fn alloc_dm(&self, device: DeviceHandle, len: u64) -> Result<Mem, VerbsError> {
        self.make_in_turn();
        self.on_device(device.0, |device| device.alloc_own(len))
    }

    fn reg_mr(&self, pd: PdHandle, mem: Mem, access: AccessFlags) -> Result<(MrHandle, MrKeys), VerbsError> {
        self.make_in_turn();
        let needs_local = AccessFlags::REMOTE_WRITE | AccessFlags::REMOTE_ATOMIC;
        if access.intersects(needs_local) && !access.contains(AccessFlags::LOCAL_WRITE) {
            return invalid("remote write access and remote atomic access need local write access".into());
        }
        self.with(|w| {
            let World { hosts, devices, .. } = w;
            let host = &mut hosts[self.machine];
            let device = self.device_of(pd.0);
            if !host.memory.owns(mem) && !devices[device].owns(mem) {
                return invalid("the memory belongs to another machine or to another device".into());
            }
            let region = Region { pd: pd.0, addr: mem.addr(0), len: mem.len(), access };
            let key = devices[device].keys.register(region);
            host.regions.push((device, key));
            Ok((MrHandle(host.regions.len() as u32 - 1), MrKeys { lkey: key, rkey: key }))
        })
    }

    fn dereg_mr(&self, mr: MrHandle) {
        self.effect();
        self.with(|w| {
            let (device, key) = w.hosts[self.machine].regions[mr.0 as usize];
            w.devices[device].keys.deregister(key);
        });
    }

    fn create_cq(&self, device: DeviceHandle, cqe: u32) -> Result<CqHandle, VerbsError> {
        self.make_in_turn();
        let cq = self.on_device_with_host(device.0, |d, host| {
            let max = d.profile.device.nic.max_cqe;
            if cqe == 0 || cqe > max {
                return invalid(format!("a CQ has 1 to {max} entries, not {cqe}"));
            }
            let ring = host.add_ring(self.core, RingQueue::Completion, cqe, d.profile.device.nic.cqe);
            let hop = host.ring_hop(d.attached.socket, &ring);
            Ok(d.cqs.push(Some(CqSlot::new(cqe, (ring, hop), host.is_written_at_once()))))
        })?;
        Ok(CqHandle(self.handle(self.device_of(device.0), cq)))
    }

    fn destroy_cq(&self, cq: CqHandle) {
        self.effect();
        self.on_device(cq.0, |d| d.cqs[object(cq.0)] = None);
    }

    fn poll_cq(&self, cq: CqHandle, wc: &mut [Wc]) -> Result<usize, VerbsError> {
        self.poll(cq, wc)
    }

    fn create_srq(&self, pd: PdHandle, attr: &SrqAttr) -> Result<SrqHandle, VerbsError> {
        self.make_in_turn();
        let srq = self.on_device_with_host(pd.0, |d, host| {
            let (max_wr, max_sge) = (d.profile.device.nic.max_qp_wr, d.profile.device.nic.max_sge);
            if attr.max_wr == 0 || attr.max_wr > max_wr || attr.max_sge > max_sge {
                return invalid(format!("an SRQ holds 1 to {max_wr} RECVs of at most {max_sge} SGEs"));
            }
            let wqe_bytes = d.profile.device.generation.wqe().recv_bytes(attr.max_sge);
            let ring = host.add_ring(self.core, RingQueue::Receive, attr.max_wr, wqe_bytes);
            let queue = RecvQueue::new(pd.0, attr.max_wr, attr.max_sge);
            Ok(d.recv_queues.push(RecvSlot::new(queue, ring, wqe_bytes, Maybe::NONE)))
        })?;
        Ok(SrqHandle(self.handle(self.device_of(pd.0), srq)))
    }

    fn destroy_srq(&self, _srq: SrqHandle) {}

    fn post_srq_recv(&self, srq: SrqHandle, list: &[RecvWr<'_>]) -> Result<(), PostError> {
        self.effect();
        self.post_to(self.device_of(srq.0), object(srq.0), list)
    }

    fn create_ah(&self, pd: PdHandle, attr: &AhAttr) -> Result<AhHandle, VerbsError> {
        self.make_in_turn();
        let ah = self.on_device(pd.0, |d| {
            check_port(d, attr.port_num).map_err(VerbsError::Invalid)?;
            d.ahs.push(Some(*attr));
            Ok(d.ahs.len() - 1)
        })?;
        Ok(AhHandle(handle(self.first_device, self.device_of(pd.0), ah)))
    }

    fn destroy_ah(&self, ah: AhHandle) {
        self.effect();
        self.on_device(ah.0, |d| *d.ah_mut(ah) = None);
    }

    fn create_qp(
        &self,
        pd: PdHandle,
        objects: &QpObjects,
        attr: &QpInitAttr,
    ) -> Result<(QpHandle, u32), VerbsError> {
        self.make_in_turn();
        let number = self.device_of(pd.0);
        let of_device = |handle: u32| self.device_of(handle) == number;
        let (send_cq, recv_cq): (CqId, CqId) = (object(objects.send_cq.0), object(objects.recv_cq.0));
        let id = self.on_device_with_host(pd.0, |d, host| {
            let limits = d.profile.device.nic;
            let cap = attr.cap;
            if d.profile.device.generation.is_iwarp() && attr.qp_type != QpType::Rc {
                return Err(VerbsError::Unsupported(format!("iWARP has no {} QPs", attr.qp_type)));
            }
            let queues_fit = cap.max_send_wr.max(cap.max_recv_wr) <= limits.max_qp_wr;
            let sges_fit = cap.max_send_sge.max(cap.max_recv_sge) <= limits.max_sge;
            if !queues_fit || !sges_fit || cap.max_inline_data > limits.max_inline {
                return invalid(format!(
                    "a QP has at most {} work requests per queue, {} SGEs and {} bytes of inline data, \
                     not {cap:?}",
                    limits.max_qp_wr, limits.max_sge, limits.max_inline
                ));
            }
            let exists =
                |handle: u32, cq: CqId| of_device(handle) && d.cqs.get(cq).is_some_and(Option::is_some);
            if !exists(objects.send_cq.0, send_cq) || !exists(objects.recv_cq.0, recv_cq) {
                return invalid("there is no such CQ".into());
            }
            let id = QpId::from_index(d.qps.len());
            let recv_queue = match objects.srq {
                Some(srq) => {
                    let srq_id: RecvQueueId = object(srq.0);
                    if !of_device(srq.0) || d.recv_queues.get(srq_id).is_none() {
                        return invalid("there is no such SRQ".into());
                    }
                    srq_id
                }
                None => {
                    let wqe_bytes = d.profile.device.generation.wqe().recv_bytes(cap.max_recv_sge);
                    let ring = host.add_ring(self.core, RingQueue::Receive, cap.max_recv_wr, wqe_bytes);
                    let queue = RecvQueue::new(pd.0, cap.max_recv_wr, cap.max_recv_sge);
                    d.recv_queues.push(RecvSlot::new(queue, ring, wqe_bytes, Maybe::some(id)))
                }
            };
            let mut qp = Qp::new(FIRST_QPN + id.0, pd.0, attr, objects.srq.is_some());
            qp.set_port_mtu(d.profile.device.link.mtu());
            if d.profile.device.generation.is_iwarp() {
                qp.set_segment(d.profile.device.link.mtu as u16);
            }
            let entry = largest_wqe(d.profile.device.generation, attr);
            let ring = host.add_ring(self.core, RingQueue::Send, cap.max_send_wr, entry);
            Ok(d.qps.push(QpSlot::new(qp, attr, send_cq, recv_cq, recv_queue, ring)))
        })?;
        Ok((QpHandle(self.handle(number, id)), FIRST_QPN + id.0))
    }

    /// When the call returns, everything that the device has accepted for the QP is in memory: on the PCIe
    /// link, the command's completion follows the writes.
    fn destroy_qp(&self, qp: QpHandle) {
        self.effect();
        self.with(|w| {
            let device = &mut w.devices[self.device_of(qp.0)];
            if let Some(slot) = device.qps.get_mut(object(qp.0)) {
                slot.alive = false;
                slot.forget(&mut w.env.payloads);
            }
            let landed = w.hosts[self.machine].landed(device.attached.local);
            let clock = &mut w.threads[self.thread].clock;
            *clock = landed.map_or(*clock, |landed| landed.max(*clock));
        });
    }

    fn modify_qp(&self, qp: QpHandle, attr: &QpAttr) -> Result<(), VerbsError> {
        let (device, id) = self.live_qp(qp)?;
        self.effect();
        self.with(|w| {
            let World { env, devices, .. } = w;
            let device = &mut devices[device];
            let ports = device.profile.device.link.ports as u8;
            if attr.port_num.is_some_and(|p| p == 0 || p > ports) {
                return invalid(format!("the device has ports 1 to {ports}, not {:?}", attr.port_num));
            }
            let max_rd_atomic = device.profile.device.nic.max_rd_atomic;
            for asked in [attr.max_rd_atomic, attr.max_dest_rd_atomic].into_iter().flatten() {
                if u32::from(asked) > max_rd_atomic {
                    return invalid(format!(
                        "the device has at most {max_rd_atomic} READs outstanding, not {asked}"
                    ));
                }
            }
            let done = env.with_actions(|env, actions| {
                let slot = &mut device.qps[id];
                let recv_queue = &mut device.recv_queues[slot.recv_queue].queue;
                let done = slot.qp.modify(attr, recv_queue, actions);
                if done.is_ok() && attr.qp_state == Some(QpState::Reset) {
                    slot.forget(&mut env.payloads);
                }
                device.settle_all(env, id, actions);
                done
            });
            if done.is_ok() {
                device.kick(env, id);
            }
            done
        })
    }

    fn query_qp(&self, qp: QpHandle) -> Result<QpState, VerbsError> {
        let (device, id) = self.live_qp(qp)?;
        self.effect();
        Ok(self.with(|w| w.devices[device].qps[id].qp.state()))
    }

    fn post_send(&self, qp: QpHandle, list: &[SendWr<'_>]) -> Result<(), PostError> {
        self.post_list(qp, list)
    }

    fn post_recv(&self, qp: QpHandle, list: &[RecvWr<'_>]) -> Result<(), PostError> {
        self.post_recv_list(qp, list)
    }
}
