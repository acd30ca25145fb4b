//! The words a policy is written in. `giveway policies show NAME` prints them; the same TOML, edited, is a policy.

pub use crate::action::PreemptAction;
use crate::ids::Kind;
use crate::units::Span;
use serde::{Deserialize, Serialize};

/// A whole scheduling policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// What people call it.
    pub name: String,
    /// What it does, in one sentence.
    #[serde(default)]
    pub about: String,
    /// How often estimates and shares are renewed and preemption is considered.
    #[serde(default = "ten_seconds")]
    pub renew: Span,
    /// What a task is taken to last while nothing is known yet.
    #[serde(default)]
    pub prior: Prior,
    /// How map slots are given.
    pub map: SlotPolicy,
    /// How reduce slots are given.
    pub reduce: SlotPolicy,
    /// What becomes of work lost with a node.
    #[serde(default)]
    pub failure: Recovery,
    /// Match classes of jobs to types of node (COSHH).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub matching: Option<Matching>,
    /// Run a second attempt of a task that lags behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speculation: Option<Speculation>,
}

/// How slots of one kind are given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotPolicy {
    /// Whose turn it is among pools or users.
    #[serde(default)]
    pub groups: GroupOrder,
    /// Whose turn it is among the jobs of a pool, or among all jobs.
    pub order: JobOrder,
    /// How many slots a job is owed.
    #[serde(default)]
    pub share: Share,
    /// Which task of the job, on which node.
    #[serde(default)]
    pub placement: Placement,
    /// Who may take slots from whom, and how.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub preempt: Vec<Preemption>,
}

/// Whose turn it is among groups of jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GroupOrder {
    /// No groups: all jobs stand in one line.
    #[default]
    Flat,
    /// Pools below their min share first, then pools with the fewest slots for their weight (Hadoop's fair scheduler).
    FairPools,
    /// Queues with the least of their capacity in use first, up to their elastic limit (Hadoop's capacity scheduler).
    CapacityQueues,
    /// Users furthest below their min share first, then users with the fewest slots for their weight (COSHH, Algorithm 2).
    Users,
}

/// Whose turn it is among jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum JobOrder {
    /// By priority, then by submission.
    #[default]
    Submission,
    /// Shortest remaining time first (hSRTF, eq. 1).
    RemainingTime,
    /// Fewest slots for its weight first, where priority is weight (Hadoop's fair scheduler).
    SlotsOverWeight,
    /// Fewest slots for what it is owed first.
    SlotsOverShare,
    /// Least work left before and in the reduces first (FCS, section 4).
    RemainingWork,
    /// Least slot time received first.
    AttainedService,
}

/// How many slots a job is owed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Share {
    /// Nobody is owed anything.
    #[default]
    None,
    /// By weight of pool and job, min shares first (Hadoop's fair scheduler).
    Weighted,
    /// In inverse proportion to remaining time, times a starvation ratio against what the share promised (hSRTF, eqs. 3-5).
    InverseRemainingTime,
    /// The same with eq. 5 to the letter: against the time alone on the whole cluster, which undoes most of eq. 3.
    InverseRemainingTimeLiteral,
}

/// Which task of a job goes to a node that offers a slot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Placement {
    /// The most tasks handed to a node in one beat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tasks_per_offer: Option<u32>,
    /// A node gets no further maps in a beat once it got so many whose data is in another rack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_off_rack_per_offer: Option<u32>,
    /// How long a job holds out for a node with its data (delay scheduling).
    pub node_locality_delay: Span,
    /// How long it then holds out for a rack with its data.
    pub rack_locality_delay: Span,
    /// Hold out only while the job has at most this many maps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_max_maps: Option<u32>,
    /// How long a reduce holds out for a node that ran maps of its job (hSRTF, section 3.4).
    pub colocate: Span,
    /// When a paused reduce gives up its node for another.
    pub migrate: Migration,
}

