//! Models of NICs: ids, limits and age, which all profiles of such a NIC share. A model is known before its
//! times are, so `doorbell run --as` can show a NIC that has no profile.

use super::built_in;
use super::device::Nic;
use super::device_id::{Announced, DeviceId};
use super::machine::Profile;
use super::parameter::{Basis, Parameter, ProfileBase, ProfileError, ProfileReader, Section, Unit, section};
use crate::Generation;
use serde::Deserialize;
use toml::Spanned;

section! {
    /// Limits that a NIC reports to programs, and that no computation uses. So they are not parameters.
    MoreLimits in "device" {
        /// Work requests a shared receive queue may hold.
        max_srq_wr: u32 = "max_srq_wr" Count 1..=65535;
        /// Most SGEs of a work request in a shared receive queue.
        max_srq_sge: u32 = "max_srq_sge" Count 1..=256;
        /// Bytes of device memory.
        max_dm: u32 = "max_dm_bytes" Bytes 0..=1073741824;
    }
}

/// The limits that a NIC reports to programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NicLimits {
    /// Work requests in a queue.
    pub qp_wr: u32,
    /// SGEs in a work request.
    pub sge: u32,
    /// Bytes of inline payload.
    pub inline: u32,
    /// Completions in a CQ.
    pub cqe: u32,
    /// READs and atomics outstanding per QP, on either side.
    pub rd_atomic: u32,
    /// Further limits, if they are known.
    pub more: Option<MoreLimits>,
}

/// Facts about a profile's NIC besides parameters.
#[derive(Clone, Debug, Default)]
pub(super) struct NicFacts {
    pub(super) device_id: Option<DeviceId>,
    pub(super) announced: Option<Announced>,
    pub(super) more_limits: Option<MoreLimits>,
}

impl NicFacts {
    /// These facts, which a profile inherits, with the ids and the year that its file gives.
    pub(super) fn with_own(self, device_id: Option<DeviceId>, announced: Option<Announced>) -> NicFacts {
        NicFacts { device_id: device_id.or(self.device_id), announced: announced.or(self.announced), ..self }
    }
}

/// A model of a NIC: a file in `profiles/nics`. A profile names its model by the key `model`.
#[derive(Clone, Debug, PartialEq)]
pub struct NicModel {
    /// Short name, such as `cx5`.
    pub name: String,
    /// The maker's name for the model.
    pub title: String,
    /// The generation, which determines layouts.
    pub generation: Generation,
    /// The year of its announcement.
    pub announced: Announced,
    /// The numbers that the driver gives programs.
    pub device_id: DeviceId,
    /// The limits.
    pub limits: NicLimits,
    /// The limits with their provenance. Limits in section `nic` are parameters of the model's profiles.
    pub parameters: Vec<Parameter>,
}

/// A file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModelFile {
    name: String,
    title: String,
    generation: Generation,
    announced: Announced,
    device_id: DeviceId,
    nic: Spanned<Section>,
    device: Spanned<Section>,
}

