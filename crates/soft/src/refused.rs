//! Prints on standard error why calls are refused: one line for each call site and reason, and at exit the
//! number of further such calls.
//!
//! Some programs search for limits: they repeat a refused call with smaller values until it works, or with
//! larger values until it is refused. Other programs post until a queue is full, and post again later.
//! Doorbell prints nothing about such calls. So these lines wait:
//! - A line about a value that is too large waits until another call is refused.
//! - A line about a full queue waits until the queue is reset or destroyed.
//!
//! Such a wait also ends when the process exits, or when a signal ends the process (`last_line`).
//!
//! Programs such as qperf destroy their objects in any order when they end, and the kernel frees the rest. So
//! a line about an object that cannot be destroyed waits until the process exits. Doorbell prints it only if
//! the program has created another object since, and has not destroyed this object.

mod last_line;

use crate::causes::{RECV_FULL, SEND_FULL, SEND_LIST};
use crate::sync::Anew;
use doorbell_launch::say::{is_quiet, say};
use doorbell_transport::{Cause, Refused, errno};
use last_line::LastLine;
use libc::{c_int, c_void};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Once};

/// Maximum number of lines about refused calls that a process prints, without the counts at exit.
const MOST: usize = 50;

/// The library whose function a program calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CalledLibrary {
    /// This library, in place of libibverbs.
    Verbs,
    /// librdmacm, which then calls this library.
    Rdmacm,
}

impl CalledLibrary {
    /// Number of libraries on the stack above the program.
    fn depth(self) -> usize {
        match self {
            CalledLibrary::Verbs => 1,
            CalledLibrary::Rdmacm => 2,
        }
    }
}

/// A function that a program calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Called {
    name: &'static str,
    library: CalledLibrary,
}

impl Called {
    /// A function of libibverbs.
    pub(crate) fn verbs(name: &'static str) -> Called {
        Called { name, library: CalledLibrary::Verbs }
    }

    /// A function of librdmacm.
    pub(crate) fn rdmacm(name: &'static str) -> Called {
        Called { name, library: CalledLibrary::Rdmacm }
    }
}

/// A call whose arguments the program may reduce, if it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) call: Called,
    /// Arguments that a repeated call leaves unchanged.
    pub(crate) same: [u64; 4],
    /// Fields that a repeated call may reduce. Calls of one function have equal fields in equal order.
    pub(crate) sizes: [Size; 5],
}

/// A field of a call that the program may reduce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    /// All reasons that refuse a value of the field.
    reasons: &'static [&'static Cause],
    value: u64,
    /// Whether programs increase the field until the call is refused.
    grows: bool,
}

/// Fills the list of fields of a call with few fields.
pub(crate) const NONE: Size = Size { reasons: &[], value: 0, grows: false };

impl Size {
    pub(crate) fn new(reasons: &'static [&'static Cause], value: impl Into<u64>) -> Size {
        Size { reasons, value: value.into(), grows: false }
    }

    /// A field that programs increase until the call is refused.
    pub(crate) fn growing(reasons: &'static [&'static Cause], value: impl Into<u64>) -> Size {
        Size { grows: true, ..Size::new(reasons, value) }
    }

    fn is_refused_for(&self, cause: &'static Cause) -> bool {
        self.reasons.iter().any(|reason| std::ptr::eq(*reason, cause))
    }
}

impl Asked {
    /// Whether a program may have reduced `larger` to this call.
    fn is_reduced(&self, larger: &Asked) -> bool {
        let [own, other] = [self, larger].map(|asked| asked.sizes.map(|size| size.value));
        let is_smaller = own.iter().zip(&other).all(|(own, other)| own <= other);
        (self.call, self.same) == (larger.call, larger.same) && is_smaller && own != other
    }

    /// Whether a program that increases a field may have come from this call to `larger`.
    fn grows_to(&self, larger: &Asked) -> bool {
        let is_equal = |(own, other): (&Size, &Size)| own.value == other.value || own.grows;
        self.is_reduced(larger) && self.sizes.iter().zip(&larger.sizes).all(is_equal)
    }

