//! A core that only polls, or waits for the PCIe link, is never the bottleneck.

use super::run;
use doorbell_lab::{Control, Outcome};
use doorbell_nic::{Part, Resource};

/// Workloads whose meters show a busy core, but faster cores do not raise the rate.
const BUSY: [&str; 26] = [
    // The PCIe link limits the rate: cores wait for write-combining buffers.
    "verb = \"send\"\nsize = 28\nmachines = 4\nthreads = 14\ninline = true",
    "verb = \"send\"\nsize = 120\nmachines = 4\nthreads = 14\ninline = true",
    "verb = \"send\"\nsize = 188\nmachines = 4\nthreads = 14\ninline = true",
    "verb = \"send\"\nsize = 700\nmachines = 3\nthreads = 8\ninline = true",
    "verb = \"send\"\nsize = 28\nmachines = 4\nthreads = 4\ninline = true\nprofile = \"cx\"",
    "verb = \"send\"\nsize = 28\nmachines = 4\nthreads = 8\ninline = true\nprofile = \"cx3\"",
    "verb = \"send\"\nsize = 32\nmachines = 3\nthreads = 14\nqps = 4\nwindow_per_qp = 16\nsignal_every = 1\ninline = true",
    "verb = \"send\"\ntransport = \"uc\"\nsize = 512\nmachines = 3\nthreads = 8\ninline = true",
    "verb = \"send\"\ntransport = \"rc\"\nsize = 256\npattern = \"all-to-all\"\nmachines = 4\nthreads = 14\ninline = true",
    "verb = \"send\"\nsize = 128\npattern = \"all-to-all\"\nmachines = 4\nthreads = 14\ninline = true",
    "verb = \"write\"\nsize = 32\nmachines = 4\nthreads = 14\ninline = true",
    "verb = \"write\"\nsize = 120\nmachines = 4\nthreads = 14\ninline = true",
    "verb = \"write\"\ntransport = \"rc\"\nsize = 60\nmachines = 4\nthreads = 14\ninline = true",
    "verb = \"write\"\ntransport = \"rc\"\nsize = 32\nmachines = 4\nthreads = 8\ninline = true\nprofile = \"cx3\"",
    "verb = \"write\"\nsize = 120\nmachines = 4\nthreads = 8\ninline = true\nprofile = \"cx3\"",
    "mix = \"send/32:1,send/200:1\"\nmachines = 3\nthreads = 14\ninline = true",
    "verb = \"write\"\nmachines = 4\ninline = true\n[[class]]\nthreads = 7\nsize = 120\n[[class]]\nthreads = 7\nsize = 28",
    "verb = \"send\"\nmachines = 4\ninline = true\n[[class]]\nthreads = 12\nsize = 188\n[[class]]\nthreads = 2\nwindow = 1\nsize = 8",
    // The NIC or the network limits the rate.
    "verb = \"write\"\ntransport = \"rc\"\nsize = 32\nmachines = 3\nthreads = 8\nqps = 64\nwindow_per_qp = 4\ninline = true",
    "verb = \"write\"\nsize = 256\nmachines = 3\nthreads = 14\ninline = false",
    "verb = \"write\"\ntransport = \"rc\"\nsize = 1024\nmachines = 3\nthreads = 8",
    "verb = \"send\"\nsize = 60\nmachines = 3\nthreads = 8\ninline = true\nprofile = \"cx3-dual\"",
    "system = \"rpc\"\nclients = 400\ncores = 14",
    "system = \"rpc\"\nclients = 200\ncores = 14\nrequest = \"send-ud\"",
    // All operations that are due complete.
    "verb = \"send\"\nmachines = 3\nthreads = 4\narrivals = \"fixed\"\nrate = 30000000",
    "system = \"rpc\"\nclients = 48\ncores = 4\narrivals = \"poisson\"\nrate = 20000000",
];

/// Workloads whose cores mostly find nothing when they poll.
const IDLE: [&str; 9] = [
    "verb = \"read\"\nmachines = 2\nthreads = 1\nwindow = 1",
    "verb = \"write\"\ntransport = \"rc\"\nmachines = 2\nthreads = 2\nwindow = 1\nprofile = \"cx3\"",
    "verb = \"fetch-add\"\nmachines = 3\nthreads = 2\nwindow = 1\nprofile = \"cx\"",
    "system = \"ping-pong\"",
    "system = \"rpc\"\nclients = 1\noutstanding = 1\ncores = 1",
    "system = \"remote-spinlock\"\nclients = 1",
    "system = \"atomics-sequencer\"\nclients = 8",
    "verb = \"read\"\nmachines = 3\nthreads = 2\narrivals = \"poisson\"\nrate = 2000000",
    "verb = \"write\"\ntransport = \"rc\"\nmachines = 3\nthreads = 2\nwindow = 8\nthink = \"20us\"",
];

/// The largest share of the time for which a core is busy, according to its meter.
fn busiest_core(outcome: &Outcome) -> f64 {
    let cores = outcome.resources.iter().filter(|of| of.meter.part() == Part::Core);
    cores.map(|core| core.utilization).fold(0.0, f64::max)
}

#[test]
fn a_core_that_polls_is_no_bottleneck() {
    for toml in BUSY.into_iter().chain(IDLE) {
        let run = run(&format!("warmup = \"30us\"\nduration = \"60us\"\n{toml}")).expect(toml);
        let outcome = doorbell_lab::simulate(&run, &Control::quiet()).expect("it ends");
        let (found, core) = (&outcome.bottleneck, busiest_core(&outcome));
        println!("{}: {} ({}), cores {core}", toml.replace('\n', "; "), found.in_table(), found.text);
        assert!(found.class.is_some_and(|class| class != Resource::Cpu), "{toml}: {found:?}");
        assert!(core >= 0.8 || IDLE.contains(&toml), "{toml}: the busiest core is busy for {core}");
    }
}
