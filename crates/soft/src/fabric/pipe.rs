//! Pipes that wake a program: completion channels and asynchronous events.

use super::peer::Owner;
use crate::memory::records::{EVENT_BYTES, EventRecord};
use crate::sync::Anew;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Writing ends of all pipes of this process.
static PIPES: Anew<Vec<RawFd>> = Anew::new(Vec::new());

/// A pipe of events: the program holds the reading end, every process that fills one of its
/// queues writes to the other. Writes are of one event and so never mix.
#[derive(Debug)]
pub(crate) struct EventPipe {
    read: OwnedFd,
    write: OwnedFd,
}

impl EventPipe {
    pub(crate) fn new() -> io::Result<EventPipe> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        // A full pipe must not stop who completes a work request.
        fcntl_setfl(&write, OFlags::NONBLOCK)?;
        PIPES.lock().push(write.as_raw_fd());
        Ok(EventPipe { read, write })
    }

    /// What the program waits on.
    pub(crate) fn read_fd(&self) -> RawFd {
        self.read.as_raw_fd()
    }

    /// The number of the writing end as it stands in records: plus 1.
    pub(crate) fn in_record(&self) -> u32 {
        self.write.as_raw_fd() as u32 + 1
    }

    /// The next event, waiting for one unless the program has made the end non-blocking.
    pub(crate) fn next(&self) -> io::Result<EventRecord> {
        let mut bytes = [0; EVENT_BYTES];
        match rustix::io::read(&self.read, &mut bytes)? {
            EVENT_BYTES => Ok(EventRecord::from_bytes(bytes)),
            _ => Err(Errno::IO.into()),
        }
    }
}

impl Drop for EventPipe {
    fn drop(&mut self) {
        let fd = self.write.as_raw_fd();
        PIPES.lock().retain(|other| *other != fd);
    }
}

/// Writes an event to the pipe that a record of `owner` names; nothing where it names none. An
/// event that cannot be delivered is lost, as its reader is gone or reads nothing; `false` where that is because this
/// process may not open a file now, or too many ask the other's thread at once.
pub(crate) fn tell(owner: Owner<'_>, fd_in_record: u32, event: EventRecord) -> bool {
    let Some(fd) = fd_in_record.checked_sub(1) else { return true };
    match owner {
        Owner::This => {
            // The number comes from shared memory: it must be that of one of our pipes.
            let pipes = PIPES.lock();
            if pipes.contains(&(fd as RawFd)) {
                // SAFETY: the pipe is open as long as it is in the list.
                let pipe = unsafe { BorrowedFd::borrow_raw(fd as RawFd) };
                let _ = rustix::io::write(pipe, &event.to_bytes());
            }
            true
        }
        Owner::Peer(peer) => {
            let error = peer.write_to_pipe(fd, event).err().and_then(|error| error.raw_os_error());
            match error {
                Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => false,
                // Of a pipe it means that nobody reads it.
                Some(libc::EAGAIN) => peer.link.is_none(),
                _ => true,
            }
        }
    }
}
