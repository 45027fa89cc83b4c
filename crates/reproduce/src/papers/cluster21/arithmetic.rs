//! The arithmetic of docs/notes/cluster21.md, which needs no simulation.

use crate::data::claims;

const DOC: &str = include_str!("../../../../../docs/notes/cluster21.md");

/// The number of a claim of the paper. `id` lacks the prefix that all ids share.
fn claim(id: &str) -> f64 {
    let claim = claims::find(&format!("cluster21-{id}")).unwrap_or_else(|| panic!("there is no claim {id}"));
    match claim.value {
        claims::Value::Number(number) => number,
        _ => panic!("{id} is no number"),
    }
}

/// Lower and upper end of a claim's range.
fn range(id: &str) -> [f64; 2] {
    let claim = claims::find(&format!("cluster21-{id}")).unwrap_or_else(|| panic!("there is no claim {id}"));
    let (low, high) = claim.allows().unwrap_or_else(|| panic!("{id} is no range"));
    [low, high]
}

/// Nanoseconds per operation at this rate in millions per second.
fn ns(mops: f64) -> f64 {
    1e3 / mops
}

#[track_caller]
fn told(text: &str) {
    let doc = DOC.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(doc.contains(text), "docs/notes/cluster21.md does not say {text:?}");
}

/// Rates of one QP's READs in the authors' own run, in millions per second: for up to 32 B, and for 64 B.
const RUN: [f64; 2] = [4.05, 6.24];

#[test]
fn two_sets_of_numbers() {
    let (write, read) = (claim("tab3-r1c1-write-tput"), claim("tab3-r1c1-read-tput"));
    let (slow_write, slow_read) = (claim("fig1-write-tput"), claim("fig1-read-tput"));
    told(&format!("The rates differ by {:.2} and {:.2}", write / slow_write, read / slow_read));
    let later = |small: &str, best: &str| claim(small) - claim(best);
    told(&format!(
        "the latencies by {:.2} and {:.2} us",
        later("fig1-write-lat-small", "tab3-r1c1-write-lat"),
        later("fig1-read-lat-small", "tab3-r1c1-read-lat")
    ));
    told(&format!("{:.2} apart", RUN[1] / RUN[0]));
    let pairs = [(slow_write, write), (slow_read, read), (RUN[0], RUN[1])];
    let [w, r, own] = pairs.map(|(slow, fast)| (ns(slow), ns(fast)));
    told(&format!(
        "{:.0} against {:.0} ns, {:.0} against {:.0} ns, and {:.0} against {:.0} ns: {:.0}, {:.0} and {:.0} ns more",
        w.0,
        w.1,
        r.0,
        r.1,
        own.0,
        own.1,
        w.0 - w.1,
        r.0 - r.1,
        own.0 - own.1
    ));
    for cell in ["r1c4", "r2c4"] {
        let of = |what: &str| claim(&format!("tab3-{cell}-{what}"));
        let near = [
            of("read-lat") / claim("fig1-read-lat-small"),
            of("write-lat") / claim("fig1-write-lat-small"),
            of("write-tput") / slow_write,
        ];
        assert!(near.iter().all(|ratio| (ratio - 1.0).abs() < 0.02), "{cell}: {near:?}");
        assert!((of("read-tput") / slow_read - 1.0).abs() > 0.25, "{cell}");
    }
}

/// Increase from the best cell to another cell, in microseconds.
fn step(cell: &str, verb: &str) -> f64 {
    claim(&format!("tab3-{cell}-{verb}-lat")) - claim(&format!("tab3-r1c1-{verb}-lat"))
}

#[test]
fn steps_of_table_3() {
    told(&format!(
        "the rows' steps are {:.2} and {:.2} us (core, core and memory), the columns' {:.2} and {:.2}",
        step("r3c1", "write"),
        step("r4c1", "write"),
        step("r1c3", "write"),
        step("r1c4", "write")
    ));
    told(&format!(
        "{:.2} and {:.2} us by rows, {:.2} and {:.2} by columns",
        step("r3c1", "read"),
        step("r4c1", "read"),
        step("r1c3", "read"),
        step("r1c4", "read")
    ));
    assert!((step("r3c1", "read") / 2.0 - step("r3c1", "write")).abs() < 0.005);
    for cell in ["r1c2", "r2c1"] {
        assert!(step(cell, "read") < 0.015 && step(cell, "write") < 0.015, "{cell}");
    }
}

