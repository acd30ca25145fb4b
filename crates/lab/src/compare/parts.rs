//! The parts of the policy `giveway`, and the policy without each of them.

use anyhow::Result;
use giveway_core::policy::{Policy, catalog};

/// A part that can be switched off.
pub struct Part {
    /// What is switched off.
    pub name: &'static str,
    switch_off: fn(&mut Policy),
}

/// All parts, in the order of the ablation table.
pub const PARTS: [Part; 8] = [
    Part { name: "remaining area (hSRTF's remaining time instead)", switch_off: by_remaining_time },
    Part { name: "preemption", switch_off: without_preemption },
    Part { name: "margin", switch_off: |policy| rules(policy, |rule| rule.margin = 1.0) },
    Part { name: "guard of attempts that are nearly done", switch_off: without_guard },
    Part { name: "refusal of slow nodes", switch_off: without_refusals },
    Part { name: "limit of lags", switch_off: |policy| policy.max_lag = None },
    Part { name: "speculation", switch_off: |policy| policy.speculation = None },
    Part { name: "recovery at once", switch_off: without_recovery },
];

impl Part {
    /// A policy without the part.
    pub fn switched_off(&self, policy: &Policy) -> Result<Policy> {
        let mut policy = policy.clone();
        (self.switch_off)(&mut policy);
        policy.name = format!("without {}", self.name);
        policy.check()?;
        Ok(policy)
    }
}

/// With the order of hSRTF.
fn by_remaining_time(policy: &mut Policy) {
    if let Some(hsrtf) = catalog::by_name("hsrtf-pu") {
        (policy.map.order, policy.reduce.order) = (hsrtf.map.order, hsrtf.reduce.order);
    }
}

/// With the recovery of FIFO: lost tasks wait like all others.
fn without_recovery(policy: &mut Policy) {
    if let Some(fifo) = catalog::by_name("fifo") {
        policy.recovery = fifo.recovery;
    }
}

fn without_preemption(policy: &mut Policy) {
    policy.map.preempt.clear();
    policy.reduce.preempt.clear();
}

fn without_guard(policy: &mut Policy) {
    rules(policy, |rule| rule.guards.min_time_left = giveway_core::Span::ZERO);
}

fn without_refusals(policy: &mut Policy) {
    policy.map.placement.refuse_slow = None;
    policy.reduce.placement.refuse_slow = None;
}

fn rules(policy: &mut Policy, change: impl Fn(&mut giveway_core::policy::Preemption)) {
    policy.map.preempt.iter_mut().chain(&mut policy.reduce.preempt).for_each(change);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_changes_the_policy() {
        let whole = catalog::by_name("giveway").unwrap();
        for part in &PARTS {
            let without = Policy { name: whole.name.clone(), ..part.switched_off(&whole).unwrap() };
            assert_ne!(without, whole, "{}", part.name);
        }
    }
}
