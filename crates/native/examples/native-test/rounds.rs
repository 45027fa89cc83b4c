//! A clock for the threads of a check, on which time passes only while each of them has a processor now and
//! then.
//!
//! Checks bound times: a live engine marks its record within the log's patience, a WRITE leaves within the
//! drift, a thread that hangs gives up. Beside other work, a thread may wait for a processor for longer. So
//! the clock goes in rounds of at most [`ROUND`]. A round ends when each thread has looked at the clock in
//! it, or has polled or paused. Then between two looks of a thread, at most two rounds pass. On an idle
//! machine the clock keeps up with real time.
//!
//! A round does not wait for threads that wait for others: in a lookup, or at a socket. It does not wait for
//! threads that have ended or were killed, either.

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

/// Machines of a check and cores of a machine, at most.
const MACHINES: u32 = 16;
const CORES: u32 = 32;

/// Bits of a round's start.
const START_BITS: u32 = 40;

/// How often a long run reports that its clock goes on.
const REPORT: Duration = Duration::from_secs(30);

/// The clock's memory, which all processes of a check map. All zeros are a clock that begins.
#[repr(C)]
struct Face {
    /// Start of the clock on the host's clock, in nanoseconds.
    epoch: AtomicU64,
    /// Number of the round, above its start in microseconds since `epoch`.
    round: AtomicU64,
    /// For each thread one more than the last round in which it looked, or 0 if no round waits for it.
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
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let face = unsafe { mmap(std::ptr::null_mut(), size_of::<Face>(), access, flags, &file, 0) }?;
        Ok(Mapping { face: face.cast(), file })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: The mapping is this one's, and no reference into it outlives it.
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

/// Nanoseconds on the clock that all processes of the host share.
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

    /// The clock of another process, which gave its [`Rounds::path`].
    pub(crate) fn open(path: &Path) -> io::Result<Rounds> {
        let file = File::options().read(true).write(true).open(path)?;
        Ok(Rounds(Arc::new(Mapping::of(file)?)))
    }

    /// The file by which other processes open this clock.
    pub(crate) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.0.file.as_raw_fd()))
    }

    fn face(&self) -> &Face {
        // SAFETY: The memory is mapped as long as `self`, is of this size, and is accessed by atomics alone.
        unsafe { &*self.0.face }
    }

    /// The place of a thread.
    pub(crate) fn seat(&self, machine: u32, core: u32) -> Seat {
        assert!(machine < MACHINES && core < CORES, "no place for machine {machine} core {core}");
        Seat { rounds: self.clone(), index: (machine * CORES + core) as usize }
    }

    /// Has no round wait for the threads of a killed machine.
    pub(crate) fn forget(&self, machine: u32) {
        (0..CORES).for_each(|core| self.seat(machine, core).leave());
    }

    /// Number and start of the round, the start in nanoseconds.
    fn round(word: u64) -> (u64, u64) {
        (word >> START_BITS, (word & ((1 << START_BITS) - 1)) * 1_000)
    }

    /// The time, by the host's clock in this round, and at most the round's end.
    fn time(&self, word: u64) -> (Time, bool) {
        let (number, start) = Rounds::round(word);
        let passed = (host_clock() - self.face().epoch.load(Ordering::Relaxed)).saturating_sub(start);
        let within = Span::from_ns(passed).min(ROUND);
        (Time::START + ROUND * number + within, within == ROUND)
    }

    /// The time, and the next round if this one may end.
    ///
    /// The word of the round guards no other memory, so its accesses are relaxed. Times of one thread never
    /// go back, because loads of one word are coherent. That also holds for a thread that has seen what
    /// another thread stored after its look: the stores and loads of checks order the two looks.
    pub(crate) fn now(&self) -> Time {
        let word = self.face().round.load(Ordering::Relaxed);
        let (time, is_over) = self.time(word);
        let (number, _) = Rounds::round(word);
        // A number above the round's is proof of a look in the round, whenever it is loaded.
        let has_looked = |look: &AtomicU64| !(1..=number).contains(&look.load(Ordering::Relaxed));
        if is_over && self.face().looks.iter().all(has_looked) {
            let since = host_clock() - self.face().epoch.load(Ordering::Relaxed);
            let next = ((number + 1) << START_BITS) + since / 1_000;
            // Another thread may have begun the next round.
            let _ = self.face().round.compare_exchange(word, next, Ordering::Relaxed, Ordering::Relaxed);
        }
        time
    }

    /// Calls `run`. Meanwhile prints now and then that the clock goes on, so that silence means a hang.
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

    /// Looks, so that the round does not wait for this thread. From here on, rounds wait for it.
    fn look(&self) {
        let (number, _) = Rounds::round(self.rounds.face().round.load(Ordering::Relaxed));
        self.look_of().store(number + 1, Ordering::Relaxed);
    }

    fn now(&self) -> Time {
        self.look();
        self.rounds.now()
    }

    /// Has no round wait for this thread until it looks again.
    fn leave(&self) {
        self.look_of().store(0, Ordering::Relaxed);
    }

    /// Makes a call that may wait for other threads.
    fn away<T>(&self, call: impl FnOnce() -> T) -> T {
        self.leave();
        let result = call();
        self.look();
        result
    }
}

/// A thread that has ended, also by a panic, leaves.
struct Leaves(Seat);

impl Drop for Leaves {
    fn drop(&mut self) {
        self.0.leave();
    }
}

/// A program below a layer that looks at the clock.
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

/// Machines as threads of this process, with such a clock.
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
