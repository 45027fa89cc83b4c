//! `doorbell run` behaves like the program itself: exit status, signals, stops, terminal and files.

use crate::common::{doorbell, library};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A test fails if it waits for longer than this.
const PATIENCE: Duration = Duration::from_secs(150);

/// The `doorbell` command with a terminal's signal dispositions. If a script runs the tests in the
/// background, they ignore SIGINT and SIGQUIT. Without this function, the command would ignore them, too.
pub(crate) fn as_in_a_terminal() -> Command {
    let mut command = doorbell();
    let usual = || {
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
            // SAFETY: the function takes only numbers.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        Ok(())
    };
    // SAFETY: the closure only makes system calls.
    unsafe { command.pre_exec(usual) };
    command
}

/// `doorbell run` of a program.
fn launched(program: &[&str]) -> Command {
    launched_with(&[], program)
}

/// `doorbell run` of a program with these options.
fn launched_with(options: &[&str], program: &[&str]) -> Command {
    let mut command = as_in_a_terminal();
    let fabric = format!("launch-{}", std::process::id());
    command.args(["run", "--fabric", &fabric, "--lib"]).arg(library()).args(options).arg("--").args(program);
    command
}

/// Output and exit status of a command.
fn run(command: &mut Command) -> (String, ExitStatus) {
    let output = command.stdin(Stdio::null()).output().expect("it runs");
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status)
}

/// Waits until a condition holds.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A launched program in its own process group, and its output.
pub(crate) struct Running {
    pub(crate) child: Child,
    says: BufReader<ChildStdout>,
}

impl Running {
    pub(crate) fn new(mut command: Command) -> Running {
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().expect("it starts");
        let says = BufReader::new(child.stdout.take().expect("it is piped"));
        Running { child, says }
    }

    /// Waits for the next line that contains `begin`. Returns the text of the line after `begin`.
    pub(crate) fn line(&mut self, begin: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.says.read_line(&mut line).expect("it can be read") > 0, "it ended before {begin:?}");
            if let Some(at) = line.find(begin) {
                return line[at + begin.len()..].trim().to_owned();
            }
        }
    }

    fn pid(&self) -> libc::pid_t {
        self.child.id() as libc::pid_t
    }

    pub(crate) fn signal(&self, signal: libc::c_int) {
        kill(self.pid(), signal);
    }

    pub(crate) fn signal_group(&self, signal: libc::c_int) {
        kill(-self.pid(), signal);
    }

    /// Waits until the process is stopped. Returns the signal that stopped it.
    pub(crate) fn stopped(&self) -> Option<libc::c_int> {
        let mut status = 0;
        // SAFETY: the child is ours, and the variable is a local one.
        let changed = unsafe { libc::waitpid(self.pid(), &mut status, libc::WUNTRACED) };
        assert_eq!(changed, self.pid());
        ExitStatus::from_raw(status).stopped_signal()
    }

    pub(crate) fn end(mut self) -> ExitStatus {
        self.child.wait().expect("it ends")
    }
}

fn kill(to: libc::pid_t, signal: libc::c_int) {
    // SAFETY: the function takes only numbers.
    assert_eq!(unsafe { libc::kill(to, signal) }, 0, "signal {signal} to {to}");
}

/// State of a process as in proc(5); `None` if it does not exist.
pub(crate) fn state(pid: &str) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

#[test]
fn it_ends_as_the_program_does() {
    for end in [
        "exit 0",
        "exit 77",
        "kill -TERM $$",
        "kill -KILL $$",
        "kill -ABRT $$",
        "kill -SEGV $$",
        "kill -PIPE $$",
    ] {
        let program = ["sh", "-c", end];
        let (_, alone) = run(Command::new(program[0]).args(&program[1..]));
        for options in [&[][..], &["--stats"]] {
            let (_, launched) = run(&mut launched_with(options, &program));
            let seen = |status: ExitStatus| (status.code(), status.signal());
            assert_eq!(seen(launched), seen(alone), "{end} {options:?}");
        }
    }
    let (_, missing) = run(launched(&["/nonexistent/program"]).stderr(Stdio::null()));
    assert_eq!(missing.code(), Some(127));
}

