//! Profiles whose NIC offers every verb.

use doorbell_nic::Profile;

/// The built-in profiles. A profile with iWARP, which offers few verbs, gets another NIC.
pub(crate) fn offering_all() -> Vec<Profile> {
    let named = |name| Profile::named(name).expect("a built-in profile");
    let offering = |profile: Profile| match profile.device.generation.is_iwarp() {
        true => Profile { device: named("cib").device, ..profile },
        false => profile,
    };
    Profile::names().map(named).map(offering).collect()
}
