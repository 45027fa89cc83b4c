//! Classes of threads. On each machine, the threads of one class post one workload, and the threads of
//! another class another workload.
//!
//! A class is a workload of its own with fewer threads. It inherits the workload's options that it does not
//! give. Thread t of every machine belongs to one class, so both ends of a queue pair agree. A class cannot
//! give options that machines share (groups, ports, counters, pages) or options of the run (times, precision,
//! seed).

use crate::check::check_together;
use crate::error::{WorkloadError, invalid};
use crate::remote_memory::check_device_bytes;
use crate::resolved::{NamedWork, Resolved, name_of};
use crate::taking::Taking;
use crate::workload::{ThreadClass, Workload, alternatives, ranges, sum};
use crate::{Pattern, Profiles, RemoteMemory};
use doorbell_schema::{Given, Value};

impl Workload {
    /// Checks that no class of `file` has its own value of the option `key`. A flag or a sweep sets this
    /// option over the file, and would have no effect on such a class.
    ///
    /// # Errors
    /// One sentence, if a class has its own value.
    pub fn check_over_classes(file: &Given, key: &str) -> Result<(), WorkloadError> {
        let Some(Value::Tables(classes)) = file.get(Workload::class.key) else { return Ok(()) };
        let own = |class: &Given| alternatives(key).find(|key| class.get(key).is_some()).map(str::to_owned);
        // The number of threads follows from the classes.
        let said = classes.iter().enumerate().filter(|_| key != Workload::threads.key).find_map(
            |(number, class)| {
                let name: Option<String> = class.read(ThreadClass::NAME).ok().flatten();
                Some((name_of(number, name.as_deref()), own(class)?))
            },
        );
        match said {
            Some((name, own)) => invalid(format!(
                "{key} cannot override the file, because class {name} in the file sets its own {own}: \
                 change the file"
            )),
            None => Ok(()),
        }
    }

    /// Checks the tables of classes. They replace `threads` and, if there are several, `rate`.
    fn check_classes(&self, classes: &[ThreadClass]) -> Result<(), WorkloadError> {
        if classes.is_empty() {
            return invalid("class is an empty list, but a machine has at least 1 thread".into());
        }
        if let Some(threads) = self.threads {
            return invalid(format!(
                "threads is {threads}, but the workload's [[class]] tables set the number of threads"
            ));
        }
        if let Some(rate) = self.rate.filter(|_| classes.len() > 1) {
            return invalid(format!(
                "rate is {rate}, but a rate applies to all threads of a class together: set it in the \
                 [[class]] tables"
            ));
        }
        let names: Vec<String> = names(classes);
        match names.iter().enumerate().find(|(at, name)| names[..*at].contains(name)) {
            Some((_, twice)) => invalid(format!("two classes are called {twice}")),
            None if names.iter().any(String::is_empty) => invalid("the name of a class is empty".into()),
            None => Ok(()),
        }
    }

    /// A class as a workload of its own. Ports are checked for all threads together, so the result does not
    /// limit ports.
    fn of_class(&self, class: &ThreadClass) -> Result<Workload, WorkloadError> {
        let mut base = Workload { class: None, ports: None, ..self.clone() };
        let says = class.says.clone();
        if says.window.or(says.window_per_qp).is_some() {
            (base.window, base.window_per_qp) = (None, None);
        }
        if says.verb.is_some() || says.mix.is_some() {
            (base.verb, base.mix) = (None, None);
        }
        let own = Workload { threads: Some(class.threads), ..says.over(base) };
        let one_sided = own.items()?.iter().any(|(verb, ..)| !verb.consumes_recv());
        let own = Workload { remote_memory: own.remote_memory.filter(|_| one_sided), ..own };
        match own.items()?.iter().any(|(verb, ..)| verb.is_atomic()) {
            true => Ok(own),
            false => Ok(Workload { counters: None, counter_stride: None, ..own }),
        }
    }

