//! ATC'16, Table 1 and section 2.2: verbs of each transport, and sizes of WQEs.

use crate::experiment::{Check, Ctx, Experiment, Findings, Found, Runs};
use doorbell_lab::NotYet;
use doorbell_nic::generation::WqeLayout;
use doorbell_nic::wqe::{self, Payload};
use doorbell_verbs::{Opcode, QpType};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tab1",
    paper: "atc16",
    title: "verbs of each transport, and sizes of WQEs",
    claims: &[
        "atc16-tab1-rc-sendrecv",
        "atc16-tab1-rc-write",
        "atc16-tab1-rc-read",
        "atc16-tab1-rc-wqe-header",
        "atc16-tab1-uc-sendrecv",
        "atc16-tab1-uc-write",
        "atc16-tab1-uc-read",
        "atc16-tab1-uc-wqe-header",
        "atc16-tab1-ud-sendrecv",
        "atc16-tab1-ud-write",
        "atc16-tab1-ud-read",
        "atc16-tab1-ud-wqe-header",
        "atc16-tab1-recv-wqe-header",
        "atc16-s222-write-wqe-size",
        "atc16-s222-wqe-cacheline-aligned",
        "atc16-s223-pad-fn",
        "atc16-out-write-1line-limit",
        "atc16-mq-60b",
    ],
    runs: Runs::None,
    run,
};

/// Table 1: the claim about each verb on each transport.
const OFFERED: [(&str, QpType, Opcode); 9] = [
    ("atc16-tab1-rc-sendrecv", QpType::Rc, Opcode::Send),
    ("atc16-tab1-rc-write", QpType::Rc, Opcode::Write),
    ("atc16-tab1-rc-read", QpType::Rc, Opcode::Read),
    ("atc16-tab1-uc-sendrecv", QpType::Uc, Opcode::Send),
    ("atc16-tab1-uc-write", QpType::Uc, Opcode::Write),
    ("atc16-tab1-uc-read", QpType::Uc, Opcode::Read),
    ("atc16-tab1-ud-sendrecv", QpType::Ud, Opcode::Send),
    ("atc16-tab1-ud-write", QpType::Ud, Opcode::Write),
    ("atc16-tab1-ud-read", QpType::Ud, Opcode::Read),
];

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let layout = ctx.profile("cib").device.generation.wqe();
    let mut checks: Vec<Check> = OFFERED
        .iter()
        .map(|(id, transport, verb)| Check::new(id, "cib", Found::Flag(verb.is_offered_by(*transport))))
        .collect();
    for (id, transport) in [
        ("atc16-tab1-rc-wqe-header", QpType::Rc),
        ("atc16-tab1-uc-wqe-header", QpType::Uc),
        ("atc16-tab1-ud-wqe-header", QpType::Ud),
    ] {
        checks.push(Check::number(id, "cib", layout.header_bytes(transport)));
    }
    checks.push(Check::number("atc16-tab1-recv-wqe-header", "cib", layout.recv_bytes(1)));
    checks.push(Check::number("atc16-s222-wqe-cacheline-aligned", "cib", wqe::LINE));
    checks.push(write_size(layout));
    checks.push(padding());
    for (id, lines, transport) in
        [("atc16-out-write-1line-limit", 1, QpType::Uc), ("atc16-mq-60b", 2, QpType::Ud)]
    {
        checks.push(Check::number(id, "cib", layout.max_inline_in(lines, transport).unwrap_or(0)));
    }
    Ok(Findings { checks, ..Findings::default() })
}

fn write_size(layout: &WqeLayout) -> Check {
    let size = |x| layout.send_bytes(Opcode::Write, QpType::Uc, Payload::Inline(x));
    let holds = (1..=256).all(|x| size(x) == 36 + x);
    Check::statement("atc16-s222-write-wqe-size", "cib", holds, format!("100 B of payload: {} B", size(100)))
}

fn padding() -> Check {
    let holds = (1..=1024).all(|x: u32| wqe::pad(x) == 64 * x.div_ceil(64));
    Check::statement("atc16-s223-pad-fn", "cib", holds, format!("65 B take {} B", wqe::pad(65)))
}
