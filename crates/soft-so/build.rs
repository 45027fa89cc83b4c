//! Passes the library's soname and the versions of its symbols to the linker.

use std::path::Path;

/// The public version nodes, oldest first. Each depends on the node before it.
const PUBLIC: [&str; 15] = [
    "IBVERBS_1.0",
    "IBVERBS_1.1",
    "IBVERBS_1.2",
    "IBVERBS_1.3",
    "IBVERBS_1.4",
    "IBVERBS_1.5",
    "IBVERBS_1.6",
    "IBVERBS_1.7",
    "IBVERBS_1.8",
    "IBVERBS_1.9",
    "IBVERBS_1.10",
    "IBVERBS_1.11",
    "IBVERBS_1.12",
    "IBVERBS_1.13",
    "IBVERBS_1.14",
];
/// The private version nodes of rdma-core 36 to 56, 57 to 58, 59 to 63, and 64. A program or driver is bound
/// to the node of the rdma-core that it was built with.
const PRIVATE: [&str; 4] =
    ["IBVERBS_PRIVATE_34", "IBVERBS_PRIVATE_57", "IBVERBS_PRIVATE_59", "IBVERBS_PRIVATE_64"];

fn main() {
    let mut map = String::new();
    let mut before = String::new();
    for node in PUBLIC {
        map.push_str(&format!("{node} {{}}{before};\n"));
        before = format!(" {node}");
    }
    for node in PRIVATE {
        map.push_str(&format!("{node} {{}};\n"));
    }
    let Some(out) = std::env::var_os("OUT_DIR") else { return };
    let path = Path::new(&out).join("libibverbs.map");
    if let Err(error) = std::fs::write(&path, map) {
        println!("cargo::error=cannot write {}: {error}", path.display());
    }
    println!("cargo::rustc-cdylib-link-arg=-Wl,--version-script={}", path.display());
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libibverbs.so.1");
    // LLD, Rust's default linker, accepts a second version script. Other linkers refuse it.
    println!("cargo::rustc-cdylib-link-arg=-fuse-ld=lld");
    println!("cargo::rerun-if-changed=build.rs");
}
