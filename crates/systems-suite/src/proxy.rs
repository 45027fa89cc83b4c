//! READs of other sockets' memory. Clients compare all bytes with the target's, whatever path the READ takes.

use crate::check::{Check, Scale, Trouble};
use crate::deployed;
use crate::stage::{self, text};
use doorbell_systems::proxy::{Path, Proxy, put_up};
use doorbell_systems::{Measured, System};
use doorbell_verbs::Cluster;

const PATHS: [Path; 3] = [Path::Direct, Path::Home, Path::Proxy];

/// Two machines with three threads each, so that one socket has two threads. All READs are of memory at other
/// sockets.
fn config(path: Path) -> Proxy {
    let mut config = Proxy { path, read_bytes: 200, unmatched_permille: 1000, ..Proxy::usual() };
    (config.clients.clients, config.clients.clients_per_machine) = (6, 3);
    config
}

fn run<C: Cluster>(cluster: &mut C, scale: &Scale, path: Path, trouble: Trouble) -> Result<(), String> {
    let config = config(path);
    let limit = u64::from(scale.requests / 4 / trouble.part());
    let mut stage = stage::stage::<C, Measured>(cluster, trouble.faults(scale), scale.patience)?;
    put_up(&mut stage, &config, limit).map_err(text)?;
    let Some(ended) = stage.run().map_err(text)? else { return Ok(()) };
    let [done, by_proxy] = ended
        .clients
        .iter()
        .fold([0, 0], |[done, by_proxy], client| [done + client.done, by_proxy + client.replies]);
    let all = limit * u64::from(config.clients.clients);
    let expected = if path == Path::Proxy { all } else { 0 };
    match (done, by_proxy) == (all, expected) {
        true => Ok(()),
        false => Err(format!(
            "{done} READs ended, {by_proxy} of them by a proxy, but expected were {all} and {expected}"
        )),
    }
}

/// The checks of READs by each path.
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    let mut all = Vec::new();
    for path in PATHS {
        for (what, trouble) in [("bytes", Trouble::None), ("bytes_with_stops", Trouble::Hesitation)] {
            let name = format!("systems/proxy/{}_{what}", path.name());
            all.push(Check::new(name, move |c: &mut C, scale: &Scale| run(c, scale, path, trouble)));
        }
    }
    all.push(deployed::check::<Proxy, C>());
    all
}
