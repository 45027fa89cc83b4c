//! Runs unmodified programs of Debian on the software NIC. A test is skipped if its program is not installed.

use crate::common::{
    command, finish, free_port, installed, launch, leaves_something, library, pair, text, wait_for_listener,
};
use doorbell_launch::Link;
use std::process::Child;

#[test]
fn the_device_is_listed() {
    let Some(program) = installed("ibv_devices") else { return };
    let child = command(&launch(Link::Ib), &program, &[]).spawn().expect("it starts");
    let output = finish(child, "ibv_devices");
    assert!(text(&output).contains("doorbell0"), "{}", text(&output));
}

#[test]
fn the_link_is_what_was_asked_for() {
    let Some(program) = installed("ibv_devinfo") else { return };
    for (link, layer) in [(Link::Ib, "InfiniBand"), (Link::Roce, "Ethernet")] {
        let child = command(&launch(link), &program, &["-v"]).spawn().expect("it starts");
        let output = text(&finish(child, "ibv_devinfo"));
        let shown = output.lines().find(|line| line.contains("link_layer:")).unwrap_or_default();
        assert!(shown.ends_with(layer), "{output}");
        assert!(output.contains("PORT_ACTIVE") && output.contains("LINK_UP"), "{output}");
    }
}

/// Starts several fabrics at the same time. A process that begins a fabric removes dead fabrics, and must not
/// remove a fabric that is just beginning.
#[test]
fn fabrics_begin_at_once() {
    let Some(program) = installed("ibv_devinfo") else { return };
    for _ in 0..25 {
        let fabrics: Vec<_> = (0..8).map(|_| launch(Link::Ib)).collect();
        let start = |launch| command(launch, &program, &[]).spawn().expect("it starts");
        let children: Vec<_> = fabrics.iter().map(start).collect();
        for child in children {
            let output = finish(child, "ibv_devinfo");
            assert!(output.status.success(), "{}", text(&output));
        }
    }
}

#[test]
fn ping_pongs() {
    for transport in ["rc", "uc", "ud", "srq"] {
        let program = format!("ibv_{transport}_pingpong");
        for events in [&[][..], &["-e"]] {
            let mut arguments = vec!["-n", "300"];
            arguments.extend(events);
            let Some(said) = pair(&launch(Link::Ib), &program, &arguments) else { return };
            assert!(said.contains("300 iters"), "{said}");
            arguments.extend(["-g", "0"]);
            pair(&launch(Link::Roce), &program, &arguments);
        }
    }
}

#[test]
fn ping_pongs_that_check_what_they_receive() {
    for transport in ["rc", "uc", "ud", "srq"] {
        let program = format!("ibv_{transport}_pingpong");
        for options in [&["-c"][..], &["-c", "-e"]] {
            pair(&launch(Link::Ib), &program, &[&["-n", "200"], options].concat());
        }
    }
    pair(&launch(Link::Ib), "ibv_rc_pingpong", &["-n", "200", "-c", "-N"]);
}

#[test]
fn the_ping_pong_of_xrc() {
    for options in [&[][..], &["-e"]] {
        pair(&launch(Link::Ib), "ibv_xsrq_pingpong", &[&["-n", "200"], options].concat());
    }
}

/// Runs perftest with multicast on RoCE. On InfiniBand, perftest first asks a subnet manager.
#[test]
fn perftest_by_multicast() {
    for program in ["ib_send_lat", "ib_send_bw"] {
        let options = ["-c", "UD", "-g", "-x", "0", "-n", "200", "-s", "1024", "-F"];
        pair(&launch(Link::Roce), program, &options);
    }
}

#[test]
fn perftests_of_latency() {
    // With -C, perftest prints latencies in cycles. Without it, perftest measures the processor's frequency
    // for each size, in a loop that keeps the processor busy.
    let runs: [(&str, &[&str]); 8] = [
        ("ib_send_lat", &["-n", "30", "-a", "-C"]),
        ("ib_send_lat", &["-n", "200", "-c", "UD", "-C"]),
        ("ib_send_lat", &["-n", "200", "-I", "64", "-s", "64", "-C"]),
        ("ib_write_lat", &["-n", "200", "-I", "64", "-s", "64", "-C"]),
        ("ib_write_lat", &["-n", "30", "-a", "-C"]),
        ("ib_write_lat", &["-n", "200", "--use_old_post_send", "-C"]),
        ("ib_read_lat", &["-n", "30", "-a", "-C"]),
        ("ib_atomic_lat", &["-n", "200", "-C"]),
    ];
    for (program, arguments) in runs {
        if pair(&launch(Link::Ib), program, arguments).is_none() {
            return;
        }
        let private = doorbell_launch::Launch { private_buffers: true, ..launch(Link::Roce) };
        pair(&private, program, arguments);
    }
}

