//! Clusters with more, fewer or faster nodes.

use giveway_sim::cluster::{Cluster, NodeModel};
use std::str::FromStr;
use thiserror::Error;

/// Largest number of nodes, of slots of a kind on a node, and largest speed.
const NODES_MAX: f64 = 100_000.0;
const SLOTS_MAX: f64 = 10_000.0;
const SPEED_MAX: f64 = 1_000.0;

/// A change of an amount: `+20%`, `-10%`, `+3`, `-1`, or a new value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AmountChange {
    /// Adds this, which may be negative.
    Add(f64),
    /// Multiplies by this.
    Times(f64),
    /// Replaces the amount.
    Set(f64),
}

/// A change of a cluster that cannot be made.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ChangeError {
    /// The text is not a change.
    #[error("invalid change `{0}`; use +20%, -10%, +3, -1 or a new value")]
    Syntax(String),
    /// The changed cluster would be out of range.
    #[error("{what} would be {value}; use a change that gives {range}")]
    Range {
        /// What is out of range.
        what: &'static str,
        /// Its value.
        value: String,
        /// The valid values.
        range: &'static str,
    },
}

impl FromStr for AmountChange {
    type Err = ChangeError;

    fn from_str(text: &str) -> Result<AmountChange, ChangeError> {
        let error = || ChangeError::Syntax(text.into());
        let (number, percent) = match text.trim().strip_suffix('%') {
            Some(number) => (number.trim(), true),
            None => (text.trim(), false),
        };
        let value: f64 = number.parse().ok().filter(|value: &f64| value.is_finite()).ok_or_else(error)?;
        let signed = number.starts_with(['+', '-']);
        match (percent, signed) {
            (true, true) => Ok(AmountChange::Times(1.0 + value / 100.0)),
            (false, true) => Ok(AmountChange::Add(value)),
            (false, false) => Ok(AmountChange::Set(value)),
            (true, false) => Err(error()),
        }
    }
}

impl AmountChange {
    fn apply(self, amount: f64) -> f64 {
        match self {
            AmountChange::Add(more) => amount + more,
            AmountChange::Times(factor) => amount * factor,
            AmountChange::Set(value) => value,
        }
    }
}

/// Changes of a cluster; all of them are applied.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClusterChange {
    /// Number of nodes. Added ones are copies of the present ones in turn; the ones that stay are spread evenly over the present ones.
    pub nodes: Option<AmountChange>,
    /// Slots of each node: map slots, and reduce slots in the same proportion or by the same number.
    pub slots: Option<AmountChange>,
    /// Speed of each node; a value is a factor.
    pub speed: Option<AmountChange>,
}

impl ClusterChange {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        *self == ClusterChange::default()
    }

    /// The changed cluster, with its size in its name.
    pub fn apply(&self, cluster: &Cluster) -> Result<Cluster, ChangeError> {
        let mut changed = cluster.clone();
        if let Some(nodes) = self.nodes {
            let value = nodes.apply(cluster.nodes.len() as f64).round();
            in_range("the number of nodes", value, 1.0, NODES_MAX, "1 to 100000 nodes")?;
            changed = with_nodes(&changed, value as usize);
        }
        for node in &mut changed.nodes {
            if let Some(slots) = self.slots {
                set_slots(node, slots)?;
            }
            if let Some(speed) = self.speed {
                let factor = match speed {
                    AmountChange::Add(more) => 1.0 + more,
                    AmountChange::Times(factor) | AmountChange::Set(factor) => factor,
                };
                let value = f64::from(node.spec.speed_ppm) / 1e6 * factor;
                in_range("the speed of a node", value, 0.001, SPEED_MAX, "0.001 to 1000")?;
                node.spec.speed_ppm = (value * 1e6).round() as u32;
            }
        }
        Ok(changed)
    }
}

/// The cluster with another number of nodes, at least one: copies of its nodes in turn, or a part of them that is spread evenly. Failures at
/// given times are left out if they are those of nodes that are no longer there.
pub(super) fn with_nodes(cluster: &Cluster, count: usize) -> Cluster {
    let present = cluster.nodes.len().max(1);
    let mut changed = cluster.clone();
    if count <= present {
        changed.nodes = (0..count).filter_map(|node| cluster.nodes.get(node * present / count).cloned()).collect();
    } else {
        for (number, model) in (present..count).zip(cluster.nodes.iter().cycle()) {
            let mut model: NodeModel = model.clone();
            model.spec.name = format!("{}-copy-{}", model.spec.name, number / present);
            changed.nodes.push(model);
        }
    }
    changed.faults.scripted.retain(|fault| (fault.node.0 as usize) < count);
    changed.replicas = changed.replicas.min(count as u32);
    changed
}

