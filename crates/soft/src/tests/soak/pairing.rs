//! Runs one case of a pair. A thread of one process is stopped, held or slowed at a point. Then both
//! processes continue, and neither may find a broken guarantee.

use super::super::own_time::HANGS;
use super::super::peer::run_on;
use super::case::Case;
use super::crew::{Member, Wrong};
use super::harm::{HELD, Harm};
use super::matrix::Role;
use super::pair::create_shared;
use std::fmt::{Display, Formatter};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Rounds before the process is caught, and rounds after that.
const BEFORE: u64 = 4;
const AFTER: u64 = 24;
/// How long the round of a process may last after a finding.
const AFTER_FINDING: Duration = Duration::from_secs(5);
/// How long a process stays slow beside load.
const SLOW: Duration = Duration::from_secs(1);

impl Case {
    pub(super) fn run_pair(&self, fabric: &str) -> Result<(), Wrong> {
        let path = std::env::temp_dir().join(fabric);
        create_shared(&path);
        let mut members = ["asker", "owner"].map(|name| Member::start(name, fabric));
        let mut wrong: Vec<Wrong> = self.run_with(&mut members, &path).err().into_iter().collect();
        let sums = rest(&mut members, if wrong.is_empty() { HANGS } else { AFTER_FINDING });
        wrong.extend(members.iter_mut().filter_map(|member| member.judge().err()));
        match sums {
            Ok(sums) if wrong.is_empty() && sums.is_right() => {}
            // After a finding, the sums tell a lost atomic from a late result.
            Ok(sums) => wrong.push(sums.to_string()),
            Err(why) => wrong.push(why),
        }
        let _ = std::fs::remove_file(&path);
        let [asker, owner] = members;
        if !wrong.is_empty() {
            [asker, owner].into_iter().for_each(Member::kill_and_wait);
            return Err(wrong.join("; "));
        }
        for member in [asker, owner] {
            let ended = member.end()?;
            if !ended.status.success() {
                return Err(format!("a process of a pair ends with {}: {}", ended.status, ended.said.trim()));
            }
        }
        Ok(())
    }

    fn run_with(&self, members: &mut [Member; 2], path: &Path) -> Result<(), Wrong> {
        let is_slow = self.harm == Harm::Idle;
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            if is_slow {
                for member in &mut *members {
                    member.ask("core 0")?;
                }
            }
            self.begin(members, path)?;
            let caught = usize::from(self.row.role == Role::Owner);
            rounds_until(members, BEFORE)?;
            if is_slow {
                scope.spawn(|| {
                    run_on(0);
                    while !stop.load(Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let result = self.harm_one(members, caught);
            stop.store(true, Relaxed);
            result
        })?;
        let done = rounds(members)?;
        rounds_until(members, done + AFTER)
    }

    fn begin(&self, [asker, owner]: &mut [Member; 2], path: &Path) -> Result<(), Wrong> {
        let create = format!("pair {}", path.display());
        let (of_asker, of_owner) = (asker.ask(&create)?, owner.ask(&create)?);
        let may_be_stopped = u8::from(self.harm == Harm::Stop && self.row.role == Role::Asker);
        owner.ask(&format!("begin 0 {may_be_stopped} {of_asker}"))?;
        asker.ask(&format!("begin 1 0 {of_owner}")).map(drop)
    }

    fn harm_one(&self, members: &mut [Member; 2], caught: usize) -> Result<(), Wrong> {
        members[caught].tell(&self.arm());
        let is_caught = members[caught].wait_until_caught();
        if let Err(wrong) = is_caught {
            for member in members {
                member.judge()?;
            }
            return Err(wrong);
        }
        std::thread::sleep(if self.harm == Harm::Idle { SLOW } else { HELD });
        match self.harm {
            Harm::Stop => members[caught].signal(libc::SIGCONT),
            // Beside the load of other cases, the thread would get no processor for minutes.
            Harm::Idle => drop(members[caught].ask("relent")?),
            _ => {}
        }
        Ok(())
    }
}

/// The atomics of both processes on the words that both have registered, and the values of these words.
struct Sums {
    adds: u64,
    added: u64,
    swaps: u64,
    swapped: u64,
}

impl Sums {
    fn is_right(&self) -> bool {
        self.adds == self.added && self.swaps == self.swapped
    }
}

impl Display for Sums {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Sums { adds, added, swaps, swapped } = self;
        write!(f, "{adds} additions make {added}, {swaps} swaps make {swapped}")
    }
}

/// Ends the rounds of both processes. Each process waits for the end of its round for at most `patience`.
/// Returns the sums of the atomics.
fn rest(members: &mut [Member; 2], patience: Duration) -> Result<Sums, Wrong> {
    let command = format!("rest {}", patience.as_millis());
    let [asker, owner] = members;
    let (of_asker, of_owner) = (asker.ask_numbers(&command)?, owner.ask_numbers(&command)?);
    match (&of_asker[..], &of_owner[..]) {
        ([asker_adds, _, asker_swaps, _], [owner_adds, added, owner_swaps, swapped]) => Ok(Sums {
            adds: asker_adds + owner_adds,
            added: *added,
            swaps: asker_swaps + owner_swaps,
            swapped: *swapped,
        }),
        sums => Err(format!("the processes of a pair give {sums:?}")),
    }
}

/// The number of the asker's rounds. Fails if a process has found something.
fn rounds(members: &mut [Member; 2]) -> Result<u64, Wrong> {
    for member in &mut *members {
        member.judge()?;
    }
    Ok(members[0].ask_numbers("rounds")?.first().copied().unwrap_or(0))
}

fn rounds_until(members: &mut [Member; 2], number: u64) -> Result<(), Wrong> {
    let begin = Instant::now();
    loop {
        let done = rounds(members)?;
        if done >= number {
            return Ok(());
        }
        if begin.elapsed() > HANGS {
            return Err(format!("the pair stands still at round {done}"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
