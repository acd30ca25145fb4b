//! Orders that a program of one's own brings ([`Custom`]).

use super::{JobOrder, Order, Rank};
use crate::ids::Kind;
use crate::policy::custom::{Custom, Part, Registry};
use crate::policy::{Needs, SlotPolicy, View};
use crate::reason::Measure;
use crate::state::Job;
use std::sync::{Arc, OnceLock};
use strum::VariantNames;

/// An order of one's own: a number for each job. The job with the lowest gets the next slot.
///
/// ```
/// use giveway_core::policy::View;
/// use giveway_core::policy::orders::JobValue;
/// use giveway_core::state::Job;
/// use giveway_core::Kind;
///
/// /// Smallest input first.
/// struct SmallestInput;
///
/// impl JobValue for SmallestInput {
///     fn value(&self, _: View<'_>, job: &Job, _: Kind, _: i32) -> f64 {
///         job.input_bytes() as f64
///     }
/// }
/// ```
pub trait JobValue: Send + Sync {
    /// The value of a job, if it had `extra` more slots of the kind than it has. Smaller is sooner, NaN last; of equal jobs the one that was
    /// submitted first. It must follow from the arguments alone. It is computed when tasks of the job start, end or are requested, and for all jobs whenever
    /// estimates are computed.
    fn value(&self, view: View<'_>, job: &Job, kind: Kind, extra: i32) -> f64;

    /// What it reads beyond the counts that are always kept. By default all estimates, which costs time in a large cluster.
    fn needs(&self) -> Needs {
        Needs {
            attempt_progress: false,
            remaining_time: true,
            remaining_work: true,
            attained_service: true,
            remaining_area: true,
            finished_work: true,
            fair_share: false,
            running_maps: true,
        }
    }
}

/// A custom order as part of a policy.
pub type CustomOrder = Custom<dyn JobValue>;

static REGISTERED: Registry<dyn JobValue> = OnceLock::new();

impl Part for dyn JobValue {
    const NAME: &'static str = "order";

    fn registry() -> &'static Registry<dyn JobValue> {
        &REGISTERED
    }

    fn built_in() -> &'static [&'static str] {
        JobOrder::VARIANTS
    }
}

impl CustomOrder {
    /// An order. Its version changes whenever it would rank jobs differently.
    pub fn new(name: &str, version: &str, value: impl JobValue + 'static) -> CustomOrder {
        Custom::of(name, version, Arc::new(value))
    }

    /// The value of a job, as a number that is finite.
    pub fn value_of(&self, view: View<'_>, job: &Job, kind: Kind, extra: i32) -> f64 {
        finite(self.part().map_or(0.0, |order| order.value(view, job, kind, extra)))
    }

    /// The same as an integer that keeps the order, above the job's number.
    pub fn rank_of(&self, view: View<'_>, job: &Job, kind: Kind, extra: i32) -> Rank {
        Rank::from(sortable(self.value_of(view, job, kind, extra))) << 32 | Rank::from(job.sequence())
    }
}

impl Order for CustomOrder {
    fn needs(&self) -> Needs {
        self.part().map_or(Needs::NOTHING, |order| order.needs())
    }

    fn rank(&self, view: View<'_>, job: &Job, kind: Kind, extra: i32) -> Rank {
        self.rank_of(view, job, kind, extra)
    }

    fn measure(&self, view: View<'_>, job: &Job, kind: Kind) -> Measure {
        Measure::CustomValue(self.value_of(view, job, kind, 0))
    }

    fn check(&self, _: &SlotPolicy) -> Result<(), String> {
        Custom::check(self)
    }
}

/// The nearest finite number; the largest for what is no number, which would differ from itself when a log is replayed.
fn finite(value: f64) -> f64 {
    if value.is_nan() { f64::MAX } else { value.clamp(f64::MIN, f64::MAX) }
}

/// The bits of a finite number, such that they sort as numbers do.
fn sortable(value: f64) -> u64 {
    // -0.0 and 0.0 are the same value.
    let bits = (value + 0.0).to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;
    use crate::policy::custom::{RegisterError, register};
    use crate::setup::Setup;

    struct Smallest;

    impl JobValue for Smallest {
        fn value(&self, _: View<'_>, job: &Job, _: Kind, _: i32) -> f64 {
            job.input_bytes() as f64
        }
    }

    const POLICY: &str = "name = \"mine\"\nmap = { order = \"smallest\" }\nreduce = { order = \"submission\" }";

    fn recorded(name: &str, version: &str) -> String {
        POLICY.replace("\"smallest\"", &format!("{{ custom = {{ name = \"{name}\", version = \"{version}\" }} }}"))
    }

    /// One test, because a program registers once.
    #[test]
    fn a_registered_order_is_named_in_policies_and_no_other_takes_its_place() {
        let unknown = toml::from_str::<Policy>(POLICY).unwrap_err().to_string();
        assert!(unknown.contains("smallest") && unknown.contains("remaining-time"), "{unknown}");

        let named = |name| CustomOrder::new(name, "2", Smallest);
        assert_eq!(register([named("a"), named("a")]), Err(RegisterError::SameName("order", "a".into())));
        for built_in in ["submission", "remaining-area-and-shuffle", "custom"] {
            assert_eq!(register([named(built_in)]), Err(RegisterError::SameName("order", built_in.into())));
        }
        register([named("smallest")]).unwrap();
        assert_eq!(register([named("late")]), Err(RegisterError::AlreadyRegistered("order")));

        let policy: Policy = toml::from_str(POLICY).unwrap();
        assert_eq!(policy.map.order, JobOrder::Custom(named("smallest")));
        assert_eq!(policy.check(), Ok(()));
        let text = toml::to_string(&policy).unwrap();
        assert_eq!(toml::from_str::<Policy>(&text).unwrap(), policy, "{text}");
        assert_eq!(toml::from_str::<Policy>(&recorded("smallest", "2")).unwrap(), policy);

        let refused = |name, version| {
            let policy: Policy = toml::from_str(&recorded(name, version)).unwrap();
            Setup::new(policy).check().unwrap_err().to_string()
        };
        assert!(refused("smallest", "1").contains("version 1"), "another version");
        assert!(refused("other", "2").contains("no order `other`"), "not registered");
    }

    #[test]
    fn values_sort_as_numbers_and_what_is_none_comes_last() {
        let sorted = [f64::NEG_INFINITY, -1e300, -2.0, -1e-300, 0.0, 1e-300, 1.0, 1e300, f64::INFINITY].map(finite);
        assert!(sorted.is_sorted_by(|a, b| sortable(*a) < sortable(*b)));
        assert_eq!(sortable(-0.0), sortable(0.0));
        assert_eq!([f64::NAN, -f64::NAN, f64::INFINITY].map(finite), [f64::MAX; 3]);
    }
}
