//! The page about kernel TCP documents its parameters.

use doorbell_nic::{Profile, Unit};
use std::path::Path;

#[test]
fn the_page_about_tcp_lists_each_parameter() {
    let profile = Profile::named("e7520-t4").expect("a built-in profile");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/notes/tcp.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    let rows = profile.parameters.iter().filter_map(|p| {
        let key = p.name.strip_prefix("tcp.")?;
        let value = match p.unit {
            Unit::Flag => (p.value != 0.0).to_string(),
            _ => p.value.to_string(),
        };
        Some(format!("| `{key}` | {value} | {} |", p.note()))
    });
    let missing: Vec<String> = rows.filter(|row| !page.contains(row)).collect();
    assert!(missing.is_empty(), "docs/notes/tcp.md has not these rows:\n{}", missing.join("\n"));
}

#[test]
fn a_profile_has_tcp_from_its_base() {
    assert_eq!(Profile::named("cib").expect("a built-in profile").tcp, None);
    let text = "name = \"x\"\ntitle = \"x\"\nbase = \"e7520-t4\"\n[tcp]\n\
                mtu_bytes = { value = 9000, basis = \"assumed\", reason = \"jumbo\", alternative = \"1500\" }\n";
    let tcp = Profile::parse("x", text).expect("a profile").tcp.expect("TCP");
    let base = Profile::named("e7520-t4").expect("a built-in profile").tcp.expect("TCP");
    assert_eq!(tcp, doorbell_nic::Tcp { mtu: 9000, ..base });
    let unknown = text.replace("mtu_bytes", "mtu");
    let why = Profile::parse("x", &unknown).expect_err("no such key").to_string();
    assert_eq!(why, "x:5: tcp.mtu is not a parameter of a profile");
}
