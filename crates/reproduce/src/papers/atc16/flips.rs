//! Tests that predicates can fail: for each claim, there is a changed profile with which the claim no longer
//! holds.

use super::fig5;
use super::fig11b;
use super::fig12;
use super::fig13;
use super::fig14;
use super::{caches, clients, designs, locks, speculation, tab5};
use crate::experiment::{Check, Ctx, Experiment, Found};
use doorbell_lab::Control;
use doorbell_nic::Profile;
use doorbell_verbs::Span;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

fn ctx() -> Ctx<'static> {
    let control = Control::quiet();
    let mut ctx = Ctx::new(false, control).unwrap();
    (ctx.explains, ctx.hurry) = (false, 2);
    ctx
}

fn checks(experiment: &'static Experiment, change: fn(&mut Profile)) -> Vec<Check> {
    let mut ctx = ctx();
    ctx.profiles.iter_mut().for_each(change);
    let [found] = ctx.find(&[experiment]).unwrap().try_into().ok().expect("one is asked for");
    found.expect("nobody stops it").checks
}

/// Findings of an experiment on the unchanged clusters. Several tests use these findings, so they are
/// computed once.
fn on_the_clusters(experiment: &'static Experiment) -> Arc<OnceLock<Vec<Check>>> {
    static FOUND: Mutex<BTreeMap<&str, Arc<OnceLock<Vec<Check>>>>> = Mutex::new(BTreeMap::new());
    let found = FOUND.lock().unwrap().entry(experiment.name).or_default().clone();
    found.get_or_init(|| checks(experiment, |_| {}));
    found
}

/// Members of `claims` that hold according to these checks.
fn those_that_hold(checks: &[Check], claims: &[&'static str]) -> Vec<&'static str> {
    let holds = |id: &&&'static str| {
        let check = checks.iter().find(|c| c.claim == **id).unwrap_or_else(|| panic!("no {id}"));
        match &check.found {
            Found::Statement { holds, seen } => {
                eprintln!("{id}: {holds}, {seen}");
                *holds
            }
            _ => panic!("{id} is no statement"),
        }
    };
    claims.iter().filter(holds).copied().collect()
}

/// Members of `claims` that hold on the clusters.
fn hold(experiment: &'static Experiment, claims: &[&'static str]) -> Vec<&'static str> {
    those_that_hold(on_the_clusters(experiment).get().unwrap(), claims)
}

/// Members of `claims` that hold on profiles changed by `change`.
fn holding(
    experiment: &'static Experiment,
    change: fn(&mut Profile),
    claims: &[&'static str],
) -> Vec<&'static str> {
    those_that_hold(&checks(experiment, change), claims)
}

/// All of `claims` hold on the clusters, and none on clusters changed by `change`.
fn flips(experiment: &'static Experiment, change: fn(&mut Profile), claims: &[&'static str]) {
    assert_eq!(hold(experiment, claims), claims, "on the clusters");
    assert_eq!(holding(experiment, change, claims), [""; 0], "on the others");
}

const LONG: Span = Span::from_ns(2000);

#[test]
fn ladder_and_default_method() {
    let change = |p: &mut Profile| {
        (p.device.nic.doorbell_reads_all, p.device.nic.wqe_prefetch) = (false, 1);
        (p.host.mmio_line, p.device.pcie.read_latency) = (LONG, Span::from_ns(1));
    };
    flips(
        &fig5::EXPERIMENT,
        change,
        &["atc16-s32-batching-adds-dma", "atc16-fig5-stack", "atc16-s31-mmio-default"],
    );
}

#[test]
fn several_queue_pairs() {
    let quick =
        |p: &mut Profile| (p.device.tx.send, p.device.tx.fetched_wqe) = (Span::from_ns(10), Span::ZERO);
    flips(&fig11b::EXPERIMENT, quick, &["atc16-mq-1qp-batch-hurts", "atc16-fig11b-labels"]);
    let slow = |p: &mut Profile| p.device.tx.send = LONG;
    flips(&fig11b::EXPERIMENT, slow, &["atc16-mq-nonbatch-flat"]);
    let single = |p: &mut Profile| p.device.tx.units = 1;
    flips(&fig11b::EXPERIMENT, single, &["atc16-s33-qp-pu", "atc16-s33-multiqueue-when"]);
}

#[test]
fn rankings_of_verbs() {
    flips(&tab5::EXPERIMENT, |p| p.device.tx.send = LONG, &["atc16-s6-offset"]);
    let free_writes =
        |p: &mut Profile| (p.device.rx.dma_write, p.device.rx.packet) = (Span::ZERO, Span::from_ns(500));
    flips(
        &fig12::EXPERIMENT,
        free_writes,
        &["atc16-s32-regular-recv-lt-write", "atc16-recv-slow-reason", "atc16-read-cib-small-better"],
    );
    let wide_link =
        |p: &mut Profile| (p.device.rx.dma_write, p.device.link.port_bytes_per_s) = (Span::ZERO, 1 << 40);
    flips(&fig12::EXPERIMENT, wide_link, &["atc16-fig12-shape", "atc16-fig12-axes"]);
    let slow_polls = |p: &mut Profile| p.host.poll_cqe = LONG;
    flips(&fig12::EXPERIMENT, slow_polls, &["atc16-ho-recv-eq-write", "atc16-seq-ho-recv-eq-write"]);
}

