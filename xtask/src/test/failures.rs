//! Repeats the messages of failed tests at the end of a run, where they are easy to find.

use std::io::{self, Read, Write};

/// Most lines and columns of a failed test's messages that are repeated. The first message is the cause.
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

/// The names of the failed tests in the output of `cargo test`, each with the first lines of its messages.
pub(super) fn of_output(output: &str) -> String {
    let (mut found, mut left) = (String::new(), 0);
    for line in output.lines() {
        let name = line.strip_prefix("---- ").and_then(|line| line.strip_suffix(" stdout ----"));
        if let Some(name) = name {
            found.push_str(&format!("\n{name}"));
            left = LINES;
        } else if line == "failures:" {
            left = 0;
        } else if left > 0 && !line.is_empty() {
            found.push_str("\n    ");
            found.extend(line.chars().take(COLUMNS));
            left -= 1;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_tests_are_named_with_their_first_lines() {
        let long = "x".repeat(400);
        let many = "more\n".repeat(20);
        let output = format!(
            "running 3 tests\n..F\nfailures:\n\n---- a::one stdout ----\n\nthread panicked:\n{long}\n\n\
             ---- a::two stdout ----\nthe cause\n{many}\n\nfailures:\n    a::one\n    a::two\n\n\
             test result: FAILED. 1 passed\n"
        );
        let expected = format!(
            "\na::one\n    thread panicked:\n    {}\na::two\n    the cause{}",
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
