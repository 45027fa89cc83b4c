//! A profile claims the accuracy of its measurements only with the values that they support, however a value
//! was changed.

use doorbell_lab::{Asked, Run, Support, fields, page};
use doorbell_nic::{Basis, Parameter, Profile, Unit};
use doorbell_schema::Given;
use std::path::Path;

/// The statements of a workload about its accuracy.
fn said(profile: &str, rest: &str) -> (Vec<String>, Vec<Support>) {
    let toml = format!("profile = \"{profile}\"\n{rest}");
    let given = Given::from_toml("w.toml", &toml, &fields()).unwrap();
    let run = Run::asked(Asked::of(&given).unwrap()).unwrap();
    (run.extrapolates(), run.supports())
}

/// The text of a built-in profile.
fn text_of(name: &str) -> String {
    std::fs::read_to_string(format!("{}/../../profiles/{name}.toml", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// A value 1% above the parameter's own, or the next whole number.
fn changed(parameter: &Parameter) -> f64 {
    match parameter.unit {
        Unit::Count | Unit::Bytes => (parameter.value * 1.01).ceil(),
        _ => (parameter.value * 1.01 * 1e6).round() / 1e6,
    }
}

/// The text of a profile with another value of one of its own parameters, and of those that must equal it.
fn edited(profile: &Profile, parameter: &Parameter, value: f64) -> String {
    let changes = profile.with_followers([(parameter.name.as_str(), value)]);
    let changed = |p: &&Parameter| p.base.is_none() && changes.contains_key(&p.name);
    profile.parameters.iter().filter(changed).fold(text_of(&profile.name), |text, parameter| {
        let (section, key) = parameter.name.split_once('.').unwrap();
        let (before, after) = text.split_at(text.find(&format!("\n[{section}]\n")).unwrap());
        let from = format!("\n{key} = {{ value = {},", parameter.value);
        assert!(after.contains(&from), "{}", parameter.name);
        before.to_owned() + &after.replacen(&from, &format!("\n{key} = {{ value = {value},"), 1)
    })
}

/// The paths of a profile with another value: a copy with the same name, a file with a base, a copy with
/// another name, and a file whose base has this base.
fn files(folder: &Path, profile: &Profile, parameter: &Parameter, value: f64) -> [String; 4] {
    let (name, text) = (&profile.name, edited(profile, parameter, value));
    let (section, key) = parameter.name.split_once('.').unwrap();
    let entry = format!(
        "value = {value}, basis = \"assumed\", reason = \"tried\", range = [{}, {}]",
        value * 0.5,
        value * 2.0
    );
    let based =
        format!("name = \"mine\"\ntitle = \"mine\"\nbase = \"{name}\"\n[{section}]\n{key} = {{ {entry} }}\n");
    let named = text.replacen(&format!("name = \"{name}\""), "name = \"mine\"", 1);
    std::fs::create_dir_all(folder.join("profiles")).unwrap();
    let again = "name = \"again\"\ntitle = \"again\"\nbase = \"based.toml\"\n".to_owned();
    [
        (format!("profiles/{name}.toml"), &text),
        ("based.toml".to_owned(), &based),
        ("mine.toml".to_owned(), &named),
        ("again.toml".to_owned(), &again),
    ]
    .map(|(file, text)| {
        let path = folder.join(file);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    })
}

/// The first and the last calibrated parameter that the profile's own file gives.
fn calibrated(profile: &Profile) -> Vec<&Parameter> {
    let own = |p: &&Parameter| p.base.is_none() && matches!(p.basis, Basis::Calibrated { .. });
    let all: Vec<&Parameter> = profile.parameters.iter().filter(own).filter(|p| p.value > 0.0).collect();
    [all.first(), all.last()].into_iter().flatten().copied().collect()
}

/// A workload whose error is known on a profile with a calibration.
fn measured(profile: &Profile) -> &'static str {
    match profile.name.as_str() {
        "cib" => "verb = \"read\"\nsize = 64\n",
        "cx" => "verb = \"send\"\n",
        "cx3" => "verb = \"fetch-add\"\n",
        "cx3-dual" => "verb = \"write\"\ntransport = \"rc\"\nmachines = 2\n",
        name if profile.calibrated.is_none() => {
            assert_eq!(name, "e7520-t4", "only this profile was set by hand");
            ""
        }
        name => panic!("name a measured workload of {name}"),
    }
}

#[test]
fn a_value_that_was_changed_by_1_percent_is_stated_in_every_way_to_change_it() {
    let mut tried = 0;
    for profile in Profile::names().map(|name| Profile::named(name).unwrap()) {
        for parameter in calibrated(&profile) {
            tried += 1;
            let workload = measured(&profile);
            let original = said(&profile.name, workload).1;
            let is_known = original.iter().all(|support| support.median_error.is_some());
            assert_eq!(is_known, profile.calibrated.is_some(), "{}: {original:?}", profile.name);
            let value = changed(parameter);
            let folder = tempfile::tempdir().unwrap();
            let set = said(&profile.name, &format!("{workload}set = {{ {} = {value} }}", parameter.name));
            let files = files(folder.path(), &profile, parameter, value);
            let of_files = files.each_ref().map(|path| said(path, workload));
            let unit = match parameter.unit {
                Unit::Count => String::new(),
                unit => format!(" {unit}"),
            };
            let sentence = format!(
                "{} is {value}{unit}, but the measurements support {}{unit}",
                parameter.name, parameter.value
            );
            for (way, (sentences, supports)) in of_files.iter().chain([&set]).enumerate() {
                let about: Vec<&String> = sentences.iter().filter(|s| s.contains(&parameter.name)).collect();
                assert_eq!(about, [&sentence], "{} by way {way}", profile.name);
                assert!(supports.iter().all(|support| support.median_error.is_none()), "{supports:?}");
            }
            let pages = files.iter().map(|path| page(&Profile::named_or_file(path).unwrap()));
            for (way, page) in pages.enumerate() {
                assert!(page.contains(&format!("\n- {sentence}\n")), "{} by way {way}: {page}", profile.name);
                assert!(!page.contains("| off |"), "{} by way {way}: {page}", profile.name);
            }
        }
    }
    assert!(tried >= 8, "{tried}");
}

#[test]
fn a_copy_with_the_same_values_keeps_the_accuracy() {
    const READ: &str = "verb = \"read\"\nsize = 64";
    let folder = tempfile::tempdir().unwrap();
    let errors = |profile: &str, rest: &str| {
        let (sentences, supports) = said(profile, rest);
        (sentences, supports.iter().map(|s| (s.median_error, s.largest_error)).collect::<Vec<_>>())
    };
    let original = errors("cib", READ);
    assert!(original.0.is_empty() && original.1.iter().all(|(median, _)| median.is_some()));
    let copy = text_of("cib").replacen("name = \"cib\"", "name = \"mine\"", 1);
    let based = "name = \"mine\"\ntitle = \"mine\"\nbase = \"cib\"\n";
    for (file, text) in [("copy.toml", copy.as_str()), ("based.toml", based)] {
        let path = folder.path().join(file);
        std::fs::write(&path, text).unwrap();
        assert_eq!(errors(&path.display().to_string(), READ), original, "{file}");
    }
    // A value that is set to the supported value changes nothing.
    let cib = Profile::named("cib").unwrap();
    let packet = cib.parameters.iter().find(|p| p.name == "rx.packet_ns").unwrap().value;
    assert_eq!(errors("cib", &format!("{READ}\nset = {{ rx.packet_ns = {packet} }}")), original);
}

/// In another host, parameters of the host are compared with the values of this host.
#[test]
fn values_that_were_changed_in_another_host_are_stated() {
    const MOVED: &str = "base = \"cib\"\nhost = \"e7520\"\n";
    const CHANGED: &str = "base = \"moved.toml\"\n[host]\nbuild_wqe_ns = { value = 1, basis = \"assumed\", \
                           reason = \"tried\", range = [0, 2] }\n";
    let folder = tempfile::tempdir().unwrap();
    for (file, text) in [("moved.toml", MOVED), ("changed.toml", CHANGED)] {
        std::fs::write(folder.path().join(file), format!("name = \"mine\"\ntitle = \"mine\"\n{text}"))
            .unwrap();
    }
    let own = Profile::named("e7520-t4").unwrap();
    let own = own.parameters.iter().find(|p| p.name == "host.build_wqe_ns").unwrap().value;
    let sentence = format!("host.build_wqe_ns is 1 ns, but e7520 has {own} ns");
    let about_it = |profile: &str, rest: &str| {
        let (mut sentences, supports) = said(profile, rest);
        assert!(supports.iter().all(|support| support.median_error.is_none()), "{profile}: {supports:?}");
        sentences.retain(|sentence| sentence.contains("host."));
        sentences
    };
    let path = |file: &str| folder.path().join(file).display().to_string();
    assert_eq!(about_it("cib", "host = \"e7520\"\nset = { host.build_wqe_ns = 1 }"), [sentence.as_str()]);
    assert_eq!(about_it(&path("changed.toml"), ""), [sentence.as_str()]);
    assert_eq!(about_it(&path("moved.toml"), ""), [""; 0]);
}

#[test]
fn a_value_that_was_set_without_measurements_is_stated() {
    let (sentences, _) = said("e7520-on-die", "set = { tx.send_ns = 7 }");
    let profile = Profile::named("e7520-on-die").unwrap();
    let own = profile.parameters.iter().find(|p| p.name == "tx.send_ns").unwrap().value;
    assert_eq!(
        sentences,
        [
            "profile e7520-on-die names no measurements behind its parameters".to_owned(),
            format!("tx.send_ns is set by you to 7 ns, instead of {own} ns")
        ]
    );
}

/// Without a record of the values, nothing tells whether they are the measured machine's.
#[test]
fn measurements_without_a_record_of_values_support_no_accuracy() {
    let text = text_of("cib");
    let (before, rest) = text.split_once("[measured.machine]").unwrap();
    let (_, after) = rest.split_once("# Written by").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cib.toml");
    std::fs::write(&path, format!("{before}# Written by{after}")).unwrap();
    let (sentences, supports) = said(&path.display().to_string(), "verb = \"read\"\nsize = 64");
    assert_eq!(
        sentences,
        ["profile cib does not record the values that its measurements support ([measured.machine])"]
    );
    assert!(supports.iter().all(|support| support.median_error.is_none()));
}