/// When a paused reduce gives up its node for another (FCS, Algorithm 2).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Migration {
    /// It waits for its node however long that takes.
    Never,
    /// After this many offers refused.
    AfterRefusals(u32),
    /// After as many refusals as give this chance to find its own node again: D = -M ln((1-L) / (1+(1-L))).
    ForLocality(f64),
}

/// A right to take slots from others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preemption {
    /// Who may demand slots now.
    pub when: PreemptionTrigger,
    /// Whose attempts give way first.
    pub whom: VictimOrder,
    /// Which attempt of such a job gives way first.
    pub attempt: AttemptOrder,
    /// How it gives way.
    pub how: PreemptAction,
    /// Which attempts are spared.
    #[serde(default)]
    pub spare: Guards,
}

/// Who may demand slots now. A demand never takes what would leave the order wrong the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PreemptionTrigger {
    /// A waiting job that ranks before a running one.
    Outranked,
    /// A waiting job that holds less than its share.
    BelowShare,
    /// A pool below its min share, or below half its fair share, for so long (Hadoop's fair scheduler).
    Starved {
        /// Patience below the min share.
        min_share: Span,
        /// Patience below half the fair share.
        fair_share: Span,
    },
}

/// Whose attempts give way first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VictimOrder {
    /// The job that ranks last.
    LowestRank,
    /// The job with the longest remaining time (hSRTF, section 3.3).
    LongestRemainingTime,
    /// The job with the most slots over its share.
    MostOverShare,
}

/// Which attempt of a job gives way first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttemptOrder {
    /// The one that has come least far.
    LeastProgress,
    /// The one that started last.
    Newest,
    /// One on a node that holds data of the job that waits; then the one that has come least far (hSRTF, section 6).
    NearData,
}

/// Which attempts are spared, so that no job is pushed aside for ever (FCS, section 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Guards {
    /// Those whose time since the beginning is so many times what they would have needed undisturbed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slackness: Option<f64>,
    /// Those that were launched less than this ago.
    pub min_runtime: Span,
    /// Those that have come further than this, of 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progress_over: Option<f64>,
    /// Those that have given way this often.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gave_way: Option<u32>,
}

/// What becomes of work lost with a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recovery {
    /// It waits for a free slot like other work.
    #[default]
    Requeue,
    /// It runs again at once, near its data, in the place of what ranks lower (Chronos).
    Chronos,
}

/// Matching of job classes to node types (COSHH, sections 2.2, 3 and 4).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Matching {
    /// What a node does when no job of its suggested classes waits.
    #[serde(default)]
    pub otherwise: Fallback,
    /// A job belongs to a class if its rates differ from the class's by at most this factor.
    #[serde(default = "two")]
    pub fit: f64,
    /// The history table is renewed each time this many jobs have finished.
    #[serde(default = "thirty_two")]
    pub history_interval_jobs: u32,
    /// Whether to ask that replicas be kept on nodes suggested for the first job that uses them.
    #[serde(default = "yes")]
    pub place_replicas: bool,
}

/// What a node does when no job of its suggested classes waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fallback {
    /// It takes the next best job.
    #[default]
    Backfill,
    /// It stays idle.
    Strict,
}

/// When a second attempt of a laggard is worth a slot.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Speculation {
    /// It lags if its pace is below this part of its job's mean pace.
    pub rate_below: f64,
    /// It is left alone until it has run this long.
    pub after: Span,
}

/// What a task is taken to last while nothing is known yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prior {
    /// A map.
    pub map: Span,
    /// A reduce.
    pub reduce: Span,
}

