//! Requests out of range are refused, and the server goes on.

use super::store::serve;
use crate::faults::Faults;
use crate::kv::KEYS;
use crate::stage::{self, place};
use doorbell_systems::SystemError;
use doorbell_systems::drtm_kv::{Done, Items};
use doorbell_systems::kv::numbered;
use doorbell_verbs::{Cluster, Program, Provider, Span, Time, WcStatus};

/// Requests an item that does not exist. Then, as another client, requests one that exists.
struct OutOfItems {
    end: Time,
}

impl OutOfItems {
    fn get<P: Provider>(&self, p: &P, client: u32, item: u64) -> Result<Done, SystemError> {
        let mut items = Items::start(p, client, 1, true)?;
        items.get(item, 0)?;
        let mut done = Vec::new();
        while !items.poll(&mut done)? {
            if p.now() >= self.end {
                return Err(SystemError::Timeout(format!("the GET of item {item} did not end")));
            }
            p.pause(self.end);
        }
        Ok(done.remove(0))
    }
}

impl Program for OutOfItems {
    type Output = Result<u64, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        match self.get(&p, 0, KEYS + 1000) {
            Err(SystemError::Completion(WcStatus::RemAccessErr)) => {}
            other => {
                return Err(SystemError::Protocol(format!(
                    "a GET of an item out of range ended with {other:?}"
                )));
            }
        }
        match self.get(&p, 1, 0)?.item {
            Some((key, ..)) if key == numbered(0) => Ok(0),
            other => Err(SystemError::Protocol(format!("item 0 is {other:?}"))),
        }
    }
}

/// Requests items of DrTM-KV that do not exist.
///
/// # Errors
/// A description of the failure.
pub fn refuses<C: Cluster>(cluster: &mut C, patience: Span) -> Result<(), String> {
    let machines = cluster.machines();
    let mut stage = stage::stage(cluster, Faults::default(), patience)?;
    serve(2, &mut stage)?;
    let end = stage.client_interval().end();
    stage.add_client(place(machines, 0), OutOfItems { end });
    stage::run::<C, u64>(stage).map(drop)
}
