//! The hashtable's guarantees. Reads find only written values, and a front-end reads its own writes. Versions
//! of a key never go back. Published values are seen, and acknowledged writes are there in the end.

mod history;
mod script;

pub use history::SeenValue;
pub(crate) use history::{History, Missing, check};
pub(crate) use script::Script;

use crate::check::{Check, Scale, Trouble};
use crate::deployed;
use crate::faults::Faults;
use crate::stage::{self, text};
use doorbell_schema::{Duration, Share};
use doorbell_systems::hashtable::{FrontEnd, Hashtable, Neighbours, put_up};
use doorbell_systems::proxy::Path;
use doorbell_systems::{Interval, System, SystemError};
use doorbell_verbs::{Cluster, Program, Provider, Span};

/// Front-ends that read and write few keys. One more reads all keys in the end.
#[derive(Clone, Debug)]
pub struct TableCase {
    /// The table. Its clients include the front-end that reads all keys.
    pub config: Hashtable,
    /// Operations of each front-end.
    pub operations: u64,
    /// The injected faults.
    pub faults: Faults,
}

/// A small table, with which front-ends are soon done.
pub fn small(clients: u32) -> Hashtable {
    let us = |us| Duration::new(Span::from_us(us));
    let mut config = Hashtable::usual();
    (config.clients.clients, config.clients.clients_per_machine) = (clients + 1, (clients + 1).div_ceil(2));
    (config.clients.outstanding, config.back_ends) = (3, 1);
    (config.pairs.pairs, config.pairs.put_permille) = (24, 500);
    (config.versions, config.hot, config.block_log2, config.theta) = (3, Share::of_percent(50), 2, 4);
    (config.time_out, config.table_lease, config.drift) = (us(30), us(100), us(100));
    config
}

impl TableCase {
    /// Number of front-ends, without the one that reads all keys.
    pub fn front_ends(&self) -> u32 {
        self.config.clients.clients - 1
    }

    /// Runs the case and checks all histories. Returns their counts, or nothing if machine 0 is in another
    /// process.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn run<C: Cluster>(&self, cluster: &mut C, patience: Span) -> Result<Option<SeenValue>, String> {
        let mut stage = stage::stage::<C, History>(cluster, self.faults, patience)?;
        for (number, neighbours) in (0..).zip(put_up(&mut stage, &self.config).map_err(text)?) {
            let interval = stage.client_interval();
            let client = TableCaseClient { case: self.clone(), number, neighbours, interval };
            stage.add_client(self.config.place(number), client);
        }
        let histories = stage::run(stage)?;
        if histories.is_empty() {
            return Ok(None);
        }
        check(&histories, Missing::Nothing, self.config.pairs.pairs).map(Some)
    }
}

fn done_key(number: u32) -> String {
    format!("hashtable/done/{number}")
}

struct TableCaseClient {
    case: TableCase,
    number: u32,
    neighbours: Neighbours,
    interval: Interval,
}

impl Program for TableCaseClient {
    type Output = Result<History, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let TableCaseClient { case, number, neighbours, interval } = self;
        let mut front_end = FrontEnd::open(&p, &case.config, number, neighbours)?;
        let looks = number == case.front_ends();
        let mut script = if looks {
            (0..case.front_ends()).for_each(|other| drop(p.lookup(&done_key(other))));
            Script::look(&case.config)
        } else {
            Script::new(&case.config, number, case.operations)
        };
        let ended = front_end.run(&mut script, &interval);
        p.publish(&done_key(number), &[]);
        ended?;
        front_end.serve(&interval)?;
        script.end()
    }
}

fn listed<C: Cluster>(
    cluster: &mut C,
    scale: &Scale,
    hot: u32,
    change: impl Fn(&mut Hashtable),
    trouble: Trouble,
) -> Result<(), String> {
    let mut config = small(scale.clients);
    config.clients.clients_per_machine = (scale.clients + 1).div_ceil(cluster.machines() - config.back_ends);
    config.hot = Share::of_percent(hot);
    // In real time, a thread stops for as long as another thread has its processor.
    (config.table_lease, config.drift) = (Duration::new(scale.retry), Duration::new(scale.retry * 10));
    change(&mut config);
    let operations = scale.operations / u64::from(trouble.part());
    let case = TableCase { config, operations, faults: trouble.faults(scale) };
    case.run(cluster, scale.patience).map(drop)
}

/// The checks of the hashtable.
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    let same = |_: &mut Hashtable| {};
    let two = |config: &mut Hashtable| {
        (config.back_ends, config.clients.clients_per_machine) = (2, config.clients.clients);
    };
    let by_proxies = |config: &mut Hashtable| {
        // The front-end that reads all keys waits, so it is no proxy.
        config.clients.clients_per_machine = config.clients.clients - 1;
        config.path = Path::Proxy;
    };
    let moving = |config: &mut Hashtable| config.move_permille = 200;
    let check = |name: &str, hot: u32, change: fn(&mut Hashtable), trouble: Trouble| {
        Check::new(format!("systems/hashtable/{name}"), move |cluster: &mut C, scale: &Scale| {
            listed(cluster, scale, hot, change, trouble)
        })
    };
    vec![
        check("cold", 0, same, Trouble::None),
        check("cold_in_parts", 0, same, Trouble::Hesitation),
        check("cold_stops", 0, same, Trouble::Stops),
        check("hot", 100, same, Trouble::None),
        check("hot_in_parts", 100, same, Trouble::Hesitation),
        check("hot_stops", 100, same, Trouble::Stops),
        check("both", 50, same, Trouble::None),
        check("both_of_two_back_ends", 50, two, Trouble::None),
        check("both_by_proxies", 50, by_proxies, Trouble::None),
        check("moving", 50, moving, Trouble::None),
        check("moving_in_parts", 50, moving, Trouble::Hesitation),
        check("moving_stops", 50, moving, Trouble::Stops),
        deployed::check::<Hashtable, C>(),
    ]
}
