//! The two sides of ping-pong.

use super::config::Message;
use crate::device::{Device, QKEY, check, connect_qp, find, serve_qps};
use crate::measure::How;
use crate::outbox::{self, Outbox};
use crate::{Interval, Measured, SystemError};
use doorbell_verbs::{
    AccessFlags, Ah, Cq, GRH_BYTES, Mr, OperationKey, OperationStep, Program, Provider, Qp, QpCap,
    QpInitAttr, QpType, RecvWr, RemoteAddr, SendFlags, SendOp, SendWr, Span, Time, UdDest, Wc,
};

/// Prefix of the keys that are published.
const SERVICE: &str = "ping-pong";

/// Number of RECVs: one for the message that has arrived, and one for the next message.
const RECVS: u32 = 2;

/// Time for which a client waits for its last answer after the end of its measurement.
const GRACE: Span = Span::from_ms(10);

/// Numbers of the two sides.
const SERVER: u32 = 0;
const CLIENT: u32 = 1;

fn key(what: &str, side: u32) -> String {
    format!("{SERVICE}/{what}/{side}")
}

/// A side of ping-pong.
struct PingPongEnd<P: Provider> {
    device: Device<P>,
    message: Message,
    size: u32,
    inline: bool,
    outbox: Outbox<P>,
    received: Cq<P>,
    /// Buffers of outgoing and of arriving messages.
    out: Mr<P>,
    inbox: Mr<P>,
    /// The peer's inbox.
    target: RemoteAddr,
    /// The peer's QP, for datagrams.
    dest: Option<(Ah<P>, UdDest)>,
}

impl<P: Provider> PingPongEnd<P> {
    /// Sets up a side. Returns when both sides are ready. The buffers are at the socket of core `near`.
    fn meet(
        p: &P,
        (message, size, inline): (Message, u32, u32),
        near: u32,
        own: u32,
    ) -> Result<PingPongEnd<P>, SystemError> {
        let device = Device::open(p)?;
        let header = if message == Message::SendUd { GRH_BYTES } else { 0 };
        let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE;
        let out = device.registered_near(near, size.into(), AccessFlags::LOCAL_WRITE)?;
        let inbox = device.registered_near(near, (size + header).into(), access)?;
        let received = device.context.create_cq(RECVS)?;
        let sent = device.context.create_cq(outbox::depth(1))?;
        let inline = size.min(inline).min(device.attr.max_inline_data.unwrap_or(64));
        let qp = PingPongEnd::qp(&device, message, inline, (&sent, &received))?;
        let outbox = Outbox::new(qp, sent, 1);
        let (target, dest) = (RemoteAddr::default(), None);
        let inline = inline == size;
        let mut end =
            PingPongEnd { device, message, size, inline, outbox, received, out, inbox, target, dest };
        end.connect(own)?;
        // RECVs are posted before any message arrives.
        (0..if message.is_sent() { RECVS } else { 0 }).try_for_each(|_| end.expect())?;
        p.publish(&key("inbox", own), &end.inbox.remote(0).to_bytes());
        end.target = RemoteAddr::from_bytes(&p.lookup(&key("inbox", other(own))))?;
        Ok(end)
    }

    /// An unconnected QP, or a UD QP that is ready to send.
    fn qp(
        device: &Device<P>,
        message: Message,
        inline: u32,
        cqs: (&Cq<P>, &Cq<P>),
    ) -> Result<Qp<P>, SystemError> {
        let sends = outbox::depth(1);
        if message.transport() == QpType::Ud {
            return device.ud(device.port(0), cqs, sends, RECVS, inline);
        }
        let cap =
            QpCap { max_send_wr: sends, max_recv_wr: RECVS, max_inline_data: inline, ..QpCap::default() };
        Ok(device.pd.create_qp(cqs.0, cqs.1, None, &QpInitAttr::new(message.transport(), cap))?)
    }

    fn connect(&mut self, own: u32) -> Result<(), SystemError> {
        let (device, qp) = (&self.device, &self.outbox.qp);
        match (self.message.transport(), own) {
            (QpType::Ud, _) => {
                let port = device.port(0);
                device.cpu.publish(&key("qp", own), &qp.endpoint(port)?.to_bytes());
                let there = find(&device.cpu, &key("qp", other(own)))?;
                let ah = Ah::to_endpoint(&device.pd, port, &there)?;
                let dest = ah.dest(there.qpn, QKEY);
                self.dest = Some((ah, dest));
            }
            (_, SERVER) => drop(serve_qps(device, 1, SERVICE, |_| Ok(qp.clone()))?),
            _ => connect_qp(device, qp, 0, SERVICE)?,
        }
        Ok(())
    }

    /// Posts a RECV.
    fn expect(&self) -> Result<(), SystemError> {
        let whole = [self.inbox.sge(0, self.inbox_bytes())];
        let list = if self.inbox_bytes() == 0 { &[] } else { &whole[..] };
        Ok(self.outbox.qp.post_recv(&[RecvWr { wr_id: 0, sg_list: list }])?)
    }

    fn inbox_bytes(&self) -> u32 {
        self.size + if self.dest.is_some() { GRH_BYTES } else { 0 }
    }

