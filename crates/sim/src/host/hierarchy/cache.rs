//! A set-associative cache: which lines it holds, and something about each.

use std::ops::Range;

/// Number of a line among all of a machine's.
pub(super) type LineId = u64;

/// Which line goes where a set is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replacement {
    /// The one that was used longest ago.
    Lru,
    /// One that is drawn.
    Random,
}

/// A place of a set; all zeros where it is empty.
#[derive(Clone, Copy, Default)]
struct CacheWay<T> {
    /// The line's number and one.
    tag: u64,
    about: T,
}

/// Lines in sets, and of each line something more.
pub(super) struct SetCache<T> {
    /// The ways of each set that ever held a line; in each, the last used comes first, and empty ones last.
    all: Vec<CacheWay<T>>,
    /// Of each set, how many of those with ways lie before its own, and one; 0 of one without.
    places: Vec<u32>,
    ways: usize,
    replacement: Replacement,
    /// State of the draws.
    drawn: u64,
}

impl<T: Copy + Default> SetCache<T> {
    /// A cache of so many bytes with lines of `line` bytes; empty.
    pub(super) fn new(bytes: u64, line: u64, ways: u32, replacement: Replacement) -> SetCache<T> {
        let sets = (bytes / line / u64::from(ways)).max(1);
        // Zeros that the system has: a cache that nobody uses takes no memory.
        let places = vec![0; sets as usize];
        SetCache { all: Vec::new(), places, ways: ways as usize, replacement, drawn: 1 }
    }

    /// Which set a line belongs to.
    fn number(&self, line: LineId) -> usize {
        (line % self.places.len() as u64) as usize
    }

    /// The ways of a line's set, where it has some.
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

    /// Lets a line's set have ways.
    fn make(&mut self, line: LineId) {
        let number = self.number(line);
        if self.places[number] == 0 {
            self.places[number] = (self.all.len() / self.ways) as u32 + 1;
            self.all.resize(self.all.len() + self.ways, CacheWay::default());
        }
    }

    /// What is held of a line, without its being used by that.
    pub(super) fn peek(&mut self, line: LineId) -> Option<&mut T> {
        self.set(line).iter_mut().find(|way| way.tag == line + 1).map(|way| &mut way.about)
    }

    /// Whether it holds a line.
    pub(super) fn has(&self, line: LineId) -> bool {
        self.all[self.range(line)].iter().any(|way| way.tag == line + 1)
    }

    /// Uses a line, if it is held.
    pub(super) fn use_line(&mut self, line: LineId) -> Option<&mut T> {
        let set = self.set(line);
        let at = set.iter().position(|way| way.tag == line + 1)?;
        set[..=at].rotate_right(1);
        Some(&mut set[0].about)
    }

    /// Brings in a line that is not held; returns the one that went for it.
    pub(super) fn insert(&mut self, line: LineId, about: T) -> Option<(LineId, T)> {
        self.insert_among(line, about, self.ways, |_| true)
    }

    /// The same where there are at most `most` lines like it in a set, which `alike` tells: with so many it takes
    /// the place of one of these.
    pub(super) fn insert_among(
        &mut self,
        line: LineId,
        about: T,
        most: usize,
        alike: impl Fn(&T) -> bool,
    ) -> Option<(LineId, T)> {
        debug_assert!(!self.has(line), "a line is held once");
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

    /// Lets go of a line; returns what was known of it.
    pub(super) fn remove(&mut self, line: LineId) -> Option<T> {
        let set = self.set(line);
        let at = set.iter().position(|way| way.tag == line + 1)?;
        let about = std::mem::take(&mut set[at]).about;
        // Empty ways come last.
        set[at..].rotate_left(1);
        Some(about)
    }

    /// Sets that have held lines.
    #[cfg(test)]
    pub(super) fn used_sets(&self) -> usize {
        self.all.len() / self.ways
    }

    /// All lines that are held.
    #[cfg(test)]
    pub(super) fn lines(&self) -> impl Iterator<Item = (LineId, T)> + '_ {
        self.all.iter().filter(|way| way.tag != 0).map(|way| (way.tag - 1, way.about))
    }

    /// A number (xorshift; Marsaglia 2003).
    fn draw(&mut self) -> usize {
        self.drawn ^= self.drawn << 13;
        self.drawn ^= self.drawn >> 7;
        self.drawn ^= self.drawn << 17;
        self.drawn as usize
    }
}
