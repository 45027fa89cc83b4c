//! The interval in which a thread measures, and the thread's measurements.

use crate::Latencies;
use crate::measurement::Measurement;
use crate::names::named;
use crate::series::SeriesPoint;
use doorbell_verbs::{Cpu, Mem, Provider, Span, Time};

/// When clients begin, and when threads measure. Threads stop at the interval's end.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Time at which clients begin. Not used if `together` is set.
    begin: Time,
    measurement: Measurement,
    /// Whether all threads record in one measurement, because they share a clock.
    shared: bool,
    /// A 64-bit word of the machine's memory. Servers end early once this word is not 0.
    stop: Option<Mem>,
    /// Number of the client, if clients begin together when all are ready. All times of the interval then
    /// count from that moment.
    together: Option<u32>,
}

/// The key that is published when all clients may begin.
const BEGIN: &str = "site/begin";

fn ready_key(client: u32) -> String {
    format!("site/ready/{client}")
}

impl Interval {
    /// Measures `span` from `from` on. Clients begin as soon as they can.
    pub fn new(from: Time, span: Span) -> Interval {
        let measurement = Measurement::fixed(from, span);
        Interval { begin: Time::START, measurement, shared: false, stop: None, together: None }
    }

    /// Clients begin at `begin`. Measures for `span` after `warmup`.
    pub fn after(begin: Time, warmup: Span, span: Span) -> Interval {
        Interval { begin, ..Interval::new(begin + warmup, span) }
    }

    /// Clients begin at `begin`. All threads record in `measurement`, and must share a clock.
    pub fn shared(begin: Time, measurement: Measurement) -> Interval {
        Interval { begin, measurement, shared: true, stop: None, together: None }
    }

    /// Measures everything. Ends only by a stop word.
    pub(crate) fn endless() -> Interval {
        Interval::new(Time::START, Time::NEVER - Time::START)
    }

    /// Makes this the interval of a client that begins when all clients are ready. The times of the interval
    /// count from that moment.
    pub(crate) fn once_all_are_ready(self, client: u32) -> Interval {
        Interval { together: Some(client), ..self }
    }

    /// Says that nobody needs to wait for `client` any more: it is ready, or has given up.
    pub(crate) fn say_ready<P: Provider>(p: &P, client: u32) {
        p.publish(&ready_key(client), &[]);
    }

    /// Waits until all clients are ready, and then lets them begin.
    pub(crate) fn let_all_begin<P: Provider>(p: &P, clients: &[u32]) {
        clients.iter().for_each(|client| drop(p.lookup(&ready_key(*client))));
        p.publish(BEGIN, &[]);
    }

    /// Makes this the interval of a server that also ends once the word `stop` is not 0.
    pub fn until(self, stop: Mem) -> Interval {
        Interval { stop: Some(stop), ..self }
    }

    /// Whether a server has to end now.
    pub fn is_over<C: Cpu>(&self, cpu: &C) -> bool {
        cpu.now() >= self.end() || self.stop.is_some_and(|stop| cpu.load_u64(stop, 0) != 0)
    }

    /// Waits until this client may begin, and returns its interval. If clients begin together, the interval's
    /// times count from this moment on the client's own clock.
    pub fn begin<P: Provider>(&self, p: &P) -> Interval {
        let Some(client) = self.together else {
            while p.now() < self.begin {
                p.pause(self.begin);
            }
            return self.clone();
        };
        Interval::say_ready(p, client);
        p.lookup(BEGIN);
        let by = p.now() - Time::START;
        let (from, span) = (self.measurement.from(), self.end() - self.measurement.from());
        let measurement = Measurement::fixed(from + by, span);
        Interval { begin: self.begin + by, measurement, shared: false, stop: self.stop, together: None }
    }

    /// The first moment that is measured.
    pub fn from(&self) -> Time {
        self.measurement.from()
    }

    /// The first moment that is no longer measured. Threads stop at this moment. The end may be decided while
    /// threads run.
    #[inline]
    pub fn end(&self) -> Time {
        self.measurement.end()
    }

    /// An idle thread may wait until this time. Then it must call [`Interval::end`] again, because the end
    /// may have changed.
    #[inline]
    pub fn look(&self) -> Time {
        self.measurement.look()
    }

    pub(crate) fn contains(&self, time: Time) -> bool {
        self.measurement.contains(time)
    }
}

