//! Repeatedly kills processes of each role of the applications, with a sequence of seeds.

use crate::Arguments;
use crate::processes::{self, Killed};
use doorbell_native::{NativeCluster, NativeDevice};
use doorbell_systems_suite::kills::{KillRole, roles};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Options of the soak. Seeds are consecutive.
pub(crate) struct Soak {
    /// Number of processes to kill for each role.
    pub(crate) kills: u32,
    /// The first seed.
    pub(crate) seed: u64,
}

/// Results for a role.
#[derive(Default)]
struct Tally {
    kills: u32,
    /// Kills in the middle of an operation, and kills for which this is unknown.
    inside: u32,
    unknown: u32,
    runs: u32,
    longest: Duration,
    /// Number of kills of processes that stood still before a step. The key has whether the step is in the
    /// middle of an operation, and the step's name.
    steps: BTreeMap<(bool, String), u32>,
    failed: Vec<String>,
}

impl Tally {
    fn add(&mut self, killed: &[Killed]) {
        for Killed { asked, inside, by_others, .. } in killed {
            self.kills += 1;
            self.inside += u32::from(*inside == Some(true));
            self.unknown += u32::from(inside.is_none());
            if asked.lives_us.is_none() && !by_others {
                *self.steps.entry((asked.inside, asked.step.clone())).or_default() += 1;
            }
        }
    }

    fn line(&self, name: &str, (first, last): (u64, u64)) -> String {
        let Tally { kills, inside, unknown, runs, failed, longest, .. } = self;
        let passed = runs - failed.len() as u32;
        let longest = longest.as_secs_f64();
        format!(
            "| {name} | {first} to {last} | {kills} | {inside} | {unknown} | {passed} of {runs} | {longest:.1} s |"
        )
    }
}

fn in_words(killed: &Killed) -> String {
    let Killed { machine, asked, inside, by_others } = killed;
    let inside = match inside {
        Some(true) => "inside",
        Some(false) => "outside",
        None => "unknown",
    };
    match asked.lives_us {
        _ if *by_others => format!("machine {machine} ({inside})"),
        Some(us) => format!("machine {machine} within {us} us from {} ({inside})", asked.step),
        None => format!("machine {machine} {} ({inside})", asked.step),
    }
}

/// Kills processes of one role. Returns the results and the last seed.
fn soak(
    device: &NativeDevice,
    arguments: &Arguments,
    role: &KillRole<NativeCluster>,
    soak: &Soak,
) -> (Tally, u64) {
    let (mut tally, mut seed) = (Tally::default(), soak.seed);
    loop {
        let began = Instant::now();
        let check = role.check(seed);
        let (ended, killed) =
            processes::run_and_tell(device, &check, &arguments.of_device(), arguments.scale());
        tally.add(&killed);
        tally.runs += 1;
        tally.longest = tally.longest.max(began.elapsed());
        let (who, took) = (killed.iter().map(in_words).collect::<Vec<_>>().join("; "), began.elapsed());
        let (is_wrong, outcome) = (ended.is_err(), ended.err().unwrap_or("passed".into()));
        println!("{} in {:.2} s, {who}: {outcome}", check.name(), took.as_secs_f64());
        if is_wrong {
            tally.failed.push(format!("{}: {outcome}", check.name()));
        }
        // If a run fails without a kill, further runs may have no kills either.
        if tally.kills >= soak.kills || (is_wrong && killed.is_empty()) {
            return (tally, seed);
        }
        seed += 1;
    }
}

/// Kills processes of all roles whose names contain the filter. Returns whether all runs passed, and whether
/// for each role at least one kill in four was in the middle of an operation.
pub(crate) fn run(device: &NativeDevice, arguments: &Arguments, of: &Soak) -> Result<bool, String> {
    let filter = arguments.filter.as_deref();
    let roles = roles();
    let chosen: Vec<_> =
        roles.iter().filter(|role| filter.is_none_or(|part| role.name.contains(part))).collect();
    if chosen.is_empty() {
        return Err(format!("no role has {:?} in its name", filter.unwrap_or_default()));
    }
    let tallies: Vec<_> = chosen.iter().map(|role| (role.name, soak(device, arguments, role, of))).collect();
    println!("| killed | seeds | processes | inside | unknown | runs as promised | longest run |");
    println!("|---|---|---|---|---|---|---|");
    tallies.iter().for_each(|(name, (tally, last))| println!("{}", tally.line(name, (of.seed, *last))));
    println!("| killed that stood still | inside | before which step | times |");
    println!("|---|---|---|---|");
    for (name, (tally, _)) in &tallies {
        for ((inside, step), times) in &tally.steps {
            println!("| {name} | {} | {step} | {times} |", if *inside { "yes" } else { "" });
        }
    }
    tallies.iter().flat_map(|(_, (tally, _))| &tally.failed).for_each(|failed| println!("FAILED {failed}"));
    let is_right = |tally: &Tally| tally.failed.is_empty() && tally.kills >= of.kills;
    // With fewer than 100 kills, any share is accepted.
    let are_inside = |tally: &Tally| tally.kills < 100 || tally.inside * 4 >= tally.kills;
    Ok(tallies.iter().all(|(_, (tally, _))| is_right(tally) && are_inside(tally)))
}
