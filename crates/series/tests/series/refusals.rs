//! The mapping refuses keys that the model cannot express, with the reason.

use crate::{planned, series};

const WRITES: &str = "verb = \"write\", transport = \"rc\", metric = \"rate\", axis = \"window\", size = 8";

/// The sentence with which a series is refused whose workload is [`WRITES`] with a replacement and more keys.
fn refusal(replaced: (&str, &str), more: &str, arrays: &str) -> String {
    let workload = WRITES.replace(replaced.0, replaced.1) + more;
    refusal_of(&series("", &workload, arrays))
}

fn refusal_of(text: &str) -> String {
    match planned(text) {
        Ok(planned) => panic!("it is answered: {planned:?}"),
        Err(refusal) => refusal.to_string(),
    }
}

const ONE: &str = "window = [4]\nvalue = [1]";
const SAME: (&str, &str) = ("write", "write");

#[test]
fn a_key_that_the_model_lacks_is_named() {
    for (replaced, more, sentence) in [
        (
            ("rate", "batch-time"),
            "",
            "metric is batch-time, which is no rate, bandwidth or latency of single operations",
        ),
        (("\"write\"", "\"mixed\""), "", "verb is mixed, and no key states the mix"),
        (
            ("\"write\"", "\"wirte\""),
            "",
            "verb is wirte, but Doorbell knows write, read, send, faa, cas, mixed",
        ),
        (("\"rc\"", "\"srd\""), "", "transport is srd, which the model does not have"),
        (("\"rc\"", "\"xx\""), "", "transport is xx, but Doorbell knows rc, uc, ud, dc, srd, raw"),
        ((", size = 8", ""), "", "size is missing, and the result depends on it"),
        (SAME, ", threads_per_qp = 4", "threads share QPs, but a QP of the model belongs to one thread"),
        (SAME, ", threads = 8, qps = 1", "threads share QPs, but a QP of the model belongs to one thread"),
        (SAME, ", threads = 3, qps = 4", "qps is 4, which is not a multiple of 3 threads"),
        (
            SAME,
            ", threads = 2, doorbell_registers = \"shared16\"",
            "doorbell_registers is shared16, but doorbell registers of the model are never shared",
        ),
        (
            SAME,
            ", threads = 2, doorbell_registers = \"one\"",
            "doorbell_registers is one for 2 threads, but doorbell registers of the model are never shared",
        ),
        (
            SAME,
            ", doorbell_registers = \"some\"",
            "doorbell_registers is some, but Doorbell knows shared16, own, one",
        ),
        (SAME, ", blueflame = false", "blueflame is false, but the model writes single WQEs by MMIO"),
        (
            SAME,
            ", blueflame = true, batch = 2",
            "blueflame is true for lists of 2 work requests, but the model rings a doorbell for lists",
        ),
        (
            SAME,
            ", addresses = \"same\"",
            "addresses is same, but the model does not serialise READs and WRITEs of one address",
        ),
        (
            SAME,
            ", addresses = \"zipf\"",
            "addresses is zipf, but Doorbell knows same, random, any-byte, own-line, many",
        ),
        (SAME, ", memory = \"device\"", "memory is device, but the model has no memory on the NIC"),
        (SAME, ", memory = \"gpu\"", "memory is gpu, but the model has no memory of GPUs"),
        (SAME, ", memory = \"moon\"", "memory is moon, but Doorbell knows host, device, gpu"),
        (SAME, ", loopback = true", "loopback is true, but the model has no path from a NIC to itself"),
        (
            ("rate", "latency-full"),
            ", hops = 2",
            "hops is 2, but link.one_way_ns of the profile has one switch",
        ),
        (SAME, ", nics = 2", "nics is 2, but the model loads one NIC"),
        (SAME, ", functions = 4", "functions is 4, but the model has one PCIe function of a NIC"),
        (
            SAME,
            ", requests = 128",
            "requests is 128, the requests of a call of an application, and the number of doorbells is not known",
        ),
        (SAME, ", initiator = \"gpu\"", "initiator is \"gpu\", but only CPUs of the model post"),
        (SAME, ", odp = true", "odp is true, but the model has no on-demand paging"),
        (SAME, ", throttle = 8", "throttle is 8, and no key says how the software holds requests back"),
        (SAME, ", socket = \"top\"", "socket is top, but Doorbell knows near, far"),
        (
            SAME,
            ", socket = \"near\", socket_of = \"me\"",
            "socket_of is me, but Doorbell knows requester, responder, both",
        ),
        (SAME, ", socket = \"far\"", "socket is far, but a machine of the profile has one socket"),
        (
            SAME,
            ", pattern = \"all-to-all\", bidirectional = true",
            "bidirectional is true, but pattern is all-to-all",
        ),
        (SAME, ", pattern = \"ring\"", "pattern is ring, but Doorbell knows outbound, inbound, all-to-all"),
        (SAME, ", batch = 5", "batch is 5, but the window_per_qp is 4"),
        (("rate", "latency-half"), "", "metric is latency-half, but window is not 1"),
        (("rate", "latency-half"), ", threads = 2", "metric is latency-half, but threads is not 1"),
    ] {
        let said = match replaced.1.starts_with("latency") {
            true => {
                let workload = WRITES.replace(replaced.0, replaced.1) + more;
                refusal_of(&series("", &workload, ONE).replace("Mops/s", "us"))
            }
            false => refusal(replaced, more, ONE),
        };
        assert!(said.starts_with(sentence), "{more}: {said}");
    }
    let read = "verb = \"read\", transport = \"rc\", metric = \"latency-half\", axis = \"size\"";
    let text = series("", read, "size = [8]\nvalue = [1]").replace("Mops/s", "us");
    assert_eq!(refusal_of(&text), "metric is latency-half, but only WRITE and SEND have a ping-pong");
}

