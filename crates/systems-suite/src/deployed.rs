//! A system as it is deployed, with its own clients. Its run must end, and must have served them.

use crate::check::{Check, Scale};
use doorbell_schema::{Given, Value};
use doorbell_systems::config::{Clients, Pairs, Workers};
use doorbell_systems::drtm_kv::DrtmKv;
use doorbell_systems::hashtable::Hashtable;
use doorbell_systems::join::Join;
use doorbell_systems::local_memory::LocalMemory;
use doorbell_systems::log::Log;
use doorbell_systems::ping_pong::PingPong;
use doorbell_systems::site::Course;
use doorbell_systems::spinlock::{Locks, RemoteSpinlock};
use doorbell_systems::{Interval, System};
use doorbell_verbs::{Cluster, Span};

/// Time before measuring begins.
const WARMUP: Span = Span::from_ms(1);
/// The measured time in virtual time. It is long enough because no client waits for a processor.
const VIRTUAL: Span = Span::from_us(50);

/// A small configuration of the system, for this many machines.
fn small<S: System>(machines: u32, scale: &Scale) -> Result<S, String> {
    let clients = u64::from(scale.clients);
    let release = if scale.writes_back { "cas" } else { "write" };
    let parameters = [
        (RemoteSpinlock::release.key, Value::Text(release.into())),
        (Clients::clients.key, Value::Number(clients)),
        (Clients::clients_per_machine.key, Value::Number(clients.div_ceil(u64::from(machines - 1)))),
        (Clients::outstanding.key, Value::Number(4)),
        (Workers::cores.key, Value::Number(2)),
        (Pairs::pairs.key, Value::Number(1024)),
        (Join::tuples.key, Value::Number(64)),
        (Pairs::put_permille.key, Value::Number(300)),
        (DrtmKv::update.key, Value::Switch(true)),
        (PingPong::size.key, Value::Number(1000)),
        (Locks::data.key, Value::Number(64)),
        (LocalMemory::region.key, Value::Number(1 << 20)),
        (Hashtable::back_ends.key, Value::Number(1)),
        // In real time, engines wait for processors.
        (Log::hole_patience.key, Value::Text("10s".into())),
    ];
    let mut given = Given::default();
    for (key, value) in parameters {
        if let Some(field) = S::fields().into_iter().find(|field| field.key == key) {
            given.set(field, value)?;
        }
    }
    S::of(&given)
}

/// The check `systems/deployed/NAME` of a system.
pub fn check<S: System, C: Cluster>() -> Check<C> {
    check_for::<S, C>(1)
}

/// Like [`check`], but in real time it measures `times` as long. It is for systems in which all clients must
/// make progress for one operation, which takes a turn of each at the processors.
pub(crate) fn check_for<S: System, C: Cluster>(times: u64) -> Check<C> {
    let name = format!("systems/deployed/{}", S::NAME);
    Check::new(name, move |cluster, scale| run::<S, C>(cluster, scale, times))
}

fn run<S: System, C: Cluster>(cluster: &mut C, scale: &Scale, times: u64) -> Result<(), String> {
    let span = if cluster.is_virtual() { VIRTUAL } else { scale.deployed * times };
    let system: S = small(cluster.machines(), scale)?;
    let course = match cluster.is_virtual() {
        true => Course::Fixed(Interval::after(system.shape().begin(), WARMUP, span)),
        false => Course::Together { warmup: WARMUP, span },
    };
    let Some(ended) = system.run(cluster, course).map_err(|error| error.to_string())? else { return Ok(()) };
    let done: Vec<u64> = ended.clients.iter().map(|client| client.done).collect();
    // A real processor may not have run each client.
    let served = if cluster.is_virtual() { done.iter().all(|n| *n > 0) } else { done.iter().any(|n| *n > 0) };
    if served { Ok(()) } else { Err(format!("too few clients completed operations: {done:?}")) }
}