    /// Whether programs increase a field of the call until it is refused.
    fn grows(&self) -> bool {
        self.sizes.iter().any(|size| size.grows)
    }

    /// Whether the call was refused because of a field that programs increase.
    fn has_grown(&self, cause: &'static Cause) -> bool {
        self.sizes.iter().any(|size| size.grows && size.is_refused_for(cause))
    }

    /// Whether the call may work with smaller values: it was refused because of a field that the program may
    /// reduce, or for lack of memory.
    fn may_be_reduced(&self, refused: &Refused) -> bool {
        let is_of_size = self.sizes.iter().any(|size| size.is_refused_for(refused.cause()));
        refused.errno() == errno::ENOMEM || is_of_size
    }
}

/// The man page that describes a call.
fn page(call: &str) -> String {
    // These calls have no page of their own.
    let page = match call {
        "ibv_reg_mr_iova" => "ibv_reg_mr",
        "ibv_start_poll" => "ibv_create_cq_ex",
        "ibv_wr_complete" => "ibv_wr_post",
        own => own,
    };
    format!("{page}(3)")
}

/// A line, and the calls that it stands for.
#[derive(Debug)]
struct Line {
    call: Called,
    cause: &'static Cause,
    /// The address in the program to which the call returns.
    site: usize,
    text: String,
    /// Number of refused calls after the first.
    more: u64,
}

impl Line {
    fn new(call: Called, refused: &Refused, site: usize) -> Line {
        let (name, errno, page) = (call.name, refused.errno_name(), page(call.name));
        let text = format!("{name} failed with {errno}: {refused}; see {page}");
        let text = if doorbell_launch::say::broken("r-page") { format!("{name} failed with {errno}: {refused}") } else { text };
        Line { call, cause: refused.cause(), site, text, more: 0 }
    }

    fn is_like(&self, other: &Line) -> bool {
        !doorbell_launch::say::broken("r-like") && (self.call, self.site) == (other.call, other.site) && std::ptr::eq(self.cause, other.cause)
    }

    /// The line at exit about the refused calls after the first.
    fn count(&self) -> Option<String> {
        let times = match self.more {
            0 => return None,
            1 => "once more".to_owned(),
            more => format!("{more} more times"),
        };
        let Line { call: Called { name, .. }, cause, .. } = self;
        Some(format!("{name} failed {times} because of {}, for the reason above", cause.field))
    }
}

/// The kind of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueueKind {
    Sends,
    Recvs,
}

/// The state of this module in a queue that may be full.
#[derive(Debug)]
pub(crate) struct Fullness {
    kind: QueueKind,
    /// Number of the queue among the queues of its kind.
    number: u32,
    /// Whether the program posts again after the queue was full. Then its full queue needs no line any more.
    is_flow_control: AtomicBool,
}

impl Fullness {
    pub(crate) fn new(kind: QueueKind, number: u32) -> Fullness {
        Fullness { kind, number, is_flow_control: AtomicBool::new(false) }
    }

    /// Whether no line about this queue is needed. Relaxed: the flag orders nothing.
    fn needs_no_line(&self) -> bool {
        is_quiet() || self.is_flow_control.load(Relaxed)
    }
}

/// The present number of work requests that were posted to a queue; `None` if it is not known. A signal
/// handler calls the function.
type PostedNow = Arc<dyn Fn() -> Option<u64> + Send + Sync>;

/// A post that a full queue has refused.
struct Full {
    queue: (QueueKind, u32),
    /// Number of work requests that were posted to the queue before the refused one.
    posted: u64,
    posted_now: PostedNow,
    line: Line,
}

impl fmt::Debug for Full {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Full").field("queue", &self.queue).field("line", &self.line).finish_non_exhaustive()
    }
}

/// An object that could not be destroyed because of its users.
#[derive(Debug)]
struct InUse {
    /// Address of the object.
    object: usize,
    line: Line,
    /// Whether the program has created an object since, and so does not only end.
    goes_on: bool,
}

/// Whether the state has an object in use. Relaxed: the flag orders nothing. It only spares the lock.
static HAS_IN_USE: AtomicBool = AtomicBool::new(false);

