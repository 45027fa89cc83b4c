//! `doorbell live`: a system on this machine, over its verbs and its TCP.

mod counted;
mod report;

use crate::args::LiveArgs;
use crate::exit::{self, Exit};
use crate::progress;
use crate::run::not_launched;
use counted::{Counted, Threads};
use doorbell_lab::{Entry, Given, Latency, SystemWorkload, Watch};
use doorbell_launch::Launch;
use doorbell_native::NativeDevice;
use doorbell_schema::{Field, Kind, Value};
use doorbell_systems::config::Timing;
use doorbell_systems::site::{Course, Ended, SiteError};
use doorbell_systems::{Measured, System, Visit};
use doorbell_verbs::RunError;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Version of the JSON; fields are only ever added.
const SCHEMA: u32 = 1;
/// The field whose values a run takes in turn, unless one is given.
const IN_TURN: &str = "stack";
/// What is usual of fields that count virtual time elsewhere: a processor is not ready as soon as a model of one.
pub(crate) const USUAL: [(&str, &str); 2] = [("warmup", "100ms"), ("duration", "1s")];

/// What was measured, in the form of its JSON.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Live {
    schema: u32,
    machine: Machine,
    device: Device,
    runs: Vec<Run>,
}

/// Where it was measured: the numbers are this machine's, and no profile's.
#[derive(Serialize, JsonSchema)]
struct Machine {
    processor: String,
    processors: usize,
    kernel: String,
}

#[derive(Serialize, JsonSchema)]
struct Device {
    name: String,
    library: PathBuf,
}

/// One run.
#[derive(Serialize, JsonSchema)]
struct Run {
    workload: SystemWorkload,
    /// Operations that clients saw done in the measured time.
    done: u64,
    mrps: f64,
    latency_ns: Latency,
    missed: f64,
    header_only: f64,
    again: f64,
    #[serde(flatten)]
    threads: Threads,
}

/// Runs the system.
pub(crate) fn run(args: &LiveArgs) -> Result<(), Exit> {
    let given = args.workload.given().map_err(Exit::bad_input)?;
    let Some(entry) = doorbell_lab::system_of(&given).map_err(Exit::bad_input)? else {
        return Err(Exit::bad_input("nothing to run: name a system with --system"));
    };
    let mut asked = Vec::new();
    for given in in_turn(&entry.fields, usual(&entry.fields, given)) {
        // Refused before anything runs.
        entry.with(&given).map_err(Exit::bad_input)?;
        asked.push(given);
    }
    let library = library(args)?;
    let device = open(&library, args.device)?;
    let interrupt = progress::interrupt()?;
    let bar = progress::bar();
    bar.planned(asked.len() as u64);
    let mut runs = Vec::new();
    for given in &asked {
        match run_once(entry, given, &device, &interrupt)? {
            Some(run) => runs.push(run),
            None => break,
        }
        bar.done(entry.name);
    }
    drop(bar);
    if runs.is_empty() {
        let message = "interrupted: no run had come to its end, so there is nothing to tell";
        return Err(Exit { message: Some(message.into()), ..Exit::interrupted() });
    }
    let ended = match runs.iter().find(|run| run.done == 0) {
        _ if runs.len() < asked.len() => Err(Exit::interrupted()),
        Some(_) => Err(Exit::without_operations()),
        None => Ok(()),
    };
    let device = Device { name: device.name().to_owned(), library };
    let live = Live { schema: SCHEMA, machine: Machine::this(), device, runs };
    if args.json {
        exit::print_json(&live)?
    } else {
        exit::print(&report::text(&live))?
    }
    ended
}

fn called<'f>(fields: &[&'f Field], key: &str) -> Option<&'f Field> {
    fields.iter().copied().find(|field| field.key == key)
}

/// What is given, and what is usual where time is real.
fn usual(fields: &[&Field], mut given: Given) -> Given {
    // Of a file; the machine is this one.
    given.remove("profile");
    for (key, time) in USUAL {
        if let Some(field) = called(fields, key).filter(|_| given.get(key).is_none()) {
            given.set(field, Value::Text(time.into())).expect("a time is one of a time's values");
        }
    }
    given
}

