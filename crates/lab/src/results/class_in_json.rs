//! JSON form of bottleneck classes: the name of a resource, or `none`.

use super::class_name::{NONE, class_name};
use doorbell_nic::Resource;
use serde::de::IntoDeserializer;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(super) fn serialize<S: Serializer>(class: &Option<Resource>, serializer: S) -> Result<S::Ok, S::Error> {
    class_name(*class).serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Resource>, D::Error> {
    let name = String::deserialize(deserializer)?;
    if name == NONE {
        return Ok(None);
    }
    Resource::deserialize(IntoDeserializer::<D::Error>::into_deserializer(name)).map(Some)
}
