//! Measures the texts of errors as `cargo xtask prose` measures pages. The check of literals sees only
//! templates. Here the texts contain values, and the texts of their causes.

use doorbell_lab::LoadError;
use doorbell_lab::sweep::SweepError;
use doorbell_lab::uncertainty::UncertaintyError;
use doorbell_lab::{ProgramError, SimulateError, WorkloadError};
use doorbell_launch::trust::Distrust;
use doorbell_launch::{LaunchError, NotBuilt, Unserved};
use doorbell_live::LiveError;
use doorbell_nic::ProfileError;
use doorbell_prose::{Form, Measure, Passage, ProseLimits, Sentence, sentences};
use doorbell_schema::SchemaError;
use doorbell_systems::SystemError;
use doorbell_systems::site::SiteError;
use doorbell_verbs::{PostError, RunError, SocketError, VerbsError, WcStatus};
use doorbell_workload::FileError;
use std::io;

/// Adds the texts of values of an error type to `$texts`. Each value follows the pattern of its variant. The
/// patterns have no wildcard, so a new variant without a value does not compile.
macro_rules! add_texts {
    ($texts:ident, $type:ty { $($variant:pat => $value:expr,)* }) => {
        let _all_variants = |error: &$type| match error { $($variant => {})* };
        $(
            let value: $type = $value;
            assert!(matches!(value, $variant), "{value} has another variant");
            $texts.push(value.to_string());
        )*
    };
}

fn not_permitted() -> io::Error {
    io::Error::from_raw_os_error(libc::EACCES)
}

fn verbs() -> VerbsError {
    VerbsError::Invalid("there is no such QP".into())
}

fn post() -> PostError {
    PostError { index: 3, cause: VerbsError::NoRoom("the send queue has 128 work requests".into()) }
}

fn no_profile() -> ProfileError {
    ProfileError::NotFound("`cx9` is not a profile".into())
}

fn schema() -> SchemaError {
    let message = "size is 5GiB, but must be at most 1GiB".into();
    SchemaError { file: "w.toml".into(), line: 3, message }
}

fn of_verbs() -> Vec<String> {
    let mut texts = vec![post().to_string()];
    add_texts!(texts, VerbsError {
        VerbsError::Invalid(_) => verbs(),
        VerbsError::NoRoom(_) => VerbsError::NoRoom("the machine cannot map 4096 bytes".into()),
        VerbsError::Unsupported(_) => VerbsError::Unsupported("iWARP has no UD QPs".into()),
        VerbsError::NoDevice(_) => VerbsError::NoDevice("machine 0 has device 0 only, not 1".into()),
        VerbsError::Errno { .. } => VerbsError::Errno { what: "ibv_modify_qp", errno: libc::EBUSY },
    });
    add_texts!(texts, SocketError {
        SocketError::Refused(_) => SocketError::Refused(([10, 0, 0, 1], 4791).into()),
        SocketError::Reset => SocketError::Reset,
        SocketError::Invalid(_) => SocketError::Invalid("there is no such socket".into()),
        SocketError::Unsupported(_) => SocketError::Unsupported("the profile has no section [tcp]".into()),
        SocketError::Errno { .. } => SocketError::Errno { what: "connect", errno: libc::ETIMEDOUT },
    });
    add_texts!(texts, RunError {
        RunError::Deadlock(_) => RunError::Deadlock("thread 0 of machine 1 waits for a completion".into()),
        RunError::Panicked { .. } => {
            RunError::Panicked { thread: "thread 0 of machine 1".into(), message: "no entry".into() }
        },
        RunError::Setup(_) => RunError::Setup("core 3 of machine 0 already has a thread".into()),
        RunError::Interrupted => RunError::Interrupted,
    });
    texts
}

