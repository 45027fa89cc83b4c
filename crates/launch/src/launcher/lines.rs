//! Prints the output of ranks line by line. The number of the rank precedes each line.

use crate::say::say;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};

/// The most bytes of a line. A longer line is printed in parts, so that output without a newline is not held
/// back forever.
const LONGEST: u64 = 64 << 10;
/// Stack of a thread that only prints lines, in bytes.
const STACK: usize = 64 << 10;

/// Starts a thread that prints a rank's output until no process can write to the pipe `from` any more. If
/// `to` fails, the thread closes the pipe. The rank then gets an error, as if it had written to the command's
/// output itself. The thread returns false, and prints the error, if `to` fails for example because a disk is
/// full. It returns true if all output was printed, or if the reader of the command's output has closed its
/// pipe.
///
/// # Errors
/// If the thread cannot be created.
pub(super) fn pass_on<T: Write + 'static>(
    rank: u32,
    from: impl Read + Send + 'static,
    to: fn() -> T,
) -> io::Result<std::thread::JoinHandle<bool>> {
    let pass = move || match copy(rank, from, to) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            say(format_args!("cannot print the output of rank {rank}: {error}"));
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
        // One write, and at once, so that other output does not split the line.
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
