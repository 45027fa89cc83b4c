//! Messages between a process and the service thread of another process. Each message is one packet of a
//! SOCK_SEQPACKET socket: a head of eight words, and bytes that follow the head.

use crate::memory::copy::Piece;
use doorbell_launch::trust::user;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use std::fmt::Display;
use std::io;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::mem::size_of;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Maximum number of bytes behind the head of a message. The buffer of a socket holds several messages of
/// this length.
pub(crate) const MAX_PART: usize = 32 << 10;
/// Version of this protocol. Processes with different versions refuse each other.
pub(crate) const VERSION: u64 = 2;
/// Words in a head.
const WORDS: usize = 8;
const HEAD_BYTES: usize = WORDS * size_of::<u64>();

/// The head of a message. The kind of the request determines the meaning of the words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// In a request, the word of its [`RequestKind`]; in an answer, the word of its [`AnswerKind`].
    code: u64,
    /// Number of a request on its connection, counted from 1. An answer has the number of its request. A
    /// request without an answer has number 0.
    pub(crate) sequence: u64,
    pub(crate) words: [u64; WORDS - 2],
}

/// Kinds of requests. The comment of a kind lists its words in order. In requests for memory (WRITE, READ and
/// atomics), word 4 has the number of the QP that receives the request, and the generation of this number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// Protocol version; slot and start time of the asked process. The answer has the version and the start
    /// time. It also has the file of the asked process's segment, and the pidfd of this process if it can be
    /// opened.
    Hello,
    /// Key of a region, and offset in the region. The bytes to write follow the head.
    Write,
    /// Key of a region, offset in the region, and length. The bytes read follow the head of the answer.
    Read,
    /// Key of a region, offset, value to compare with, value to store. Word 0 of the answer is the old value.
    CompareSwap,
    /// Key of a region, offset, value to add. Word 0 of the answer is the old value.
    FetchAdd,
    /// A part of a message, which follows the head. The words are the part's offset in the message, the
    /// number of the sending QP, and the number of the work request.
    Part,
    /// Delivers a message that was sent in parts. The words are a `Delivery`.
    Deliver,
    /// File descriptor of a pipe, and the words of an event. The request has no answer.
    Wake,
}

impl RequestKind {
    fn to_word(self) -> u64 {
        match self {
            RequestKind::Hello => 1,
            RequestKind::Write => 2,
            RequestKind::Read => 3,
            RequestKind::CompareSwap => 4,
            RequestKind::FetchAdd => 5,
            RequestKind::Part => 6,
            RequestKind::Deliver => 7,
            RequestKind::Wake => 8,
        }
    }

    fn from_word(word: u64) -> Option<RequestKind> {
        Some(match word {
            1 => RequestKind::Hello,
            2 => RequestKind::Write,
            3 => RequestKind::Read,
            4 => RequestKind::CompareSwap,
            5 => RequestKind::FetchAdd,
            6 => RequestKind::Part,
            7 => RequestKind::Deliver,
            8 => RequestKind::Wake,
            _ => return None,
        })
    }
}

/// Kinds of answers: the results of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerKind {
    Done,
    /// The region does not exist, does not allow the access, or is not mapped.
    Memory,
    /// Nothing was done; the request may be repeated.
    Again,
    /// The message of a DELIVER was not received. Word 0 of the answer is the reason.
    Refused,
}

impl AnswerKind {
    fn to_word(self) -> u64 {
        match self {
            AnswerKind::Done => 0,
            AnswerKind::Memory => 1,
            AnswerKind::Again => 2,
            AnswerKind::Refused => 3,
        }
    }

    fn from_word(word: u64) -> Option<AnswerKind> {
        Some(match word {
            0 => AnswerKind::Done,
            1 => AnswerKind::Memory,
            2 => AnswerKind::Again,
            3 => AnswerKind::Refused,
            _ => return None,
        })
    }
}

impl Head {
    pub(crate) fn of_request(kind: RequestKind, sequence: u64, words: [u64; WORDS - 2]) -> Head {
        Head { code: kind.to_word(), sequence, words }
    }

    pub(crate) fn of_answer(kind: AnswerKind, sequence: u64, words: [u64; WORDS - 2]) -> Head {
        Head { code: kind.to_word(), sequence, words }
    }

    /// A head with any code, also of an unknown kind.
    #[cfg(test)]
    pub(crate) fn with_code(code: u64, sequence: u64, words: [u64; WORDS - 2]) -> Head {
        Head { code, sequence, words }
    }

    /// The kind of this request; `None` if it is unknown.
    pub(crate) fn request(&self) -> Option<RequestKind> {
        RequestKind::from_word(self.code)
    }

    /// The kind of this answer; `None` if it is unknown.
    pub(crate) fn answer(&self) -> Option<AnswerKind> {
        AnswerKind::from_word(self.code)
    }

    fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        let all = [self.code, self.sequence].into_iter().chain(self.words);
        for (to, word) in bytes.chunks_exact_mut(size_of::<u64>()).zip(all) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Option<Head> {
        let mut words = [0; WORDS];
        for (word, from) in words.iter_mut().zip(bytes.get(..HEAD_BYTES)?.chunks_exact(size_of::<u64>())) {
            *word = u64::from_ne_bytes(from.try_into().ok()?);
        }
        let [code, sequence, words @ ..] = words;
        Some(Head { code, sequence, words })
    }
}

