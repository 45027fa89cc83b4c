//! Runs the samples and the conformance suite on a real verbs device: one line a check, then how
//! many passed. Exits with 1 where a check failed, with 2 where it could not be run.

use doorbell_conformance::{CheckResult, Report, samples};
use doorbell_native::{NativeCluster, NativeDevice};
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "usage: native-test [--library PATH] [--device INDEX] [FILTER]
Runs the samples and the checks whose name contains FILTER on an RDMA device.
  --library PATH   libibverbs to use (default: the libibverbs.so.1 that the loader finds)
  --device INDEX   device to use, from 0 (default: 0)";

#[derive(Default)]
struct Arguments {
    library: Option<PathBuf>,
    device: usize,
    filter: Option<String>,
}

fn arguments() -> Result<Arguments, String> {
    let mut parsed = Arguments::default();
    let mut rest = std::env::args().skip(1);
    while let Some(argument) = rest.next() {
        let mut value = || rest.next().ok_or_else(|| format!("{argument} needs a value\n{USAGE}"));
        match argument.as_str() {
            "--library" => parsed.library = Some(value()?.into()),
            "--device" => {
                let text = value()?;
                parsed.device = text.parse().map_err(|_| format!("--device takes a number, got {text}"))?;
            }
            flag if flag.starts_with('-') => return Err(format!("unknown option {flag}\n{USAGE}")),
            _ => parsed.filter = Some(argument),
        }
    }
    Ok(parsed)
}

fn run(arguments: &Arguments) -> Result<Report, String> {
    // SAFETY: the user vouches for the library, the system's own or the one named.
    let device = unsafe { NativeDevice::open(arguments.library.as_deref(), arguments.device) }
        .map_err(|error| error.to_string())?;
    println!("device {}", device.name());
    let filter = arguments.filter.as_deref();
    let mut make = |machines| NativeCluster::new(&device, machines);
    let mut each = |result: &CheckResult| println!("{result}");
    let mut report = samples::run_all(&mut make, filter, &mut each);
    report.checks.extend(doorbell_conformance::run(&mut make, filter, &mut each).checks);
    Ok(report)
}

fn main() -> ExitCode {
    match arguments().and_then(|arguments| run(&arguments)) {
        Ok(report) => {
            println!("{report}");
            if report.failed().is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}
