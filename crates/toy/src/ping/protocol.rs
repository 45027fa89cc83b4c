//! Pings and their answers. A ping is a SEND without payload to the server, and its answer is a SEND of 8
//! bytes.
//!
//! A client ends while pings are outstanding, and destroys its QP. Then the server's QP for this client
//! fails. So if a QP fails, the server drops the client and continues. If the client has not ended, its own
//! error explains the failure.

use doorbell_systems::device::{Device, check, connect_qp, serve_qps};
use doorbell_systems::drawing::{Drawer, Drawing, Drawn};
use doorbell_systems::outbox::{self, Outbox};
use doorbell_systems::{Interval, Measured, SystemError};
use doorbell_verbs::{
    AccessFlags, Cq, Program, Provider, Qp, QpCap, QpInitAttr, QpType, RecvWr, SendFlags, SendOp, SendWr,
    Sge, Span, Time, Wc,
};

/// Prefix of the keys that the server publishes.
const SERVICE: &str = "ping";

/// Bytes of an answer.
const ANSWER: u32 = 8;

/// A QP for this many RECVs, whose completions go to `received`. Its SENDs are posted one by one.
fn outbox<P: Provider>(device: &Device<P>, received: &Cq<P>, recvs: u32) -> Result<Outbox<P>, SystemError> {
    let cap = QpCap {
        max_send_wr: outbox::depth(1),
        max_recv_wr: recvs,
        max_inline_data: device.inline(ANSWER),
        ..QpCap::default()
    };
    // The CQ has an entry for each SEND, because all SENDs complete if the QP fails.
    let sent = device.context.create_cq(outbox::depth(1))?;
    let qp = device.pd.create_qp(&sent, received, None, &QpInitAttr::new(QpType::Rc, cap))?;
    Ok(Outbox::new(qp, sent, 1))
}

/// Posts a RECV for a ping. The RECV's `wr_id` is the number of the client.
fn expect<P: Provider>(qp: &Qp<P>, client: u64) -> Result<(), SystemError> {
    Ok(qp.post_recv(&[RecvWr { wr_id: client, sg_list: &[] }])?)
}

/// Answers a ping with `with`, and posts a RECV for the next ping.
fn answer<P: Provider>(outbox: &mut Outbox<P>, ping: &Wc, with: Sge) -> Result<(), SystemError> {
    check(ping)?;
    expect(&outbox.qp, ping.wr_id)?;
    outbox.post(&mut [SendWr::new(0, SendOp::Send, &[with]).flags(SendFlags::INLINE)])
}

/// The server's thread.
#[derive(Clone, Debug)]
pub struct Server {
    /// Number of clients.
    pub clients: u32,
    /// Maximum number of a client's outstanding pings.
    pub outstanding: u32,
    /// The number that the first ping gets.
    pub first: u64,
    /// Work for each ping.
    pub service: Span,
    /// Times at which the server begins to measure, and ends.
    pub interval: Interval,
}

impl Program for Server {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let device = Device::open(&p)?;
        let received = device.context.create_cq(self.clients * self.outstanding)?;
        let answers = device.registered(ANSWER.into(), AccessFlags::LOCAL_WRITE)?;
        let mut outboxes = Vec::new();
        serve_qps(&device, self.clients, SERVICE, |_| {
            let outbox = outbox(&device, &received, self.outstanding)?;
            let qp = outbox.qp.clone();
            outboxes.push(Some(outbox));
            Ok(qp)
        })?;
        // If a ping arrives before its RECV is posted, RC sends the ping again.
        for (client, outbox) in (0..).zip(outboxes.iter().flatten()) {
            (0..self.outstanding).try_for_each(|_| expect(&outbox.qp, client))?;
        }
        let (mut next, mut measured, mut wc) = (self.first, Measured::default(), [Wc::default(); 16]);
        while !self.interval.is_over(&p) {
            let found = received.poll(&mut wc)?;
            for wc in found {
                let client = &mut outboxes[wc.wr_id as usize];
                let Some(outbox) = client else { continue };
                p.work(self.service);
                p.store_u64(answers.mem(), 0, next);
                match answer(outbox, wc, answers.sge(0, ANSWER)) {
                    Err(SystemError::Completion(_)) => *client = None,
                    answered => answered?,
                }
                next += 1;
                measured.post(&self.interval, p.now(), 1);
            }
            if found.is_empty() {
                p.pause(self.interval.look());
            }
        }
        Ok(measured)
    }
}

/// A client. The answer to its k-th ping arrives in its k-th RECV, because RC keeps the order.
#[derive(Clone, Debug)]
pub struct Client {
    /// Number of this client.
    pub number: u32,
    /// Number of outstanding pings, and when the client pings and stops.
    pub drawing: Drawing,
    /// Times at which the client begins to measure, and ends at the latest.
    pub interval: Interval,
}

impl Program for Client {
    type Output = Result<Drawn, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let device = Device::open(&p)?;
        let depth = self.drawing.outstanding;
        let received = device.context.create_cq(depth)?;
        let mut outbox = outbox(&device, &received, depth)?;
        connect_qp(&device, &outbox.qp, self.number, SERVICE)?;
        let answers = device.registered(u64::from(ANSWER * depth), AccessFlags::LOCAL_WRITE)?;
        let mut began = vec![Time::START; depth as usize];
        let (mut slot, mut wc) = (0, [Wc::default(); 16]);
        let interval = self.interval.begin(&p);
        let mut drawer = Drawer::new(self.drawing, &interval);
        while !drawer.is_done(p.now()) {
            let wanted = drawer.wanted();
            for _ in 0..wanted {
                let sge = [answers.sge(u64::from(ANSWER) * slot, ANSWER)];
                outbox.qp.post_recv(&[RecvWr { wr_id: slot, sg_list: &sge }])?;
                began[slot as usize] = p.now();
                outbox.post(&mut [SendWr::new(0, SendOp::Send, &[])])?;
                drawer.sent(1);
                slot = (slot + 1) % u64::from(depth);
            }
            let found = received.poll(&mut wc)?;
            for wc in found {
                check(wc)?;
                let number = p.load_u64(answers.mem(), u64::from(ANSWER) * wc.wr_id);
                drawer.got(number, began[wc.wr_id as usize], p.now(), false);
            }
            if wanted == 0 && found.is_empty() {
                p.pause(interval.look());
            }
        }
        Ok(drawer.drawn)
    }
}
