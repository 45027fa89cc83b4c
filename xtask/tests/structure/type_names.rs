//! Checks that grep finds a type by name: at most three modules of the workspace define types of an equal
//! name. Digits at the end of a name are ignored.

use crate::source::{self, Modules};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of modules that may define types of an equal name.
const MOST: usize = 3;

/// The names of the types that code defines, without associated types.
fn defined(code: &str) -> BTreeSet<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut all = BTreeSet::new();
    for line in code.lines() {
        let mut words = line
            .trim_start()
            .split([' ', '(', ')'])
            .filter(|word| !["", "pub", "crate", "super", "unsafe"].contains(word));
        let kind = words.next().unwrap_or_default();
        // An indented `type` is an associated type, not an item of the module.
        let is_item =
            ["struct", "enum", "trait", "union"].contains(&kind) || kind == "type" && !line.starts_with(' ');
        if is_item && let Some(name) = words.next() {
            all.insert(&name[..name.find(|c| !is_word(c)).unwrap_or(name.len())]);
        }
    }
    all
}

/// For each type name, the modules that define it.
fn modules_of_names(crates: &BTreeMap<String, Modules>) -> BTreeMap<&str, BTreeSet<String>> {
    let mut all: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for (name, modules) in crates {
        for (module, code) in modules {
            // In a macro, the name of a type may be a variable such as `$name`. Its name here is empty.
            for defined in defined(code).into_iter().filter(|name| !name.is_empty()) {
                let bare = defined.trim_end_matches(|c: char| c.is_ascii_digit());
                all.entry(bare).or_default().insert(format!("{name}/{}", module.replace("::", "/")));
            }
        }
    }
    all
}

#[test]
fn a_type_is_found_by_its_name() {
    let crates = source::crates();
    let names = modules_of_names(&crates);
    assert!(names.len() > 1000, "{} names are all that was found", names.len());
    let mut failures = String::new();
    for (name, modules) in names.iter().filter(|(_, modules)| modules.len() > MOST) {
        let modules = modules.iter().cloned().collect::<Vec<_>>().join(" ");
        failures += &format!("{name}: {modules}\n");
    }
    assert!(failures.is_empty(), "types of one name in more than {MOST} modules\n{failures}");
}

#[test]
fn definitions_are_found() {
    let code = "pub(crate) struct A<T>(T);\nenum B2 {\n    C,\n}\nimpl D for A {\n    type E = F;\n}\npub type G = H;\n    pub unsafe trait I: J {}\nfn k(structs: L) {}";
    assert_eq!(defined(code).into_iter().collect::<Vec<_>>(), ["A", "B2", "G", "I"]);
    let modules: Modules = [("a", "struct X;"), ("b", "enum X2 {}"), ("", "type X = Y;")]
        .map(|(m, t)| (m.to_owned(), t.to_owned()))
        .into();
    let crates = [("c".to_owned(), modules)].into();
    let names = modules_of_names(&crates);
    assert_eq!(
        names.into_iter().map(|(name, modules)| (name, modules.len())).collect::<Vec<_>>(),
        [("X", 3)]
    );
}
