//! Threads that this library starts in a program without the program's knowledge.
//!
//! pthread_create(3) starts them, and returns an error if no further thread can be created. Threads of std
//! are not used. In a Rust program, such a thread maps a signal stack when it begins, and ends the whole
//! program if the mapping fails. rustix has no threads.

use crate::sync::{Anew, thread_id};
use std::ffi::CStr;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The IDs of the running threads of this library.
static RUNNING: Anew<Vec<u32>> = Anew::new(Vec::new());

/// The number of this process's threads that are not threads of this library. A thread of this library counts
/// as another one for a moment when it ends. `None` if /proc does not show the threads.
pub(crate) fn threads_of_program() -> Option<usize> {
    let threads = std::fs::read_dir("/proc/self/task").ok()?.flatten();
    let ids: Vec<u32> = threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok()).collect();
    let running = RUNNING.lock();
    Some(ids.iter().filter(|id| !running.contains(id)).count())
}

type ThreadBody = Box<dyn FnOnce() + Send>;

/// Tells the starter of a thread that the thread has begun. This is a semaphore because ThreadSanitizer sees
/// semaphores of the C library, but not the atomics of std.
struct Begins(*mut libc::sem_t);

// SAFETY: the starter waits for the post, so the semaphore lives until then.
unsafe impl Send for Begins {}

impl Begins {
    fn post(self) {
        // SAFETY: the semaphore is initialised. It may end during the call, when the starter has seen the
        // post.
        unsafe { libc::sem_post(self.0) };
    }
}

/// Stack size, in bytes. It is small because the threads call no function of the program.
const STACK_BYTES: usize = 256 << 10;

/// Starts a thread in which all signals are blocked. Returns when the thread is known and has allocated.
///
/// Programs such as libfabric, UCX and Open MPI overwrite the code of munmap(2) when they begin, because they
/// watch unmapped memory. A thread that is in the call then returns into the middle of an instruction. A
/// thread's first allocation makes an arena, which needs munmap(2), so this function waits for it.
///
/// # Errors
///
/// The errors of pthread_create(3), for example `EAGAIN` if no further thread can be created.
pub(crate) fn spawn(name: &'static CStr, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    spawn_on(STACK_BYTES, name, run)
}

fn spawn_on(stack_bytes: usize, name: &'static CStr, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // SAFETY: the struct has integers, which may be zero until sem_init(3).
    let mut begun: libc::sem_t = unsafe { std::mem::zeroed() };
    let begins = Begins(&raw mut begun);
    // SAFETY: the semaphore is on this stack, and nothing uses it yet.
    unsafe { libc::sem_init(begins.0, 0, 0) };
    let body = move || {
        drop(std::hint::black_box(Box::new(0_u8)));
        RUNNING.lock().push(thread_id());
        begins.post();
        // The panic hook has already reported the panic. The program continues without this thread, as after
        // a panic in a thread of std.
        let _ = catch_unwind(AssertUnwindSafe(run));
        RUNNING.lock().retain(|id| *id != thread_id());
    };
    let run: *mut ThreadBody = Box::into_raw(Box::new(Box::new(body)));
    // The new thread then needs no lock of the dynamic loader for its thread-local variables. This thread may
    // hold that lock, in a constructor of a library that dlopen(3) loads.
    thread_id();
    // sem_wait(3) is a cancellation point. Neither a cancellation nor a signal handler that jumps may end the
    // semaphore before the post.
    // SAFETY: the signal sets are on this stack and are filled in before they are read. At the end this
    // thread has its previous signal mask again. `begin` takes over `run`, which nothing else refers to. The
    // semaphore is initialised. SIGSTOP may interrupt the wait.
    let made = uncancelled(|| unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let made = create(stack_bytes, run);
        while made.is_ok() && libc::sem_wait(&raw mut begun) != 0 {}
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        made
    });
    match made {
        Ok(thread) => {
            // SAFETY: nothing joins the thread, so its handle is not used after this block. The name is a C
            // string.
            unsafe {
                libc::pthread_setname_np(thread, name.as_ptr());
                libc::pthread_detach(thread);
            }
            Ok(())
        }
        Err(error) => {
            // SAFETY: no thread was started, so no thread has taken over `run`.
            drop(unsafe { Box::from_raw(run) });
            Err(error)
        }
    }
}

