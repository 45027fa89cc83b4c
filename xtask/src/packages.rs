//! Installs Debian packages that the emulated machine needs, and packages of programs that the tests run.

use crate::command::{Problem, Task, failed, find, lines, program, run};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Header of package libibverbs-dev.
const HEADER: &str = "/usr/include/infiniband/verbs.h";

/// Packages, each with a program that shows whether it is installed.
const PROGRAMS: [(&str, &str); 8] = [
    ("qemu-system-x86", "qemu-system-x86_64"),
    ("busybox-static", "busybox"),
    ("cpio", "cpio"),
    ("kmod", "modprobe"),
    ("iproute2", "ip"),
    ("iproute2", "rdma"),
    ("xz-utils", "xz"),
    ("dpkg", "dpkg"),
];

/// The Soft-RoCE driver of libibverbs. Package ibverbs-providers contains the driver and depends on
/// libibverbs.
pub(crate) fn rxe_driver() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.flatten().map(|entry| entry.path().join("libibverbs"));
    let files = folders.flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten());
    files.map(|file| file.path()).find(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("librxe-rdmav") && name.ends_with(".so")
    })
}

/// Packages of RDMA programs that run unmodified on the software NIC, and of tools that tests need. The
/// second name is a program that shows whether the package is installed.
const TESTED_PROGRAMS: [(&str, &str); 20] = [
    ("ibverbs-utils", "ibv_devinfo"),
    ("perftest", "ib_write_bw"),
    ("rdmacm-utils", "rping"),
    ("qperf", "qperf"),
    ("fio", "fio"),
    ("ucx-utils", "ucx_perftest"),
    ("openmpi-bin", "mpirun"),
    ("libfabric-bin", "fi_pingpong"),
    ("mpich", "mpiexec.hydra"),
    ("qemu-system-x86", "qemu-system-x86_64"),
    ("tgt", "tgtd"),
    ("libiscsi-bin", "iscsi-inq"),
    ("qemu-utils", "qemu-io"),
    ("util-linux", "setpriv"),
    ("bubblewrap", "bwrap"),
    ("valgrind", "valgrind"),
    ("python3", "python3"),
    ("tshark", "tshark"),
    ("parallel", "parallel"),
    ("mmdebstrap", "mmdebstrap"),
];

/// Packages without programs, each with a path that shows whether it is installed.
const FILES: [(&str, &str); 9] = [
    ("librdmacm-dev", "/usr/include/rdma/rdma_cma.h"),
    ("libibverbs-dev", HEADER),
    ("python3-mpi4py", "/usr/lib/python3/dist-packages/mpi4py"),
    ("python3-pyverbs", "/usr/lib/python3/dist-packages/pyverbs"),
    ("rdma-core", "/usr/share/doc/rdma-core/tests"),
    ("qemu-block-extra", "/usr/lib/x86_64-linux-gnu/qemu/block-iscsi.so"),
    ("libjemalloc2", "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"),
    ("libtcmalloc-minimal4", "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4"),
    ("libmimalloc2.0", "/usr/lib/x86_64-linux-gnu/libmimalloc.so.2"),
];

/// Packages that `cargo xtask peers` measures or needs, each with a program that shows whether it is
/// installed.
const MEASURED_PROGRAMS: [(&str, &str); 4] = [
    ("perftest", "ib_write_bw"),
    ("ucx-utils", "ucx_perftest"),
    ("openmpi-bin", "mpirun"),
    ("util-linux", "taskset"),
];

/// The package that counts instructions, with its program.
const COUNTING: [(&str, &str); 1] = [("valgrind", "valgrind")];

