//! Tests the device's files in sysfs and /dev, as programs access them.

use crate::common;
use crate::common::running::role;
use crate::common::verbs::Node;
use doorbell_launch::{Launch, Link};
use libc::{c_char, c_int, c_void};
use std::ffi::CStr;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{FromRawFd, OwnedFd};

/// Runs a shell script on the fabric and returns its output. Asserts that standard error is empty.
fn said(launch: &Launch, script: &str) -> String {
    let command = common::command(launch, "/bin/sh".as_ref(), &["-ec", script]).spawn();
    let output = common::finish(command.expect("it starts"), script);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", common::text(&output));
    String::from_utf8(output.stdout).expect("text")
}

/// The device's addresses that a shell on the fabric reads from files.
fn shown(launch: &Launch) -> String {
    said(launch, "cd /sys/class/infiniband/doorbell0; cat node_guid ports/1/lid ports/1/gids/0")
}

#[test]
fn each_fabric_shows_its_own_addresses() {
    for link in [Link::Ib, Link::Roce] {
        let [one, other] = [(); 2].map(|()| common::launch(link));
        assert_eq!(shown(&one), shown(&one), "whenever it is looked for");
        assert_ne!(shown(&one), shown(&other));
        for launch in [one, other] {
            let program =
                common::own_program(&launch, module_path!(), "addresses").spawn().expect("it starts");
            let output = common::finish(program, "addresses");
            assert!(output.status.success(), "{}", common::text(&output));
            assert!(
                !common::leaves_something(&launch.fabric.expect("it has a name")),
                "it goes with the fabric"
            );
        }
    }
}

/// A program's working directory among the device's files stays while the program runs. Meanwhile another
/// process begins another fabric, and so removes the files of dead fabrics.
#[test]
fn what_a_program_has_found_stays_while_it_runs() {
    let script = "cd /sys/class/infiniband/doorbell0; cat node_guid; read line; cat node_guid";
    let mut command = common::command(&common::launch(Link::Ib), "/bin/sh".as_ref(), &["-ec", script]);
    let mut shell = command.stdin(std::process::Stdio::piped()).spawn().expect("it starts");
    let mut says = BufReader::new(shell.stdout.take().expect("it is piped")).lines().map_while(Result::ok);
    let guid = says.next().expect("it says it");
    let other = common::own_program(&common::launch(Link::Ib), module_path!(), "addresses").output();
    assert!(other.expect("it runs").status.success());
    shell.stdin.take().expect("it is piped").write_all(b"go on\n").expect("it reads");
    assert_eq!(says.next(), Some(guid));
    assert!(shell.wait().expect("it ends").success());
}

/// The folder of the files stays for a second process when its creator exits by exit(3). cat(1) exits by
/// exit(3), but a shell does not.
#[test]
fn who_finds_what_another_has_made_keeps_it() {
    let launch = common::launch(Link::Ib);
    let begin = |program: &str, arguments: &[&str]| {
        let mut command = common::command(&launch, program.as_ref(), arguments);
        let mut child = command.stdin(std::process::Stdio::piped()).spawn().expect("it starts");
        let mut said = String::new();
        let output = child.stdout.take().expect("it is piped");
        BufReader::new(output).read_line(&mut said).expect("it says something");
        assert!(!said.is_empty());
        child
    };
    let mut made = begin("/bin/cat", &["/sys/class/infiniband/doorbell0/node_guid", "-"]);
    let script = "cd /sys/class/infiniband/doorbell0; echo found; read line; test -e node_guid";
    let mut found = begin("/bin/sh", &["-ec", script]);
    drop(made.stdin.take());
    assert!(made.wait().expect("it ends").success());
    found.stdin.take().expect("it is piped").write_all(b"go on\n").expect("it reads");
    assert!(found.wait().expect("it ends").success());
}