#[derive(Debug, Default)]
struct State {
    /// Lines to print as soon as the lock is released.
    due: Vec<String>,
    printed: Vec<Line>,
    /// Whether lines beyond [`MOST`] were left out.
    is_cut: bool,
    /// A refused call that the program may repeat with smaller values.
    held: Option<(Asked, Line)>,
    /// The last call of each kind that has worked, and its call site, if programs increase its fields.
    worked: Vec<(Asked, usize)>,
    /// The refused call with the largest values of a program that searches for a limit.
    searched: Option<Asked>,
    full: Vec<Full>,
    in_use: Vec<InUse>,
    /// Call sites that post again after a queue was full.
    flow_control: Vec<usize>,
    /// Whether `at_exit` has run. Later lines cannot wait.
    is_exiting: bool,
}

/// A child of fork(2) begins without lines, because its parent prints those from before.
static STATE: Anew<State> = Anew::new(State {
    due: Vec::new(),
    printed: Vec::new(),
    is_cut: false,
    held: None,
    worked: Vec::new(),
    searched: None,
    full: Vec::new(),
    in_use: Vec::new(),
    flow_control: Vec::new(),
    is_exiting: false,
});

impl State {
    /// Prints a line, or counts it if it was printed before.
    fn print(&mut self, line: Line) {
        if let Some(known) = self.printed.iter_mut().find(|known| known.is_like(&line)) {
            known.more += 1 + line.more;
        } else if self.printed.len() < MOST {
            self.due.push(line.text.clone());
            self.printed.push(line);
        } else if !self.is_cut {
            self.is_cut = true;
            self.due.push("further refused calls are not explained".into());
        }
    }

    fn print_held(&mut self) {
        if let Some((_, line)) = self.held.take() {
            self.print(line);
            self.set_last_line();
        }
    }

    /// Holds the line of a call that the program may repeat with smaller values.
    fn hold(&mut self, asked: Asked, line: Line) {
        if asked.has_grown(line.cause) {
            // The program has increased a value until the call failed, and now searches below this value.
            if self.worked.iter().any(|(worked, site)| *site == line.site && worked.grows_to(&asked)) {
                self.searched = Some(asked);
            }
            if self.searched.is_some_and(|most| asked == most || asked.grows_to(&most)) {
                return;
            }
        }
        match &mut self.held {
            Some((before, held)) if held.is_like(&line) => {
                held.more += 1;
                *before = asked;
            }
            _ if self.is_exiting || self.printed.iter().any(|known| known.is_like(&line)) => self.print(line),
            _ => {
                self.print_held();
                self.held = Some((asked, line));
                self.set_last_line();
            }
        }
    }

    /// `site` is the call site if programs increase a field of the call.
    fn worked(&mut self, asked: Asked, site: Option<usize>) {
        if !doorbell_launch::say::broken("r-search") && self.held.as_ref().is_some_and(|(before, _)| asked.is_reduced(before)) {
            self.held = None;
            self.set_last_line();
        }
        if let Some(site) = site {
            self.worked.retain(|(known, _)| known.call != asked.call);
            self.worked.push((asked, site));
        }
    }

    /// Counts a post that a full queue has refused again. Returns `None` if the queue was not full before,
    /// and otherwise whether the program has posted to it since.
    fn full_again(&mut self, queue: (QueueKind, u32), posted: u64) -> Option<bool> {
        let at = self.full.iter().position(|full| full.queue == queue)?;
        if self.full[at].posted == posted {
            self.full[at].line.more += 1;
            return Some(false);
        }
        if doorbell_launch::say::broken("r-flow") {
            self.full[at].posted = posted;
            return Some(false);
        }
        let full = self.full.remove(at);
        if !self.flow_control.contains(&full.line.site) {
            self.flow_control.push(full.line.site);
        }
        self.set_last_line();
        Some(true)
    }

    /// Records the first post that a full queue has refused. Returns `false` if its call site posts again
    /// after a queue was full.
    fn full(&mut self, full: Full) -> bool {
        if self.flow_control.contains(&full.line.site) {
            return false;
        }
        if self.is_exiting {
            self.print(full.line);
        } else {
            self.full.push(full);
            self.set_last_line();
        }
        true
    }

