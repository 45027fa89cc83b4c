//! Checks of kernel TCP: order of bytes, end of a connection, blocking and polling.

use crate::bench::Bench;
use crate::step::{CheckStep, CheckStop, failed, holds, refused, same};
use doorbell_verbs::{
    Mem, PageSize, Provider, SocketError, SocketHandle, Span, TcpListener, TcpStream, Time,
};
use std::net::SocketAddr;

/// Number of bytes that exceeds all buffers of a connection together.
const FLOOD: u64 = 16 << 20;
/// Bytes of the memory for sending and receiving.
const LEN: u64 = 64 << 10;
/// Value of memory into which no byte was received.
const UNTOUCHED: u8 = 0xEE;

/// A listener. The check is skipped if the provider has no TCP.
fn listener<P: Provider>(b: &Bench<P>) -> CheckStep<TcpListener<P>> {
    match TcpListener::bind(&b.provider) {
        Err(SocketError::Unsupported(why)) => Err(CheckStop::Skipped(format!("TCP is not available: {why}"))),
        bound => Ok(bound?),
    }
}

/// Creates the responder's listener, and sends its address to the other side.
fn listen<P: Provider>(b: &Bench<P>) -> CheckStep<TcpListener<P>> {
    let listener = listener(b)?;
    b.say(listener.address().to_string().as_bytes());
    Ok(listener)
}

/// Receives the address of the responder's listener.
fn hear_address<P: Provider>(b: &Bench<P>) -> CheckStep<SocketAddr> {
    Ok(String::from_utf8_lossy(&b.hear()?).parse()?)
}

/// Connects both sides. Returns this side's end of the connection.
fn connection<P: Provider>(b: &Bench<P>) -> CheckStep<TcpStream<P>> {
    match b.is_requester() {
        true => Ok(TcpStream::connect(&b.provider, hear_address(b)?)?),
        false => Ok(listen(b)?.accept()?),
    }
}

fn memory<P: Provider>(b: &Bench<P>, len: u64) -> CheckStep<Mem> {
    Ok(b.provider.alloc(len, PageSize::Small)?)
}

/// Byte `at` of a stream. Neighbouring bytes differ, and segments differ.
fn byte(at: u64) -> u8 {
    (at.wrapping_mul(31) ^ (at >> 8).wrapping_mul(7) ^ (at >> 16)) as u8
}

/// Stores `len` bytes of the stream, starting with its byte `at`, at `offset` of the memory.
fn fill<P: Provider>(b: &Bench<P>, mem: Mem, offset: u64, at: u64, len: u64) {
    let bytes: Vec<u8> = (at..at + len).map(byte).collect();
    b.provider.write(mem, offset, &bytes);
}

fn bytes<P: Provider>(b: &Bench<P>, mem: Mem, offset: u64, len: u64) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    b.provider.read(mem, offset, &mut bytes);
    bytes
}

/// Fails unless the `len` bytes at `offset` are bytes of the stream, starting with its byte `at`.
#[track_caller]
fn has<P: Provider>(b: &Bench<P>, mem: Mem, offset: u64, at: u64, len: u64) -> CheckStep {
    match (at..).zip(bytes(b, mem, offset, len)).find(|&(at, found)| found != byte(at)) {
        None => Ok(()),
        Some((at, found)) => {
            Err(failed(format!("byte {at} of the stream is {found:#04x}, not {:#04x}", byte(at))))
        }
    }
}

/// Sends `len` bytes of the stream, starting with its byte `at`.
fn send<P: Provider>(b: &Bench<P>, stream: &TcpStream<P>, mem: Mem, at: u64, len: u64) -> CheckStep {
    fill(b, mem, 8, at, len);
    Ok(stream.send(mem, 8, len)?)
}

/// Receives at most `most` bytes, which must be bytes of the stream from `at` on. Returns their number.
#[track_caller]
fn take<P: Provider>(b: &Bench<P>, stream: &TcpStream<P>, mem: Mem, at: u64, most: u64) -> CheckStep<u64> {
    b.provider.write(mem, 0, &vec![UNTOUCHED; most as usize + 16]);
    let taken = stream.recv(mem, 8, most)?;
    holds("recv takes at most the requested number of bytes", taken <= most)?;
    has(b, mem, 8, at, taken)?;
    let beside = [bytes(b, mem, 0, 8), bytes(b, mem, 8 + taken, most + 8 - taken)].concat();
    holds(
        "recv leaves the memory around the received bytes unchanged",
        beside.iter().all(|byte| *byte == UNTOUCHED),
    )?;
    Ok(taken)
}

