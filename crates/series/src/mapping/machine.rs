//! Machines of a series: the profile with the link, the PCIe slot and the host of the measurement.

use super::choices::Choices;
use super::refusal::Refusal;
use crate::format::{FabricKind, MeasuredWorkload, PcieSlot, Setup};
use doorbell_nic::{Profile, ProfileError};
use std::collections::BTreeMap;

/// Hosts of measurements, by the built-in profiles that describe them.
#[derive(Clone, Debug, Default)]
pub struct Hosts(BTreeMap<String, &'static str>);

impl Hosts {
    /// The hosts that built-in profiles list in `measured_on`.
    ///
    /// # Errors
    /// If a built-in profile is malformed. A test checks that none is.
    pub fn built_in() -> Result<Hosts, ProfileError> {
        let mut hosts = BTreeMap::new();
        for name in Profile::names() {
            for host in Profile::named(name)?.measured_on {
                hosts.entry(host).or_insert(name);
            }
        }
        Ok(Hosts(hosts))
    }
}

/// Values of parameters that differ from the profile, by their names.
pub(super) type Parameters = BTreeMap<String, f64>;

/// The machines of a series: the profile in the host of the series, and the parameters that the series sets.
/// `points` are the workloads of the series.
pub(super) fn machine(
    setup: &Setup,
    points: &[MeasuredWorkload],
    profile: &Profile,
    hosts: &Hosts,
    choices: &mut Choices,
) -> Result<(Profile, Parameters), Refusal> {
    let profile = in_host(&setup.host, profile, hosts, choices)?;
    let mut set = Parameters::new();
    link(setup, &profile, &mut set, choices);
    fabric(setup, choices)?;
    pcie(setup.pcie, &profile, &mut set, choices)?;
    cores(points, &profile, &mut set, choices);
    Ok((profile, set))
}

/// The machines of a point: the path MTU.
pub(super) fn of_point(w: &MeasuredWorkload, profile: &Profile, choices: &mut Choices) -> Parameters {
    let mut set = Parameters::new();
    match w.mtu {
        Some(bytes) => put(&mut set, profile, "link.mtu_bytes", bytes.into()),
        None => choices.take("mtu", format!("{}, the profile's", profile.device.link.mtu)),
    }
    set
}

/// Relative difference of two values of a parameter that counts as none. Vendors round rates.
const NEAR: f64 = 1e-3;

/// Sets a parameter if the profile has another value.
fn put(set: &mut Parameters, profile: &Profile, name: &str, value: f64) {
    let own = profile.parameters.iter().find(|parameter| parameter.name == name);
    let own = own.unwrap_or_else(|| panic!("{name} is a parameter of every profile")).value;
    if (own - value).abs() > NEAR * value.abs() {
        set.insert(name.to_owned(), value);
    }
}

/// The profile in the host that a profile describes under the series' name for it.
fn in_host(host: &str, profile: &Profile, hosts: &Hosts, choices: &mut Choices) -> Result<Profile, Refusal> {
    if profile.measured_on.iter().any(|own| own == host) {
        return Ok(profile.clone());
    }
    match hosts.0.get(host) {
        Some(name) => profile.clone().on_host(name).map_err(|error| Refusal::Invalid(error.to_string())),
        None => {
            choices.take("host", "the profile's own, because no profile has measured_on with this host");
            Ok(profile.clone())
        }
    }
}

fn link(setup: &Setup, profile: &Profile, set: &mut Parameters, choices: &mut Choices) {
    match setup.link_gbps {
        Some(gbps) => put(set, profile, "link.port_rate_gbps", data_rate(gbps, setup.fabric.as_ref())),
        None => choices.take("link_gbps", "the profile's"),
    }
}

/// Rate of a link's data in Gb/s, from the rate that vendors name. InfiniBand up to QDR has 8b/10b encoding,
/// and FDR has four lanes of 14.0625 Gb/s with 64b/66b encoding. Other names are rates of data.
fn data_rate(gbps: f64, fabric: Option<&FabricKind>) -> f64 {
    const FDR: f64 = 4.0 * 14.0625 * 64.0 / 66.0;
    match fabric {
        Some(FabricKind::InfiniBand) if gbps <= 40.0 => gbps * 8.0 / 10.0,
        Some(FabricKind::InfiniBand) if gbps == 56.0 => FDR,
        _ => gbps,
    }
}

fn fabric(setup: &Setup, choices: &mut Choices) -> Result<(), Refusal> {
    match &setup.fabric {
        Some(FabricKind::InfiniBand) => {}
        Some(FabricKind::Roce) => choices.take("fabric", "packets have the profile's headers"),
        None => choices.take("fabric", "the profile's"),
        Some(FabricKind::Other(word)) => {
            let known = FabricKind::NAMES;
            return Err(Refusal::Word { key: "fabric", word: word.clone(), known });
        }
    }
    Ok(())
}

fn pcie(
    slot: Option<PcieSlot>,
    profile: &Profile,
    set: &mut Parameters,
    choices: &mut Choices,
) -> Result<(), Refusal> {
    let Some(PcieSlot { generation, lanes, .. }) = slot else {
        choices.take("pcie", "the profile's");
        return Ok(());
    };
    put(set, profile, "pcie.lane_mb_per_s", lane_mb_per_s(generation)?);
    match lanes {
        Some(lanes) => put(set, profile, "pcie.lanes", lanes.into()),
        None => choices.take("pcie.lanes", "the profile's"),
    }
    Ok(())
}

/// Rate of a PCIe lane in MB/s: 2.5 and 5 GT/s with 8b/10b encoding, then 8, 16 and 32 GT/s with 128b/130b.
fn lane_mb_per_s(generation: u32) -> Result<f64, Refusal> {
    match generation {
        1 => Ok(250.0),
        2 => Ok(500.0),
        3 => Ok(984.6),
        4 => Ok(1969.2),
        5 => Ok(3938.5),
        _ => Err(Refusal::PcieGeneration(generation)),
    }
}

/// Cores for all threads of the series. A host has at least as many.
fn cores(points: &[MeasuredWorkload], profile: &Profile, set: &mut Parameters, choices: &mut Choices) {
    let most = points.iter().filter_map(super::work::stated_threads).max().unwrap_or(1);
    if most > profile.all_cores() {
        let cores = most.div_ceil(profile.socket_count());
        set.insert("host.cores".to_owned(), cores.into());
        choices.take("host.cores", format!("{cores}, because the series has {most} threads"));
    }
}
