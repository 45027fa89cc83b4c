//! Checks what this provider promises beyond the required behaviour of every device: any use of handles and
//! memory in safe code either works or is refused. Also checks the clock of the checks ([`InRounds`]).

use crate::rounds::{InRounds, ROUND};
use doorbell_conformance::{CheckResult, Outcome, Report};
use doorbell_native::NativeCluster;
use doorbell_systems_suite::{Layer, Layered};
use doorbell_verbs::{
    AccessFlags, Cluster, ConnectAttr, Context, Cpu, Mem, PageSize, Program, Provider, QpCap, QpHandle,
    QpInitAttr, QpObjects, QpState, QpType, RemoteAddr, RunError, SendFlags, SendOp, SendWr, Sge, Sockets,
    Span, Time, VerbsError,
};
use std::error::Error;
use std::panic;

type Ended = Result<(), Box<dyn Error + Send + Sync>>;

const QP: QpInitAttr = QpInitAttr::new(
    QpType::Rc,
    QpCap { max_send_wr: 4, max_recv_wr: 4, max_send_sge: 1, max_recv_sge: 1, max_inline_data: 8 },
);

/// Runs these checks with the interface of [`doorbell_conformance::run`].
pub(crate) fn run(
    make: &mut dyn FnMut(u32) -> NativeCluster,
    filter: Option<&str>,
    each: &mut dyn FnMut(&CheckResult),
) -> Report {
    type Check = fn(NativeCluster) -> Result<(), String>;
    let checks: [(&str, Check); 9] = [
        ("native/children_keep_parents", |mut c| alone(&mut c, ChildrenKeepParents)),
        ("native/what_is_left_is_destroyed", what_is_left_is_destroyed),
        ("native/contexts_do_not_mix", |mut c| alone(&mut c, ContextsDoNotMix)),
        ("native/posting_needs_a_state", |mut c| alone(&mut c, PostingNeedsAState)),
        ("native/foreign_memory", foreign_memory),
        ("native/setup_is_checked", setup_is_checked),
        ("native/sockets_unwind", |mut c| sockets_unwind(&mut c)),
        ("native/layers_keep_deadlines", |mut c| alone(&mut c, Late)),
        ("native/rounds_wait_for_each_thread", rounds_wait_for_each_thread),
    ];
    let mut report = Report::default();
    for (name, check) in checks {
        if filter.is_none_or(|part| name.contains(part)) {
            let outcome = check(make(2)).map_or_else(Outcome::Failed, |()| Outcome::Passed);
            let result = CheckResult { name, outcome };
            each(&result);
            report.checks.push(result);
        }
    }
    report
}

/// Runs one thread on machine 0.
fn alone(cluster: &mut NativeCluster, program: impl Program<Output = Ended>) -> Result<(), String> {
    let task = cluster.spawn(0, 0, program);
    cluster.run().map_err(|error| error.to_string())?;
    task.take().ok_or("did not come to its end")?.map_err(|error| error.to_string())
}

fn require(condition: bool, what: &str) -> Ended {
    if condition { Ok(()) } else { Err(what.into()) }
}

fn is_invalid<T>(result: Result<T, VerbsError>) -> bool {
    matches!(result, Err(VerbsError::Invalid(_)))
}

/// A QP keeps working after the handles of its parents were destroyed. The destroyed handles are refused.
struct ChildrenKeepParents;

impl Program for ChildrenKeepParents {
    type Output = Ended;

    fn run<P: Provider>(self, p: P) -> Ended {
        let device = p.open_device(0)?;
        let pd = p.alloc_pd(device)?;
        let cq = p.create_cq(device, 4)?;
        let (mr, _) = p.reg_mr(pd, p.alloc(64, PageSize::Small)?, AccessFlags::LOCAL_WRITE)?;
        let (qp, _) = p.create_qp(pd, &QpObjects { send_cq: cq, recv_cq: cq, srq: None }, &QP)?;
        p.close_device(device);
        p.dealloc_pd(pd);
        p.destroy_cq(cq);
        require(is_invalid(p.alloc_pd(device)), "a closed device was used")?;
        require(
            is_invalid(p.create_srq(pd, &doorbell_verbs::SrqAttr { max_wr: 1, max_sge: 1 })),
            "a PD was used",
        )?;
        require(is_invalid(p.poll_cq(cq, &mut [])), "a destroyed CQ was polled")?;
        require(p.query_qp(qp)? == QpState::Reset, "the QP lost its state")?;
        p.dereg_mr(mr);
        p.destroy_qp(qp);
        p.destroy_qp(qp);
        require(is_invalid(p.query_qp(qp)), "a destroyed QP was queried")?;
        require(is_invalid(p.query_qp(QpHandle(u32::MAX))), "a QP was made up")
    }
}

/// Creates objects and never destroys them.
struct Forgetful;

impl Program for Forgetful {
    type Output = Ended;