#[test]
fn keys_that_say_no_are_no_reason() {
    let more = ", nics = 1, functions = 1, odp = false, throttle = false, loopback = false, threads_per_qp = 1, \
                doorbell_registers = \"shared16\", blueflame = true";
    let planned = planned(&series("", &(WRITES.to_owned() + more), ONE));
    assert!(planned.is_ok(), "{planned:?}");
}

#[test]
fn an_axis_needs_whole_numbers_of_a_key() {
    let of = |axis: &str, xs: &str| {
        let workload = WRITES.replace("window", axis);
        refusal_of(&series("", &workload, &format!("{axis} = [{xs}]\nvalue = [1]")))
    };
    assert_eq!(of("case", "1"), "axis is case, and no key says how the cases differ");
    assert_eq!(of("phase", "1"), "axis is phase, which is no key of a workload");
    assert_eq!(of("window", "1.5"), "window is 1.5, but must be a whole number");
    assert_eq!(of("window", "-1"), "window is -1, but must be a whole number");
    let workload = WRITES.replace("window", "outstanding") + ", threads = 2";
    let odd = refusal_of(&series("", &workload, "outstanding = [3]\nvalue = [1]"));
    assert_eq!(odd, "outstanding is 3, which is not a multiple of 2 QPs");
}

#[test]
fn units_values_links_and_slots_are_checked() {
    let text = |keys: &str| series(keys, WRITES, ONE);
    assert_eq!(refusal_of(&text("").replace("Mops/s", "us")), "unit is us, which is no unit of a rate");
    assert_eq!(
        refusal_of(&text("").replace("Mops/s", "furlongs")),
        "unit is furlongs, which is no unit of a rate"
    );
    assert_eq!(
        refusal_of(&text("").replace("[1]", "[0]")),
        "value is 0, but an error needs a positive number"
    );
    assert_eq!(
        refusal_of(&text("").replace("[1]", "[nan]")),
        "value is NaN, but an error needs a positive number"
    );
    assert_eq!(
        refusal_of(&text("links = 2")),
        "links is 2, but threads is 1, and a thread of the model uses one link"
    );
    assert_eq!(refusal_of(&text("not_run = \"it is made up\"")), "not_run: it is made up");
    assert_eq!(
        refusal_of(&text("system = { name = \"rpc\" }")),
        "system is rpc, and a check simulates single verbs"
    );
    assert_eq!(refusal_of(&text("fabric = \"wire\"")), "fabric is wire, but Doorbell knows ib, roce");
    assert_eq!(
        refusal_of(&text("pcie = { gen = 6 }")),
        "pcie.gen is 6, but Doorbell knows the lane rates of generations 1 to 5"
    );
    let error = refusal_of(&text("link_gbps = 100000"));
    assert!(error.starts_with("set: link.port_rate_gbps is 100000, not within"), "{error}");
}

/// The first threads of a sweep over threads need no lock.
#[test]
fn points_are_refused_one_by_one() {
    let workload =
        WRITES.replace("window\"", "threads\"") + ", window = 4, doorbell_registers = \"shared16\"";
    let planned = planned(&series("", &workload, "threads = [1, 2, 4]\nvalue = [1, 2, 3]")).unwrap();
    let answered: Vec<bool> = planned.points.iter().map(|point| point.run.is_ok()).collect();
    assert_eq!(answered, [true, false, false]);
}