    /// A queue is reset or destroyed after `posted` work requests. Prints that the queue was full, unless the
    /// program has posted to it since.
    fn queue_ends(&mut self, queue: (QueueKind, u32), posted: u64) {
        let Some(at) = self.full.iter().position(|full| full.queue == queue) else { return };
        let full = self.full.remove(at);
        self.end_full(vec![(full, Some(posted))]);
        self.set_last_line();
    }

    /// Prints which of these queues were full, by the numbers of work requests that were posted to them until
    /// now.
    fn end_full(&mut self, all: Vec<(Full, Option<u64>)>) {
        let is_repeated =
            |(full, posted): &&(Full, Option<u64>)| posted.is_some_and(|now| now != full.posted);
        self.flow_control.extend(all.iter().filter(is_repeated).map(|(full, _)| full.line.site));
        for (full, posted) in all {
            if posted == Some(full.posted) && !self.flow_control.contains(&full.line.site) {
                self.print(full.line);
            }
        }
    }

    /// Records an object that cannot be destroyed because of its users.
    fn hold_in_use(&mut self, object: usize, line: Line) {
        let is_known = |known: &&mut InUse| known.object == object && known.line.is_like(&line);
        if let Some(known) = self.in_use.iter_mut().find(is_known) {
            known.line.more += 1;
        } else if !self.is_exiting && self.in_use.len() < MOST {
            self.in_use.push(InUse { object, line, goes_on: doorbell_launch::say::broken("r-inuse-always") });
        }
    }

    /// Prints all lines that wait, and the numbers of further refused calls.
    fn end(&mut self) {
        self.is_exiting = true;
        self.print_held();
        for InUse { line, .. } in std::mem::take(&mut self.in_use).into_iter().filter(|of| of.goes_on) {
            self.print(line);
        }
        let full = std::mem::take(&mut self.full);
        self.set_last_line();
        let with_number = |full: Full| {
            let now = (full.posted_now)();
            (full, now)
        };
        self.end_full(full.into_iter().map(with_number).collect());
        self.due.extend(self.printed.iter().filter_map(Line::count));
        self.printed.iter_mut().for_each(|line| line.more = 0);
    }

    /// Sets the line that is printed if a signal ends the process now.
    fn set_last_line(&self) {
        let last = match (&self.held, self.full.first()) {
            (Some((_, line)), _) => Some(LastLine::new(&line.text, || true)),
            (None, Some(Full { posted, posted_now, line, .. })) => {
                let (posted, posted_now) = (*posted, posted_now.clone());
                Some(LastLine::new(&line.text, move || posted_now() == Some(posted)))
            }
            (None, None) => None,
        };
        last_line::set(last);
    }
}

/// Changes the state, and prints the lines that are due after the lock is released.
fn change<T>(change: impl FnOnce(&mut State) -> T) -> T {
    let mut state = STATE.lock();
    let changed = change(&mut state);
    let due = std::mem::take(&mut state.due);
    drop(state);
    due.iter().for_each(say);
    changed
}

/// Whether no line explains the refused call, because the user wants no lines, or because the program may try
/// out a function that the device does not offer.
fn is_silent(refused: &Refused) -> bool {
    is_quiet() && !doorbell_launch::say::broken("r-quiet") || matches!(refused.errno(), errno::EOPNOTSUPP | errno::ENOSYS)
}

/// Explains a refused call.
#[cold]
pub(crate) fn refused(call: Called, refused: &Refused) {
    // `full` explains full queues.
    if is_silent(refused) || [&SEND_FULL, &SEND_LIST, &RECV_FULL].contains(&refused.cause()) {
        return;
    }
    print_at_exit();
    let line = Line::new(call, refused, call_site(call));
    change(|state| {
        state.print_held();
        state.print(line);
    });
}

/// Explains a refused call that the program may repeat with smaller values.
#[cold]
pub(crate) fn refused_sizes(asked: Asked, refused: &Refused) {
    if !asked.may_be_reduced(refused) {
        self::refused(asked.call, refused);
    } else if !is_silent(refused) {
        print_at_exit();
        let line = Line::new(asked.call, refused, call_site(asked.call));
        change(|state| state.hold(asked, line));
    }
}

