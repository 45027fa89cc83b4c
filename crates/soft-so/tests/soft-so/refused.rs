//! A C program makes calls that are refused. Doorbell must explain the mistakes, and only these. The tests
//! are skipped without a C compiler.

use crate::common::{command, compile, installed, launch, output_of, text};
use doorbell_launch::{Launch, Link};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

/// The output of the cases of `refused.c`, by `launch`; `None` without a C compiler.
fn lines(launch: &dyn Fn() -> Launch, cases: &[&str]) -> Option<Vec<(ExitStatus, Vec<String>)>> {
    lines_of((include_str!("refused.c"), &["-libverbs"]), launch, cases)
}

/// The output of the cases of a program, which is linked to these libraries.
fn lines_of(
    (source, libraries): (&str, &[&str]),
    launch: &dyn Fn() -> Launch,
    cases: &[&str],
) -> Option<Vec<(ExitStatus, Vec<String>)>> {
    installed("cc")?;
    let folder = tempfile::tempdir().expect("a folder");
    compile(folder.path(), "refused", source, libraries);
    let program = folder.path().join("refused");
    let run = |case: &&str| {
        let output = output_of(command(&launch(), &program, &[case]).spawn().expect("it starts"));
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_killed = ["crash", "ended", "flows"].contains(case);
        assert!(output.status.success() || is_killed, "{case}: {}", text(&output));
        let lines = errors.lines().filter_map(|line| line.strip_prefix("doorbell: "));
        (output.status, lines.map(str::to_owned).collect())
    };
    Some(cases.iter().map(run).collect())
}

/// For each call of the case `twenty` in order: the call, its errno, and what the line must contain.
const TWENTY: [(&str, &str, &[&str]); 23] = [
    ("ibv_create_qp", "EINVAL", &["cap.max_send_wr is ", "must be at most", "ibv_create_qp(3)"]),
    ("ibv_create_qp", "EINVAL", &["cap.max_recv_wr is ", "must be at most"]),
    ("ibv_create_qp", "EINVAL", &["cap.max_send_sge is ", "max_sge"]),
    ("ibv_create_qp", "EINVAL", &["cap.max_inline_data is 1048576", "must be at most"]),
    ("ibv_create_qp", "EINVAL", &["recv_cq is null"]),
    ("ibv_create_cq", "EINVAL", &["cqe is ", "max_cqe", "ibv_create_cq(3)"]),
    ("ibv_reg_mr", "EINVAL", &["access is 0x2", "IBV_ACCESS_LOCAL_WRITE", "ibv_reg_mr(3)"]),
    ("ibv_reg_mr", "EFAULT", &["addr is 0x1000 with length 4096", "mapped"]),
    ("ibv_create_srq", "EINVAL", &["attr.max_wr is 0", "must be 1 to "]),
    ("ibv_modify_qp", "EINVAL", &["attr.port_num is 0", "ibv_modify_qp(3)"]),
    ("ibv_modify_qp", "EINVAL", &["attr.pkey_index is 500", "must be 0"]),
    (
        "ibv_modify_qp",
        "EINVAL",
        &["attr_mask lacks IBV_QP_ACCESS_FLAGS", "RC", "IBV_QPS_RESET to IBV_QPS_INIT"],
    ),
    (
        "ibv_modify_qp",
        "EINVAL",
        &["attr.qp_state is IBV_QPS_RTS", "can only go to IBV_QPS_RESET, IBV_QPS_INIT"],
    ),
    ("ibv_modify_qp", "EINVAL", &["attr.path_mtu is 0", "1 to 5"]),
    ("ibv_modify_qp", "EINVAL", &["attr.path_mtu is 6", "1 to 5"]),
    ("ibv_modify_qp", "EINVAL", &["attr.max_dest_rd_atomic is 200", "max_qp_rd_atom"]),
    ("ibv_modify_qp", "EINVAL", &["ah_attr.port_num is 7", "port 1"]),
    ("ibv_modify_qp", "EINVAL", &["attr_mask has IBV_QP_TIMEOUT", "does not take"]),
    ("ibv_post_send", "EINVAL", &["2000 bytes with IBV_SEND_INLINE", "cap.max_inline_data"]),
    ("ibv_post_send", "EINVAL", &["1 SGEs with 4 bytes", "8 bytes"]),
    ("ibv_post_send", "EINVAL", &["IBV_SEND_INLINE", "IBV_WR_RDMA_READ"]),
    ("ibv_post_send", "EINVAL", &["qp.state is IBV_QPS_INIT", "IBV_QPS_RTS"]),
    ("ibv_post_recv", "EINVAL", &["qp.state is IBV_QPS_RESET", "IBV_QPS_INIT"]),
];