#[test]
fn the_program_finds_files_and_signals_as_they_were() {
    let files = "ls -l /proc/self/fd | grep -o '[0-9]* -> .*' | grep -v proc; pwd";
    let programs = [&["grep", "^Sig[BIC]", "/proc/self/status"][..], &["sh", "-c", files]];
    let prepared = |command: &mut Command| {
        let change = || {
            // SAFETY: the functions take only numbers and a local set.
            unsafe {
                // A shell lets commands in the background ignore SIGINT and SIGQUIT, and nohup(1) lets a
                // command ignore SIGHUP. `launched` does not.
                for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP] {
                    libc::signal(signal, libc::SIG_DFL);
                }
                libc::signal(libc::SIGCHLD, libc::SIG_IGN);
                libc::signal(libc::SIGUSR2, libc::SIG_IGN);
                let mut blocked = std::mem::zeroed();
                libc::sigaddset(&mut blocked, libc::SIGUSR1);
                libc::sigprocmask(libc::SIG_BLOCK, &blocked, std::ptr::null_mut());
                libc::dup2(0, 7);
            }
            Ok(())
        };
        // SAFETY: the closure only makes system calls.
        unsafe { command.pre_exec(change) };
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let mut text = String::new();
        child.stdout.take().expect("it is piped").read_to_string(&mut text).expect("it can be read");
        child.wait().expect("it ends");
        // The numbers of pipes differ between runs.
        text.lines().filter(|line| !line.contains("pipe:")).map(str::to_owned).collect::<Vec<_>>()
    };
    for (program, expected) in programs.iter().zip(["SigBlk:\t0000000000000200", "7 -> /dev/null"]) {
        let alone = prepared(Command::new(program[0]).args(&program[1..]));
        assert!(alone.iter().any(|line| line == expected), "{alone:?}");
        for options in [&[][..], &["--stats"]] {
            assert_eq!(prepared(&mut launched_with(options, program)), alone, "{options:?}");
        }
    }
}

/// A program that prints the signals that it receives, until SIGTERM. [`listening`] starts it with all
/// signals blocked.
#[test]
#[ignore = "a program that the other tests run"]
fn listener() {
    println!("> ready {}", std::process::id());
    // SAFETY: uses local sets and local memory.
    unsafe {
        libc::alarm(60);
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        loop {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let signal = libc::sigwaitinfo(&all, &mut info);
            println!("> {signal}");
            match signal {
                libc::SIGTERM | libc::SIGALRM => std::process::exit(signal - 6),
                _ if info.si_code == libc::SI_QUEUE => {
                    println!("> value {}", info.si_value().sival_ptr as usize as u32)
                }
                _ => {}
            }
        }
    }
}

/// Launches [`listener`]. Returns it and its PID.
fn listening() -> (Running, String) {
    let file = std::env::current_exe().expect("the test has a file");
    let mut command = launched(&[
        file.to_str().expect("text"),
        "--exact",
        "launch::listener",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ]);
    let blocked = || {
        // SAFETY: uses a local set.
        unsafe {
            let mut all = std::mem::zeroed();
            libc::sigfillset(&mut all);
            libc::sigprocmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
        }
        Ok(())
    };
    // SAFETY: the closure only makes system calls.
    unsafe { command.pre_exec(blocked) };
    let mut running = Running::new(command);
    let pid = running.line("> ready ");
    (running, pid)
}

#[test]
fn each_signal_reaches_the_program_once_to_it_alone_or_to_its_group() {
    let (mut running, _) = listening();
    // Real-time signals are queued, so each of several pending ones is delivered. They are delivered after
    // all other signals.
    let (first, last) = (libc::SIGRTMIN() + 1, libc::SIGRTMAX() - 1);
    let signals = [libc::SIGINT, libc::SIGHUP, libc::SIGUSR1, libc::SIGWINCH, libc::SIGCONT, first];
    for round in 0..20 {
        for signal in signals {
            if round % 2 == 0 {
                running.signal(signal)
            } else {
                running.signal_group(signal)
            }
            assert_eq!(running.line("> "), signal.to_string(), "round {round}");
            // A duplicate of `signal` would arrive before `last`.
            running.signal(last);
            assert_eq!(running.line("> "), last.to_string(), "round {round}, signal {signal}");
        }
    }
    // SAFETY: the function takes only numbers.
    unsafe { libc::sigqueue(running.pid(), first, libc::sigval { sival_ptr: 77 as *mut _ }) };
    assert_eq!((running.line("> "), running.line("> ")), (first.to_string(), "value 77".to_owned()));
    running.signal_group(libc::SIGTERM);
    assert_eq!(running.line("> "), libc::SIGTERM.to_string());
    assert_eq!(running.end().code(), Some(9));
}

