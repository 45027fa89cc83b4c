//! Checks, before a program runs, whether the library can be preloaded into it. The check reads the program's
//! file.
//!
//! glibc's loader loads the library because `LD_PRELOAD` names it. Two kinds of programs would silently run
//! without the device: programs without this loader, and programs with set-user-ID or similar rights, for
//! which the loader ignores `LD_PRELOAD`. Programs that the program itself starts cannot be checked.

use object::elf::{self, FileHeader32, FileHeader64, Machine};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadCache, ReadCacheRange, ReadRef};
use rustix::fs::{StatVfsMountFlags, getxattr, statvfs};
use rustix::process::{getgid, getuid};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The reason why the library cannot be preloaded into a program.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unserved {
    /// The program has no loader.
    #[error(
        "it is linked statically, so no loader can preload the library; link it dynamically with glibc (a Go \
         program: with cgo)"
    )]
    Static,
    /// The program has the loader of another C library.
    #[error(
        "its loader is {0}, but the library needs glibc's loader, ld-linux; build the program for glibc (as \
         on Debian, Ubuntu and Fedora), not for musl"
    )]
    OtherLoader(String),
    /// The program is built for another processor architecture.
    #[error(
        "it is built for {program}, but the library is built for {library}; build both for one \
         architecture"
    )]
    OtherMachine {
        /// The program's architecture.
        program: String,
        /// The library's architecture.
        library: String,
    },
    /// The program gets more rights than its user has, so the loader ignores `LD_PRELOAD`.
    #[error(
        "it has {0}, and the loader preloads no library of the user into such a program; run a copy without \
         {0}, or run Doorbell itself with these rights (sudo doorbell run PROGRAM)"
    )]
    Privileged(&'static str),
}

/// How many interpreters the kernel follows if interpreters of scripts are scripts themselves.
const NESTED: usize = 4;
/// The number of bytes of a script that the kernel reads to find the interpreter.
const FIRST_LINE: usize = 256;

/// The reason why the library cannot be preloaded into a program, and the file that the kernel would run. For
/// a script, this file is the interpreter. `None` if the library can be preloaded. Also `None` if the file
/// cannot be examined, because the kernel then reports the error.
pub(super) fn refusal(program: &OsStr, library: &Path) -> Option<(PathBuf, Unserved)> {
    let mut file = found(program)?;
    for _ in 0..NESTED {
        match interpreter(&file) {
            Some(next) => file = next,
            None => break,
        }
    }
    let why = looked_at(&file, library)?;
    Some((file, why))
}

/// The program's file, as execvp(3) finds it.
fn found(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(program.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    file.metadata().is_ok_and(|about| about.is_file() && about.mode() & 0o111 != 0)
}

/// The interpreter in a script's first line. If this is env(1), as in most scripts, returns the program that
/// env finds.
fn interpreter(script: &Path) -> Option<PathBuf> {
    let mut begin = Vec::new();
    File::open(script).ok()?.take(FIRST_LINE as u64).read_to_end(&mut begin).ok()?;
    let line = begin.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let mut words = line.split(|byte| b" \t".contains(byte)).filter(|word| !word.is_empty());
    let named = PathBuf::from(OsString::from_vec(words.next()?.to_vec()));
    let of_env = if named.ends_with("env") { words.find(|word| *word != b"-S") } else { None };
    // After options or variables of env, the result is env itself, because `PATH=...` changes the program
    // that env finds.
    let of_env = of_env.filter(|word| !word.starts_with(b"-") && !word.contains(&b'='));
    of_env.and_then(|word| found(OsStr::from_bytes(word))).or(Some(named))
}

/// The missing interpreter or loader of an existing program. If one is missing, execve(2) fails with ENOENT,
/// as if the program were missing.
pub(super) fn missing(program: &OsStr) -> Option<PathBuf> {
    let mut file = found(program)?;
    for _ in 0..NESTED {
        file.metadata().ok()?;
        file = interpreter(&file).or_else(|| Image::read(&file)?.loader)?;
        if file.metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            return Some(file);
        }
    }
    None
}

