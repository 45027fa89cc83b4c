//! Hardware prefetchers: the lines that they fetch when a core asks for a line (Intel 64 and IA-32
//! Architectures Optimization Reference Manual, 248966, on the data prefetchers of Nehalem).

use super::cache::LineId;

/// Lines of a page of 4 kB. No prefetcher goes beyond the page's end.
const PAGE: LineId = 64;
/// Maximum number of streams that a streamer follows.
const STREAMS: usize = 16;

/// The prefetchers of a core that are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefetchers {
    /// Fetches the next line into the first level when ascending loads miss there.
    pub(crate) next_line: bool,
    /// Fetches the other line of an aligned pair into the second level.
    pub(crate) adjacent_line: bool,
    /// Lines by which the streamer runs ahead of ascending or descending accesses, in the second level; 0 for
    /// off.
    pub(crate) streamer: u32,
}

/// Successive accesses to a page.
#[derive(Clone, Copy)]
struct Stream {
    /// The last accessed line.
    last: LineId,
    /// The furthest line that the streamer has fetched.
    ahead: LineId,
    /// 1 for ascending accesses, -1 for descending ones, 0 while unknown.
    step: i64,
    /// Number of the last use, counted over all streams.
    used: u64,
}

/// The prefetchers of a core.
pub(super) struct Prefetcher {
    which: Prefetchers,
    /// The last line that a load missed in the first level.
    missed: Option<LineId>,
    streams: Vec<Stream>,
    uses: u64,
}

impl Prefetcher {
    pub(super) fn new(which: Prefetchers) -> Prefetcher {
        Prefetcher { which, missed: None, streams: Vec::new(), uses: 0 }
    }

    /// The line to fetch into the first level because `line` missed there.
    pub(super) fn next_line(&mut self, line: LineId) -> Option<LineId> {
        let ascends = self.missed.is_some_and(|missed| line == missed + 1 || line == missed + 2);
        self.missed = Some(line);
        (self.which.next_line && ascends && !(line + 1).is_multiple_of(PAGE)).then_some(line + 1)
    }

    /// The line to fetch into the second level because `line` missed there.
    pub(super) fn adjacent_line(&self, line: LineId) -> Option<LineId> {
        self.which.adjacent_line.then_some(line ^ 1)
    }

    /// The lines to fetch into the second level because `line` was requested there.
    pub(super) fn stream(&mut self, line: LineId) -> impl Iterator<Item = LineId> + use<> {
        let (first, count, step) = self.follow(line).unwrap_or((line, 0, 1));
        (0..count as i64).map(move |i| first.wrapping_add_signed(i * step))
    }

    /// The first line to fetch, the number of lines, and their direction.
    fn follow(&mut self, line: LineId) -> Option<(LineId, u64, i64)> {
        if self.which.streamer == 0 {
            return None;
        }
        self.uses += 1;
        let uses = self.uses;
        let Some(stream) = self.streams.iter_mut().find(|s| s.last / PAGE == line / PAGE) else {
            self.begin(line);
            return None;
        };
        stream.used = uses;
        let step = (line as i64 - stream.last as i64).signum();
        stream.last = line;
        if step == 0 {
            return None;
        }
        if step != stream.step {
            (stream.step, stream.ahead) = (step, line);
        }
        let page = line - line % PAGE;
        let (from, end) = (stream.ahead as i64, line as i64 + step * i64::from(self.which.streamer));
        let end = end.clamp(page as i64, (page + PAGE - 1) as i64);
        // The core may have overtaken the streamer.
        let from = if (line as i64 - from) * step > 0 { line as i64 } else { from };
        let count = (end - from) * step;
        if count <= 0 {
            return None;
        }
        stream.ahead = end as LineId;
        Some(((from + step) as LineId, count as u64, step))
    }

    /// Begins a stream for another page. If there are already [`STREAMS`], the least recently used stream
    /// ends.
    fn begin(&mut self, line: LineId) {
        let stream = Stream { last: line, ahead: line, step: 0, used: self.uses };
        if self.streams.len() < STREAMS {
            self.streams.push(stream);
        } else if let Some(oldest) = self.streams.iter_mut().min_by_key(|s| s.used) {
            *oldest = stream;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streamer(lines: u32) -> Prefetcher {
        Prefetcher::new(Prefetchers { next_line: true, adjacent_line: true, streamer: lines })
    }

    fn streamed(prefetcher: &mut Prefetcher, line: LineId) -> Vec<LineId> {
        prefetcher.stream(line).collect()
    }

    #[test]
    fn a_stream_is_run_ahead_of_within_its_page() {
        let mut p = streamer(4);
        assert_eq!(streamed(&mut p, 640), [0; 0], "one access is no stream");
        assert_eq!(streamed(&mut p, 641), [642, 643, 644, 645]);
        assert_eq!(streamed(&mut p, 642), [646]);
        assert_eq!(streamed(&mut p, 650), [651, 652, 653, 654]);
        assert_eq!(streamed(&mut p, 702), [703]);
        assert_eq!(streamed(&mut p, 703), [0; 0]);
        assert_eq!(streamed(&mut p, 704), [0; 0], "another page is another stream");
    }

    #[test]
    fn a_stream_may_descend() {
        let mut p = streamer(2);
        assert_eq!(streamed(&mut p, 70), [0; 0]);
        assert_eq!(streamed(&mut p, 69), [68, 67]);
        assert_eq!(streamed(&mut p, 66), [65, 64]);
        assert_eq!(streamed(&mut p, 65), [0; 0]);
    }

    #[test]
    fn the_line_after_ascending_misses_comes() {
        let mut p = streamer(0);
        assert_eq!(p.next_line(5), None);
        assert_eq!(p.next_line(6), Some(7));
        assert_eq!(p.next_line(8), Some(9));
        assert_eq!(p.next_line(2), None);
        assert_eq!((p.next_line(62), p.next_line(63)), (None, None), "not beyond the page");
        assert_eq!((p.adjacent_line(6), p.adjacent_line(7)), (Some(7), Some(6)));
        assert_eq!(streamed(&mut p, 1), [0; 0]);
        assert_eq!(streamed(&mut p, 2), [0; 0]);
    }
}
