//! The smallest cluster on which a workload meets a target.
//!
//! More nodes usually make jobs faster, but not always: another placement or another order may make a particular percentile worse. So the result
//! of the bisection is checked at sizes above it, and the search goes on above a size that misses the target. The answer is the smallest size
//! from which all simulated larger sizes meet the target.

use super::{JobTimes, cluster_change, percentile};
use giveway_sim::cluster::Cluster;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Largest number of nodes that is tried.
const NODES_MAX: usize = 100_000;
/// Sizes above the answer that are checked, as factors of it.
const CHECKED_FACTORS: [f64; 3] = [1.05, 1.2, 1.5];

/// What all jobs are to reach, such as `p95 wait < 60s`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    statistic: Statistic,
    quantity: Quantity,
    /// Seconds, or a factor for slowdowns.
    limit: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Statistic {
    Mean,
    Percentile(f64),
    Max,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    Wait,
    Completion,
    Slowdown,
}

/// A text that is not a target.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "invalid target `{0}`; write a statistic (mean, max, p50, p95, p99), a quantity (wait, completion, slowdown), `<` and a limit, such as `p95 wait < 60s` or `mean slowdown < 2`"
)]
pub struct TargetError(String);

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Target, TargetError> {
        let error = || TargetError(text.into());
        let (what, limit) = text.split_once('<').ok_or_else(error)?;
        let limit = limit.strip_prefix('=').unwrap_or(limit).trim();
        let [statistic, quantity] = what.split_whitespace().collect::<Vec<_>>()[..] else { return Err(error()) };
        let statistic = match statistic {
            "mean" => Statistic::Mean,
            "max" => Statistic::Max,
            "median" => Statistic::Percentile(50.0),
            other => {
                let percent = other.strip_prefix('p').and_then(|number| number.parse::<f64>().ok());
                Statistic::Percentile(percent.filter(|percent| *percent > 0.0 && *percent <= 100.0).ok_or_else(error)?)
            }
        };
        let quantity = match quantity {
            "wait" => Quantity::Wait,
            "completion" => Quantity::Completion,
            "slowdown" => Quantity::Slowdown,
            _ => return Err(error()),
        };
        let limit = match quantity {
            Quantity::Slowdown => limit.parse::<f64>().ok(),
            // Parsed as in all files: `90`, `60s`, `1m 30s`.
            _ => limit.parse::<f64>().ok().or_else(|| span_s(limit)),
        };
        let limit = limit.filter(|limit| limit.is_finite() && *limit > 0.0).ok_or_else(error)?;
        Ok(Target { statistic, quantity, limit })
    }
}

fn span_s(text: &str) -> Option<f64> {
    use serde::Deserialize;
    let text = serde::de::value::StrDeserializer::<serde::de::value::Error>::new(text);
    giveway_core::Span::deserialize(text).ok().map(giveway_core::Span::as_secs_f64)
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.statistic {
            Statistic::Mean => f.write_str("mean")?,
            Statistic::Max => f.write_str("max")?,
            Statistic::Percentile(percent) => write!(f, "p{percent}")?,
        }
        match self.quantity {
            Quantity::Wait => write!(f, " wait < {} s", self.limit),
            Quantity::Completion => write!(f, " completion < {} s", self.limit),
            Quantity::Slowdown => write!(f, " slowdown < {}", self.limit),
        }
    }
}

impl Target {
    /// The value that the target limits; none if a job did not finish or its value is unknown.
    pub fn value(&self, times: &JobTimes) -> Option<f64> {
        let value = |time: &super::JobTime| match self.quantity {
            Quantity::Wait => time.wait_s,
            Quantity::Completion => Some(time.completion_s),
            Quantity::Slowdown => time.slowdown,
        };
        let mut values: Vec<f64> = times.0.iter().map(|time| value(time.as_ref()?)).collect::<Option<_>>()?;
        values.sort_unstable_by(f64::total_cmp);
        match self.statistic {
            Statistic::Mean => (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64),
            Statistic::Max => values.last().copied(),
            Statistic::Percentile(percent) => percentile(&values, percent),
        }
    }

    /// Whether a value meets the target.
    pub fn is_met(&self, value: Option<f64>) -> bool {
        value.is_some_and(|value| value < self.limit)
    }
}

/// The smallest cluster that meets a target, and what was tried.
#[derive(Clone, Debug, PartialEq)]
pub struct Capacity {
    /// Number of nodes; none if no size up to the largest one that was tried meets the target.
    pub nodes: Option<usize>,
    /// By number of nodes, the value that the target limits; none if jobs did not finish.
    pub tried: BTreeMap<usize, Option<f64>>,
    /// Sizes below `nodes` that meet the target although a larger one misses it.
    pub met_below: Vec<usize>,
}

