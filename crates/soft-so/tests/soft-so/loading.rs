//! Tests programs that load a libibverbs themselves, as NCCL, Python wheels and other programs do. All of
//! them get this library. The tests are skipped without a C compiler.

use crate::common::{self, compile, installed, text};
use doorbell_launch::Link;
use std::path::Path;

/// A file name of libibverbs as in Python wheels.
const BUNDLED: &str = "libibverbs-1a2b3c4d.so.1.14.44.0";

/// Compiles a library with one function, whose symbol is in the version node `node`. The function reports 77
/// devices.
fn compile_libibverbs(folder: &Path, file: &str, soname: &str, node: &str, symbol: &str) {
    let map = folder.join("map");
    std::fs::write(&map, format!("{node} {{ global: {symbol}; local: *; }};")).expect("it can be written");
    let source = format!("void **{symbol}(int *count) {{ static void *none; *count = 77; return &none; }}");
    let soname = format!("-Wl,-soname,{soname}");
    compile(folder, file, &source, &["-shared", "-fPIC", "-Wl,--version-script=map", &soname]);
}

/// Runs a program on the software NIC. Returns its output, and whether it succeeded.
fn run(program: &Path, arguments: &[&str]) -> (String, bool) {
    let output = common::command(&common::launch(Link::Ib), program, arguments).output().expect("it runs");
    (text(&output), output.status.success())
}

/// A program that loads libraries in several ways, and prints the number of devices that each one reports.
const LOADS: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
static void say(const char *what, void *library, const char *symbol) {
    void **(*list)(int *) = library ? dlvsym(library, symbol, "IBVERBS_1.1") : 0;
    int count = -1;
    if (list) list(&count);
    printf("%s: %d\n", what, count);
}
int main(int many, char **paths) {
    say("name", dlopen("libibverbs.so.1", RTLD_NOW | RTLD_DEEPBIND), "ibv_get_device_list");
    say("other name", dlopen("libibverbs.so", RTLD_LAZY | RTLD_LOCAL), "ibv_get_device_list");
    for (int at = 1; at < many; at++)
        say("path", dlopen(paths[at], RTLD_NOW | RTLD_DEEPBIND), "ibv_get_device_list");
    void *plugin = dlopen("libplugin.so", RTLD_NOW | RTLD_LOCAL);
    int (*devices)(void) = plugin ? dlsym(plugin, "devices") : 0;
    printf("plugin: %d\n", devices ? devices() : -1);
    printf("nothing: %d\n", dlopen("libibverbs-none.so", RTLD_NOW) != 0);
    return 0;
}
"#;

#[test]
fn a_libibverbs_by_another_name_or_path_is_this_one() {
    if installed("cc").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    compile_libibverbs(folder, BUNDLED, BUNDLED, "IBVERBS_1.1", "ibv_get_device_list");
    std::fs::copy(folder.join(BUNDLED), folder.join("libibverbs.so.1")).expect("a copy");
    let plugin =
        "void **ibv_get_device_list(int *); int devices(void) { int n; ibv_get_device_list(&n); return n; }";
    let bundled = format!("-l:{BUNDLED}");
    let needs = ["-shared", "-fPIC", "-L.", &bundled, "-Wl,-rpath,$ORIGIN"];
    compile(folder, "libplugin.so", plugin, &needs);
    // The loader finds the plugin by the run path of dlopen(3)'s caller, which must still be the program.
    compile(folder, "loads", LOADS, &["-ldl", "-Wl,-rpath,$ORIGIN"]);
    let paths = [folder.join(BUNDLED), folder.join("libibverbs.so.1"), "/nonexistent/libibverbs.so".into()];
    let arguments = paths.each_ref().map(|path| path.to_str().expect("text"));
    let expected = "name: 1\nother name: 1\npath: 1\npath: 1\npath: 1\nplugin: 1\nnothing: 0\n";
    assert_eq!(run(&folder.join("loads"), &arguments), (expected.into(), true));
}

#[test]
fn private_symbols_are_in_each_node_and_one_that_is_missing_is_named() {
    if installed("cc").is_none() {
        return;
    }
    for (node, symbol, is_there) in [
        ("IBVERBS_PRIVATE_34", "verbs_register_driver_34", true),
        ("IBVERBS_PRIVATE_57", "ibv_cmd_alloc_pd", true),
        ("IBVERBS_PRIVATE_59", "verbs_register_driver_59", true),
        ("IBVERBS_PRIVATE_64", "ibv_cmd_create_cq_ex", true),
        ("IBVERBS_PRIVATE_99", "verbs_register_driver_99", false),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        compile_libibverbs(folder, "libibverbs.so", "libibverbs.so.1", node, symbol);
        let driver = format!("int {symbol}(); void *driver(void) {{ return {symbol}; }}");
        compile(folder, "libdriver.so", &driver, &["-shared", "-fPIC", "-L.", "-libverbs", "-Wl,-z,now"]);
        let program = "void *driver(void); int main(void) { return driver() == 0; }";
        let linked = ["-L.", "-ldriver", "-Wl,-rpath,$ORIGIN", "-Wl,--allow-shlib-undefined"];
        compile(folder, "program", program, &linked);
        let (said, is_well) = run(&folder.join("program"), &[]);
        assert_eq!(is_well, is_there, "{node}: {said}");
        assert!(is_there || said.contains("version `IBVERBS_PRIVATE_99' not found"), "{said}");
    }
}

#[test]
fn the_device_is_no_drivers() {
    let library = "/usr/lib/x86_64-linux-gnu/libmlx5.so.1";
    if installed("cc").is_none() || !Path::new(library).exists() {
        return eprintln!("skipped: libmlx5 is not installed");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let source = "#include <stdio.h>
        void **ibv_get_device_list(int *); _Bool mlx5dv_is_supported(void *);
        int main(void) { int n; void **list = ibv_get_device_list(&n); printf(\"%d %d\", n, mlx5dv_is_supported(list[0])); }";
    compile(folder.path(), "program", source, &[library, "-Wl,--no-as-needed", "-l:libibverbs.so.1"]);
    assert_eq!(run(&folder.path().join("program"), &[]), ("1 0".into(), true));
}
