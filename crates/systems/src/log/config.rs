//! Parameters of the log.

use super::layout::Layout;
use super::mark::ENGINES;
use crate::config::{Clients, Timing};
use crate::names::named;
use crate::strategy::Strategy;
use doorbell_schema::{Duration, Field, Flag, schema};

/// Largest number of records in an append, and of bytes in a record.
const MOST_RECORDS: u64 = 256;
const LARGEST_RECORD: u64 = 4096;
/// Largest size of the log in bytes.
const LARGEST: u64 = 1 << 30;

named! {
    /// Whether appends wait or are refused when the log is full.
    Full {
        /// The append waits until the oldest records have been read.
        Wrap = "wrap",
        /// The append is refused, so nothing is ever overwritten.
        Refuse = "refuse",
    }

    /// How an engine reserves positions.
    Reserve {
        /// By a fetch-and-add on the log machine's tail.
        FetchAdd = "fetch-add",
        /// By asking a thread of the log machine, by UD SEND.
        Rpc = "rpc",
    }

    /// The sockets at which clients or tables are, on each machine. NICs are at the first socket.
    At {
        /// At the first socket.
        Near = "near",
        /// At the second socket.
        Far = "far",
        /// Alternately: those with even numbers at the first socket, those with odd numbers at the second.
        Both = "both",
    }
}

schema! {
    /// A log that engines append to by one-sided verbs.
    pub struct Log {
        groups {
            /// Clients: each is an engine of transactions with a data table of its own. Its outstanding
            /// operations are appends.
            clients: Clients,
            /// The interval that is measured, and the seed.
            timing: Timing,
        }
        /// Records of an append, which reserves positions for all of them at once; with 1 each record has its
        /// own reservation.
        records: u32 = Field::count(1, MOST_RECORDS),
        /// Bytes of a record, a multiple of 8.
        record: u32 = Field::bytes(8, LARGEST_RECORD),
        /// How the records of an append leave the table: copied by the core into one WRITE, each as a WRITE,
        /// or gathered by the NIC.
        log_strategy: Strategy = Field::name(Strategy::NAMES),
        /// How positions are reserved: by fetch-and-add on the log machine's memory, or by an RPC to a thread
        /// of the log machine.
        reserve: Reserve = Field::name(Reserve::NAMES),
        /// Records that the log holds.
        log_slots: u64 = Field::count(2, 1 << 24),
        /// Rule for an append when the log is full: it waits until the oldest records have been read, or is
        /// refused.
        log_full: Full = Field::name(Full::NAMES),
        /// Time after which the engines that may own a hole lose their connection to the log.
        hole_patience: Duration = Field::positive_time(),
        /// Records of each client's data table; an append takes records that it has just changed, drawn at
        /// random.
        table: u32 = Field::count(1, 1 << 20),
        /// Sockets at which the clients of a machine run: the first, where the NIC is, the second, or both in
        /// turn.
        clients_at: At = Field::name(At::NAMES),
        /// Sockets at which the clients' data tables are.
        tables_at: At = Field::name(At::NAMES),
        /// Copy records of tables at the second socket together into a buffer at the first, and WRITE them
        /// from there.
        merge: bool = Field::switch()
            .flags(&[Flag::no("no-merge", "Let the NIC gather records from the tables at both sockets")]),
        /// Cores of a socket; cores are numbered socket by socket.
        cores_per_socket: u32 = Field::count(1, 256),
        /// Largest WRITE that is inline, in bytes, if its pieces are copied or it has one piece.
        inline_bytes: u32 = Field::bytes(0, 1024),
    }
}

impl At {
    /// Whether the `n`th client of a machine is at the second socket.
    fn is_far(self, n: u32) -> bool {
        match self {
            At::Near => false,
            At::Far => true,
            At::Both => n % 2 == 1,
        }
    }
}

impl Log {
    /// The layout of the log.
    pub(super) fn layout(&self) -> Layout {
        Layout { engines: self.clients.clients, slots: self.log_slots, record: self.record }
    }

    /// Machine and core of a client.
    pub(super) fn place(&self, client: u32) -> (u32, u32) {
        let (machine, n) = self.clients.place(client);
        let core = match self.clients_at {
            At::Near => n,
            At::Far => self.cores_per_socket + n,
            At::Both => n % 2 * self.cores_per_socket + n / 2,
        };
        (machine, core)
    }

    /// A core at the socket of a client's table.
    pub(super) fn table_core(&self, client: u32) -> u32 {
        if self.is_table_far(client) { self.cores_per_socket } else { 0 }
    }

