//! Regenerates every generated file: pages, tables, schemas and pictures that tests compare with the code.

use crate::command::{Task, run};
use crate::test::{CheckStep, cargo, run_steps};
use crate::{packages, wheels};
use std::process::ExitCode;

/// Environment variable that makes tests write their generated files instead of comparing them.
const VARIABLE: &str = "DOORBELL_BLESS";

/// Tests that write generated files.
struct Generator {
    writes: &'static str,
    package: &'static str,
    /// cargo's options that select the package's test program.
    program: &'static [&'static str],
    /// Prefix of the tests' names.
    tests: &'static str,
    /// The source file of the tests, relative to the workspace's root.
    #[cfg(test)]
    source: &'static str,
}

macro_rules! generator {
    ($package:literal $program:expr, $tests:literal, $source:literal, $writes:literal) => {
        Generator {
            writes: $writes,
            package: $package,
            program: &$program,
            tests: $tests,
            #[cfg(test)]
            source: $source,
        }
    };
}

const GENERATORS: [Generator; 6] = [
    generator!("doorbell-lab"["--lib"], "support::", "crates/lab/src/support.rs", "data of profiles"),
    generator!("doorbell-cli"["--bins"], "schemas::", "crates/cli/src/schemas.rs", "JSON Schemas"),
    generator!("doorbell-cli" ["--test", "cli"], "docs::", "crates/cli/tests/cli/docs.rs", "tables of fields"),
    generator!("doorbell-cli" ["--test", "cli"], "pages::pages_show", "crates/cli/tests/cli/pages.rs", "output in pages"),
    generator!("doorbell-soft"["--lib"], "causes::", "crates/soft/src/causes.rs", "reasons of refused calls"),
    generator!("doorbell-soft-so" ["--test", "soft-so"], "stacks::page::", "crates/soft-so/tests/soft-so/stacks/page.rs", "programs that run"),
];

impl Generator {
    fn run(&self) -> Task<()> {
        if self.package == "doorbell-soft-so" {
            // The generated page contains versions of installed packages.
            packages::ensure_tested_programs()?;
            wheels::ensure()?;
        }
        let mut tests = cargo(&["test", "--quiet", "--package", self.package]);
        tests.args(self.program).args(["--", self.tests]).env(VARIABLE, "1");
        run(&mut tests)
    }
}

pub(crate) fn run_all() -> ExitCode {
    let runs: Vec<_> =
        GENERATORS.iter().map(|generator| (generator.writes, move || generator.run())).collect();
    run_steps(&runs.iter().map(|(name, run)| -> CheckStep<'_> { (name, run) }).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::root;
    use std::collections::BTreeSet;
    use std::path::Path;

    fn sources(folder: &Path, all: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).expect("it can be read").flatten() {
            let path = entry.path();
            if path.is_dir() {
                sources(&path, all);
            } else if std::fs::read_to_string(&path).is_ok_and(|text| text.contains(VARIABLE)) {
                let name = path.strip_prefix(root()).expect("it is in the repository");
                all.insert(name.to_string_lossy().into_owned());
            }
        }
    }

    #[test]
    fn every_test_that_writes_is_known() {
        let mut writing = BTreeSet::new();
        sources(&root().join("crates"), &mut writing);
        let known = GENERATORS.iter().map(|generator| generator.source.to_owned()).collect();
        assert_eq!(writing, known);
    }
}
