//! Runs a cluster's threads until they end.

use crate::exchange::{Exchange, Stopped};
use doorbell_verbs::RunError;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

/// A thread to run: its name and its body.
pub(crate) struct Thread {
    pub(crate) name: String,
    pub(crate) body: Box<dyn FnOnce() + Send>,
}

/// A started thread's name and its handle.
type Started = (String, JoinHandle<Result<(), Box<dyn Any + Send>>>);

/// Runs `threads` concurrently until all have ended. If a thread panics, each other thread unwinds at its
/// next `check` of `exchange`, or in a `lookup` that has to wait.
pub(crate) fn run(exchange: &Arc<Exchange>, threads: Vec<Thread>) -> Result<(), RunError> {
    exchange.begin(threads.len());
    let mut cpus = processors(threads.len()).into_iter();
    let started: Vec<_> = threads.into_iter().map(|thread| start(thread, exchange, cpus.next())).collect();
    // Join all threads before returning the first failure.
    let ended: Vec<_> = started.into_iter().map(|thread| thread.and_then(join)).collect();
    let failed = ended.into_iter().collect();
    match exchange.deadlock() {
        _ if exchange.is_interrupted() => Err(RunError::Interrupted),
        Some(who) => Err(RunError::Deadlock(who)),
        None => failed,
    }
}

/// A processor for each thread. Empty if this process may use fewer processors than threads.
fn processors(threads: usize) -> Vec<usize> {
    let Ok(allowed) = sched_getaffinity(None) else { return Vec::new() };
    let cpus: Vec<_> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).take(threads).collect();
    if cpus.len() == threads { cpus } else { Vec::new() }
}

/// Pins the calling thread to `cpu`. Errors are ignored, because correctness does not depend on pinning.
fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    let _ = sched_setaffinity(None, &set);
}

fn start(thread: Thread, exchange: &Arc<Exchange>, cpu: Option<usize>) -> Result<Started, RunError> {
    let Thread { name, body } = thread;
    let of_thread = exchange.clone();
    let main = move || {
        if let Some(cpu) = cpu {
            pin(cpu);
        }
        let outcome = catch_unwind(AssertUnwindSafe(body));
        if outcome.is_err() {
            of_thread.stop();
        }
        of_thread.end();
        outcome
    };
    match Builder::new().name(name.clone()).spawn(main) {
        Ok(handle) => Ok((name, handle)),
        Err(cause) => {
            exchange.stop();
            exchange.end();
            Err(RunError::Setup(format!("{name} cannot be started: {cause}")))
        }
    }
}

/// Waits until a thread ends. A thread that was stopped has not failed.
fn join((thread, handle): Started) -> Result<(), RunError> {
    // The thread catches panics of its body, so an inner error and an outer error both mean a panic.
    match handle.join().unwrap_or_else(Err) {
        Err(payload) if !payload.is::<Stopped>() => {
            Err(RunError::Panicked { thread, message: message(payload.as_ref()) })
        }
        _ => Ok(()),
    }
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    type Body = fn(&str, &Exchange);

    fn run_all(bodies: &[(&str, Body)]) -> Result<(), RunError> {
        let exchange = Arc::new(Exchange::default());
        let thread = |&(name, body): &(&str, Body)| {
            let (exchange, name) = (exchange.clone(), name.to_owned());
            Thread { name: name.clone(), body: Box::new(move || body(&name, &exchange)) }
        };
        run(&exchange, bodies.iter().map(thread).collect())
    }

    #[test]
    fn threads_find_what_others_publish() {
        let ended = run_all(&[
            ("a", |name, x| {
                assert_eq!(x.lookup(name, "from b"), b"one");
                x.publish("from a", b"two");
                x.publish("from a", b"three");
                x.publish("ready", &[]);
            }),
            ("b", |name, x| {
                x.publish("from b", b"one");
                x.lookup(name, "ready");
                assert_eq!(x.lookup(name, "from a"), b"three");
            }),
        ]);
        assert_eq!(ended, Ok(()));
    }

    #[test]
    fn a_panic_ends_those_that_wait_and_is_told() {
        for _ in 0..100 {
            let ended = run_all(&[
                ("waits", |name, x| drop(x.lookup(name, "never"))),
                ("spins", |_, x| {
                    loop {
                        x.check();
                    }
                }),
                ("panics", |_, _| std::panic::resume_unwind(Box::new("on purpose"))),
            ]);
            let message = "on purpose".into();
            assert_eq!(ended, Err(RunError::Panicked { thread: "panics".into(), message }));
        }
    }

    /// Both the thread that checks and the thread that waits end.
    #[test]
    fn an_interrupt_ends_all() {
        let exchange = Arc::new(Exchange::default());
        let flag = Arc::new(AtomicBool::new(false));
        exchange.interrupted_by(flag.clone());
        let (spins, waits) = (exchange.clone(), exchange.clone());
        let spins = move || {
            flag.store(true, Ordering::Relaxed);
            loop {
                spins.check();
            }
        };
        let thread = |name: &str, body| Thread { name: name.into(), body };
        let threads = vec![
            thread("spins", Box::new(spins)),
            thread("waits", Box::new(move || drop(waits.lookup("waits", "never")))),
        ];
        assert_eq!(run(&exchange, threads), Err(RunError::Interrupted));
    }

    #[test]
    fn waiting_for_each_other_is_a_deadlock() {
        let ended = run_all(&[
            ("a", |name, x| drop(x.lookup(name, "from b"))),
            ("b", |name, x| drop(x.lookup(name, "from a"))),
        ]);
        let Err(RunError::Deadlock(who)) = ended else { panic!("{ended:?}") };
        assert!(who.contains("a waits for \"from b\"") && who.contains("b waits for \"from a\""), "{who}");
    }

    #[test]
    fn waiting_for_a_thread_that_has_ended_is_a_deadlock() {
        let ended = run_all(&[("a", |name, x| drop(x.lookup(name, "from b"))), ("b", |_, _| {})]);
        assert_eq!(ended, Err(RunError::Deadlock("a waits for \"from b\"".into())));
    }

    #[test]
    fn a_chain_of_waits_is_no_deadlock() {
        for _ in 0..100 {
            let ended = run_all(&[
                ("a", |name, x| {
                    x.lookup(name, "1");
                    x.publish("2", &[]);
                    x.lookup(name, "3");
                }),
                ("b", |name, x| {
                    x.publish("1", &[]);
                    x.lookup(name, "2");
                    x.publish("3", &[]);
                }),
            ]);
            assert_eq!(ended, Ok(()));
        }
    }

    #[test]
    fn a_run_begins_with_nothing_published() {
        let exchange = Arc::new(Exchange::default());
        let thread = |body: fn(&Exchange)| {
            let exchange = exchange.clone();
            vec![Thread { name: "a".into(), body: Box::new(move || body(&exchange)) }]
        };
        run(&exchange, thread(|x| x.publish("key", &[]))).unwrap();
        let ended = run(&exchange, thread(|x| drop(x.lookup("a", "key"))));
        assert_eq!(ended, Err(RunError::Deadlock("a waits for \"key\"".into())));
    }
}
