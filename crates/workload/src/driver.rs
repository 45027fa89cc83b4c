//! Options of the driver, and QPs that threads share.

use crate::error::{at_most, invalid};
use crate::taking::{Taking, least, queue};
use crate::{Resolved, Window, Workload, WorkloadError};
use doorbell_nic::{DriverSettings, Profile};

/// The settings of the driver that a workload gives.
pub(crate) fn settings(written: &Workload) -> DriverSettings {
    DriverSettings {
        total_uuars: written.total_uuars,
        num_low_lat_uuars: written.num_low_lat_uuars,
        single_threaded: written.single_threaded.unwrap_or(false),
        thread_domains: written.thread_domains.unwrap_or(false),
        shut_up_bf: written.blueflame == Some(false),
        bf_only_inline: written.prefer_blueflame == Some(false),
    }
}

/// `written` with the settings of the driver. Settings that leave everything to the driver are not written.
pub(crate) fn with_settings(written: Workload, settings: &DriverSettings) -> Workload {
    let DriverSettings { total_uuars, num_low_lat_uuars, .. } = *settings;
    Workload {
        total_uuars,
        num_low_lat_uuars,
        single_threaded: settings.single_threaded.then_some(true),
        thread_domains: settings.thread_domains.then_some(true),
        blueflame: settings.shut_up_bf.then_some(false),
        prefer_blueflame: settings.bf_only_inline.then_some(false),
        ..written
    }
}

/// The first option that only a profile with doorbell registers has an effect of, with its value.
fn of_registers(settings: &DriverSettings) -> Option<String> {
    let number = |key: &str, value: Option<u32>| value.map(|value| format!("{key} is {value}"));
    let set = |key: &str, is: bool, value: bool| is.then(|| format!("{key} is {value}"));
    number(Workload::total_uuars.key, settings.total_uuars)
        .or(number(Workload::num_low_lat_uuars.key, settings.num_low_lat_uuars))
        .or(set(Workload::single_threaded.key, settings.single_threaded, true))
        .or(set(Workload::thread_domains.key, settings.thread_domains, true))
        .or(set(Workload::prefer_blueflame.key, settings.bf_only_inline, false))
}

impl Resolved {
    /// Threads that share the QPs of one of them; 1 if threads share none.
    pub fn threads_per_qp(&self) -> u32 {
        self.threads_per_qp.unwrap_or(1).max(1)
    }

    /// Whether threads share QPs.
    pub fn shares_qps(&self) -> bool {
        self.threads_per_qp() > 1
    }

    /// Checks that the settings fit the drivers of all machines.
    pub(crate) fn check_driver(&self, taking: &Taking<'_>) -> Result<(), WorkloadError> {
        let settings = &self.driver;
        for profile in &taking.all {
            let Profile { name, device, .. } = profile;
            if settings.shut_up_bf && !device.generation.posting().alone_by_mmio {
                let key = Workload::blueflame.key;
                return invalid(format!("{key} is false, but profile {name} has no BlueFlame: leave it out"));
            }
            match (&device.registers, of_registers(settings)) {
                (Some(registers), _) => {
                    let uuars = registers.uuars(settings);
                    uuars.map_err(|why| WorkloadError::Invalid(format!("profile {name}: {why}")))?;
                }
                (None, Some(given)) => {
                    return invalid(format!(
                        "{given}, but profile {name} does not describe the doorbell registers of its driver \
                         (its section [registers])"
                    ));
                }
                (None, None) => {}
            }
        }
        if settings.single_threaded && self.threads > 1 {
            return invalid(format!(
                "{} is true, but threads is {}: libmlx5 stops a process whose threads need its locks",
                Workload::single_threaded.key,
                self.threads
            ));
        }
        Ok(())
    }