/// A process that only reads the device's files, and never opens the device, leaves nothing behind.
#[test]
fn who_only_looks_leaves_nothing() {
    let launch = common::launch(Link::Ib);
    let command = common::command(&launch, "/bin/ls".as_ref(), &["/sys/class/infiniband"]).spawn();
    let output = common::finish(command.expect("it starts"), "ls");
    assert_eq!(common::text(&output), "doorbell0\n");
    assert!(!common::leaves_something(&launch.fabric.expect("it has a name")));
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
            cat ../../device/numa_node /sys/class/infiniband_verbs/uverbs0/device/numa_node
            stat -c %a rate
            ls -l /dev/infiniband > /dev/null";
        let expected = format!(
            "doorbell0\n{layer}\n4: ACTIVE\n5: LinkUp\n100 Gb/sec (4X EDR)\nIB/RoCE v1\n{gids}\n-1\n-1\n444\n"
        );
        assert_eq!(said(&common::launch(link), script), expected);
    }
    let interface =
        "cat /sys/class/net/$(cat /sys/class/infiniband/doorbell0/ports/1/gid_attrs/ndevs/3)/ifindex";
    assert_eq!(said(&common::launch(Link::Roce), interface), "1\n", "GIDs are of an interface that is there");
}

#[test]
fn each_call_with_a_path_is_led() {
    let mut command = common::own_program(&common::launch(Link::Ib), module_path!(), "calls");
    let output = common::finish(command.spawn().expect("it starts"), "calls");
    assert!(output.status.success(), "{}", common::text(&output));
}

const FILE: &CStr = c"/sys/class/infiniband/doorbell0/ports/1/state";
const DEVICE: &CStr = c"/dev/infiniband/uverbs0";
const FOLDER: &CStr = c"/sys/class/infiniband";
const NOTHING: &CStr = c"/sys/class/infiniband/doorbell1";

/// Looks up an old function of the C library. Returns `None` if the C library does not offer it to new
/// programs.
fn old(name: &CStr) -> Option<extern "C" fn(c_int, *const c_char, *mut libc::stat) -> c_int> {
    // SAFETY: the name is a C string. Functions of these names have this type.
    unsafe {
        let found = libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
        (!found.is_null()).then(|| std::mem::transmute(found))
    }
}

#[test]
#[ignore = "a program that a test runs"]
fn program() {
    match role().as_str() {
        "calls" => calls(),
        _ => addresses(),
    }
}

/// Checks that the files show the addresses that the device reports. If the files are removed, the first
/// thread that reads one creates all of them again.
fn addresses() {
    let node = Node::open(64, 1);
    let gid: Vec<String> = node.gid(0).raw.chunks(2).map(|w| format!("{:02x}{:02x}", w[0], w[1])).collect();
    let read = || std::fs::read_to_string("/sys/class/infiniband/doorbell0/ports/1/gids/0");
    assert_eq!(read().expect("it is there").trim(), gid.join(":"));
    let real = std::fs::canonicalize("/sys/class/infiniband/doorbell0/ports/1/gids/0").expect("it is a file");
    let folder = real.ancestors().nth(8).expect("it is in the fabric's folder");
    for _ in 0..20 {
        std::fs::remove_dir_all(folder).expect("it can be removed");
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(read().expect("it is made again").trim(), gid.join(":")));
            }
        });
    }
}

fn calls() {
    let errno = || std::io::Error::last_os_error().raw_os_error();
    // SAFETY: the arguments are C strings, and structs that the calls fill in.
    unsafe {
        let mut about: libc::stat = std::mem::zeroed();
        // The first call creates the files and leaves errno unchanged.
        *libc::__errno_location() = 77;
        assert_eq!((libc::stat(DEVICE.as_ptr(), &mut about), errno()), (0, Some(77)));
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
        // The call succeeds with and without huge pages.
        let segment = libc::shmget(libc::IPC_PRIVATE, 4096, libc::SHM_HUGETLB | libc::IPC_CREAT | 0o600);
        assert!(segment >= 0, "{:?}", errno());
        assert_eq!(libc::shmctl(segment, libc::IPC_RMID, std::ptr::null_mut()), 0);
        // The library passes a null path to the kernel, which refuses it.
        assert_eq!((libc::open(std::ptr::null(), 0), errno()), (-1, Some(libc::EFAULT)));
    }
}
