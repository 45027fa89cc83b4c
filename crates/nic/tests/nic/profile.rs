//! Reading profiles, and relaxing them.

use doorbell_nic::cost::Costs;
use doorbell_nic::{Basis, Device, Generation, More, Profile, ProfileError, Resource};
use doorbell_verbs::Span;
use proptest::prelude::*;

const CIB: &str = include_str!("../../../../profiles/cib.toml");

fn profile(name: &str) -> Profile {
    Profile::named(name).unwrap_or_else(|e| panic!("{e}"))
}

/// The text of the error that cib's profile gives with one line replaced.
fn error_with(line_start: &str, replacement: &str) -> String {
    let changed: Vec<&str> =
        CIB.lines().map(|line| if line.starts_with(line_start) { replacement } else { line }).collect();
    let text = changed.join("\n");
    assert_ne!(text, CIB.trim_end(), "no line starts with {line_start}");
    match Profile::parse("my.toml", &text) {
        Ok(_) => panic!("{replacement} was accepted"),
        Err(error) => error.to_string(),
    }
}

fn line_of(line_start: &str) -> usize {
    CIB.lines().position(|line| line.starts_with(line_start)).map_or(0, |i| i + 1)
}

#[test]
fn built_in_profiles_say_what_table_2_says() {
    let of = |name| {
        let p = profile(name);
        assert_eq!(p.name, name);
        (p.host.cores, p.host.clock_hz, p.device.link.ports, p.device.pcie.lanes, p.device.pcie.bytes_per_s())
    };
    // atc16-tab2-*, atc16-fig2a-*
    assert_eq!(of("cx"), (4, 2_200_000_000, 1, 8, 2_000_000_000));
    assert_eq!(of("cx3"), (8, 2_100_000_000, 1, 8, 7_876_800_000));
    assert_eq!(of("cib"), (14, 2_000_000_000, 2, 16, 15_753_600_000));
}

#[test]
fn values_come_in_base_units() {
    let p = profile("cib");
    assert_eq!(p.device.link.port_bytes_per_s, 6_817_500_000);
    let request = p.parameters.iter().find(|p| p.name == "tx.read_request_ns").map(|p| p.value * 1e3);
    assert_eq!(request, Some(p.device.tx.read_request.as_ps() as f64));
    assert!(p.device.nic.doorbell_reads_all);
    let rate = p.parameters.iter().find(|p| p.name == "link.port_rate_gbps");
    assert_eq!(rate.map(|p| (p.value, p.unit.to_string())), Some((54.54, "Gb/s".to_owned())));
}

#[test]
fn a_profile_is_named_as_its_file_and_its_host_as_its_processor() {
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../profiles")).unwrap();
    let mut names: Vec<String> = files.map(|file| profile_of_file(&file.unwrap().path())).collect();
    names.sort();
    assert_eq!(names, Profile::names().collect::<Vec<_>>());
    assert!(Profile::host_names().any(|host| host == "e5-2683-v3"));
}

/// The name of a profile's file. The built-in profile of this name must contain the name, too.
fn profile_of_file(file: &std::path::Path) -> String {
    let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
    assert_eq!(profile(&name).name, name);
    name
}

#[test]
fn every_parameter_has_a_note_and_none_comes_twice() {
    for name in Profile::names() {
        let p = profile(name);
        let mut names: Vec<&str> = p.parameters.iter().map(|p| p.name.as_str()).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all, "{name}");
        assert!(p.parameters.iter().all(|p| !p.note().is_empty()), "{name}");
        let calibrated = p.parameters.iter().any(|p| matches!(p.basis, Basis::Calibrated { .. }));
        assert_eq!(calibrated, !p.calibrated_claims().is_empty(), "{name}");
    }
}

#[test]
fn a_missing_parameter_is_named_with_its_section() {
    let message = error_with("cores =", "");
    let line = line_of("[host]");
    assert_eq!(message, format!("my.toml:{line}: parameter host.cores is missing"));
}

#[test]
fn an_unknown_parameter_is_named_with_its_line() {
    let unknown = r#"corse = { value = 14, basis = "published", source = "a guess" }"#;
    let message = error_with("cores =", &format!("{}\n{unknown}", line_text("cores =")));
    let line = line_of("cores =") + 1;
    assert_eq!(message, format!("my.toml:{line}: host.corse is not a parameter of a profile"));
}

fn line_text(line_start: &str) -> &'static str {
    CIB.lines().find(|line| line.starts_with(line_start)).unwrap_or_default()
}

