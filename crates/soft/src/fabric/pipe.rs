//! The pipes behind completion channels and asynchronous events. A program that reads or polls such a pipe is
//! woken by each event.

use super::peer::Owner;
use crate::memory::records::{EVENT_BYTES, EventRecord};
use crate::sync::Anew;
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Write ends of all pipes of this process.
static PIPES: Anew<Vec<RawFd>> = Anew::new(Vec::new());

/// A pipe of events. The program waits on the read end. Each process that fills one of the program's queues
/// writes to the write end. A write is one whole event, so events never mix (pipe(7), `PIPE_BUF`).
#[derive(Debug)]
pub(crate) struct EventPipe {
    read: OwnedFd,
    write: OwnedFd,
    reads: Arc<PipeReads>,
}

/// How many reads of a pipe have begun and ended, to find out whether a thread waits in one.
#[derive(Debug, Default)]
pub(crate) struct PipeReads {
    begun: AtomicU64,
    ended: AtomicU64,
}

impl PipeReads {
    /// The numbers of reads that have begun and ended, if a thread is in a read. If two calls return equal
    /// numbers, the thread was in the read all the time.
    pub(crate) fn current(&self) -> Option<(u64, u64)> {
        // Relaxed: the numbers order nothing. If they are old, the next call sees new ones.
        let (ended, begun) = (self.ended.load(Relaxed), self.begun.load(Relaxed));
        (begun != ended).then_some((begun, ended))
    }
}

impl EventPipe {
    pub(crate) fn new() -> io::Result<EventPipe> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        // A full pipe must not block a process that completes a work request.
        fcntl_setfl(&write, OFlags::NONBLOCK)?;
        PIPES.lock().push(write.as_raw_fd());
        Ok(EventPipe { read, write, reads: Arc::default() })
    }

    /// The read end, for the program to wait on.
    pub(crate) fn read_fd(&self) -> RawFd {
        self.read.as_raw_fd()
    }

    /// The number of the write end in records: the file descriptor plus 1, because 0 in a record means no
    /// pipe.
    pub(crate) fn in_record(&self) -> u32 {
        self.write.as_raw_fd() as u32 + 1
    }

    /// The reads of this pipe.
    pub(crate) fn reads(&self) -> Arc<PipeReads> {
        self.reads.clone()
    }

    /// Reads the next event. The call blocks until an event arrives, unless the program has made the read end
    /// non-blocking.
    pub(crate) fn next(&self) -> io::Result<EventRecord> {
        let mut bytes = [0; EVENT_BYTES];
        self.reads.begun.fetch_add(1, Relaxed);
        let read = rustix::io::read(&self.read, &mut bytes);
        self.reads.ended.fetch_add(1, Relaxed);
        match read? {
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

/// Writes an event to the pipe that a record of `owner` names, if the record names a pipe.
///
/// Returns `false` if a later call may succeed: this process cannot open a file now, or the socket to the
/// peer's service thread is full. Any other event that cannot be written is lost, because the reader of the
/// pipe has exited or does not read.
pub(crate) fn tell(owner: Owner<'_>, fd_in_record: u32, event: EventRecord) -> bool {
    let Some(fd) = fd_in_record.checked_sub(1) else { return true };
    match owner {
        Owner::This => {
            // The number comes from shared memory, so it must be checked against this process's pipes.
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
                // On a link, this error means that the socket is full. On a pipe, it means that the program
                // does not read.
                Some(libc::EAGAIN) => peer.link.is_none(),
                _ => true,
            }
        }
    }
}