    /// Whether a client's table is at the second socket.
    pub(super) fn is_table_far(&self, client: u32) -> bool {
        self.tables_at.is_far(self.clients.place(client).1)
    }

    /// A core of the socket to which a client copies records, if it copies them: the NIC's socket if records
    /// are merged, else the client's own.
    pub(super) fn copies_core(&self, client: u32) -> u32 {
        if self.merge { 0 } else { self.place(client).1 }
    }

    /// The strategy by which the records of a client's appends get into WRITEs.
    pub(super) fn gathers(&self, client: u32) -> Strategy {
        if self.merge && self.is_table_far(client) { Strategy::Sp } else { self.log_strategy }
    }

    /// The highest core that a client runs on, or that stands for the socket of a table.
    fn last_core(&self) -> u32 {
        let of_a_machine = self.clients.clients.min(self.clients.clients_per_machine);
        let cores = (0..of_a_machine).map(|client| self.place(client).1.max(self.table_core(client)));
        cores.max().unwrap_or(0)
    }

    /// Whether any client or table is at a second socket.
    pub(super) fn has_far(&self) -> bool {
        self.clients_at != At::Near || self.tables_at != At::Near
    }

    /// Refuses parameters that contradict each other, with one sentence.
    pub(super) fn refuse(&self) -> Result<(), String> {
        let Log { records, record, log_slots, table, clients, .. } = self;
        if !record.is_multiple_of(8) {
            return Err(format!("record is {record}, but a record consists of words: use a multiple of 8"));
        }
        if u64::from(*records) > *log_slots {
            return Err(format!(
                "an append of {records} records does not fit in a log of {log_slots} records (log_slots)"
            ));
        }
        let under_way = records.saturating_mul(clients.outstanding);
        if under_way > *table {
            return Err(format!(
                "table is {table}, but {} outstanding appends of {records} records need {under_way}",
                clients.outstanding
            ));
        }
        let bytes = self.layout().bytes();
        if bytes > LARGEST {
            return Err(format!(
                "a log of {log_slots} records of {record} bytes takes {bytes} bytes, but at most {LARGEST} \
                 are possible"
            ));
        }
        if clients.clients > ENGINES {
            return Err(format!("clients is {}, but a log has at most {ENGINES} engines", clients.clients));
        }
        let (last, cores) = (self.last_core(), 2 * self.cores_per_socket);
        if self.has_far() && last >= cores {
            return Err(format!(
                "clients of a machine need cores up to number {last}, but two sockets of {} cores have \
                 {cores}",
                self.cores_per_socket
            ));
        }
        if clients.windows {
            return Err("log has no windows: a client appends as soon as there is room".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::System;

    #[test]
    fn what_cannot_be_is_refused_in_one_sentence() {
        let log = |change: fn(&mut Log)| {
            let mut log = Log::usual();
            change(&mut log);
            log
        };
        for (log, said) in [
            (log(|log| log.record = 12), "record is 12, but a record consists of words: use a multiple of 8"),
            (
                log(|log| log.log_slots = 31),
                "an append of 32 records does not fit in a log of 31 records (log_slots)",
            ),
            (log(|log| log.table = 31), "table is 31, but 1 outstanding appends of 32 records need 32"),
            (
                log(|log| (log.log_slots, log.record) = (1 << 20, 1024)),
                "a log of 1048576 records of 1024 bytes takes 1082131008 bytes, but at most 1073741824 are \
                 possible",
            ),
            (
                log(|log| (log.clients, log.clients_at) = (Clients::new(9, 9, 1, false), At::Far)),
                "clients of a machine need cores up to number 16, but two sockets of 8 cores have 16",
            ),
            (
                log(|log| log.clients.windows = true),
                "log has no windows: a client appends as soon as there is room",
            ),
        ] {
            assert_eq!(log.check().unwrap_err(), said);
        }
    }

    #[test]
    fn who_is_at_both_sockets_takes_turns() {
        let clients = Clients::new(6, 3, 1, false);
        let both = Log { clients, clients_at: At::Both, tables_at: At::Both, ..Log::usual() };
        let places: Vec<(u32, u32)> = (0..6).map(|client| both.place(client)).collect();
        assert_eq!(places, [(1, 0), (1, 8), (1, 1), (2, 0), (2, 8), (2, 1)]);
        let copied =
            |log: &Log| -> Vec<bool> { (0..6).map(|client| log.gathers(client) == Strategy::Sp).collect() };
        assert_eq!(copied(&both), [false, true, false, false, true, false]);
        assert_eq!(copied(&Log { merge: false, ..both }), [false; 6]);
    }
}
