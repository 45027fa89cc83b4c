//! `doorbell live`: runs a system on this machine, over the machine's verbs and TCP.

mod report;
mod result;

use crate::args::LiveArgs;
use crate::exit::{self, Exit};
use crate::flags::USUAL_LIVE;
use crate::progress::{self, Bar};
use crate::run::not_launched;
use doorbell_lab::{Given, Latency, SystemEntry, SystemWorkload, Timing, Watch, Workload};
use doorbell_launch::Launch;
use doorbell_live::{LiveError, LiveRun};
use doorbell_native::NativeDevice;
use doorbell_schema::{Field, FieldKind, Value};
pub(crate) use result::Live;
use result::{IN_TURN, LiveDevice, Machine, Run, SCHEMA};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Runs the system that the arguments name.
pub(crate) fn run(args: &LiveArgs) -> Result<(), Exit> {
    let given = args.workload.given().map_err(Exit::bad_input)?;
    let Some(entry) = doorbell_lab::system_of(&given).map_err(Exit::bad_input)? else {
        return Err(Exit::bad_input("nothing to run: name a system with --system"));
    };
    // A live run does not end by what it knows.
    for key in [Timing::until.key, Timing::precision.key, Timing::max_time.key] {
        if let Some(value) = given.get(key) {
            let why = format!("{key} is {value}, but a live run lasts for its duration: leave {key} out");
            return Err(Exit::bad_input(why));
        }
    }
    let mut asked = Vec::new();
    for given in in_turn(&entry.fields, usual(&entry.fields, given)) {
        // If any parameter is invalid, the command ends before anything runs.
        let system = SystemWorkload::of(entry.with(&given).map_err(Exit::bad_input)?);
        system.check_memory().map_err(Exit::bad_input)?;
        asked.push(given);
    }
    let library = library(args)?;
    let device = open(&library, args.device)?;
    let interrupt = progress::interrupt()?;
    let bar = Bar::new(1, None);
    bar.planned(&vec![1.0; asked.len()]);
    let mut runs = Vec::new();
    for given in &asked {
        let pace = Arc::default();
        bar.began(1.0, &pace);
        match run_once(entry, given, &device, &interrupt.flag)? {
            Some(run) => runs.push(run),
            None => break,
        }
        bar.ended(&pace);
        bar.done(entry.name);
    }
    drop(bar);
    if runs.is_empty() {
        let message = "interrupted: no run finished, so there is no result";
        return Err(Exit { message: Some(message.into()), ..Exit::interrupted() });
    }
    let ended = match runs.iter().find(|run| run.done == 0) {
        _ if runs.len() < asked.len() => Err(Exit::interrupted()),
        Some(_) => Err(Exit::without_operations()),
        None => Ok(()),
    };
    let device = LiveDevice { name: device.name().to_owned(), library };
    let live = Live { schema: SCHEMA, machine: Machine::this(), device, runs };
    if args.json {
        exit::print_json(&live)?
    } else {
        exit::tell(&report::text(&live))?
    }
    ended
}

fn called<'f>(fields: &[&'f Field], key: &str) -> Option<&'f Field> {
    fields.iter().copied().find(|field| field.key == key)
}

/// Adds the usual times of [`USUAL_LIVE`] to the given options.
fn usual(fields: &[&Field], mut given: Given) -> Given {
    // A file may name a profile, but the run uses this machine.
    given.remove(Workload::profile.key);
    for (key, time) in USUAL_LIVE {
        if let Some(field) = called(fields, key).filter(|_| given.get(key).is_none()) {
            given.set(field, Value::Text(time.into())).expect("a time is one of a time's values");
        }
    }
    given
}

/// The sets of options that are run one after the other.
fn in_turn(fields: &[&Field], given: Given) -> Vec<Given> {
    let stacks = called(fields, IN_TURN).filter(|_| given.get(IN_TURN).is_none());
    let Some((field, FieldKind::Name(names))) = stacks.map(|field| (field, field.kind)) else {
        return vec![given];
    };
    let with = |name: &&str| {
        let mut given = given.clone();
        given.set(field, Value::Text((*name).to_owned())).expect("a name is one of the field's");
        given
    };
    names.iter().map(with).collect()
}

/// The requested libibverbs: a path, or a name for the loader.
fn library(args: &LiveArgs) -> Result<PathBuf, Exit> {
    match &args.lib {
        Some(library) => Ok(library.clone()),
        None => Launch::default().find_library().map_err(|error| not_launched(&error)),
    }
}

#[allow(unsafe_code, reason = "the use of memory by a library cannot be checked")]
fn open(library: &Path, device: usize) -> Result<NativeDevice, Exit> {
    // SAFETY: the library is the software NIC's library beside this command, or the user vouches for the
    // library by naming it.
    unsafe { NativeDevice::open(Some(library), device) }.map_err(Exit::bad_input)
}

/// Runs the system with these parameters; `None` if it was interrupted.
fn run_once(
    entry: &SystemEntry,
    given: &Given,
    device: &NativeDevice,
    interrupt: &Arc<AtomicBool>,
) -> Result<Option<Run>, Exit> {
    let workload = SystemWorkload::of(entry.with(given).map_err(Exit::bad_input)?);
    let run = doorbell_live::run(entry.name, given, device, interrupt).map_err(|error| match error {
        LiveError::Refused(_) => Exit::bad_input(error),
        LiveError::Failed(_) => Exit::failed(error),
    })?;
    let told = |LiveRun { clients: all, span, threads }: LiveRun| {
        let share = |n: u64| n as f64 / all.done.max(1) as f64;
        Run {
            done: all.done,
            mrps: all.done as f64 / span.as_secs_f64() / 1e6,
            latency_ns: Latency::from(&all.latency),
            missed: share(all.missed),
            header_only: share(all.header_only),
            again: share(all.again),
            threads,
            workload,
        }
    };
    Ok(run.map(told))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_stacks_are_run_unless_one_is_given() {
        let stack = Field::name(&["rdma", "tcp"]).named("stack", "What bytes travel by");
        let size = Field::bytes(1, 64).named("size", "Payload");
        let stacks = |fields: &[&Field], given: &Given| -> Vec<Option<Value>> {
            in_turn(fields, given.clone()).iter().map(|given| given.get(IN_TURN).cloned()).collect()
        };
        let text = |name: &str| Some(Value::Text(name.into()));
        let mut given = Given::default();
        assert_eq!(stacks(&[&size], &given), [None]);
        assert_eq!(stacks(&[&size, &stack], &given), [text("rdma"), text("tcp")]);
        given.set(&stack, Value::Text("tcp".into())).unwrap();
        assert_eq!(stacks(&[&size, &stack], &given), [text("tcp")]);
    }

    #[test]
    fn what_is_usual_of_times_is_real_time_and_gives_way() {
        let fields = doorbell_lab::SYSTEMS[0].fields.clone();
        let mut given = Given::default();
        let duration = called(&fields, "duration").unwrap();
        given.set(duration, Value::Text("5ms".into())).unwrap();
        let all = usual(&fields, given);
        assert_eq!(all.get("duration"), Some(&Value::Text("5ms".into())));
        assert_eq!(all.get("warmup"), Some(&Value::Text("100ms".into())));
    }
}