    /// Checks that the threads that share QPs can post as the other options say.
    pub(crate) fn check_sharing(&self, taking: &Taking<'_>) -> Result<(), WorkloadError> {
        if !self.shares_qps() {
            return Ok(());
        }
        let (key, sharing) = (Workload::threads_per_qp.key, self.threads_per_qp());
        at_most(key, sharing, self.threads, "threads is")?;
        let excluded = [
            (
                matches!(self.window(), Window::PerQp(_)),
                "each thread has a window: use window, not window_per_qp",
            ),
            (self.drain, "drain is for threads with QPs of their own"),
            (
                self.signal_every > 1,
                "a completion must not cover operations of other threads: leave signal_every out",
            ),
            (self.cq_per_qp, "cq_per_qp is for threads with QPs of their own"),
            (self.driver.thread_domains, "only one thread may use the QPs of a thread domain"),
        ];
        if let Some((_, why)) = excluded.iter().find(|(excluded, _)| *excluded) {
            return invalid(format!("{key} is {sharing}, but {why}"));
        }
        let (profile, limit) = least(&taking.posters, queue);
        let window = self.window().operations();
        if u64::from(window) * u64::from(sharing) > u64::from(limit) {
            return invalid(format!(
                "window is {window}, but the {sharing} threads of a QP share a queue, which holds at most \
                 {limit} on {}",
                profile.name
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Profiles, QueueLimits, Queues, Resolved, Window, Workload, topology};
    use doorbell_nic::{Device, DriverSettings, Profile, Registers};

    /// Resolves a workload on cib, with or without doorbell registers.
    fn resolved(toml: &str, registers: bool) -> Result<Resolved, String> {
        let cib = Profile::named("cib").expect("a built-in profile");
        let registers = registers.then_some(Registers { total: 16, low_latency: 4, blueflame: 256 });
        let profile = Profile { device: Device { registers, ..cib.device }, ..cib };
        let resolve = || Workload::from_toml("w.toml", toml)?.resolve(&Profiles::from(profile));
        resolve().map_err(|error| error.to_string())
    }

    #[test]
    fn settings_are_read_as_they_are_written() {
        let toml = "verb = \"read\"\ntotal_uuars = 32\nnum_low_lat_uuars = 2\nthread_domains = true\n\
                    blueflame = false\nprefer_blueflame = false";
        let r = resolved(toml, true).unwrap();
        let all = DriverSettings {
            total_uuars: Some(32),
            num_low_lat_uuars: Some(2),
            single_threaded: false,
            thread_domains: true,
            shut_up_bf: true,
            bf_only_inline: true,
        };
        assert_eq!(r.driver, all);
        let json = serde_json::to_string(&r).unwrap();
        assert_eq!(serde_json::from_str::<Resolved>(&json).unwrap(), r);
        // Usual values are not written.
        let usual = "blueflame = true\nprefer_blueflame = true\nthread_domains = false\nthreads_per_qp = 1";
        let r = resolved(usual, true).unwrap();
        assert_eq!((r.driver, r.threads_per_qp), (DriverSettings::default(), None));
        assert_eq!(r, resolved("", true).unwrap());
        assert_eq!(resolved("single_threaded = true\nthreads = 1", true).unwrap().threads, 1);
        assert!(resolved("blueflame = false", false).unwrap().driver.shut_up_bf);
    }

    #[test]
    fn what_the_driver_cannot_do_is_refused_in_one_sentence() {
        for (toml, registers, part) in [
            (
                "total_uuars = 32",
                false,
                "total_uuars is 32, but profile cib does not describe the doorbell registers",
            ),
            ("num_low_lat_uuars = 1", false, "num_low_lat_uuars is 1, but profile cib does not"),
            ("thread_domains = true", false, "thread_domains is true, but profile cib does not"),
            ("single_threaded = true", false, "single_threaded is true, but profile cib does not"),
            ("prefer_blueflame = false", false, "prefer_blueflame is false, but profile cib does not"),
            ("num_low_lat_uuars = 16", true, "profile cib: at most 15 of 16 doorbell registers"),
            ("total_uuars = 513", true, "total_uuars is 513, but must be at most 512"),
            ("single_threaded = true", true, "single_threaded is true, but threads is 14"),
            (
                "single_threaded = true\n[[class]]\nthreads = 1\n[[class]]\nthreads = 1",
                true,
                "single_threaded is true, but threads is 2",
            ),
            ("threads_per_qp = 15", false, "threads_per_qp is 15, but threads is 14"),
            ("threads_per_qp = 0", false, "threads_per_qp is 0, but must be at least 1"),
            (
                "threads_per_qp = 2\nwindow_per_qp = 8",
                false,
                "threads_per_qp is 2, but each thread has a window",
            ),
            (
                "threads_per_qp = 2\ndrain = true\nverb = \"read\"",
                false,
                "threads_per_qp is 2, but drain is for",
            ),
            ("threads_per_qp = 2\nsignal_every = 4\nwindow = 16", false, "but a completion must not cover"),
            ("threads_per_qp = 2\ncq_per_qp = true\nqps = 2", false, "but cq_per_qp is for threads with QPs"),
            (
                "threads_per_qp = 2\nthread_domains = true",
                true,
                "but only one thread may use the QPs of a thread",
            ),
            (
                "threads_per_qp = 14\nwindow = 1200",
                false,
                "window is 1200, but the 14 threads of a QP share a queue, which holds at most 16351 on cib",
            ),
        ] {
            let error = resolved(toml, registers).expect_err(toml);
            assert!(error.contains(part) && !error.contains('\n'), "{toml}: {error}");
        }
        let error =
            Workload::from_toml("w.toml", "profile = \"e7520-t4\"\nblueflame = false\nverb = \"read\"");
        let workload = error.unwrap();
        let error = workload.resolve(&workload.load_profiles().unwrap()).unwrap_err().to_string();
        assert!(error.contains("profile e7520-t4 has no BlueFlame"), "{error}");
    }

    #[test]
    fn threads_that_share_qps_have_those_of_the_first_threads() {
        let r = resolved("verb = \"read\"\nthreads = 10\nthreads_per_qp = 4", false).unwrap();
        assert_eq!((r.window(), r.signal_every), (Window::PerThread(16), 1));
        assert_eq!(topology::owners(&r), 3, "ten threads share three QPs");
        let owners: Vec<u32> = (0..10).map(|thread| topology::owner(&r, thread)).collect();
        assert_eq!(owners, [0, 1, 2, 0, 1, 2, 0, 1, 2, 0]);
        let limits = QueueLimits { max_qp_wr: 16351, max_cqe: 4194303 };
        let own = Queues::of(&r, 1, 2, limits);
        assert_eq!((own.qps, own.send_cqe), (1, 64), "room for the windows of four threads");
        assert_eq!(Queues::of(&r, 1, 3, limits).qps, 0);
        // All threads on one QP.
        let one = resolved("verb = \"write\"\nthreads = 10\nthreads_per_qp = 10", false).unwrap();
        assert_eq!((topology::owners(&one), one.signal_every), (1, 1));
        // Usual values fit the queues of a device, whatever the number of threads.
        let most = resolved("verb = \"send\"\nthreads_per_qp = 14", false).unwrap();
        assert_eq!(most.window(), Window::PerThread(16));
    }
}
