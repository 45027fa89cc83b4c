//! A core that only polls is never the bottleneck.

use super::run;
use doorbell_lab::{Control, Outcome, Utilization};
use doorbell_nic::{Part, Resource};

/// Workloads whose cores mostly poll: other resources limit them, or no more operations are due.
const POLLING: [&str; 20] = [
    // One operation at a time.
    "verb = \"read\"\nmachines = 2\nthreads = 1\nwindow = 1",
    "verb = \"write\"\ntransport = \"rc\"\nmachines = 2\nthreads = 2\nwindow = 1\nprofile = \"cx3\"",
    "verb = \"fetch-add\"\nmachines = 3\nthreads = 2\nwindow = 1\nprofile = \"cx\"",
    "system = \"ping-pong\"",
    "system = \"rpc\"\nclients = 1\noutstanding = 1\ncores = 1",
    "system = \"remote-spinlock\"\nclients = 1",
    // All atomics wait for one lock.
    "verb = \"fetch-add\"\nmachines = 4\nthreads = 4",
    "verb = \"compare-swap\"\nmachines = 3\nthreads = 2\nprofile = \"cx3\"",
    "system = \"atomics-sequencer\"\nclients = 8",
    // Few operations are due.
    "verb = \"read\"\nmachines = 3\nthreads = 2\narrivals = \"poisson\"\nrate = 2000000",
    "verb = \"send\"\ntransport = \"ud\"\nmachines = 3\nthreads = 2\narrivals = \"fixed\"\nrate = 1000000",
    "system = \"rpc\"\nclients = 16\ncores = 4\narrivals = \"poisson\"\nrate = 4000000",
    "system = \"rpc\"\nclients = 48\ncores = 4\narrivals = \"poisson\"\nrate = 20000000",
    "verb = \"write\"\ntransport = \"rc\"\nmachines = 3\nthreads = 2\nwindow = 8\nthink = \"20us\"",
    // The PCIe link, the network or the NIC limits the rate.
    "verb = \"send\"\ntransport = \"ud\"\nsize = 4096\nmachines = 3\nthreads = 4",
    "mix = \"write/64:50,write/4096:50\"\nmachines = 3\nthreads = 8",
    "verb = \"send\"\ntransport = \"rc\"\nsize = 256\npattern = \"all-to-all\"\nmachines = 4\nthreads = 14",
    "verb = \"write\"\ntransport = \"uc\"\nsize = 65536\npattern = \"inbound\"\nmachines = 3\nthreads = 2",
    "verb = \"read\"\nsize = 64\nmachines = 11\nthreads = 14\nqps = 2",
    "verb = \"read\"\nsize = 32\nmachines = 4\nthreads = 8\nqps = 16\nprofile = \"cx3\"",
];

/// The part that is used for the largest share of the time.
fn most_used(outcome: &Outcome) -> &Utilization {
    let all = outcome.resources.iter();
    all.max_by(|a, b| a.utilization.total_cmp(&b.utilization)).expect("machines have parts")
}

#[test]
fn a_core_that_polls_is_no_bottleneck() {
    let mut cores = 0;
    for toml in POLLING {
        let run = run(&format!("{toml}\nwarmup = \"30us\"\nduration = \"60us\"")).expect("it is valid");
        let outcome = doorbell_lab::simulate(&run, &Control::quiet()).expect("it ends");
        let top = most_used(&outcome);
        println!(
            "{}: {:?}, most used {} {}",
            toml.replace('\n', "; "),
            outcome.bottleneck,
            top.meter,
            top.utilization
        );
        assert_ne!(outcome.bottleneck.class, Some(Resource::Cpu), "{toml}: {:?}", outcome.bottleneck);
        cores += u32::from(top.meter.part() == Part::Core && top.utilization > 0.8);
    }
    // In these workloads the meters alone would name the cores.
    assert!(cores >= 5, "only {cores} workloads keep a core busy");
}