fn looked_at(file: &Path, library: &Path) -> Option<Unserved> {
    let about = file.metadata().ok().filter(Metadata::is_file)?;
    let program = Image::read(file)?;
    let library = Image::read(library)?;
    if (program.machine, program.is_64) != (library.machine, library.is_64) {
        return Some(Unserved::OtherMachine {
            program: program.architecture(),
            library: library.architecture(),
        });
    }
    if let Some(rights) = rights(file, &about) {
        return Some(Unserved::Privileged(rights));
    }
    match program.loader {
        Some(loader) if is_of_glibc(&loader) => None,
        Some(loader) => Some(Unserved::OtherLoader(loader.display().to_string())),
        // The file is the loader itself, which runs the program in its arguments.
        None if file.canonicalize().is_ok_and(|file| is_of_glibc(&file)) => None,
        None => Some(Unserved::Static),
    }
}

/// Whether the name of a loader is glibc's: `ld-linux-x86-64.so.2`, or in old versions the file `ld-2.31.so`.
fn is_of_glibc(loader: &Path) -> bool {
    let name = loader.file_name().unwrap_or_default().as_bytes();
    name.starts_with(b"ld-linux") || name.starts_with(b"ld-2.")
}

/// The header of an ELF file.
struct Image {
    machine: Machine,
    is_64: bool,
    loader: Option<PathBuf>,
}

impl Image {
    /// `None` if the file is not an ELF file, or cannot be read.
    fn read(path: &Path) -> Option<Image> {
        let cache = ReadCache::new(File::open(path).ok()?);
        let data = cache.range(0, cache.len().ok()?);
        Image::of::<FileHeader64<Endianness>>(data).or_else(|| Image::of::<FileHeader32<Endianness>>(data))
    }

    fn of<H: FileHeader<Endian = Endianness>>(data: ReadCacheRange<'_, File>) -> Option<Image> {
        let header = H::parse(data).ok()?;
        let endian = header.endian().ok()?;
        let segments = header.program_headers(endian, data).ok()?;
        let loader = segments.iter().find_map(|segment| segment.interpreter(endian, data).ok()?);
        Some(Image {
            machine: header.e_machine(endian),
            is_64: header.is_type_64(),
            loader: loader.map(|path| OsStr::from_bytes(path).into()),
        })
    }

    fn architecture(&self) -> String {
        match (self.machine, self.is_64) {
            (elf::EM_X86_64, true) => "x86-64".into(),
            (elf::EM_X86_64, false) => "x32".into(),
            (elf::EM_386, _) => "32-bit x86".into(),
            (elf::EM_AARCH64, _) => "AArch64".into(),
            (elf::EM_ARM, _) => "32-bit ARM".into(),
            (elf::EM_RISCV, _) => "RISC-V".into(),
            (elf::EM_PPC64, _) => "POWER".into(),
            (machine, _) => format!("ELF machine {}", machine.0),
        }
    }
}

