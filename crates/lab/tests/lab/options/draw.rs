//! Draws sets of options, as the lines of a file for a workload or a system.

use doorbell_lab::{SYSTEMS, Schema, SystemEntry, ThreadClass, Workload};
use doorbell_nic::Profile;
use doorbell_schema::{Field, FieldKind, NumberUnit};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Random draws of a case.
pub(crate) struct Draws(Xoshiro256PlusPlus);

impl Draws {
    pub(crate) fn new(seed: u64) -> Draws {
        Draws(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// A number from `least` to `most`.
    pub(crate) fn among(&mut self, least: u64, most: u64) -> u64 {
        let span = u128::from(most - least) + 1;
        least + ((u128::from(self.0.next_u64()) * span) >> 64) as u64
    }

    /// A number from `least` to `most`, with a log-uniform distribution.
    pub(crate) fn of_any_magnitude(&mut self, least: u64, most: u64) -> u64 {
        let (low, high) = ((least as f64 + 1.0).ln(), (most as f64 + 1.0).ln());
        let drawn = (low + (high - low) * self.share()).exp() - 1.0;
        (drawn as u64).clamp(least, most)
    }

    /// A number from 0 to 1.
    fn share(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True with this probability in percent.
    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.among(0, 99) < percent
    }

    pub(crate) fn one_of<'a, T: ?Sized>(&mut self, all: &[&'a T]) -> &'a T {
        all[self.among(0, all.len() as u64 - 1) as usize]
    }
}

/// A line of a file: an option and its value.
type Line = (&'static str, String);

/// An option set as lines of a file. Tables of machines and classes come last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    pub(crate) lines: Vec<Line>,
    pub(crate) machines: Vec<String>,
    pub(crate) classes: Vec<Vec<Line>>,
}

impl Said {
    pub(crate) fn toml(&self) -> String {
        let lines = |lines: &[Line]| {
            lines.iter().map(|(key, value)| format!("{key} = {value}\n")).collect::<String>()
        };
        let machines = self.machines.iter().map(|table| format!("[[machine]]\n{table}"));
        let classes = self.classes.iter().map(|class| format!("[[class]]\n{}", lines(class)));
        std::iter::once(lines(&self.lines)).chain(machines).chain(classes).collect()
    }

    /// All sets with one line, machine group or class less.
    pub(crate) fn with_less(&self) -> impl Iterator<Item = Said> {
        let without_line = |at: usize| {
            let mut less = self.clone();
            less.lines.remove(at);
            less
        };
        let without_machines = |at: usize| {
            let mut less = self.clone();
            less.machines.remove(at);
            less
        };
        let lines = (0..self.lines.len()).map(without_line);
        let without_class = |at: usize| {
            let mut less = self.clone();
            less.classes.remove(at);
            less
        };
        let without_line_of_class = |(class, at): (usize, usize)| {
            let mut less = self.clone();
            less.classes[class].remove(at);
            less
        };
        let of_classes = (0..self.classes.len())
            .flat_map(|class| (0..self.classes[class].len()).map(move |at| (class, at)));
        lines
            .chain((0..self.machines.len()).map(without_machines))
            .chain((0..self.classes.len()).map(without_class))
            .chain(of_classes.map(without_line_of_class))
    }
}

/// Systems that can run without UC and UD.
const OVER_RC: [&str; 3] = ["rpc", "touch", "ping-pong"];

/// An option of a verbs workload or of a system.
#[derive(Clone, Copy)]
pub(crate) struct Wanted {
    system: Option<&'static SystemEntry>,
    pub(crate) key: &'static str,
}

impl Wanted {
    /// All options. An option of several systems is listed for each of them.
    pub(crate) fn all() -> Vec<Wanted> {
        let of = |system: Option<&'static SystemEntry>, fields: &[&'static Field]| -> Vec<Wanted> {
            fields.iter().map(|field| Wanted { system, key: field.key }).collect()
        };
        let verbs = of(None, &Workload::fields());
        verbs.into_iter().chain(SYSTEMS.iter().flat_map(|entry| of(Some(entry), &entry.fields))).collect()
    }

    /// Whether a set with the option can be answered on a profile. iWARP has only RC, so of the systems only
    /// [`OVER_RC`] run.
    pub(crate) fn is_for(&self, profile: &str) -> bool {
        let iwarp = Profile::named(profile).is_ok_and(|profile| profile.device.generation.is_iwarp());
        !iwarp || self.system.is_none_or(|system| OVER_RC.contains(&system.name))
    }

    /// The option in words.
    pub(crate) fn name(&self) -> String {
        self.system.map_or_else(|| self.key.to_owned(), |system| format!("{} of {}", self.key, system.name))
    }
}

