//! Builds the file system of the emulated machine: busybox, the modules, the program and its libraries.

use crate::command::{Problem, Task, failed, find, output, program};
use crate::kernel::Kernel;
use crate::packages::rxe_driver;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;

const INIT: &str = include_str!("init.sh");

/// Path of the program in the machine.
const PROGRAM: &str = "/native-test";

/// Folder of the C programs in the machine.
const CALLS: &str = "/calls";

/// Builds the archive. The machine runs `binary` with `arguments`, and then each of `calls`.
pub(crate) fn build(
    kernel: &Kernel,
    binary: &Path,
    calls: &[PathBuf],
    arguments: &[&str],
    archive: &Path,
) -> Task<()> {
    let stage = archive.with_extension("files");
    let _ = fs::remove_dir_all(&stage);
    let mut shared = BTreeSet::new();
    for file in guest_programs()? {
        shared.extend(libraries(&file)?);
        shared.insert(file);
    }
    shared.extend(libraries(binary)?);
    shared.extend(driver_settings());
    for file in &shared {
        add(&stage, file, file)?;
    }
    add(&stage, binary, Path::new(PROGRAM))?;
    for program in calls {
        add(&stage, program, &Path::new(CALLS).join(program.file_name().unwrap_or_default()))?;
    }
    add(&stage, &find("busybox").ok_or_else(|| failed("busybox", "not found"))?, Path::new("/bin/busybox"))?;
    let mut order = String::new();
    for module in &kernel.modules {
        let name = module.file_name().unwrap_or_default();
        add(&stage, module, &Path::new("/modules").join(name))?;
        order += &format!("{}\n", name.to_string_lossy());
    }
    write(&stage, "modules/order", &order)?;
    write(&stage, "arguments", &arguments.iter().map(|a| format!("{a}\n")).collect::<String>())?;
    write(&stage, "init", INIT)?;
    executable(&stage.join("init"))?;
    pack(&stage, archive)
}

/// The machine's programs besides busybox and the tested program, and the driver that libibverbs loads.
fn guest_programs() -> Task<Vec<PathBuf>> {
    let programs = ["ip", "rdma"].map(find).into_iter().chain([rxe_driver()]);
    programs.collect::<Option<_>>().ok_or_else(|| Problem::Failed("ip, rdma or librxe is gone".into()))
}

/// The shared libraries of an ELF file and its dynamic loader, according to ldd.
fn libraries(file: &Path) -> Task<Vec<PathBuf>> {
    let text = output(program("ldd").arg(file))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok(text.split_whitespace().filter(|word| word.starts_with('/')).map(PathBuf::from).collect())
}

/// The file that makes libibverbs load the driver, if this machine has it.
fn driver_settings() -> Option<PathBuf> {
    Some(PathBuf::from("/etc/libibverbs.d/rxe.driver")).filter(|file| file.exists())
}

/// Copies a file to the path `place` in the machine.
fn add(stage: &Path, file: &Path, place: &Path) -> Task<()> {
    let to = stage.join(place.strip_prefix("/").unwrap_or(place));
    let copied = fs::create_dir_all(to.parent().unwrap_or(stage)).and_then(|()| fs::copy(file, &to));
    copied.map(drop).map_err(|error| failed(file.display(), error))
}

fn write(stage: &Path, place: &str, text: &str) -> Task<()> {
    fs::write(stage.join(place), text).map_err(|error| failed(place, error))
}

#[cfg(unix)]
fn executable(file: &Path) -> Task<()> {
    use std::os::unix::fs::PermissionsExt;
    let permissions = fs::Permissions::from_mode(0o755);
    fs::set_permissions(file, permissions).map_err(|error| failed(file.display(), error))
}

#[cfg(not(unix))]
fn executable(_file: &Path) -> Task<()> {
    Ok(())
}

/// Every file and folder below `folder`, relative to `root`. A folder comes before its contents.
fn walk(root: &Path, folder: &Path, names: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        names.extend(path.strip_prefix(root).map(Path::to_path_buf));
        if path.is_dir() {
            walk(root, &path, names)?;
        }
    }
    Ok(())
}

fn pack(stage: &Path, archive: &Path) -> Task<()> {
    let mut names = Vec::new();
    walk(stage, stage, &mut names).map_err(|error| failed(stage.display(), error))?;
    let list: String = names.iter().map(|name| format!("{}\n", name.display())).collect();
    let to = fs::File::create(archive).map_err(|error| failed(archive.display(), error))?;
    let mut cpio = program("cpio");
    cpio.args(["-o", "-H", "newc", "--quiet", "-R", "0:0"]).current_dir(stage);
    let mut child = cpio.stdin(Stdio::piped()).stdout(to).spawn().map_err(|error| failed("cpio", error))?;
    let fed = child.stdin.take().map(|mut stdin| stdin.write_all(list.as_bytes()));
    let status = child.wait().map_err(|error| failed("cpio", error))?;
    if status.success() && matches!(fed, Some(Ok(()))) { Ok(()) } else { Err(failed("cpio", status)) }
}