fn of_workloads() -> Vec<String> {
    let mut texts = Vec::new();
    add_texts!(texts, ProfileError {
        ProfileError::NotFound(_) => no_profile(),
        ProfileError::Content { .. } => ProfileError::Content {
            file: "lab7.toml".into(),
            line: 4,
            message: "tcp.mtu is not a parameter of a profile".into(),
        },
        ProfileError::Set(_) => ProfileError::Set("link.ports is 0, but must be at least 1".into()),
    });
    add_texts!(texts, FileError {
        FileError::Unreadable { .. } => {
            FileError::Unreadable { file: "w.toml".into(), cause: not_permitted().to_string() }
        },
        FileError::NoWorkload { .. } => FileError::NoWorkload { file: "w.json".into(), found: "a list" },
        FileError::Schema(_) => FileError::Schema(schema()),
        FileError::Missing { .. } => FileError::Missing { file: "stats.json".into() },
        FileError::OfNoWorkload { .. } => FileError::OfNoWorkload { file: "sweep.json".into() },
    });
    add_texts!(texts, WorkloadError {
        WorkloadError::Schema(_) => WorkloadError::Schema(schema()),
        WorkloadError::File(_) => WorkloadError::File(FileError::Missing { file: "stats.json".into() }),
        WorkloadError::Profile(_) => WorkloadError::Profile(no_profile()),
        WorkloadError::Invalid(_) => WorkloadError::Invalid("threads is 20, but cib has 14 cores".into()),
        WorkloadError::TooLong(_) => {
            WorkloadError::TooLong("a WRITE of 1GiB takes 0.29 s, so 7 of them take 2 s".into())
        },
    });
    texts
}

fn of_systems() -> Vec<String> {
    let mut texts = Vec::new();
    add_texts!(texts, SystemError {
        SystemError::Verbs(_) => SystemError::Verbs(verbs()),
        SystemError::Post(_) => SystemError::Post(post()),
        SystemError::Socket(_) => SystemError::Socket(SocketError::Reset),
        SystemError::Completion(_) => SystemError::Completion(WcStatus::RemAccessErr),
        SystemError::Config(_) => SystemError::Config("16 GETs are outstanding already".into()),
        SystemError::Protocol(_) => SystemError::Protocol("the server's address is not valid".into()),
        SystemError::Interrupted => SystemError::Interrupted,
        SystemError::Timeout(_) => SystemError::Timeout("no reply came within 1 s".into()),
    });
    add_texts!(texts, SiteError {
        SiteError::Memory(_) => SiteError::Memory(verbs()),
        SiteError::Run(_) => SiteError::Run(RunError::Interrupted),
        SiteError::Thread { .. } => {
            let cause = SystemError::Completion(WcStatus::RemAccessErr);
            SiteError::Thread { machine: 1, thread: 0, cause }
        },
        SiteError::Unfinished { .. } => SiteError::Unfinished { machine: 1, thread: 0 },
        SiteError::Said(_) => SiteError::Said("strategy is auto, but only vector-io has auto".into()),
    });
    add_texts!(texts, LiveError {
        LiveError::Refused(_) => LiveError::Refused("io_coherent has no effect on a real device".into()),
        LiveError::Failed(_) => LiveError::Failed(SiteError::Unfinished { machine: 1, thread: 0 }),
    });
    texts
}

fn of_the_lab() -> Vec<String> {
    let mut texts = Vec::new();
    add_texts!(texts, ProgramError {
        ProgramError::Verbs(_) => ProgramError::Verbs(verbs()),
        ProgramError::Post(_) => ProgramError::Post(post()),
        ProgramError::Completion(_) => ProgramError::Completion(WcStatus::RemAccessErr),
    });
    let thread = || SimulateError::Thread { machine: 1, thread: 0, cause: ProgramError::Post(post()) };
    add_texts!(texts, SimulateError {
        SimulateError::TooLarge { .. } => SimulateError::TooLarge { needed: 9 << 30, memory: 8 << 30 },
        SimulateError::Run(_) => SimulateError::Run(RunError::Interrupted),
        SimulateError::Counters(_) => SimulateError::Counters(verbs()),
        SimulateError::Thread { .. } => thread(),
        SimulateError::System(_) => SimulateError::System(SiteError::Memory(verbs())),
        SimulateError::Fault(_) => SimulateError::Fault("110 of 100 posted operations completed".into()),
        SimulateError::Unfinished { .. } => SimulateError::Unfinished { machine: 1, thread: 0 },
        SimulateError::OutOfTime => SimulateError::OutOfTime,
    });
    add_texts!(texts, SweepError {
        SweepError::Refused(_) => SweepError::Refused("the sweep has no points".into()),
        SweepError::Point { .. } => SweepError::Point { at: "qps=4".into(), cause: thread() },
        SweepError::Load(_) => SweepError::Load(LoadError::Cut("qps=4".into())),
    });
    add_texts!(texts, LoadError {
        LoadError::Refused(_) => LoadError::Refused("a load of 70% needs a closed loop".into()),
        LoadError::Run { .. } => LoadError::Run { name: "qps=4".into(), cause: thread() },
        LoadError::Interrupted(_) => LoadError::Interrupted("qps=4".into()),
        LoadError::Cut(_) => LoadError::Cut("qps=4".into()),
    });
    add_texts!(texts, UncertaintyError {
        UncertaintyError::Unknown(_) => UncertaintyError::Unknown("profile lab7 is not calibrated".into()),
        UncertaintyError::Itself => UncertaintyError::Itself,
        UncertaintyError::Cut(_) => UncertaintyError::Cut(12),
        UncertaintyError::Run(_) => UncertaintyError::Run(thread()),
    });
    texts
}

