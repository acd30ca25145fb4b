//! Orders that a program of one's own brings. It registers them before anything else; a policy then names them like built-in ones.

use super::{JobOrder, Order, Rank};
use crate::ids::Kind;
use crate::policy::{Needs, SlotPolicy, View};
use crate::reason::Measure;
use crate::state::Job;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, OnceLock};
use strum::VariantNames;
use thiserror::Error;

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

/// A custom order as part of a policy. Its name and version are stored in event logs, so that a run is not replayed with another order.
#[derive(Clone, Serialize, Deserialize)]
#[serde(from = "Recorded")]
pub struct CustomOrder {
    name: Arc<str>,
    version: Arc<str>,
    /// None if this program has no such order.
    #[serde(skip)]
    value: Option<Arc<dyn JobValue>>,
}

/// What is stored of a custom order.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Recorded {
    name: Arc<str>,
    version: Arc<str>,
}

static REGISTERED: OnceLock<Vec<CustomOrder>> = OnceLock::new();

/// Orders that cannot be registered.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RegisterError {
    /// The orders of a program cannot change while it runs.
    #[error("custom orders are already registered; register all of them in one call, before anything else")]
    AlreadyRegistered,
    /// Two orders have the same name.
    #[error("two orders are called `{0}`; rename one of them")]
    SameName(Arc<str>),
}

/// Makes orders known to all policies that are read from now on. A program calls it once, at its start.
pub fn register(orders: impl IntoIterator<Item = CustomOrder>) -> Result<(), RegisterError> {
    let orders: Vec<CustomOrder> = orders.into_iter().collect();
    let mut names = HashSet::new();
    if let Some(twice) =
        orders.iter().find(|order| !names.insert(&*order.name) || JobOrder::VARIANTS.contains(&&*order.name))
    {
        return Err(RegisterError::SameName(Arc::clone(&twice.name)));
    }
    REGISTERED.set(orders).map_err(|_| RegisterError::AlreadyRegistered)
}

/// The registered order of this name.
pub(super) fn registered(name: &str) -> Option<CustomOrder> {
    REGISTERED.get()?.iter().find(|order| &*order.name == name).cloned()
}

impl CustomOrder {
    /// An order. Its version changes whenever it would rank jobs differently.
    pub fn new(name: &str, version: &str, value: impl JobValue + 'static) -> CustomOrder {
        CustomOrder { name: name.into(), version: version.into(), value: Some(Arc::new(value)) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn value_of(&self, view: View<'_>, job: &Job, kind: Kind, extra: i32) -> f64 {
        // A policy with an unknown order is refused by its check.
        finite(self.value.as_ref().map_or(0.0, |order| order.value(view, job, kind, extra)))
    }
}

impl Order for CustomOrder {
    fn needs(&self) -> Needs {
        self.value.as_ref().map_or(Needs::NOTHING, |order| order.needs())
    }

    fn rank(&self, view: View<'_>, job: &Job, kind: Kind, extra: i32) -> Rank {
        Rank::from(sortable(self.value_of(view, job, kind, extra))) << 32 | Rank::from(job.sequence())
    }

    fn measure(&self, view: View<'_>, job: &Job, kind: Kind) -> Measure {
        Measure::CustomValue(self.value_of(view, job, kind, 0))
    }

    fn check(&self, _: &SlotPolicy) -> Result<(), String> {
        let CustomOrder { name, version, value } = self;
        if value.is_some() {
            return Ok(());
        }
        Err(match registered(name) {
            Some(other) => format!(
                "its order is version {version} of `{name}`, and this program has version {}; use the program that it was made with",
                other.version
            ),
            None => {
                format!("this program has no order `{name}`; use the program that registers it (version {version})")
            }
        })
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

impl From<Recorded> for CustomOrder {
    fn from(Recorded { name, version }: Recorded) -> CustomOrder {
        let known = registered(&name).filter(|order| order.version == version);
        CustomOrder { value: known.and_then(|order| order.value), name, version }
    }
}

impl PartialEq for CustomOrder {
    fn eq(&self, other: &CustomOrder) -> bool {
        (&self.name, &self.version) == (&other.name, &other.version)
    }
}

impl fmt::Debug for CustomOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CustomOrder({} {})", self.name, self.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policy;
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
        assert_eq!(register([named("a"), named("a")]), Err(RegisterError::SameName("a".into())));
        for built_in in ["submission", "remaining-area-and-shuffle", "custom"] {
            assert_eq!(register([named(built_in)]), Err(RegisterError::SameName(built_in.into())));
        }
        register([named("smallest")]).unwrap();
        assert_eq!(register([named("late")]), Err(RegisterError::AlreadyRegistered));

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
