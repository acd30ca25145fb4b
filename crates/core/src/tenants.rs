//! Who shares the cluster: users, and the tree of pools (or queues) their jobs go to.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Users and pools. What is not declared is made up on first use, with weight 1 and nothing guaranteed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tenants {
    /// People and services that submit jobs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<User>,
    /// Pools, called queues by the capacity scheduler.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pools: Vec<Pool>,
}

/// Someone who submits jobs (COSHH, section 2.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// The name jobs carry.
    pub name: String,
    /// Share beyond the guarantee, in proportion to others.
    #[serde(default = "one")]
    pub weight: f64,
    /// Slots guaranteed while the user has work for them.
    #[serde(default)]
    pub min_share: u32,
}

/// A pool of jobs with rights of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// The name jobs carry.
    pub name: String,
    /// The pool it is part of; none for one at the top.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Share beyond the guarantee, in proportion to its siblings (fair).
    #[serde(default = "one")]
    pub weight: f64,
    /// Map slots guaranteed while it has work for them (fair).
    #[serde(default)]
    pub min_maps: u32,
    /// Reduce slots guaranteed while it has work for them (fair).
    #[serde(default)]
    pub min_reduces: u32,
    /// Percent of its parent's slots that are its own (capacity).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<f64>,
    /// Percent of its parent's slots it may grow to while others leave them idle (capacity).
    #[serde(default = "hundred")]
    pub max_capacity: f64,
    /// Percent of the queue that each user may claim while several users wait (capacity).
    #[serde(default = "hundred")]
    pub user_limit: f64,
}

fn one() -> f64 {
    1.0
}

fn hundred() -> f64 {
    100.0
}

/// What is wrong with a declaration of tenants.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum TenantsError {
    /// Two with one name.
    #[error("{what} `{name}` is declared twice; give each its own name")]
    Twice {
        /// "user" or "pool".
        what: &'static str,
        /// The name.
        name: String,
    },
    /// The parent is not there.
    #[error("pool `{pool}` names the parent `{parent}`, which is not declared; declare it or leave `parent` out")]
    NoParent {
        /// The pool.
        pool: String,
        /// The missing parent.
        parent: String,
    },
    /// A pool is its own ancestor.
    #[error("pool `{pool}` is its own ancestor; a tree of pools has no cycles, so change the `parent` of one of them")]
    Cycle {
        /// A pool on the cycle.
        pool: String,
    },
    /// A number that cannot be.
    #[error("{what} `{name}`: {field} is {value}; {remedy}")]
    Number {
        /// "user" or "pool".
        what: &'static str,
        /// The name.
        name: String,
        /// The field.
        field: &'static str,
        /// What it said.
        value: f64,
        /// What it should say.
        remedy: &'static str,
    },
    /// Siblings claim more than there is.
    #[error("the pools under `{parent}` claim {sum} % of its capacity; together they may claim at most 100 %")]
    OverCapacity {
        /// Their parent, or "root".
        parent: String,
        /// What they claim together.
        sum: f64,
    },
}

impl Tenants {
    /// Checks names, numbers and the shape of the tree.
    pub fn check(&self) -> Result<(), TenantsError> {
        for (i, user) in self.users.iter().enumerate() {
            if self.users[..i].iter().any(|other| other.name == user.name) {
                return Err(TenantsError::Twice { what: "user", name: user.name.clone() });
            }
            check_weight("user", &user.name, user.weight)?;
        }
        for (i, pool) in self.pools.iter().enumerate() {
            if self.pools[..i].iter().any(|other| other.name == pool.name) {
                return Err(TenantsError::Twice { what: "pool", name: pool.name.clone() });
            }
            check_weight("pool", &pool.name, pool.weight)?;
            for (field, value) in [
                ("capacity", pool.capacity.unwrap_or(1.0)),
                ("max_capacity", pool.max_capacity),
                ("user_limit", pool.user_limit),
            ] {
                if !(value > 0.0 && value <= 100.0) {
                    let remedy = "write a percentage over 0 and up to 100";
                    return Err(TenantsError::Number { what: "pool", name: pool.name.clone(), field, value, remedy });
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
                .ok_or_else(|| TenantsError::NoParent { pool: at.name.clone(), parent: parent.clone() })?;
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
    Err(TenantsError::Number { what, name: name.into(), field: "weight", value, remedy })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<(), TenantsError> {
        toml::from_str::<Tenants>(text).unwrap().check()
    }

    #[test]
    fn a_cycle_of_pools_is_named() {
        let error = check("[[pools]]\nname='a'\nparent='b'\n[[pools]]\nname='b'\nparent='a'").unwrap_err();
        assert!(matches!(error, TenantsError::Cycle { .. }), "{error}");
    }

    #[test]
    fn a_missing_parent_is_named() {
        let error = check("[[pools]]\nname='a'\nparent='b'").unwrap_err();
        assert_eq!(error, TenantsError::NoParent { pool: "a".into(), parent: "b".into() });
    }

    #[test]
    fn siblings_may_not_claim_more_than_all() {
        let error = check("[[pools]]\nname='a'\ncapacity=60\n[[pools]]\nname='b'\ncapacity=50").unwrap_err();
        assert!(matches!(error, TenantsError::OverCapacity { .. }), "{error}");
    }

    #[test]
    fn weights_are_positive() {
        assert!(check("[[users]]\nname='a'\nweight=-1").is_err());
        assert!(check("[[users]]\nname='a'\nweight=nan").is_err());
    }
}
