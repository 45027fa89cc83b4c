//! Finds parts of a workload that lie outside the measurements behind its profiles.
//!
//! Each part becomes a sentence without a full stop. If everything lies within the measurements, there are no
//! sentences. A verbs workload is judged by verb, transport and pattern, and then separately by size, batch,
//! connected QPs, machines, threads and window. Each item of a mix is judged alone, because no measurement
//! covers a mix. A system is judged by measurements of the system, not of its verbs, because measurements of
//! single verbs do not tell how several verbs interact on one NIC.

use crate::asked::SystemWorkload;
use doorbell_nic::{Bounds, Profile, SystemMeasured, VerbsMeasured, counted};
use doorbell_schema::Value;
use doorbell_verbs::QpType;
use doorbell_workload::limits::{connected_qps, nic_pattern};
use doorbell_workload::{Operation, Pattern, Profiles, Resolved, Window};

/// Lists the parts of a workload that lie outside the measurements behind its profiles.
pub(crate) fn of_workload(profiles: &Profiles, w: &Resolved) -> Vec<String> {
    let unlike = (!profiles.are_alike()).then(|| "no measurement covers machines that differ".to_owned());
    // A NIC keeps the contexts of all its QPs, of all classes together.
    let (classes, qps) = (w.classes(), connected_qps(w));
    let of_each = profiles.all().flat_map(|profile| {
        let basis = unsupported(profile);
        let verbs = classes.iter().flat_map(|class| {
            let verbs = class.workload.operations().iter();
            verbs.flat_map(|operation| of_verbs(profile, class.workload, operation, qps))
        });
        basis.into_iter().chain(verbs.filter(|_| known(profile)))
    });
    let mixed = classes.iter().any(|class| class.workload.operations().len() > 1);
    let mixed = mixed.then(|| "no measurement covers a mix of operations".to_owned());
    let several = (classes.len() > 1).then(|| "no measurement covers threads of several classes".to_owned());
    distinct(of_each.chain(unlike).chain(mixed).chain(several))
}

/// Lists the parts of a system that lie outside the measurements behind its profile.
pub(crate) fn of_run_of_system(profile: &Profile, w: &SystemWorkload) -> Vec<String> {
    let basis = unsupported(profile).into_iter().chain(order_of_threads(profile, w));
    let system = if known(profile) { of_system(profile, w) } else { Vec::new() };
    distinct(basis.chain(system))
}

/// Doubt about threads that contend for a cache line: they get the line in the order of their requests, and
/// request it again in this order. So chance decides only once how the sockets of waiting threads alternate.
fn order_of_threads(profile: &Profile, w: &SystemWorkload) -> Option<String> {
    let (threads, cores) = (w.clients().clients, profile.host.cores);
    (w.retries_on_one_machine() && threads > cores && profile.socket_count() > 1).then(|| {
        format!(
            "the order in which {threads} threads on several sockets get the lock's cache line is drawn \
             once, so another seed may change the rate by more than the interval"
        )
    })
}

fn known(profile: &Profile) -> bool {
    !profile.measured.is_empty()
}

/// Keeps the first of equal sentences.
fn distinct(all: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut distinct = Vec::new();
    for sentence in all {
        if !distinct.contains(&sentence) {
            distinct.push(sentence);
        }
    }
    distinct
}

/// The reasons why no measurement supports the values of a profile, for any request: one sentence each,
/// without a full stop. Empty if the measurements support all values.
pub fn unsupported(profile: &Profile) -> Vec<String> {
    let Profile { name, moved_to, .. } = profile;
    let unknown =
        (!known(profile)).then(|| format!("profile {name} names no measurements behind its parameters"));
    let moved = moved_to.as_ref().map(|_| format!("{name} is not the measured machine"));
    let unrecorded = (known(profile) && profile.measured.machine.is_none()).then(|| {
        format!(
            "profile {name} does not record the values that its measurements support ([measured.machine])"
        )
    });
    let differences = profile.differences().into_iter().map(|difference| difference.to_string());
    unknown.into_iter().chain(moved).chain(unrecorded).chain(differences).collect()
}

/// The range that several measurements cover together, and their sources.
struct Range<'a> {
    bounds: Bounds,
    sources: Vec<&'a str>,
}

