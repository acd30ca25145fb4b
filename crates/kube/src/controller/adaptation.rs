//! What a policy does on Kubernetes instead of what only other backends can do.

use giveway_core::Policy;

const SPECULATION: &str = "no speculative attempts: pods are created by the Job controller";
const MATCHING: &str = "Jobs are not matched to nodes: the Kubernetes scheduler chooses them";
const RECOVERY: &str = "lost work is not recovered at once: the Job controller replaces lost pods";

/// Adapts a policy. Where its decisions stay what they are, that is always done; where it would do less than it says, only if `degrade`. Also returns what it
/// does instead, one line each.
pub fn adapt(mut policy: Policy, degrade: bool) -> (Policy, Vec<&'static str>) {
    // The Kubernetes scheduler gives freed CPU to a new pod before a squeezed one could grow: squeezed pods grow when their node has a free slot.
    policy.reduce.preempt.iter_mut().for_each(|rule| rule.for_paused = false);
    let mut notes = Vec::new();
    if !degrade {
        return (policy, notes);
    }
    if policy.speculation.take().is_some() {
        notes.push(SPECULATION);
    }
    if policy.compares_nodes() {
        policy.matching = None;
        [&mut policy.map, &mut policy.reduce].into_iter().for_each(|slots| slots.placement.refuse_slow = None);
        notes.push(MATCHING);
    }
    if policy.recovery.is_immediate() {
        policy.recovery = Default::default();
        notes.push(RECOVERY);
    }
    (policy, notes)
}

/// What `--degrade` would do for a policy.
pub fn degradations(policy: &Policy) -> Vec<&'static str> {
    adapt(policy.clone(), true).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use giveway_core::policy::catalog;

    #[test]
    fn parts_are_dropped_only_where_kubernetes_lacks_them() {
        let policy = |name| catalog::by_name(name).unwrap();
        for name in ["fifo", "fcs", "hsrtf-prp-pause"] {
            assert_eq!(adapt(policy(name), true), (policy(name), vec![]));
        }
        assert_eq!(degradations(&policy("giveway")), [SPECULATION, MATCHING, RECOVERY]);
        assert_eq!(degradations(&policy("coshh")), [MATCHING]);
        assert_eq!(degradations(&policy("chronos(fcs)")), [RECOVERY]);
        assert!(adapt(policy("giveway"), false).0.speculation.is_some());
    }
}