/// Receives the stream from byte `at` on until it ends. Returns its length.
#[track_caller]
fn take_all<P: Provider>(b: &Bench<P>, stream: &TcpStream<P>, mem: Mem, mut at: u64) -> CheckStep<u64> {
    loop {
        match take(b, stream, mem, at, LEN - 16)? {
            0 => return Ok(at),
            taken => at += taken,
        }
    }
}

/// The receiver uses other sizes than the sender. Each byte arrives once and in order.
pub(crate) fn in_order<P: Provider>(b: &Bench<P>) -> CheckStep {
    const SENT: [u64; 9] = [1, 2, 3, 1447, 1448, 1449, 8191, 4096, 30_000];
    const TAKEN: [u64; 4] = [5, 1000, 1449, 20_000];
    let (stream, mem) = (connection(b)?, memory(b, LEN)?);
    let total: u64 = SENT.iter().sum::<u64>() * 3;
    let mut at = 0;
    if b.is_requester() {
        for len in SENT.into_iter().cycle().take(SENT.len() * 3) {
            send(b, &stream, mem, at, len)?;
            at += len;
        }
        return b.until_peer_ends();
    }
    for most in TAKEN.into_iter().cycle() {
        if at == total {
            return Ok(());
        }
        match take(b, &stream, mem, at, most)? {
            0 => return Err(failed(format!("the stream ended after {at} of {total} bytes"))),
            taken => at += taken,
        }
    }
    Ok(())
}

/// A receiver may receive a part of the available bytes and the rest later. A receive does not wait for more
/// bytes if some are available.
pub(crate) fn parts<P: Provider>(b: &Bench<P>) -> CheckStep {
    let (stream, mem) = (connection(b)?, memory(b, LEN)?);
    if b.is_requester() {
        send(b, &stream, mem, 0, 10)?;
        // Send nothing more before the peer has received the ten bytes.
        b.hear()?;
        return b.until_peer_ends();
    }
    let mut at = take(b, &stream, mem, 0, 4)?;
    while at < 10 {
        let taken = take(b, &stream, mem, at, 1000)?;
        holds("bytes arrive before the end of the stream", taken > 0)?;
        at += taken;
    }
    b.say(&[]);
    Ok(())
}

/// Both sides send before either side receives.
pub(crate) fn both_ways<P: Provider>(b: &Bench<P>) -> CheckStep {
    const EACH: u64 = 8 << 10;
    let (stream, mem) = (connection(b)?, memory(b, LEN)?);
    for round in 0..4 {
        send(b, &stream, mem, round * EACH, EACH)?;
        stream.recv_exact(mem, 8, EACH)?;
        has(b, mem, 8, round * EACH, EACH)?;
    }
    b.meet()
}

/// A listener's connections have separate streams.
pub(crate) fn two_apart<P: Provider>(b: &Bench<P>) -> CheckStep {
    let mem = memory(b, LEN)?;
    if b.is_requester() {
        let address = hear_address(b)?;
        let connect = || TcpStream::connect(&b.provider, address);
        let streams = [connect()?, connect()?];
        for _ in 0..3 {
            for (number, stream) in [1, 0].into_iter().map(|n| (n as u8, &streams[n])) {
                b.provider.write(mem, 0, &[number; 100]);
                stream.send(mem, 0, 100)?;
            }
        }
        return b.until_peer_ends();
    }
    let listener = listen(b)?;
    let mut numbers = Vec::new();
    for stream in [listener.accept()?, listener.accept()?] {
        stream.recv_exact(mem, 0, 300)?;
        let taken = bytes(b, mem, 0, 300);
        holds("all bytes are from one connection", taken.iter().all(|byte| *byte == taken[0]))?;
        numbers.push(taken[0]);
    }
    numbers.sort_unstable();
    same("the list of accepted connections", numbers, vec![0, 1])
}

/// A connection is established, and buffers bytes, before it is accepted. Poll reports a listener with such a
/// connection as ready.
pub(crate) fn before_accept<P: Provider>(b: &Bench<P>) -> CheckStep {
    let mem = memory(b, LEN)?;
    if b.is_requester() {
        let stream = TcpStream::connect(&b.provider, hear_address(b)?)?;
        send(b, &stream, mem, 0, 100)?;
        b.say(&[]);
        return b.until_peer_ends();
    }
    let (listener, address) = match b.provider.tcp_listen() {
        Err(SocketError::Unsupported(why)) => {
            return Err(CheckStop::Skipped(format!("TCP is not available: {why}")));
        }
        listening => listening?,
    };
    let soon = b.provider.now() + Span::from_ms(1);
    same("the index of the ready socket", b.provider.tcp_poll(&[listener], soon)?, None)?;
    b.say(address.to_string().as_bytes());
    b.hear()?;
    same("the index of the ready socket", b.provider.tcp_poll(&[listener], b.deadline())?, Some(0))?;
    let stream = b.provider.tcp_accept(listener)?;
    b.provider.tcp_close(listener);
    let taken = b.provider.tcp_recv(stream, mem, 0, 100)?;
    holds("bytes sent before the listener was closed arrive", taken > 0)?;
    has(b, mem, 0, 0, taken)
}

