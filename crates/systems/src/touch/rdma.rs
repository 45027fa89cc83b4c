//! Requests and responses by RC verbs.

use super::config::Response;
use super::stack::{Asking, REQUEST, Serving};
use crate::device::{Device, check, connect_qp, serve_qps};
use crate::outbox::{self, Outbox};
use crate::{Interval, SystemError};
use doorbell_verbs::{
    AccessFlags, Cq, Mem, Mr, Provider, Qp, QpCap, QpInitAttr, QpType, RecvWr, RemoteAddr, SendFlags, SendOp,
    SendWr, Sge,
};

/// Prefix of the keys that are published.
const SERVICE: &str = "touch";
/// The key of the client's buffer, to which the server may WRITE the response.
const TARGET: &str = "touch/target";
/// The key of the server's buffer, from which the client may READ the response.
const SOURCE: &str = "touch/source";

/// Maximum number of work requests in a list.
const LIST: u32 = 2;

/// State of either end of the connection.
struct RdmaEnd<P: Provider> {
    cpu: P,
    outbox: Outbox<P>,
    received: Cq<P>,
    response: Response,
    /// The buffer with the response.
    buffer: Mr<P>,
    /// The buffer with a request.
    request: Mr<P>,
}

impl<P: Provider> RdmaEnd<P> {
    /// An end that is not connected yet.
    fn new(device: &Device<P>, response: Response, buffer: Mem) -> Result<RdmaEnd<P>, SystemError> {
        let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_READ | AccessFlags::REMOTE_WRITE;
        let buffer = device.register(buffer, access)?;
        let request = device.registered(REQUEST.into(), AccessFlags::LOCAL_WRITE)?;
        let received = device.context.create_cq(2)?;
        let sent = device.context.create_cq(outbox::depth(LIST))?;
        let cap = QpCap {
            max_send_wr: outbox::depth(LIST),
            max_recv_wr: 2,
            max_inline_data: device.inline(REQUEST),
            ..QpCap::default()
        };
        let qp = device.pd.create_qp(&sent, &received, None, &QpInitAttr::new(QpType::Rc, cap))?;
        let outbox = Outbox::new(qp, sent, LIST);
        Ok(RdmaEnd { cpu: device.cpu.clone(), outbox, received, response, buffer, request })
    }

    fn qp(&self) -> &Qp<P> {
        &self.outbox.qp
    }

    fn whole(&self) -> Sge {
        self.buffer.sge(0, self.buffer.mem().len() as u32)
    }

    fn expect(&self, into: &[Sge]) -> Result<(), SystemError> {
        Ok(self.qp().post_recv(&[RecvWr { wr_id: 0, sg_list: into }])?)
    }

    /// Whether a message has arrived.
    fn received(&mut self) -> Result<bool, SystemError> {
        let mut wc = [Default::default()];
        let found = self.received.poll(&mut wc)?;
        found.iter().try_for_each(check)?;
        Ok(!found.is_empty())
    }
}

/// The server's end.
pub(super) struct RdmaServer<P: Provider> {
    end: RdmaEnd<P>,
    /// The client's buffer, for responses by WRITE.
    target: RemoteAddr,
}

impl<P: Provider> RdmaServer<P> {
    /// A connected end that sends all of `buffer`.
    pub(super) fn new(p: &P, response: Response, buffer: Mem) -> Result<RdmaServer<P>, SystemError> {
        let device = Device::open(p)?;
        let end = RdmaEnd::new(&device, response, buffer)?;
        serve_qps(&device, 1, SERVICE, |_| Ok(end.qp().clone()))?;
        end.expect(&[end.request.sge(0, REQUEST)])?;
        // The client waits for this key, so no request arrives before the RECV is posted.
        p.publish(SOURCE, &end.buffer.remote(0).to_bytes());
        let target = RemoteAddr::from_bytes(&p.lookup(TARGET))?;
        Ok(RdmaServer { end, target })
    }
}

impl<P: Provider> Serving for RdmaServer<P> {
    fn next(&mut self, interval: &Interval) -> Result<Option<u64>, SystemError> {
        let RdmaEnd { cpu, .. } = &self.end;
        let cpu = cpu.clone();
        while !interval.is_over(&cpu) {
            if self.end.received()? {
                let number = cpu.load_u64(self.end.request.mem(), 0);
                self.end.expect(&[self.end.request.sge(0, REQUEST)])?;
                return Ok(Some(number));
            }
            cpu.pause(interval.look());
        }
        Ok(None)
    }

    fn respond(&mut self) -> Result<(), SystemError> {
        let (whole, target) = ([self.end.whole()], self.target);
        let outbox = &mut self.end.outbox;
        match self.end.response {
            Response::Send => outbox.post(&mut [SendWr::new(0, SendOp::Send, &whole)]),
            Response::Write => {
                let write = SendWr::new(0, SendOp::Write(target), &whole);
                outbox.post(&mut [write, SendWr::new(0, SendOp::Send, &[])])
            }
            Response::Read => outbox.post(&mut [SendWr::new(0, SendOp::Send, &[])]),
        }
    }
}

/// The client's end.
pub(super) struct RdmaClient<P: Provider> {
    end: RdmaEnd<P>,
    /// The server's buffer, for responses by READ.
    source: RemoteAddr,
}

impl<P: Provider> RdmaClient<P> {
    /// A connected end that receives the response into all of `buffer`.
    pub(super) fn new(p: &P, response: Response, buffer: Mem) -> Result<RdmaClient<P>, SystemError> {
        let device = Device::open(p)?;
        let end = RdmaEnd::new(&device, response, buffer)?;
        p.publish(TARGET, &end.buffer.remote(0).to_bytes());
        connect_qp(&device, end.qp(), 0, SERVICE)?;
        let source = RemoteAddr::from_bytes(&p.lookup(SOURCE))?;
        Ok(RdmaClient { end, source })
    }
}

impl<P: Provider> Asking for RdmaClient<P> {
    fn ask(&mut self, number: u64) -> Result<(), SystemError> {
        let end = &mut self.end;
        match end.response {
            Response::Send => end.expect(&[end.whole()])?,
            Response::Write | Response::Read => end.expect(&[])?,
        }
        end.cpu.store_u64(end.request.mem(), 0, number);
        let request = [end.request.sge(0, REQUEST)];
        end.outbox.post(&mut [SendWr::new(0, SendOp::Send, &request).flags(SendFlags::INLINE)])
    }

    fn answered(&mut self, interval: &Interval) -> Result<bool, SystemError> {
        while !self.end.received()? {
            if self.end.cpu.now() >= interval.end() {
                return Ok(false);
            }
            self.end.cpu.pause(interval.look());
        }
        if self.end.response == Response::Read {
            let whole = [self.end.whole()];
            let read =
                self.end.outbox.post_and_wait(&mut [SendWr::new(0, SendOp::Read(self.source), &whole)]);
            // The server may have ended during the wait.
            if self.end.cpu.now() >= interval.end() {
                return Ok(false);
            }
            read?;
        }
        Ok(true)
    }
}
