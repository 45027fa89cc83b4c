//! Ping-pong in virtual time.

use doorbell_nic::Profile;
use doorbell_sim::{SimCluster, SimConfig};
use doorbell_systems::config::Timing;
use doorbell_systems::ping_pong::{Message, PingPong};
use doorbell_systems::site::Course;
use doorbell_systems::{Interval, Measured, System};
use doorbell_verbs::{Span, Time};

const ALL: [Message; 6] =
    [Message::WriteRc, Message::WriteUc, Message::SendRc, Message::SendUc, Message::SendUd, Message::ReadRc];

const MEASURED: Span = Span::from_ms(1);

const WARMUP: Span = Span::from_us(100);

/// Measurements of the client and of the server.
fn run(message: Message, size: u32) -> (Measured, Measured) {
    run_game(&PingPong::of(message, size, Timing::of(WARMUP, MEASURED)))
}

fn run_game(game: &PingPong) -> (Measured, Measured) {
    // An RC QP in ping-pong is always idle, and other QPs never are. The comparison leaves this cost out.
    let mut profile = Profile::named("cib").expect("a built-in profile");
    profile.device.tx.idle_qp = Span::ZERO;
    let config = SimConfig { end: Time::START + Span::from_ms(50), ..SimConfig::new(2) };
    let mut cluster = SimCluster::new(&profile, config);
    let course = Course::Fixed(Interval::after(game.shape().begin(), WARMUP, MEASURED));
    let mut ended = game.run(&mut cluster, course).unwrap().expect("all machines are in this process");
    (ended.clients.remove(0), ended.server)
}

fn mean_ns(message: Message, size: u32) -> f64 {
    run(message, size).0.latency.histogram().mean()
}

#[test]
fn each_waits_for_the_other() {
    for message in ALL {
        for size in [1, 64, 300, 4000] {
            let (client, server) = run(message, size);
            let read = message == Message::ReadRc;
            // Messages in both directions follow each other without a gap, so their latencies add up to the
            // measured time.
            let ways = if read { 1.0 } else { 2.0 };
            let filled = ways * client.latency.sum() as f64 / 1e3;
            let part = filled / MEASURED.as_ns() as f64;
            assert!((0.97..1.005).contains(&part), "{message:?} {size}: {part}");
            let answers = if read { 0 } else { client.done };
            assert!(server.replies.abs_diff(answers) <= 1, "{message:?} {size}: {}", server.replies);
        }
    }
}

#[test]
fn longer_messages_take_longer_and_datagrams_as_long_as_their_header() {
    for message in ALL {
        let [short, long] = [1, 4000].map(|size| mean_ns(message, size));
        // On the link alone, 4000 bytes take 587 ns.
        assert!((587.0..2500.0).contains(&(long - short)), "{message:?}: {short} and {long}");
    }
    let [write, send, datagram] = [Message::WriteRc, Message::SendRc, Message::SendUd].map(|m| mean_ns(m, 8));
    assert!(write + 50.0 < send && send < datagram && datagram < send + 150.0, "{write} {send} {datagram}");
}

#[test]
fn payload_is_inlined_up_to_220_bytes_unless_a_parameter_says_otherwise() {
    for message in [Message::WriteRc, Message::SendRc] {
        let mean = |size, inline_bytes| {
            let game = PingPong::of(message, size, Timing::of(WARMUP, MEASURED));
            run_game(&PingPong { inline_bytes, ..game }).0.latency.histogram().mean()
        };
        assert_eq!(mean(64, None), mean(64, Some(220)));
        // Without inlining, the NIC reads the payload by DMA.
        assert!(mean(64, Some(0)) > mean(64, None) + 200.0, "{message:?}");
        assert_eq!(mean(64, Some(63)), mean(64, Some(0)));
        assert_eq!(mean(64, Some(64)), mean(64, None));
        assert_eq!(mean(221, None), mean(221, Some(0)));
    }
}

#[test]
fn what_cannot_be_is_refused_in_one_sentence() {
    let refused =
        |message, size| PingPong::of(message, size, Timing::USUAL).check().expect_err("it cannot be");
    assert_eq!(
        refused(Message::WriteUc, 0),
        "size is 0, but the receiver of a WRITE polls the last byte: use at least 1"
    );
    assert_eq!(
        refused(Message::SendRc, 1 << 27),
        "size is 134217728, but a message of ping-pong has at most 67108864 bytes"
    );
    for message in [Message::SendRc, Message::SendUd, Message::ReadRc] {
        assert!(run(message, 0).0.done > 100, "{message:?} of no bytes");
    }
}
