//! A set-associative cache: the lines it holds, with a value for each.

use std::ops::Range;

/// Number of a line among all lines of a machine.
pub(super) type LineId = u64;

/// The line that is evicted from a full set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replacement {
    /// The least recently used line.
    Lru,
    /// A line drawn at random.
    Random,
}

/// A way of a set; all zeros if empty.
#[derive(Clone, Copy, Default)]
struct CacheWay<T> {
    /// The line's number plus one.
    tag: u64,
    about: T,
}

/// Lines in sets, with a value for each line.
pub(super) struct SetCache<T> {
    /// The ways of each set that ever held a line. Within a set, the last used way is first, and empty ones
    /// are last.
    all: Vec<CacheWay<T>>,
    /// For each set: number of sets whose ways lie before its own, plus one. 0 for a set without ways.
    places: Vec<u32>,
    ways: usize,
    replacement: Replacement,
    /// State of the random draws.
    drawn: u64,
}

impl<T: Copy + Default> SetCache<T> {
    /// An empty cache of `bytes` bytes with lines of `line` bytes.
    pub(super) fn new(bytes: u64, line: u64, ways: u32, replacement: Replacement) -> SetCache<T> {
        let sets = (bytes / line / u64::from(ways)).max(1);
        // These zeros come from the system, so an unused cache takes no memory.
        let places = vec![0; sets as usize];
        SetCache { all: Vec::new(), places, ways: ways as usize, replacement, drawn: 1 }
    }

    /// The set of a line.
    fn number(&self, line: LineId) -> usize {
        (line % self.places.len() as u64) as usize
    }

    /// The ways of a line's set; empty if the set has none yet.
    fn range(&self, line: LineId) -> Range<usize> {
        match self.places[self.number(line)].checked_sub(1) {
            Some(before) => before as usize * self.ways..(before as usize + 1) * self.ways,
            None => 0..0,
        }
    }

    fn set(&mut self, line: LineId) -> &mut [CacheWay<T>] {
        let range = self.range(line);
        &mut self.all[range]
    }

    /// Creates the ways of a line's set.
    fn make(&mut self, line: LineId) {
        let number = self.number(line);
        if self.places[number] == 0 {
            self.places[number] = (self.all.len() / self.ways) as u32 + 1;
            self.all.resize(self.all.len() + self.ways, CacheWay::default());
        }
    }

    /// The value of a held line. Does not mark the line as used.
    pub(super) fn peek(&mut self, line: LineId) -> Option<&mut T> {
        self.set(line).iter_mut().find(|way| way.tag == line + 1).map(|way| &mut way.about)
    }

    pub(super) fn has(&self, line: LineId) -> bool {
        self.all[self.range(line)].iter().any(|way| way.tag == line + 1)
    }

    /// The value of a held line. Marks the line as used.
    pub(super) fn use_line(&mut self, line: LineId) -> Option<&mut T> {
        let set = self.set(line);
        let at = set.iter().position(|way| way.tag == line + 1)?;
        set[..=at].rotate_right(1);
        Some(&mut set[0].about)
    }

    /// Brings in a line that is not held. Returns the evicted line, if any.
    pub(super) fn insert(&mut self, line: LineId, about: T) -> Option<(LineId, T)> {
        self.insert_among(line, about, self.ways, |_| true)
    }

    /// Brings in a line that is not held. At most `most` lines of a set may satisfy `alike`. If that many do,
    /// the new line replaces one of them. Returns the evicted line, if any.
    pub(super) fn insert_among(
        &mut self,
        line: LineId,
        about: T,
        most: usize,
        alike: impl Fn(&T) -> bool,
    ) -> Option<(LineId, T)> {
        debug_assert!(!self.has(line), "the cache does not hold the new line yet");
        self.make(line);
        let drawn = match self.replacement {
            Replacement::Lru => 0,
            Replacement::Random => self.draw(),
        };
        let set = self.set(line);
        let is_alike = |way: &CacheWay<T>| way.tag != 0 && alike(&way.about);
        let like_it = set.iter().filter(|way| is_alike(way)).count();
        let at = if like_it >= most {
            let skipped = drawn % like_it;
            (0..set.len()).rev().filter(|at| is_alike(&set[*at])).nth(skipped)
        } else {
            set.iter().position(|way| way.tag == 0)
        };
        let at = at.unwrap_or_else(|| set.len() - 1 - drawn % set.len());
        let gone = std::mem::replace(&mut set[at], CacheWay { tag: line + 1, about });
        set[..=at].rotate_right(1);
        (gone.tag != 0).then(|| (gone.tag - 1, gone.about))
    }

    /// Removes a line. Returns its value.
    pub(super) fn remove(&mut self, line: LineId) -> Option<T> {
        let set = self.set(line);
        let at = set.iter().position(|way| way.tag == line + 1)?;
        let about = std::mem::take(&mut set[at]).about;
        // Empty ways come last.
        set[at..].rotate_left(1);
        Some(about)
    }

    /// Number of sets that have held lines.
    #[cfg(test)]
    pub(super) fn used_sets(&self) -> usize {
        self.all.len() / self.ways
    }

    /// All held lines.
    #[cfg(test)]
    pub(super) fn lines(&self) -> impl Iterator<Item = (LineId, T)> + '_ {
        self.all.iter().filter(|way| way.tag != 0).map(|way| (way.tag - 1, way.about))
    }

    /// A random number (xorshift; Marsaglia 2003).
    fn draw(&mut self) -> usize {
        self.drawn ^= self.drawn << 13;
        self.drawn ^= self.drawn >> 7;
        self.drawn ^= self.drawn << 17;
        self.drawn as usize
    }
}
