//! Lists the attributes of a QP and the fields of a workload, and which of them the statistics hold. A field
//! without an entry does not compile, or fails the test.

use super::posting::Posting;
use super::workload::as_posted;
use crate::counts::board::Board;
use crate::counts::qp::{QpCounter, QpCounts};
use doorbell_abi::{ibv_qp_attr, ibv_qp_cap, ibv_qp_init_attr};
use doorbell_nic::Profile;
use doorbell_verbs::{QpType, RemoteAddr, SendOp, SendWr, Sge};
use doorbell_workload::Workload;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;

/// Where the statistics have an attribute or a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kept {
    /// In this field of the workload, and as a number of the report.
    In(&'static str),
    /// The field is computed from the posted work requests, or is the user's own option.
    Posts,
    /// The field describes several processes, see `together`.
    Together,
    /// Nowhere, for this reason.
    No(&'static str),
}

use Kept::{In, No, Posts, Together};

/// The fields of a C struct with their places. The pattern has all fields of the struct.
macro_rules! fields {
    ($struct:ident { $($field:ident: $kept:expr),* $(,)? }) => {{
        fn _has_all($struct { $($field: _),* }: $struct) {}
        [$((stringify!($field), $kept)),*]
    }};
}

const NO_LOSS: &str = "the links of the model lose nothing; timeouts and retries are in the report";
const NO_RNR: &str = "the responders of the model keep RECVs posted; RNR NAKs and waits are in the report";
const STATE: &str = "a QP that posts is in RTS, where this has no effect on the rate";
const MIGRATION: &str = "the software NIC refuses alternate paths";
const OWN: &str = "it is a pointer of the program, which no message carries";
const PATH: &str = "the peers are counted; the model's packets have equal headers with and without a GRH \
                    (is_global), and no static_rate";
const IDENTITY: &str = "it decides whether a message is accepted, not how fast it is";
const DEPTH: &str = "it only bounds the window; the window that was used is in the report";
const PLACE: &str = "the places of threads and memory belong to this machine, not to the program";
const BUFFERS: &str = "the addresses of buffers are not counted";
const PACE: &str = "the times between posts depend on this machine";
const RUN: &str = "it is an option of the simulation, not of the program";

fn of_attr() -> Vec<(&'static str, Kept)> {
    fields!(ibv_qp_attr {
        qp_state: No(STATE),
        cur_qp_state: No(STATE),
        path_mtu: In("set"),
        path_mig_state: No(MIGRATION),
        qkey: No(IDENTITY),
        rq_psn: No(IDENTITY),
        sq_psn: No(IDENTITY),
        dest_qp_num: In("machines"),
        qp_access_flags: No(IDENTITY),
        cap: No("the fields of cap are listed below"),
        ah_attr: No(PATH),
        alt_ah_attr: No(MIGRATION),
        pkey_index: No(IDENTITY),
        alt_pkey_index: No(MIGRATION),
        en_sqd_async_notify: No(STATE),
        sq_draining: No(STATE),
        max_rd_atomic: In("max_rd_atomic"),
        max_dest_rd_atomic: In("max_rd_atomic"),
        min_rnr_timer: No(NO_RNR),
        port_num: No("the software NIC has one port"),
        timeout: No(NO_LOSS),
        retry_cnt: No(NO_LOSS),
        rnr_retry: No(NO_RNR),
        alt_port_num: No(MIGRATION),
        alt_timeout: No(MIGRATION),
        rate_limit: No("the software NIC and the model do not pace packets"),
    })
    .to_vec()
}

fn of_init_attr() -> Vec<(&'static str, Kept)> {
    let own = fields!(ibv_qp_init_attr {
        qp_context: No(OWN),
        send_cq: In("cq_per_qp"),
        recv_cq: No("a thread of the model has one CQ for its RECVs"),
        srq: No("the threads of a workload post RECVs to their QPs"),
        cap: No("the fields of cap are listed below"),
        qp_type: In("transport"),
        sq_sig_all: In("signal_every"),
    });
    let cap = fields!(ibv_qp_cap {
        max_send_wr: No(DEPTH),
        max_recv_wr: No(NO_RNR),
        max_send_sge: No("it only bounds the SGEs; the SGEs that were used are in the report"),
        max_recv_sge: No("a RECV of the model has one SGE"),
        max_inline_data: No("it only bounds inline payload; inlined work requests are in the report"),
    });
    own.into_iter().chain(cap).collect()
}

/// The fields of a workload.
const WORKLOAD: &[(&str, Kept)] = &[
    ("profile", Posts),
    ("host", No("the user names a host only for a simulation")),
    ("pcie", No("the user names a slot only for a simulation")),
    ("link", No("the user names a link only for a simulation")),
    ("set", Posts),
    ("machine", No("the software NIC has one profile for all machines")),
    ("class", Together),
    ("verb", Posts),
    ("mix", Posts),
    ("transport", Posts),
    ("size", Posts),
    ("machines", Posts),
    ("threads", Posts),
    ("qps", Posts),
    ("window", Posts),
    ("window_per_qp", Posts),
    ("max_rd_atomic", Posts),
    ("ports", No("the software NIC has one port")),
    ("socket", No(PLACE)),
    ("memory_socket", No(PLACE)),
    ("peer_socket", No(PLACE)),
    ("peer_memory_socket", No(PLACE)),
    ("batch", Posts),
    ("signal_every", Posts),
    ("cq_per_qp", Posts),
    ("inline", Posts),
    ("inline_up_to", Posts),
    ("sges", Posts),
    ("pieces", No(BUFFERS)),
    ("offset", No(BUFFERS)),
    ("random_offset", No(BUFFERS)),
    ("local_region", No(BUFFERS)),
    ("remote_region", No(BUFFERS)),
    ("addresses", No(BUFFERS)),
    ("remote_addresses", No(BUFFERS)),
    ("remote_memory", No(BUFFERS)),
    ("header_only", Posts),
    ("inline_recv", No("libibverbs has no attribute for it")),
    ("drain", No(PACE)),
    ("arrivals", No(PACE)),
    ("rate", No(PACE)),
    ("think", No(PACE)),
    ("counters", No(BUFFERS)),
    ("counter_stride", No(BUFFERS)),
    ("huge_pages", No(PLACE)),
    ("pattern", Posts),
    ("warmup", No(RUN)),
    ("duration", No(RUN)),
    ("precision", No(RUN)),
    ("until", No(RUN)),
    ("max_time", No(RUN)),
    ("seed", No(RUN)),
];

/// A QP's counts, after `times` work requests with this payload in `sges` SGEs.
struct Posted {
    qp_type: QpType,
    send_cq: u32,
    op: SendOp,
    bytes: u32,
    sges: usize,
    inline: bool,
}

const READ: SendOp = SendOp::Read(RemoteAddr { addr: 0, rkey: 0 });
const WRITE: SendOp = SendOp::Write(RemoteAddr { addr: 0, rkey: 0 });

fn qp(op: SendOp, bytes: u32) -> Posted {
    Posted { qp_type: QpType::Rc, send_cq: 0, op, bytes, sges: 1, inline: false }
}

/// The workload of QPs that post one after the other and have a `path_mtu` of 1024 bytes. It leaves out
/// nothing.
fn workload(all: &[Posted], signal_every: u32) -> Workload {
    let (workload, left_out) = described(all, signal_every, |_| (1024, 3));
    assert_eq!(left_out, [""; 0]);
    workload.expect("something was posted")
}

/// The workload of QPs that post one after the other, and what it leaves out. `of_nth` returns `path_mtu` and
/// the peer's `max_dest_rd_atomic` of a QP.
fn described(
    all: &[Posted],
    signal_every: u32,
    of_nth: impl Fn(u32) -> (u32, u32),
) -> (Option<Workload>, Vec<String>) {
    let (_, board) = Board::create().expect("a board");
    let list: &AtomicU64 = Box::leak(Box::default());
    for (number, posted) in (0..).zip(all) {
        let (mut counter, _) =
            QpCounter::new(board, list, (number, posted.qp_type), posted.send_cq).expect("there is room");
        counter.modified((posted.qp_type != QpType::Ud).then_some(of_nth(number).0));
        if posted.op.opcode().returns_data() {
            counter.reads_up_to(8, Some(of_nth(number).1));
        }
        let sges = vec![Sge::default(); posted.sges];
        let wr = SendWr::new(0, posted.op, &sges);
        for n in 1..=20 * u64::from(signal_every) {
            let signaled = n.is_multiple_of(signal_every.into());
            counter.posted(&wr, posted.bytes, posted.inline, signaled, 1 + n % u64::from(signal_every));
            counter.list_ends(0, || 1);
        }
    }
    let qps: Vec<QpCounts> =
        board.listed(list).into_iter().filter_map(|record| QpCounts::of(board, record)).collect();
    assert_eq!(Posting::of(&qps).qps, all.len() as u32);
    let (cib, mut left_out) = (Profile::named("cib").expect("it is built in"), Vec::new());
    (as_posted("cib", &cib, &qps, &mut left_out).map(|(workload, _)| workload), left_out)
}

fn keys(workload: &Workload) -> BTreeSet<String> {
    let json = serde_json::to_value(workload).expect("it is JSON");
    json.as_object().expect("an object").keys().cloned().collect()
}

#[test]
fn every_field_of_a_workload_is_kept_or_left_out_for_a_reason() {
    let listed: BTreeMap<&str, Kept> = WORKLOAD.iter().copied().collect();
    let fields: BTreeSet<&str> = Workload::FIELDS.iter().map(|field| field.key).collect();
    assert_eq!(listed.keys().copied().collect::<BTreeSet<_>>(), fields);
    let header_only = Posted { qp_type: QpType::Ud, ..qp(SendOp::SendWithImm(1), 0) };
    let own_cqs = [0, 1].map(|send_cq| Posted { send_cq, sges: 2, ..qp(READ, 4096) });
    let inlined = [Posted { inline: true, ..qp(WRITE, 16) }, qp(WRITE, 64)];
    let all =
        [keys(&workload(&[header_only], 1)), keys(&workload(&own_cqs, 1)), keys(&workload(&inlined, 4))];
    let kept: BTreeSet<String> = all.into_iter().flatten().collect();
    for (key, place) in listed {
        assert_eq!(kept.contains(key), place == Posts, "{key}: {place:?}");
    }
}

#[test]
fn every_attribute_of_a_qp_is_kept_or_left_out_for_a_reason() {
    for (attribute, kept) in of_attr().into_iter().chain(of_init_attr()) {
        match kept {
            In(key) => assert!(WORKLOAD.contains(&(key, Posts)), "{attribute}: {key}"),
            No(reason) => assert!(!reason.is_empty(), "{attribute}"),
            Posts | Together => panic!("{attribute} has no field"),
        }
    }
    let one = workload(&[qp(READ, 4096)], 1);
    assert_eq!(one.max_rd_atomic, Some(3), "the lower limit of both sides");
    let set = one.set.expect("the path has a shorter MTU than the profile");
    assert_eq!(set["link.mtu_bytes"].get(), 1024.0);
    assert_eq!((one.cq_per_qp, one.transport, one.signal_every), (None, Some(QpType::Rc), Some(1)));
    let two = workload(&[0, 1].map(|send_cq| Posted { send_cq, sges: 2, ..qp(WRITE, 4096) }), 16);
    assert_eq!((two.cq_per_qp, two.sges, two.max_rd_atomic), (Some(true), Some(2), None));
    assert_eq!((two.qps, two.signal_every, two.window_per_qp), (Some(2), Some(16), Some(16)));
}

#[test]
fn values_that_differ_are_left_out() {
    let reads = |sges: [usize; 2]| sges.map(|sges| Posted { sges, ..qp(READ, 4096) });
    let (made, left_out) = described(&reads([1, 2]), 1, |nth| (1024 << nth, 3 + nth));
    let made = made.expect("something was posted");
    assert_eq!((made.set, made.max_rd_atomic, made.sges), (None, None, None));
    let [mtu, most, sges] = &left_out[..] else { panic!("{left_out:?}") };
    assert!(mtu.starts_with("path_mtu: the QPs have different values, from 1024 to 2048; "), "{mtu}");
    assert!(most.starts_with("max_rd_atomic: the QPs have different values, from 3 to 4; "), "{most}");
    assert_eq!(sges, "SGEs: the work requests have from 1 to 2; the workload has one for each work request");
    // Both are the MTU of the profile.
    let (made, left_out) = described(&reads([2, 2]), 1, |nth| (4096 << nth, 3));
    let made = made.expect("something was posted");
    assert_eq!((made.set, made.max_rd_atomic, made.sges), (None, Some(3), Some(2)));
    assert_eq!(left_out, [""; 0]);
}
