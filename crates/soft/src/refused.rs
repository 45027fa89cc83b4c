//! Prints on standard error why calls are refused: one line for each call site and reason, and at exit the
//! number of further such calls.
//!
//! Some programs search for limits: they repeat a refused call with smaller values until it works, or with
//! larger values until it is refused. Others post until a queue is full, and post again later. Doorbell
//! prints nothing about such calls. So a line about a value that is too large waits until another call is
//! refused, until the process exits, or until a signal ends it (`last_line`). A line about a full queue waits
//! until the queue is destroyed, or until the process exits.

mod last_line;

use crate::sync::Anew;
use doorbell_launch::say::{is_quiet, say};
use doorbell_transport::{Cause, Refused, errno};
use libc::{c_int, c_void};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::*};

/// Maximum number of lines about refused calls that a process prints, without the counts at exit.
const MOST: usize = 50;

/// A call whose arguments the program may reduce, if it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) call: &'static str,
    /// Arguments that a repeated call leaves unchanged.
    pub(crate) same: [u64; 4],
    /// Fields that a repeated call may reduce, and their values.
    pub(crate) sizes: [(&'static str, u64); 5],
    /// Whether programs increase the fields until the call is refused.
    pub(crate) grows: bool,
}

/// Fills the list of fields of a call with few fields.
pub(crate) const NONE: (&str, u64) = ("", 0);

impl Asked {
    /// Whether a program may have reduced `larger` to this call.
    fn is_reduced(&self, larger: &Asked) -> bool {
        let is_smaller = self.sizes.iter().zip(larger.sizes).all(|(own, other)| own.1 <= other.1);
        (self.call, self.same) == (larger.call, larger.same) && is_smaller && self.sizes != larger.sizes
    }

    /// Whether the call was refused because of a field that the program may reduce.
    fn may_be_reduced(&self, refused: &Refused) -> bool {
        self.sizes.iter().any(|(field, _)| *field == refused.cause().field)
    }
}

/// A line, and the calls that it stands for.
#[derive(Debug)]
struct Line {
    call: &'static str,
    cause: &'static Cause,
    /// The address in the program to which the call returns; 0 for a line about a full queue.
    site: usize,
    text: String,
    /// Number of refused calls after the first.
    more: u64,
}

impl Line {
    fn new(call: &'static str, refused: &Refused, site: usize) -> Line {
        let (cause, errno) = (refused.cause(), refused.errno_name());
        let text = format!("{call} failed with {errno}: {refused}; see {}", cause.page);
        Line { call, cause, site, text, more: 0 }
    }

    fn is_like(&self, other: &Line) -> bool {
        (self.call, self.cause.name, self.site) == (other.call, other.cause.name, other.site)
    }
}

/// A queue: the call that posts to it, and its number among the queues of this call.
pub(crate) type QueueName = (&'static str, u32);

/// A post that a full queue has refused.
struct Full {
    queue: QueueName,
    /// Number of work requests that were posted to the queue before the refused one.
    posted: u64,
    /// The present number; `None` if it is not known.
    posted_now: Box<dyn Fn() -> Option<u64> + Send>,
    line: Line,
}

#[derive(Default)]
struct State {
    printed: Vec<Line>,
    /// A refused call that the program may repeat with smaller values.
    held: Option<(Asked, Line)>,
    /// The last call of each kind that has worked, and its call site, if programs increase its fields.
    worked: Vec<(Asked, usize)>,
    /// The refused call with the largest values of a program that searches for a limit.
    searched: Option<Asked>,
    full: Vec<Full>,
}

/// A child of fork(2) begins without lines, because its parent prints those from before.
static STATE: Anew<State> = Anew::new(State {
    printed: Vec::new(),
    held: None,
    worked: Vec::new(),
    searched: None,
    full: Vec::new(),
});

/// Whether the program has posted again after a queue was full. Then full queues need no line any more.
static POSTS_AGAIN: AtomicBool = AtomicBool::new(false);

impl State {
    /// Prints a line, or counts it if it was printed before.
    fn print(&mut self, line: Line) {
        print_at_exit();
        if let Some(known) = self.printed.iter_mut().find(|known| known.is_like(&line)) {
            known.more += 1 + line.more;
            return;
        }
        match self.printed.len() {
            0..MOST => say(&line.text),
            MOST => say("further refused calls are not explained"),
            _ => return,
        }
        self.printed.push(line);
    }

    fn print_held(&mut self) {
        if let Some((_, line)) = self.held.take() {
            last_line::clear();
            self.print(line);
        }
    }

    /// Holds the line of a call that the program may repeat with smaller values.
    fn hold(&mut self, asked: Asked, line: Line) {
        print_at_exit();
        // The program has increased a value until the call failed, and now searches below this value.
        if self.worked.iter().any(|(worked, site)| *site == line.site && worked.is_reduced(&asked)) {
            self.searched = Some(asked);
        }
        if self.searched.is_some_and(|most| asked == most || asked.is_reduced(&most)) {
            return;
        }
        match &mut self.held {
            Some((before, held)) if held.is_like(&line) => {
                held.more += 1;
                *before = asked;
            }
            _ if self.printed.iter().any(|known| known.is_like(&line)) => self.print(line),
            _ => {
                self.print_held();
                last_line::set(&line.text);
                self.held = Some((asked, line));
            }
        }
    }

    fn worked(&mut self, asked: Asked) {
        if self.held.as_ref().is_some_and(|(before, _)| asked.is_reduced(before)) {
            last_line::clear();
            self.held = None;
        }
        if asked.grows {
            self.worked.retain(|(known, _)| known.call != asked.call);
            self.worked.push((asked, call_site()));
        }
    }

    /// Prints that a queue was full, unless the program has posted to it since.
    fn print_full(&mut self, full: Full, posted: Option<u64>) {
        match posted {
            Some(posted) if posted == full.posted => self.print(full.line),
            Some(_) => POSTS_AGAIN.store(true, Relaxed),
            None => {}
        }
    }
}

/// Whether no line explains the refused call: the user wants none, or the program may try out a function that
/// the device does not offer, or the program may destroy its objects in any order when it exits, as qperf
/// does.
fn is_silent(refused: &Refused) -> bool {
    is_quiet() || matches!(refused.errno(), errno::EOPNOTSUPP | errno::ENOSYS | errno::EBUSY)
}

/// Explains a refused call.
#[cold]
pub(crate) fn refused(call: &'static str, refused: &Refused) {
    // `full` explains full queues.
    if is_silent(refused) || matches!(refused.cause().name, "SEND_FULL" | "RECV_FULL") {
        return;
    }
    let line = Line::new(call, refused, call_site());
    let mut state = STATE.lock();
    state.print_held();
    state.print(line);
}

/// Explains a refused call that the program may repeat with smaller values.
#[cold]
pub(crate) fn refused_sizes(asked: Asked, refused: &Refused) {
    if !asked.may_be_reduced(refused) {
        self::refused(asked.call, refused);
    } else if !is_silent(refused) {
        let line = Line::new(asked.call, refused, call_site());
        STATE.lock().hold(asked, line);
    }
}

/// Records a call that has worked.
pub(crate) fn worked(asked: Asked) {
    if !is_quiet() {
        STATE.lock().worked(asked);
    }
}

/// Records that a full queue refuses a post, after `posted` work requests. `posted_now` returns this number
/// when the process exits.
#[cold]
pub(crate) fn full(
    queue: QueueName,
    refused: &Refused,
    posted: u64,
    posted_now: impl Fn() -> Option<u64> + Send + 'static,
) {
    if is_quiet() || POSTS_AGAIN.load(Relaxed) {
        return;
    }
    print_at_exit();
    let mut state = STATE.lock();
    match state.full.iter_mut().find(|full| full.queue == queue) {
        Some(known) if known.posted == posted => known.line.more += 1,
        Some(_) => {
            POSTS_AGAIN.store(true, Relaxed);
            state.full.clear();
        }
        None => {
            let line = Line::new(queue.0, refused, 0);
            state.full.push(Full { queue, posted, posted_now: Box::new(posted_now), line });
        }
    }
}

/// Prints that a queue was full if no work request was posted since. The queue is about to be destroyed.
pub(crate) fn queue_ends(queue: QueueName, posted: u64) {
    if is_quiet() || POSTS_AGAIN.load(Relaxed) {
        return;
    }
    let mut state = STATE.lock();
    if let Some(at) = state.full.iter().position(|full| full.queue == queue) {
        let full = state.full.swap_remove(at);
        state.print_full(full, Some(posted));
    }
}

/// Arranges that held lines and counts are printed when the process exits.
fn print_at_exit() {
    static ONCE: Once = Once::new();
    // SAFETY: a function of this library, which is never unloaded.
    ONCE.call_once(|| unsafe {
        libc::atexit(at_exit);
    });
}

extern "C" fn at_exit() {
    let mut state = STATE.lock();
    state.print_held();
    for full in std::mem::take(&mut state.full) {
        let posted = (full.posted_now)();
        if !POSTS_AGAIN.load(Relaxed) {
            state.print_full(full, posted);
        }
    }
    for Line { call, cause, more, .. } in state.printed.drain(..).filter(|line| line.more > 0) {
        say(format_args!("{call} failed {more} more times because of {}, for the reason above", cause.field));
    }
}

unsafe extern "C" {
    fn _Unwind_Backtrace(visit: extern "C" fn(*mut c_void, *mut c_void) -> c_int, to: *mut c_void) -> c_int;
    fn _Unwind_GetIP(frame: *mut c_void) -> usize;
}

/// The address to which the first function of this library returns. The program's functions that verbs.h
/// declares inline belong to the program.
fn call_site() -> usize {
    let mut site = (object_of(call_site as *const () as usize), 0usize);
    // SAFETY: the visitor only runs during this call. The unwinder belongs to the standard library.
    unsafe { _Unwind_Backtrace(visit, (&raw mut site).cast()) };
    site.1
}

extern "C" fn visit(frame: *mut c_void, to: *mut c_void) -> c_int {
    /// `_URC_NO_REASON`, `_URC_NORMAL_STOP`.
    const GO_ON: c_int = 0;
    const STOP: c_int = 4;
    // SAFETY: the frame and the pair of `call_site`.
    let (ip, (own, site)) = unsafe { (_Unwind_GetIP(frame), &mut *to.cast::<(usize, usize)>()) };
    if object_of(ip) == *own {
        return GO_ON;
    }
    *site = ip;
    STOP
}

/// The address of the executable or library that contains an address; 0 if none does.
fn object_of(address: usize) -> usize {
    // SAFETY: numbers and pointers, which may be zero.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: dladdr(3) takes any address and writes the struct.
    match unsafe { libc::dladdr(address as *const c_void, &mut info) } {
        0 => 0,
        _ => info.dli_fbase as usize,
    }
}