#[test]
fn perftests_of_rate() {
    let runs: [(&str, &[&str]); 15] = [
        ("ib_send_bw", &["-n", "20", "-a"]),
        ("ib_send_bw", &["-n", "200", "-c", "UC"]),
        ("ib_send_bw", &["-n", "200", "-c", "UD", "-s", "1024", "-b"]),
        ("ib_send_bw", &["-n", "200", "-e"]),
        ("ib_send_bw", &["-n", "200", "-q", "8"]),
        ("ib_send_bw", &["-n", "200", "--use-srq", "-q", "4"]),
        ("ib_send_bw", &["-n", "1600", "-s", "64", "--post_list", "16"]),
        ("ib_read_bw", &["-n", "1600", "-s", "64", "--post_list", "16"]),
        ("ib_write_bw", &["-n", "20", "-a"]),
        ("ib_write_bw", &["-n", "200", "-c", "UC"]),
        ("ib_write_bw", &["-n", "200", "-b", "-q", "8"]),
        ("ib_write_bw", &["-n", "1600", "-s", "64", "--post_list", "16"]),
        ("ib_read_bw", &["-n", "200", "-e"]),
        ("ib_atomic_bw", &["-n", "200", "-A", "CMP_AND_SWAP"]),
        ("ib_atomic_bw", &["-n", "200", "-q", "8"]),
    ];
    for (program, arguments) in runs {
        if pair(&launch(Link::Ib), program, arguments).is_none() {
            return;
        }
    }
}

#[test]
fn a_thousand_qps() {
    pair(&launch(Link::Ib), "ib_write_bw", &["-n", "5", "-s", "8", "-t", "1", "-q", "1000"]);
}

#[test]
fn without_privilege() {
    let (Some(setpriv), Some(_)) = (installed("setpriv"), installed("ib_send_lat")) else { return };
    // SAFETY: the call takes no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return eprintln!("skipped: only root can become nobody; all other tests run without privilege then");
    }
    // A copy of the library that the user `nobody` may read.
    let directory = std::env::temp_dir().join(format!("doorbell-test-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory can be made");
    let copy = directory.join("libibverbs.so");
    std::fs::copy(library(), &copy).expect("the library can be copied");
    for mode in [(&directory, 0o755), (&copy, 0o755)] {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(mode.0, std::fs::Permissions::from_mode(mode.1)).expect("a mode can be set");
    }
    let programs = ["ib_write_lat", "ib_send_bw", "ib_read_bw", "ib_atomic_bw", "ibv_ud_pingpong"];
    for (program, private_buffers) in programs.iter().flat_map(|p| [(p, false), (p, true)]) {
        let launch =
            doorbell_launch::Launch { library: Some(copy.clone()), private_buffers, ..launch(Link::Ib) };
        let port = free_port().to_string();
        let nobody =
            ["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--bounding-set=-all"];
        let mut arguments: Vec<&str> = nobody.to_vec();
        arguments.extend([program, "-n", "100", "-p", &port]);
        let mut server = command(&launch, &setpriv, &arguments).spawn().expect("it starts");
        wait_for_listener(port.parse().unwrap_or(0), &mut server);
        arguments.push("localhost");
        let client = finish(command(&launch, &setpriv, &arguments).spawn().expect("it starts"), "client");
        let server = finish(server, "server");
        assert!(client.status.success(), "{}", text(&client));
        assert!(server.status.success(), "{}", text(&server));
    }
    std::fs::remove_dir_all(&directory).expect("the copy can be removed");
}

/// Waits until a program has used half a second of processor time. By then the program has connected and
/// polls.
fn wait_until_it_works(child: &mut Child) {
    // Fields 14 and 15 of proc_pid_stat(5), in hundredths of a second.
    let processor_time = |pid: u32| -> u64 {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace();
        fields.skip(14 - 3).take(2).filter_map(|field| field.parse::<u64>().ok()).sum()
    };
    while processor_time(child.id()) < 50 {
        assert!(child.try_wait().expect("it is a child").is_none(), "it ended before it sent anything");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

#[test]
fn a_killed_peer_is_noticed_and_leaves_nothing() {
    let Some(program) = installed("ib_send_bw") else { return };
    let launch = launch(Link::Ib);
    let port = free_port().to_string();
    let arguments = ["-D", "60", "-p", &port];
    let mut server = command(&launch, &program, &arguments).spawn().expect("it starts");
    wait_for_listener(port.parse().unwrap_or(0), &mut server);
    let mut client_arguments = arguments.to_vec();
    client_arguments.push("localhost");
    let mut client = command(&launch, &program, &client_arguments).spawn().expect("it starts");
    wait_until_it_works(&mut client);
    server.kill().expect("it can be killed");
    server.wait().expect("it ends");
    let client = finish(client, "the client of a killed server");
    assert!(!client.status.success(), "{}", text(&client));
    // IBV_WC_RETRY_EXC_ERR is 12.
    assert!(text(&client).contains("status 12"), "{}", text(&client));
    let fabric = launch.fabric.unwrap_or_default();
    assert!(!leaves_something(&fabric), "the fabric {fabric} is still there");
}
