//! No text panics, and each import reads back equal.

use crate::perftest::{LOGS, about};
use doorbell_series::MeasuredUnit;
use doorbell_series::SeriesFile;
use doorbell_series::import::{About, CsvColumn, CsvLayout, MachineFacts, NamedText, csv, perftest};
use proptest::collection::vec;
use proptest::prelude::*;

/// The lines of all logs.
fn lines() -> Vec<&'static str> {
    LOGS.iter().flat_map(|log| log.text.lines()).collect()
}

/// A line of a log, perhaps with a part replaced, or any text.
fn line() -> impl Strategy<Value = String> {
    let lines = lines();
    let whole = proptest::sample::select(lines.clone()).prop_map(str::to_owned);
    let changed = (proptest::sample::select(lines), 0_usize..90, "\\PC{0,8}").prop_map(|(line, at, new)| {
        let (before, after) = (line.chars().take(at), line.chars().skip(at + new.chars().count()));
        before.chain(new.chars()).chain(after).collect()
    });
    prop_oneof![8 => whole, 4 => changed, 1 => "\\PC{0,40}", 1 => " [0-9. ]{0,40}"]
}

/// An import that succeeds reads back equal.
fn reads_back(text: &str) {
    if let Ok(imported) = perftest(&[NamedText { name: "a.log", text }], &about()) {
        let written = imported.file.to_toml();
        let read = SeriesFile::parse("m.toml", &written).unwrap_or_else(|error| panic!("{error}\n{written}"));
        assert_eq!(read, imported.file);
    }
}

proptest! {
    #[test]
    fn no_log_panics(lines in vec(line(), 0..60)) {
        reads_back(&lines.join("\n"));
    }

    #[test]
    fn no_changed_log_panics(at in 0_usize..LOGS.len(), line in 0_usize..300, new in line()) {
        let log: Vec<&str> = LOGS[at].text.lines().collect();
        let line = line % log.len();
        let text: Vec<&str> = log.iter().enumerate().map(|(n, old)| if n == line { &*new } else { *old }).collect();
        reads_back(&text.join("\n"));
    }

    #[test]
    fn no_cut_log_panics(at in 0_usize..LOGS.len(), end in 0_usize..20_000) {
        let text = LOGS[at].text;
        reads_back(&text.chars().take(end % text.len()).collect::<String>());
    }

    #[test]
    fn no_output_of_a_tool_panics(text in "(\\PC{0,30}|hca_id: a|vendor_part_id: [0-9]{0,12}|active_width: [0-9]{0,3}X|active_speed: \\PC{0,5}Gbps|0[0-9a-f]:00.0 (Ethernet|Infiniband) controller: Mellanox \\[\\PC{0,5}\\]\\]?|LnkSta: Speed [0-9.]{0,4}GT/s, Width x[0-9]{0,12}|Model name: \\PC{0,9}|\n){0,30}") {
        let mut about = About::of(MachineFacts::default());
        let file = NamedText { name: "t", text: &text };
        let _ = (about.add_devinfo(file), about.add_lspci(file), about.add_lscpu(file));
        let _ = perftest(&[LOGS[0]], &about);
    }

    #[test]
    fn no_file_of_values_panics(text in "[a-c0-9,;\"\n .-]{0,80}", key in "[a-z_]{1,9}", separator: u8) {
        let column = |title: &str, key: &str| CsvColumn { title: title.into(), key: key.into() };
        let workload = r#"verb = "read", transport = "rc", metric = "rate", axis = "size""#;
        let layout = CsvLayout {
            columns: vec![column("a", "size"), column("b", "value"), column("c", &key)],
            workload: CsvLayout::workload(workload).unwrap(),
            unit: MeasuredUnit::Nanoseconds,
            separator,
        };
        if let Ok(imported) = csv(NamedText { name: "a.csv", text: &format!("a,b,c\n{text}") }, &layout, &about()) {
            prop_assert_eq!(SeriesFile::parse("m.toml", &imported.file.to_toml()).unwrap(), imported.file);
        }
    }

    #[test]
    fn no_workload_panics(text in "\\PC{0,40}") {
        let _ = CsvLayout::workload(&text);
    }
}