/// As [`TWENTY`], for the case `more`.
const MORE: [(&str, &str, &[&str]); 13] = [
    (
        "ibv_modify_qp",
        "EINVAL",
        &[
            "attr_mask lacks IBV_QP_STATE",
            "stays in IBV_QPS_RESET",
            "takes no attributes; see ibv_modify_qp(3)",
        ],
    ),
    ("ibv_modify_qp", "EINVAL", &["attr_mask lacks IBV_QP_STATE", "stays in IBV_QPS_INIT", "IBV_QP_PORT"]),
    ("ibv_modify_qp", "EINVAL", &["attr.cur_qp_state is IBV_QPS_RTS, but the QP is in state IBV_QPS_INIT"]),
    ("ibv_post_send", "ENOMEM", &["qp has no send queue", "cap.max_send_wr 0"]),
    ("ibv_post_recv", "ENOMEM", &["qp has no receive queue", "cap.max_recv_wr 0"]),
    ("ibv_wr_complete", "ENOMEM", &["a list of 5 work requests", "cap.max_send_wr is 4; see ibv_wr_post(3)"]),
    ("ibv_wr_complete", "EINVAL", &["num_sge is 2, but the QP was created with", "see ibv_wr_post(3)"]),
    ("ibv_reg_mr", "EINVAL", &["access is 0x2", "see ibv_reg_mr(3)"]),
    ("ibv_create_ah_from_wc", "EINVAL", &["port_num is 2", "see ibv_create_ah_from_wc(3)"]),
    ("ibv_attach_mcast", "EINVAL", &["qp is of type RC", "see ibv_attach_mcast(3)"]),
    ("ibv_create_srq_ex", "EINVAL", &["attr.max_wr is 0", "see ibv_create_srq_ex(3)"]),
    ("ibv_modify_qp", "EINVAL", &["attr_mask lacks IBV_QP_PORT, which a QP of type IBV_QPT_XRC_SEND needs"]),
    // The program ignores that there is no room for the list.
    ("ibv_wr_complete", "ENOMEM", &["has room for 1 work requests", "the list has 3 (cap.max_send_wr is 4)"]),
];

/// As [`TWENTY`], for the case `in-use`.
const IN_USE: [(&str, &str, &[&str]); 9] = [
    ("ibv_dealloc_pd", "EBUSY", &["pd still has ", "destroy them first; see ibv_dealloc_pd(3)"]),
    ("ibv_dereg_mr", "EBUSY", &["mr still has bound memory windows"]),
    ("ibv_free_dm", "EBUSY", &["dm still has 1 memory regions"]),
    ("ibv_dealloc_td", "EBUSY", &["td is still used by 1 parent domains"]),
    ("ibv_destroy_comp_channel", "EBUSY", &["channel is still used by 1 CQs"]),
    ("ibv_destroy_cq", "EBUSY", &["cq is still used by ", "QPs or SRQs"]),
    ("ibv_destroy_qp", "EBUSY", &["qp is still attached to a multicast group"]),
    ("ibv_destroy_srq", "EBUSY", &["srq is still used by 1 QPs"]),
    ("ibv_close_xrcd", "EBUSY", &["xrcd is still used by 1 QPs or SRQs"]),
];

/// For each call of `refused_cm.c` that gets a line: the call, its errno, and what the line must contain.
const OF_CM: [(&str, &str, &[&str]); 7] = [
    ("rdma_bind_addr", "EADDRNOTAVAIL", &["addr is 192.0.2.1", "see rdma_bind_addr(3)"]),
    (
        "rdma_resolve_route",
        "EINVAL",
        &["id is bound, but the call needs an id that is resolved to an address"],
    ),
    ("rdma_bind_addr", "EINVAL", &["id is bound, but the call needs an id that is new"]),
    ("rdma_connect", "EINVAL", &["id is bound, but the call needs an id that is resolved to a route"]),
    ("rdma_set_option", "EINVAL", &["optval is 40"]),
    ("rdma_join_multicast", "EINVAL", &["only ids for UD"]),
    ("rdma_bind_addr", "EADDRINUSE", &["addr is 127.0.0.1:", "another id has claimed the port"]),
];

