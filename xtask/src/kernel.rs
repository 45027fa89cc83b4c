//! Downloads and unpacks Debian's kernel and the modules for Soft-RoCE without installing them.

use crate::command::{Problem, Task, failed, lines, output, program, run};
use crate::packages::update;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Modules to load. Their dependencies are loaded before them.
const MODULES: [&str; 3] = ["crc32_generic", "rdma_rxe", "dummy"];

/// An unpacked kernel.
pub(crate) struct Kernel {
    /// The kernel as an ELF file, which qemu starts without a boot loader.
    pub(crate) vmlinux: PathBuf,
    /// Modules in load order.
    pub(crate) modules: Vec<PathBuf>,
}

/// The kernel package of this machine's Debian release. Debian's cloud kernel lacks Soft-RoCE.
fn package() -> Task<String> {
    let depends = lines(program("apt-cache").args(["depends", "linux-image-amd64"]))?;
    let mut names = depends.iter().filter_map(|line| line.trim().strip_prefix("Depends: "));
    let name = names.find(|name| name.starts_with("linux-image-"));
    name.map(str::to_owned).ok_or_else(|| failed("apt-cache", "linux-image-amd64 depends on no kernel"))
}

/// Returns the kernel in `cache`. If `cache` has none, downloads the current kernel first.
pub(crate) fn fetch(cache: &Path) -> Task<Kernel> {
    let home = cache.join("kernel");
    if !home.exists() {
        let work = cache.join("unpacking");
        // The first attempt fails if apt's package list is missing or outdated.
        let attempt = || package().and_then(|package| download(&package, &work));
        let archive = attempt().or_else(|_| update().and_then(|()| attempt()));
        let unavailable =
            |_| Problem::Unavailable("no kernel package can be downloaded (linux-image-amd64)".into());
        unpack(&archive.map_err(unavailable)?, &work)?;
        fs::rename(work.join("kernel"), &home).map_err(|error| failed(home.display(), error))?;
        fs::remove_dir_all(&work).map_err(|error| failed(work.display(), error))?;
    }
    let list = home.join("modules");
    let order = fs::read_to_string(&list).map_err(|error| failed(list.display(), error))?;
    Ok(Kernel { vmlinux: home.join("vmlinux"), modules: order.lines().map(|name| home.join(name)).collect() })
}

/// Downloads a package into the empty folder `work`. This needs no privileges.
fn download(package: &str, work: &Path) -> Task<PathBuf> {
    println!("downloading {package}");
    let _ = fs::remove_dir_all(work);
    fs::create_dir_all(work).map_err(|error| failed(work.display(), error))?;
    output(program("apt-get").args(["download", "-qq", package]).current_dir(work))?;
    only_entry(work, |name| name.ends_with(".deb"))
}

/// Puts `vmlinux`, the modules and their load order into `work/kernel`.
fn unpack(package: &Path, work: &Path) -> Task<()> {
    let (tree, kernel) = (work.join("tree"), work.join("kernel"));
    for folder in [&tree, &kernel] {
        fs::create_dir_all(folder).map_err(|error| failed(folder.display(), error))?;
    }
    run(program("dpkg").arg("-x").arg(package).arg(&tree))?;
    let compressed = only_entry(&tree.join("boot"), |name| name.starts_with("vmlinuz-"))?;
    decompress(&compressed, &kernel.join("vmlinux"))?;
    let mut order = String::new();
    for module in modules(&tree)? {
        let name = module.file_name().unwrap_or_default().to_string_lossy().into_owned();
        fs::copy(&module, kernel.join(&name)).map_err(|error| failed(module.display(), error))?;
        order += &format!("{name}\n");
    }
    fs::write(kernel.join("modules"), order).map_err(|error| failed("modules", error))
}

/// The first entry of a folder whose name satisfies `wanted`.
fn only_entry(folder: &Path, wanted: impl Fn(&str) -> bool) -> Task<PathBuf> {
    let entries = fs::read_dir(folder).map_err(|error| failed(folder.display(), error))?;
    let found = entries.flatten().find(|entry| wanted(&entry.file_name().to_string_lossy()));
    found
        .map(|entry| entry.path())
        .ok_or_else(|| failed(folder.display(), "does not hold what was unpacked there"))
}

/// The modules' files in load order.
fn modules(tree: &Path) -> Task<Vec<PathBuf>> {
    let version = only_entry(&tree.join("lib/modules"), |_| true)?;
    let version = version.file_name().unwrap_or_default();
    run(program("depmod").arg("-b").arg(tree).arg(version))?;
    let mut files = Vec::new();
    for module in MODULES {
        let mut modprobe = program("modprobe");
        modprobe.args(["-C", "/dev/null", "-d"]).arg(tree).arg("-S").arg(version);
        for line in lines(modprobe.args(["--show-depends", module]))? {
            let file =
                line.split_whitespace().nth(1).filter(|_| line.starts_with("insmod ")).map(PathBuf::from);
            files.extend(file.filter(|file| !files.contains(file)));
        }
    }
    Ok(files)
}

/// The compressed kernel within a bzImage. The kernel's Documentation/arch/x86/boot.rst defines the header.
/// The protected-mode code follows `setup_sects` + 1 sectors of set-up code. The payload starts
/// `payload_offset` bytes into the protected-mode code, and its last four bytes are the unpacked size.
fn payload(image: &[u8]) -> Option<&[u8]> {
    let number = |at: usize| Some(u32::from_le_bytes(*image.get(at..)?.first_chunk()?) as usize);
    let setup = (usize::from(*image.get(0x1f1)?) + 1) * 512;
    let (offset, length) = (number(0x248)?, number(0x24c)?);
    image.get(setup + offset..)?.get(..length.checked_sub(4)?)
}

fn decompress(image: &Path, vmlinux: &Path) -> Task<()> {
    let bytes = fs::read(image).map_err(|error| failed(image.display(), error))?;
    let payload = payload(&bytes).ok_or_else(|| failed(image.display(), "is not a kernel image"))?;
    let to = fs::File::create(vmlinux).map_err(|error| failed(vmlinux.display(), error))?;
    let mut xz = Command::new("xz");
    let mut child =
        xz.arg("-dc").stdin(Stdio::piped()).stdout(to).spawn().map_err(|error| failed("xz", error))?;
    let fed = child.stdin.take().map(|mut stdin| stdin.write_all(payload));
    let status = child.wait().map_err(|error| failed("xz", error))?;
    if status.success() && matches!(fed, Some(Ok(()))) {
        Ok(())
    } else {
        Err(failed(image.display(), format!("xz does not unpack it ({status})")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_payload_is_where_the_header_says() {
        let mut image = vec![0; 3 * 512 + 100];
        image[0x1f1] = 2;
        image[0x248..0x24c].copy_from_slice(&10_u32.to_le_bytes());
        image[0x24c..0x250].copy_from_slice(&9_u32.to_le_bytes());
        image[3 * 512 + 10..][..9].copy_from_slice(b"zzzzzSIZE");
        assert_eq!(payload(&image), Some(&b"zzzzz"[..]));
        assert_eq!(payload(&image[..3 * 512 + 12]), None);
        assert_eq!(payload(b"short"), None);
    }
}
