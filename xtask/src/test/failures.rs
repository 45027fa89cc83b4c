//! Repeats the messages of failed tests at the end of a run, where they are easy to find.

use std::io::{self, Read, Write};

/// Maximum numbers of lines and columns of a failed test's messages that are repeated.
const LINES: usize = 12;
const COLUMNS: usize = 300;

/// Copies `from` to `to` while it comes, and returns it.
pub(super) fn copy(mut from: impl Read, mut to: impl Write) -> io::Result<Vec<u8>> {
    let (mut all, mut some) = (Vec::new(), [0; 4096]);
    loop {
        match from.read(&mut some)? {
            0 => return Ok(all),
            len => {
                all.extend(&some[..len]);
                to.write_all(&some[..len])?;
                to.flush()?;
            }
        }
    }
}

/// The names of the failed tests in the output of `cargo test`. Each has the lines from its first panic on,
/// or its first lines.
pub(super) fn of_output(output: &str) -> String {
    let (mut found, mut lines) = (String::new(), output.lines().peekable());
    while let Some(line) = lines.next() {
        let name = line.strip_prefix("---- ").and_then(|line| line.strip_suffix(" stdout ----"));
        let Some(name) = name else { continue };
        let mut messages = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with("---- ") && *line != "failures:") {
            messages.extend((!line.is_empty()).then_some(line));
        }
        let first = messages.iter().position(|line| line.contains(" panicked at ")).unwrap_or(0);
        found.push_str(&format!("\n{name}"));
        for line in messages.iter().skip(first).take(LINES) {
            found.push_str("\n    ");
            found.extend(line.chars().take(COLUMNS));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_tests_are_named_with_their_messages() {
        let long = "x".repeat(400);
        let many = "more\n".repeat(20);
        let output = format!(
            "running 3 tests\n..F\nfailures:\n\n---- a::one stdout ----\nprinted before\nthread 'a' panicked at a.rs:1:1:\n{long}\n\n\
             ---- a::two stdout ----\nthe cause\n{many}\n\nfailures:\n    a::one\n    a::two\n\n\
             test result: FAILED. 1 passed\n"
        );
        let expected = format!(
            "\na::one\n    thread 'a' panicked at a.rs:1:1:\n    {}\na::two\n    the cause{}",
            "x".repeat(300),
            "\n    more".repeat(11)
        );
        assert_eq!(of_output(&output), expected);
    }

    #[test]
    fn the_output_is_copied_and_returned() {
        let mut copied = Vec::new();
        let bytes = vec![7; 10_000];
        assert_eq!(copy(&bytes[..], &mut copied).expect("memory can be read"), bytes);
        assert_eq!(copied, bytes);
    }
}