named! {
    /// An activity of a system's threads whose time is measured separately.
    Phase {
        /// A server gets a response ready.
        Prepare = "prepare",
        /// A server computes.
        Compute = "compute",
        /// A server hands a response to its stack.
        Respond = "respond",
        /// A client scans a response.
        ClientScan = "client-scan",
        /// Another program on the server's machine scans its own memory once.
        TenantPass = "tenant-pass",
        /// An executor copies or gathers entries and posts them.
        Post = "post",
        /// An executor finds nothing to do.
        Wait = "wait",
        /// Relations are shuffled.
        Partition = "partition",
        /// A hash map is built.
        Build = "build",
        /// A hash map is probed.
        Probe = "probe",
    }
}

impl Phase {
    /// All phases, in the order of [`Measured::phases`].
    pub const ALL: [Phase; 10] = [
        Phase::Prepare,
        Phase::Compute,
        Phase::Respond,
        Phase::ClientScan,
        Phase::TenantPass,
        Phase::Post,
        Phase::Wait,
        Phase::Partition,
        Phase::Build,
        Phase::Probe,
    ];
}

/// Time spent on a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// How often the phase was measured.
    pub times: u64,
    /// Its total time in picoseconds.
    pub picoseconds: u64,
}

/// Measurements of a thread.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Operations of this client that completed.
    pub done: u64,
    /// Replies that this server thread posted.
    pub replies: u64,
    /// Number of lists of replies that this server thread posted.
    pub posts: u64,
    /// Attempts that were repeated because of torn or stale reads, locks held by other clients, or time-outs.
    pub again: u64,
    /// GETs whose key had been evicted.
    pub missed: u64,
    /// Replies without payload.
    pub header_only: u64,
    /// Latencies of this client's operations, from start to end; empty if all threads share a measurement.
    pub latency: Latencies,
    /// Time spent on each measured phase, in the order of [`Phase::ALL`].
    pub phases: [Spent; Phase::ALL.len()],
}

impl From<()> for Measured {
    /// A thread that only waits measures nothing.
    fn from((): ()) -> Measured {
        Measured::default()
    }
}

/// How an operation ended; see [`Measured`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct How {
    pub(crate) again: u64,
    pub(crate) missed: bool,
    pub(crate) header_only: bool,
}

impl Measured {
    /// Adds another thread's measurements.
    pub fn add(&mut self, other: &Measured) {
        self.done += other.done;
        self.replies += other.replies;
        self.posts += other.posts;
        self.again += other.again;
        self.missed += other.missed;
        self.header_only += other.header_only;
        for (spent, more) in self.phases.iter_mut().zip(&other.phases) {
            spent.times += more.times;
            spent.picoseconds += more.picoseconds;
        }
        self.latency.add(&other.latency);
    }

    /// Counts an operation that began at `began` and is done `now`.
    pub(crate) fn operation(&mut self, interval: &Interval, began: Time, now: Time, how: How) {
        let latency = now - began;
        if interval.shared {
            interval.measurement.saw(SeriesPoint {
                at: now,
                completed: 1,
                since: None,
                latency: Some(latency),
            });
        }
        if interval.contains(now) {
            self.done += 1;
            self.again += how.again;
            self.missed += u64::from(how.missed);
            self.header_only += u64::from(how.header_only);
            if !interval.shared {
                self.latency.record(latency);
            }
        }
    }

    /// Counts `completed` operations without latencies. The thread last saw completions at `since`. These
    /// operations completed one after another between `since` and `now`.
    pub(crate) fn moved(&mut self, interval: &Interval, since: Time, now: Time, completed: u64) {
        if interval.shared {
            interval.measurement.saw(SeriesPoint { at: now, completed, since: Some(since), latency: None });
        }
        if interval.contains(now) {
            self.done += completed;
        }
    }

    /// Records the latency of an operation, but does not count the operation.
    pub(crate) fn took(&mut self, interval: &Interval, began: Time, now: Time) {
        let latency = now - began;
        if interval.shared {
            interval.measurement.saw(SeriesPoint {
                at: now,
                completed: 0,
                since: None,
                latency: Some(latency),
            });
        } else if interval.contains(now) {
            self.latency.record(latency);
        }
    }

    /// Counts a phase from `began` to `ended`.
    pub(crate) fn spent(&mut self, interval: &Interval, phase: Phase, began: Time, ended: Time) {
        if interval.contains(ended) {
            let spent = &mut self.phases[phase as usize];
            spent.times += 1;
            spent.picoseconds += (ended - began).as_ps();
        }
    }

    /// Counts a posted list of `replies` replies.
    pub fn post(&mut self, interval: &Interval, now: Time, replies: u64) {
        if interval.contains(now) {
            self.posts += 1;
            self.replies += replies;
        }
    }
}