/// A received message.
#[derive(Debug, Default)]
pub(crate) struct WireMessage {
    pub(crate) head: Head,
    /// The bytes that follow the head.
    pub(crate) bytes: Vec<u8>,
    pub(crate) files: Vec<OwnedFd>,
}

/// A new socket that never blocks.
pub(crate) fn socket() -> io::Result<OwnedFd> {
    Ok(net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, NEVER_BLOCKS, None)?)
}

/// Flags of all sockets.
const NEVER_BLOCKS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);

/// The address of a socket in an open folder. The folder's own path may be too long for an address.
pub(crate) fn address(folder: &impl AsRawFd, name: impl Display) -> io::Result<SocketAddrUnix> {
    // Not /proc/self: the main thread may have ended, and then has no files.
    Ok(SocketAddrUnix::new(format!("/proc/thread-self/fd/{}/{name}", folder.as_raw_fd()))?)
}

/// Whether the process at the other end of a connection belongs to this user.
pub(crate) fn is_own(socket: &OwnedFd) -> bool {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // This calls libc, because the PID of a process in another PID namespace is 0, which rustix's type cannot
    // represent.
    // SAFETY: `peer` has room for the result.
    let told = unsafe {
        let to = (&raw mut peer).cast();
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, to, &mut len)
    };
    told == 0 && peer.uid == user()
}

/// Connects to the listening socket with this name in an open folder. The listener must belong to this user.
///
/// # Errors
/// As connect(2), and `EPERM` if the listener belongs to another user.
pub(crate) fn connect(folder: &impl AsRawFd, name: impl Display) -> io::Result<OwnedFd> {
    let socket = socket()?;
    net::connect(&socket, &address(folder, name)?)?;
    if is_own(&socket) { Ok(socket) } else { Err(io::Error::from_raw_os_error(libc::EPERM)) }
}

/// Accepts a connection; `None` if the connecting process belongs to another user. The returned socket never
/// blocks.
///
/// # Errors
/// As accept(2).
pub(crate) fn accept(listener: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let socket = net::accept_with(listener, NEVER_BLOCKS)?;
    Ok(is_own(&socket).then_some(socket))
}

/// Space for the control message of two files.
type Control = [u64; 8];
/// Maximum number of file descriptors that are received with a message.
const MOST_FILES: usize = 12;

/// Sends a message: a head, pieces of this process's memory, and files. Never blocks.
///
/// This calls libc, because rustix's sendmsg takes references, and the pieces are addresses that only the
/// kernel checks.
pub(crate) fn send(socket: &OwnedFd, head: Head, pieces: &[Piece], files: &[RawFd]) -> io::Result<()> {
    let bytes = head.to_bytes();
    let head = Piece { addr: bytes.as_ptr() as u64, len: bytes.len() };
    let mut parts: Vec<Piece> = std::iter::once(head).chain(pieces.iter().copied()).collect();
    let mut control: Control = [0; 8];
    // SAFETY: numbers and null pointers, which may be zero.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    (message.msg_iov, message.msg_iovlen) = (parts.as_mut_ptr().cast(), parts.len() as _);
    if !files.is_empty() {
        let len = size_of_val(files) as u32;
        // SAFETY: `control` has room for the files, which are two at most.
        unsafe {
            debug_assert!(libc::CMSG_SPACE(len) as usize <= size_of::<Control>());
            message.msg_control = control.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(len) as _;
            let first = libc::CMSG_FIRSTHDR(&message);
            (*first).cmsg_level = libc::SOL_SOCKET;
            (*first).cmsg_type = libc::SCM_RIGHTS;
            (*first).cmsg_len = libc::CMSG_LEN(len) as _;
            std::ptr::copy_nonoverlapping(files.as_ptr().cast::<u8>(), libc::CMSG_DATA(first), len as usize);
        }
    }
    // SAFETY: everything that the message points to outlives the call, except the pieces, which the kernel
    // checks.
    let sent =
        unsafe { libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Receives the next message; `None` if no message has arrived.
///
/// # Errors
/// As recvmsg(2); `UnexpectedEof` if the other end is closed; `EMFILE` if there is no room for a received
/// file; `InvalidData` if the bytes are not a message.
pub(crate) fn receive(socket: &OwnedFd) -> io::Result<Option<WireMessage>> {
    let mut bytes = vec![0; HEAD_BYTES + MAX_PART];
    let mut control = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_FILES))];
    let mut control = RecvAncillaryBuffer::new(&mut control);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let got = match net::recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags) {
        Ok(got) => got,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if got.bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let files = files_of(&mut control);
    if got.flags.contains(ReturnFlags::CTRUNC) {
        return Err(Errno::MFILE.into());
    }
    let head = Head::from_bytes(&bytes[..got.bytes]).ok_or(io::ErrorKind::InvalidData)?;
    bytes.truncate(got.bytes);
    bytes.drain(..HEAD_BYTES);
    Ok(Some(WireMessage { head, bytes, files }))
}

