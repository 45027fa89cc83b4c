//! Pipes that wake a program: completion channels and asynchronous events.

use super::peer::Owner;
use crate::memory::records::EventRecord;
use crate::sync::Anew;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Bytes of an event in the pipe.
const EVENT_BYTES: usize = size_of::<EventRecord>();

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
        let mut ends = [0; 2];
        // SAFETY: room for two file descriptors.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: both just opened, owned by nobody else.
        let (read, write) = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
        // A full pipe must not stop who completes a work request.
        // SAFETY: a flag of a file of our own.
        if unsafe { libc::fcntl(write.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) } != 0 {
            return Err(io::Error::last_os_error());
        }
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
        // SAFETY: room for as many bytes.
        let got = unsafe { libc::read(self.read_fd(), bytes.as_mut_ptr().cast(), EVENT_BYTES) };
        match usize::try_from(got) {
            Err(_) => Err(io::Error::last_os_error()),
            Ok(EVENT_BYTES) => Ok(EventRecord::from_bytes(bytes)),
            Ok(_) => Err(io::Error::from_raw_os_error(libc::EIO)),
        }
    }
}

impl Drop for EventPipe {
    fn drop(&mut self) {
        let fd = self.write.as_raw_fd();
        PIPES.lock().retain(|other| *other != fd);
    }
}

impl EventRecord {
    fn to_bytes(self) -> [u8; EVENT_BYTES] {
        let mut bytes = [0; EVENT_BYTES];
        for (at, word) in [self.event_type, self.index, self.generation].into_iter().enumerate() {
            bytes[at * 4..at * 4 + 4].copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: [u8; EVENT_BYTES]) -> EventRecord {
        let word = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        EventRecord { event_type: word(0), index: word(4), generation: word(8) }
    }
}

/// Writes an event to the pipe that a record of `owner` names; nothing where it names none. An
/// event that cannot be delivered is lost, as its reader is gone or reads nothing; `false` where that is because this
/// process may not open a file now.
pub(crate) fn tell(owner: Owner<'_>, fd_in_record: u32, event: EventRecord) -> bool {
    let Some(fd) = fd_in_record.checked_sub(1) else { return true };
    let bytes = event.to_bytes();
    match owner {
        Owner::This => {
            // The number comes from shared memory: it must be that of one of our pipes.
            let pipes = PIPES.lock();
            if pipes.contains(&(fd as RawFd)) {
                // SAFETY: reads as many bytes; the pipe is open as long as it is in the list.
                unsafe { libc::write(fd as RawFd, bytes.as_ptr().cast(), bytes.len()) };
            }
            true
        }
        Owner::Peer(peer) => {
            let error = peer.write_to_pipe(fd, &bytes).err().and_then(|error| error.raw_os_error());
            !matches!(error, Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM))
        }
    }
}
