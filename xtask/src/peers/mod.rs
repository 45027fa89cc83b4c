//! Compares the software NIC with UCX's shared memory and with the system call that copies private memory.
//! Also compares UCX, Open MPI and NIXL over the NIC with their own transports. Both sides run in alternation
//! on one machine, and each process has its own processor. Each row compares one statistic.

mod sides;
mod statistic;

use crate::command::{Task, lines};
use crate::{packages, wheels};
use statistic::{Statistic, median};
use std::process::Command;

/// Default number of runs of each side of a row.
const ROUNDS: usize = 7;

struct Row {
    what: &'static str,
    statistic: Statistic,
    ours: MeasuredSide,
    theirs: MeasuredSide,
    /// Required ratio of our side to the other, if any. It is an upper limit for a latency and a lower limit
    /// for a rate.
    must: Option<f64>,
}

const fn row(
    what: &'static str,
    statistic: Statistic,
    ours: MeasuredSide,
    theirs: MeasuredSide,
    must: f64,
) -> Row {
    Row { what, statistic, ours, theirs, must: Some(must) }
}

use Statistic::{Latency, Rate};
use sides::MeasuredSide::{self, Bare, Mpi, Nixl, Perftest, Ucx};
use sides::Over::{Nic, SharedMemory, Tcp};
use sides::{PRIVATE, build, measure};

const ROWS: [Row; 15] = [
    row(
        "WRITE, 8 B",
        Latency,
        Perftest(&[], &["ib_write_lat", "-s", "8", "-n", "200000"]),
        Ucx(SharedMemory, &["ucp_put_lat", "-s", "8"]),
        1.3,
    ),
    row(
        "SEND, 8 B",
        Latency,
        Perftest(&[], &["ib_send_lat", "-s", "8", "-n", "200000"]),
        Ucx(SharedMemory, &["tag_lat", "-s", "8"]),
        1.1,
    ),
    row(
        "WRITE, 8 B, one by one",
        Rate,
        Perftest(&[], &["ib_write_bw", "-s", "8", "-Q", "100", "-l", "1", "-n", "5000000"]),
        Ucx(SharedMemory, &["ucp_put_bw", "-s", "8", "-n", "10000000"]),
        0.35,
    ),
    row(
        "WRITE, 8 B, lists of 32",
        Rate,
        Perftest(&[], &["ib_write_bw", "-s", "8", "-Q", "32", "-l", "32", "-n", "6400000"]),
        Ucx(SharedMemory, &["ucp_put_bw", "-s", "8", "-n", "10000000"]),
        0.6,
    ),
    row(
        "SEND, 8 B",
        Rate,
        Perftest(&[], &["ib_send_bw", "-s", "8", "-n", "3000000"]),
        Ucx(SharedMemory, &["tag_bw", "-s", "8", "-n", "5000000"]),
        0.8,
    ),
    row(
        "WRITE, 64 KiB",
        Rate,
        Perftest(&[], &["ib_write_bw", "-s", "65536", "-n", "100000"]),
        Ucx(SharedMemory, &["ucp_put_bw", "-s", "65536", "-n", "100000"]),
        0.97,
    ),
    row(
        "SEND, 64 KiB",
        Rate,
        Perftest(&[], &["ib_send_bw", "-s", "65536", "-n", "50000"]),
        Ucx(SharedMemory, &["tag_bw", "-s", "65536", "-n", "50000"]),
        0.97,
    ),
    row(
        "private, 8 B, one by one",
        Rate,
        Perftest(PRIVATE, &["ib_write_bw", "-s", "8", "-Q", "100", "-l", "1", "-n", "200000"]),
        Bare(&["8", "1", "200000"]),
        1.0 / 1.3,
    ),
    row(
        "private, 8 B, lists of 32",
        Rate,
        Perftest(PRIVATE, &["ib_write_bw", "-s", "8", "-Q", "32", "-l", "32", "-n", "640000"]),
        Bare(&["8", "32", "20000"]),
        1.0 / 1.3,
    ),
    row(
        "private, 4 KiB, one by one",
        Rate,
        Perftest(PRIVATE, &["ib_write_bw", "-s", "4096", "-Q", "100", "-l", "1", "-n", "200000"]),
        Bare(&["4096", "1", "200000"]),
        1.0 / 1.3,
    ),
    row(
        "private, 4 KiB, lists of 32",
        Rate,
        Perftest(PRIVATE, &["ib_write_bw", "-s", "4096", "-Q", "32", "-l", "32", "-n", "320000"]),
        Bare(&["4096", "32", "10000"]),
        1.0 / 1.3,
    ),
    row(
        "private, 64 KiB, one by one",
        Rate,
        Perftest(PRIVATE, &["ib_write_bw", "-s", "65536", "-Q", "100", "-l", "1", "-n", "20000"]),
        Bare(&["65536", "1", "20000"]),
        1.0 / 1.3,
    ),
    row(
        "UCX's tagged messages, 8 B",
        Latency,
        Ucx(Nic, &["tag_lat", "-s", "8"]),
        Ucx(SharedMemory, &["tag_lat", "-s", "8"]),
        2.0,
    ),
    Row { what: "Open MPI, 8 B", statistic: Latency, ours: Mpi(Nic), theirs: Mpi(SharedMemory), must: None },
    Row {
        what: "NIXL's WRITE, 4 KiB; TCP",
        statistic: Latency,
        ours: Nixl(Nic),
        theirs: Nixl(Tcp),
        must: None,
    },
];