impl Policy {
    /// The same policy for a cluster whose tasks are so many times shorter: every span in it shrinks alike.
    pub fn faster(mut self, times: f64) -> Policy {
        let shorter = |span: &mut Span| *span = span.scaled(1.0 / times);
        shorter(&mut self.renew);
        shorter(&mut self.prior.map);
        shorter(&mut self.prior.reduce);
        if let Some(speculation) = &mut self.speculation {
            shorter(&mut speculation.after);
        }
        for lane in [&mut self.map, &mut self.reduce] {
            shorter(&mut lane.placement.node_locality_delay);
            shorter(&mut lane.placement.rack_locality_delay);
            shorter(&mut lane.placement.colocate);
            for preemption in &mut lane.preempt {
                shorter(&mut preemption.spare.min_runtime);
                if let PreemptionTrigger::Starved { min_share, fair_share } = &mut preemption.when {
                    shorter(min_share);
                    shorter(fair_share);
                }
            }
        }
        self
    }
}

impl Default for Prior {
    fn default() -> Prior {
        Prior { map: Span::from_secs(30), reduce: Span::from_secs(60) }
    }
}

impl Default for Placement {
    fn default() -> Placement {
        Placement {
            max_tasks_per_offer: None,
            max_off_rack_per_offer: None,
            node_locality_delay: Span::ZERO,
            rack_locality_delay: Span::ZERO,
            delay_max_maps: None,
            colocate: Span::ZERO,
            migrate: Migration::ForLocality(0.95),
        }
    }
}

impl Default for Matching {
    fn default() -> Matching {
        Matching {
            otherwise: Fallback::Backfill,
            fit: two(),
            history_interval_jobs: thirty_two(),
            place_replicas: true,
        }
    }
}

fn ten_seconds() -> Span {
    Span::from_secs(10)
}

fn yes() -> bool {
    true
}

fn two() -> f64 {
    2.0
}

fn thirty_two() -> u32 {
    32
}

impl Share {
    /// True if shares follow from remaining times.
    pub fn follows_remaining(self) -> bool {
        matches!(self, Share::InverseRemainingTime | Share::InverseRemainingTimeLiteral)
    }
}

impl Policy {
    /// The lane of a kind.
    pub fn slot_policy(&self, kind: Kind) -> &SlotPolicy {
        match kind {
            Kind::Map => &self.map,
            Kind::Reduce => &self.reduce,
        }
    }

    fn lanes(&self) -> [&SlotPolicy; 2] {
        [&self.map, &self.reduce]
    }

    fn gives_way_by(&self, how: PreemptAction) -> bool {
        self.lanes().iter().any(|lane| lane.preempt.iter().any(|preemption| preemption.how == how))
    }

    /// True if it may ask a reduce to pause.
    pub fn pauses_reduces(&self) -> bool {
        self.gives_way_by(PreemptAction::Pause) || self.failure == Recovery::Chronos
    }

    /// True if it may ask a map to end early.
    pub fn ends_maps_early(&self) -> bool {
        self.gives_way_by(PreemptAction::EndEarly) || self.failure == Recovery::Chronos
    }

    /// True if it may ask to kill an attempt so that another job gets its slot.
    pub fn kills(&self) -> bool {
        self.gives_way_by(PreemptAction::Kill)
    }

    /// True if one of its lanes ranks jobs in this order.
    pub fn ranks_by(&self, order: JobOrder) -> bool {
        self.lanes().iter().any(|lane| lane.order == order)
    }

    /// True if remaining times make a difference to it.
    pub fn uses_remaining_time(&self) -> bool {
        self.ranks_by(JobOrder::RemainingTime) || self.lanes().iter().any(|lane| lane.share.follows_remaining())
    }

    /// True if how far each attempt has come makes a difference to it, and not only what that says of its job.
    pub fn compares_attempts(&self) -> bool {
        self.ranks_by(JobOrder::RemainingWork)
            || self.lanes().iter().any(|lane| !lane.preempt.is_empty())
            || self.failure == Recovery::Chronos
            || self.speculation.is_some()
    }

    /// True if it believes anything that must be renewed.
    pub fn renews(&self) -> bool {
        self.compares_attempts() || self.uses_remaining_time() || self.ranks_by(JobOrder::AttainedService)
    }
}
