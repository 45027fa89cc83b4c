//! A C program makes calls that are refused. Doorbell must explain the mistakes, and only these. The tests
//! are skipped without a C compiler.

use crate::common::{command, compile, installed, launch, output_of, text};
use doorbell_launch::{Launch, Link};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// What the cases print, by `launch`; `None` without a C compiler.
fn lines(launch: &dyn Fn() -> Launch, cases: &[&str]) -> Option<Vec<(ExitStatus, Vec<String>)>> {
    installed("cc")?;
    let folder = tempfile::tempdir().expect("a folder");
    compile(folder.path(), "refused", include_str!("refused.c"), &["-libverbs"]);
    let program = folder.path().join("refused");
    let run = |case: &&str| {
        let output = output_of(command(&launch(), &program, &[case]).spawn().expect("it starts"));
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() || *case == "crash", "{case}: {}", text(&output));
        let lines = errors.lines().filter_map(|line| line.strip_prefix("doorbell: "));
        (output.status, lines.map(str::to_owned).collect())
    };
    Some(cases.iter().map(run).collect())
}

/// For each call of the case `twenty` in order: the call, its errno, and what the line must contain.
const TWENTY: [(&str, &str, &[&str]); 21] = [
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
    ("ibv_modify_qp", "EINVAL", &["attr.max_dest_rd_atomic is 200", "max_qp_rd_atom"]),
    ("ibv_modify_qp", "EINVAL", &["ah_attr.port_num is 7", "port 1"]),
    ("ibv_modify_qp", "EINVAL", &["attr_mask has IBV_QP_TIMEOUT", "does not take"]),
    ("ibv_post_send", "EINVAL", &["2000 bytes with IBV_SEND_INLINE", "cap.max_inline_data"]),
    ("ibv_post_send", "EINVAL", &["1 SGEs with 4 bytes", "8 bytes"]),
    ("ibv_post_send", "EINVAL", &["IBV_SEND_INLINE", "IBV_WR_RDMA_READ"]),
    ("ibv_post_send", "EINVAL", &["qp.state is IBV_QPS_INIT", "IBV_QPS_RTS"]),
    ("ibv_post_recv", "EINVAL", &["qp.state is IBV_QPS_RESET", "IBV_QPS_INIT"]),
];

#[test]
fn each_mistake_is_explained_by_a_line() {
    for link in [Link::Ib, Link::Roce] {
        let Some(ran) = lines(&|| launch(link), &["twenty"]) else { return };
        let printed = &ran[0].1;
        assert_eq!(printed.len(), TWENTY.len(), "{printed:#?}");
        for (line, (call, errno, parts)) in printed.iter().zip(TWENTY) {
            assert!(line.starts_with(&format!("{call} failed with {errno}: ")), "{line}, not {call}");
            assert!(parts.iter().all(|part| line.contains(part)), "{line}, not {parts:?}");
        }
    }
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
    assert!(ignored[1].contains("1 more times"), "{ignored:#?}");
    assert_eq!(crashed.signal(), Some(libc::SIGSEGV));
    assert!(matches!(&crash[..], [line] if line.contains("cap.max_send_wr is ")), "{crash:#?}");
}

#[test]
fn programs_that_search_for_limits_get_no_line() {
    let cases = ["smaller", "larger", "silent", "full"];
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
