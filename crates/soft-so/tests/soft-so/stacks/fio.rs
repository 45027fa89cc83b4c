//! Runs fio's rdma engine. The side with `--rw=read` listens, and the side with `--rw=write` posts the verb.

use super::{RUN, Run, pass};

const BASE: Run = Run { package: "fio", program: "fio", says: "Run status", exits_at_once: true, ..RUN };

macro_rules! fio {
    ($verb:literal $rw:literal) => {
        &[
            "--name=one",
            "--ioengine=rdma",
            "--hostname=127.0.0.1",
            "--port=PORT",
            concat!("--verb=", $verb),
            concat!("--rw=", $rw),
            "--bs=64k",
            "--size=4m",
            "--iodepth=4",
        ]
    };
}

pub(super) const RUNS: [Run; 2] = [
    Run { server: fio!("write" "read"), client: fio!("write" "write"), bytes: 4 << 20, ..BASE },
    Run { server: fio!("read" "read"), client: fio!("read" "write"), bytes: 4 << 20, ..BASE },
];

#[test]
fn programs() {
    pass(&RUNS);
}
