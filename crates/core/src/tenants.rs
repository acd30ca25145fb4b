//! Tenants: the users who share a cluster, and the tree of pools (queues in the capacity scheduler) that their jobs are submitted to.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The declared users and pools. A job may name others: they have weight 1, no guaranteed slots and no limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tenants {
    /// Declared users; names are unique.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<User>,
    /// Declared pools, which are queues under the capacity scheduler; names are unique in the whole tree.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<Pool>,
}

/// A user who submits jobs (COSHH, section 2.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// Matches the user name of a job.
    pub name: String,
    /// Share beyond `min_share`, in proportion to other users; over 0.
    #[serde(default = "one")]
    pub weight: f64,
    /// Slots of either kind that are guaranteed while the user's jobs can use them.
    #[serde(default)]
    pub min_share: u32,
}

/// A pool of jobs. The fair scheduler uses weights and minimums, the capacity scheduler percentages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// Matches the pool name of a job, without the names of its ancestors.
    pub name: String,
    /// Name of its parent pool; none at the top of the tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Share beyond the guaranteed slots, in proportion to its siblings; over 0 (fair).
    #[serde(default = "one")]
    pub weight: f64,
    /// Map slots that are guaranteed while its jobs can use them (fair).
    #[serde(default)]
    pub min_maps: u32,
    /// Reduce slots that are guaranteed while its jobs can use them (fair).
    #[serde(default)]
    pub min_reduces: u32,
    /// Percentage of its parent's capacity. Pools without one share what their siblings leave (capacity).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<f64>,
    /// Percentage of its parent's maximum that it may grow to while slots are idle (capacity).
    #[serde(default = "hundred")]
    pub max_capacity: f64,
    /// Percentage of the queue that each user may have while several users compete for it; with few users, an equal part each (capacity).
    #[serde(default = "hundred")]
    pub user_limit: f64,
}

fn one() -> f64 {
    1.0
}

fn hundred() -> f64 {
    100.0
}

/// An invalid declaration of tenants.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum TenantsError {
    /// Two users or two pools have the same name.
    #[error("{what} `{name}` is declared twice; give each its own name")]
    Duplicate {
        /// "user" or "pool".
        what: &'static str,
        /// The repeated name.
        name: String,
    },
    /// A parent is not declared.
    #[error("pool `{pool}` names the parent `{parent}`, which is not declared; declare it or leave `parent` out")]
    UnknownParent {
        /// The pool with the unknown parent.
        pool: String,
        /// The name that is not declared.
        parent: String,
    },
    /// A pool is its own ancestor.
    #[error("pool `{pool}` is its own ancestor; a tree of pools has no cycles, so change the `parent` of one of them")]
    Cycle {
        /// A pool on the cycle.
        pool: String,
    },
    /// A number is out of range.
    #[error("{what} `{name}`: {field} is {value}; {remedy}")]
    OutOfRange {
        /// "user" or "pool".
        what: &'static str,
        /// The name of the user or pool.
        name: String,
        /// The TOML key.
        field: &'static str,
        /// The value as written.
        value: f64,
        /// What to write instead.
        remedy: &'static str,
    },
    /// The capacities of sibling pools add up to more than 100 %.
    #[error("the capacities of the pools under `{parent}` add up to {sum} %; reduce them to at most 100 %")]
    OverCapacity {
        /// Their parent, or "root".
        parent: String,
        /// Sum of their capacities, in percent.
        sum: f64,
    },
}

impl Tenants {
    /// Checks that names are unique, numbers are in range and pools form a tree.
    pub fn check(&self) -> Result<(), TenantsError> {
        for (i, user) in self.users.iter().enumerate() {
            if self.users[..i].iter().any(|other| other.name == user.name) {
                return Err(TenantsError::Duplicate { what: "user", name: user.name.clone() });
            }
            check_weight("user", &user.name, user.weight)?;
        }
        for (i, pool) in self.pools.iter().enumerate() {
            if self.pools[..i].iter().any(|other| other.name == pool.name) {
                return Err(TenantsError::Duplicate { what: "pool", name: pool.name.clone() });
            }
            check_weight("pool", &pool.name, pool.weight)?;
            for (field, value) in [
                ("capacity", pool.capacity.unwrap_or(1.0)),
                ("max_capacity", pool.max_capacity),
                ("user_limit", pool.user_limit),
            ] {
                if !(value > 0.0 && value <= 100.0) {
                    let remedy = "write a percentage over 0 and at most 100";
                    return Err(TenantsError::OutOfRange {
                        what: "pool",
                        name: pool.name.clone(),
                        field,
                        value,
                        remedy,
                    });
                }
            }
            self.check_ancestors(pool)?;
        }
        self.check_capacities()
    }

    fn check_ancestors(&self, pool: &Pool) -> Result<(), TenantsError> {
        let mut at = pool;
        for _ in 0..self.pools.len() {
            let Some(parent) = &at.parent else { return Ok(()) };
            at = self
                .pools
                .iter()
                .find(|other| other.name == *parent)
                .ok_or_else(|| TenantsError::UnknownParent { pool: at.name.clone(), parent: parent.clone() })?;
        }
        if at.parent.is_some() { Err(TenantsError::Cycle { pool: at.name.clone() }) } else { Ok(()) }
    }

    fn check_capacities(&self) -> Result<(), TenantsError> {
        let parents = std::iter::once(None).chain(self.pools.iter().map(|pool| Some(&pool.name)));
        for parent in parents {
            let siblings = self.pools.iter().filter(|pool| pool.parent.as_ref() == parent);
            let sum: f64 = siblings.filter_map(|pool| pool.capacity).sum();
            if sum > 100.0 + 1e-9 {
                let parent = parent.map_or("root".into(), String::clone);
                return Err(TenantsError::OverCapacity { parent, sum });
            }
        }
        Ok(())
    }
}

fn check_weight(what: &'static str, name: &str, value: f64) -> Result<(), TenantsError> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    let remedy = "write a number over 0";
    Err(TenantsError::OutOfRange { what, name: name.into(), field: "weight", value, remedy })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<(), TenantsError> {
        toml::from_str::<Tenants>(text).unwrap().check()
    }

    #[test]
    fn a_cycle_of_pools_is_reported() {
        let error = check("[[pools]]\nname='a'\nparent='b'\n[[pools]]\nname='b'\nparent='a'").unwrap_err();
        assert!(matches!(error, TenantsError::Cycle { .. }), "{error}");
    }

    #[test]
    fn an_unknown_parent_is_reported() {
        let error = check("[[pools]]\nname='a'\nparent='b'").unwrap_err();
        assert_eq!(error, TenantsError::UnknownParent { pool: "a".into(), parent: "b".into() });
    }

    #[test]
    fn capacities_of_siblings_add_up_to_at_most_100_percent() {
        let error = check("[[pools]]\nname='a'\ncapacity=60\n[[pools]]\nname='b'\ncapacity=50").unwrap_err();
        assert!(matches!(error, TenantsError::OverCapacity { .. }), "{error}");
    }

    #[test]
    fn weights_must_be_positive_numbers() {
        assert!(check("[[users]]\nname='a'\nweight=-1").is_err());
        assert!(check("[[users]]\nname='a'\nweight=nan").is_err());
    }
}