#[test]
fn rates_of_table_3() {
    let of = |cell: &str, verb: &str| ns(claim(&format!("tab3-{cell}-{verb}-tput")));
    let (read, far) = (of("r1c1", "read"), of("r1c4", "read"));
    told(&format!(
        "READs {read:.0} ns, with the responder's core on the other socket {:.0}",
        of("r1c3", "read")
    ));
    assert!((far - read - 159.0).abs() < 3.0);
    let (write, far) = (of("r1c1", "write"), of("r1c3", "write"));
    told(&format!("WRITEs {write:.0} and {far:.0}, {:.0} more", far - write));
    told(&format!("take {:.0} to {:.0} ns", of("r3c3", "write"), of("r4c4", "write")));
    assert!((of("r3c1", "write") - write).abs() < 0.1, "the requester's alone changes nothing");
    told(&format!("the {:.0} ns between", claim("tab2-remote-lat") - claim("tab2-local-lat")));
}

#[test]
fn lines_under_way_in_table_2() {
    let lines = |at: &str| claim(&format!("tab2-{at}-bw")) * claim(&format!("tab2-{at}-lat")) / 64.0;
    told(&format!("{:.1} and {:.1} lines under way", lines("local"), lines("remote")));
}

#[test]
fn calls_or_pieces_in_figure_5() {
    let (one, eight) = (claim("fig5-sgl-1t"), claim("fig5-sgl-8t"));
    let gigabytes = |pieces: f64| 8.0 * eight * pieces * 32.0 / 1e3;
    told(&format!("eight threads move {:.1} GB/s", gigabytes(16.0)));
    told(&format!("Calls of 4 pieces move {:.1} GB/s", gigabytes(4.0)));
    let sp = range("fig5-sp-vs-sgl");
    let all = |rate: f64| 8.0 * rate;
    told(&format!("make {:.1} M WRITEs a second with SGL", all(eight)));
    told(&format!("{:.1} to {:.1} with SP", all(eight * sp[0]), all(eight * sp[1])));
    let [_, most] = range("fig5-sp-vs-doorbell");
    let doorbell = sp.map(|sp| all(eight * sp / most));
    told(&format!("{:.1} to {:.1} M WRITEs: about", 4.0 * doorbell[0], 4.0 * doorbell[1]));
    told(&format!("Doorbell has {:.1} to {:.1} M WRITEs", doorbell[0], doorbell[1]));
    told(&format!("{:.2} to {:.2} M calls a second", one * sp[0], one * sp[1]));
    let outstanding = sp.map(|sp| one * sp * claim("tab3-r1c1-read-lat"));
    assert!(outstanding.iter().all(|n| (4.0..5.0).contains(n)), "{outstanding:?} are four or five");
}

#[test]
fn gains_of_figure_4() {
    let [low, high] = range("fig4-sp-vs-doorbell");
    let [sgl_low, sgl_high] = range("fig4-sp-vs-sgl");
    let gains = [1.53, 2.53].map(|doorbell| {
        let sp = high * doorbell / low;
        (sp, sp * sgl_low / sgl_high)
    });
    told(&format!(
        "SP gains {:.1} or {:.1} times, and SGL {:.1} or {:.1}",
        gains[0].0, gains[1].0, gains[0].1, gains[1].1
    ));
    told(&format!("link carries {:.1} M/s", kilobytes()));
    told(&format!("at most {:.1} times over 7.06 M/s", 32.0 * kilobytes() / claim("tab3-r1c1-write-tput")));
}

/// Millions of WRITEs of 1 kB per second that a link of 4 GB/s carries. Each packet has an overhead of 52
/// bytes: LRH 8, BTH 12, RETH 16, two CRCs of 6 in all, and 10 more between packets.
fn kilobytes() -> f64 {
    4000.0 / (1024.0 + 52.0)
}

#[test]
fn blocks_of_figure_8() {
    let ratio = claim("fig8-theta16") / 16.0;
    told(&format!("16 times {ratio:.2}: one WRITE of a block for each {:.1} direct WRITEs", 1.0 / ratio));
    told(&format!("carries {:.1}", kilobytes() * 1.024));
    let [fast, slow] = ["tab3-r1c1-write-tput", "fig1-write-tput"].map(|id| claim(id) * ratio);
    told(&format!("blocks go out at {fast:.1} M/s, with {:.1} GB/s", fast * 1.024));
    told(&format!("at {slow:.1} M/s, which no link limits"));
}

#[test]
fn grants_of_a_lock() {
    let held = claim("tab3-r1c1-read-lat") / 2.0 + claim("tab3-r1c1-write-lat");
    told(&format!("{held:.2} us, {:.2} M/s", 1.0 / held));
    told(&format!("14% of that is {:.3} M/s", 0.14 / held));
    told(&format!("eight threads have {}", claim("fig10a-remote-8t")));
}
