//! The policies that Giveway ships with. Each is a TOML file in `catalog/`, as users write their own.

use super::{Policy, Recovery};

/// All policies by name. Each that does not recover lost work at once also exists as `chronos(NAME)`.
const POLICIES: &[(&str, &str)] = &[
    ("giveway", include_str!("catalog/giveway.toml")),
    ("fifo", include_str!("catalog/fifo.toml")),
    ("fair", include_str!("catalog/fair.toml")),
    ("fair-preempt", include_str!("catalog/fair-preempt.toml")),
    ("capacity", include_str!("catalog/capacity.toml")),
    ("hsrtf-pu", include_str!("catalog/hsrtf-pu.toml")),
    ("hsrtf-pup", include_str!("catalog/hsrtf-pup.toml")),
    ("hsrtf-pup-pause", include_str!("catalog/hsrtf-pup-pause.toml")),
    ("hsrtf-pr", include_str!("catalog/hsrtf-pr.toml")),
    ("hsrtf-prp", include_str!("catalog/hsrtf-prp.toml")),
    ("hsrtf-prp-pause", include_str!("catalog/hsrtf-prp-pause.toml")),
    ("fcs", include_str!("catalog/fcs.toml")),
    ("fcs-kill", include_str!("catalog/fcs-kill.toml")),
    ("coshh", include_str!("catalog/coshh.toml")),
    ("coshh-strict", include_str!("catalog/coshh-strict.toml")),
    ("las", include_str!("catalog/las.toml")),
    ("area", include_str!("catalog/area.toml")),
];

/// The names of all policies, without `chronos(NAME)`.
pub fn names() -> Vec<&'static str> {
    POLICIES.iter().map(|&(name, _)| name).collect()
}

/// All names, `chronos(NAME)` included where the policy does not recover lost work at once anyway.
pub fn all_names() -> Vec<String> {
    let chronos = names().into_iter().map(|name| format!("chronos({name})")).filter(|name| by_name(name).is_some());
    names().into_iter().map(String::from).chain(chronos).collect()
}

/// The policy of a name.
pub fn by_name(name: &str) -> Option<Policy> {
    if let Some(base) = name.strip_prefix("chronos(").and_then(|rest| rest.strip_suffix(')')) {
        return by_name(base).filter(|base| base.recovery == Recovery::Requeue).map(chronos);
    }
    let (_, text) = POLICIES.iter().find(|(known, _)| *known == name)?;
    Some(toml::from_str(text).expect("a test reads every policy of the catalogue"))
}

/// Any policy, with lost work run again at once (Chronos).
fn chronos(mut base: Policy) -> Policy {
    base.about = format!(
        "Lost tasks run again at once, near their input, in the place of attempts that rank lower; otherwise: {}",
        base.about
    );
    base.name = format!("chronos({})", base.name);
    base.recovery = Recovery::Chronos;
    base
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::Setup;

    #[test]
    fn every_policy_is_sound_and_survives_its_own_toml() {
        for name in all_names() {
            let policy = by_name(&name).unwrap_or_else(|| panic!("{name} is listed and unknown"));
            assert_eq!(policy.name, name);
            let text = toml::to_string(&policy).unwrap();
            assert_eq!(toml::from_str::<Policy>(&text).unwrap(), policy, "{text}");
            Setup::new(policy).check().unwrap();
        }
    }

    #[test]
    fn chronos_does_not_wrap_itself() {
        assert!(by_name("chronos(chronos(fifo))").is_none());
        assert!(by_name("chronos()").is_none());
    }
}