fn of_launches() -> Vec<String> {
    let mut texts = Vec::new();
    let library = || "/opt/doorbell/libibverbs.so".into();
    let unusable = || Distrust::Unknown { path: "/run/user/1000".into(), cause: not_permitted() };
    add_texts!(texts, Distrust {
        Distrust::Owner { .. } => Distrust::Owner { path: library(), owner: 1001 },
        Distrust::Others { .. } => Distrust::Others { path: library(), mode: 0o777 },
        Distrust::NotPrivate { .. } => {
            let found = "a folder of user 0 with mode 0755".into();
            Distrust::NotPrivate { path: "/tmp/meet".into(), found }
        },
        Distrust::Unknown { .. } => unusable(),
    });
    let other_machine = || Unserved::OtherMachine { program: "AArch64".into(), library: "x86-64".into() };
    add_texts!(texts, Unserved {
        Unserved::Static => Unserved::Static,
        Unserved::OtherLoader(_) => Unserved::OtherLoader("/lib/ld-musl-x86_64.so.1".into()),
        Unserved::OtherMachine { .. } => other_machine(),
        Unserved::Privileged(_) => Unserved::Privileged("file capabilities"),
    });
    let not_built = NotBuilt {
        library: library(),
        command: "cargo build -p doorbell-soft-so".into(),
        why: "cargo is missing".into(),
    };
    let address = std::net::IpAddr::from([224, 0, 0, 1]);
    add_texts!(texts, LaunchError {
        LaunchError::NoLibrary(_) => LaunchError::NoLibrary(library()),
        LaunchError::NotBuilt(_) => LaunchError::NotBuilt(not_built),
        LaunchError::NoLibraryOfOurs(_) => LaunchError::NoLibraryOfOurs(library()),
        LaunchError::BadPath(_) => LaunchError::BadPath("/opt/my tools/libibverbs.so".into()),
        LaunchError::Untrusted(_) => {
            LaunchError::Untrusted(Distrust::Others { path: library(), mode: 0o777 })
        },
        LaunchError::NoLinks(_) => LaunchError::NoLinks(unusable()),
        LaunchError::BadFabric(_) => LaunchError::BadFabric("my fabric".into()),
        LaunchError::MeetAlone(_) => LaunchError::MeetAlone("/tmp/meet".into()),
        LaunchError::BadMeeting(_) => LaunchError::BadMeeting(unusable()),
        LaunchError::BadAddress { .. } => {
            LaunchError::BadAddress { address, why: "it is a multicast address" }
        },
        LaunchError::BadRanks(_) => LaunchError::BadRanks(0),
        LaunchError::NoDeviceId(_) => LaunchError::NoDeviceId("e7520-on-die".into()),
        LaunchError::Profile(_) => LaunchError::Profile(no_profile()),
        LaunchError::Json { .. } => LaunchError::Json { path: "stats.json".into(), cause: not_permitted() },
        LaunchError::Trace { .. } => LaunchError::Trace { path: "t.pftrace".into(), cause: not_permitted() },
        LaunchError::Counting(_) => LaunchError::Counting(not_permitted()),
        LaunchError::Unserved { .. } => {
            let file = "/usr/bin/ping".into();
            LaunchError::Unserved { program: "ping".into(), file, why: other_machine() }
        },
        LaunchError::Program { .. } => {
            LaunchError::Program { program: "./blocks".into(), cause: not_permitted() }
        },
    });
    texts
}

#[test]
fn texts_of_all_errors_are_within_the_limits_of_prose() {
    let groups = [of_verbs(), of_workloads(), of_systems(), of_the_lab(), of_launches()];
    let texts: Vec<String> = groups.into_iter().flatten().collect();
    let mut all: Vec<Sentence> = Vec::new();
    for text in texts {
        assert!(!text.is_empty() && !text.contains('\n'), "{text:?} is not one line");
        all.extend(sentences(&Passage { form: Form::Paragraph, text, lines: vec![(0, 1)] }));
    }
    let breaches = Measure::of(&all).breaches(&ProseLimits::USUAL);
    assert!(breaches.is_empty(), "{breaches:?} of {all:#?}");
}
