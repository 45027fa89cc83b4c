//! What a kernel would show of the device, as programs look for it.

use crate::common;
use doorbell_soft::launch::{Launch, Link};
use libc::{c_char, c_int, c_void};
use std::ffi::CStr;
use std::os::fd::{FromRawFd, OwnedFd};

/// What a shell prints that is launched so, and nothing on standard error.
fn said(launch: &Launch, script: &str) -> String {
    let command = common::command(launch, "/bin/sh".as_ref(), &["-ec", script]).spawn();
    let output = common::finish(command.expect("it starts"), script);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", common::text(&output));
    String::from_utf8(output.stdout).expect("text")
}

/// On the fabric without a name, as which its shell does not open the device.
fn unnamed(link: Link) -> Launch {
    Launch { fabric: None, ..common::launch(link) }
}

/// The folder stays: there must not be one for each name that somebody thinks of.
#[test]
fn fabrics_with_names_share_a_folder_without_addresses() {
    let script = "printenv DOORBELL_FOLDER
        test -c /dev/infiniband/uverbs0
        cat /sys/class/infiniband/doorbell0/ports/1/state
        test ! -e /sys/class/infiniband/doorbell0/ports/1/gids";
    let [one, other] = [(); 2].map(|()| said(&common::launch(Link::Ib), script));
    assert!(one.ends_with("\n4: ACTIVE\n"), "{one}");
    assert_eq!(one, other);
}

#[test]
fn a_shell_finds_device_files_and_attributes() {
    for (link, layer, gids) in [(Link::Ib, "InfiniBand", 1), (Link::Roce, "Ethernet", 4)] {
        let script = "
            test -c /dev/infiniband/uverbs0 -a -r /dev/infiniband/uverbs0 -a -w /dev/infiniband/uverbs0
            cat /sys/class/infiniband_verbs/uverbs0/ibdev
            cd /sys/class/infiniband/doorbell0/ports/1
            cat link_layer state phys_state rate gid_attrs/types/0
            ls gids | wc -l
            ls -l /dev/infiniband > /dev/null";
        let expected =
            format!("doorbell0\n{layer}\n4: ACTIVE\n5: LinkUp\n100 Gb/sec (4X EDR)\nIB/RoCE v1\n{gids}\n");
        assert_eq!(said(&unnamed(link), script), expected);
    }
    let interface =
        "cat /sys/class/net/$(cat /sys/class/infiniband/doorbell0/ports/1/gid_attrs/ndevs/3)/ifindex";
    assert_eq!(said(&unnamed(Link::Roce), interface), "1\n", "GIDs are of an interface that is there");
}

#[test]
fn each_call_with_a_path_is_led() {
    let mut command = common::own_program(&common::launch(Link::Ib), module_path!(), "");
    let output = common::finish(command.spawn().expect("it starts"), "calls");
    assert!(output.status.success(), "{}", common::text(&output));
}

const FILE: &CStr = c"/sys/class/infiniband/doorbell0/ports/1/state";
const DEVICE: &CStr = c"/dev/infiniband/uverbs0";
const FOLDER: &CStr = c"/sys/class/infiniband";
const NOTHING: &CStr = c"/sys/class/infiniband/doorbell1";

/// A function of the C library that not every one has for new programs.
fn old(name: &CStr) -> Option<extern "C" fn(c_int, *const c_char, *mut libc::stat) -> c_int> {
    // SAFETY: a name; functions of these names have this type.
    unsafe {
        let found = libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
        (!found.is_null()).then(|| std::mem::transmute(found))
    }
}

#[test]
#[ignore = "a program that a test runs"]
fn program() {
    let errno = || std::io::Error::last_os_error().raw_os_error();
    // SAFETY: strings, and structs that the calls fill.
    unsafe {
        let mut about: libc::stat = std::mem::zeroed();
        for open in [libc::open(FILE.as_ptr(), 0), libc::openat(libc::AT_FDCWD, FILE.as_ptr(), 0)] {
            let file = OwnedFd::from_raw_fd(open);
            let mut text = [0u8; 16];
            assert_eq!(libc::read(open, text.as_mut_ptr().cast::<c_void>(), 16), 10);
            assert_eq!(&text[..10], b"4: ACTIVE\n");
            drop(file);
        }
        assert_eq!((libc::open(NOTHING.as_ptr(), 0), errno()), (-1, Some(libc::ENOENT)));
        assert_eq!(libc::access(DEVICE.as_ptr(), libc::R_OK | libc::W_OK), 0);
        assert_eq!(libc::faccessat(libc::AT_FDCWD, DEVICE.as_ptr(), libc::R_OK, 0), 0);
        let is_device = |about: &libc::stat| about.st_mode & libc::S_IFMT == libc::S_IFCHR;
        assert_eq!(libc::stat(DEVICE.as_ptr(), &mut about), 0);
        assert!(is_device(&about));
        assert_eq!(libc::fstatat(libc::AT_FDCWD, DEVICE.as_ptr(), &mut about, 0), 0);
        assert!(is_device(&about));
        if let Some(xstat) = old(c"__xstat") {
            assert_eq!(xstat(1, DEVICE.as_ptr(), &mut about), 0);
            assert!(is_device(&about));
        }
        assert_eq!((libc::lstat(NOTHING.as_ptr(), &mut about), errno()), (-1, Some(libc::ENOENT)));
        let opened = libc::open(DEVICE.as_ptr(), libc::O_RDWR);
        assert_eq!(libc::fstat(opened, &mut about), 0);
        assert!(is_device(&about), "as an open file, too");
        libc::close(opened);
        let folder = libc::opendir(FOLDER.as_ptr());
        assert!(!folder.is_null());
        libc::closedir(folder);
        let file = libc::fopen(FILE.as_ptr(), c"r".as_ptr());
        assert!(!file.is_null());
        libc::fclose(file);
        let path = libc::realpath(FILE.as_ptr(), std::ptr::null_mut());
        assert!(!path.is_null());
        libc::free(path.cast());
        let mut to = [0; 64];
        let length = libc::readlink(DEVICE.as_ptr(), to.as_mut_ptr(), to.len());
        assert!(length > 0 && libc::readlink(FILE.as_ptr(), to.as_mut_ptr(), to.len()) == -1);
        // Whether there are huge pages or not.
        let segment = libc::shmget(libc::IPC_PRIVATE, 4096, libc::SHM_HUGETLB | libc::IPC_CREAT | 0o600);
        assert!(segment >= 0, "{:?}", errno());
        assert_eq!(libc::shmctl(segment, libc::IPC_RMID, std::ptr::null_mut()), 0);
        // What is no string is the kernel's to refuse.
        assert_eq!((libc::open(std::ptr::null(), 0), errno()), (-1, Some(libc::EFAULT)));
    }
}
