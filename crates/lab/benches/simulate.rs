//! Speed of the simulator: simulated verbs per second on one core.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use doorbell_lab::{Control, Outcome, Run, Workload};
use std::time::Duration;

/// Name, workload file and virtual time of each run.
const WORKLOADS: [(&str, &str, &str); 3] = [
    (
        "UD SEND, 14 threads outbound, batch 16",
        "verb = \"send\"\ntransport = \"ud\"\npattern = \"outbound\"\nthreads = 14\nbatch = 16",
        "2ms",
    ),
    (
        "RC READ, 14 threads outbound",
        "verb = \"read\"\ntransport = \"rc\"\npattern = \"outbound\"\nthreads = 14",
        "2ms",
    ),
    (
        "RC READ, 11 machines x 14 threads all-to-all",
        "verb = \"read\"\ntransport = \"rc\"\npattern = \"all-to-all\"\nmachines = 11\nthreads = 14\nqps = 11",
        "500us",
    ),
];

fn run(toml: &str) -> Outcome {
    let workload = Workload::from_toml("benchmark", toml).expect("a workload");
    let profiles = workload.load_profiles().expect("a profile");
    let resolved = workload.resolve(&profiles).expect("a workload that fits the profile");
    let control = Control::quiet();
    doorbell_lab::simulate(&Run::verbs(profiles.clone(), resolved.clone()), &control).expect("a run")
}

fn simulate(c: &mut Criterion) {
    let mut group = c.benchmark_group("simulated verbs");
    group.sample_size(10).warm_up_time(Duration::from_secs(1)).measurement_time(Duration::from_secs(10));
    for (name, workload, duration) in WORKLOADS {
        let toml = format!("profile = \"cib\"\nsize = 32\nduration = \"{duration}\"\n{workload}");
        group.throughput(Throughput::Elements(run(&toml).verbs().work_requests));
        group.bench_function(name, |b| b.iter(|| run(&toml)));
    }
    group.finish();
}

criterion_group!(benches, simulate);
criterion_main!(benches);