    fn run<P: Provider>(self, p: P) -> Ended {
        let device = p.open_device(0)?;
        let pd = p.alloc_pd(device)?;
        let cq = p.create_cq(device, 4)?;
        p.create_qp(pd, &QpObjects { send_cq: cq, recv_cq: cq, srq: None }, &QP)?;
        p.reg_mr(pd, p.alloc(64, PageSize::Small)?, AccessFlags::LOCAL_WRITE)?;
        let (_, address) = p.tcp_listen()?;
        p.tcp_connect(address)?;
        Ok(())
    }
}

/// Objects that a program does not destroy are destroyed when its thread ends. The device's file is closed
/// with the last of them.
fn what_is_left_is_destroyed(mut cluster: NativeCluster) -> Result<(), String> {
    let open_files = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let before = open_files();
    for _ in 0..4 {
        alone(&mut cluster, Forgetful)?;
    }
    let after = open_files();
    if after == before { Ok(()) } else { Err(format!("{before} files were open before, {after} after")) }
}

/// A QP and its CQs belong to one opened device.
struct ContextsDoNotMix;

impl Program for ContextsDoNotMix {
    type Output = Ended;

    fn run<P: Provider>(self, p: P) -> Ended {
        let (one, other) = (Context::open(&p, 0)?, Context::open(&p, 0)?);
        let (pd, own) = (one.alloc_pd()?, one.create_cq(4)?);
        // Each context numbers its kernel objects from 0. Objects that are created in equal order have equal
        // numbers, so the kernel would mistake a foreign CQ for an own CQ.
        let (_pd, foreign) = (other.alloc_pd()?, other.create_cq(4)?);
        pd.create_qp(&own, &own, None, &QP)?;
        require(
            is_invalid(pd.create_qp(&foreign, &own, None, &QP).map(drop)),
            "a foreign send CQ was taken",
        )?;
        require(
            is_invalid(pd.create_qp(&own, &foreign, None, &QP).map(drop)),
            "a foreign receive CQ was taken",
        )
    }
}

/// A work request that is refused because of the QP's state does not stay in its queue.
struct PostingNeedsAState;

impl Program for PostingNeedsAState {
    type Output = Ended;

    fn run<P: Provider>(self, p: P) -> Ended {
        let context = Context::open(&p, 0)?;
        let cq = context.create_cq(4)?;
        let qp = context.alloc_pd()?.create_qp(&cq, &cq, None, &QP)?;
        let nothing = SendOp::Write(RemoteAddr::default());
        let write = |wr_id| SendWr::new(wr_id, nothing, &[]).flags(SendFlags::SIGNALED);
        require(qp.post_send(&[write(1)]).is_err(), "a send was taken in Reset")?;
        qp.init(1, AccessFlags::REMOTE_WRITE, 0)?;
        require(qp.post_send(&[write(2)]).is_err(), "a send was taken in Init")?;
        qp.connect_from_init(1, &qp.endpoint(1)?, &ConnectAttr::default())?;
        qp.post_send(&[write(3)])?;
        let wc = cq.wait(p.now() + Span::from_ms(60_000))?.ok_or("no completion came")?;
        require(wc.wr_id == 3, "a refused work request completed")
    }
}

/// Accesses memory of another machine. `way` selects the last access, which must panic.
struct Foreign {
    memory: Mem,
    way: u8,
}

impl Program for Foreign {
    type Output = Ended;

    fn run<P: Provider>(self, p: P) -> Ended {
        let context = Context::open(&p, 0)?;
        let (pd, cq) = (context.alloc_pd()?, context.create_cq(4)?);
        require(is_invalid(pd.reg_mr(self.memory, AccessFlags::empty()).map(drop)), "it was registered")?;
        let qp = pd.create_qp(&cq, &cq, None, &QP)?;
        qp.connect(1, &qp.endpoint(1)?, &Default::default())?;
        let sge = [Sge { addr: self.memory.addr(0), length: 8, lkey: 0 }];
        let send = SendWr::new(1, SendOp::Send, &sge).flags(SendFlags::INLINE);
        require(qp.post_send(&[send]).is_err(), "it was sent inline")?;
        let stream = p.tcp_connect(p.tcp_listen()?.1)?;
        match self.way {
            0 => p.store_u8(self.memory, 0, 1),
            1 => p.read(self.memory, 0, &mut [0; 8]),
            2 => p.tcp_send(stream, self.memory, 0, 8)?,
            3 => drop(p.tcp_recv(stream, self.memory, 0, 8)?),
            _ => drop(p.fetch_add_u64(self.memory, 0, 1)),
        }
        Err("it was reached".into())
    }
}

