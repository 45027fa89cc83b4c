//! What ranks print, line by line, each with the rank in front.

use crate::say::say;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};

/// A line that is longer goes on in parts: who prints no end of line is not kept for ever.
const LONGEST: u64 = 64 << 10;
/// Memory of a thread that does nothing but this.
const STACK: usize = 64 << 10;

/// Passes on what a rank prints until nobody can print there any more, in a thread of its own. Where it can be passed on no
/// more, the rank finds its pipe closed, as if it were the command itself that printed. The thread's result is whether all was
/// passed on that somebody wants: who closes what he reads wants no more, while a disk that is full is said.
///
/// # Errors
/// If there is no room for a thread.
pub(super) fn pass_on<T: Write + 'static>(
    rank: u32,
    from: impl Read + Send + 'static,
    to: fn() -> T,
) -> io::Result<std::thread::JoinHandle<bool>> {
    let pass = move || match copy(rank, from, to) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            say(format_args!("what rank {rank} prints is lost: {error}"));
            false
        }
        _ => true,
    };
    std::thread::Builder::new().stack_size(STACK).spawn(pass)
}

fn copy<T: Write>(rank: u32, from: impl Read, to: fn() -> T) -> io::Result<()> {
    let mut from = BufReader::new(from);
    loop {
        let mut line = format!("{rank}: ").into_bytes();
        if from.by_ref().take(LONGEST).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line.last() != Some(&b'\n') {
            line.push(b'\n');
        }
        // In one piece, and at once.
        let mut to = to();
        to.write_all(&line)?;
        to.flush()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    thread_local!(static SEEN: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) });

    /// Keeps each piece that is written.
    struct Pieces;

    impl Write for Pieces {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            SEEN.with_borrow_mut(|seen| seen.push(bytes.to_vec()));
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn pieces(rank: u32, text: &[u8]) -> Vec<Vec<u8>> {
        copy(rank, text, || Pieces).expect("a slice can be read");
        SEEN.take()
    }

    #[test]
    fn each_line_is_a_piece_with_its_rank() {
        assert_eq!(pieces(7, b"a\n\nb\xff"), [&b"7: a\n"[..], b"7: \n", b"7: b\xff\n"]);
        assert!(pieces(0, b"").is_empty());
    }

    #[test]
    fn a_line_without_an_end_is_passed_on_in_parts() {
        let parts = pieces(12, &vec![b'x'; LONGEST as usize + 1]);
        assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), [LONGEST as usize + 5, 6]);
    }
}