#[test]
fn it_is_stopped_and_continued_as_the_program_is() {
    for stop in [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN] {
        for continued_by in ["launcher", "group", "program"] {
            let script = format!("echo pid $$; kill -{stop} $$; echo on; exit 4");
            let mut running = Running::new(launched(&["sh", "-c", &script]));
            let pid = running.line("pid ");
            assert_eq!(running.stopped(), Some(stop), "{continued_by}");
            assert_eq!(state(&pid), Some('T'));
            match continued_by {
                "launcher" => running.signal(libc::SIGCONT),
                "group" => running.signal_group(libc::SIGCONT),
                _ => kill(pid.parse().expect("a number"), libc::SIGCONT),
            }
            running.line("on");
            assert_eq!(running.end().code(), Some(4), "{stop} {continued_by}");
        }
    }
}

#[test]
fn a_stop_of_the_group_that_is_soon_over_leaves_nobody_stopped() {
    let (mut running, pid) = listening();
    for _ in 0..200 {
        running.signal_group(libc::SIGSTOP);
        running.signal_group(libc::SIGCONT);
    }
    for pid in [&pid, &running.pid().to_string()] {
        until("it runs", || state(pid).is_some_and(|state| state != 'T'));
    }
    running.signal(libc::SIGTERM);
    while running.line("> ") != libc::SIGTERM.to_string() {}
    assert_eq!(running.end().code(), Some(9));
}

#[test]
fn who_kills_it_kills_the_program() {
    let (running, pid) = listening();
    running.signal(libc::SIGKILL);
    assert_eq!(running.end().signal(), Some(libc::SIGKILL));
    until("the program has ended", || matches!(state(&pid), None | Some('Z')));
}