/// Draws options of a workload or system on machines of a profile, including the wanted one.
pub(crate) fn said(draws: &mut Draws, profile: &str, wanted: Wanted) -> Said {
    match wanted.system {
        Some(entry) => system(draws, profile, entry, wanted.key),
        None => verbs(draws, profile, wanted.key),
    }
}

fn quoted(text: impl std::fmt::Display) -> String {
    format!("\"{text}\"")
}

fn verbs(draws: &mut Draws, profile: &str, wanted: &str) -> Said {
    let mut said = Said::default();
    let alike = ["profile", "machines", "host", "pcie", "link", "set"].contains(&wanted);
    let unlike = wanted == "machine" || !alike && draws.percent(25);
    let mixed = is_mixed(draws, wanted);
    let classed = wanted == "class" || wanted != "threads" && draws.percent(25);
    for field in Workload::fields() {
        match field.key {
            "machine" | "class" => {}
            // These values keep the cluster small.
            "profile" if !unlike => said.lines.push(("profile", quoted(profile))),
            "machines" if !unlike => said.lines.push(("machines", draws.among(2, 5).to_string())),
            "threads" => said.lines.push(("threads", draws.among(1, 3).to_string())),
            "profile" | "machines" | "host" | "pcie" | "link" | "set" if unlike => {}
            "verb" if mixed => {}
            "mix" if mixed => said.lines.push(("mix", value(draws, field, profile))),
            "mix" | "inline_up_to" if !mixed => {}
            "verb" => said.lines.push(("verb", value(draws, field, profile))),
            _ => line(draws, &mut said, field, profile, wanted),
        }
    }
    if unlike {
        said.machines = machines(draws, profile);
    }
    coherent(draws, &mut said, wanted, |key| Workload::fields().iter().any(|field| field.key == key));
    if classed {
        in_classes(draws, &mut said, profile, wanted);
    }
    in_time(draws, &mut said, wanted);
    said
}

fn is_mixed(draws: &mut Draws, wanted: &str) -> bool {
    ["mix", "inline_up_to"].contains(&wanted) || draws.percent(20)
}

/// Moves the options of threads into classes. Usually all of them move. In other cases classes inherit some
/// options from the top level.
fn in_classes(draws: &mut Draws, said: &mut Said, profile: &str, wanted: &str) {
    let is_own = |key: &str| ThreadClass::FIELDS.iter().any(|field| field.key == key);
    let inherit = draws.percent(20);
    said.lines.retain(|(key, _)| *key != "threads" && (inherit || !is_own(key)));
    // Counters belong to machines, and only atomics use them.
    said.lines.retain(|(key, _)| inherit || !["counters", "counter_stride"].contains(key) || *key == wanted);
    let classes = draws.among(1, 3);
    let with_wanted = draws.among(0, classes - 1);
    for number in 0..classes {
        let counts = number == with_wanted && ["counters", "counter_stride"].contains(&wanted);
        let wanted = if number == with_wanted { wanted } else { "" };
        let mut class = if draws.percent(20) && wanted.is_empty() {
            Said::default()
        } else {
            class(draws, profile, wanted)
        };
        if counts {
            class.lines = vec![("verb", quoted(draws.one_of(&["fetch-add", "compare-swap"])))];
        }
        class.lines.push(("threads", draws.among(1, 2).to_string()));
        said.classes.push(class.lines);
    }
}

/// Draws the options of a class.
fn class(draws: &mut Draws, profile: &str, wanted: &str) -> Said {
    let (mut said, mixed) = (Said::default(), is_mixed(draws, wanted));
    for field in ThreadClass::FIELDS {
        match field.key {
            "threads" => {}
            "verb" if mixed => {}
            "mix" | "inline_up_to" if !mixed => {}
            "verb" | "mix" => said.lines.push((field.key, value(draws, field, profile))),
            _ => line(draws, &mut said, field, profile, wanted),
        }
    }
    coherent(draws, &mut said, wanted, |key| ThreadClass::FIELDS.iter().any(|field| field.key == key));
    said
}

