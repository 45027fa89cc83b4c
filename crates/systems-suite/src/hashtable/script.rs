//! The operations of a front-end in a check.

use super::history::{Event, EventKind, History};
use doorbell_systems::SystemError;
use doorbell_systems::hashtable::{Done, Hashtable, Published, TableOp, TableOutcome, Work, fill};
use doorbell_systems::random::Random;
use doorbell_verbs::Time;
use std::collections::BTreeMap;

/// Random reads and writes, or a read of each key.
#[derive(Debug)]
pub(crate) struct Script {
    random: Random,
    looks: bool,
    put_permille: u64,
    move_permille: u64,
    pairs: u64,
    value: usize,
    /// Operations that have begun, and all operations.
    begun: u64,
    operations: u64,
    /// For each key the numbers of its writes, in order, and how many of them have ended.
    writes: BTreeMap<u64, (Vec<u64>, usize)>,
    /// The numbers of hot writes, by key and count.
    hot: BTreeMap<(u64, u64), u64>,
    /// Moves that have ended.
    moved: u64,
    /// The number of this front-end's next write.
    next: u64,
    history: History,
    wrong: Option<String>,
}

impl Script {
    /// The script of a front-end with this many operations.
    pub(crate) fn new(config: &Hashtable, number: u32, operations: u64) -> Script {
        Script {
            random: Random::new(config.timing.seed ^ 0x5eed, u64::from(number)),
            looks: false,
            put_permille: config.pairs.put_permille.into(),
            move_permille: config.move_permille.into(),
            pairs: config.pairs.pairs,
            value: config.values.value as usize,
            begun: 0,
            operations,
            writes: BTreeMap::new(),
            hot: BTreeMap::new(),
            moved: 0,
            next: (u64::from(number) + 1) << 32,
            history: History::default(),
            wrong: None,
        }
    }

    /// The script of the front-end that reads each key once.
    pub(crate) fn look(config: &Hashtable) -> Script {
        Script { looks: true, ..Script::new(config, u32::MAX >> 1, config.pairs.pairs) }
    }

    /// Returns the history.
    ///
    /// # Errors
    /// If a value was read that no front-end wrote, or time was over.
    pub(crate) fn end(self) -> Result<History, SystemError> {
        if let Some(wrong) = self.wrong {
            return Err(SystemError::Protocol(wrong));
        }
        let events = self.history.events.iter();
        let ended = self.moved + events.filter(|event| event.kind != EventKind::Published).count() as u64;
        match ended == self.operations {
            true => Ok(self.history),
            false => {
                Err(SystemError::Timeout(format!("only {ended} of {} operations ended", self.operations)))
            }
        }
    }

    /// The number of the key's write that has just ended.
    fn wrote(&mut self, key: u64) -> u64 {
        let (writes, ended) = self.writes.entry(key).or_default();
        *ended += 1;
        writes.get(*ended - 1).copied().unwrap_or(0)
    }

    /// The number of a value. Records an error if the value was not written to the key.
    fn number(&mut self, key: u64, value: &[u8]) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&value[..8]);
        let number = u64::from_le_bytes(word);
        let mut expected = vec![0; value.len()];
        fill(key, number, &mut expected);
        if value != expected {
            self.wrong.get_or_insert(format!("a read of key {key} found wrong bytes: {value:x?}"));
        }
        number
    }
}

impl Work for Script {
    fn next(&mut self, _: Time) -> Option<TableOp> {
        if self.begun == self.operations {
            return None;
        }
        self.begun += 1;
        if self.looks {
            return Some(TableOp::Get(self.begun - 1));
        }
        // Some keys are drawn more often than others.
        let below = 1 + self.random.below(self.pairs);
        let key = self.random.below(below);
        if self.move_permille > 0 && self.random.below(1000) < self.move_permille {
            return Some(TableOp::Move(key));
        }
        if self.random.below(1000) >= self.put_permille {
            return Some(TableOp::Get(key));
        }
        self.next += 1;
        let number = self.next;
        self.writes.entry(key).or_default().0.push(number);
        let mut value = vec![0; self.value];
        fill(key, number, &mut value);
        Some(TableOp::Put(key, value))
    }

    fn is_over(&self) -> bool {
        self.begun == self.operations
    }

    fn done(&mut self, done: Done<'_>) {
        let Done { key, outcome, version, count, began, ended, again } = done;
        let (kind, number) = match outcome {
            TableOutcome::Read(value) => (EventKind::Read, self.number(key, value)),
            TableOutcome::Wrote => (EventKind::Wrote, self.wrote(key)),
            TableOutcome::Moved => {
                self.moved += 1;
                return;
            }
        };
        if (kind, version) == (EventKind::Wrote, None) {
            self.hot.insert((key, count), number);
        }
        *if kind == EventKind::Read { &mut self.history.again } else { &mut self.history.given_up } += again;
        self.history.events.push(Event { kind, key, number, version, began, ended });
    }

    fn published(&mut self, published: Published<'_>) {
        let Published { entries, since, began, ended, again, .. } = published;
        self.history.overtaken += again;
        self.history.oldest = self.history.oldest.max((ended - since).as_ps());
        self.history.waited = self.history.waited.max((began - since).as_ps());
        for &(key, version, count) in entries {
            let Some(number) = self.hot.get(&(key, count)).copied() else {
                self.wrong.get_or_insert(format!(
                    "write {count} of key {key} was published, but there was no such write"
                ));
                continue;
            };
            let (kind, version) = (EventKind::Published, Some(version));
            self.history.events.push(Event { kind, key, number, version, began, ended });
        }
    }
}