fn without_program(programs: &[(&'static str, &str)]) -> Vec<&'static str> {
    let absent = programs.iter().filter(|(_, program)| find(program).is_none());
    absent.map(|(package, _)| *package).collect()
}

/// Missing packages for the tests of real programs.
fn missing_tested_programs() -> Vec<&'static str> {
    let mut packages = without_program(&TESTED_PROGRAMS);
    let files = FILES.iter().filter(|(_, path)| !Path::new(path).exists());
    packages.extend(files.map(|(package, _)| *package));
    packages
}

/// Whether all packages for the tests of real programs are installed.
pub(crate) fn has_tested_programs() -> bool {
    missing_tested_programs().is_empty()
}

/// Missing packages for the emulated machine.
fn missing() -> Vec<&'static str> {
    let mut packages = without_program(&PROGRAMS);
    if rxe_driver().is_none() {
        packages.push("ibverbs-providers");
    }
    if !Path::new(HEADER).exists() {
        packages.push("libibverbs-dev");
    }
    packages.dedup();
    packages
}

fn is_root() -> bool {
    lines(Command::new("id").arg("-u")).is_ok_and(|lines| lines == ["0"])
}

/// Updates apt's package list. Only root can do that.
pub(crate) fn update() -> Task<()> {
    if is_root() {
        run(program("apt-get").args(["update", "-qq"]))
    } else {
        Err(Problem::Unavailable("only root can renew apt's list of packages".into()))
    }
}

/// Installs the missing packages for the emulated machine, if possible.
pub(crate) fn ensure() -> Task<()> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        let needs = "the emulated machine needs x86-64 Linux, whose programs it shares";
        return Err(Problem::Unavailable(needs.into()));
    }
    install(missing)
}

/// Installs the missing packages for the tests of real programs, if possible. Tests without their package are
/// skipped.
pub(crate) fn ensure_tested_programs() -> Task<()> {
    install(missing_tested_programs)
}

/// Installs the packages that `cargo xtask peers` needs, if possible.
pub(crate) fn ensure_measured_programs() -> Task<()> {
    install(|| without_program(&MEASURED_PROGRAMS))
}

/// Installs the package that counts instructions, if possible.
pub(crate) fn ensure_valgrind() -> Task<()> {
    install(|| without_program(&COUNTING))
}

/// The program that decides whether the installation of a package may start its services (invoke-rc.d(8)).
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// While it exists, installations start no service: tgt's service would take iSCSI's port. The file has no
/// effect any more if this process was killed before it removed the file.
struct NoStarts(bool);

impl NoStarts {
    fn begin() -> Task<NoStarts> {
        if Path::new(POLICY).exists() {
            return Ok(NoStarts(false));
        }
        let text =
            format!("#!/bin/sh\n# Of `cargo xtask`.\n[ ! -d /proc/{} ] || exit 101\n", std::process::id());
        let made = std::fs::write(POLICY, text)
            .and_then(|()| std::fs::set_permissions(POLICY, Permissions::from_mode(0o755)));
        made.map(|()| NoStarts(true)).map_err(|error| failed(POLICY, error))
    }
}

impl Drop for NoStarts {
    fn drop(&mut self) {
        if self.0 {
            let _ = std::fs::remove_file(POLICY);
        }
    }
}

fn install(missing: fn() -> Vec<&'static str>) -> Task<()> {
    let packages = missing();
    if packages.is_empty() {
        return Ok(());
    }
    let list = packages.join(" ");
    if !is_root() || find("apt-get").is_none() {
        return Err(Problem::Unavailable(format!(
            "packages are missing: apt-get install --no-install-recommends {list}"
        )));
    }
    println!("installing {list}");
    let unavailable =
        |_| Problem::Unavailable(format!("packages are missing and cannot be installed: {list}"));
    update().map_err(unavailable)?;
    let mut install = program("apt-get");
    install.env("DEBIAN_FRONTEND", "noninteractive");
    install.args(["install", "-y", "-qq", "--no-install-recommends"]).args(&packages);
    let starts = NoStarts::begin()?;
    run(&mut install).map_err(unavailable)?;
    drop(starts);
    match missing()[..] {
        [] => Ok(()),
        ref still => Err(Problem::Unavailable(format!("installed, but not found: {}", still.join(" ")))),
    }
}
