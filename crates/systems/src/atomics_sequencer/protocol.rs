//! RDMA fetch-and-add on a counter in the server's memory (ATC'16, 4.2.3).

use crate::device::{self, Device, check};
use crate::drawing::{Drawer, Drawing, Drawn};
use crate::{Interval, SystemError, memory_server};
use doorbell_verbs::{AccessFlags, Program, Provider, SendFlags, SendOp, SendWr, Time, Wc};

/// Prefix of all keys that are published.
pub const SERVICE: &str = "atomics";

/// A client.
#[derive(Clone, Debug)]
pub struct AtomicsClient {
    /// Number of this client.
    pub number: u32,
    /// How the client draws numbers.
    pub drawing: Drawing,
    /// When the client measures, and when it ends at the latest.
    pub interval: Interval,
}

impl Program for AtomicsClient {
    type Output = Result<Drawn, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let opened = Device::open(&p)?;
        let depth = self.drawing.outstanding.max(1);
        let cq = opened.context.create_cq(depth)?;
        let qp = device::connect_rc(&opened, &cq, depth, self.number, SERVICE)?;
        let counter = memory_server::find(&p, SERVICE)?;
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