/// The files of a message.
fn files_of(control: &mut RecvAncillaryBuffer<'_>) -> Vec<OwnedFd> {
    let files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    files.flatten().collect()
}

/// Waits until a message can be received or the other end is closed; `false` if neither happens within
/// `time`.
pub(crate) fn wait(socket: &OwnedFd, time: Duration) -> bool {
    let time = Timespec::try_from(time).ok();
    poll(&mut [PollFd::new(socket, PollFlags::IN)], time.as_ref()).is_ok_and(|ready| ready > 0)
}

/// The pieces of `len` bytes from byte `from` of all pieces on, or fewer bytes if the pieces end before.
pub(crate) fn part(pieces: &[Piece], from: usize, len: usize) -> Vec<Piece> {
    let (mut skip, mut left, mut parts) = (from, len, Vec::with_capacity(pieces.len()));
    for piece in pieces {
        let skipped = skip.min(piece.len);
        skip -= skipped;
        let len = (piece.len - skipped).min(left);
        if len > 0 {
            parts.push(Piece { addr: piece.addr + skipped as u64, len });
            left -= len;
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (OwnedFd, OwnedFd) {
        let flags = SocketFlags::empty();
        net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("there is room")
    }

    #[test]
    fn a_message_comes_as_it_was_sent() {
        let (one, other) = pair();
        let bytes: Vec<u8> = (0..MAX_PART).map(|n| n as u8).collect();
        let whole = Piece { addr: bytes.as_ptr() as u64, len: bytes.len() };
        let head = Head { code: 7, sequence: 9, words: [1, 2, 3, 4, 5, u64::MAX] };
        assert!(receive(&other).expect("nothing yet").is_none());
        send(&one, head, &[whole], &[one.as_raw_fd(), other.as_raw_fd()]).expect("there is room");
        let received = receive(&other).expect("it is there").expect("it is there");
        assert_eq!((received.head, received.files.len()), (head, 2));
        assert!(received.bytes == bytes);
        assert!(is_own(&one));
        drop((one, received));
        let ended = receive(&other).expect_err("nobody sends");
        assert_eq!(ended.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn another_user_is_not_this_one() {
        if user() != 0 {
            return eprintln!("skipped: only root can be another user");
        }
        let (folder, listener) = (tempfile::tempdir().expect("a folder"), socket().expect("a socket"));
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(folder.path(), open).expect("its mode");
        let opened_folder = std::fs::File::open(folder.path()).expect("it is there");
        let address = address(&opened_folder, 1).expect("it is short");
        // The system call changes only this thread, while setresuid(2) of the C library changes all threads.
        // SAFETY: takes numbers.
        let become_user = |user: u32| unsafe { libc::syscall(libc::SYS_setresuid, -1, user, -1) };
        let own = |socket: &OwnedFd, as_user: u32| {
            become_user(as_user);
            let connected = net::connect(socket, &address);
            become_user(0);
            connected.expect("it connects");
            is_own(&net::accept(&listener).expect("it is accepted"))
        };
        net::bind(&listener, &address).expect("nobody has the name");
        net::listen(&listener, 8).expect("it listens");
        let anyone = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(folder.path().join("1"), anyone).expect("its mode");
        assert!(own(&socket().expect("a socket"), 0));
        assert!(!own(&socket().expect("a socket"), 4711));
    }

    #[test]
    fn kinds_keep_their_words() {
        use RequestKind::{CompareSwap, Deliver, FetchAdd, Hello, Part, Read, Wake, Write};
        for (word, kind) in (1..).zip([Hello, Write, Read, CompareSwap, FetchAdd, Part, Deliver, Wake]) {
            assert_eq!((kind.to_word(), RequestKind::from_word(word)), (word, Some(kind)));
        }
        assert_eq!([0, 9].map(RequestKind::from_word), [None; 2]);
        use AnswerKind::{Again, Done, Memory, Refused};
        for (word, kind) in (0..).zip([Done, Memory, Again, Refused]) {
            assert_eq!((kind.to_word(), AnswerKind::from_word(word)), (word, Some(kind)));
        }
        assert_eq!(AnswerKind::from_word(4), None);
    }

    #[test]
    fn what_is_no_message_is_an_error() {
        let (one, other) = pair();
        net::send(&one, b"short", net::SendFlags::empty()).expect("there is room");
        assert_eq!(receive(&other).expect_err("too short").kind(), io::ErrorKind::InvalidData);
    }

    #[test]
    fn parts_of_pieces_are_those_bytes() {
        let pieces: Vec<Piece> = [(100, 3), (200, 0), (300, 5)].map(|(addr, len)| Piece { addr, len }).into();
        let parts = |from, len| part(&pieces, from, len).iter().map(|p| (p.addr, p.len)).collect::<Vec<_>>();
        assert_eq!(parts(0, 8), [(100, 3), (300, 5)]);
        assert_eq!(parts(2, 3), [(102, 1), (300, 2)]);
        assert_eq!(parts(4, 9), [(301, 4)]);
        assert_eq!(parts(8, 1), []);
    }
}
