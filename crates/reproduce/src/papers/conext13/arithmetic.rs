//! The arithmetic of docs/notes/conext13.md, which needs no simulation.

use super::runs::{CLUSTER, TABLE_3};
use doorbell_nic::Profile;

const DOC: &str = include_str!("../../../../../docs/notes/conext13.md");

/// Nanoseconds per byte at 10 Gb/s.
const BYTE_NS: f64 = 0.8;
/// Bytes of Ethernet's header, frame check sequence, preamble and gap.
const ETHERNET: u32 = 38;
/// Bytes of the headers of IP, TCP, MPA and an untagged segment.
const HEADERS: u32 = 20 + 20 + 6 + 18;
/// Bytes of TCP's timestamps.
const TIMESTAMPS: u32 = 12;

/// Time of a message on the wire in microseconds, with frames of `frame` bytes.
fn wire(message: u32, frame: u32, headers: u32) -> f64 {
    let frames = message.div_ceil(frame - headers);
    f64::from(message + frames * (headers + ETHERNET)) * BYTE_NS / 1e3
}

/// Nanoseconds per line of Table 3's buffer.
fn per_line(us: f64) -> f64 {
    us * 1e3 / f64::from(TABLE_3 / 64)
}

#[track_caller]
fn told(number: &str) {
    let doc = DOC.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(doc.contains(number), "docs/notes/conext13.md does not say {number}");
}

#[test]
fn time_on_the_wire() {
    told(&format!("256 kB take {:.0} us so", wire(TABLE_3, 1500, HEADERS)));
    told(&format!("{:.0} us with TCP's timestamps", wire(TABLE_3, 1500, HEADERS + TIMESTAMPS)));
    told(&format!("{:.0} us in frames of 9000 bytes", wire(TABLE_3, 9000, HEADERS)));
    let profile = Profile::named(CLUSTER).unwrap();
    assert_eq!(profile.device.link.mtu, 1500 - HEADERS, "as the profile has it");
}

#[test]
fn time_of_a_line() {
    // Longest and shortest time of a request without the scan.
    let [most, least] = [wire(TABLE_3, 1500, HEADERS) + 10.0, wire(TABLE_3, 9000, HEADERS) + 5.0];
    for (us, text) in [(300.0, "16 to 20 ns for each of the 4096 lines"), (275.0, "10 to 14 ns")] {
        told(text);
        let [from, to] = [most, least].map(|beside| per_line(us - beside));
        assert_eq!(format!("{from:.0} to {to:.0} ns"), text[..11], "{us}");
    }
    told(&format!("{:.1} ns a line by stores, {:.1} ns by loads", per_line(170.0), per_line(40.0)));
    let of_reads = [most, least].map(|beside| per_line(315.0 - beside));
    told(&format!("Read Touch takes {:.0} to {:.0} ns a line", of_reads[0], of_reads[1]));
    let under_way = of_reads.map(|ns| 131.0 / ns);
    assert!(under_way.iter().all(|n| (5.0..7.5).contains(n)), "{under_way:?} lines are about six");
}

#[test]
fn misses_one_after_another_are_figure_6() {
    let serial = 131.0 * f64::from(TABLE_3 / 64) / 1e3;
    told(&format!("they would take {serial:.0} us"));
    let without = serial + wire(TABLE_3, 1500, HEADERS) + 8.0;
    told(&format!("some {:.0} us", (without / 10.0).round() * 10.0));
    told(&format!("prefetchers save {:.0}% of that", (1.0 - 315.0 / without) * 100.0));
}

#[test]
fn losses_tend_to_a_bound() {
    let line = 64.0 * 1538.0 / 1436.0 * BYTE_NS;
    told(&format!("a line takes {line:.1} ns of the wire"));
    let bound = |added: f64, scan: f64| per_line(added) / (line + scan) * 100.0;
    let scan = |us: f64| per_line(us - wire(TABLE_3, 1500, HEADERS) - 8.0);
    told(&format!(
        "to {:.0}% by stores and to {:.0}% by loads",
        bound(170.0, scan(300.0)),
        bound(40.0, scan(275.0))
    ));
}
