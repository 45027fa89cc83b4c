//! Doorbell registers and the rule for BlueFlame of mlx5's driver.

use doorbell_nic::generation::{Announcement, PostingRule, REGISTER_ZERO, UuarUse, Uuars, wqe_units};
use doorbell_nic::limits::{self, Mix, Pattern};
use doorbell_nic::wqe::Payload;
use doorbell_nic::{Device, DriverSettings, Method, PostShape, Profile};
use doorbell_verbs::{Opcode, QpType, Span};

/// cib with the doorbell registers of its driver.
fn with_registers(total: u32, low_latency: u32) -> Profile {
    parse(total, low_latency, "").unwrap_or_else(|why| panic!("{why}"))
}

fn parse(total: u32, low_latency: u32, more: &str) -> Result<Profile, String> {
    let published = |value: u32| format!("{{ value = {value}, basis = \"published\", source = \"a test\" }}");
    let text = format!(
        "name = \"registers\"\ntitle = \"\"\nbase = \"cib\"\n{more}[registers]\ntotal = {}\nlow_latency = {}\n\
         blueflame_bytes = {}\n",
        published(total),
        published(low_latency),
        published(256)
    );
    Profile::parse("registers.toml", &text).map_err(|error| error.to_string())
}

/// Registers of the first `qps` QPs.
fn taken(uuars: Uuars, qps: usize) -> Vec<u32> {
    let mut of = UuarUse::of(uuars);
    (0..qps).map(|_| of.take()).collect()
}

