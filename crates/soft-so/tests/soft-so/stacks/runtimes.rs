//! Runs programs with other runtimes that interpose functions of the C library: AddressSanitizer,
//! ThreadSanitizer and allocators. A runtime is linked to the program, or preloaded before the library, after
//! it or instead of it.

use crate::common::{INSTALLED, compile, finish, installed, launch, leaves_something, library, text};
use doorbell_launch::Link;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A program that calls functions of the C library that the library interposes.
const CALLS: &str = r#"
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#define CHECK(what) if (!(what)) return fprintf(stderr, "line %d: %s\n", __LINE__, #what), 1
static void *work(void *p) { return strdup(p); }
int main(void) {
    char room[64] = { 0 };
    struct stat about;
    int n = 0, file, cm, pipes[2];
    void *(*list)(int *) = dlsym(RTLD_DEFAULT, "ibv_get_device_list");
    void (*give)(void *) = dlsym(RTLD_DEFAULT, "ibv_free_device_list");
    void *(*open_device)(void *) = dlsym(RTLD_DEFAULT, "ibv_open_device");
    int (*close_device)(void *) = dlsym(RTLD_DEFAULT, "ibv_close_device");
    void *verbs = dlopen("libibverbs.so.1", RTLD_NOW);
    CHECK(verbs && list && dlsym(verbs, "ibv_open_device") == open_device);
    void **devices = list(&n), *context;
    CHECK(n == 1 && (context = open_device(devices[0])));
    give(devices);
    CHECK((file = open("/sys/class/infiniband/doorbell0/ports/1/state", O_RDONLY)) >= 0);
    CHECK(read(file, room, sizeof room) == 10 && !memcmp(room, "4: ACTIVE\n", 10));
    CHECK(!close(file) && close(file) == -1);
    CHECK(!stat("/dev/infiniband/rdma_cm", &about) && S_ISCHR(about.st_mode));
    DIR *folder = opendir("/dev/infiniband");
    CHECK(folder && readdir(folder) && !closedir(folder));
    FILE *stream = fopen("/sys/class/infiniband/doorbell0/node_type", "r");
    CHECK(stream && fgets(room, sizeof room, stream) && !fclose(stream));
    char *real = realpath("/sys/class/infiniband/doorbell0", 0);
    CHECK(real);
    free(real);
    CHECK((cm = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC)) >= 0);
    CHECK(!fstat(cm, &about) && S_ISCHR(about.st_mode) && write(cm, room, 3) == -1);
    int copy = dup(cm), other = fcntl(cm, F_DUPFD_CLOEXEC, 50);
    CHECK(copy >= 0 && other >= 50 && dup2(copy, other) == other);
    CHECK(!close(cm) && !close(copy) && !close(other));
    CHECK(!pipe(pipes) && write(pipes[1], "abc", 3) == 3 && read(pipes[0], room, 8) == 3);
    pthread_t thread;
    void *text;
    CHECK(!pthread_create(&thread, 0, work, "text") && !pthread_join(thread, &text));
    free(text);
    CHECK(!close_device(context));
    puts("served");
    if (getenv("OVERFLOW")) ((volatile char *)malloc(8))[7 + n] = 1;
    return 0;
}
"#;

/// Runs a program under the launcher. If `preloads` is not empty, it replaces LD_PRELOAD.
fn run(fabric: &str, program: &Path, preloads: &[&Path], overflows: bool) -> Output {
    let mut run = Command::new(library().with_file_name("doorbell"));
    run.args(["run", "--fabric", fabric, "--"]);
    if !preloads.is_empty() {
        let all: Vec<String> = preloads.iter().map(|path| path.display().to_string()).collect();
        run.args(["env", &format!("LD_PRELOAD={}", all.join(":"))]);
    }
    if overflows {
        run.env("OVERFLOW", "1");
    }
    run.arg(program).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(run.spawn().expect("it starts"), "a program under another runtime")
}

fn is_served(program: &Path, preloads: &[&Path]) {
    let fabric = launch(Link::Ib).fabric.unwrap_or_default();
    let output = run(&fabric, program, preloads, false);
    assert_eq!(text(&output), "served\n", "{preloads:?}");
    assert!(output.status.success() && !leaves_something(&fabric), "{preloads:?}: {}", output.status);
}

/// The path of a library that belongs to the compiler.
fn of_compiler(name: &str) -> PathBuf {
    let printed = Command::new("cc").arg(format!("-print-file-name={name}")).output().expect("it runs");
    let path = PathBuf::from(String::from_utf8_lossy(&printed.stdout).trim());
    path.canonicalize().expect("the compiler has it")
}

#[test]
fn sanitizers() {
    if installed("cc").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let made = |name: &str, arguments: &[&str]| {
        compile(folder.path(), name, CALLS, arguments);
        folder.path().join(name)
    };
    let sanitized = made("address", &["-fsanitize=address"]);
    is_served(&sanitized, &[]);
    // The program aborts at the overflow and leaves its fabric's files. The next fabric removes them.
    let found = run(&launch(Link::Ib).fabric.unwrap_or_default(), &sanitized, &[], true);
    assert!(text(&found).contains("heap-buffer-overflow") && !found.status.success(), "{}", text(&found));
    is_served(&made("static", &["-fsanitize=address", "-static-libasan"]), &[]);
    is_served(&made("thread", &["-fsanitize=thread"]), &[]);
    let (plain, runtime, own) = (made("plain", &[]), of_compiler("libasan.so"), library());
    is_served(&plain, &[&runtime, &own]);
    is_served(&plain, &[&own, &runtime]);
}

/// The file names of the allocators.
const ALLOCATORS: [&str; 3] = ["libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2"];

#[test]
fn allocators() {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    if installed("cc").is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    compile(folder.path(), "plain", CALLS, &[]);
    compile(folder.path(), "linked", CALLS, &["-Wl,--no-as-needed", "-libverbs"]);
    let (plain, linked, own) = (folder.path().join("plain"), folder.path().join("linked"), library());
    for name in ALLOCATORS {
        let Some(allocator) =
            folders.map(|folder| Path::new(folder).join(name)).into_iter().find(|path| path.exists())
        else {
            assert!(std::env::var_os(INSTALLED).is_none(), "{name} is not there, though its package is");
            eprintln!("skipped: {name} is not installed");
            continue;
        };
        is_served(&plain, &[&allocator, &own]);
        is_served(&plain, &[&own, &allocator]);
        // LD_PRELOAD has only the allocator. The loader finds the library because the program is linked to
        // it.
        is_served(&linked, &[&allocator]);
    }
}