    /// The pattern of the classes for which neither the class nor the workload gives a pattern. It is the
    /// usual pattern of a mix of all their operations.
    fn usual_pattern(all: &[Workload]) -> Result<Pattern, WorkloadError> {
        let mut carry = true;
        for own in all.iter().filter(|own| own.pattern.is_none()) {
            carry &= own.items()?.iter().all(|(verb, ..)| verb.carries_payload());
        }
        Ok(if carry { Pattern::Outbound } else { Pattern::Inbound })
    }

    /// Fills in each class, and checks their total demand.
    pub(crate) fn resolve_classes(
        &self,
        classes: &[ThreadClass],
        profiles: &Profiles,
    ) -> Result<Resolved, WorkloadError> {
        self.check_groups()?;
        self.check_classes(classes)?;
        let names = names(classes);
        let named = |at: usize| {
            let names = &names;
            move |error: WorkloadError| WorkloadError::Invalid(format!("class {}: {error}", names[at]))
        };
        let own = |(at, class)| self.of_class(class).map_err(named(at));
        let own: Vec<Workload> = classes.iter().enumerate().map(own).collect::<Result<_, _>>()?;
        let usual = Workload::usual_pattern(&own)?;
        let filled = |(at, own): (usize, &Workload)| {
            let own = Workload { pattern: own.pattern.or(Some(usual)), ..own.clone() };
            let filled = own.resolve_threads(profiles).map_err(named(at))?;
            Ok(Resolved { ports: self.ports, ..filled })
        };
        let filled: Vec<Resolved> =
            own.iter().enumerate().map(filled).collect::<Result<_, WorkloadError>>()?;
        if let Some(counters) = self.counters.or(self.counter_stride)
            && filled.iter().all(|own| own.counters.is_none())
        {
            return invalid(format!("counters ({counters}) are for atomics, but no class posts atomics"));
        }
        if let Some(RemoteMemory::Device) = self.remote_memory
            && !filled.iter().any(Resolved::in_device_memory)
        {
            return invalid("remote_memory is for WRITE, READ and atomics, but no class posts these".into());
        }
        let named = |(class, workload): (&ThreadClass, &Resolved)| NamedWork {
            name: class.name.clone(),
            workload: workload.clone(),
        };
        let all = Resolved::of_classes(classes.iter().zip(&filled).map(named).collect());
        let groups = ranges(self.machine.as_deref(), self.machine.as_deref().map_or(all.machines, sum));
        let taking = Taking::of(profiles, all.pattern, &groups)?;
        all.check_threads(&taking)?;
        all.check_ports(&taking)?;
        check_together(&filled)?;
        check_device_bytes(&filled, &taking)?;
        Ok(all)
    }
}

