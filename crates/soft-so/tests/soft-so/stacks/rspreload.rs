//! Runs a TCP program whose sockets librspreload turns into RDMA sockets. librspreload is preloaded before
//! the library, and after it.

use super::{explains_nothing, payload, wait_for_cm};
use crate::common::{compile, finish, free_port, installed, launch, leaves_something, library, text};
use doorbell_launch::Link;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A TCP program. The client sends 1000 bytes 100 times. The server receives all bytes and returns their sum.
const TCP: &str = r#"
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(atoi(argv[2])) };
    unsigned char room[1000];
    unsigned sum = 0;
    int s = socket(AF_INET, SOCK_STREAM, 0), got;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (argv[1][0] == 's') {
        if (bind(s, (void *)&at, sizeof at) || listen(s, 1)) return perror("listen"), 1;
        int c = accept(s, 0, 0);
        if (c < 0) return perror("accept"), 1;
        for (int n = 0; n < 100000; n += got) {
            if ((got = read(c, room, sizeof room)) <= 0) return perror("read"), 1;
            for (int i = 0; i < got; i++) sum += room[i];
        }
        if (write(c, &sum, sizeof sum) != sizeof sum) return perror("write"), 1;
        if (read(c, room, 1) > 0) return 1;
        close(c);
    } else {
        if (connect(s, (void *)&at, sizeof at)) return perror("connect"), 1;
        for (int n = 0; n < 100; n++) {
            memset(room, n, sizeof room);
            if (write(s, room, sizeof room) != sizeof room) return perror("write"), 1;
        }
        if (read(s, &sum, sizeof sum) != sizeof sum) return perror("read"), 1;
        printf("sum %u\n", sum);
    }
    close(s);
    return 0;
}
"#;

/// The path of librdmacm's librspreload, in one of the folders that distributions use.
fn rspreload() -> Option<PathBuf> {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let paths = folders.map(|folder| Path::new(folder).join("rsocket/librspreload.so"));
    paths.into_iter().find(|path| path.exists())
}

#[test]
fn a_program_of_tcp_in_both_orders() {
    let (Some(_), Some(env), Some(_)) = (installed("cc"), installed("env"), installed("rping")) else {
        return;
    };
    let sockets = rspreload().expect("librdmacm has it").display().to_string();
    let folder = tempfile::tempdir().expect("a folder");
    compile(folder.path(), "tcp", TCP, &[]);
    let program = folder.path().join("tcp");
    for behind in [true, false] {
        let fabric = launch(Link::Ib).fabric.unwrap_or_default();
        let counts = tempfile::tempdir().expect("a folder");
        let port = free_port().to_string();
        let command = |role: &str| {
            let mut run = Command::new(library().with_file_name("doorbell"));
            run.args(["run", "--fabric", &fabric, "--stats-json"]).arg(counts.path().join(role)).arg("--");
            match behind {
                // The launcher puts its library before all other preloaded libraries.
                true => drop(run.env("LD_PRELOAD", &sockets)),
                false => {
                    let preload = format!("LD_PRELOAD={sockets}:{}", library().display());
                    run.arg(&env).arg(preload);
                }
            }
            run.arg(&program).args([role, &port]).stdin(Stdio::null());
            run.stdout(Stdio::piped()).stderr(Stdio::piped());
            run
        };
        let mut server = command("server").spawn().expect("it starts");
        wait_for_cm(&fabric, "tcp", &mut server);
        let client = finish(command("client").spawn().expect("it starts"), "the client");
        let server = finish(server, "the server");
        assert!(text(&client).contains("sum 4950000"), "{behind}: {}", text(&client));
        assert!(client.status.success() && server.status.success(), "{behind}: {}", text(&server));
        for output in [&client, &server] {
            explains_nothing("a program of TCP", &text(output));
        }
        let moved = payload(counts.path(), "rc");
        assert!(moved >= 100_004, "{behind}: {moved} bytes by the NIC");
        assert!(!leaves_something(&fabric), "{behind}: the fabric {fabric} is still there");
    }
}