impl NicModel {
    /// Names of the models.
    pub fn names() -> impl Iterator<Item = &'static str> {
        built_in::models().iter().map(|(name, _)| *name)
    }

    /// Whether there is a model of this name, in capitals or small letters.
    pub fn is_known(name: &str) -> bool {
        NicModel::names().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// The model of this name, in capitals or small letters.
    ///
    /// # Errors
    /// A sentence with the known names if there is no such model.
    pub fn named(name: &str) -> Result<NicModel, String> {
        let text = built_in::models().iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let Some((known, text)) = text else {
            let names = NicModel::names().collect::<Vec<_>>().join(", ");
            return Err(format!("there is no model {name} of a NIC; there are {names}"));
        };
        let file = format!("profiles/nics/{known}.toml");
        Ok(NicModel::parse(&file, text).unwrap_or_else(|error| panic!("a built-in model: {error}")))
    }

    /// Reads the TOML of a model. `file` appears in messages.
    ///
    /// # Errors
    /// If the text is not the TOML of a model, or if a limit is missing. The error is one sentence with the
    /// line.
    pub fn parse(file: &str, text: &str) -> Result<NicModel, ProfileError> {
        let mut reader = ProfileReader::new(file, text);
        let parsed: ModelFile = toml::from_str(text).map_err(|error| reader.malformed(&error))?;
        let mut nic = reader.section("nic", Some(parsed.nic));
        let mut take = |key| {
            let (unit, [least, most]) = entry(key);
            reader.take::<u32>(&mut nic, key, unit, least..=most)
        };
        let [inline, sge, qp_wr, cqe, rd_atomic] = LIMITS;
        let (inline, sge, qp_wr) = (take(inline)?, take(sge)?, take(qp_wr)?);
        let (cqe, rd_atomic) = (take(cqe)?, take(rd_atomic)?);
        reader.finish(nic)?;
        let more = Some(MoreLimits::read(&mut reader, Some(parsed.device))?);
        Ok(NicModel {
            name: parsed.name,
            title: parsed.title,
            generation: parsed.generation,
            announced: parsed.announced,
            device_id: parsed.device_id,
            limits: NicLimits { qp_wr, sge, inline, cqe, rd_atomic, more },
            parameters: reader.into_parameters(),
        })
    }

    /// Facts that all profiles of this model have.
    pub(super) fn facts(&self) -> NicFacts {
        let (device_id, announced) = (Some(self.device_id.clone()), Some(self.announced.clone()));
        NicFacts { device_id, announced, more_limits: self.limits.more }
    }

    /// The parameters of `base`, with the limits of this model instead of the base's.
    pub(super) fn over(&self, base: Option<ProfileBase>) -> ProfileBase {
        let base = base.unwrap_or_else(|| ProfileBase { name: self.name.clone(), parameters: Vec::new() });
        let of_model = self.parameters.iter().filter(|p| is_limit(p)).map(|p| p.inherited_from(&self.name));
        let of_base = base.parameters.into_iter().filter(|p| !is_limit(p));
        ProfileBase { name: base.name, parameters: of_base.chain(of_model).collect() }
    }
}

/// Keys of the limits in section `nic` of models and profiles.
const LIMITS: [&str; 5] = ["max_inline_bytes", "max_sge", "max_qp_wr", "max_cqe", "max_rd_atomic"];

/// Unit and range of a limit, as in profiles.
fn entry(key: &str) -> (Unit, [f64; 2]) {
    let entry = Nic::ENTRIES.iter().find(|(known, ..)| *known == key);
    let (_, unit, range) = entry.unwrap_or_else(|| panic!("profiles have no nic.{key}"));
    (*unit, *range)
}

/// Whether a parameter of a profile is a limit that a model gives.
fn is_limit(parameter: &Parameter) -> bool {
    LIMITS.iter().any(|key| parameter.name.strip_prefix("nic.") == Some(key))
}

/// A NIC as programs see it.
#[derive(Clone, Debug, PartialEq)]
pub struct ShownNic {
    /// The ids, if they are known.
    pub device_id: Option<DeviceId>,
    /// The limits.
    pub limits: NicLimits,
    /// The limits with their provenance.
    pub parameters: Vec<Parameter>,
}

impl ShownNic {
    /// The NIC of a model, of a built-in profile, or of a profile's file.
    ///
    /// # Errors
    /// If there is neither a model nor a profile of this name, or if the file is not a profile.
    pub fn named_or_file(name: &str) -> Result<ShownNic, ProfileError> {
        if !Profile::is_path(name)
            && let Ok(model) = NicModel::named(name)
        {
            let NicModel { device_id, limits, parameters, .. } = model;
            return Ok(ShownNic { device_id: Some(device_id), limits, parameters });
        }
        match Profile::named_or_file(name) {
            Ok(profile) => Ok(ShownNic::of(profile)),
            Err(ProfileError::NotFound(message)) if !Profile::is_path(name) => {
                let models = NicModel::names().collect::<Vec<_>>().join(", ");
                Err(ProfileError::NotFound(format!("{message}, or the name of a NIC's model: {models}")))
            }
            Err(error) => Err(error),
        }
    }

    /// The NIC of a profile.
    fn of(profile: Profile) -> ShownNic {
        let nic = &profile.device.nic;
        let limits = NicLimits {
            qp_wr: nic.max_qp_wr,
            sge: nic.max_sge,
            inline: nic.max_inline,
            cqe: nic.max_cqe,
            rd_atomic: nic.max_rd_atomic,
            more: profile.more_limits,
        };
        let parameters = profile.parameters.into_iter().filter(is_limit).collect();
        ShownNic { device_id: profile.device_id, limits, parameters }
    }

    /// The limits that nobody has published.
    pub fn assumed(&self) -> impl Iterator<Item = &Parameter> {
        self.parameters.iter().filter(|p| !matches!(p.basis, Basis::Published { .. }))
    }
}
