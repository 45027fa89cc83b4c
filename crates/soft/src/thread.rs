//! Threads of this library in programs that know nothing of them.
//!
//! They are started by pthread_create(3), which says when there is no room. std's own, in a program written in Rust,
//! map a signal stack once they run, and end the whole program where there is no room for that. rustix has no threads.

use std::ffi::CStr;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

type ThreadBody = Box<dyn FnOnce() + Send>;

/// For a thread that calls no function of the program's.
const STACK_BYTES: usize = 256 << 10;

/// Starts a thread that gets none of the program's signals.
///
/// # Errors
///
/// Where there is no room for another thread.
pub(crate) fn spawn(name: &'static CStr, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    spawn_on(STACK_BYTES, name, run)
}

fn spawn_on(stack_bytes: usize, name: &'static CStr, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let run: *mut ThreadBody = Box::into_raw(Box::new(Box::new(run)));
    // SAFETY: sets of signals and attributes on this stack, filled in before they are read; this thread's mask is as it
    // was at the end. `begin` takes over `run`, which nobody else knows.
    let error = unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let error = create(stack_bytes, run);
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        error
    };
    match error {
        Ok(thread) => {
            // SAFETY: a thread that nobody joins, so that it may not be used after this; the name is a string.
            unsafe {
                libc::pthread_setname_np(thread, name.as_ptr());
                libc::pthread_detach(thread);
            }
            Ok(())
        }
        Err(error) => {
            // SAFETY: no thread was started that took it over.
            drop(unsafe { Box::from_raw(run) });
            Err(error)
        }
    }
}

/// # Safety
///
/// `run` is a box's that is the thread's from now on, if one starts.
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
    // SAFETY: what `spawn` has made of a box, for this thread alone.
    let run = unsafe { Box::from_raw(run.cast::<ThreadBody>()) };
    // A panic was told by its hook; the program goes on without this thread, as it would without one of std's.
    let _ = catch_unwind(AssertUnwindSafe(*run));
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
        // Its name may come a moment after its beginning.
        assert!(status.starts_with("Name:\t"), "{status}");
        assert!(heard.recv().is_err(), "it has ended");
    }

    #[test]
    fn no_room_is_an_error() {
        let (said, heard) = channel::<()>();
        let no_room = spawn_on(usize::MAX >> 17 << 12, c"no room", move || drop(said));
        assert!(no_room.is_err());
        assert!(heard.recv().is_err(), "what it would have run is gone");
    }
}