/// Compares lines with these calls, errnos and parts.
fn check(printed: &[String], expected: &[(&str, &str, &[&str])]) {
    assert_eq!(printed.len(), expected.len(), "{printed:#?}");
    for (line, (call, errno, parts)) in printed.iter().zip(expected) {
        assert!(line.starts_with(&format!("{call} failed with {errno}: ")), "{line}, not {call}");
        assert!(parts.iter().all(|part| line.contains(part)), "{line}, not {parts:?}");
    }
}

#[test]
fn each_mistake_is_explained_by_a_line() {
    for link in [Link::Ib, Link::Roce] {
        let Some(ran) = lines(&|| launch(link), &["twenty", "more"]) else { return };
        check(&ran[0].1, &TWENTY);
        check(&ran[1].1, &MORE);
    }
}

/// A program that only ends gets no line (case `silent`).
#[test]
fn objects_in_use_are_explained_if_the_program_goes_on() {
    for link in [Link::Ib, Link::Roce] {
        let Some(ran) = lines(&|| launch(link), &["in-use"]) else { return };
        check(&ran[0].1, &IN_USE);
    }
}

#[test]
fn mistakes_with_librdmacm_are_explained() {
    const HEADER: &str = "/usr/include/rdma/rdma_cma.h";
    if !Path::new(HEADER).exists() {
        return eprintln!("skipped: {HEADER} is not there");
    }
    let program = (include_str!("refused_cm.c"), &["-lrdmacm", "-libverbs"][..]);
    let Some(ran) = lines_of(program, &|| launch(Link::Ib), &["all"]) else { return };
    check(&ran[0].1, &OF_CM);
}

/// A signal ends the program while the line about a full queue waits. A program that has posted again gets no
/// line, and neither does a child of fork(2) for calls of its parent.
#[test]
fn waiting_lines_survive_signals_and_forks() {
    let cases = ["ended", "flows", "reset", "forks"];
    let Some(ran) = lines(&|| launch(Link::Ib), &cases) else { return };
    let [(killed, ended), (ended_too, flows), (_, reset), (_, forks)] = &ran[..] else { panic!("{ran:#?}") };
    assert_eq!((killed.signal(), ended_too.signal()), (Some(libc::SIGBUS), Some(libc::SIGBUS)));
    assert!(matches!(&ended[..], [line] if line.contains("has a full send queue")), "{ended:#?}");
    assert_eq!(flows, &Vec::<String>::new());
    assert!(matches!(&reset[..], [line] if line.contains("has a full send queue")), "{reset:#?}");
    let [child, parent] = &forks[..] else { panic!("{forks:#?}") };
    assert!(child.contains("cqe is 0"), "{forks:#?}");
    assert!(parent.contains("cap.max_send_wr is "), "{forks:#?}");
}

#[test]
fn a_call_site_gets_one_line_and_a_count() {
    let Some(ran) = lines(&|| launch(Link::Ib), &["again", "ignored", "crash"]) else { return };
    let [(_, again), (_, ignored), (crashed, crash)] = &ran[..] else { panic!("{ran:#?}") };
    assert_eq!(again.len(), 2, "{again:#?}");
    assert!(
        again[0].starts_with("ibv_post_recv failed with EINVAL: qp.state is IBV_QPS_RESET"),
        "{again:#?}"
    );
    assert!(again[1].starts_with("ibv_post_recv failed 6 more times because of qp.state"), "{again:#?}");
    assert_eq!(ignored.len(), 2, "{ignored:#?}");
    assert!(ignored[0].contains("ENOMEM: qp has a full send queue with 4 work requests"), "{ignored:#?}");
    assert!(ignored[1].contains("failed once more because of qp"), "{ignored:#?}");
    assert_eq!(crashed.signal(), Some(libc::SIGSEGV));
    assert!(matches!(&crash[..], [line] if line.contains("cap.max_send_wr is ")), "{crash:#?}");
}

#[test]
fn programs_that_search_for_limits_get_no_line() {
    let cases = ["smaller", "larger", "silent", "full", "lists"];
    let Some(ran) = lines(&|| launch(Link::Ib), &cases) else { return };
    for (case, (_, printed)) in cases.iter().zip(ran) {
        assert_eq!(printed, Vec::<String>::new(), "{case}");
    }
}

#[test]
fn quiet_programs_get_no_line() {
    let quiet = || Launch { quiet: true, ..launch(Link::Ib) };
    let Some(ran) = lines(&quiet, &["twenty", "again", "ignored", "crash"]) else { return };
    assert!(ran.iter().all(|(_, printed)| printed.is_empty()), "{ran:#?}");
}