fn system(draws: &mut Draws, profile: &str, entry: &SystemEntry, wanted: &str) -> Said {
    let mut said = Said::default();
    said.lines.push(("system", quoted(entry.name)));
    said.lines.push(("profile", quoted(profile)));
    let flat = Profile::named(profile).is_ok_and(|profile| profile.hierarchy.is_none());
    // The bytes of a table and its entries exclude each other.
    let by_bytes = wanted == "bytes" || !["tuples", "round_entries"].contains(&wanted) && draws.percent(30);
    for key in ["host", "pcie", "link", "set"] {
        let field = Workload::fields().into_iter().find(|field| field.key == key).unwrap();
        // Options that need cache sizes get a host that has them, if the profile has none.
        let wanted = if entry.name == "touch" && flat && draws.percent(80) { "host" } else { wanted };
        line(draws, &mut said, field, profile, wanted);
    }
    for field in &entry.fields {
        match field.key {
            "clients" => said.lines.push(("clients", draws.among(1, 5).to_string())),
            "pairs" => said.lines.push(("pairs", draws.of_any_magnitude(64, 4096).to_string())),
            // Small, because a run lasts until the rounds or joins that it began are over. At least the bytes
            // of the largest entry.
            "bytes" if by_bytes => said.lines.push(("bytes", draws.among(8192, 32_768).to_string())),
            "bytes" => {}
            "tuples" | "round_entries" if by_bytes => {}
            key @ ("tuples" | "round_entries") => {
                said.lines.push((key, draws.of_any_magnitude(1, 512).to_string()));
            }
            _ => line(draws, &mut said, field, profile, wanted),
        }
    }
    coherent(draws, &mut said, wanted, |key| entry.fields.iter().any(|field| field.key == key));
    if entry.name == "rpc"
        && Profile::named(profile).is_ok_and(|profile| profile.device.generation.is_iwarp())
    {
        said.lines.retain(|(key, _)| !["request", "reply"].contains(key));
        let (request, reply) = (["write-rc", "send-rc"], ["write-rc", "send-rc", "read-rc"]);
        said.lines.push(("request", quoted(draws.one_of(&request))));
        said.lines.push(("reply", quoted(draws.one_of(&reply))));
    }
    in_time(draws, &mut said, wanted);
    said
}

/// Adds an option with some probability.
fn line(draws: &mut Draws, said: &mut Said, field: &'static Field, profile: &str, wanted: &str) {
    let often = match field.key {
        "warmup" | "duration" | "max_time" | "precision" => 0,
        key if key == wanted => 100,
        // It excludes a duration.
        "until" => 0,
        "host" | "pcie" | "link" | "set" => 8,
        "seed" => 90,
        _ => 18,
    };
    if draws.percent(often) {
        said.lines.push((field.key, value(draws, field, profile)));
    }
}

/// Dependencies: an option, another option, and the values of the other option that it requires.
const GOES_WITH: &[(&str, &str, &[&str])] = &[
    ("counters", "verb", &["\"fetch-add\"", "\"compare-swap\""]),
    ("counter_stride", "verb", &["\"fetch-add\"", "\"compare-swap\""]),
    ("max_rd_atomic", "verb", &["\"read\"", "\"fetch-add\"", "\"compare-swap\""]),
    ("header_only", "verb", &["\"send\""]),
    ("inline_recv", "verb", &["\"send\""]),
    ("inline", "verb", &["\"send\"", "\"write\""]),
    ("remote_region", "verb", &["\"write\"", "\"read\""]),
    ("size", "verb", &["\"send\"", "\"write\"", "\"read\""]),
    ("transport", "verb", &["\"send\""]),
    ("pieces", "sges", &["2", "4"]),
    ("addresses", "local_region", &["100000", "3000000"]),
    ("rate", "arrivals", &["\"fixed\"", "\"poisson\""]),
    ("arrivals", "rate", &["100000", "2000000"]),
    ("think", "arrivals", &["\"closed\""]),
    ("request", "reply", &["\"send-ud\""]),
    ("reply", "request", &["\"send-rc\"", "\"write-rc\""]),
];

/// Makes options consistent: adds the values that the wanted option requires, and drops other options whose
/// requirements are not met.
fn coherent(draws: &mut Draws, said: &mut Said, wanted: &str, has: impl Fn(&str) -> bool) {
    for &(key, other, values) in GOES_WITH.iter().filter(|(_, other, _)| has(other)) {
        // If the wanted option is the rate, it may have any value, and arrivals go with it.
        let any = (key, other, wanted) == ("arrivals", "rate", "rate");
        let fits = |said: &Said| {
            said.lines.iter().any(|(k, v)| *k == other && (any || values.contains(&v.as_str())))
        };
        if !said.lines.iter().any(|(k, _)| *k == key) || fits(said) {
            continue;
        }
        let gone = if key == wanted { other } else { key };
        said.lines.retain(|(k, _)| *k != gone);
        if key == wanted {
            said.lines.push((other, draws.one_of(values).to_owned()));
        }
    }
}

/// Limits the run to a short time, or to a low precision.
fn in_time(draws: &mut Draws, said: &mut Said, wanted: &str) {
    let us = |draws: &mut Draws, least, most| quoted(format!("{}us", draws.among(least, most)));
    let mut say = |key, value| said.lines.push((key, value));
    let settles =
        ["max_time", "precision", "until"].contains(&wanted) || wanted != "duration" && draws.percent(40);
    if !settles {
        say("duration", us(draws, 15, 60));
    } else {
        say("max_time", us(draws, 60, 200));
        say("precision", quoted(format!("{}%", draws.among(2, 20))));
    }
    if wanted == "warmup" || draws.percent(60) {
        say("warmup", us(draws, 0, 20));
    }
}