/// The end of the stream comes after all sent bytes. Further receives report it again.
pub(crate) fn end_of_stream<P: Provider>(b: &Bench<P>) -> CheckStep {
    let (stream, mem) = (connection(b)?, memory(b, LEN)?);
    if b.is_requester() {
        send(b, &stream, mem, 0, 5000)?;
        drop(stream);
        return b.until_peer_ends();
    }
    same("the length of the stream", take_all(b, &stream, mem, 0)?, 5000)?;
    same("the number of bytes after the end", stream.recv(mem, 0, 100)?, 0)?;
    holds("poll reports the end of the stream", stream.poll(b.deadline())?)?;
    same(
        "the outcome of receiving one byte after the end",
        stream.recv_exact(mem, 0, 1),
        Err(SocketError::Reset),
    )
}

/// Sent bytes arrive even if the sender closes while they are in flight.
pub(crate) fn closed_while_sending<P: Provider>(b: &Bench<P>) -> CheckStep {
    const SENT: u64 = 8 * (LEN - 16);
    let (stream, mem) = (connection(b)?, memory(b, LEN)?);
    if b.is_requester() {
        for at in (0..SENT).step_by(LEN as usize - 16) {
            send(b, &stream, mem, at, LEN - 16)?;
        }
        drop(stream);
        return b.until_peer_ends();
    }
    b.silence();
    same("the length of the stream", take_all(b, &stream, mem, 0)?, SENT)
}

/// Sends far more bytes than the buffers hold, from one memory range.
fn flood<P: Provider>(b: &Bench<P>, stream: &TcpStream<P>, mem: Mem) -> Result<(), SocketError> {
    fill(b, mem, 0, 0, LEN);
    (0..FLOOD / LEN).try_for_each(|_| stream.send(mem, 0, LEN))
}

/// A sender blocks while the peer does not receive. It cannot finish before the peer starts to receive.
pub(crate) fn full_window<P: Provider>(b: &Bench<P>) -> CheckStep {
    let (stream, mem) = (connection(b)?, memory(b, LEN)?);
    if b.is_requester() {
        flood(b, &stream, mem)?;
        let done = b.provider.now();
        let heard = <[u8; 8]>::try_from(b.hear()?)
            .map_err(|_| failed("the peer's message is not a time of 8 bytes"))?;
        let begun = Time::from_ps(u64::from_le_bytes(heard));
        return holds("the sender waits until the receiver takes bytes", done >= begun);
    }
    b.silence();
    b.say(&b.provider.now().as_ps().to_le_bytes());
    for _ in 0..FLOOD / LEN {
        stream.recv_exact(mem, 0, LEN)?;
        has(b, mem, 0, 0, LEN)?;
    }
    Ok(())
}

/// A blocked sender gets an error when the peer closes without receiving.
pub(crate) fn peer_goes<P: Provider>(b: &Bench<P>) -> CheckStep {
    let (stream, mem) = (connection(b)?, memory(b, LEN)?);
    if b.is_requester() {
        return same("the outcome of sending", flood(b, &stream, mem), Err(SocketError::Reset));
    }
    b.silence();
    drop(stream);
    b.until_peer_ends()
}

/// A sender to a closed peer gets an error, though perhaps not at once.
pub(crate) fn peer_gone<P: Provider>(b: &Bench<P>) -> CheckStep {
    let (stream, mem) = (connection(b)?, memory(b, LEN)?);
    if !b.is_requester() {
        drop(stream);
        b.say(&[]);
        return b.until_peer_ends();
    }
    b.hear()?;
    let deadline = b.deadline();
    while stream.send(mem, 0, 100) != Err(SocketError::Reset) {
        holds("sending ends", b.provider.now() < deadline)?;
        b.sleep(Span::from_ms(1));
    }
    same("the outcome of sending after the reset", stream.send(mem, 0, 100), Err(SocketError::Reset))?;
    let after = stream.recv(mem, 0, 100);
    holds("no bytes arrive after the reset", matches!(after, Ok(0) | Err(SocketError::Reset)))
}

/// A connection to a closed listener is refused.
pub(crate) fn nobody_listens<P: Provider>(b: &Bench<P>) -> CheckStep {
    if !b.is_requester() {
        drop(listen(b)?);
        b.say(&[]);
        return b.until_peer_ends();
    }
    let address = hear_address(b)?;
    b.hear()?;
    let outcome = TcpStream::connect(&b.provider, address).map(drop);
    same("the outcome", outcome, Err(SocketError::Refused(address)))
}