#[test]
fn files_that_the_program_closes_are_closed() {
    let mut command =
        launched(&["sh", "-c", "trap 'exit 6' TERM; exec <&- >&-; while :; do sleep 0.01; done"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut rest = Vec::new();
    // This read ends when the program closes its output, although the program continues.
    child.stdout.take().expect("it is piped").read_to_end(&mut rest).expect("it can be read");
    let mut hears = child.stdin.take().expect("it is piped");
    until("nobody reads", || hears.write_all(b"x").is_err());
    kill(child.id() as libc::pid_t, libc::SIGTERM);
    assert_eq!(child.wait().expect("it ends").code(), Some(6));
}

/// A terminal with a job-control shell.
struct Terminal {
    shell: Child,
    typed: File,
    shown: String,
    shows: std::sync::mpsc::Receiver<String>,
}

impl Terminal {
    fn new() -> Option<Terminal> {
        use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let controller = openpt(flags).ok()?;
        grantpt(&controller).and_then(|()| unlockpt(&controller)).ok()?;
        let terminal: OwnedFd = ioctl_tiocgptpeer(&controller, flags).ok()?;
        let same = || Stdio::from(terminal.try_clone().expect("it can be"));
        let mut command = Command::new("bash");
        command.args(["--norc", "--noprofile", "-i"]).env("PS1", "").env("PS2", "").env("TERM", "dumb");
        command.stdin(same()).stdout(same()).stderr(same());
        let takes = || {
            // SAFETY: the functions take only numbers, and standard input is the terminal. Signals get their
            // default disposition, because a shell cannot trap signals that the test runner ignores.
            unsafe {
                for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
                    libc::signal(signal, libc::SIG_DFL);
                }
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
            }
            Ok(())
        };
        // SAFETY: the closure only makes system calls.
        unsafe { command.pre_exec(takes) };
        let shell = command.spawn().ok()?;
        let typed = File::from(controller);
        let mut screen = typed.try_clone().ok()?;
        let (shown, shows) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 1024];
            while let Ok(n @ 1..) = screen.read(&mut bytes) {
                let _ = shown.send(String::from_utf8_lossy(&bytes[..n]).into_owned());
            }
        });
        Some(Terminal { shell, typed, shown: String::new(), shows })
    }

    fn types(&mut self, text: &str) {
        self.typed.write_all(text.as_bytes()).expect("the terminal is there");
    }

    /// Types `typed` repeatedly until `text` is shown.
    fn shows_when_typed(&mut self, text: &str, typed: &str, pause: Duration) {
        // A terminal buffers 4096 unread bytes. Further writes block.
        let (begin, mut left) = (Instant::now(), 2048 / typed.len());
        while !self.shown.contains(text) {
            let shown = &self.shown;
            assert!(begin.elapsed() < PATIENCE, "{text:?} is not shown, but {shown:?}; {}", self.processes());
            if left > 0 {
                self.types(typed);
                left -= 1;
            }
            std::thread::sleep(pause);
            self.shown.extend(self.shows.try_iter());
        }
    }

    /// The processes of the shell's session: folder below /proc, and the text of `stat`.
    fn session(&self) -> Vec<(PathBuf, String)> {
        let session = |stat: &str| stat.rsplit(')').next()?.split(' ').nth(4)?.parse::<u32>().ok();
        let own = |stat: &String| session(stat) == Some(self.shell.id());
        let all = std::fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
            let stat = std::fs::read_to_string(entry.path().join("stat")).ok().filter(own)?;
            Some((entry.path(), stat))
        });
        all.collect()
    }

    /// Whether a process of the shell's session with this name sleeps.
    fn sleeps(&self, name: &str) -> bool {
        self.session().iter().any(|(_, stat)| stat.contains(&format!("({name}) S ")))
    }

    /// Describes the processes of the shell's session, to explain why a text is not shown: name, state,
    /// group, foreground group and signal masks of each process.
    fn processes(&self) -> String {
        let all = self.session().into_iter().filter_map(|(folder, stat)| {
            let status = std::fs::read_to_string(folder.join("status")).ok()?;
            let signals: Vec<&str> = status.lines().filter(|line| line.starts_with("Sig")).collect();
            let begin: Vec<&str> = stat.split(' ').take(8).collect();
            Some(format!("{}: {}", begin.join(" "), signals.join(" ")))
        });
        all.collect::<Vec<_>>().join("\n")
    }

    /// Waits until the terminal shows `text`, then forgets everything up to the end of `text`.
    fn shows(&mut self, text: &str) {
        loop {
            if let Some(at) = self.shown.find(text) {
                self.shown.drain(..at + text.len());
                return;
            }
            match self.shows.recv_timeout(PATIENCE) {
                Ok(more) => self.shown.push_str(&more),
                Err(_) => panic!("{text:?} is not shown, but {:?}; {}", self.shown, self.processes()),
            }
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

#[test]
fn a_shell_with_job_control_sees_no_more_than_the_program() {
    let Some(mut terminal) = Terminal::new() else {
        return eprintln!("skipped: no terminal, or bash is not installed");
    };
    let typed = |program: &[&str]| {
        let command = launched(program);
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        words.map(|word| format!("'{}'", word.to_str().expect("text"))).collect::<Vec<_>>().join(" ")
    };
    // The terminal shows typed text, too, so typed text must not contain the awaited text.
    let script = "echo rea\"\"dy; read line; echo got-$line; read line; echo got-$line; exit 5";
    let reads = typed(&["sh", "-c", script]);
    terminal.types(&format!("{reads}; echo code=$?\n"));
    terminal.shows("ready");
    terminal.types("one\n");
    terminal.shows("got-one");
    terminal.types("\x1a");
    terminal.shows("Stopped");
    terminal.shows("code=148");
    terminal.types("jobs; fg; echo after=$?\n");
    terminal.shows("Stopped");
    terminal.types("two\n");
    terminal.shows("got-two");
    terminal.shows("after=5");
    // If the program reads in the background, it stops.
    terminal.types(&format!("{reads} &\n"));
    terminal.shows("ready");
    terminal.types("\n\n");
    terminal.shows_when_typed("Stopped", "jobs\n", Duration::from_millis(50));
    terminal.types("fg; echo after=$?\n");
    terminal.types("three\nfour\n");
    terminal.shows("got-four");
    terminal.shows("after=5");
    // Ctrl-C arrives at a program that has left the launcher's process group, too.
    let script = "trap \"echo in\\\"\\\"t; exit 7\" INT; echo rea\"\"dy; while :; do sleep 0.01; done";
    for leaves in [&["timeout", "60"][..], &["setsid"]] {
        let program = typed(&[leaves, &["sh", "-c", script]].concat());
        terminal.types(&format!("{program}; echo code=$?\n"));
        terminal.shows("ready");
        // Until timeout(1) knows the PID of its child, a signal ends timeout alone. On a busy machine, the
        // child is ready before that.
        if leaves[0] == "timeout" {
            until("timeout waits for its child", || terminal.sleeps("timeout"));
        }
        terminal.types("\x03");
        terminal.shows("int");
        terminal.shows("code=7");
    }
    // Ctrl-C arrives at the program's trap.
    let script = "trap \"echo in\\\"\\\"t\" INT; echo rea\"\"dy; read line; read line; trap - INT; read line";
    let counts = typed(&["sh", "-c", script]);
    terminal.types(&format!("{counts}; echo code=$?\n"));
    terminal.shows("ready");
    // If a signal arrives before the shell waits in `read`, the shell handles it only at the next signal. So
    // Ctrl-C is typed repeatedly.
    terminal.shows_when_typed("int", "\x03", Duration::from_millis(200));
}