/// Searches from the size of `cluster`. `value` simulates a cluster and returns the value that the target limits.
pub fn smallest<E>(
    cluster: &Cluster,
    target: &Target,
    mut value: impl FnMut(&Cluster) -> Result<Option<f64>, E>,
) -> Result<Capacity, E> {
    let mut tried = BTreeMap::new();
    let mut met = |nodes: usize| -> Result<bool, E> {
        let known = match tried.get(&nodes) {
            Some(known) => *known,
            None => {
                let of = value(&cluster_change::with_nodes(cluster, nodes))?;
                tried.insert(nodes, of);
                of
            }
        };
        Ok(target.is_met(known))
    };
    let nodes = search(cluster.nodes.len().clamp(1, NODES_MAX), &mut met)?;
    let met_below = tried
        .range(..nodes.unwrap_or(NODES_MAX + 1))
        .filter(|(_, value)| target.is_met(**value))
        .map(|(nodes, _)| *nodes)
        .collect();
    Ok(Capacity { nodes, tried, met_below })
}

fn search<E>(start: usize, met: &mut impl FnMut(usize) -> Result<bool, E>) -> Result<Option<usize>, E> {
    // Below `low` and at it the target is missed, at `high` it is met.
    let (mut low, mut high) = (0, start);
    while !met(high)? {
        if high == NODES_MAX {
            return Ok(None);
        }
        (low, high) = (high, (high * 2).min(NODES_MAX));
    }
    while low == 0 && high > 1 {
        if met(high / 2)? {
            high /= 2;
        } else {
            low = high / 2;
        }
    }
    loop {
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if met(middle)? { high = middle } else { low = middle }
        }
        // Larger sizes must meet the target too; otherwise the answer is above them.
        let mut checked = vec![high + 1];
        checked.extend(CHECKED_FACTORS.iter().map(|factor| (high as f64 * factor).ceil() as usize));
        checked.retain(|nodes| *nodes <= NODES_MAX);
        let mut missed = None;
        for nodes in checked {
            if !met(nodes)? {
                missed = Some(nodes);
            }
        }
        let Some(missed) = missed else { return Ok(Some(high)) };
        (low, high) = (missed, missed + 1);
        while !met(high)? {
            if high == NODES_MAX {
                return Ok(None);
            }
            (low, high) = (high, (high + (high / 10).max(1)).min(NODES_MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::what_if::fixture;
    use std::convert::Infallible;

    fn target(text: &str) -> Target {
        text.parse().unwrap()
    }

    #[test]
    fn targets_are_parsed() {
        assert_eq!(target("p95 wait < 60s").to_string(), "p95 wait < 60 s");
        assert_eq!(target("mean completion<1m 30s").to_string(), "mean completion < 90 s");
        assert_eq!(target("max slowdown <= 2.5").to_string(), "max slowdown < 2.5");
        for wrong in [
            "",
            "p95 wait",
            "p0 wait < 1s",
            "p95 < 1s",
            "best wait < 1s",
            "p95 sleep < 1s",
            "p95 wait < soon",
            "mean wait < -1s",
        ] {
            assert_eq!(wrong.parse::<Target>(), Err(TargetError(wrong.into())), "{wrong}");
        }
    }

    #[test]
    fn values_need_all_jobs() {
        let time = |wait_s| Some(super::super::JobTime { wait_s: Some(wait_s), ..Default::default() });
        let all = JobTimes((1..=100).map(|second| time(f64::from(second))).collect());
        assert_eq!(target("p95 wait < 60s").value(&all), Some(95.0));
        assert_eq!(target("mean wait < 60s").value(&all), Some(50.5));
        let unfinished = JobTimes(vec![time(1.0), None]);
        assert!(!target("p95 wait < 60s").is_met(target("p95 wait < 60s").value(&unfinished)));
    }

    /// Searches where the wait is a function of the number of nodes.
    fn nodes(start: u32, wait_s: impl Fn(usize) -> f64) -> Capacity {
        let found = smallest(&fixture::cluster(start), &target("p95 wait < 60s"), |cluster| {
            Ok::<_, Infallible>(Some(wait_s(cluster.nodes.len())))
        });
        found.unwrap()
    }

    #[test]
    fn the_smallest_size_is_found_from_above_and_from_below() {
        for need in [1, 2, 3, 37, 48, 1_000, 99_999] {
            for start in [1, 40, 500] {
                let found = nodes(start, |nodes| if nodes >= need { 1.0 } else { 100.0 });
                assert_eq!((found.nodes, found.met_below.as_slice()), (Some(need), [].as_slice()), "from {start}");
                assert!(found.tried.len() < 60, "{:?}", found.tried);
            }
        }
        assert_eq!(nodes(3, |_| 100.0).nodes, None);
    }

    #[test]
    fn a_size_above_the_answer_that_misses_the_target_moves_the_answer() {
        // 30 nodes or more meet the target, except 31 to 35.
        let found = nodes(40, |nodes| if nodes >= 30 && !(31..=35).contains(&nodes) { 1.0 } else { 100.0 });
        assert_eq!(found.nodes, Some(36));
        assert_eq!(found.met_below, [30]);
    }
}
