//! Variants of catalogue policies, made as a user makes them: print the policy as TOML, change a setting, read it back.

use anyhow::{Context, Result, bail};
use giveway_core::policy::{Policy, catalog};
use toml::{Table, Value};

/// A policy of the catalogue under a new name, with these settings changed.
pub fn variant(base: &str, name: &str, settings: &[(&str, Value)]) -> Result<Policy> {
    let mut policy = catalog::by_name(base).with_context(|| format!("no policy `{base}` in the catalogue"))?;
    policy.name = name.into();
    for (key, value) in settings {
        policy = with_setting(&policy, key, value)?;
    }
    Ok(policy)
}

/// The policy with one setting changed. `key` is a dotted path; where it leads through an array of tables, the setting changes in each of them.
///
/// An optional setting may be absent from the policy; the tables on the path must be there. An unknown key or a value of the wrong
/// type is an error, because a policy refuses unknown fields.
pub fn with_setting(policy: &Policy, key: &str, value: &Value) -> Result<Policy> {
    let change = || -> Result<Policy> {
        let mut root = Value::Table(Table::try_from(policy)?);
        set(&mut root, &key.split('.').collect::<Vec<_>>(), value)?;
        Ok(root.try_into()?)
    };
    change().with_context(|| format!("policy `{}`: cannot set `{key}` to {value}", policy.name))
}

fn set(node: &mut Value, path: &[&str], value: &Value) -> Result<()> {
    match (node, path) {
        (Value::Table(table), [last]) => {
            table.insert((*last).into(), value.clone());
            Ok(())
        }
        (Value::Table(table), [first, rest @ ..]) => {
            let child = table.get_mut(*first).with_context(|| format!("the policy has no `{first}`"))?;
            set(child, rest, value)
        }
        (Value::Array(tables), _) if !tables.is_empty() => {
            tables.iter_mut().try_for_each(|table| set(table, path, value))
        }
        (other, _) => bail!("`{}` is not in a table but in {other}", path.join(".")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(name: &str) -> Policy {
        catalog::by_name(name).expect("a policy of the catalogue")
    }

    fn error(key: &str, value: impl Into<Value>) -> String {
        format!("{:#}", with_setting(&policy("fcs"), key, &value.into()).expect_err("an error"))
    }

    #[test]
    fn setting_the_present_value_changes_nothing() {
        for name in catalog::names() {
            let policy = policy(name);
            let renamed = with_setting(&policy, "name", &name.to_owned().into()).expect("a policy");
            assert_eq!(renamed, policy);
        }
    }

    #[test]
    fn a_setting_changes_in_every_rule_of_an_array() {
        let base = policy("hsrtf-prp-pause");
        let newest = with_setting(&base, "map.preempt.attempts", &"newest".into()).expect("a policy");
        assert!(!base.map.preempt.is_empty());
        assert_ne!(newest.map.preempt, base.map.preempt);
        assert_eq!(newest.reduce, base.reduce);
    }

    #[test]
    fn unknown_keys_and_values_are_errors() {
        assert!(error("reduce.placement.no_such_key", 1).contains("unknown field `no_such_key`"));
        assert!(error("reduce.no_such_table.key", 1).contains("no `no_such_table`"));
        assert!(error("name.key", 1).contains("not in a table"));
        assert!(error("reduce.placement.migration", "no-such-value").contains("unknown variant `no-such-value`"));
        // FCS has no preemption of maps.
        assert!(error("map.preempt.attempts", "newest").contains("no `preempt`"));
        assert!(variant("no-such-policy", "name", &[]).is_err());
    }
}
