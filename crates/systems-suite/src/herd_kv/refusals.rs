//! Requests out of range get an error reply, and the server goes on.

use super::server::{config, layout, serve};
use super::store::Herd;
use crate::faults::Faults;
use crate::kv::{KvCase, MAX_REQUEST_VALUE, MAX_VALUE};
use crate::layer::{Layer, Layered};
use crate::stage::{self, place};
use doorbell_systems::SystemError;
use doorbell_systems::herd::{HerdClient, Message, RpcOutcome};
use doorbell_systems::kv::{Refusal, Reply, Request, numbered, owner};
use doorbell_verbs::{Cluster, Mem, Program, Provider, Span, Time};

/// A request of any bytes.
struct Junk(Vec<u8>);

impl Message for Junk {
    fn encode(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.0);
    }

    fn decode(_: &[u8]) -> Option<Junk> {
        None
    }
}

/// A case with one client that sends bad requests, and one that lies.
fn misused() -> KvCase<Herd> {
    KvCase { clients: 2, ..KvCase::idle(Herd, 2) }
}

fn wrong(what: String) -> SystemError {
    SystemError::Protocol(what)
}

/// Claims in each slot that the request is far longer than a slot.
#[derive(Clone)]
struct Lying;

impl Layer for Lying {
    /// Clients store only the word behind a request by this call; see [`doorbell_systems::herd`].
    fn store_u64<P: Provider>(&self, below: &P, mem: Mem, offset: u64, value: u64) {
        below.store_u64(mem, offset, (u64::from_le(value) | 0xffff << 16).to_le());
    }
}

/// Sends requests that must be refused, and in the end one that must not.
struct Misuse {
    end: Time,
}

/// Sends one request and compares its outcome.
fn ask<P: Provider, M: Message>(
    p: &P,
    client: &mut HerdClient<P>,
    (worker, request): (u32, &M),
    expected: &RpcOutcome<Reply>,
    end: Time,
) -> Result<(), SystemError> {
    let mut done = Vec::new();
    client.send(worker, request, 0)?;
    while !client.poll(&mut done)? {
        if p.now() >= end {
            return Err(SystemError::Timeout(format!("no reply arrived, but {expected:?} was expected")));
        }
        p.pause(end);
    }
    match done.iter().find(|d| d.outcome != *expected) {
        None => Ok(()),
        Some(d) => Err(wrong(format!("the reply is {:?}, not {expected:?}", d.outcome))),
    }
}

impl Program for Misuse {
    type Output = Result<u64, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let config = config(&misused());
        let client = &mut HerdClient::start(&p, &config, 0, 1)?;
        let key = numbered(0);
        let own = owner(&key, config.workers);
        if client.send(own, &Junk(vec![1; 1000]), 0).is_ok() {
            return Err(wrong("the client accepted a request longer than a slot".into()));
        }
        for junk in [vec![], vec![9; 30], vec![1; 10]] {
            ask(&p, client, (own, &Junk(junk)), &RpcOutcome::Malformed, self.end)?;
        }
        let refused = |refusal| RpcOutcome::Reply(Reply::Refused(refusal));
        for length in [MAX_VALUE + 1, MAX_REQUEST_VALUE] {
            let put = Request::Put(key, vec![0; length as usize]);
            ask(&p, client, (own, &put), &refused(Refusal::TooLong), self.end)?;
        }
        ask(&p, client, (1 - own, &Request::Get(key)), &refused(Refusal::OtherPartition), self.end)?;
        ask(&p, client, (own, &Request::Get(key)), &RpcOutcome::Reply(Reply::NotFound), self.end)?;
        let put = Request::Put(key, vec![7; MAX_VALUE as usize]);
        ask(&p, client, (own, &put), &RpcOutcome::Reply(Reply::Ok), self.end)?;
        Ok(0)
    }
}

/// Sends requests with an impossible length in their slots.
struct Liar {
    end: Time,
}

impl Program for Liar {
    type Output = Result<u64, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let p = Layered::new(p, Lying);
        let config = config(&misused());
        let client = &mut HerdClient::start(&p, &config, 1, 1)?;
        let key = numbered(0);
        for _ in 0..3 {
            let request = (owner(&key, config.workers), &Request::Get(key));
            ask(&p, client, request, &RpcOutcome::Malformed, self.end)?;
        }
        Ok(0)
    }
}

/// Sends malformed requests, values that are too long, keys of another worker, and lengths that exceed the
/// slot.
///
/// # Errors
/// A description of the failure.
pub fn refuses<C: Cluster>(cluster: &mut C, patience: Span) -> Result<(), String> {
    let machines = cluster.machines();
    let mut stage = stage::stage(cluster, Faults::default(), patience)?;
    serve(&misused(), layout(), 0, &mut stage)?;
    let end = stage.client_interval().end();
    stage.add_client(place(machines, 0), Misuse { end });
    stage.add_client(place(machines, 1), Liar { end });
    stage::run::<C, u64>(stage).map(drop)
}