    /// Sends message `number`.
    fn send(&mut self, number: u64) -> Result<(), SystemError> {
        let op = match self.message {
            Message::WriteRc | Message::WriteUc => {
                self.device.cpu.store_u8(self.out.mem(), u64::from(self.size) - 1, number as u8);
                SendOp::Write(self.target)
            }
            Message::SendRc | Message::SendUc | Message::SendUd => SendOp::Send,
            Message::ReadRc => SendOp::Read(self.target),
        };
        let sge = [self.out.sge(0, self.size)];
        let mut wr = SendWr::new(number, op, if self.size == 0 { &[] } else { &sge });
        wr.dest = self.dest.as_ref().map(|(_, dest)| *dest);
        match self.message {
            Message::ReadRc => wr = wr.flags(SendFlags::SIGNALED),
            _ if self.inline && self.size > 0 => wr = wr.flags(SendFlags::INLINE),
            _ => {}
        }
        self.outbox.post(&mut [wr])
    }

    /// Whether message `number` has arrived. Marks this step of the round trip.
    fn came(&mut self, number: u64) -> Result<bool, SystemError> {
        let step = match self.message {
            Message::ReadRc => OperationStep::Completes,
            _ => OperationStep::Finds,
        };
        let came = self.has(number)?;
        if came {
            self.device.cpu.mark(OperationKey(number), step);
            // The next message needs a RECV.
            if self.message.is_sent() {
                self.expect()?;
            }
        }
        Ok(came)
    }

    fn has(&mut self, number: u64) -> Result<bool, SystemError> {
        match self.message {
            Message::WriteRc | Message::WriteUc => {
                let last = self.device.cpu.load_u8(self.inbox.mem(), u64::from(self.size) - 1);
                Ok(last == number as u8)
            }
            Message::SendRc | Message::SendUc | Message::SendUd => {
                let mut wc = [Wc::default()];
                let found = !self.received.poll(&mut wc)?.is_empty();
                if found {
                    check(&wc[0])?;
                    if wc[0].byte_len != self.inbox_bytes() {
                        let why = format!("{} bytes arrived, not {}", wc[0].byte_len, self.inbox_bytes());
                        return Err(SystemError::Protocol(why));
                    }
                }
                Ok(found)
            }
            // The peer does not answer a READ.
            Message::ReadRc => Ok(self.outbox.completed()? == self.outbox.posted()),
        }
    }
}

fn other(side: u32) -> u32 {
    if side == SERVER { CLIENT } else { SERVER }
}

/// The side that answers.
#[derive(Clone, Debug)]
pub struct PingPongServer {
    /// Verb and transport of messages.
    pub message: Message,
    /// Bytes of a message.
    pub size: u32,
    /// Bytes up to which payload is inlined, if the device allows it.
    pub inline: u32,
    /// A core of the socket that has its buffers.
    pub near: u32,
    /// When it ends.
    pub interval: Interval,
}

impl Program for PingPongServer {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let mut end = PingPongEnd::meet(&p, (self.message, self.size, self.inline), self.near, SERVER)?;
        let (mut measured, mut number) = (Measured::default(), 1);
        while !self.interval.is_over(&p) {
            if self.message != Message::ReadRc && end.came(number)? {
                end.send(number)?;
                measured.post(&self.interval, p.now(), 1);
                number += 1;
            } else {
                p.pause(self.interval.look());
            }
        }
        Ok(measured)
    }
}

/// The side that begins, and measures.
#[derive(Clone, Debug)]
pub struct PingPongClient {
    /// Verb and transport of messages.
    pub message: Message,
    /// Bytes of a message.
    pub size: u32,
    /// Bytes up to which payload is inlined, if the device allows it.
    pub inline: u32,
    /// A core of the socket that has its buffers.
    pub near: u32,
    /// When it measures, and when it ends at the latest.
    pub interval: Interval,
}

impl Program for PingPongClient {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let mut end = PingPongEnd::meet(&p, (self.message, self.size, self.inline), self.near, CLIENT)?;
        let interval = self.interval.begin(&p);
        let mut measured = Measured::default();
        for number in 1.. {
            let began = p.now();
            if began >= interval.end() {
                break;
            }
            let round = OperationKey(number);
            p.mark(round, OperationStep::Begins);
            end.send(number)?;
            if !self.is_answered(&p, &mut end, number, &interval)? {
                break;
            }
            p.mark(round, OperationStep::Ends { since: began });
            let now = p.now();
            let ways = if self.message == Message::ReadRc { 1 } else { 2 };
            let one = Span::from_ps((now - began).as_ps() / ways);
            measured.operation(&interval, Time::from_ps(now.as_ps() - one.as_ps()), now, How::default());
        }
        Ok(measured)
    }
}

impl PingPongClient {
    /// Waits for the answer. Returns whether it arrived. Keeps the QP, because the answer may come late.
    fn is_answered<P: Provider>(
        &self,
        p: &P,
        end: &mut PingPongEnd<P>,
        number: u64,
        interval: &Interval,
    ) -> Result<bool, SystemError> {
        while !end.came(number)? {
            let (now, over) = (p.now(), interval.end());
            let last = if over == Time::NEVER { Time::NEVER } else { over + GRACE };
            if now >= last {
                return Ok(false);
            }
            p.pause(if now < over { interval.look() } else { last });
        }
        Ok(true)
    }
}