/// The rights that the file gives to a process beyond the rights of its user. With such rights, ld.so(8) runs
/// in secure-execution mode.
fn rights(file: &Path, about: &Metadata) -> Option<&'static str> {
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    if statvfs(file).is_ok_and(|system| system.f_flag.contains(StatVfsMountFlags::NOSUID)) {
        return None;
    }
    // By libc, because rustix can set this flag but not read it. SAFETY: the call takes numbers.
    let may_gain = unsafe { libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) } == 0;
    let is_set = |bits: u32| may_gain && about.mode() & bits == bits;
    if is_set(libc::S_ISUID) && about.uid() != user {
        return Some("set-user-ID");
    }
    if is_set(libc::S_ISGID | libc::S_IXGRP) && about.gid() != group {
        return Some("set-group-ID");
    }
    let size = getxattr(file, "security.capability", &mut [0u8; 0]);
    (size.is_ok_and(|size| size > 0) && user != 0).then_some("file capabilities")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::process::Command;

    /// This test's own program: dynamic, with glibc, for this architecture.
    fn own() -> PathBuf {
        std::env::current_exe().expect("this test has a file")
    }

    /// Makes an executable file with these bytes.
    fn program(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, bytes).expect("it can be written");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("its mode can be set");
        path
    }

    fn why(program: &Path) -> Option<Unserved> {
        refusal(program.as_os_str(), &own()).map(|(_, why)| why)
    }

    /// This program with some bytes replaced.
    fn changed(old: &[u8], new: &[u8]) -> Vec<u8> {
        let mut bytes = std::fs::read(own()).expect("it can be read");
        let at = bytes.windows(old.len()).position(|part| part == old).expect("they are there");
        bytes[at..at + new.len()].copy_from_slice(new);
        bytes
    }

    #[test]
    fn programs_of_the_system_are_served() {
        for name in ["sh", "true", "env"] {
            assert_eq!(refusal(OsStr::new(name), &own()), None, "{name}");
        }
        assert_eq!(why(Path::new("/lib64/ld-linux-x86-64.so.2")), None);
        assert_eq!(refusal(OsStr::new("no-such-program"), &own()), None, "which is for the kernel to say");
    }

    #[test]
    fn loaders_and_architectures_that_are_not_ours_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let musl = program(
            folder.path(),
            "musl",
            &changed(b"/lib64/ld-linux-x86-64.so.2", b"/lib/ld-musl-x86_64.so.1\0\0\0"),
        );
        assert_eq!(why(&musl), Some(Unserved::OtherLoader("/lib/ld-musl-x86_64.so.1".into())));
        // The e_machine of an AArch64 program, and a program without PT_INTERP (3, then its flags).
        let mut other = std::fs::read(own()).expect("it can be read");
        other[18] = elf::EM_AARCH64.0 as u8;
        let other = why(&program(folder.path(), "other", &other)).expect("it cannot run");
        assert_eq!(other, Unserved::OtherMachine { program: "AArch64".into(), library: "x86-64".into() });
        let alone = program(folder.path(), "alone", &changed(&[3, 0, 0, 0, 4, 0, 0, 0], &[0; 8]));
        assert_eq!(why(&alone), Some(Unserved::Static));
        // Through a link, and through a script.
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&alone, &link).expect("a link");
        assert_eq!(why(&link), Some(Unserved::Static));
        for line in ["#! LINK -e", "#!/usr/bin/env LINK", "#!/usr/bin/env -S LINK -e"] {
            let line = line.replace("LINK", &link.display().to_string());
            let script = program(folder.path(), "script", format!("{line}\ntrue\n").as_bytes());
            assert_eq!(refusal(script.as_os_str(), &own()), Some((link.clone(), Unserved::Static)), "{line}");
        }
    }

    #[test]
    fn what_a_program_misses_is_found() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name);
        let script = |name: &str, line: &str| program(folder.path(), name, format!("{line}\n").as_bytes());
        let misses = |program: &Path| missing(program.as_os_str());
        let dos = script("dos", "#!/bin/sh\r");
        assert_eq!(misses(&dos), Some("/bin/sh\r".into()));
        assert_eq!(
            misses(&script("of-script", &format!("#!{} -e", dos.display()))),
            Some("/bin/sh\r".into())
        );
        let loader = changed(b"/lib64/ld-linux-x86-64.so.2", b"/lib65/ld-linux-x86-64.so.2");
        assert_eq!(
            misses(&program(folder.path(), "elf", &loader)),
            Some("/lib65/ld-linux-x86-64.so.2".into())
        );
        for whole in
            [script("whole", "#!/bin/sh"), script("env", "#!/usr/bin/env no-such"), own(), at("none")]
        {
            assert_eq!(misses(&whole), None, "{}", whole.display());
        }
    }

    #[test]
    fn whatever_the_file_is_the_kernel_may_judge_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let all = std::fs::read(own()).expect("it can be read");
        for bytes in [&b""[..], b"#!", b"#!\n", b"echo", b"\x7fELF", &all[..64], &all[..200]] {
            let file = program(folder.path(), "file", bytes);
            assert!(why(&file).is_none_or(|why| why == Unserved::Static), "{} bytes", bytes.len());
        }
        assert_eq!(why(folder.path()), None);
    }

    #[test]
    fn rights_beyond_the_users_are_named() {
        let folder = tempfile::tempdir_in(own().parent().expect("a folder")).expect("it can be written");
        let copy = program(folder.path(), "copy", &std::fs::read("/bin/true").expect("it can be read"));
        let with =
            |mode| std::fs::set_permissions(&copy, PermissionsExt::from_mode(mode)).expect("its owner may");
        with(0o6755);
        assert_eq!(why(&copy), None, "they are its user's own");
        if chown(&copy, Some(65534), Some(65534)).is_err() {
            return eprintln!("skipped: only root can give a file to another user");
        }
        for (mode, expected) in [(0o4755, Some("set-user-ID")), (0o2755, Some("set-group-ID")), (0o755, None)]
        {
            with(mode);
            assert_eq!(why(&copy), expected.map(Unserved::Privileged), "{mode:o}");
            // In exactly these cases the loader ignores the variable.
            let output = Command::new(&copy).env("LD_PRELOAD", "/no/library").output().expect("it runs");
            assert_eq!(output.stderr.is_empty(), expected.is_some(), "{mode:o}: {output:?}");
        }
    }
}
