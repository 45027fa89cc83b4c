//! A clock for the threads of a check. Time passes on it only while every thread gets some processor time.
//!
//! Checks bound times. For example, a live engine marks its record within the log's patience, and a WRITE
//! leaves within the drift. On a busy machine, a thread may wait for a processor for longer than such a
//! bound. So the clock advances in rounds of at most [`ROUND`]. A round ends only after a look of each
//! thread: the thread has read the clock, polled or paused in this round. So at most two rounds pass between
//! two looks of a thread. On an idle machine, the clock keeps up with real time.
//!
//! A round does not wait for threads that wait in a lookup or at a socket, or for threads that have exited or
//! were killed.

use doorbell_native::NativeCluster;
use doorbell_systems_suite::{Layer, Layered};
use doorbell_verbs::{
    Cluster, CqHandle, Mem, PageSize, Program, Provider, RunError, Span, Task, Time, VerbsError, Wc,
};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The longest round. Two rounds are shorter than any time within which a check needs a WRITE to be placed.
/// With shorter rounds, the clock of a busy machine would be slower.
pub(crate) const ROUND: Span = Span::from_ms(4);

/// Maximum number of machines of a check, and of cores of a machine.
const MACHINES: u32 = 16;
const CORES: u32 = 32;

/// Number of bits of a round's start in [`Face::round`].
const START_BITS: u32 = 40;

/// Interval at which a long run reports the time on its clock.
const REPORT: Duration = Duration::from_secs(30);

/// The clock's memory, which all processes of a check map. A clock begins with all zeros.
#[repr(C)]
struct Face {
    /// Time of the host's clock at which this clock started, in nanoseconds.
    epoch: AtomicU64,
    /// The round. The upper bits are its number, and the lower [`START_BITS`] bits its start in microseconds
    /// since `epoch`.
    round: AtomicU64,
    /// For each thread, 1 plus the number of the last round in which the thread looked. The value 0 means
    /// that no round waits for the thread.
    looks: [AtomicU64; (MACHINES * CORES) as usize],
}

/// The mapped memory, and its file.
struct Mapping {
    face: *mut Face,
    file: File,
}

// SAFETY: `face` consists of atomics and stays mapped until the drop.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a file that is as long as a [`Face`].
    fn of(file: File) -> io::Result<Mapping> {
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        // SAFETY: This creates a new mapping at an address that the kernel chooses.
        let face = unsafe { mmap(std::ptr::null_mut(), size_of::<Face>(), access, flags, &file, 0) }?;
        Ok(Mapping { face: face.cast(), file })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: This value owns the mapping, and no reference into the mapping outlives this value.
        let _ = unsafe { munmap(self.face.cast(), size_of::<Face>()) };
    }
}

/// A file in memory, as long as a [`Face`].
fn new_file() -> io::Result<File> {
    // SAFETY: The name is a C string.
    let created = unsafe { libc::memfd_create(c"rounds".as_ptr(), libc::MFD_CLOEXEC) };
    if created < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: The descriptor is new, and nothing else owns it.
    let file = unsafe { File::from_raw_fd(created) };
    file.set_len(size_of::<Face>() as u64)?;
    Ok(file)
}

/// Nanoseconds on CLOCK_MONOTONIC, which all processes of the host share.
fn host_clock() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The clock of a check.
#[derive(Clone)]
pub(crate) struct Rounds(Arc<Mapping>);

impl Rounds {
    /// A clock that starts now.
    ///
    /// # Panics
    /// If the kernel has no memory for it.
    pub(crate) fn start() -> Rounds {
        let mapping = new_file().and_then(Mapping::of).expect("the kernel has a page for the clock");
        let rounds = Rounds(Arc::new(mapping));
        rounds.face().epoch.store(host_clock(), Ordering::Relaxed);
        rounds
    }

    /// Opens the clock of another process by its [`Rounds::path`].
    pub(crate) fn open(path: &Path) -> io::Result<Rounds> {
        let file = File::options().read(true).write(true).open(path)?;
        Ok(Rounds(Arc::new(Mapping::of(file)?)))
    }

