//! A client of a store over HERD's RPCs. It may GET by READ.

use super::server::{config, layout};
use crate::kv::{CaseStore, History, KvCase, KvEvent, KvOp, Script, number, wait};
use doorbell_systems::SystemError;
use doorbell_systems::herd::{self, RpcOutcome};
use doorbell_systems::kv::{Key, Reply, Request, numbered, owner};
use doorbell_systems::read_kv::KvReader;
use doorbell_verbs::{Program, Provider, Time};
use std::collections::HashMap;

/// The request of an operation. If the client knows a version, a GET mostly asks only for a change.
fn request(script: &mut Script, key: Key, op: KvOp, versions: &HashMap<Key, (u32, u64)>) -> Request {
    match op {
        KvOp::Get(_) => match versions.get(&key) {
            Some((version, _)) if script.below(4) > 0 => Request::GetIfNot(key, *version),
            _ => Request::Get(key),
        },
        KvOp::Put(n) => Request::Put(key, script.value(n)),
        KvOp::Insert(n, _) => Request::Insert(key, script.value(n)),
        KvOp::Update(n, _) => Request::Update(key, script.value(n)),
        KvOp::Delete(_) => Request::Delete(key),
    }
}

/// The operation with its outcome. `unchanged` is the value of the version in the request.
fn outcome(op: KvOp, outcome: &RpcOutcome<Reply>, unchanged: Option<u64>) -> Result<KvOp, SystemError> {
    let RpcOutcome::Reply(reply) = outcome else {
        return Err(SystemError::Protocol(format!("malformed: {op:?}")));
    };
    let done = *reply == Reply::Ok;
    Ok(match (op, reply) {
        (KvOp::Get(_), Reply::Value(_, value)) => KvOp::Get(Some(number(value)?)),
        (KvOp::Get(_), Reply::NotFound) => KvOp::Get(None),
        (KvOp::Get(_), Reply::Ok) if unchanged.is_some() => KvOp::Get(unchanged),
        (KvOp::Put(n), Reply::Ok) => KvOp::Put(n),
        (KvOp::Insert(n, _), Reply::Ok | Reply::Exists) => KvOp::Insert(n, done),
        (KvOp::Update(n, _), Reply::Ok | Reply::NotFound) => KvOp::Update(n, done),
        (KvOp::Delete(_), Reply::Ok | Reply::NotFound) => KvOp::Delete(done),
        _ => return Err(SystemError::Protocol(format!("the reply to {op:?} is {reply:?}"))),
    })
}

/// Operations that have begun: key, operation, and the value of the version in the request.
type Asked = HashMap<u64, (u64, KvOp, Option<u64>)>;

pub(crate) struct HerdKvCaseClient<S> {
    pub(crate) case: KvCase<S>,
    /// Whether its GETs are READs.
    pub(crate) reads: bool,
    pub(crate) number: u32,
    pub(crate) end: Time,
}

impl<S: CaseStore> Program for HerdKvCaseClient<S> {
    type Output = Result<History, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let (config, outstanding) = (config(&self.case), self.case.outstanding);
        let mut client = herd::HerdClient::start(&p, &config, self.number, outstanding)?;
        let mut reader = match self.reads {
            true => Some(KvReader::start(&p, layout(), config.workers, self.number, outstanding)?),
            false => None,
        };
        let mut script = Script::new(&self.case, self.number);
        let mut versions: HashMap<Key, (u32, u64)> = HashMap::new();
        let mut asked = Asked::new();
        let mut history = History::default();
        let (mut done, mut gotten, mut sent) = (Vec::new(), Vec::new(), 0);
        while (history.events.len() as u64) < self.case.operations {
            let mut busy = false;
            while sent - (history.events.len() as u64) < outstanding.into() && sent < self.case.operations {
                let (k, op) = script.draw();
                let key = numbered(k);
                let worker = owner(&key, config.workers);
                let mut cached = None;
                match (&mut reader, op) {
                    (Some(reader), KvOp::Get(_)) => reader.begin(key, sent)?,
                    _ if !client.has_room(worker) => break,
                    _ => {
                        let request = request(&mut script, key, op, &versions);
                        if let Request::GetIfNot(key, _) = &request {
                            cached = versions.get(key).map(|(_, value)| *value);
                        }
                        client.send(worker, &request, sent)?;
                    }
                }
                asked.insert(sent, (k, op, cached));
                sent += 1;
                busy = true;
            }
            busy |= client.poll(&mut done)?;
            for d in done.drain(..) {
                let (key, op, cached) = asked[&d.tag];
                if let RpcOutcome::Reply(Reply::Value(version, value)) = &d.outcome {
                    versions.insert(numbered(key), (*version, number(value)?));
                }
                let ok = d.outcome == RpcOutcome::Reply(Reply::Ok);
                history.unchanged += u64::from(ok && matches!(op, KvOp::Get(_)));
                let op = outcome(op, &d.outcome, cached)?;
                history.events.push(KvEvent { key, op, began: d.sent, ended: p.now() });
            }
            if let Some(reader) = &mut reader {
                busy |= reader.poll(&mut gotten)?;
            }
            for g in gotten.drain(..) {
                let op = KvOp::Get(g.found.map(|(_, v)| number(&v)).transpose()?);
                history.events.push(KvEvent { key: asked[&g.tag].0, op, began: g.began, ended: p.now() });
                history.again += g.again;
            }
            let repeated = client.repeat()?;
            history.repeated += repeated;
            if !busy && repeated == 0 {
                wait(&p, self.end, client.due(), history.events.len() as u64)?;
            }
        }
        Ok(history)
    }
}
