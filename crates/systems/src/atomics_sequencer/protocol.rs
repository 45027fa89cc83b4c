//! RDMA fetch-and-add on a counter in the server's memory (ATC'16, 4.2.3).

use crate::device::{self, Device, check};
use crate::drawing::{Drawer, Drawing, Drawn};
use crate::{Interval, SystemError};
use doorbell_verbs::{AccessFlags, Mem, Program, Provider, RemoteAddr, SendFlags, SendOp, SendWr, Time, Wc};

/// The server's thread: it connects its clients, then only waits.
#[derive(Clone, Debug)]
pub struct Server {
    /// Number of clients.
    pub clients: u32,
    /// The 8-byte counter: the next number.
    pub counter: Mem,
    /// When it ends.
    pub interval: Interval,
}

impl Program for Server {
    type Output = Result<(), SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let opened = Device::open(&p)?;
        let mr = opened.register(self.counter, AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_ATOMIC)?;
        p.publish("atomics/counter", &mr.remote(0).to_bytes());
        let qps = device::serve_rc(&opened, self.clients, "atomics")?;
        while !self.interval.is_over(&p) {
            p.pause(self.interval.look());
        }
        drop(qps);
        Ok(())
    }
}

/// A client.
#[derive(Clone, Debug)]
pub struct Client {
    /// Number of this client.
    pub number: u32,
    /// How it draws.
    pub drawing: Drawing,
    /// When it measures, and when it ends at the latest.
    pub interval: Interval,
}

impl Program for Client {
    type Output = Result<Drawn, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let opened = Device::open(&p)?;
        let depth = self.drawing.outstanding.max(1);
        let cq = opened.context.create_cq(depth)?;
        let qp = device::connect_rc(&opened, &cq, depth, self.number, "atomics")?;
        let counter = RemoteAddr::from_bytes(&p.lookup("atomics/counter"))?;
        let results = opened.registered(8 * u64::from(depth), AccessFlags::LOCAL_WRITE)?;
        let mut began = vec![Time::START; depth as usize];
        let mut free: Vec<u64> = (0..u64::from(depth)).collect();
        let mut wc = [Wc::default(); 16];
        let interval = self.interval.begin(&p);
        let mut drawer = Drawer::new(self.drawing, &interval);
        while !drawer.is_done(p.now()) {
            let wanted = drawer.wanted();
            for _ in 0..wanted {
                let Some(slot) = free.pop() else { break };
                began[slot as usize] = p.now();
                let sge = [results.sge(8 * slot, 8)];
                let op = SendOp::FetchAdd { remote: counter, add: 1 };
                qp.post_send(&[SendWr::new(slot, op, &sge).flags(SendFlags::SIGNALED)])?;
                drawer.sent(1);
            }
            let found = cq.poll(&mut wc)?;
            for wc in found {
                check(wc)?;
                let value = p.load_u64(results.mem(), 8 * wc.wr_id);
                drawer.got(value, began[wc.wr_id as usize], p.now(), false);
                free.push(wc.wr_id);
            }
            if wanted == 0 && found.is_empty() {
                p.pause(interval.look());
            }
        }
        Ok(drawer.drawn)
    }
}