#[test]
fn qps_get_registers_in_the_order_of_the_kernel() {
    let usual = Uuars::new(16, 4).unwrap();
    assert_eq!((usual.total(), usual.shared(), usual.first_low_latency()), (16, 11, 12));
    let first = taken(usual, 27);
    assert_eq!(first[..4], [12, 13, 14, 15]);
    assert_eq!(first[4..15], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    assert_eq!(first[15..26], first[4..15], "the second round shares");
    assert_eq!(first[26], 1);
    for register in 0..16 {
        assert_eq!(usual.is_shared(register), (1..12).contains(&register), "{register}");
    }
    // 96 QPs: 4 alone, and 8 or 9 on each of 11 registers.
    let all = taken(usual, 96);
    let on = |register| all.iter().filter(|taken| **taken == register).count();
    assert_eq!((1..12).map(on).collect::<Vec<_>>(), [9, 9, 9, 9, 8, 8, 8, 8, 8, 8, 8]);
    assert_eq!(on(REGISTER_ZERO), 0);
}

#[test]
fn register_zero_is_used_if_none_is_shared() {
    let none_shared = Uuars::new(4, 3).unwrap();
    assert_eq!(none_shared.shared(), 0);
    assert_eq!(taken(none_shared, 6), [1, 2, 3, 0, 0, 0]);
    assert!(!none_shared.is_shared(REGISTER_ZERO));
}

#[test]
fn a_register_of_a_destroyed_qp_is_used_again() {
    let mut of = UuarUse::of(Uuars::new(16, 4).unwrap());
    let first: Vec<u32> = (0..16).map(|_| of.take()).collect();
    assert_eq!(first[15], 1);
    of.put(13);
    of.put(5);
    assert_eq!([of.take(), of.take(), of.take()], [13, 5, 2]);
}

#[test]
fn what_is_asked_for_is_rounded_as_libmlx5_rounds_it() {
    for (total, low_latency, got) in [
        (1, 0, (2, 1)),
        (2, 1, (2, 0)),
        (15, 4, (16, 11)),
        // More than 12 registers that are no low-latency ones do not exist.
        (100, 4, (100, 11)),
        (100, 96, (100, 3)),
        (512, 0, (512, 11)),
    ] {
        let uuars = Uuars::new(total, low_latency).unwrap();
        assert_eq!((uuars.total(), uuars.shared()), got, "{total} {low_latency}");
    }
    for (total, low_latency, part) in [
        (0, 0, "a context has 1 to 512 doorbell registers, not 0"),
        (513, 4, "a context has 1 to 512 doorbell registers, not 513"),
        (16, 16, "at most 15 of 16 doorbell registers are low-latency ones, not 16"),
    ] {
        let error = Uuars::new(total, low_latency).unwrap_err();
        assert!(error.starts_with(part), "{error}");
    }
}

#[test]
fn sizes_of_wqes_are_those_that_the_driver_counts() {
    let units = |opcode, qp_type, payload| wqe_units(opcode, qp_type, payload);
    for (opcode, qp_type, payload, size) in [
        (Opcode::Send, QpType::Rc, Payload::None, 1),
        (Opcode::Send, QpType::Rc, Payload::Sges(1), 2),
        (Opcode::SendWithImm, QpType::Uc, Payload::Inline(12), 2),
        (Opcode::SendWithImm, QpType::Uc, Payload::Inline(13), 3),
        (Opcode::Write, QpType::Rc, Payload::Sges(1), 3),
        (Opcode::WriteWithImm, QpType::Uc, Payload::None, 2),
        (Opcode::Read, QpType::Rc, Payload::Sges(14), 16),
        (Opcode::FetchAdd, QpType::Rc, Payload::Sges(1), 4),
        (Opcode::CompareSwap, QpType::Rc, Payload::Sges(1), 4),
        (Opcode::Send, QpType::Ud, Payload::None, 4),
        (Opcode::Send, QpType::Ud, Payload::Sges(2), 6),
    ] {
        assert_eq!(units(opcode, qp_type, payload), size, "{opcode:?} {qp_type} {payload:?}");
    }
}

const SMALL: Announcement = Announcement { wqes: 1, units: 3, inline: false, blueflame: true };

#[test]
fn blueflame_case_by_case() {
    let profile = with_registers(16, 4);
    let by = |settings: DriverSettings, post| profile.device.posting_rule(&settings).method(post);
    let usual = |post| by(DriverSettings::default(), post);
    let (mmio, rung) = (Method::WqeByMmio, Method::Doorbell { batch: 1 });
    assert_eq!(usual(SMALL), mmio, "the driver prefers BlueFlame");
    assert_eq!(usual(Announcement { inline: true, ..SMALL }), mmio);
    // The whole WQE must fit into a buffer of 256 bytes.
    assert_eq!(usual(Announcement { units: 16, ..SMALL }), mmio);
    assert_eq!(usual(Announcement { units: 17, ..SMALL }), rung);
    assert_eq!(usual(Announcement { units: 17, inline: true, ..SMALL }), rung);
    assert_eq!(usual(Announcement { units: 1, ..SMALL }), rung, "a WQE of a control segment alone");
    // A list rings a doorbell.
    assert_eq!(usual(Announcement { wqes: 2, ..SMALL }), Method::Doorbell { batch: 2 });
    assert_eq!(usual(Announcement { wqes: 2, inline: true, ..SMALL }), Method::Doorbell { batch: 2 });
    // Register 0 has none.
    assert_eq!(usual(Announcement { blueflame: false, ..SMALL }), rung);
    assert_eq!(usual(Announcement { blueflame: false, inline: true, ..SMALL }), rung);
    // MLX5_POST_SEND_PREFER_BF=0.
    let only_inline = DriverSettings { bf_only_inline: true, ..DriverSettings::default() };
    assert_eq!(by(only_inline, SMALL), rung);
    assert_eq!(by(only_inline, Announcement { inline: true, ..SMALL }), mmio);
    // MLX5_SHUT_UP_BF=1.
    let off = DriverSettings { shut_up_bf: true, ..DriverSettings::default() };
    assert_eq!(by(off, SMALL), rung);
    assert_eq!(by(off, Announcement { inline: true, ..SMALL }), rung);
    assert_eq!(by(off, Announcement { wqes: 9, ..SMALL }), Method::Doorbell { batch: 9 });
}

/// A WRITE by SGEs.
fn write(sges: u32) -> PostShape {
    PostShape {
        opcode: Opcode::Write,
        qp_type: QpType::Rc,
        payload: 1024,
        sges,
        inline: false,
        signaled: true,
        method: Method::WqeByMmio,
    }
}

#[test]
fn the_most_sges_of_a_wqe_by_blueflame() {
    let rule = with_registers(16, 4).device.posting_rule(&DriverSettings::default());
    assert_eq!(write(14).announced(&rule, 1, true).method, Method::WqeByMmio);
    assert_eq!(write(15).announced(&rule, 1, true).method, Method::Doorbell { batch: 1 });
}

#[test]
fn profiles_without_registers_keep_the_rule_of_their_generation() {
    for name in Profile::names() {
        let device: Device = Profile::named(name).expect("a built-in profile").device;
        assert_eq!(device.registers, None, "{name}");
        let usual = device.posting_rule(&DriverSettings::default());
        assert_eq!(usual, PostingRule::Count(device.generation.posting()), "{name}");
        let posting = device.generation.posting();
        for sges in [1, 14, 15, 30] {
            assert_eq!(write(sges).announced(&usual, 1, true).method, posting.method(1), "{name}");
        }
        let off = device.posting_rule(&DriverSettings { shut_up_bf: true, ..DriverSettings::default() });
        assert_eq!(write(1).announced(&off, 1, true).method, Method::Doorbell { batch: 1 }, "{name}");
    }
}

#[test]
fn a_section_that_does_not_fit_is_refused_in_one_sentence() {
    for (result, part) in [
        (parse(16, 16, ""), "registers.total: at most 15 of 16 doorbell registers"),
        (parse(600, 4, ""), "registers.total is 600, not within 1 to 512"),
        (
            parse(16, 4, "generation = \"mlx4\"\n"),
            "[registers] describes the driver of mlx5, but generation is mlx4",
        ),
    ] {
        let error = result.expect_err(part);
        assert!(error.contains(part) && !error.contains('\n'), "{error}");
    }
    let set = with_registers(16, 4).with_set(&[("registers.total".to_owned(), 32.0)].into()).unwrap();
    assert_eq!(set.device.registers.map(|registers| registers.total), Some(32));
    let cib = Profile::named("cib").unwrap();
    assert!(cib.with_set(&[("registers.total".to_owned(), 32.0)].into()).is_err());
}

/// READs of 8 B, each by its own call.
fn reads(driver: DriverSettings) -> Mix {
    Mix {
        opcode: Opcode::Read,
        qp_type: QpType::Rc,
        payload: 8,
        inline: false,
        sges: 1,
        batch: 1,
        signal_every: 1,
        window: 8,
        window_per_qp: false,
        drain: false,
        pattern: Pattern::Outbound,
        machines: 2,
        threads: 8,
        threads_per_qp: 1,
        qps: 1,
        ports: u32::MAX,
        max_rd_atomic: u32::MAX,
        counters: 1,
        counter_stride: 8,
        inline_recv: false,
        recv_batch: 1,
        think: Span::ZERO,
        mixed_lists: false,
        driver,
    }
}

#[test]
fn threads_that_share_a_qp_count_as_threads_but_not_as_qps() {
    let mix = Mix { threads_per_qp: 3, ..reads(DriverSettings::default()) };
    let [poster, responder] = &mix.groups()[..] else { panic!("two roles") };
    assert_eq!((poster.threads, poster.senders.all, poster.flows.most), (8, 3, 3));
    assert_eq!((responder.threads, responder.senders.all), (3, 3));
    assert_eq!((mix.lanes(), mix.outstanding()), (3, 64));
}

#[test]
fn a_bound_holds_for_qps_with_and_without_blueflame() {
    // Without shared registers, some QPs write WQEs by MMIO, and others ring doorbells.
    let (profile, settings) = (with_registers(4, 3), DriverSettings::default());
    let rate = |settings| limits::limits(&profile, &reads(settings))[0].mops;
    let both = rate(settings);
    let off = rate(DriverSettings { shut_up_bf: true, ..settings });
    let alone = limits::limits(&with_registers(16, 4), &reads(settings))[0].mops;
    assert!(both >= off && both >= alone, "{both} {off} {alone}");
    let least = |profile: &Profile| limits::unloaded_latency(profile, &reads(settings));
    assert_eq!(least(&profile), least(&with_registers(16, 4)), "BlueFlame saves the NIC's read of the WQE");
}