/// Runs a function during which pthread_cancel(3) does not end this thread. A cancelled thread would unwind
/// through functions that do not expect it.
pub(crate) fn uncancelled<T>(run: impl FnOnce() -> T) -> T {
    unsafe extern "C" {
        fn pthread_setcancelstate(state: libc::c_int, before: *mut libc::c_int) -> libc::c_int;
    }
    const DISABLE: libc::c_int = 1;
    let mut before = 0;
    // SAFETY: the call takes a number, and a variable of this function.
    unsafe { pthread_setcancelstate(DISABLE, &mut before) };
    let result = run();
    // SAFETY: as above.
    unsafe { pthread_setcancelstate(before, &mut 0) };
    result
}

/// # Safety
///
/// `run` comes from `Box::into_raw`. If a thread starts, the box belongs to that thread from then on.
unsafe fn create(stack_bytes: usize, run: *mut ThreadBody) -> io::Result<libc::pthread_t> {
    // SAFETY: attributes and a number on this stack, initialised before they are used.
    let error = unsafe {
        let (mut about, mut thread) = (std::mem::zeroed(), std::mem::zeroed());
        libc::pthread_attr_init(&mut about);
        libc::pthread_attr_setstacksize(&mut about, stack_bytes);
        let error = libc::pthread_create(&mut thread, &about, begin, run.cast());
        libc::pthread_attr_destroy(&mut about);
        if error == 0 {
            return Ok(thread);
        }
        error
    };
    Err(io::Error::from_raw_os_error(error))
}

extern "C" fn begin(run: *mut libc::c_void) -> *mut libc::c_void {
    // SAFETY: `spawn_on` made the pointer from a box, for this thread alone.
    let run = unsafe { Box::from_raw(run.cast::<ThreadBody>()) };
    run();
    std::ptr::null_mut()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_thread_has_its_name_and_no_signals_and_may_panic() {
        let (said, heard) = channel();
        let run = move || {
            let status = std::fs::read_to_string("/proc/thread-self/status").expect("it can be read");
            said.send(status).expect("somebody listens");
            panic!("of a test; nobody else minds");
        };
        spawn(c"a name", run).expect("there is room");
        let status = heard.recv().expect("it says so");
        assert!(status.contains("SigBlk:\tfffffffe7ffbfeff\n"), "{status}");
        // The thread may get its name a moment after it starts.
        assert!(status.starts_with("Name:\t"), "{status}");
        assert!(heard.recv().is_err(), "it has ended");
    }

    #[test]
    fn running_threads_of_this_library_are_known() {
        let ((says, hears), (ends, ended)) = (channel(), channel::<()>());
        let run = move || {
            says.send(thread_id()).expect("somebody listens");
            let _ = ended.recv();
        };
        spawn(c"known", run).expect("there is room");
        let known = RUNNING.lock().clone();
        let id = hears.recv().expect("it says so");
        assert!(known.contains(&id), "it is known at once");
        assert!(threads_of_program().is_some_and(|count| count >= 1), "this thread is none of them");
        drop(ends);
        while RUNNING.lock().contains(&id) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_thread_that_is_being_cancelled_starts_a_thread() {
        extern "C" fn start(_: *mut libc::c_void) -> *mut libc::c_void {
            // SAFETY: the calls take this thread alone. It is not cancelled before a cancellation point.
            unsafe { libc::pthread_cancel(libc::pthread_self()) };
            spawn(c"started", || ()).is_ok() as usize as *mut libc::c_void
        }
        let (mut thread, mut result) = (0, std::ptr::null_mut());
        // SAFETY: the variables are on this stack, and the thread is joined once.
        unsafe {
            let none = std::ptr::null_mut();
            assert_eq!(libc::pthread_create(&mut thread, std::ptr::null(), start, none), 0);
            assert_eq!(libc::pthread_join(thread, &mut result), 0);
        }
        assert_eq!(result as usize, 1, "it returned from its function");
    }

    #[test]
    fn no_room_is_an_error() {
        let (said, heard) = channel::<()>();
        let no_room = spawn_on(usize::MAX >> 17 << 12, c"no room", move || drop(said));
        assert!(no_room.is_err());
        assert!(heard.recv().is_err(), "what it would have run is gone");
    }
}
