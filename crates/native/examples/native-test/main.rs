//! Runs the samples, the conformance suite, and the checks of the papers' systems and of the toy system on a
//! verbs device. Prints a line for each check, and then the counts. The systems run twice: first each machine
//! is a group of threads of this process, and then each machine is a process. Some checks kill processes. A
//! check that the device is known to fail counts as failed only if it passes. The exit code is 1 if a check
//! failed, and 2 if nothing could run.

mod processes;
mod promises;
mod rounds;
mod soak;

use doorbell_conformance::{CheckResult, KnownDifference, Outcome, Report, SOFT_ROCE_DIFFERENCES, samples};
use doorbell_native::{NativeCluster, NativeDevice};
use doorbell_systems_suite::Scale;
use doorbell_toy::checks;
use rounds::InRounds;
use soak::Soak;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

const USAGE: &str = "usage: native-test [--library PATH] [--device INDEX] [--soft-roce] [--kills COUNT] [--seed SEED] [FILTER]
Runs the samples and the checks whose name contains FILTER on an RDMA device.
  --library PATH   libibverbs to use (default: the libibverbs.so.1 that the loader finds)
  --device INDEX   device to use, from 0 (default: 0)
  --soft-roce      the device is the kernel's Soft-RoCE in an emulated machine: it must fail the checks
                   that it is known to fail, and the checks of the systems are short
  --kills COUNT    instead of the samples and checks, kill COUNT processes of each role of the applications
                   whose name contains FILTER, and print the outcomes
  --seed SEED      first seed of --kills (default: 1)";

#[derive(Default)]
struct Arguments {
    library: Option<PathBuf>,
    device: usize,
    known: &'static [KnownDifference],
    filter: Option<String>,
    /// Number of processes to kill for each role.
    kills: Option<u32>,
    seed: u64,
    /// If set, this process runs only this machine of one check. [`processes`] sets it.
    machine: Option<u32>,
    clock: PathBuf,
}

impl Arguments {
    /// The scale of the systems' checks. They are short on Soft-RoCE.
    fn scale(&self) -> &'static Scale {
        if self.known.is_empty() { &Scale::FULL } else { &Scale::SMALL }
    }

    /// The arguments that select the device and its use.
    fn of_device(&self) -> Vec<String> {
        let library = self.library.iter().flat_map(|path| ["--library".into(), path.display().to_string()]);
        let device = ["--device".into(), self.device.to_string()];
        let soft_roce = (!self.known.is_empty()).then(|| "--soft-roce".into());
        library.chain(device).chain(soft_roce).collect()
    }
}

fn number<T: FromStr>(argument: &str, text: String) -> Result<T, String> {
    text.parse().map_err(|_| format!("{argument} takes a number, got {text}"))
}

fn arguments() -> Result<Arguments, String> {
    let mut parsed = Arguments { seed: 1, ..Arguments::default() };
    let mut rest = std::env::args().skip(1);
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().ok_or_else(|| format!("{argument} needs a value\n{USAGE}"));
        match argument.as_str() {
            "--library" => parsed.library = Some(value()?.into()),
            "--device" => parsed.device = number(&argument, value()?)?,
            "--kills" => parsed.kills = Some(number(&argument, value()?)?),
            "--seed" => parsed.seed = number(&argument, value()?)?,
            "--machine" => parsed.machine = Some(number(&argument, value()?)?),
            "--clock" => parsed.clock = value()?.into(),
            "--soft-roce" => parsed.known = SOFT_ROCE_DIFFERENCES,
            flag if flag.starts_with('-') => return Err(format!("unknown option {flag}\n{USAGE}")),
            _ => parsed.filter = Some(argument),
        }
    }
    Ok(parsed)
}

/// Prints the result of a check. For a known failure, it prints the reason.
fn tell(result: &CheckResult, known: &[KnownDifference]) {
    match known.iter().find(|difference| difference.check == result.name) {
        Some(difference) if matches!(result.outcome, Outcome::Failed(_)) => {
            println!("known    {}: {}", result.name, difference.reason);
        }
        _ => println!("{result}"),
    }
}

/// Prints the summary. Returns whether the device behaves as required, except for known differences.
fn conclude(report: &Report, known: &[KnownDifference]) -> bool {
    let surprises = report.surprises(known);
    for surprise in &surprises {
        println!("{surprise}");
    }
    let is_known = |name: &&&str| known.iter().any(|difference| difference.check == **name);
    let differences = report.failed().iter().filter(is_known).count();
    let (passed, _, skipped) = report.counts();
    let failed = surprises.len();
    println!("{passed} passed, {failed} failed, {skipped} skipped, {differences} known differences");
    surprises.is_empty()
}

/// Runs the systems' checks with a process for each machine.
fn in_processes(
    device: &NativeDevice,
    arguments: &Arguments,
    each: &mut dyn FnMut(&CheckResult),
) -> Vec<CheckResult> {
    let mut results = Vec::new();
    for check in processes::all() {
        // Leaking is acceptable, because there are few names, and results refer to them until the program
        // exits.
        let name: &str = format!("processes/{}", check.name()).leak();
        if arguments.filter.as_ref().is_none_or(|part| name.contains(part)) {
            let ended = processes::run(device, &check, &arguments.of_device(), arguments.scale());
            let result =
                CheckResult { name, outcome: ended.map_or_else(Outcome::Failed, |()| Outcome::Passed) };
            each(&result);
            results.push(result);
        }
    }
    results
}

fn run(arguments: &Arguments) -> Result<bool, String> {
    // SAFETY: The user guarantees that the library is libibverbs, whether it is the system's library or a
    // named one.
    let device = unsafe { NativeDevice::open(arguments.library.as_deref(), arguments.device) }
        .map_err(|error| error.to_string())?;
    if let (Some(machine), Some(check)) = (arguments.machine, arguments.filter.clone()) {
        let part = processes::Part { machine, clock: arguments.clock.clone(), check };
        processes::run_part(&device, &part, arguments.scale());
        return Ok(true);
    }
    println!("device {}", device.name());
    if let Some(kills) = arguments.kills {
        return soak::run(&device, arguments, &Soak { kills, seed: arguments.seed });
    }
    let (filter, known) = (arguments.filter.as_deref(), arguments.known);
    let mut plain = |machines| NativeCluster::new(&device, machines);
    let mut make = |machines| InRounds::new(NativeCluster::new(&device, machines));
    let mut each = |result: &CheckResult| tell(result, known);
    let mut report = samples::run_all(&mut make, filter, &mut each);
    report.checks.extend(promises::run(&mut plain, filter, &mut each).checks);
    report.checks.extend(doorbell_conformance::run(&mut make, filter, &mut each).checks);
    let systems = doorbell_systems_suite::run_all(&checks(), &mut make, filter, arguments.scale(), &mut each);
    report.checks.extend(systems.checks);
    report.checks.extend(in_processes(&device, arguments, &mut each));
    if report.checks.is_empty() {
        return Err(format!("no check has {:?} in its name", filter.unwrap_or_default()));
    }
    Ok(conclude(&report, known))
}

fn main() -> ExitCode {
    match arguments().and_then(|arguments| run(&arguments)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}