impl<'a> Range<'a> {
    /// The range of those measurements that state a range.
    fn of(all: impl Iterator<Item = (&'a String, Option<Bounds>)>) -> Option<Range<'a>> {
        let mut stated = all.filter_map(|(source, bounds)| Some((source.as_str(), bounds?)));
        let (source, bounds) = stated.next()?;
        let first = Range { bounds, sources: vec![source] };
        Some(stated.fold(first, |mut range, (source, bounds)| {
            range.bounds = range.bounds.with(bounds);
            if !range.sources.contains(&source) {
                range.sources.push(source);
            }
            range
        }))
    }

    /// A sentence if `number` lies outside the range. The sentence describes the number by `called`.
    fn outside(&self, number: u64, called: &str, unit: &str, profile: &str) -> Option<String> {
        let side = self.bounds.side(number)?;
        let (bounds, sources) = (self.bounds, self.sources.join(" and "));
        Some(format!(
            "{called} is {side} the range measured for profile {profile}, {bounds}{unit} ({sources})"
        ))
    }
}

/// The memory of the responder that operations access.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    /// Whether it is on the NIC.
    device_memory: bool,
    /// Whether all READs or WRITEs access one address.
    one_address: bool,
}

impl Target {
    pub(crate) fn of(w: &Resolved, operation: &Operation) -> Target {
        Target {
            device_memory: w.in_device_memory() && !operation.verb.consumes_recv(),
            one_address: w.at_one_address() && operation.verb.reaches_buffers(),
        }
    }

    /// Whether a measurement accesses such memory.
    pub(crate) fn is_of(self, m: &VerbsMeasured) -> bool {
        self == Target { device_memory: m.device_memory, one_address: m.one_address }
    }

