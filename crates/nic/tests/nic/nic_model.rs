//! Models of NICs: their files, and profiles that name a model.

use doorbell_nic::{Basis, Generation, NicModel, Profile, ProfileError, ShownNic};

const CX5: &str = include_str!("../../../../profiles/nics/cx5.toml");
const CIB: &str = include_str!("../../../../profiles/cib.toml");

fn model(name: &str) -> NicModel {
    NicModel::named(name).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn models_have_the_ids_of_their_nics() {
    let ids = |name| {
        let model = model(name);
        assert_eq!((model.name.as_str(), model.generation), (name, Generation::Mlx5));
        (model.device_id.vendor_id, model.device_id.vendor_part_id, model.announced.year)
    };
    assert_eq!(NicModel::names().collect::<Vec<_>>(), ["cx5", "cx6", "cx7"]);
    let known = ["cx5", "cx6", "cx7"].map(ids);
    assert_eq!(known, [(0x2c9, 0x1017, 2016), (0x2c9, 0x101b, 2016), (0x2c9, 0x1021, 2021)]);
    assert_eq!(model("CX5"), model("cx5"));
    assert!(NicModel::named("cx9").unwrap_err().ends_with("there are cx5, cx6, cx7"));
}

#[test]
fn every_limit_has_a_source_or_is_assumed() {
    for name in NicModel::names() {
        let model = model(name);
        assert_eq!(model.parameters.len(), 8, "{name}");
        for limit in &model.parameters {
            match &limit.basis {
                Basis::Published { source } => assert!(source.contains("ibv_devinfo"), "{name}: {source}"),
                Basis::Assumed { range, .. } => assert!(range.is_some(), "{name}: {}", limit.name),
                other => panic!("{name}: {} is {other:?}", limit.name),
            }
        }
    }
    let assumed = |name| ShownNic::named_or_file(name).unwrap().assumed().count();
    assert_eq!(["cx5", "cx6", "cx7"].map(assumed), [1, 1, 8]);
}

#[test]
fn a_profile_has_the_ids_limits_and_year_of_its_model() {
    let text = "name = \"mine\"\ntitle = \"mine\"\nbase = \"cib\"\nmodel = \"cx5\"\n";
    let mine = Profile::parse("mine.toml", text).unwrap();
    let cx5 = model("cx5");
    assert_eq!(
        (mine.device_id.as_ref(), mine.announced.as_ref()),
        (Some(&cx5.device_id), Some(&cx5.announced))
    );
    let nic = &mine.device.nic;
    assert_eq!((nic.max_qp_wr, nic.max_inline, nic.max_sge), (32768, 828, 30));
    let base = |name: &str| mine.parameters.iter().find(|p| p.name == name).and_then(|p| p.base.clone());
    assert_eq!(base("nic.max_qp_wr").as_deref(), Some("cx5"));
    assert_eq!(base("nic.wqe_prefetch").as_deref(), Some("cib"));
    assert_eq!(mine.parameters.len(), Profile::named("cib").unwrap().parameters.len());
    let file = std::env::temp_dir().join(format!("doorbell-model-{}.toml", std::process::id()));
    std::fs::write(&file, text).unwrap();
    let shown = ShownNic::named_or_file(file.to_str().unwrap()).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert_eq!(shown.limits, cx5.limits);
    // A limit in the file itself counts more than the model's.
    let own = "[nic]\nmax_sge = { value = 3, basis = \"published\", source = \"mine\" }\n";
    assert_eq!(Profile::parse("mine.toml", &format!("{text}{own}")).unwrap().device.nic.max_sge, 3);
}

#[test]
fn a_profile_without_a_base_takes_its_limits_from_the_model() {
    let is_limit = |line: &str| {
        ["max_inline_bytes", "max_sge", "max_qp_wr", "max_cqe", "max_rd_atomic"]
            .iter()
            .any(|key| line.starts_with(&format!("{key} =")))
    };
    let given = ["device_id", "announced", "generation"];
    let without: String = CIB
        .lines()
        .take_while(|line| !line.starts_with("[measured]"))
        .filter(|line| !is_limit(line) && !given.iter().any(|key| line.starts_with(key)))
        .map(|line| format!("{line}\n"))
        .collect();
    let error = Profile::parse("mine.toml", &without).unwrap_err();
    assert!(error.to_string().contains("generation is missing"), "{error}");
    let with = without.replacen("title =", "model = \"cx6\"\ntitle =", 1);
    let mine = Profile::parse("mine.toml", &with).unwrap();
    assert_eq!(mine.device.nic.max_qp_wr, 32768);
}

#[test]
fn bad_models_are_refused_with_their_line() {
    let profile = |line: &str| {
        let text = format!("name = \"mine\"\ntitle = \"mine\"\nbase = \"cib\"\n{line}\n");
        Profile::parse("mine.toml", &text).unwrap_err().to_string()
    };
    assert_eq!(
        profile("model = \"cx9\""),
        "mine.toml:4: model: there is no model cx9 of a NIC; there are cx5, cx6, cx7"
    );
    let both = "announced = { year = 1999, source = \"me\" }\nmodel = \"cx5\"";
    assert!(profile(both).contains("leave out device_id and announced"), "{}", profile(both));
    for (line, bad, why) in [
        ("max_sge", "", "parameter nic.max_sge is missing"),
        ("max_srq_wr", "", "parameter device.max_srq_wr is missing"),
        (
            "max_dm_bytes",
            "max_dm = { value = 3, basis = \"published\", source = \"s\" }",
            "device.max_dm_bytes is missing",
        ),
        (
            "max_qp_wr",
            "max_qp_wr = { value = 70000, basis = \"published\", source = \"s\" }",
            "not within 1 to 65535",
        ),
        ("announced", "announced = { year = 2016 }", "missing field"),
        ("generation", "generation = \"mlx9\"", "unknown variant"),
    ] {
        let changed: String =
            CX5.lines().map(|l| format!("{}\n", if l.starts_with(line) { bad } else { l })).collect();
        let error = NicModel::parse("cx5.toml", &changed).unwrap_err().to_string();
        assert!(error.starts_with("cx5.toml:") && error.contains(why), "{line}: {error}");
    }
}

#[test]
fn a_model_without_a_profile_says_what_it_is_for() {
    let Err(ProfileError::NotFound(message)) = Profile::named("cx6") else {
        panic!("there is a profile cx6")
    };
    assert!(message.starts_with("there is no profile cx6 yet, only its ids and limits"), "{message}");
}
