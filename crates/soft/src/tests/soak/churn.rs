//! Lets hundreds of processes join and leave one fabric. Many of them are killed.

use super::case::{folder, wait_for, wait_until};
use super::crew::{Member, Wrong, connect};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The number of processes on the fabric at a time, besides a server and a client that stay.
const AT_A_TIME: usize = 5;
const SERVER: u32 = 102;

/// Lets processes join and leave for the time `takes`. Returns their number as text.
pub(super) fn run(seed: u64, takes: Duration) -> Result<String, Wrong> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let fabric = format!("churn-{}", std::process::id());
    let mut server = Member::start("server", &fabric);
    let mut client = Member::start("client", &fabric);
    let about = server.ask_numbers("server")?;
    client.ask("client 1")?;
    connect(&mut client, 1, &mut server, SERVER, &about)?;
    server.ask("go")?;
    client.ask("go")?;
    let begin = Instant::now();
    let mut there: VecDeque<(u32, Member)> = VecDeque::new();
    let (mut came, mut killed) = (0, 0);
    while begin.elapsed() < takes {
        came += 1;
        // The server's memory has 16 areas, and the client that stays has area 1. So no `id` is 0 or 1 modulo
        // 16.
        let id = 2 + came + came / 14 * 2;
        let mut member = Member::start(&format!("client {id}"), &fabric);
        member.ask(&format!("client {id}"))?;
        connect(&mut member, id, &mut server, SERVER, &about)?;
        member.ask("go")?;
        there.push_back((id, member));
        std::thread::sleep(Duration::from_millis(random.next_u64() % 40));
        if there.len() == AT_A_TIME {
            // A process leaves before another process with the same area joins.
            let is_old = there.front().is_some_and(|(first, _)| first + 8 < id);
            let which = if is_old { 0 } else { random.next_u64() as usize % there.len() };
            if let Some((id, member)) = there.remove(which) {
                killed += u32::from(let_go(member, &mut random)?);
                server.ask(&format!("leave {id}"))?;
            }
        }
        for (member, about) in [(&mut server, "the server"), (&mut client, "the client")] {
            member.judge().map_err(|wrong| format!("{about}, after {came} processes: {wrong}"))?;
        }
    }
    for (_, member) in there {
        let_go(member, &mut random)?;
    }
    let before = client.counts()?;
    wait_for(&format!("after {came} processes the client stands still"), || {
        client.counts().map(|counts| counts != before)
    })?;
    // The killed processes leave the fabric's files. The next process that begins a fabric removes them.
    client.kill_and_wait();
    server.kill_and_wait();
    let mut next = Member::start("next", &format!("{fabric}-next"));
    next.ask("client 1")?;
    next.end()?;
    if !wait_until(|| folder(&fabric).is_none() && folder(&format!("{fabric}-next")).is_none()) {
        return Err(format!("{:?} is left", folder(&fabric)));
    }
    Ok(format!("{came} processes came and went, {killed} of them killed"))
}

/// Ends or kills a process. Returns whether it was killed.
fn let_go(mut member: Member, random: &mut Xoshiro256PlusPlus) -> Result<bool, Wrong> {
    match random.next_u64() % 4 {
        0 => {
            member.ask("end")?;
            member.judge()?;
            member.end().map(|_| false)
        }
        // The process exits without destroying its objects.
        1 => member.end().map(|_| false),
        2 => {
            member.signal(libc::SIGSTOP);
            std::thread::sleep(Duration::from_millis(random.next_u64() % 100));
            member.kill_and_wait();
            Ok(true)
        }
        _ => {
            member.kill_and_wait();
            Ok(true)
        }
    }
}