fn foreign_memory(mut cluster: NativeCluster) -> Result<(), String> {
    let memory = cluster.alloc(1, 64, PageSize::Small).map_err(|error| error.to_string())?;
    // These panics are expected. The test compares their messages and does not print them.
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let ended = (0..5).try_for_each(|way| {
        let task = cluster.spawn(0, 0, Foreign { memory, way });
        match (cluster.run(), task.take()) {
            (Err(RunError::Panicked { message, .. }), _) if message.contains("belongs to machine 1") => {
                Ok(())
            }
            (run, ended) => Err(format!("way {way}: {run:?}, {ended:?}")),
        }
    });
    panic::set_hook(hook);
    ended
}

/// Threads need an existing machine and a core that no other thread has.
fn setup_is_checked(mut cluster: NativeCluster) -> Result<(), String> {
    for (machine, core) in [(2, 0), (0, 0)] {
        let tasks = [cluster.spawn(0, 0, ContextsDoNotMix), cluster.spawn(machine, core, ContextsDoNotMix)];
        let run = cluster.run();
        if !matches!(run, Err(RunError::Setup(_))) || tasks.iter().any(|task| task.take().is_some()) {
            return Err(format!("machine {machine} core {core}: {run:?}"));
        }
    }
    Ok(())
}

/// Blocks at a socket forever. `way` selects the blocking call.
struct Waits {
    way: u8,
}

impl Program for Waits {
    type Output = Ended;

    fn run<P: Provider>(self, p: P) -> Ended {
        let (listener, address) = p.tcp_listen()?;
        let stream = p.tcp_connect(address)?;
        let mem = p.alloc(1 << 20, PageSize::Small)?;
        p.publish("waits", &[]);
        match self.way {
            // The first call accepts the pending connection.
            0 => drop(p.tcp_accept(listener).and_then(|_| p.tcp_accept(listener))?),
            1 => drop(p.tcp_recv(stream, mem, 0, 8)?),
            2 => drop(p.tcp_poll(&[stream], Time::NEVER)?),
            _ => loop {
                p.tcp_send(stream, mem, 0, mem.len())?;
            },
        }
        Err("it did not wait".into())
    }
}

/// Panics once the other thread waits or is about to wait.
struct Panics;

impl Program for Panics {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        p.lookup("waits");
        panic::resume_unwind(Box::new("on purpose"));
    }
}

/// A thread that waits at a socket is stopped together with the run. Otherwise this check does not end.
fn sockets_unwind(cluster: &mut NativeCluster) -> Result<(), String> {
    (0..4).try_for_each(|way| {
        let task = cluster.spawn(0, 0, Waits { way });
        cluster.spawn(1, 0, Panics);
        match (cluster.run(), task.take()) {
            (Err(RunError::Panicked { message, .. }), None) if message == "on purpose" => Ok(()),
            (run, ended) => Err(format!("way {way}: {run:?}, {ended:?}")),
        }
    })
}

/// A layer whose clock is an hour ahead, as another process's clock may be.
#[derive(Clone)]
struct Ahead;

const AHEAD: Span = Span::from_ms(3_600_000);

impl Layer for Ahead {
    fn now<P: Provider>(&self, below: &P) -> Time {
        below.now() + AHEAD
    }
}

/// Polls with a deadline on the layer's clock. On the provider's clock, the poll would take an hour.
struct Late;

impl Program for Late {
    type Output = Ended;

    fn run<P: Provider>(self, p: P) -> Ended {
        let p = Layered::new(p, Ahead);
        let (listener, _) = p.tcp_listen()?;
        let deadline = p.now() + Span::from_ms(5);
        require(p.tcp_poll(&[listener], deadline)?.is_none(), "somebody connected")?;
        require(p.now() >= deadline, "the poll ended before its deadline")
    }
}

/// Reads the clock, sleeps for 50 ms, and sets a word.
struct Starves {
    word: Mem,
}

impl Program for Starves {
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        p.now();
        p.publish("starves", &[]);
        std::thread::sleep(std::time::Duration::from_millis(50));
        p.store_u64(self.word, 0, 1);
    }
}

/// Reads the clock until [`Starves`] sets the word. Returns the time that has passed on the clock.
struct Watches {
    word: Mem,
}

impl Program for Watches {
    type Output = Span;

    fn run<P: Provider>(self, p: P) -> Span {
        p.lookup("starves");
        let (begin, mut last) = (p.now(), p.now());
        while p.load_u64(self.word, 0) == 0 {
            last = p.now();
        }
        last - begin
    }
}

fn rounds_wait_for_each_thread(threads: NativeCluster) -> Result<(), String> {
    let mut cluster = InRounds::new(threads);
    let word = cluster.alloc(0, 8, PageSize::Small).map_err(|error| error.to_string())?;
    cluster.spawn(0, 0, Starves { word });
    let watched = cluster.spawn(0, 1, Watches { word });
    cluster.run().map_err(|error| error.to_string())?;
    match watched.take() {
        Some(passed) if passed <= ROUND * 2 => Ok(()),
        passed => Err(format!("{passed:?} passed while a thread did not look")),
    }
}
