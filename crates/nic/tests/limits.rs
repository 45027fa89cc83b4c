//! Bounds of the workloads of ATC'16, section 5.
use doorbell_nic::limits::{self, Mix, Pattern};
use doorbell_nic::{Profile, Resource};
use doorbell_verbs::{Opcode, QpType};

#[test]
fn dump() {
    let base = Mix {
        opcode: Opcode::Send,
        qp_type: QpType::Ud,
        payload: 4,
        inline: true,
        batch: 16,
        signal_every: 64,
        window: 128,
        pattern: Pattern::Outbound,
        machines: 6,
        threads: 14,
        qps: 4,
        counters: 1,
        inline_recv: false,
        recv_batch: 16,
    };
    let show = |what: &str, name: &str, mix: Mix| {
        let p = Profile::named(name).unwrap();
        let all = limits::limits(&p, &mix);
        println!("== {name} {what} latency {:?}", limits::unloaded_latency(&p, &mix));
        for l in all.iter().take(4) {
            println!("   {:12} {:8.2} {}", l.resource, l.mops, l.text);
        }
    };
    for (name, threads) in [("cib", 14), ("cx3", 8), ("cx", 4)] {
        let b = Mix { threads, ..base };
        show("send batch", name, b);
        show("send batch HO", name, Mix { payload: 0, ..b });
        show("send nonbatch", name, Mix { batch: 1, ..b });
        show("1 core 1 qp batch", name, Mix { threads: 1, qps: 1, payload: 60, ..b });
        show("1 core 2 qp batch", name, Mix { threads: 1, qps: 2, payload: 60, ..b });
        show("1 core 4 qp batch", name, Mix { threads: 1, qps: 4, payload: 60, ..b });
        show("1 core nonbatch", name, Mix { threads: 1, qps: 1, payload: 60, batch: 1, ..b });
        let i = Mix { pattern: Pattern::Inbound, ..b };
        show("recv", name, i);
        show("recv HO", name, Mix { payload: 0, ..i });
        show("recv inline", name, Mix { inline_recv: true, ..i });
        let r = Mix {
            opcode: Opcode::Read,
            qp_type: QpType::Rc,
            payload: 32,
            batch: 1,
            inline: false,
            signal_every: 1,
            window: 16,
            ..i
        };
        for payload in [8, 64, 128, 256] {
            show(&format!("read in {payload}"), name, Mix { payload, ..r });
        }
        show("read out 32", name, Mix { pattern: Pattern::Outbound, ..r });
        show("read a2a 32", name, Mix { pattern: Pattern::AllToAll, ..r });
        let w = Mix { opcode: Opcode::Write, qp_type: QpType::Uc, payload: 32, batch: 1, ..i };
        show("write in 32", name, w);
        show("write out 32", name, Mix { pattern: Pattern::Outbound, ..w });
        show("write out 28", name, Mix { pattern: Pattern::Outbound, payload: 28, ..w });
        let a = Mix { opcode: Opcode::FetchAdd, qp_type: QpType::Rc, payload: 8, ..r };
        show("faa 1", name, a);
        show("faa 4096", name, Mix { counters: 4096, ..a });
    }
}