/// These claims do not hold on the clusters, but they hold on other profiles.
#[test]
fn what_is_missed_could_hold() {
    let missed = ["atc16-read-cx3-flat", "atc16-fig12-limits"];
    assert_eq!(hold(&fig12::EXPERIMENT, &missed), [""; 0]);
    let slow_units = |p: &mut Profile| p.device.rx.packet = p.device.rx.packet * 3;
    assert_eq!(holding(&fig12::EXPERIMENT, slow_units, &missed[..1]), missed[..1]);
}

#[test]
fn windows_and_misses() {
    let large = |p: &mut Profile| {
        (p.device.caches.wqe_entries, p.device.caches.wqe_stall) = (1 << 20, Span::ZERO);
        p.device.caches.read_wqe_entries = 1 << 20;
    };
    flips(&fig13::EXPERIMENT, large, &["atc16-wqe-not-monotone", "atc16-wqe-miss-points"]);
    let small = |p: &mut Profile| {
        p.device.caches.wqe_entries = 16;
        (p.device.tx.read_request, p.device.rx.ack) = (Span::from_ns(1), LONG);
    };
    flips(&fig13::EXPERIMENT, small, &["atc16-wqe-read-costlier"]);
    let tiny = |p: &mut Profile| p.device.caches.wqe_entries = 4;
    flips(&fig13::EXPERIMENT, tiny, &["atc16-wqe-cib-write-nomiss"]);
}

#[test]
fn pages_and_queue_pairs() {
    flips(&caches::EXPERIMENT, |p| p.device.caches.translation_entries = 1, &["atc16-s35-hugepages"]);
    let all_contexts = |p: &mut Profile| {
        (p.device.caches.requester_entries, p.device.caches.responder_entries) = (1 << 16, 1 << 16)
    };
    flips(&caches::EXPERIMENT, all_contexts, &["atc16-s35-fewer-qps"]);
}

#[test]
fn locks_of_atomics() {
    let page_bits = |p: &mut Profile| {
        (p.device.atomics.slots, p.device.atomics.slot_low_bit) = (64, 12);
        p.device.pcie.read_latency = LONG;
    };
    flips(
        &fig14::EXPERIMENT,
        page_bits,
        &[
            "atc16-atomics-page-aligned",
            "atc16-atomics-cib-rises",
            "atc16-seq-lock-hold",
            "atc16-s54-lock-service",
        ],
    );
    let many = |p: &mut Profile| (p.device.atomics.slots, p.device.atomics.slot_low_bit) = (64, 3);
    flips(&fig14::EXPERIMENT, many, &["atc16-atomics-cx3-indep-z"]);
    flips(&locks::EXPERIMENT, |p| p.device.atomics.slots = 1, &["atc16-atomics-12lsb"]);
}

#[test]
fn numbers_of_clients() {
    let all = ["atc16-intro-rpc-less-scalable", "doorbell-requests-cross", "atc16-s41-herd-rpc-cost"];
    assert_eq!(hold(&clients::EXPERIMENT, &all), all, "on the clusters");
    let no_misses = |p: &mut Profile| p.device.caches.responder_entries = 1 << 16;
    assert_eq!(holding(&clients::EXPERIMENT, no_misses, &all[..2]), [""; 0]);
    let only_requests_miss = |p: &mut Profile| {
        (p.device.caches.requester_entries, p.device.caches.responder_entries) = (1 << 16, 100)
    };
    assert_eq!(holding(&clients::EXPERIMENT, only_requests_miss, &all[2..]), [""; 0]);
}

/// The claim does not hold on the clusters, because two of them cache few contexts. It holds if all clusters
/// cache as many contexts as Connect-IB, and read contexts as Connect-IB does.
#[test]
fn the_limit_of_clients_could_hold() {
    let limit = ["atc16-seq-rpc-client-limit"];
    assert_eq!(hold(&clients::EXPERIMENT, &limit), [""; 0]);
    let as_on_cib = |p: &mut Profile| {
        let cib = Profile::named("cib").expect("a built-in profile");
        p.device.caches.responder_entries = cib.device.caches.responder_entries;
        p.device.caches.context_reads = cib.device.caches.context_reads;
    };
    assert_eq!(holding(&clients::EXPERIMENT, as_on_cib, &limit), limit);
}

#[test]
fn the_best_designs() {
    let slow_recvs = |p: &mut Profile| p.host.post_recv_wqe = LONG;
    flips(&designs::EXPERIMENT, slow_recvs, &["atc16-intro-no-single-best"]);
}

#[test]
fn what_speculation_gains() {
    let slow_requests = |p: &mut Profile| p.device.rx.packet = LONG;
    flips(
        &speculation::EXPERIMENT,
        slow_requests,
        &["doorbell-speculation-gain", "doorbell-speculation-puts"],
    );
}