/// Explains, at exit, why the object at this address was not destroyed.
#[cold]
pub(crate) fn explain_in_use(call: Called, object: usize, refused: &Refused) {
    if !is_quiet() {
        print_at_exit();
        let line = Line::new(call, refused, call_site(call));
        HAS_IN_USE.store(true, Relaxed);
        change(|state| state.hold_in_use(object, line));
    }
}

/// Records that the object at this address was destroyed.
pub(crate) fn forget_in_use(object: usize) {
    if HAS_IN_USE.load(Relaxed) {
        change(|state| state.in_use.retain(|known| known.object != object));
    }
}

/// Records that the program has created an object.
pub(crate) fn made() {
    if HAS_IN_USE.load(Relaxed) {
        change(|state| state.in_use.iter_mut().for_each(|known| known.goes_on = !doorbell_launch::say::broken("r-inuse")));
    }
}

/// Records a call that has worked.
pub(crate) fn worked(asked: Asked) {
    if !is_quiet() {
        // The loader's lock is not acquired under the lock of the state.
        let site = asked.grows().then(|| call_site(asked.call));
        change(|state| state.worked(asked, site));
    }
}

/// Records that a full queue refuses a post, after `posted` work requests.
#[cold]
pub(crate) fn full(
    queue: &Fullness,
    call: Called,
    refused: &Refused,
    posted: u64,
    posted_now: impl Fn() -> Option<u64> + Send + Sync + 'static,
) {
    if queue.needs_no_line() {
        return;
    }
    let name = (queue.kind, queue.number);
    let is_flow_control = match change(|state| state.full_again(name, posted)) {
        Some(has_posted) => has_posted,
        None => {
            print_at_exit();
            let line = Line::new(call, refused, call_site(call));
            let full = Full { queue: name, posted, posted_now: Arc::new(posted_now), line };
            !change(|state| state.full(full))
        }
    };
    queue.is_flow_control.store(is_flow_control, Relaxed);
}

