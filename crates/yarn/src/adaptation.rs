//! What a policy does on YARN instead of what only other backends can do.

use giveway_core::Policy;

/// A policy as YARN can run it.
#[derive(Clone, Debug)]
pub struct Adapted {
    /// The policy without the parts that YARN has no means for.
    pub policy: Policy,
    /// What it does instead, one line each.
    pub notes: Vec<&'static str>,
}

const REPLICAS: &str = "input is read where HDFS stores it: no replicas are placed";
const SPECULATION: &str = "stragglers are left to the application masters (mapreduce.map.speculative, mapreduce.reduce.speculative): no speculative attempts";

/// Adapts a policy. Where its decisions stay what they are, that is always done; where it would do less than it says, only if `degrade`.
pub fn adapt(mut policy: Policy, degrade: bool) -> Adapted {
    let mut notes = Vec::new();
    // Applications are submitted after their input was written, so there is nothing to place.
    if let Some(matching) = &mut policy.matching
        && matching.place_replicas
    {
        matching.place_replicas = false;
        notes.push(REPLICAS);
    }
    // YARN gives a freed slot to a new container before a paused one could be promoted: paused containers are promoted when their node has a free slot.
    policy.reduce.preempt.iter_mut().for_each(|rule| rule.for_paused = false);
    if degrade && policy.speculation.take().is_some() {
        notes.push(SPECULATION);
    }
    Adapted { policy, notes }
}

/// What `--degrade` would do for a policy beyond what is always done.
pub fn degradations(policy: &Policy) -> Vec<&'static str> {
    let always = adapt(policy.clone(), false).notes;
    adapt(policy.clone(), true).notes.into_iter().filter(|note| !always.contains(note)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_core::policy::catalog;

    #[test]
    fn parts_are_dropped_only_where_yarn_lacks_them() {
        let policy = |name| catalog::by_name(name).unwrap();
        for name in ["fifo", "fcs", "hsrtf-prp", "chronos(fifo)"] {
            let adapted = adapt(policy(name), true);
            assert_eq!((adapted.policy, adapted.notes), (policy(name), Vec::new()));
        }
        assert_eq!(adapt(policy("coshh"), false).notes, [REPLICAS]);
        assert_eq!(degradations(&policy("coshh")), [""; 0]);
        assert_eq!(degradations(&policy("giveway")), [SPECULATION]);
        assert!(adapt(policy("giveway"), false).policy.speculation.is_some());
    }
}