fn set_slots(node: &mut NodeModel, change: AmountChange) -> Result<(), ChangeError> {
    let (maps, reduces) = (f64::from(node.spec.map_slots), f64::from(node.spec.reduce_slots));
    let new_reduces = match change {
        // In the proportion of the map slots.
        AmountChange::Set(value) if maps > 0.0 => reduces * value / maps,
        other => other.apply(reduces),
    };
    // A kind that a node has no slots for stays so, and the others keep at least one.
    let slots = |before: f64, value: f64| if before == 0.0 { 0.0 } else { value.round().max(1.0) };
    let (new_maps, new_reduces) = (slots(maps, change.apply(maps)), slots(reduces, new_reduces));
    for value in [new_maps, new_reduces] {
        in_range("the slots of a node", value, 0.0, SLOTS_MAX, "at most 10000 slots of a kind")?;
    }
    (node.spec.map_slots, node.spec.reduce_slots) = (new_maps as u16, new_reduces as u16);
    Ok(())
}

fn in_range(what: &'static str, value: f64, low: f64, high: f64, range: &'static str) -> Result<(), ChangeError> {
    if (low..=high).contains(&value) {
        Ok(())
    } else {
        Err(ChangeError::Range { what, value: value.to_string(), range })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::what_if::fixture;
    use giveway_core::Kind;

    fn change(text: &str) -> Option<AmountChange> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn changes_are_parsed() {
        for (text, amount) in [("+20%", 120.0), ("-10 %", 90.0), ("+3", 103.0), ("-1", 99.0), ("48", 48.0)] {
            assert_eq!(text.parse::<AmountChange>().unwrap().apply(100.0).round(), amount, "{text}");
        }
        for text in ["", "many", "20%", "+", "+nan", "1e999"] {
            assert_eq!(text.parse::<AmountChange>(), Err(ChangeError::Syntax(text.into())), "{text}");
        }
    }

    #[test]
    fn added_nodes_are_copies_and_removed_ones_are_spread() {
        let mut cluster = fixture::cluster(10);
        cluster.nodes[5].spec.map_slots = 9;
        let larger = ClusterChange { nodes: change("+100%"), ..ClusterChange::default() }.apply(&cluster).unwrap();
        assert_eq!((larger.nodes.len(), larger.slots(Kind::Map)), (20, 90));
        assert_eq!(larger.nodes[15].spec.name, "n-5-copy-1");
        let smaller = ClusterChange { nodes: change("4"), ..ClusterChange::default() }.apply(&cluster).unwrap();
        let names: Vec<&str> = smaller.nodes.iter().map(|node| node.spec.name.as_str()).collect();
        assert_eq!(names, ["n-0", "n-2", "n-5", "n-7"]);
        let one = ClusterChange { nodes: change("1"), ..ClusterChange::default() }.apply(&cluster).unwrap();
        assert_eq!((one.nodes.len(), one.replicas), (1, 1));
    }

    #[test]
    fn slots_and_speed_change_on_every_node() {
        let cluster = fixture::cluster(2);
        let slots = |text: &str| {
            let changed = ClusterChange { slots: change(text), ..ClusterChange::default() }.apply(&cluster).unwrap();
            (changed.nodes[1].spec.map_slots, changed.nodes[1].spec.reduce_slots)
        };
        assert_eq!([slots("+1"), slots("8"), slots("-50%"), slots("-9")], [(5, 3), (8, 4), (2, 1), (1, 1)]);
        let fast = ClusterChange { speed: change("1.5"), ..ClusterChange::default() }.apply(&cluster).unwrap();
        assert_eq!(fast.nodes[0].spec.speed_ppm, 1_500_000);
        for wrong in [
            ClusterChange { nodes: change("-100%"), ..ClusterChange::default() },
            ClusterChange { nodes: change("1e9"), ..ClusterChange::default() },
            ClusterChange { slots: change("1e9"), ..ClusterChange::default() },
            ClusterChange { speed: change("0"), ..ClusterChange::default() },
        ] {
            assert!(matches!(wrong.apply(&cluster), Err(ChangeError::Range { .. })), "{wrong:?}");
        }
    }
}
