//! Tests the library file: its symbols and their versions, the glibc that it needs, and the conformance suite
//! on its device.

use crate::common::library;
use doorbell_conformance::{CheckResult, samples};
use doorbell_native::{NativeCluster, NativeDevice};
use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, Sym};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;

#[test]
fn programs_that_load_it_themselves_find_versioned_symbols() {
    let path = CString::new(library().as_os_str().as_bytes()).expect("the path has no zero");
    // SAFETY: the library's initialisers are a Rust cdylib's and this crate's own.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!handle.is_null(), "{} does not load", library().display());
    let symbols = [
        (c"ibv_get_device_list", c"IBVERBS_1.1"),
        (c"ibv_open_device", c"IBVERBS_1.1"),
        (c"ibv_reg_mr_iova2", c"IBVERBS_1.8"),
        (c"_ibv_query_gid_ex", c"IBVERBS_1.11"),
        (c"ibv_query_qp_data_in_order", c"IBVERBS_1.14"),
        (c"verbs_register_driver_34", c"IBVERBS_PRIVATE_34"),
        (c"verbs_allow_disassociate_destroy", c"IBVERBS_PRIVATE_34"),
    ];
    for (symbol, version) in symbols {
        // SAFETY: the library is open. Both names are C strings.
        let found = unsafe { libc::dlvsym(handle, symbol.as_ptr(), version.as_ptr()) };
        assert!(!found.is_null(), "{symbol:?} of {version:?}");
    }
    // SAFETY: the library is open. Both names are C strings.
    let wrong = unsafe { libc::dlvsym(handle, c"ibv_open_device".as_ptr(), c"IBVERBS_1.14".as_ptr()) };
    assert!(wrong.is_null(), "ibv_open_device has no version 1.14");
}

/// The oldest glibc version with which the library loads, as documented in docs/run.md.
const OLDEST_GLIBC: [u32; 2] = [2, 34];

/// All versions of glibc symbols to which the library is linked.
fn versions_of_glibc() -> Vec<[u32; 2]> {
    let bytes = std::fs::read(library()).expect("it can be read");
    let header = FileHeader64::<Endianness>::parse(&*bytes).expect("it is an ELF file");
    let endian = header.endian().expect("of one order");
    let sections = header.sections(endian, &*bytes).expect("with sections");
    let (mut needed, names) =
        sections.gnu_verneed(endian, &*bytes).expect("a table").expect("of what it needs");
    let names = sections.strings(endian, &*bytes, names).expect("with names");
    let mut all = Vec::new();
    while let Some((_, mut versions)) = needed.next().expect("a file that it needs") {
        while let Some(version) = versions.next().expect("a version of it") {
            let name = String::from_utf8_lossy(version.name(endian, names).expect("a name")).into_owned();
            let numbers = name.strip_prefix("GLIBC_").map(|numbers| numbers.splitn(3, '.').map(str::parse));
            all.extend(numbers.and_then(|mut parts| Some([parts.next()?.ok()?, parts.next()?.ok()?])));
        }
    }
    all
}

#[test]
fn it_asks_for_no_newer_glibc_than_the_docs_say() {
    let all = versions_of_glibc();
    assert!(all.len() > 5 && all.iter().all(|version| *version <= OLDEST_GLIBC), "{all:?}");
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/run.md");
    let docs = std::fs::read_to_string(docs).expect("it is there");
    let [major, minor] = OLDEST_GLIBC;
    assert!(docs.contains(&format!("glibc {major}.{minor}")), "docs/run.md says so");
}

/// Checks that the exported allocator functions are single jumps. The compiler could inline a function with a
/// body into the library's own calls (link-time optimisation). Those calls would then miss another allocator
/// that comes first.
#[test]
fn functions_of_the_allocator_are_jumps() {
    let bytes = std::fs::read(library()).expect("it can be read");
    let header = FileHeader64::<Endianness>::parse(&*bytes).expect("it is an ELF file");
    let endian = header.endian().expect("of one order");
    let sections = header.sections(endian, &*bytes).expect("with sections");
    let symbols = sections.symbols(endian, &*bytes, object::elf::SHT_DYNSYM).expect("with symbols");
    let mut allocator = vec![
        "memalign",
        "aligned_alloc",
        "posix_memalign",
        "valloc",
        "free",
        "realloc",
        "malloc_usable_size",
    ];
    for symbol in symbols.iter().filter(|symbol| !symbol.is_undefined(endian)) {
        let name = symbol.name(endian, symbols.strings()).expect("a name");
        let is_of_allocator = |known: &&str| known.as_bytes() == name;
        if let Some(at) = allocator.iter().position(is_of_allocator) {
            let name = allocator.swap_remove(at);
            assert!(symbol.st_size(endian) <= 5, "{name} has {} bytes", symbol.st_size(endian));
        }
    }
    assert_eq!(allocator, [""; 0], "not exported");
}

#[test]
fn conformance() {
    // SAFETY: the library is the one of this workspace.
    let device = unsafe { NativeDevice::open(Some(&library()), 0) }.expect("it has a device");
    let mut make = |machines| NativeCluster::new(&device, machines);
    let mut each = |result: &CheckResult| println!("{result}");
    let mut report = samples::run_all(&mut make, None, &mut each);
    report.checks.extend(doorbell_conformance::run(&mut make, None, &mut each).checks);
    assert!(report.failed().is_empty(), "{report}");
}
