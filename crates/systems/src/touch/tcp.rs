//! Requests and responses by kernel TCP.

use super::stack::{Asking, REQUEST, Serving};
use crate::{Interval, SystemError};
use doorbell_verbs::{Mem, PageSize, Provider, SocketError, Span, TcpListener, TcpStream};

/// The key under which the server publishes the address on which it listens.
const ADDRESS: &str = "touch/address";

/// Longest time that a server sleeps before it checks whether to end.
const NAP: Span = Span::from_ms(10);

/// An end of a connection.
struct TcpEnd<P: Provider> {
    cpu: P,
    stream: TcpStream<P>,
    /// The buffer with the response.
    buffer: Mem,
    /// The buffer with a request.
    request: Mem,
}

impl<P: Provider> TcpEnd<P> {
    fn new(p: &P, stream: TcpStream<P>, buffer: Mem) -> Result<TcpEnd<P>, SystemError> {
        let request = p.alloc(REQUEST.into(), PageSize::Small)?;
        Ok(TcpEnd { cpu: p.clone(), stream, buffer, request })
    }
}

/// Converts the result of a call: `None` if the peer has left. A peer leaves when its interval ends.
fn unless_left<T>(ended: Result<T, SocketError>) -> Result<Option<T>, SystemError> {
    match ended {
        Err(SocketError::Reset) => Ok(None),
        ended => Ok(Some(ended?)),
    }
}

/// The server's end.
pub(super) struct TcpServer<P: Provider>(TcpEnd<P>);

impl<P: Provider> TcpServer<P> {
    /// A connected end that sends all of `buffer`.
    pub(super) fn new(p: &P, buffer: Mem) -> Result<TcpServer<P>, SystemError> {
        let listener = TcpListener::bind(p)?;
        p.publish(ADDRESS, listener.address().to_string().as_bytes());
        Ok(TcpServer(TcpEnd::new(p, listener.accept()?, buffer)?))
    }
}

impl<P: Provider> Serving for TcpServer<P> {
    fn next(&mut self, interval: &Interval) -> Result<Option<u64>, SystemError> {
        let TcpEnd { cpu, stream, request, .. } = &self.0;
        loop {
            if interval.is_over(cpu) {
                return Ok(None);
            }
            let nap = interval.look().min(cpu.now() + NAP);
            match unless_left(stream.poll(nap))? {
                Some(false) => {}
                Some(true) => break,
                None => return Ok(None),
            }
        }
        let whole = unless_left(stream.recv_exact(*request, 0, REQUEST.into()))?;
        Ok(whole.map(|()| cpu.load_u64(*request, 0)))
    }

    fn respond(&mut self) -> Result<(), SystemError> {
        unless_left(self.0.stream.send(self.0.buffer, 0, self.0.buffer.len())).map(drop)
    }
}

/// The client's end.
pub(super) struct TcpClient<P: Provider>(TcpEnd<P>);

impl<P: Provider> TcpClient<P> {
    /// A connected end that receives the response into all of `buffer`.
    pub(super) fn new(p: &P, buffer: Mem) -> Result<TcpClient<P>, SystemError> {
        let address = String::from_utf8_lossy(&p.lookup(ADDRESS)).parse();
        let address =
            address.map_err(|_| SystemError::Protocol("the server's address is not valid".into()))?;
        Ok(TcpClient(TcpEnd::new(p, TcpStream::connect(p, address)?, buffer)?))
    }
}

impl<P: Provider> Asking for TcpClient<P> {
    fn ask(&mut self, number: u64) -> Result<(), SystemError> {
        self.0.cpu.store_u64(self.0.request, 0, number);
        unless_left(self.0.stream.send(self.0.request, 0, REQUEST.into())).map(drop)
    }

    fn answered(&mut self, interval: &Interval) -> Result<bool, SystemError> {
        let TcpEnd { cpu, stream, buffer, .. } = &self.0;
        let mut taken = 0;
        while taken < buffer.len() {
            match unless_left(stream.poll(interval.look()))? {
                Some(true) => {}
                Some(false) if cpu.now() < interval.end() => continue,
                Some(false) | None => return Ok(false),
            }
            match unless_left(stream.recv(*buffer, taken, buffer.len() - taken))? {
                None | Some(0) => return Ok(false),
                Some(more) => taken += more,
            }
        }
        Ok(true)
    }
}
