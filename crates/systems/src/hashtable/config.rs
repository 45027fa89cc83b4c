//! Parameters of the hashtable.

use super::table::TableLayout;
use crate::config::{Clients, Pairs, Seats, Timing, Values};
use crate::kv::Load;
use crate::proxy::Path;
use crate::spinlock::Waits;
use crate::spinlock::word;
use doorbell_schema::{Duration, Field, Flag, Share, schema};

/// Largest size in bytes that the areas of all back-ends may have together.
const LARGEST: u64 = 1 << 30;

schema! {
    /// A hashtable in the memory of back-ends.
    pub struct Hashtable {
        groups {
            /// Front-ends: threads that take turns with the sockets of their machine.
            clients: Clients,
            /// The keys that the table holds.
            pairs: Pairs,
            /// The values of the keys.
            values: Values,
            /// The interval that is measured, and the seed.
            timing: Timing,
        }
        /// Machines that hold the table; keys take turns with them and their sockets.
        back_ends: u32 = Field::count(1, 64),
        /// Versions of a cold key that are kept, each in its own slot.
        versions: u32 = Field::count(2, 64),
        /// Share of the keys that are hot at first, the most frequent ones: writes to them are held back,
        /// block by block.
        hot: Share = Field::share(Share::of_millionths(0), Share::of_percent(100)),
        /// Operations of a thousand that make their key hot, and the key in its place cold.
        move_permille: u32 = Field::permille(),
        /// Entries of a hot block, as a power of two: the paper's t.
        block_log2: u32 = Field::count(0, 6),
        /// Modifications of a block after which it is posted; with 1 each write is posted at once.
        theta: u32 = Field::count(1, 4096),
        /// Age of the oldest modification at which a block with fewer modifications is posted.
        time_out: Duration = Field::positive_time(),
        /// Time for which a lock is held, or a version may be written, until others may take it over.
        table_lease: Duration = Field::positive_time(),
        /// Assumed bound on how far clocks go apart and holders stop: a lease is taken over only this long
        /// after its end.
        drift: Duration = Field::time(),
        /// First wait after a failed attempt, of which half or more is drawn; it doubles with each failure; 0
        /// for no waits.
        backoff: Duration = Field::time(),
        /// Longest wait after a failed attempt.
        backoff_most: Duration = Field::time(),
        /// Write a cold version only once the version before it in its slot is done, so that a late writer
        /// harms nothing.
        guard: bool = Field::switch()
            .flags(&[Flag::no(
                "no-guard",
                "Write a cold version as soon as its number is drawn, without protection from late writers",
            )]),
        /// How a thread reaches memory at a remote socket with another number than its own.
        path: Path = Field::name(Path::NAMES),
        /// Sockets of each machine; sockets of equal number match.
        sockets: u32 = Field::count(1, 8),
        /// Cores of a socket; cores are numbered socket by socket.
        cores_per_socket: u32 = Field::count(1, 256),
    }
}

impl Hashtable {
    /// The layout of the records, blocks and locks.
    pub(super) fn table(&self) -> TableLayout {
        let hot = u128::from(self.pairs.pairs) * u128::from(self.hot.millionths()) / 1_000_000;
        TableLayout {
            pairs: self.pairs.pairs,
            blocks: (hot as u64 >> self.block_log2) as u32,
            entries: 1 << self.block_log2,
            value: self.values.value,
            versions: self.versions,
            areas: self.back_ends * self.sockets,
            clients: self.clients.clients,
        }
    }

    /// Bytes of all areas of the table.
    pub(super) fn bytes(&self) -> u64 {
        let table = self.table();
        table.area_bytes() * u64::from(table.areas)
    }

    /// The keys and operations that front-ends draw.
    pub(super) fn load(&self) -> Load {
        self.pairs.load(1, self.values.value, &self.clients, &self.timing)
    }

    /// Waits after failed attempts.
    pub(super) fn waits(&self) -> Waits {
        Waits { first: self.backoff.span(), most: self.backoff_most.span() }
    }

    fn seats(&self) -> Seats {
        let per_machine = self.clients.clients_per_machine;
        Seats { per_machine, sockets: self.sockets, cores_per_socket: self.cores_per_socket }
    }

    /// The socket of the core on which a front-end runs.
    pub(super) fn socket(&self, client: u32) -> u32 {
        self.seats().socket(client)
    }

    /// Machine and core of a front-end.
    pub fn place(&self, client: u32) -> (u32, u32) {
        let (machine, core) = self.seats().place(client);
        (self.back_ends - 1 + machine, core)
    }

    /// The first front-end on the machine of `client`, and how many front-ends the machine has.
    pub(super) fn mates(&self, client: u32) -> (u32, u32) {
        self.seats().mates(self.clients.clients, client)
    }

    /// The proxy: the front-end that posts the lists of `client` for a socket. `None` if the machine of
    /// `client` has no front-end at this socket.
    pub(super) fn proxy(&self, client: u32, socket: u32) -> Option<u32> {
        self.seats().proxy(self.clients.clients, client, socket)
    }

    /// Largest number of operations and publications that a front-end has in flight.
    pub(super) fn operations(&self) -> u32 {
        2 * self.clients.outstanding
    }

    /// The sockets to which a front-end has QPs, on each back-end.
    pub(super) fn ends(&self, client: u32) -> Vec<u32> {
        match self.path {
            Path::Direct => (0..self.sockets).collect(),
            Path::Home => vec![self.socket(client)],
            Path::Proxy => {
                let own = self.socket(client);
                (0..self.sockets).filter(|to| *to == own || self.proxy(client, *to).is_none()).collect()
            }
        }
    }

    /// The QPs to each back-end: pairs of a front-end and a socket of the back-end.
    pub(super) fn links(&self) -> Vec<(u32, u32)> {
        let of = |client| self.ends(client).into_iter().map(move |end| (client, end));
        (0..self.clients.clients).flat_map(of).collect()
    }

    /// Refuses parameters that contradict each other, with one sentence.
    pub(super) fn refuse(&self) -> Result<(), String> {
        let Hashtable { clients, table_lease: lease, drift, .. } = self;
        self.seats().refuse()?;
        if clients.windows {
            return Err(
                "hashtable has no windows: a front-end begins an operation as soon as there is room".into()
            );
        }
        if self.move_permille > 0 && self.table().blocks == 0 {
            return Err(format!(
                "move_permille is {}, but no key is hot: {} keys with hot {} do not fill a block of {}",
                self.move_permille,
                self.pairs.pairs,
                self.hot,
                1 << self.block_log2
            ));
        }
        if self.backoff > self.backoff_most {
            return Err(format!(
                "backoff is {}, but the longest wait, backoff_most, is {}",
                self.backoff, self.backoff_most
            ));
        }
        let (clients, most) = (clients.clients, word::CLIENTS);
        if clients > most {
            return Err(format!("clients is {clients}, but a lock with a lease has at most {most} clients"));
        }
        if lease.span().as_ps().saturating_add(drift.span().as_ps()) > word::LONGEST.as_ps() {
            let longest = Duration::new(word::LONGEST);
            return Err(format!(
                "table_lease is {lease} and drift is {drift}, but their sum must be at most {longest}"
            ));
        }
        let bytes = self.bytes();
        if bytes > LARGEST {
            return Err(format!(
                "the table takes {bytes} bytes on all back-ends together, but at most {LARGEST} are possible"
            ));
        }
        Ok(())
    }
}