/// What is to be run one after the other.
fn in_turn(fields: &[&Field], given: Given) -> Vec<Given> {
    let stacks = called(fields, IN_TURN).filter(|_| given.get(IN_TURN).is_none());
    let Some((field, Kind::Name(names))) = stacks.map(|field| (field, field.kind)) else {
        return vec![given];
    };
    let with = |name: &&str| {
        let mut given = given.clone();
        given.set(field, Value::Text((*name).to_owned())).expect("a name is one of the field's");
        given
    };
    names.iter().map(with).collect()
}

/// The libibverbs that is asked for: a path, or a name that the loader knows.
fn library(args: &LiveArgs) -> Result<PathBuf, Exit> {
    match &args.lib {
        Some(library) => Ok(library.clone()),
        None => Launch::default().find_library().map_err(|error| not_launched(&error)),
    }
}

#[allow(unsafe_code, reason = "what a library does with memory cannot be checked")]
fn open(library: &Path, device: usize) -> Result<NativeDevice, Exit> {
    // SAFETY: it is the software NIC's that lies beside this command, or the user vouches for it by naming it.
    unsafe { NativeDevice::open(Some(library), device) }.map_err(Exit::bad_input)
}

/// Runs the system with these parameters; nothing where somebody stopped it.
fn run_once(
    entry: &Entry,
    given: &Given,
    device: &NativeDevice,
    interrupt: &Arc<AtomicBool>,
) -> Result<Option<Run>, Exit> {
    struct Named<'a> {
        name: &'a str,
        given: &'a Given,
        device: &'a NativeDevice,
        interrupt: &'a Arc<AtomicBool>,
        run: Option<Result<Option<Run>, Exit>>,
    }
    impl Visit for Named<'_> {
        fn visit<S: System>(&mut self) {
            if S::NAME == self.name {
                let system = S::of(self.given).map_err(Exit::bad_input);
                self.run = Some(system.and_then(|system| run_system(system, self.device, self.interrupt)));
            }
        }
    }
    let mut named = Named { name: entry.name, given, device, interrupt, run: None };
    doorbell_systems::visit_all(&mut named);
    named.run.expect("an entry is of a system of the register")
}

fn run_system<S: System>(
    system: S,
    device: &NativeDevice,
    interrupt: &Arc<AtomicBool>,
) -> Result<Option<Run>, Exit> {
    let mut cluster = Counted::new(device, system.machines(), interrupt);
    let Timing { warmup, duration, .. } = *system.timing();
    let (Some(warmup), Some(duration)) = (warmup, duration) else {
        unreachable!("what is usual of real time says both");
    };
    let course = Course::Together { warmup: warmup.span(), span: duration.span() };
    let ended = match system.run(&mut cluster, course) {
        Err(SiteError::Run(RunError::Interrupted)) => return Ok(None),
        ended => ended.map_err(Exit::failed)?,
    };
    let Ended { clients, .. } = ended.expect("all machines are in this process");
    let mut all = Measured::default();
    clients.iter().for_each(|client| all.add(client));
    let share = |n: u64| n as f64 / all.done.max(1) as f64;
    Ok(Some(Run {
        done: all.done,
        mrps: all.done as f64 / duration.span().as_secs_f64() / 1e6,
        latency_ns: Latency::from(&all.latency),
        missed: share(all.missed),
        header_only: share(all.header_only),
        again: share(all.again),
        threads: cluster.threads(),
        workload: SystemWorkload::from(system),
    }))
}

impl Machine {
    fn this() -> Machine {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let cpuinfo = read("/proc/cpuinfo");
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        Machine {
            processor: model.map_or("unknown", |(_, model)| model).to_owned(),
            processors: doorbell_lab::cores(),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_stacks_are_run_unless_one_is_given() {
        let stack = Field::name(&["rdma", "tcp"]).named("stack", "What bytes travel by");
        let size = Field::bytes(1, 64).named("size", "Payload");
        let stacks = |fields: &[&Field], given: &Given| -> Vec<Option<Value>> {
            in_turn(fields, given.clone()).iter().map(|given| given.get("stack").cloned()).collect()
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
