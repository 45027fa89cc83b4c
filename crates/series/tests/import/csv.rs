//! Files of comma-separated values.

use doorbell_series::import::{About, CsvColumn, CsvLayout, MachineFacts, NamedText, csv};
use doorbell_series::{MeasuredUnit, MeasuredVerb, SeriesFile};

const WORKLOAD: &str = r#"verb = "read", transport = "rc", metric = "rate", axis = "window", threads = 1"#;

fn layout(columns: &[(&str, &str)]) -> CsvLayout {
    let column = |(title, key): &(&str, &str)| CsvColumn { title: (*title).into(), key: (*key).into() };
    CsvLayout {
        columns: columns.iter().map(column).collect(),
        workload: CsvLayout::workload(WORKLOAD).unwrap(),
        unit: MeasuredUnit::MopsPerSecond,
        separator: b',',
    }
}

fn about() -> About {
    About::of(MachineFacts { nic: Some("ConnectX-6".into()), ..MachineFacts::default() })
}

fn file(text: &str) -> NamedText<'_> {
    NamedText { name: "a.csv", text }
}

const COLUMNS: [(&str, &str); 3] = [("depth", "window"), ("Mops", "value"), ("p 99", "p99")];

#[test]
fn columns_become_keys() {
    let text = "depth, Mops,\"p 99\", unused\n1, 0.5, 2.5, x\n2, 1.0, 2.75, y\n";
    let imported = csv(file(text), &layout(&COLUMNS), &about()).unwrap();
    let series = &imported.file.series[0];
    assert_eq!((imported.file.series.len(), imported.notes.len()), (1, 0));
    assert_eq!(
        series.points.iter().map(|point| (point.x, point.value)).collect::<Vec<_>>(),
        [(1.0, 0.5), (2.0, 1.0)]
    );
    assert_eq!(series.columns["p99"], [2.5, 2.75]);
    let setup = &series.setup;
    assert_eq!(
        (setup.id.as_str(), setup.nic.as_str(), &setup.unit),
        ("mine-read-rate", "ConnectX-6", &MeasuredUnit::MopsPerSecond)
    );
    assert_eq!((&setup.workload.verb, setup.workload.threads), (&MeasuredVerb::Read, Some(1)));
    let text = imported.file.to_toml();
    assert_eq!(SeriesFile::parse("m.toml", &text).unwrap(), imported.file);
}

#[test]
fn rows_with_other_keys_are_other_series() {
    let text = "qps;depth;Mops\n1;1;0.5\n2;1;0.9\n1;2;1.0\n2;2;1.8\n";
    let mut layout = layout(&[("qps", "qps"), ("depth", "window"), ("Mops", "value")]);
    layout.separator = b';';
    let imported = csv(file(text), &layout, &about()).unwrap();
    let seen: Vec<_> = imported
        .file
        .series
        .iter()
        .map(|series| (series.setup.id.as_str(), series.setup.workload.qps, series.points[1].value))
        .collect();
    assert_eq!(seen, [("mine-read-rate", Some(1), 1.0), ("mine-read-rate-2", Some(2), 1.8)]);
}

#[test]
fn errors_name_the_line_and_the_remedy() {
    let error = |text: &str, columns: &[(&str, &str)]| {
        let error = csv(file(text), &layout(columns), &about()).unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
        error
    };
    let good = "depth,Mops,p 99\n1,0.5,2.5\n";
    for (text, columns, message) in [
        ("depth,Mops,p 99\n1,fast,2.5\n", &COLUMNS[..], "a.csv:2: \"fast\" in column Mops is not a number"),
        ("depth,Mops,p 99\n1,0.5,inf\n", &COLUMNS, "a.csv:2: \"inf\" in column p 99 is not a number"),
        ("depth,Mops,p 99\n1,0.5\n", &COLUMNS, "a.csv:2: the row has 2 cells, but the file has 3 titles"),
        ("depth,Mops,p 99\n", &COLUMNS, "a.csv:1: the file has titles, but no rows"),
        (
            good,
            &[("dept", "window"), ("Mops", "value")],
            "a.csv:1: there is no column dept; did you mean depth?",
        ),
        (
            good,
            &[("x", "window"), ("Mops", "value")],
            "a.csv:1: there is no column x; the columns are depth, Mops, p 99",
        ),
        (good, &[("depth", "window")], "a.csv:1: no column is the key value: give --column TITLE=value"),
        (good, &[("Mops", "value")], "a.csv:1: no column is the key window: give --column TITLE=window"),
        (
            good,
            &[("depth", "window"), ("Mops", "value"), ("p 99", "qps")],
            "a.csv:1: qps is 2.5, but must be a whole number",
        ),
        (
            good,
            &[("depth", "window"), ("Mops", "value"), ("depth", "verb")],
            "a.csv:1: invalid type: integer `1`, expected a string",
        ),
    ] {
        assert!(error(text, columns).starts_with(message), "{}", error(text, columns));
    }
    let unknown =
        csv(file(good), &layout(&COLUMNS), &About::of(MachineFacts::default())).unwrap_err().to_string();
    assert_eq!(unknown, "a.csv:1: the file does not name the NIC: give --nic, --devinfo or --lspci");
}

#[test]
fn workloads_are_tables_of_toml() {
    assert_eq!(CsvLayout::workload(WORKLOAD), CsvLayout::workload(&format!("{{ {WORKLOAD} }}")));
    for (text, message) in [
        ("verb = ", "\"verb = \" is not a table of TOML: "),
        ("verb = \"read\"", "missing field `transport`"),
        ("verbs = \"read\"", "unknown field `verbs`"),
        ("", "missing field `verb`"),
    ] {
        let error = CsvLayout::workload(text).unwrap_err();
        assert!(error.starts_with(message) && !error.contains('\n'), "{error}");
    }
}
