//! Python wheels that are run on the software NIC, of versions that were tried: into `target/wheels`, where their tests look.

use crate::command::{Problem, Task, program, run};
use crate::root;

const WHEELS: [&str; 2] = ["nixl-cu12==1.5.1", "mooncake-transfer-engine-non-cuda==0.3.13.post1"];

/// Gets them by pip, without what they need besides, for the Python of the tests.
pub(crate) fn install() -> Task<()> {
    let mut pip = program("python3");
    pip.args([
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--upgrade",
        "--only-binary=:all:",
        "--python-version",
        "3.11",
    ]);
    pip.arg("--target").arg(root().join("target/wheels")).args(WHEELS);
    run(&mut pip)
        .map_err(|_| Problem::Unavailable("pip for Python 3 is needed, and PyPI (python3-pip)".into()))
}
