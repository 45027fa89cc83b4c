//! DrTM-KV, as cases set it up.

use crate::kv::{CaseStore, History, KEYS, KvCase, KvEvent, KvOp, Script, number, wait};
use crate::stage::{Stage, text};
use doorbell_systems::drtm_kv::{self, ITEM, Items, VALUE};
use doorbell_systems::kv::numbered;
use doorbell_systems::{Record, SystemError, memory_server};
use doorbell_verbs::{Cluster, Program, Provider, Time};
use std::collections::HashMap;

/// DrTM-KV with an item for each key, and one thread.
#[derive(Clone, Copy, Debug)]
pub struct Drtm;

impl CaseStore for Drtm {
    const FIRST: Option<u64> = Some(0);
    const ONLY_PUT_AND_GET: bool = true;
    const LENGTHS: [usize; 2] = [VALUE as usize; 2];

    fn serve<C: Cluster>(case: &KvCase<Drtm>, stage: &mut Stage<'_, C, History>) -> Result<(), String> {
        serve(case.clients, stage)
    }

    fn client(
        case: KvCase<Drtm>,
        number: u32,
        end: Time,
    ) -> impl Program<Output = Result<History, SystemError>> {
        DrtmCaseClient { case, number, end }
    }
}

/// Adds the server's thread.
pub(super) fn serve<C: Cluster, R: Record>(clients: u32, stage: &mut Stage<'_, C, R>) -> Result<(), String> {
    let items = stage.alloc(KEYS * ITEM).map_err(text)?;
    stage.cluster().preset(0, items, drtm_kv::fill);
    memory_server::put_up(stage, drtm_kv::SERVICE, clients, items, drtm_kv::ACCESS);
    Ok(())
}

struct DrtmCaseClient {
    case: KvCase<Drtm>,
    number: u32,
    end: Time,
}

impl Program for DrtmCaseClient {
    type Output = Result<History, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let outstanding = self.case.outstanding;
        let mut items = Items::start(&p, self.number, outstanding, true)?;
        let mut script = Script::new(&self.case, self.number);
        let mut asked: HashMap<u64, (u64, KvOp)> = HashMap::new();
        let (mut history, mut done, mut sent) = (History::default(), Vec::new(), 0);
        while (history.events.len() as u64) < self.case.operations {
            let mut busy = false;
            while items.outstanding() < outstanding && sent < self.case.operations {
                let (key, op) = script.draw();
                match op {
                    KvOp::Put(n) => items.put(key, script.value(n), sent)?,
                    _ => items.get(key, sent)?,
                }
                asked.insert(sent, (key, op));
                sent += 1;
                busy = true;
            }
            busy |= items.poll(&mut done)?;
            for d in done.drain(..) {
                let (key, op) = asked[&d.tag];
                let op = match d.item {
                    None => op,
                    Some((found, ..)) if found != numbered(key) => {
                        return Err(SystemError::Protocol(format!("item {key} has another key")));
                    }
                    Some((.., value)) => KvOp::Get(Some(number(&value)?)),
                };
                history.events.push(KvEvent { key, op, began: d.began, ended: p.now() });
                history.again += d.again;
            }
            if !busy {
                wait(&p, self.end, Time::NEVER, history.events.len() as u64)?;
            }
        }
        Ok(history)
    }
}