    /// The memory in words, to follow a verb; empty for the usual memory.
    fn words(self) -> String {
        let all = [(self.one_address, " at one address"), (self.device_memory, " in memory on the NIC")];
        all.iter().filter(|(is_there, _)| *is_there).map(|(_, words)| *words).collect()
    }
}

fn of_verbs(profile: &Profile, w: &Resolved, operation: &Operation, qps: Option<u64>) -> Vec<String> {
    let Profile { name, measured, .. } = profile;
    let verb = operation.verb;
    let target = Target::of(w, operation);
    let asked = format!("{verb} over {}{}", w.transport, target.words());
    let same =
        |m: &&VerbsMeasured| target.is_of(m) && (m.verb, m.transport) == (verb.opcode(false), w.transport);
    let all: Vec<&VerbsMeasured> = measured.verbs.iter().filter(same).collect();
    if all.is_empty() {
        return vec![format!("profile {name} has no measurement of {asked}")];
    }
    let pattern = nic_pattern(w.pattern);
    let (here, elsewhere): (Vec<_>, Vec<_>) = all.into_iter().partition(|m| m.pattern == pattern);
    let called =
        Pattern::ALL.iter().find(|(_, pattern)| *pattern == w.pattern).map_or("", |(called, _)| *called);
    let unlike = here.is_empty().then(|| format!("profile {name} has no {called} measurement of {asked}"));
    let outside = dimensions(w, operation.size, qps).into_iter().filter_map(|d| {
        let stated = |m: &&'_ VerbsMeasured| (d.range)(m);
        let others = if d.of_any_pattern { elsewhere.as_slice() } else { &[] };
        let used = if here.iter().any(|m| stated(m).is_some()) { here.as_slice() } else { others };
        let range = Range::of(used.iter().map(|m| (&m.source, stated(m))))?;
        range.outside(d.number, &d.called, d.unit, name)
    });
    unlike.into_iter().chain(outside).collect()
}

/// A number of a verbs workload, such as its size or its batch. Measurements state a range for it.
pub(crate) struct Dimension {
    pub(crate) number: u64,
    /// Description of the workload's number, for messages.
    called: String,
    unit: &'static str,
    /// The range that a measurement states.
    pub(crate) range: fn(&VerbsMeasured) -> Option<Bounds>,
    /// If no measurement of the workload's pattern states a range: whether measurements of other patterns
    /// apply.
    of_any_pattern: bool,
}

/// The numbers of a verbs workload that are compared with ranges.
pub(crate) fn dimensions(w: &Resolved, size: u32, qps: Option<u64>) -> Vec<Dimension> {
    let size = Dimension {
        number: size.into(),
        called: format!("{size} B"),
        unit: " B",
        range: |m| m.size,
        of_any_pattern: true,
    };
    let batch = Dimension {
        number: w.batch.into(),
        called: format!("a batch of {}", w.batch),
        unit: "",
        range: |m| m.batch,
        of_any_pattern: true,
    };
    // Patterns do not matter here: a NIC keeps the contexts of QPs, whichever machine posts.
    let qps = qps.filter(|_| w.transport != QpType::Ud).map(|qps| Dimension {
        number: qps,
        called: format!("a machine with {qps} connected QPs"),
        unit: "",
        range: |m| m.qps,
        of_any_pattern: true,
    });
    // Patterns matter here: many machines that post to one machine differ from many that post to each other.
    let machines = Dimension {
        number: w.machines.into(),
        called: format!("a cluster of {} machines", w.machines),
        unit: "",
        range: |m| m.machines,
        of_any_pattern: false,
    };
    let threads = Dimension {
        number: w.threads.into(),
        called: counted(w.threads.into(), "thread"),
        unit: "",
        range: |m| m.threads,
        of_any_pattern: false,
    };
    let of_thread = match w.window() {
        Window::PerThread(operations) => u64::from(operations),
        Window::PerQp(operations) => u64::from(operations) * u64::from(w.qps),
    };
    let window = Dimension {
        number: of_thread,
        called: format!("a window of {of_thread} per thread"),
        unit: "",
        range: |m| m.window,
        of_any_pattern: false,
    };
    [size, batch].into_iter().chain(qps).chain([machines, threads, window]).collect()
}

/// The value of a system parameter, in the form in which measurements state it.
pub(crate) enum Stated {
    /// A number, for which measurements state a range.
    Number(u64),
    /// A name, for which measurements list the measured names. A switch has two names.
    Name(String),
}

impl Stated {
    /// Converts a value; `None` if measurements state no values of its kind.
    pub(crate) fn of(value: Value) -> Option<Stated> {
        match value {
            Value::Number(number) => Some(Stated::Number(number)),
            Value::Text(name) => Some(Stated::Name(name)),
            Value::Switch(switch) => Some(Stated::Name(switch.to_string())),
            Value::Tables(_) | Value::Settings(_) => None,
        }
    }
}

fn of_system(profile: &Profile, w: &SystemWorkload) -> Vec<String> {
    let Profile { name, measured, .. } = profile;
    let all: Vec<&SystemMeasured> = measured.systems.iter().filter(|m| m.system == w.name()).collect();
    if all.is_empty() {
        return vec![format!("profile {name} has no measurement of {}", w.name())];
    }
    let stated = w.values().into_iter().filter_map(|(key, value)| Some((key, Stated::of(value?)?)));
    let outside = stated.filter_map(|(key, value)| match value {
        Stated::Number(number) => {
            let range = Range::of(all.iter().map(|m| (&m.source, m.within.get(key).copied())))?;
            range.outside(number, &format!("{key} {number}"), "", name)
        }
        Stated::Name(value) => unlike(&all, key, &value, name),
    });
    outside.collect()
}

/// A sentence if measurements list values of a parameter, but not this value.
fn unlike(all: &[&SystemMeasured], key: &str, value: &str, profile: &str) -> Option<String> {
    let stated = || all.iter().filter_map(|m| Some((m.source.as_str(), m.of.get(key)?)));
    let known = stated().any(|(_, values)| values.iter().any(|known| known == value));
    let mut sources: Vec<&str> = stated().map(|(source, _)| source).collect();
    sources.dedup();
    (!sources.is_empty() && !known).then(|| {
        format!(
            "{key} {value} is not among the measured values of profile {profile} ({})",
            sources.join(" and ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Asked, Run};
    use doorbell_programs::systems::SYSTEMS;
    use doorbell_schema::{Duration, Given};
    use doorbell_systems::System;
    use doorbell_systems::config::OneByOne;
    use doorbell_systems::spinlock::LocalSpinlock;
    use doorbell_verbs::Span;
    use std::collections::BTreeSet;

    fn asked(toml: &str) -> Vec<String> {
        let given = Given::from_toml("w.toml", toml, &crate::fields()).unwrap();
        Run::asked(Asked::of(&given).unwrap()).unwrap().extrapolates()
    }

    #[test]
    fn nothing_is_said_of_what_was_measured() {
        for toml in [
            "verb = \"send\"\nsize = 28",
            "verb = \"send\"\nsize = 60\nbatch = 16",
            "verb = \"send\"\nheader_only = true",
            "verb = \"read\"\nsize = 64",
            "verb = \"read\"\npattern = \"outbound\"\nqps = 14\nsize = 64",
            "verb = \"read\"\npattern = \"all-to-all\"\nmachines = 6\nqps = 30\nwindow = 16",
            "verb = \"fetch-add\"\ncounters = 4096",
            "host = \"e5-2683-v3\"",
            "pcie = \"gen3x16\"\nlink = \"54.54ib\"",
            "profile = \"cx\"\npattern = \"inbound\"",
            "profile = \"cx3\"\nverb = \"read\"\npattern = \"all-to-all\"\nmachines = 6\nqps = 6",
            "system = \"rpc-sequencer\"\nclients = 70\ncores = 1\nqueues = 1",
            "system = \"touch\"\nprofile = \"e7520-t4\"\nsize = 262144\nmode = \"notouch\"",
        ] {
            assert_eq!(asked(toml), [""; 0], "{toml}");
        }
    }

    #[test]
    fn each_extrapolation_is_said() {
        const LATER: &str = "papers/rc-swarm.toml";
        let later = |text: &str| format!("{text} ({LATER})");
        for (toml, wanted) in [
            (
                "verb = \"read\"\nsize = 4096",
                "4096 B is beyond the range measured for profile cib, 1 to 64 B (ATC'16, Table 4 and ATC'16, 5.3.1)".into(),
            ),
            (
                "profile = \"cx3\"\nverb = \"read\"\npattern = \"outbound\"\nsize = 4\nqps = 7",
                "4 B is below the range measured for profile cx3, 8 B (ATC'16, Figure 13b)".into(),
            ),
            (
                "verb = \"send\"\nbatch = 17",
                "a batch of 17 is beyond the range measured for profile cib, 1 to 16 (ATC'16, Figure 11b and \
                 ATC'16, Table 4)"
                    .into(),
            ),
            (
                "verb = \"read\"\nbatch = 4",
                // The range comes from READs with the patterns outbound and all-to-all, because Table 4
                // states no batch.
                "a batch of 4 is beyond the range measured for profile cib, 1 (ATC'16, 5.3.2 and ".to_owned() + LATER + ")",
            ),
            (
                "verb = \"read\"\nmachines = 30",
                later("a machine with 406 connected QPs is beyond the range measured for profile cib, 70 to 350"),
            ),
            (
                "verb = \"read\"\nthreads = 1",
                later("a machine with 7 connected QPs is below the range measured for profile cib, 70 to 350"),
            ),
            (
                "verb = \"read\"\npattern = \"all-to-all\"\nmachines = 12\nqps = 12\nwindow = 24",
                later("a cluster of 12 machines is beyond the range measured for profile cib, 6 to 11"),
            ),
            ("verb = \"write\"", "profile cib has no measurement of WRITE over UC".into()),
            (
                "verb = \"read\"\nsize = 64\nremote_addresses = \"same\"",
                "profile cib has no measurement of READ over RC at one address".into(),
            ),
            ("verb = \"send\"\ntransport = \"rc\"", "profile cib has no measurement of SEND over RC".into()),
            (
                "verb = \"compare-swap\"",
                "profile cib has no measurement of compare-and-swap over RC".into(),
            ),
            (
                "verb = \"send\"\npattern = \"inbound\"",
                "profile cib has no inbound measurement of SEND over UD".into(),
            ),
            ("host = \"e7520\"", "cib on e7520 is not the measured machine".into()),
            (
                "pcie = \"gen4x16\"",
                "pcie.lane_mb_per_s is 1969.2 MB/s, but the measurements support 984.6 MB/s".into(),
            ),
            (
                "link = \"100\"",
                "link.port_rate_gbps is 100 Gb/s, but the measurements support 54.54 Gb/s".into(),
            ),
            (
                "system = \"rpc-sequencer\"\nclients = 70\ncores = 1\nqueues = 1\npcie = \"gen3x8\"",
                "pcie.lanes is 8, but the measurements support 16".into(),
            ),
            ("[set]\ntx.send_ns = 20", "tx.send_ns is 20 ns, but the measurements support 50.7 ns".into()),
            ("profile = \"e7520-t4\"", "profile e7520-t4 has no measurement of SEND over RC".into()),
            (
                "profile = \"e7520-on-die\"",
                "profile e7520-on-die names no measurements behind its parameters".into(),
            ),
            (
                "[[machine]]\nprofile = \"cib\"\n[[machine]]\nprofile = \"cx3\"",
                "no measurement covers machines that differ".into(),
            ),
            ("system = \"read-kv\"", "profile cib has no measurement of read-kv".into()),
            (
                "system = \"rpc-sequencer\"\nclients = 71\ncores = 1\nqueues = 1",
                "clients 71 is beyond the range measured for profile cib, 70 (ATC'16, Figure 7 and ATC'16, Table 3 \
                 and papers/rc-swarm.toml)".into(),
            ),
            (
                "system = \"rpc-sequencer\"\nclients = 70\ncores = 1\nqueues = 1\ndatagrams = true",
                "datagrams true is not among the measured values of profile cib (ATC'16, Figure 7 and \
                 ATC'16, Table 3 and papers/rc-swarm.toml)".into(),
            ),
            (
                "system = \"touch\"\nprofile = \"e7520-t4\"\nsize = 262144\nstack = \"tcp\"",
                "stack tcp is not among the measured values of profile e7520-t4 (CoNEXT'13, Table 3)".into(),
            ),
            (
                "system = \"touch\"\nprofile = \"e7520-t4\"\nsize = 262144\nset = { tcp.mtu_bytes = 9000 }",
                "tcp.mtu_bytes is 9000 B, but the measurements support 1500 B".into(),
            ),
        ] {
            assert_eq!(asked(toml), [wanted], "{toml}");
        }
    }

    #[test]
    fn the_order_of_threads_on_several_sockets_is_said_to_be_drawn() {
        let of = |profile: &str, clients: u32, backoff: Span| {
            let mut lock = LocalSpinlock::usual();
            lock.clients = OneByOne::new(clients, clients);
            lock.locks.backoff = Duration::new(backoff);
            let all = Run::system(&Profile::named(profile).unwrap(), lock.into()).extrapolates();
            all.iter().any(|sentence| sentence.contains("is drawn once"))
        };
        assert!(of("cx3-dual", 9, Span::ZERO));
        assert!(!of("cx3-dual", 8, Span::ZERO));
        assert!(!of("cx3-dual", 9, Span::from_us(2)));
        assert!(!of("cx3", 9, Span::ZERO));
    }

    #[test]
    fn each_item_of_a_mix_is_judged_by_itself() {
        let said = asked("mix = \"read/64:9,read/4096:1\"");
        let [long, mix] = &said[..] else { panic!("{said:?}") };
        assert!(
            long.starts_with("4096 B is beyond the range measured for profile cib, 1 to 64 B")
                && mix == "no measurement covers a mix of operations"
        );
        assert_eq!(asked("mix = \"read/64:9\""), [""; 0]);
    }

    #[test]
    fn profiles_name_systems_and_parameters_that_there_are() {
        for profile in Profile::names().map(|name| Profile::named(name).unwrap()) {
            for m in &profile.measured.systems {
                let entry = SYSTEMS.iter().find(|entry| entry.name == m.system).unwrap();
                for key in m.within.keys().chain(m.of.keys()) {
                    assert!(entry.fields.iter().any(|field| field.key == key), "{}: {key}", profile.name);
                }
                for (key, values) in &m.of {
                    let field = entry.fields.iter().find(|field| field.key == key).unwrap();
                    assert!(values.iter().all(|value| field.parse(value).is_ok()), "{}: {key}", profile.name);
                }
            }
        }
    }

    #[test]
    fn a_profile_says_of_each_measurement_used_what_it_was() {
        for profile in Profile::names().map(|name| Profile::named(name).unwrap()) {
            let own = |p: &&doorbell_nic::Parameter| p.base.is_none();
            let bases = || profile.parameters.iter().filter(own).map(|p| &p.basis);
            let of = |basis: &doorbell_nic::Basis| match basis {
                doorbell_nic::Basis::Calibrated { claims, measurements, .. } => {
                    (claims.clone(), measurements.clone())
                }
                _ => Default::default(),
            };
            let claims: BTreeSet<String> = bases().flat_map(|basis| of(basis).0).collect();
            let said: BTreeSet<String> = profile.measured.claims().map(str::to_owned).collect();
            assert_eq!(claims, said, "{}", profile.name);
            for measurement in bases().flat_map(|basis| of(basis).1) {
                let by_source = profile.measured.verbs.iter().any(|m| measurement.starts_with(&m.source));
                let by_id = profile.measured.runs().any(|id| id == measurement);
                assert!(by_source || by_id, "{}: {measurement}", profile.name);
            }
        }
    }
}