/// Prints that a queue was full if no work request was posted since. The program has reset or destroyed the
/// queue. The caller holds no lock.
pub(crate) fn queue_ends(queue: &Fullness, posted: u64) {
    if !queue.needs_no_line() {
        change(|state| state.queue_ends((queue.kind, queue.number), posted));
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
    // A signal handler that calls exit(3) may have interrupted the thread that holds the lock.
    const TRIES: usize = 1000;
    let acquired = (0..TRIES).find_map(|_| {
        let state = STATE.try_lock();
        if state.is_none() {
            std::thread::yield_now();
        }
        state
    });
    let Some(mut state) = acquired else { return };
    state.end();
    let due = std::mem::take(&mut state.due);
    drop(state);
    due.iter().for_each(say);
}

unsafe extern "C" {
    fn _Unwind_Backtrace(visit: extern "C" fn(*mut c_void, *mut c_void) -> c_int, to: *mut c_void) -> c_int;
    fn _Unwind_GetIP(frame: *mut c_void) -> usize;
}

/// A walk through the stack to the call site.
struct StackWalk {
    /// The executable or library of the last frame.
    object: usize,
    /// Number of libraries to leave before the call site.
    left: usize,
    site: usize,
}

/// The address in the program to which a call returns. The program's functions that verbs.h declares inline
/// belong to the program.
fn call_site(call: Called) -> usize {
    let (object, left) = (object_of(call_site as *const () as usize), call.library.depth());
    let mut walk = StackWalk { object, left, site: 0 };
    // SAFETY: the visitor only runs during this call. The unwinder belongs to the standard library.
    unsafe { _Unwind_Backtrace(visit, (&raw mut walk).cast()) };
    walk.site
}

extern "C" fn visit(frame: *mut c_void, to: *mut c_void) -> c_int {
    /// `_URC_NO_REASON`, `_URC_NORMAL_STOP`.
    const GO_ON: c_int = 0;
    const STOP: c_int = 4;
    // SAFETY: the frame and the value of `call_site`.
    let (ip, walk) = unsafe { (_Unwind_GetIP(frame), &mut *to.cast::<StackWalk>()) };
    let object = object_of(ip);
    if object == walk.object {
        return GO_ON;
    }
    (walk.object, walk.site, walk.left) = (object, ip, walk.left - 1);
    if walk.left == 0 { STOP } else { GO_ON }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes::{OF_INLINE, OF_SEND_WR, QP_INLINE, QP_SEND_WR, RECV_STATE};

    fn line(refused: &Refused, site: usize) -> Line {
        Line::new(Called::verbs("ibv_create_qp"), refused, site)
    }

    /// A call of ibv_create_qp(3) with these values of `max_send_wr` and `max_inline_data`.
    fn asked(wr: u64, inline: u64) -> Asked {
        let sizes = [Size::new(OF_SEND_WR, wr), Size::growing(OF_INLINE, inline), NONE, NONE, NONE];
        Asked { call: Called::verbs("ibv_create_qp"), same: [0; 4], sizes }
    }

    #[test]
    fn lines_beyond_the_maximum_are_neither_printed_nor_counted() {
        let mut state = State::default();
        for site in 0..MOST + 2 {
            state.print(line(&RECV_STATE.bare(), site));
        }
        assert_eq!(state.due.len(), MOST + 1);
        state.due.clear();
        for site in [0, MOST, MOST + 1, MOST + 1] {
            state.print(line(&RECV_STATE.bare(), site));
        }
        state.end();
        assert!(matches!(&state.due[..], [count] if count.contains("failed once more ")), "{state:#?}");
    }

    /// A program that increases one field searches for its limit. A call at a call site that worked before
    /// with smaller values is no search.
    #[test]
    fn only_the_growing_field_is_searched() {
        let mut state = State::default();
        state.worked(asked(4, 64), Some(1));
        state.hold(asked(4, 1 << 20), line(&QP_INLINE.of([&(1 << 20), &1024]), 1));
        assert!(state.held.is_none() && state.searched == Some(asked(4, 1 << 20)));
        state.hold(asked(8, 1 << 20), line(&QP_INLINE.of([&(1 << 20), &1024]), 1));
        state.hold(asked(1 << 20, 64), line(&QP_SEND_WR.of([&(1 << 20), &16384]), 1));
        state.end();
        assert_eq!(state.due.len(), 2, "{state:#?}");
    }

    /// Destructors of a program may call verbs after the lines at exit were printed.
    #[test]
    fn lines_after_exit_are_printed_at_once() {
        let mut state = State::default();
        state.print(line(&RECV_STATE.bare(), 1));
        state.print(line(&RECV_STATE.bare(), 1));
        state.end();
        assert_eq!(state.due.len(), 2, "{state:#?}");
        state.hold(asked(1 << 20, 64), line(&QP_SEND_WR.of([&(1 << 20), &16384]), 2));
        state.print(line(&RECV_STATE.bare(), 1));
        assert_eq!(state.due.len(), 3, "{state:#?}");
    }

    /// A signal handler calls exit(3) while its thread holds the lock.
    #[test]
    fn exit_does_not_wait_for_the_lock() {
        let _held = STATE.lock();
        at_exit();
    }

    /// The queue of one call site is under flow control, and the queue of another call site is not.
    #[test]
    fn flow_control_is_known_by_its_call_site() {
        let mut state = State::default();
        let full = |number, site| Full {
            queue: (QueueKind::Sends, number),
            posted: 4,
            posted_now: Arc::new(|| Some(4)),
            line: line(&SEND_FULL.of([&4]), site),
        };
        assert!([(1, 10), (2, 20), (3, 10)].into_iter().all(|(number, site)| state.full(full(number, site))));
        assert_eq!(state.full_again((QueueKind::Sends, 2), 4), Some(false));
        assert_eq!(state.full_again((QueueKind::Sends, 1), 9), Some(true));
        assert!(!state.full(full(4, 10)));
        assert_eq!(state.full_again((QueueKind::Recvs, 2), 4), None);
        state.end();
        assert_eq!(state.due.len(), 2, "{state:#?}");
    }
}
