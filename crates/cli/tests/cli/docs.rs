//! Tables of the docs that are generated from the code. `cargo xtask bless` rewrites them.

use doorbell_lab::{Schema, Workload};
use std::path::PathBuf;

/// Compares `table` with the table in `file`, or writes it to `file`. The table in the file lies between the
/// comment that starts with `begin` and the next end comment.
fn stands(file: &str, begin: &str, table: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    let text = std::fs::read_to_string(&path).unwrap();
    let begin = text.find(begin).unwrap_or_else(|| panic!("{file} has no `{begin}`"));
    let from = begin + text[begin..].find("-->\n").unwrap() + 4;
    let to = from + text[from..].find("<!-- end -->").unwrap();
    if std::env::var_os("DOORBELL_BLESS").is_some() {
        std::fs::write(&path, format!("{}{table}{}", &text[..from], &text[to..])).unwrap();
        return;
    }
    assert!(
        &text[from..to] == table,
        "{file} is not as the code has it (`cargo xtask bless` writes it): should be\n{table}"
    );
}

#[test]
fn fields() {
    let verbs = doorbell_schema::table(Workload::fields(), |_| String::new());
    stands("docs/interfaces.md", "<!-- fields of verbs", &verbs);
    let systems = doorbell_lab::system_fields().into_iter().map(|field| {
        let of = match field.key {
            "system" => "all".into(),
            "design" => doorbell_lab::designed().join(", "),
            key => doorbell_lab::systems_with(key).join(", "),
        };
        let usual = if field.usual.is_empty() {
            doorbell_lab::usual_of_systems(field.key)
        } else {
            field.usual.into()
        };
        (field, usual, of)
    });
    let mut table =
        String::from("| field | values | usual | flags | meaning | systems |\n|---|---|---|---|---|---|\n");
    for (field, usual, of) in systems {
        let row = doorbell_schema::table([field], |_| usual.clone());
        let of = if of.is_empty() { "all" } else { &of };
        table += &format!("{} {of} |\n", row.lines().last().unwrap());
    }
    stands("docs/interfaces.md", "<!-- fields of systems", &table);
}

#[test]
fn keys_of_measurements() {
    let row = |key: doorbell_series::KeyDescription| {
        let name = if key.required { format!("**`{}`**", key.key) } else { format!("`{}`", key.key) };
        format!("| {name} | {} | {} |\n", key.values, key.about.trim_end_matches('.'))
    };
    let rows: String = doorbell_series::described_keys().into_iter().map(row).collect();
    let table = format!("| key | values | meaning |\n|---|---|---|\n{rows}");
    stands("docs/check.md", "<!-- keys of a series", &table);
}