#[test]
fn wrong_values_are_refused_in_one_sentence() {
    let line = line_of("lanes =");
    let lanes = |value: &str| {
        error_with("lanes =", &format!(r#"lanes = {{ value = {value}, basis = "published", source = "x" }}"#))
    };
    assert_eq!(lanes("99"), format!("my.toml:{line}: pcie.lanes is 99, not within 1 to 32"));
    assert_eq!(lanes("8.5"), format!("my.toml:{line}: pcie.lanes is 8.5, but must be a whole number"));
    assert_eq!(lanes("\"8\""), format!("my.toml:{line}: pcie.lanes is \"8\", but must be a whole number"));
    assert_eq!(
        error_with("lanes =", "lanes = 8"),
        format!(
            "my.toml:{line}: lanes: invalid type: integer `8`, expected a table with value, basis and the notes of that basis"
        )
    );
    assert!(
        error_with("name =", "name = 3").contains(": name: invalid type: integer `3`, expected a string")
    );
    assert!(error_with("name =", "name = \" \"").ends_with(": name is empty"));
    let cores = |n: u32| format!(r#"cores = {{ value = {n}, basis = "published", source = "x" }}"#);
    assert!(error_with("cores =", &cores(257)).ends_with("host.cores is 257, not within 1 to 256"));
    let clock = |value: &str| {
        error_with(
            "clock_ghz =",
            &format!(r#"clock_ghz = {{ value = {value}, basis = "published", source = "x" }}"#),
        )
    };
    assert!(clock("nan").contains("not within 0.1 to 10"));
    assert!(clock("true").contains("must be a number"));
    let mtu = r#"mtu_bytes = { value = 1500, basis = "assumed", reason = "x", alternative = "y" }"#;
    assert!(error_with("mtu_bytes =", mtu).contains("1500, but must be 256, 512, 1024, 2048 or 4096"));
    let cqe = r#"cqe_bytes = { value = 32, basis = "assumed", reason = "x", alternative = "y" }"#;
    let line = line_of("[nic]");
    let message = format!("my.toml:{line}: nic.cqe_bytes is 32, but a CQE of mlx5 has 64 or 128");
    assert_eq!(error_with("cqe_bytes =", cqe), message);
}

#[test]
fn draws_are_of_parameters_and_as_many_of_each() {
    let drawn = |name: &str| error_with("\"tx.send_ns\" =", &format!("\"{name}\" = [1.0]"));
    assert!(
        drawn("tx.sent_ns")
            .ends_with("calibrated.draws has tx.sent_ns, which is not a parameter of this profile")
    );
    assert!(drawn("tx.send_ns").ends_with(
        "calibrated.draws.\"tx.send_ns\" has 1 number, but all parameters must have equally many, and at \
         least one"
    ));
}

#[test]
fn errors_of_models_and_draws_are_numbers_that_say_something() {
    let model =
        |verbs: &str| error_with("model = {", &format!("model = {{ verbs = {verbs}, systems = 0.1 }}"));
    for wrong in ["nan", "-0.1", "inf", "11"] {
        assert!(model(wrong).ends_with("not within 0 to 10"), "{}", model(wrong));
    }
    let steps = CIB.lines().find(|line| line.starts_with("\"tx.send_ns\" =")).expect("draws of it");
    let far = steps.replacen('[', "[1e300, ", 1).rsplit_once(',').map(|(first, _)| format!("{first}]"));
    let far = error_with("\"tx.send_ns\" =", &far.expect("several"));
    assert!(far.ends_with("not within 10 standard deviations"), "{far}");
}

#[test]
fn a_basis_needs_its_own_notes() {
    let lanes = |notes: &str| error_with("lanes =", &format!("lanes = {{ value = 8, {notes} }}"));
    assert!(lanes(r#"basis = "published""#).contains("pcie.lanes is published: it needs `source`"));
    assert!(lanes(r#"basis = "published", source = "x", reason = "y""#).contains("no other note"));
    assert!(lanes(r#"basis = "calibrated", how = "x""#).contains("it needs `claims` or `measurements`"));
    assert!(
        lanes(r#"basis = "assumed", reason = "x""#)
            .contains("it needs `reason` and one of `range`, `same_as` and `alternative`")
    );
}

#[test]
fn what_else_a_value_could_be_is_checked() {
    let ack = |notes: &str| {
        error_with(
            "ack_ns =",
            &format!("ack_ns = {{ value = 40, basis = \"assumed\", reason = \"x\", {notes} }}"),
        )
    };
    assert!(ack("range = [50, 60]").contains("tx.ack_ns is 40, not within 50 to 60"));
    assert!(ack("range = [60, 30]").contains("tx.ack_ns has a range that begins at 60, but ends at 30"));
    assert!(
        ack("range = [30, 60], alternative = \"more\"")
            .contains("one of `range`, `same_as` and `alternative`")
    );
    assert!(ack("same_as = \"tx.send_ns\"").contains("tx.ack_ns is 40, but must equal tx.send_ns, which is"));
    assert!(ack("same_as = \"rx.ack_ns\"").contains("rx.ack_ns, which is not an earlier parameter"));
}

#[test]
fn bad_toml_gives_one_line() {
    for (line, replacement) in [
        ("lanes =", "lanes = 8"),
        ("lanes =", "lanes = {"),
        ("lanes =", r#"lanes = { value = 8, basis = "guessed" }"#),
        ("lanes =", r#"lanes = { value = 8 }"#),
        ("[rx]", ""),
        ("[rx]", "[rxx]"),
    ] {
        let message = error_with(line, replacement);
        assert!(message.starts_with("my.toml:"), "{message}");
        assert!(!message.contains('\n') && message.len() < 300, "{message}");
    }
}

#[test]
fn an_unknown_profile_is_answered_with_those_there_are() {
    let known: Vec<&str> = Profile::names().collect();
    let message = format!(
        "there is no profile cx9; there are {}, or give the path of a TOML file (docs/guide-own-nic.md)",
        known.join(", ")
    );
    assert_eq!(Profile::named("cx9"), Err(ProfileError::NotFound(message)));
    assert!(matches!(Profile::named_or_file("./no-such-file.toml"), Err(ProfileError::NotFound(_))));
}

#[test]
fn a_file_is_read_as_the_built_in_profile() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../profiles/cib.toml");
    assert_eq!(Profile::named_or_file(path), Profile::named("cib"));
}

/// A profile based on another, with two parameters of its own.
const BASED: &str = r#"name = "mine"
title = "cx3 with a slower link"
base = "cx3"

[link]
port_rate_gbps = { value = 32, basis = "published", source = "its label" }

[nic]
max_inline_recv_bytes = { value = 0, basis = "assumed", reason = "switched off", alternative = "64" }
"#;

#[test]
fn a_profile_takes_from_its_base_what_it_does_not_give() {
    let (mine, base) = (Profile::parse("mine.toml", BASED).unwrap(), profile("cx3"));
    assert_eq!((mine.name.as_str(), mine.device.generation), ("mine", Generation::Mlx4));
    assert_eq!((mine.device.link.port_bytes_per_s, mine.device.nic.max_inline_recv), (4_000_000_000, 0));
    let back = with(&mine, |device| {
        device.link.port_bytes_per_s = base.device.link.port_bytes_per_s;
        device.nic.max_inline_recv = base.device.nic.max_inline_recv;
    });
    assert_eq!((back.host, back.device), (base.host, base.device.clone()));
    // Provenance goes with the value: claims that the base was calibrated from are no predictions here
    // either.
    assert_eq!(mine.calibrated_claims(), base.calibrated_claims());
    for (mine, base) in mine.parameters.iter().zip(&base.parameters) {
        assert_eq!(mine.name, base.name);
        let own = matches!(mine.name.as_str(), "link.port_rate_gbps" | "nic.max_inline_recv_bytes");
        assert_eq!(mine.base.as_deref(), (!own).then_some("cx3"), "{}", mine.name);
        assert_eq!(own, mine.basis != base.basis, "{}", mine.name);
        assert_eq!(base.base, None);
    }
}

#[test]
fn what_is_wrong_with_a_based_profile_is_said_in_one_sentence() {
    for (from, to, message) in [
        ("\"cx3\"", "\"cx9\"", "mine.toml:3: base: there is no profile cx9; there are cib, cx, cx3"),
        ("\"cx3\"", "\"no/such.toml\"", "mine.toml:3: base: cannot read no/such.toml: "),
        (
            "\"cx3\"",
            "\"mine.toml\"",
            "mine.toml:3: base: mine.toml is based on itself, directly or through \
             other files",
        ),
        ("\"cx3\"", "3", "mine.toml:3: "),
        ("base = \"cx3\"", "", "mine.toml:1: generation is missing"),
        ("base = \"cx3\"", "generation = \"mlx9\"", "mine.toml:3: generation: unknown variant `mlx9`"),
        ("base = \"cx3\"", "generation = \"mlx4\"", "mine.toml:1: parameter host.cores is missing"),
        ("value = 32", "value = 99999", "mine.toml:6: link.port_rate_gbps is 99999, not within"),
        ("port_rate", "prot_rate", "mine.toml:6: link.prot_rate_gbps is not a parameter"),
    ] {
        let text = BASED.replace(from, to);
        assert_ne!(text, BASED);
        let error = Profile::parse("mine.toml", &text).expect_err(to).to_string();
        assert!(error.starts_with(message) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn a_base_is_looked_for_from_where_its_file_lies() {
    let dir = std::env::temp_dir().join(format!("doorbell-base-{}", std::process::id()));
    std::fs::create_dir_all(dir.join("sub")).unwrap();
    let write = |name: &str, text: String| {
        let path = dir.join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let based = |base: &str| format!("name = \"top\"\ntitle = \"t\"\nbase = \"{base}\"\n");
    write("mine.toml", BASED.into());
    let top = write("sub/top.toml", based("../mine.toml"));
    let read = Profile::named_or_file(&top).unwrap();
    let of = |name: &str| read.parameters.iter().find(|p| p.name == name).and_then(|p| p.base.as_deref());
    assert_eq!((of("link.port_rate_gbps"), of("link.ports")), (Some("mine"), Some("cx3")));

    write("mine.toml", BASED.replace("value = 32", "value = 99999"));
    let error = Profile::named_or_file(&top).unwrap_err().to_string();
    assert!(error.contains("mine.toml:6: link.port_rate_gbps is 99999"), "{error}");

    let mine = write("mine.toml", BASED.replace("\"cx3\"", "\"sub/./top.toml\""));
    for file in [mine, top] {
        let error = Profile::named_or_file(&file).unwrap_err().to_string();
        assert!(error.contains(".toml:3: base: ") && error.contains("based on itself"), "{error}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn counters_8_bytes_apart_share_512_of_cibs_locks() {
    // atc16-atomics-buckets, atc16-atomics-page-aligned
    let atomics = profile("cib").device.atomics;
    let used: std::collections::BTreeSet<u32> = (0..100_000u64).map(|i| atomics.slot(i * 8)).collect();
    assert_eq!(used.len(), 512);
    assert_eq!(atomics.slot(4096 * 7 + 24), atomics.slot(4096 * 900 + 24));
    assert_ne!(atomics.slot(8), atomics.slot(16));
}

/// `profile` with its device changed.
fn with(profile: &Profile, change: impl FnOnce(&mut Device)) -> Profile {
    let mut changed = profile.clone();
    change(&mut changed.device);
    changed
}

#[test]
fn relaxing_a_resource_changes_only_that() {
    let p = profile("cib");
    let locks = p.relax(Resource::AtomicLocks, 110, 100);
    assert_eq!(locks.device.atomics.slots, p.device.atomics.slots);
    assert!(locks.device.atomics.hold < p.device.atomics.hold);
    assert_eq!(with(&locks, |device| device.atomics = p.device.atomics), p);
    let mmio = p.relax(Resource::MmioBandwidth, 110, 100);
    let [fast, usual] = [&mmio, &p].map(|profile| Costs::new(profile).pcie);
    assert!(fast.mmio_line < usual.mmio_line);
    assert_eq!(fast.completions(64), usual.completions(64));
}

#[test]
fn a_profile_with_more_of_one_parameter() {
    let p = profile("cib");
    let more = p.with_more("tx.send_ns", 1.1).unwrap();
    assert_eq!(more.device.tx.send.as_ps(), p.device.tx.send.as_ps() * 11 / 10);
    let less = with(&more, |device| device.tx = p.device.tx);
    assert_eq!(Profile { parameters: p.parameters.clone(), ..less }, p);
    assert_eq!(p.with_more("tx.units", 1.1).unwrap().device.tx.units, 18);
    for parameter in ["tx.sned_ns", "tx", ""] {
        assert!(p.with_more(parameter, 1.1).is_err(), "{parameter}");
    }
    assert!(p.with_more("tx.units", 1e6).is_err());
}

#[test]
fn parameters_that_have_the_value_of_another_move_with_it() {
    let p = profile("cib");
    let named = p.with_followers([("tx.read_request_ns", 7.0)]);
    let moved = ["tx.atomic_request_ns", "tx.read_request_ns", "tx.response_ns"];
    assert_eq!(named.into_keys().collect::<Vec<_>>(), moved);
    let more = p.with_more("tx.read_request_ns", 2.0).unwrap();
    assert_eq!(more.device.tx.atomic_request, more.device.tx.read_request);
    assert_eq!(more.set().count(), moved.len());
}

/// Vendor and part that a profile gives.
fn id(profile: &Profile) -> Option<(u32, u32)> {
    profile.device_id.as_ref().map(|id| (id.vendor_id, id.vendor_part_id))
}

#[test]
fn a_nic_keeps_its_numbers_in_another_host_and_under_another_name() {
    let numbers = ["cx", "cx3", "cib", "e7520-t4"].map(|name| id(&profile(name)));
    assert_eq!(numbers, [(0x2c9, 0x634a), (0x2c9, 0x1003), (0x2c9, 0x1011), (0x1425, 0x4401)].map(Some));
    let based = Profile::parse("my.toml", "name = \"my\"\ntitle = \"mine\"\nbase = \"cib\"\n").unwrap();
    assert_eq!(id(&based), id(&profile("cib")));
    assert_eq!(id(&based.on_host("e7520").unwrap()), id(&profile("cib")));
    let without: String =
        CIB.lines().filter(|line| !line.starts_with("device_id")).map(|l| format!("{l}\n")).collect();
    assert_eq!(id(&Profile::parse("my.toml", &without).unwrap()), None);
    for bad in [
        "device_id = { vendor_id = -1, vendor_part_id = 1, source = \"s\" }",
        "device_id = { vendor_id = 1 }",
    ] {
        let error = error_with("device_id", bad);
        assert!(error.starts_with(&format!("my.toml:{}: device_id", line_of("device_id"))), "{error}");
    }
}

/// `cib` with every optional section that adds a resource.
fn with_every_resource() -> Profile {
    named("base = \"cib\"\n[pipeline]\nrequest_ns = { value = 6.4, basis = \"assumed\", reason = \"r\", range = [0, 20] }\n")
        .unwrap()
}

#[test]
fn the_pipeline_is_an_optional_section() {
    let cib = profile("cib");
    assert!(cib.device.pipeline.is_none() && !Resource::TxPipeline.is_of(&cib));
    assert_eq!(Costs::new(&cib).send.pipeline, 0);
    let p = with_every_resource();
    assert!(Resource::TxPipeline.is_of(&p));
    assert_eq!(Costs::new(&p).send.pipeline, 6_400);
    assert_eq!(Costs::new(&p.relax(Resource::TxPipeline, 2, 1)).send.pipeline, 3_200);
    assert_eq!(p.relax(Resource::TxUnits, 2, 1).device.pipeline, p.device.pipeline);
    assert_eq!(set(&p, &[("pipeline.request_ns", 0.0)]).map(|p| Costs::new(&p).send.pipeline), Ok(0));
    let error = set(&cib, &[("pipeline.request_ns", 6.4)]).unwrap_err();
    assert!(error.starts_with("set: pipeline.request_ns is not a parameter of cib"), "{error}");
    let error = named("base = \"cib\"\n[pipeline]\n").unwrap_err().to_string();
    assert!(error.ends_with("parameter pipeline.request_ns is missing"), "{error}");
}

#[test]
fn the_store_of_requests_is_an_optional_section() {
    let cib = profile("cib");
    assert_eq!((cib.device.requests, Costs::new(&cib).receive.wqe_stall), (None, 0));
    let entry =
        |value| format!("{{ value = {value}, basis = \"assumed\", reason = \"r\", range = [1, 900] }}");
    let text = format!("base = \"cib\"\n[requests]\nentries = {}\nstall_ns = {}\n", entry(400), entry(120));
    let p = named(&text).unwrap();
    assert_eq!(Costs::new(&p).receive.wqe_stall, 120_000);
    let more = p.relax(Resource::WqeCache, 3, 2).device;
    assert_eq!(more.requests.map(|store| (store.entries, store.stall.as_ns())), Some((600, 120)));
    let error = named("base = \"cib\"\n[requests]\n").unwrap_err().to_string();
    assert!(error.ends_with("parameter requests.entries is missing"), "{error}");
}

#[test]
fn each_resource_can_be_relaxed_and_has_its_own_name() {
    let p = with_every_resource();
    let names: std::collections::BTreeSet<&str> = Resource::ALL.iter().map(|r| r.name()).collect();
    assert_eq!(names.len(), Resource::ALL.len());
    for resource in Resource::ALL {
        assert_ne!(p.relax(resource, 110, 100), p, "{resource}");
        assert_eq!(p.relax(resource, 3, 3), p, "{resource}");
    }
}

#[test]
fn more_of_what_is_counted_is_a_whole_number_of_times_as_many() {
    let p = with_every_resource();
    let of = |resource| p.with(More::Times(resource, 2)).device;
    assert_eq!(of(Resource::TxUnits).tx.units, 2 * p.device.tx.units);
    assert_eq!(of(Resource::TxUnits).tx.send, p.device.tx.send, "each unit is as fast as before");
    assert_eq!(of(Resource::AtomicLocks).atomics.slots, 2 * p.device.atomics.slots);
    let caches = of(Resource::QpContextCache).caches;
    assert_eq!(
        (caches.requester_entries, caches.responder_entries),
        (2 * p.device.caches.requester_entries, 2 * p.device.caches.responder_entries)
    );
    assert_eq!(of(Resource::OutstandingReads).nic.max_rd_atomic, 32);
    // Verbs store this number in a byte.
    assert_eq!(p.with(More::Times(Resource::OutstandingReads, 64)).device.nic.max_rd_atomic, 255);
    for resource in Resource::COUNTED {
        assert_ne!(p.with(More::Times(resource, 2)), p, "{resource}");
        assert_eq!(p.with(More::Times(resource, 1)), p, "{resource}");
    }
    for resource in Resource::FASTER {
        assert_eq!(p.with(More::Tenth(resource)), p.relax(resource, 11, 10));
    }
    assert_eq!(More::Times(Resource::QpContextCache, 2).to_string(), "nic-qp-cache x2");
    assert_eq!(More::Tenth(Resource::DmaBandwidth).to_string(), "dma-bw +10%");
}

proptest! {
    #[test]
    fn any_text_is_a_profile_or_an_error(text in ".{0,200}") {
        prop_assert!(Profile::parse("x", &text).is_err());
    }

    #[test]
    fn a_damaged_profile_never_panics(at in 0usize..CIB.len(), len in 0usize..40) {
        let end = (at + len).min(CIB.len());
        if CIB.is_char_boundary(at) && CIB.is_char_boundary(end) {
            let text = format!("{}{}", &CIB[..at], &CIB[end..]);
            if let Err(e) = Profile::parse("x", &text) {
                prop_assert!(!e.to_string().contains('\n'), "{}", e);
            }
        }
    }
}

#[test]
fn a_nic_is_put_into_another_host() {
    let (cib, e7520) = (profile("cib"), profile("e7520-t4"));
    for host in ["e7520", "e7520-t4", concat!(env!("CARGO_MANIFEST_DIR"), "/../../profiles/e7520-t4.toml")] {
        let both = cib.clone().on_host(host).unwrap();
        assert_eq!(
            (both.host, both.hierarchy, both.device),
            (e7520.host, e7520.hierarchy, cib.device.clone())
        );
        assert_eq!(both.name, format!("cib on {host}"));
        let whose = |name: &str| {
            let parameter = both.parameters.iter().find(|p| p.name == name);
            parameter.unwrap_or_else(|| panic!("{name}")).base.as_deref()
        };
        assert_eq!(["host.cores", "hierarchy.llc_bytes"].map(whose), [Some("e7520-t4"); 2]);
        assert_eq!(whose("pcie.lanes"), None);
    }
    let back = profile("e7520-t4").on_host("e5-2683-v3").unwrap();
    assert_eq!((back.host, back.hierarchy), (cib.host, None));
    for name in Profile::host_names() {
        cib.clone().on_host(name).unwrap();
    }
    let error = cib.on_host("e7521").unwrap_err().to_string();
    assert!(error.starts_with("there is no host e7521; there are e5-2683-v3, "), "{error}");
}

/// A profile that consists of a name, a title and `text`.
fn named(text: &str) -> Result<Profile, ProfileError> {
    Profile::parse("my.toml", &format!("name = \"mine\"\ntitle = \"a NIC elsewhere\"\n{text}"))
}

#[test]
fn a_profile_names_the_host_of_another() {
    const DDIO: &str = "[hierarchy]\ndma_write_ways = { value = 2, basis = \"assumed\", reason = \"DDIO\", alternative = \"0\" }";
    let mine = named(&format!("base = \"cx3\"\nhost = \"e7520\"\n{DDIO}")).unwrap();
    let e7520 = profile("e7520-t4");
    let hierarchy = doorbell_nic::Hierarchy { write_ways: 2, ..e7520.hierarchy.unwrap() };
    assert_eq!((mine.host, mine.hierarchy, mine.tcp), (e7520.host, Some(hierarchy), e7520.tcp));
    assert_eq!(mine.device, profile("cx3").device);
    assert_eq!(mine.name, "mine");
    for (text, message) in [
        ("base = \"cx3\"\nhost = \"e7521\"", "my.toml:4: host: there is no host e7521; there are"),
        (
            "host = \"e7520\"\ngeneration = \"mlx4\"",
            "my.toml:3: host names another profile's host, so base must",
        ),
        (
            "base = \"cx3\"\nhost = 3",
            "my.toml:4: host: invalid type: integer `3`, expected a table of parameters, or",
        ),
        ("base = \"cx3\"\nhost = \"./none.toml\"", "my.toml:4: host: cannot read ./none.toml"),
        ("base = \"cx3\"\n[host]\ncoresx = 3", "my.toml:5: "),
        (
            "base = \"cx3\"\nhost = \"e7520\"\n[host]\ncores = 3",
            "my.toml:5: host is given twice: a file either names the host of another profile, such as host \
             = \"e7520\", or has",
        ),
        ("base = \"cx3\"\nbase = \"cib\"", "my.toml:4: base is given twice"),
    ] {
        let error = named(text).unwrap_err().to_string();
        assert!(error.starts_with(message) && !error.contains('\n'), "{text}: {error}");
    }
}

#[test]
fn a_host_with_caches_that_have_sizes_has_at_most_64_cores() {
    let cores = |n: u32| {
        let text = format!(
            "base = \"e7520-t4\"\n[host]\ncores = {{ value = {n}, basis = \"assumed\", reason = \"many\", alternative = \"4\" }}"
        );
        named(&text).map(|profile| profile.host.cores).map_err(|error| error.to_string())
    };
    assert_eq!(cores(64), Ok(64));
    let error = cores(65).unwrap_err();
    assert!(error.contains("host.cores is 65, but a host with [hierarchy] has at most 64"), "{error}");
}

#[test]
fn caches_that_cannot_be_are_refused() {
    let with = |key: &str, value: &str| {
        let basis = "basis = \"assumed\", reason = \"tried\", alternative = \"another\"";
        named(&format!("base = \"e7520-t4\"\n[hierarchy]\n{key} = {{ value = {value}, {basis} }}"))
    };
    let ways = profile("e7520-t4").hierarchy.unwrap().llc_ways;
    assert!(with("dma_write_ways", &ways.to_string()).is_ok());
    for (key, value, message) in [
        ("dma_write_ways", (ways + 1).to_string(), "but must be at most llc_ways"),
        ("l1_ns", "1000".into(), "hierarchy.l1_ns is 1000, but must be at most l2_ns"),
        ("llc_ns", "1".into(), "but must be at most llc_ns, 1"),
    ] {
        let error = with(key, &value).unwrap_err().to_string();
        assert!(error.starts_with("my.toml:4: hierarchy.") && error.contains(message), "{error}");
    }
}

/// `profile` with these parameters set.
fn set(profile: &Profile, set: &[(&str, f64)]) -> Result<Profile, String> {
    let set = set.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    profile.with_set(&set).map_err(|error| error.to_string())
}

#[test]
fn a_parameter_can_be_set() {
    let cib = profile("cib");
    let mine = set(&cib, &[("tx.send_ns", 20.5), ("nic.inline_recv_ud", 1.0), ("rx.units", 8.0)]).unwrap();
    assert_eq!(
        (mine.device.tx.send, mine.device.nic.inline_recv_ud, mine.device.rx.units),
        (Span::from_ps(20_500), true, 8)
    );
    let told: Vec<_> = mine.set().map(|p| (p.name.as_str(), p.value, p.note())).collect();
    let wanted = [
        ("nic.inline_recv_ud", 1.0, "set by you, instead of 0".to_owned()),
        ("tx.send_ns", 20.5, format!("set by you, instead of {}", cib.device.tx.send.as_ps() as f64 / 1e3)),
        ("rx.units", 8.0, "set by you, instead of 16".to_owned()),
    ];
    assert_eq!(told, wanted);
    // Everything else is unchanged, and a value that is set twice replaces the profile's own.
    let rest =
        |p: &Profile| p.parameters.iter().filter(|p| p.name != "tx.send_ns").cloned().collect::<Vec<_>>();
    let once = set(&cib, &[("tx.send_ns", 30.0)]).unwrap();
    assert_eq!((rest(&once), &once.host, &once.device.rx), (rest(&cib), &cib.host, &cib.device.rx));
    assert_eq!(set(&once, &[("tx.send_ns", 20.0)]), set(&cib, &[("tx.send_ns", 20.0)]));
    assert_eq!(set(&cib, &[]), Ok(cib));
    let hierarchy = set(&profile("e7520-t4"), &[("hierarchy.dma_write_ways", 2.0)]).unwrap().hierarchy;
    assert_eq!(hierarchy.map(|h| h.write_ways), Some(2));
}

#[test]
fn every_parameter_can_be_set_by_its_name_to_its_value() {
    for name in Profile::names() {
        let p = profile(name);
        for parameter in &p.parameters {
            let same = set(&p, &[(&parameter.name, parameter.value)]).unwrap();
            assert_eq!(same.set().count(), 1, "{name} {}", parameter.name);
            assert_eq!(Profile { parameters: p.parameters.clone(), ..same }, p, "{name} {}", parameter.name);
        }
    }
}

#[test]
fn what_is_set_is_checked_as_in_a_file() {
    for (name, value, message) in [
        ("tx.sendns", 1.0, "set: tx.sendns is not a parameter of cib; did you mean tx.send_ns?"),
        ("zzz", 1.0, "set: zzz is not a parameter of cib: `doorbell profiles NAME` lists"),
        // cib does not have this section.
        ("tcp.mtu_bytes", 1500.0, "set: tcp.mtu_bytes is not a parameter of cib"),
        ("tx.send_ns", -1.0, "set: tx.send_ns is -1, not within 0 to 100000"),
        ("tx.send_ns", f64::NAN, "set: tx.send_ns is NaN, not within"),
        ("tx.units", 2.5, "set: tx.units is 2.5, but must be a whole number"),
        ("tx.units", 0.0, "set: tx.units is 0, not within 1 to 256"),
        ("nic.inline_recv_ud", 2.0, "set: nic.inline_recv_ud is 2, but must be true or false"),
        ("link.mtu_bytes", 1500.0, "set: link.mtu_bytes is 1500, but must be 256, 512, 1024, 2048 or 4096"),
        ("nic.cqe_bytes", 32.0, "set: nic.cqe_bytes is 32, but a CQE of mlx5 has 64 or 128"),
    ] {
        let error = set(&profile("cib"), &[(name, value)]).unwrap_err();
        assert!(error.starts_with(message), "{error}");
    }
    let error = set(&profile("e7520-t4"), &[("host.cores", 65.0)]).unwrap_err();
    assert!(error.starts_with("set: host.cores is 65, but a host with [hierarchy]"), "{error}");
}

/// If this fails after a change of a value, the measurements no longer support the profile: run `cargo xtask
/// calibrate NAME`. It also writes `[measured.machine]`.
#[test]
fn measurements_support_the_values_of_built_in_profiles() {
    for p in Profile::names().map(profile) {
        assert_eq!(p.is_measured_machine(), !p.measured.is_empty(), "{}: {:?}", p.name, p.differences());
    }
}

#[test]
fn a_record_of_values_is_read_back() {
    for p in Profile::names().map(profile) {
        let text = format!("name = \"copy\"\ntitle = \"a copy\"\nbase = \"{}\"\n{}", p.name, p.as_measured());
        let copy = Profile::parse("copy.toml", &text).unwrap();
        assert_eq!((&copy.measured.machine, copy.differences()), (&Some(p.as_measured()), Vec::new()));
    }
}

#[test]
fn differences_from_the_measured_machine_are_listed() {
    let cib = profile("cib");
    let record = cib.as_measured().to_string();
    for (from, to, difference) in [
        (
            "packet_ns = 66.2",
            "packet_ns = 66.3",
            "rx.packet_ns is 66.2 ns, but the measurements support 66.3 ns",
        ),
        (
            "inline_recv_ud = 0",
            "inline_recv_ud = 1",
            "nic.inline_recv_ud is false, but the measurements support true",
        ),
        ("ports = 2", "ports = 1", "link.ports is 2, but the measurements support 1"),
        ("ports = 2, ", "", "link.ports is not a parameter of the measured machine"),
        ("ports = 2", "ports = 2, plugs = 2", "only the measured machine has the parameter link.plugs"),
        ("mlx5", "mlx4", "generation is mlx5, but the measurements support mlx4"),
    ] {
        let other = record.replacen(from, to, 1);
        assert_ne!(other, record, "{from}");
        let p = named(&format!("base = \"cib\"\n{other}")).unwrap();
        let all: Vec<String> = p.differences().iter().map(ToString::to_string).collect();
        assert_eq!(all, [difference]);
        assert!(!p.is_measured_machine());
    }
}

/// Draws belong to the calibrated value.
#[test]
fn a_changed_parameter_has_no_draws_of_the_calibration() {
    let p = named(
        "base = \"cib\"\n[rx]\npacket_ns = { value = 67, basis = \"assumed\", reason = \"r\", range = [60, 70] }",
    );
    let (drawn, all) = (p.unwrap().calibrated.unwrap().draws, profile("cib").calibrated.unwrap().draws);
    assert!(all.contains_key("rx.packet_ns") && !drawn.contains_key("rx.packet_ns"));
    assert_eq!(drawn.len() + 1, all.len());
}

#[test]
fn a_profile_says_what_it_was_set_from() {
    const READ: &str =
        r#"{ source = "lab", verb = "read", transport = "rc", pattern = "inbound", size = [8, 64] }"#;
    let measured = |entry: &str| named(&format!("base = \"cib\"\n[measured]\nverbs = [{entry}]"));
    let mine = measured(READ).unwrap();
    let [read] = mine.measured.verbs.as_slice() else { panic!("{:?}", mine.measured) };
    let sides = [7, 8, 64, 65].map(|n| read.size.unwrap().side(n));
    assert_eq!(sides, [Some("below"), None, None, Some("beyond")]);
    assert_eq!(read.batch, None);
    // A profile has the data of its base, and lists its differences. With own data, it has no others.
    let cib = profile("cib");
    let based = named("base = \"cib\"").unwrap();
    assert_eq!((&based.measured, &based.calibrated), (&cib.measured, &cib.calibrated));
    assert!(based.is_measured_machine() && !mine.is_measured_machine());
    assert_eq!((mine.measured.verbs.len(), &mine.calibrated), (1, &None));
    assert!(named("base = \"cib\"\n[measured]").unwrap().measured.is_empty());
    assert_eq!(set(&mine, &[("tx.units", 3.0)]).unwrap().measured, mine.measured);
    let moved = profile("cx3").on_host("e7520").unwrap();
    let host = moved.moved_to.as_ref().map(|host| host.name.as_str());
    assert_eq!((host, &moved.measured), (Some("e7520"), &profile("cx3").measured));
    assert_eq!(set(&moved, &[("tx.units", 3.0)]).unwrap().moved_to, moved.moved_to);
    assert_eq!(profile("cx3").on_host("e5-2450").unwrap().moved_to, None);
    let drawn = &moved.calibrated.as_ref().unwrap().draws;
    assert!(drawn.contains_key("tx.send_ns") && !drawn.keys().any(|name| name.starts_with("host.")));
    for (from, to, part) in [
        ("[8, 64]", "[64, 8]", "a range begins at 64, but ends at 8"),
        ("[8, 64]", "[8]", "invalid length 1"),
        ("\"read\"", "\"raed\"", "unknown variant `raed`"),
        ("\"read\"", "\"send-with-imm\"", "verb must be given without immediate"),
        ("size", "sizes", "unknown field `sizes`"),
        ("transport = \"rc\", ", "", "missing field `transport`"),
    ] {
        let error = measured(&READ.replace(from, to)).unwrap_err().to_string();
        assert!(error.starts_with("my.toml:5: ") && error.contains(part) && !error.contains('\n'), "{error}");
    }
}