/// Two or three groups of machines, some with a changed parameter.
fn machines(draws: &mut Draws, profile: &str) -> Vec<String> {
    let all: Vec<&str> = Profile::names().collect();
    let groups = draws.among(2, 3);
    let mut group = |number| {
        let of = if number == 0 { profile } else { draws.one_of(&all) };
        let set = if draws.percent(15) { format!("set = {}\n", setting(draws, of)) } else { String::new() };
        format!("profile = \"{of}\"\ncount = {}\n{set}", draws.among(1, 3))
    };
    (0..groups).map(&mut group).collect()
}

/// A profile parameter, set to a value between half and twice its own value.
fn setting(draws: &mut Draws, profile: &str) -> String {
    let of = Profile::named(profile).unwrap();
    let parameter = &of.parameters[draws.among(0, of.parameters.len() as u64 - 1) as usize];
    let number = parameter.value * 2f64.powf(2.0 * draws.share() - 1.0);
    let number = if parameter.value.fract() == 0.0 { number.round() } else { number };
    format!("{{ {} = {number} }}", quoted(&parameter.name))
}

fn value(draws: &mut Draws, field: &Field, profile: &str) -> String {
    match field.kind {
        FieldKind::Number { least, most, unit } => number(draws, field.key, unit, least, most).to_string(),
        FieldKind::Switch => draws.percent(60).to_string(),
        FieldKind::Name(names) => quoted(draws.one_of(names)),
        // At least 9 ms, because a shorter time is refused: a message that is merely late must not count as
        // lost.
        FieldKind::Time { .. } if field.key == "give_up" => quoted(format!("{}ms", draws.among(9, 100))),
        FieldKind::Time { zero } => quoted(format!("{}ns", draws.of_any_magnitude(u64::from(!zero), 3000))),
        FieldKind::Share(least, most) => quoted(if draws.percent(50) { least } else { most }),
        FieldKind::Text => text(draws, field.key),
        FieldKind::Settings => setting(draws, profile),
        FieldKind::Tables(_) => unreachable!("tables are drawn apart"),
    }
}

fn number(draws: &mut Draws, key: &str, unit: NumberUnit, least: u64, most: u64) -> u64 {
    let small = match key {
        "seed" => return draws.among(0, u64::MAX),
        // Hosts without sizes of caches refuse a region below 64 MiB, because caches may hold it.
        "region" if draws.percent(50) => return draws.among(64 << 20, 256 << 20),
        "rate" => return draws.of_any_magnitude(10_000, 100_000_000),
        "qps" | "cores" | "clients_per_machine" | "ports" => 6,
        "counters" | "cache_bytes" | "real_pairs" => 10_000,
        "local_region" | "remote_region" => 4 << 20,
        _ if unit == NumberUnit::Bytes => 20_000,
        _ => 80,
    };
    draws.of_any_magnitude(least, most.min(small))
}

/// Texts that are valid for an option.
fn text(draws: &mut Draws, key: &str) -> String {
    let size = |draws: &mut Draws| draws.of_any_magnitude(1, 4000);
    match key {
        "name" => quoted(draws.one_of(&["readers", "writers", "both ends"])),
        "host" => quoted(draws.one_of(&["e7520", "e5-2683-v3", "cx3"])),
        "pcie" => quoted(draws.one_of(&["gen1x1", "gen2x8", "gen3x16", "gen4x4", "gen5x16", "gen6x8"])),
        "link" => quoted(draws.one_of(&["1", "10", "40ib", "100", "100roce", "400roce", "roce"])),
        "request_size" | "reply_size" => {
            let (one, other) = (size(draws), size(draws));
            quoted(match draws.among(0, 2) {
                0 => one.to_string(),
                1 => format!("{}-{}", one.min(other), one.max(other)),
                _ => format!("{one}:90,{other}:10"),
            })
        }
        "mix" => {
            let items = draws.among(1, 4);
            let verbs = ["read", "write", "send", "fetch-add", "compare-swap"];
            let mut one = || {
                let (verb, weight) = (draws.one_of(&verbs), draws.among(1, 99));
                match verb.contains('-') || draws.percent(30) {
                    true => format!("{verb}:{weight}"),
                    false => format!("{verb}/{}:{weight}", draws.of_any_magnitude(0, 9000)),
                }
            };
            quoted((0..items).map(|_| one()).collect::<Vec<_>>().join(","))
        }
        _ => panic!("nothing says how to draw the text {key}"),
    }
}