/// A poll without available bytes ends at its deadline. With available bytes, it ends at once and does not
/// consume them.
pub(crate) fn poll_waits<P: Provider>(b: &Bench<P>) -> CheckStep {
    let (stream, mem) = (connection(b)?, memory(b, LEN)?);
    if !b.is_requester() {
        b.hear()?;
        send(b, &stream, mem, 0, 10)?;
        b.hear()?;
        drop(stream);
        return b.until_peer_ends();
    }
    let p = &b.provider;
    let nothing = || -> CheckStep {
        let deadline = p.now() + Span::from_ms(20);
        same("the outcome of a poll without bytes", stream.poll(deadline)?, false)?;
        holds("a poll without bytes lasts until its deadline", p.now() >= deadline)
    };
    nothing()?;
    same("the outcome of a poll with a past deadline", stream.poll(Time::START)?, false)?;
    b.say(&[]);
    holds("poll reports bytes that arrive", stream.poll(b.deadline())?)?;
    let mut at = 0;
    while at < 10 {
        holds(
            "a poll with a past deadline reports bytes that have arrived",
            at > 0 || stream.poll(Time::START)?,
        )?;
        at += take(b, &stream, mem, at, 7)?;
    }
    nothing()?;
    b.say(&[]);
    holds("poll reports the end of the stream", stream.poll(b.deadline())?)?;
    same("the number of bytes left", stream.recv(mem, 0, 10)?, 0)
}

/// A poll of several sockets returns the first one that is ready.
pub(crate) fn poll_first<P: Provider>(b: &Bench<P>) -> CheckStep {
    let (p, mem) = (&b.provider, memory(b, LEN)?);
    if b.is_requester() {
        let address = hear_address(b)?;
        let streams: Vec<_> = (0..3).map(|_| p.tcp_connect(address)).collect::<Result<_, _>>()?;
        for (number, stream) in (0..).zip(&streams) {
            p.store_u8(mem, 0, number);
            p.tcp_send(*stream, mem, 0, 1)?;
        }
        b.say(&[]);
        same("the index of the ready stream", p.tcp_poll(&streams, b.deadline())?, Some(1))?;
        b.say(&[]);
        // Streams 1 and 2 are both ready once the bytes for stream 2 have arrived.
        same("the index of the ready stream", p.tcp_poll(&streams[2..], b.deadline())?, Some(0))?;
        same("the index of the ready stream", p.tcp_poll(&streams, b.deadline())?, Some(1))?;
        same("the index of the ready stream", p.tcp_poll(&[streams[2], streams[1]], b.deadline())?, Some(0))?;
        same("the ready stream of an empty list", p.tcp_poll(&[], p.now())?, None)?;
        return Ok(());
    }
    let listener = listen(b)?;
    let mut streams = Vec::new();
    for _ in 0..3 {
        let stream = listener.accept()?;
        stream.recv_exact(mem, 0, 1)?;
        streams.push((p.load_u8(mem, 0), stream));
    }
    streams.sort_by_key(|(number, _)| *number);
    for (_, stream) in &streams[1..] {
        b.hear()?;
        send(b, stream, mem, 0, 10)?;
    }
    b.until_peer_ends()
}

/// Handles without a socket, and sockets that do not support the operation, are refused.
pub(crate) fn wrong_sockets<P: Provider>(b: &Bench<P>) -> CheckStep {
    let (listens, mem) = (listener(b)?, memory(b, 64)?);
    let p = &b.provider;
    let (closed, _) = p.tcp_listen()?;
    p.tcp_close(closed);
    let invalid = |what: &str, outcome: Result<(), SocketError>| -> CheckStep {
        let refusal = refused(what, outcome)?;
        holds(
            &format!("the refusal of {what} is Invalid: {refusal:?}"),
            matches!(refusal, SocketError::Invalid(_)),
        )
    };
    for socket in [closed, SocketHandle(u32::MAX)] {
        invalid("accept", p.tcp_accept(socket).map(drop))?;
        invalid("poll", p.tcp_poll(&[socket], Time::START).map(drop))?;
        invalid("send", p.tcp_send(socket, mem, 0, 8))?;
        invalid("recv", p.tcp_recv(socket, mem, 0, 8).map(drop))?;
        p.tcp_close(socket);
    }
    let (listening, _) = p.tcp_listen()?;
    invalid("send on a listener", p.tcp_send(listening, mem, 0, 8))?;
    invalid("recv on a listener", p.tcp_recv(listening, mem, 0, 8).map(drop))?;
    drop(listens);
    Ok(())
}