    /// The file by which other processes open this clock.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.0.file.as_raw_fd()))
    }

    fn face(&self) -> &Face {
        // SAFETY: The memory is mapped as long as `self` exists, has the size of a `Face`, and is only
        // accessed by atomics.
        unsafe { &*self.0.face }
    }

    /// A thread's place at the clock.
    pub(crate) fn seat(&self, machine: u32, core: u32) -> Seat {
        assert!(machine < MACHINES && core < CORES, "no place for machine {machine} core {core}");
        Seat { rounds: self.clone(), index: (machine * CORES + core) as usize }
    }

    /// Stops rounds from waiting for the threads of a killed machine.
    pub(crate) fn forget(&self, machine: u32) {
        (0..CORES).for_each(|core| self.seat(machine, core).leave());
    }

    /// Number of the round, and its start in nanoseconds since the epoch.
    fn round(word: u64) -> (u64, u64) {
        (word >> START_BITS, (word & ((1 << START_BITS) - 1)) * 1_000)
    }

    /// The time, which follows the host's clock but does not exceed the round's end. Also returns whether the
    /// time is the round's end.
    fn time(&self, word: u64) -> (Time, bool) {
        let (number, start) = Rounds::round(word);
        let passed = (host_clock() - self.face().epoch.load(Ordering::Relaxed)).saturating_sub(start);
        let within = Span::from_ns(passed).min(ROUND);
        (Time::START + ROUND * number + within, within == ROUND)
    }

    /// Returns the time. Begins the next round if this round is over and each thread has looked in it.
    ///
    /// The word of the round guards no other memory, so its accesses are relaxed. The time of one thread
    /// never goes back, because loads of one atomic word are coherent. Time does not go back between threads
    /// either. If a thread has loaded a value that another thread stored after a look, the release store and
    /// the acquire load order the looks of both threads.
    pub(crate) fn now(&self) -> Time {
        let word = self.face().round.load(Ordering::Relaxed);
        let (time, is_over) = self.time(word);
        let (number, _) = Rounds::round(word);
        // A value above the round's number proves a look in this round, no matter when it is loaded.
        let has_looked = |look: &AtomicU64| !(1..=number).contains(&look.load(Ordering::Relaxed));
        if is_over && self.face().looks.iter().all(has_looked) {
            let since = host_clock() - self.face().epoch.load(Ordering::Relaxed);
            let next = ((number + 1) << START_BITS) + since / 1_000;
            // The exchange fails if another thread has begun the next round.
            let _ = self.face().round.compare_exchange(word, next, Ordering::Relaxed, Ordering::Relaxed);
        }
        time
    }

    /// Calls `run`. Meanwhile prints a line every [`REPORT`] if the clock has advanced, so that silence means
    /// a hang.
    fn reporting<T>(&self, run: impl FnOnce() -> T) -> T {
        let (end, ended) = channel::<()>();
        let report = move || {
            let mut last = 0;
            while ended.recv_timeout(REPORT) == Err(RecvTimeoutError::Timeout) {
                let (number, _) = Rounds::round(self.face().round.load(Ordering::Relaxed));
                if number > last {
                    eprintln!("{:.1} s of the check have passed", (ROUND * number).as_secs_f64());
                }
                last = number;
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(report);
            let _ends = end;
            run()
        })
    }
}

/// A thread's place at the clock.
#[derive(Clone)]
pub(crate) struct Seat {
    rounds: Rounds,
    index: usize,
}

impl Seat {
    fn look_of(&self) -> &AtomicU64 {
        &self.rounds.face().looks[self.index]
    }

    /// Records a look of this thread in the current round. Each later round waits for a look of the thread.
    fn look(&self) {
        let (number, _) = Rounds::round(self.rounds.face().round.load(Ordering::Relaxed));
        self.look_of().store(number + 1, Ordering::Relaxed);
    }

    fn now(&self) -> Time {
        self.look();
        self.rounds.now()
    }

    /// Stops rounds from waiting for this thread until it looks again.
    fn leave(&self) {
        self.look_of().store(0, Ordering::Relaxed);
    }

    /// Makes a call that may wait for other threads. No round waits for this thread during the call.
    fn away<T>(&self, call: impl FnOnce() -> T) -> T {
        self.leave();
        let result = call();
        self.look();
        result
    }
}

/// Leaves the seat when the thread ends, even by a panic.
struct Leaves(Seat);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// A program that runs on a layer, and the seat of its thread.
pub(crate) struct Seated<T, L> {
    pub(crate) program: T,
    pub(crate) layer: L,
    pub(crate) seat: Seat,
}

impl<T: Program, L: Layer + Send + 'static> Program for Seated<T, L> {
    type Output = T::Output;

    fn run<P: Provider>(self, p: P) -> T::Output {
        let _leaves = Leaves(self.seat);
        self.program.run(Layered::new(p, self.layer))
    }
}

impl Layer for Seat {
    fn now<P: Provider>(&self, _: &P) -> Time {
        Seat::now(self)
    }

    fn pause<P: Provider>(&self, below: &P, deadline: Time) {
        self.look();
        below.pause(deadline);
    }

    fn poll_cq<P: Provider>(&self, below: &P, cq: CqHandle, wc: &mut [Wc]) -> Result<usize, VerbsError> {
        self.look();
        below.poll_cq(cq, wc)
    }

    fn lookup<P: Provider>(&self, below: &P, key: &str) -> Vec<u8> {
        self.away(|| below.lookup(key))
    }

    fn waiting<T>(&self, call: impl FnOnce() -> T) -> T {
        self.away(call)
    }
}

/// A cluster whose machines are threads of this process, with a clock in rounds.
pub(crate) struct InRounds {
    pub(crate) threads: NativeCluster,
    pub(crate) rounds: Rounds,
}

impl InRounds {
    pub(crate) fn new(threads: NativeCluster) -> InRounds {
        InRounds { threads, rounds: Rounds::start() }
    }
}

impl Cluster for InRounds {
    fn machines(&self) -> u32 {
        self.threads.machines()
    }

    fn alloc(&mut self, machine: u32, len: u64, page: PageSize) -> Result<Mem, VerbsError> {
        self.threads.alloc(machine, len, page)
    }

    fn alloc_near(&mut self, machine: u32, core: u32, len: u64, page: PageSize) -> Result<Mem, VerbsError> {
        self.threads.alloc_near(machine, core, len, page)
    }

    fn spawn<T: Program>(&mut self, machine: u32, core: u32, program: T) -> Task<T::Output> {
        let seat = self.rounds.seat(machine, core);
        self.threads.spawn(machine, core, Seated { program, layer: seat.clone(), seat })
    }

    fn preset<R>(&mut self, machine: u32, mem: Mem, fill: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        self.threads.preset(machine, mem, fill)
    }

    fn run(&mut self) -> Result<(), RunError> {
        let InRounds { threads, rounds } = self;
        rounds.reporting(|| threads.run())
    }
}