/// Reads the number of rounds from the arguments of `cargo xtask peers`. Returns `None` if they are wrong.
pub(crate) fn rounds(arguments: &[&str]) -> Option<usize> {
    match arguments {
        [] => Some(ROUNDS),
        ["--rounds", count] => count.parse().ok().filter(|count| *count > 0),
        _ => None,
    }
}

/// Measures all rows and prints them.
pub(crate) fn run_rounds(rounds: usize) -> Task<()> {
    packages::ensure_measured_programs()?;
    wheels::ensure_one("nixl-cu12")?;
    let folder = build()?;
    println!(
        "Medians of {rounds} runs of each side, by turns, and the least and the most. Latency one way in us (of NIXL until the WRITE has ended), rates in millions a second."
    );
    println!(
        "Paired is the median of the ratios of each run to the one beside it, which moves less where the machine is slower for a while."
    );
    println!(
        "The software NIC's numbers are perftest's, or UCX's, Open MPI's and NIXL's over it; those beside them are UCX's shared memory ({}), the bare system call, Open MPI's own shared memory, and NIXL over TCP.\n",
        version()?
    );
    println!(
        "{:<28} {:<8} {:>24} {:>24} {:>6} {:>6}  {:<14}",
        "", "", "software NIC", "beside it", "ratio", "paired", "to be"
    );
    let mut held = Vec::new();
    for row in &ROWS {
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            ours.push(measure(&row.ours, row.statistic, &folder)?);
            theirs.push(measure(&row.theirs, row.statistic, &folder)?);
        }
        held.extend(print(row, ours, theirs));
    }
    println!("\n{} of {} hold.", held.iter().filter(|holds| **holds).count(), held.len());
    Ok(())
}

fn version() -> Task<String> {
    let all = lines(Command::new("ucx_info").arg("-v"));
    let first = all.unwrap_or_default().into_iter().find(|line| line.contains("ersion"));
    Ok(first.map_or("version unknown".into(), |line| line.trim_start_matches(['#', ' ']).to_owned()))
}

/// Prints a row. Returns whether the row meets its requirement, or `None` if it has none.
fn print(row: &Row, mut ours: Vec<f64>, mut theirs: Vec<f64>) -> Option<bool> {
    let mut paired: Vec<f64> = ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect();
    let ratio = median(&mut ours) / median(&mut theirs);
    let (statistic, sign) = match row.statistic {
        Latency => ("latency", "<="),
        Rate => ("rate", ">="),
    };
    let holds = row.must.map(|must| if row.statistic == Latency { ratio <= must } else { ratio >= must });
    let must = row.must.zip(holds).map_or(String::new(), |(must, holds)| {
        format!("{sign} {must:.2} {}", if holds { "holds" } else { "MISSED" })
    });
    println!(
        "{:<28} {statistic:<8} {:>24} {:>24} {ratio:>6.2} {:>6.2}  {must}",
        row.what,
        spread(&mut ours),
        spread(&mut theirs),
        median(&mut paired),
    );
    holds
}

fn spread(values: &mut [f64]) -> String {
    let middle = median(values);
    format!("{middle:.3} ({:.3} to {:.3})", values[0], values[values.len() - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_of_the_middle() {
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&mut [4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(spread(&mut [3.0, 1.0, 2.0]), "2.000 (1.000 to 3.000)");
    }

    #[test]
    fn rounds_are_a_number() {
        assert_eq!(rounds(&[]), Some(ROUNDS));
        assert_eq!(rounds(&["--rounds", "3"]), Some(3));
        assert_eq!(rounds(&["--rounds", "0"]), None);
        assert_eq!(rounds(&["3"]), None);
    }
}
