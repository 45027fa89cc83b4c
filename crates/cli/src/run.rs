//! `doorbell run`: runs a program on the software NIC.

use crate::args::RunArgs;
use crate::exit::Exit;
use crate::mistake;
use crate::typed;
use doorbell_launch::faults::BadFaults;
use doorbell_launch::stats::Stats;
use doorbell_launch::{Launch, LaunchError};

/// Profile for statistics if neither `--profile` nor `--as` names one.
const USUAL_PROFILE: &str = "cib";

/// Number of work requests to trace per process if `--trace-ops` is not given.
const USUAL_TRACE: u64 = 100_000;

/// Seed of faults if `--seed` is not given.
const USUAL_SEED: u64 = 1;

/// Runs the program, and exits as the program does. Returns only if the program does not start.
pub(crate) fn run(args: RunArgs) -> Result<(), Exit> {
    let wanted = args.stats || args.stats_json.is_some();
    if args.profile.is_some() && !wanted {
        return Err(Exit::bad_input(
            "--profile applies to statistics only: give --stats or --stats-json too",
        ));
    }
    let stats = wanted.then(|| Stats {
        profile: args.profile.or(args.presented_as.clone()).unwrap_or(USUAL_PROFILE.into()),
        print: args.stats,
        json: args.stats_json,
        as_one: args.ranks.is_some(),
    });
    let faults = match (args.fault, args.seed) {
        (Some(text), seed) => {
            let faults =
                text.parse().map_err(|error: BadFaults| Exit::bad_input(format!("--fault: {error}")))?;
            Some((faults, seed.unwrap_or(USUAL_SEED)))
        }
        (None, Some(_)) => return Err(Exit::bad_input("--seed applies to faults only: give --fault too")),
        (None, None) => None,
    };
    let launch = Launch {
        link: args.link,
        presented_as: args.presented_as,
        library: args.lib,
        private_buffers: args.private_buffers,
        timers: args.timers,
        ptrace: args.ptrace,
        fabric: args.fabric,
        meet: args.meet,
        quiet: args.quiet,
        explain_after: args.explain_after,
        faults,
        trace: args.trace.map(|path| (path, args.trace_ops.unwrap_or(USUAL_TRACE))),
        strict: args.strict,
        stats,
        ranks: args.ranks,
        ip: args.ip,
    };
    let Some((program, arguments)) = args.program.split_first() else {
        return Err(Exit::bad_input("there is no program to run"));
    };
    // Words after the program are the program's arguments. If the program's name begins with a dash, it is
    // probably a mistyped option of `doorbell run`.
    if let Some(option) = program.to_str().filter(|name| name.starts_with('-')) {
        return Err(Exit::bad_input(mistake::no_option(option, &typed::command())));
    }
    Err(not_launched(&launch.run(program, arguments)))
}

/// The end of a command that could not launch anything.
pub(crate) fn not_launched(error: &LaunchError) -> Exit {
    match error {
        LaunchError::Program { .. } => {
            Exit { code: if error.is_not_there() { 127 } else { 126 }, message: Some(error.to_string()) }
        }
        LaunchError::Unserved { .. } => Exit { code: 126, message: Some(error.to_string()) },
        LaunchError::Counting(_) | LaunchError::NotBuilt(_) => Exit::failed(error),
        error => Exit::bad_input(error),
    }
}
