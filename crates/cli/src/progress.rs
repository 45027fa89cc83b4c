//! The progress bar on stderr, and work that signals interrupt.

use crate::exit::{self, Exit};
use crate::screen;
use crate::signals::{self, Interrupt};
use doorbell_lab::{Duration as Time, Forecast, Pace, Watch};
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Delay before the bar appears. Shorter work needs no bar.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time between two updates of the bar.
const UPDATE: Duration = Duration::from_millis(200);
/// Time between two checks for a signal that ends the command at once.
const POLL: Duration = Duration::from_millis(100);
/// Time for the last output of a command that signals end at once.
const LAST: Duration = Duration::from_secs(2);
/// Length of the bar, in steps.
const STEPS: u64 = 1000;

/// Watches for Ctrl-C and SIGTERM.
pub(crate) fn interrupt() -> Result<Interrupt, Exit> {
    Interrupt::watch().map_err(|e| Exit::failed(format!("cannot watch for Ctrl-C and SIGTERM: {e}")))
}

/// The wall-clock time at which a command ends that began now and may take `max_wall`.
pub(crate) fn deadline(max_wall: Option<Time>) -> Option<Instant> {
    max_wall.and_then(|time| Instant::now().checked_add(Duration::from_nanos(time.span().as_ns())))
}

/// Does `work` on another thread, and returns its result. If signals end the command at once, calls `forced`
/// and exits. `forced` prints the last output, and may take [`LAST`].
pub(crate) fn until<T: Send>(
    interrupt: &Interrupt,
    work: impl FnOnce() -> T + Send,
    forced: impl FnOnce() -> Result<(), Exit> + Send,
) -> T {
    let (over, ended) = mpsc::channel::<()>();
    let polls = interrupt.polls();
    thread::scope(|scope| {
        let worker = scope.spawn(move || {
            // Dropped when the work is over, also by a panic.
            let _over = over;
            work()
        });
        while ended.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
            if interrupt.is_forced() {
                let (told, ended) = mpsc::channel();
                scope.spawn(move || {
                    // The results so far are printed. There is nothing to do about an error.
                    let _ = forced();
                    // The receiver no longer waits if this took too long.
                    let _ = told.send(());
                });
                // A reader of the output may have stopped reading.
                let _ = ended.recv_timeout(LAST);
                exit::say("doorbell: interrupted");
                std::process::exit(signals::interrupted().into());
            }
        }
        // From here on, nobody polls.
        drop(polls);
        worker.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// A progress bar. It shows finished runs, planned runs and the estimated remaining time. It appears after
/// [`PATIENCE`], and only if stderr is a terminal.
pub(crate) struct Bar {
    shared: Arc<Shared>,
    /// The thread that shows the bar. Dropping the channel's sender ends the thread.
    updates: Option<(Sender<()>, JoinHandle<()>)>,
    /// Interrupts the work if nobody reads the output; `None` if the work also writes files.
    unread: Option<Arc<AtomicBool>>,
}

struct Shared {
    bar: ProgressBar,
    begin: Instant,
    deadline: Option<Instant>,
    forecast: Forecast,
    planned: AtomicUsize,
    done: AtomicUsize,
    hidden: AtomicBool,
    /// Name of the run that finished last.
    last: Mutex<String>,
}

impl Watch for Bar {
    fn planned(&self, costs: &[f64]) {
        self.shared.planned.fetch_add(costs.len(), Ordering::Relaxed);
        self.shared.forecast.planned(costs);
    }

    fn expected(&self, runs: usize) {
        self.shared.forecast.expected(runs);
    }

    fn began(&self, cost: f64, pace: &Arc<Pace>) {
        self.shared.forecast.began(self.shared.begin.elapsed(), cost, pace);
    }

    fn ended(&self, pace: &Arc<Pace>) {
        self.shared.forecast.ended(self.shared.begin.elapsed(), pace);
    }

    fn done(&self, what: &str) {
        self.shared.done.fetch_add(1, Ordering::Relaxed);
        what.clone_into(&mut self.shared.last.lock().unwrap_or_else(|e| e.into_inner()));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some((over, updates)) = self.updates.take() {
            drop(over);
            // The thread does nothing that panics, and a missing bar would do no harm.
            let _ = updates.join();
        }
        self.shared.bar.finish_and_clear();
    }
}

impl Bar {
    /// A bar for work that makes so many runs at a time, and ends at the deadline if there is one.
    pub(crate) fn new(jobs: usize, deadline: Option<Instant>) -> Bar {
        let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{elapsed:>4} {wide_bar} {msg}");
        bar.set_style(style.expect("the template is constant"));
        let shared = Arc::new(Shared {
            bar,
            begin: Instant::now(),
            deadline,
            forecast: Forecast::new(jobs),
            planned: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            hidden: AtomicBool::new(false),
            last: Mutex::default(),
        });
        let (over, wait) = mpsc::channel();
        let shown = shared.clone();
        let updates = thread::spawn(move || {
            while wait.recv_timeout(UPDATE) == Err(RecvTimeoutError::Timeout) {
                shown.update();
            }
        });
        Bar { shared, updates: Some((over, updates)), unread: None }
    }

    /// Lets the bar set `interrupt` if the reader of the output has closed its pipe. Nobody needs the work
    /// then.
    #[must_use]
    pub(crate) fn for_reader(mut self, interrupt: &Interrupt) -> Bar {
        self.unread = Some(interrupt.flag.clone());
        self
    }

    /// Whether the work was interrupted because nobody reads the output.
    pub(crate) fn is_unread(&self) -> bool {
        self.unread.is_some() && exit::is_unread()
    }

    /// Removes the bar for good.
    pub(crate) fn hide(&self) {
        self.shared.hidden.store(true, Ordering::SeqCst);
        self.shared.bar.finish_and_clear();
    }

    /// Prints to stdout while the bar is shown.
    pub(crate) fn print(&self, text: &str) -> Result<(), Exit> {
        let printed = self.shared.bar.suspend(|| exit::print(text));
        if let Some(interrupt) = self.unread.as_ref().filter(|_| exit::is_unread()) {
            interrupt.store(true, Ordering::SeqCst);
        }
        printed
    }

    /// Prints a text for people. In a terminal, its lines fit into the terminal's columns.
    pub(crate) fn tell(&self, text: &str) -> Result<(), Exit> {
        self.print(&screen::fit(text))
    }
}

impl Shared {
    fn update(&self) {
        if self.hidden.load(Ordering::SeqCst) {
            return;
        }
        let elapsed = self.begin.elapsed();
        let left = self.left(elapsed);
        if let Some(left) = left {
            let share = elapsed.as_secs_f64() / (elapsed + left).as_secs_f64();
            self.bar.set_position((share * STEPS as f64) as u64);
        }
        let left = left.map_or(String::new(), |left| format!(" {} left", HumanDuration(left)));
        let (done, planned) = (self.done.load(Ordering::Relaxed), self.planned.load(Ordering::Relaxed));
        let last = self.last.lock().unwrap_or_else(|e| e.into_inner()).clone();
        self.bar.set_message(format!("{done}/{planned}{left} {last}"));
        if elapsed >= PATIENCE && self.bar.is_hidden() {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        self.bar.tick();
    }

    /// The time until the end of all work; `None` if it is not known.
    fn left(&self, elapsed: Duration) -> Option<Duration> {
        let left = self.forecast.left(elapsed);
        let most = self.deadline.map(|at| at.saturating_duration_since(Instant::now()));
        match (left, most) {
            (Some(left), Some(most)) => Some(left.min(most)),
            (left, most) => left.or(most),
        }
    }
}
