//! A client that WRITEs to memory without the right to do so gets an error from each later call, too.

use crate::common::{END, cluster};
use doorbell_systems::SystemError;
use doorbell_systems::device::{self, Device};
use doorbell_systems::outbox::{self, Outbox};
use doorbell_systems::vector_io::{Strategy, VectorPiece, Writer};
use doorbell_verbs::{
    AccessFlags, Cluster, Program, Provider, QpCap, QpInitAttr, QpType, RemoteAddr, SendOp, SendWr, Span,
    WcStatus,
};

const SERVICE: &str = "writer";

/// Maximum number of outstanding calls.
const WINDOW: u32 = 4;

const CAP: QpCap =
    QpCap { max_send_wr: 16, max_recv_wr: 1, max_send_sge: 1, max_recv_sge: 1, max_inline_data: 0 };

/// A peer that has a QP, but no memory.
struct Other;

impl Program for Other {
    type Output = Result<(), SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let device = Device::open(&p)?;
        let _qps = device::serve_qps(&device, 1, SERVICE, |_| {
            let cq = device.context.create_cq(1)?;
            Ok(device.pd.create_qp(&cq, &cq, None, &QpInitAttr::new(QpType::Rc, CAP))?)
        })?;
        p.lookup("over");
        Ok(())
    }
}

/// Begins as many calls as may be outstanding. If `polls` is set, `completed` reports the failure first, else
/// `wait`.
struct Writes {
    polls: bool,
}

impl Program for Writes {
    type Output = Result<Vec<Result<u64, SystemError>>, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let device = Device::open(&p)?;
        let cq = device.context.create_cq(16)?;
        let qp = device.pd.create_qp(&cq, &cq, None, &QpInitAttr::new(QpType::Rc, CAP))?;
        device::connect_qp(&device, &qp, 0, SERVICE)?;
        let mr = device.registered(64, AccessFlags::LOCAL_WRITE)?;
        let mut writer = Writer::new(&device, (qp, cq), (16, 1, 0), 64, WINDOW)?;
        let to = RemoteAddr::default();
        let piece = [VectorPiece::of(&mr, 0, 64)];
        for _ in 0..WINDOW {
            writer.write(&piece, to, Strategy::Sgl)?;
        }
        let until = p.now() + Span::from_ms(1);
        while p.now() < until {
            p.pause(until);
        }
        let first = if self.polls { writer.completed() } else { writer.wait(1).map(|()| 1) };
        let then = [
            writer.write(&piece, to, Strategy::Sgl),
            writer.fetch_add(to, 1, mr.sge(0, 8)),
            writer.completed(),
            writer.wait(writer.begun()).map(|()| 0),
        ];
        p.publish("over", &[]);
        Ok([first].into_iter().chain(then).collect())
    }
}

/// Does the work of [`Writes`] by an outbox.
struct Posts {
    polls: bool,
}

impl Program for Posts {
    type Output = Result<Vec<Result<u64, SystemError>>, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let device = Device::open(&p)?;
        let cq = device.context.create_cq(outbox::depth(1))?;
        let cap = QpCap { max_send_wr: outbox::depth(1), ..CAP };
        let qp = device.pd.create_qp(&cq, &cq, None, &QpInitAttr::new(QpType::Rc, cap))?;
        device::connect_qp(&device, &qp, 0, SERVICE)?;
        let mr = device.registered(64, AccessFlags::LOCAL_WRITE)?;
        let sge = [mr.sge(0, 64)];
        let mut outbox = Outbox::new(qp, cq, 1);
        for _ in 0..WINDOW {
            outbox.post_signalled(&mut [SendWr::new(0, SendOp::Write(RemoteAddr::default()), &sge)])?;
        }
        let until = p.now() + Span::from_ms(1);
        while p.now() < until {
            p.pause(until);
        }
        let settled = |outbox: &mut Outbox<P>| outbox.settle().map(|()| 0);
        let first = if self.polls { outbox.completed() } else { settled(&mut outbox) };
        // Makes more calls than there are completions left.
        let then = (0..=WINDOW).flat_map(|_| [outbox.completed(), settled(&mut outbox)]);
        let found = [first].into_iter().chain(then).collect();
        p.publish("over", &[]);
        Ok(found)
    }
}

/// Results of all calls after a WRITE to memory that the client may not write.
fn told<T>(writes: T) -> Vec<Result<u64, SystemError>>
where
    T: Program<Output = Result<Vec<Result<u64, SystemError>>, SystemError>>,
{
    let mut cluster = cluster("cib", 2, |config| config.end = END);
    cluster.spawn(0, 0, Other);
    let task = cluster.spawn(1, 0, writes);
    cluster.run().expect("it ends");
    task.take().expect("it ended").expect("no other error")
}

/// All outstanding work requests complete at once, and one poll reports them. Later calls must not wait for a
/// completion.
#[test]
fn a_call_that_failed_is_told_of_for_ever() {
    for polls in [true, false] {
        let refused = Err(SystemError::Completion(WcStatus::RemAccessErr));
        for found in [told(Writes { polls }), told(Posts { polls })] {
            assert!(found.iter().all(|found| *found == refused), "polls {polls}: {found:?}");
        }
    }
}