fn names(classes: &[ThreadClass]) -> Vec<String> {
    classes.iter().enumerate().map(|(number, class)| name_of(number, class.name.as_deref())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AtomicCounters, Verb, Window};
    use doorbell_schema::{Arrivals, Schema};
    use doorbell_verbs::QpType;

    fn given(toml: &str) -> Given {
        Given::from_toml("w.toml", toml, &Workload::fields()).unwrap()
    }

    fn from(toml: &str) -> Result<Resolved, String> {
        let resolve = || {
            let workload = Workload::from_toml("w.toml", toml)?;
            workload.resolve(&workload.load_profiles()?)
        };
        resolve().map_err(|error: WorkloadError| error.to_string())
    }

    /// Ten threads READ 64 bytes; four WRITE 4 KiB at a rate.
    const TWO: &str = "size = 64\n[[class]]\nname = \"readers\"\nthreads = 10\nverb = \"read\"\n\
        [[class]]\nthreads = 4\nverb = \"write\"\ntransport = \"rc\"\nsize = 4096\narrivals = \"poisson\"\nrate = 1000000";

    #[test]
    fn a_class_is_a_workload_of_its_own() {
        let all = from(TWO).unwrap();
        assert_eq!((all.threads, all.uniform()), (14, None));
        let classes = all.classes();
        let [readers, writers] = &classes[..] else { panic!("{classes:?}") };
        assert_eq!((readers.name.as_str(), readers.threads.clone()), ("readers", 0..10));
        assert_eq!((writers.name.as_str(), writers.threads.clone()), ("1", 10..14));
        let said = |own: &Resolved| {
            let only = own.only_operation().unwrap();
            (only.verb, only.size, own.threads, own.open_loop())
        };
        assert_eq!(said(readers.workload), (Verb::Read, 64, 10, None));
        let open = Some((Arrivals::Poisson, 1_000_000));
        assert_eq!(said(writers.workload), (Verb::Write, 4096, 4, open));
        // READs are inbound, so the pattern is inbound for all classes that do not give it.
        assert!(classes.iter().all(|class| class.workload.pattern == Pattern::Inbound));
        let alone = from("verb = \"read\"\nsize = 64\nthreads = 10").unwrap();
        assert_eq!(*readers.workload, alone);
        assert_eq!(all.operations().len(), 2);
    }

    #[test]
    fn what_a_class_says_takes_the_place_of_what_the_workload_says() {
        let class = |base: &str, own: &str| {
            let all = from(&format!("{base}\n[[class]]\nthreads = 2\n{own}")).unwrap();
            all.classes()[0].workload.clone()
        };
        let window = class("window_per_qp = 64\nverb = \"read\"", "window = 3").window();
        assert_eq!(window, Window::PerThread(3));
        let mix = class("verb = \"read\"", "mix = \"read:1,write:1\"");
        assert_eq!((mix.mix().is_some(), mix.transport), (true, QpType::Rc));
        assert_eq!(class("mix = \"read:1,write:1\"", "verb = \"send\"").mix(), None);
        let both = from("counters = 7\n[[class]]\nthreads = 1\nverb = \"fetch-add\"\n[[class]]\nthreads = 1")
            .unwrap();
        let own_cqs =
            from("[[class]]\nthreads = 1\n[[class]]\nthreads = 2\nqps = 2\ncq_per_qp = true").unwrap();
        let own_cqs: Vec<_> = own_cqs.classes().iter().map(|class| class.workload.cq_per_qp).collect();
        assert_eq!(own_cqs, [false, true]);
        let counters: Vec<_> = both.classes().iter().map(|class| class.workload.counters).collect();
        let seven = Some(AtomicCounters { count: 7, stride: 8 });
        assert_eq!((counters, both.counters), (vec![seven, None], seven));
        let patterns =
            from("[[class]]\nthreads = 1\n[[class]]\nthreads = 1\nverb = \"read\"\npattern = \"inbound\"");
        let patterns: Vec<_> =
            patterns.unwrap().classes().iter().map(|class| class.workload.pattern).collect();
        assert_eq!(patterns, [Pattern::Outbound, Pattern::Inbound]);
    }

    #[test]
    fn one_class_that_says_nothing_is_the_workload() {
        for base in
            ["", "verb = \"read\"\nqps = 3", "mix = \"read:95,write:5\"", "arrivals = \"fixed\"\nrate = 9"]
        {
            let alone = from(&format!("{base}\nthreads = 3")).unwrap();
            let all = from(&format!("{base}\n[[class]]\nthreads = 3")).unwrap();
            assert_eq!(*all.classes()[0].workload, alone, "{base}");
        }
        assert_eq!(from("threads = 5").unwrap().classes()[0].threads, 0..5);
    }

    #[test]
    fn classes_that_are_filled_in_are_a_workload_again() {
        for toml in [
            TWO,
            "ports = 2\n[[class]]\nthreads = 1\nverb = \"read\"\n[[class]]\nthreads = 1\nmix = \"send:1,write/9:1\"",
            "counters = 3\n[[class]]\nthreads = 2\nthink = \"1us\"\n[[class]]\nthreads = 1\nverb = \"fetch-add\"",
            "cq_per_qp = true\n[[class]]\nthreads = 2\n[[class]]\nthreads = 1\ncq_per_qp = false",
            "[[class]]\nthreads = 2\ndrain = true\n[[class]]\nthreads = 2\nlocal_region = 9999\ninline = false",
        ] {
            let all = from(toml).expect(toml);
            let json = serde_json::to_string(&all).unwrap();
            let again = Workload::from_json("w", &json).unwrap();
            assert_eq!(again.threads, None, "{json}");
            assert_eq!(again.resolve(&again.load_profiles().unwrap()).unwrap(), all, "{toml}");
            assert_eq!(serde_json::from_str::<Resolved>(&json).unwrap(), all, "{toml}");
        }
    }

    #[test]
    fn what_does_not_go_together_is_refused_in_one_sentence() {
        let two = |base: &str, one: &str, other: &str| {
            format!("{base}\n[[class]]\nthreads = 2\n{one}\n[[class]]\nname = \"b\"\nthreads = 3\n{other}")
        };
        for (toml, said) in [
            ("class = []".into(), "class is an empty list, but a machine has at least 1 thread"),
            ("[[class]]\nverb = \"read\"".into(), "w.toml:1: missing field `threads`"),
            ("[[class]]\nthreads = 0".into(), "w.toml:2: threads is 0, but must be at least 1"),
            ("[[class]]\nthreads = 1\nseed = 3".into(), "w.toml:3: unknown field `seed`"),
            ("[[class]]\nthreads = 1\nclass = 3".into(), "w.toml:3: unknown field `class`"),
            (two("threads = 4", "", ""), "threads is 4, but the workload's [[class]] tables set the number"),
            (
                "[[class]]\nthreads = 12\n[[class]]\nthreads = 3".into(),
                "threads is 15, but a machine of profile cib",
            ),
            (two("", "name = \"b\"", ""), "two classes are called b"),
            (two("", "name = \"\"", ""), "the name of a class is empty"),
            (
                two("rate = 5\narrivals = \"fixed\"", "", ""),
                "rate is 5, but a rate applies to all threads of a class",
            ),
            (two("", "", "verb = \"read\"\ntransport = \"ud\""), "class b: UD does not offer READ, use RC"),
            (two("", "size = 5000", ""), "class 0: size is 5000, but a UD message is one packet"),
            (
                two("size = 64", "", "verb = \"fetch-add\""),
                "class b: size is 64, but fetch-and-add works on 8",
            ),
            (two("counters = 4", "", ""), "counters (4) are for atomics, but no class posts atomics"),
            (two("ports = 3", "", ""), "ports is 3, but a machine of profile cib has 2 ports"),
            (
                "ports = 2\n[[class]]\nthreads = 1".into(),
                "ports is 2, but each thread uses one, and threads is 1",
            ),
            (
                two("verb = \"read\"\npattern = \"inbound\"", "qps = 140000", "qps = 90000"),
                "the run would have 7700000 QPs, more than 4194304",
            ),
            (
                two("verb = \"read\"", "local_region = 170000000", "local_region = 120000000"),
                "the regions of all classes take more than 4 GiB together",
            ),
        ] {
            let error = from(&toml).expect_err(&toml);
            assert!(error.contains(said) && !error.contains('\n'), "{toml}: {error}");
        }
    }

    #[test]
    fn what_a_class_says_cannot_be_said_over_the_file() {
        let over = |flags: &str| Workload::flags_over(given(flags), given(TWO));
        for (flags, said) in [
            (
                "size = 8",
                "size cannot override the file, because class 1 in the file sets its own size: change the \
                 file",
            ),
            (
                "mix = \"read:1\"",
                "mix cannot override the file, because class readers in the file sets its own verb",
            ),
            ("rate = 8", "rate cannot override the file, because class 1"),
        ] {
            let error = over(flags).expect_err(flags).to_string();
            assert!(error.starts_with(said), "{flags}: {error}");
        }
        let qps = Workload::of(&over("qps = 3\nmachines = 4").unwrap()).unwrap();
        let qps = qps.resolve(&qps.load_profiles().unwrap()).unwrap();
        assert!(qps.classes().iter().all(|class| class.workload.qps == 3 && class.workload.machines == 4));
        let threads = Workload::of(&over("threads = 4").unwrap()).unwrap();
        assert!(threads.resolve(&threads.load_profiles().unwrap()).is_err());
    }
}
