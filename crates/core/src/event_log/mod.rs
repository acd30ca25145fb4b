//! The event log: everything that happened and everything that was requested, in order.
//!
//! An event log is a head with the [`Setup`](crate::Setup), then one record for each call of the scheduler (time, event, actions), then a
//! closing record. Every backend writes the same bytes, and a report does not depend on which one wrote them. Replaying the events through a
//! scheduler made of the setup gives the same actions. The engine's journal contains an event log that is synced as it grows.
//!
//! This module converts records to bytes and back; files are the caller's. [`EventLogWriter`] writes; [`EventLogReader`] reads a log that is
//! in memory, [`EventLogDecoder`] one that arrives in pieces.
//!
//! # Format
//!
//! Integers are little-endian. A *checksum* is the CRC-32C of all lengths and contents from the first byte of the log up to and
//! including what it follows, without the checksums themselves. It depends on everything before it: a record that is changed, removed,
//! doubled, moved, or taken from another log does not match.
//!
//! | head | |
//! |---|---|
//! | 8 bytes | magic number `89 47 49 56 45 57 41 59` (0x89, then `GIVEWAY`) |
//! | `u32` | version of the format, 3 |
//! | `u64` | the setup's seed (TOML has no unsigned 64-bit integers) |
//! | `u32` | length of the setup |
//! | `u32` | checksum |
//! | text | the setup as TOML in UTF-8, with its seed written as 0 |
//! | `u32` | checksum |
//!
//! | record | |
//! |---|---|
//! | `u32` | length of the content, 1 byte to 1 GiB |
//! | `u32` | checksum |
//! | bytes | content |
//! | `u32` | checksum |
//!
//! The content is encoded with postcard: a byte 0, then time, event and list of actions; or, in the closing record, a byte 1, then the number
//! of records before it. The length has a checksum of its own, so that a damaged length is not taken for a truncation: after a crash a journal
//! is truncated to its last complete record, and must not be truncated because of a flipped bit in its middle.
//!
//! Messages count records from 1; 0 is the head. A log that ends before its closing record was truncated: its writer was killed. Zeros where a
//! record should begin, left by a power failure, are a truncation too.

mod read;
mod write;

pub use read::{EventLogDecoder, EventLogReader};
pub use write::EventLogWriter;

use crate::action::Action;
use crate::event::Event;
use crate::units::Time;
use serde::{Deserialize, Serialize};
use std::fmt;
use thiserror::Error;

/// The version of the format that is written, and the only one that is read.
pub const EVENT_LOG_VERSION: u32 = 3;

/// The longest setup or record. A longer one is refused before memory is allocated for it.
pub const RECORD_BYTES_MAX: u32 = 1 << 30;

/// The first byte is not ASCII, so that a tool that converts line ends or encodings breaks it visibly.
const MAGIC: [u8; 8] = *b"\x89GIVEWAY";
const HEAD_BYTES: usize = 28;
const LENGTH_BYTES: usize = 8;
const CHECKSUM_BYTES: usize = 4;

/// True if the bytes begin with the magic number of an event log.
pub fn is_event_log(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC)
}

/// One call of the scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The time of the event.
    pub now: Time,
    /// The event.
    pub event: Event,
    /// The actions that followed.
    pub actions: Vec<Action>,
}

/// Why an event log cannot be written.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EventLogWriteError {
    /// The setup cannot be expressed in TOML.
    #[error("cannot write the setup as TOML: {problem}; simplify the policy or the tenants")]
    Setup {
        /// What TOML cannot express.
        problem: String,
    },
    /// A record is too long.
    #[error("cannot write {}: it has {bytes} bytes, the limit is {RECORD_BYTES_MAX}; split the job", At(*.record))]
    TooLong {
        /// Which record, counted from 1; 0 is the head.
        record: u64,
        /// Its length.
        bytes: usize,
    },
}

/// Why an event log cannot be read, or not to its end. Records are counted from 1; 0 is the head.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EventLogError {
    /// The magic number is missing.
    #[error("not a Giveway event log: the magic number is missing; check the file name")]
    NotAnEventLog,
    /// The format has another version.
    #[error(
        "unsupported event log: it has format version {found}, this release reads version {known}; use the release that wrote it"
    )]
    Version {
        /// The log's version.
        found: u32,
        /// The supported version.
        known: u32,
    },
    /// It ends before its closing record.
    #[error(
        "the event log is truncated in {}: its writer was stopped before it closed the log; the first {valid_bytes} bytes are \
         complete (`head -c {valid_bytes}` keeps them), and `giveway replay --open` accepts them without a closing record",
        At(*.record)
    )]
    Truncated {
        /// The truncated or missing record.
        record: u64,
        /// Where the last complete record ends. A journal is truncated to this length and continued from there.
        valid_bytes: u64,
    },
    /// A checksum does not match.
    #[error(
        "the event log is damaged in {}: a checksum does not match; the records before it are intact, restore the rest from a copy",
        At(*.record)
    )]
    Damaged {
        /// The first damaged record.
        record: u64,
    },
    /// The checksums match, but the content is not valid.
    #[error("invalid {} in the event log: {problem}; use the release that wrote it, or report how it was made", At(*.record))]
    Invalid {
        /// The invalid record.
        record: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// Bytes follow the closing record.
    #[error("bytes follow the closing record of the event log, after {records} records; keep one log per file")]
    Trailing {
        /// Records before the closing one. All of them are complete.
        records: u64,
    },
}

/// Names a record in a message.
struct At(u64);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("the head"),
            record => write!(f, "record {record}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::{Locality, Outcome, Start, Work};
    use crate::event::{Hint, JobSpec, NodeSpec, Priority, Progress, Split};
    use crate::ids::{AttemptId, JobId, Kind, NodeId, PerKind, RackId};
    use crate::policy::Policy;
    use crate::reason::{
        GroupKind, GroupMeasure, GroupReason, Measure, NodeMatch, PreemptReason, RankReason, Reason, Refusal,
        StragglerReason,
    };
    use crate::setup::{Capabilities, Setup};
    use crate::snapshot::Snapshot;
    use crate::tenants::{Pool, Tenants, User};
    use crate::timer::Timer;
    use crate::units::Span;
    use proptest::prelude::*;

    /// A setup that uses every option: what TOML cannot carry would show.
    pub(super) fn setup() -> Setup {
        Setup {
            policy: Policy::with_every_option(),
            tenants: Tenants {
                users: vec![User { name: "ünal".into(), weight: 1e-9, min_share: 3 }],
                pools: vec![Pool {
                    name: "etl".into(),
                    parent: Some("root".into()),
                    weight: 1e300,
                    min_maps: 1,
                    min_reduces: 2,
                    capacity: None,
                    max_capacity: 100.0 / 3.0,
                    user_limit: 25.0,
                }],
            },
            capabilities: Capabilities { bind_tasks: false, ..Capabilities::ALL },
            seed: u64::MAX,
        }
    }

    fn attempt() -> impl Strategy<Value = AttemptId> + Clone {
        (any::<u32>(), any::<bool>(), any::<u32>(), any::<u16>()).prop_map(|(job, map, index, number)| {
            AttemptId::new(JobId(job), if map { Kind::Map } else { Kind::Reduce }, index, number)
        })
    }

    fn job() -> impl Strategy<Value = JobSpec> {
        let split = (any::<u64>(), prop::collection::vec(any::<u32>().prop_map(NodeId), 0..6));
        let splits = prop::collection::vec(split.prop_map(|(bytes, hosts)| Split { bytes, hosts: hosts.into() }), 0..6);
        let hint = prop::option::of(
            (any::<u64>(), any::<u64>()).prop_map(|(map, reduce)| Hint { map: Span(map), reduce: Span(reduce) }),
        );
        (any::<u32>(), ".{0,8}", splits, any::<u32>(), hint).prop_map(|(id, name, splits, reduces, hint)| JobSpec {
            external_id: Some(name.clone()),
            id: JobId(id),
            user: name.clone(),
            pool: "default".into(),
            name,
            priority: Priority::Low,
            splits: splits.into(),
            reduces,
            slowstart_ppm: 50_000,
            hint,
            estimate_bias_ppm: 1_000_000,
        })
    }

    fn event() -> impl Strategy<Value = Event> {
        let node = any::<u32>().prop_map(NodeId);
        let progress = (attempt(), any::<u32>()).prop_map(|(attempt, progress_ppm)| Progress { attempt, progress_ppm });
        prop_oneof![
            job().prop_map(|job| Event::JobSubmitted(Box::new(job))),
            (node.clone(), ".{0,8}", any::<u64>()).prop_map(|(node, name, disk_bytes)| Event::NodeJoined {
                node,
                spec: NodeSpec {
                    name,
                    rack: RackId(1),
                    map_slots: 8,
                    reduce_slots: 2,
                    speed_ppm: 1_000_000,
                    disk_bytes_per_s: 1,
                    disk_bytes
                }
            }),
            (node, prop::collection::vec(progress, 0..4))
                .prop_map(|(node, progress)| Event::SlotsOffered { node, progress }),
            (attempt(), any::<u64>(), any::<u64>()).prop_map(|(attempt, done_bytes, output_bytes)| {
                Event::AttemptEndedEarly { attempt, done_bytes, output_bytes }
            }),
            Just(Event::TimerFired { timer: Timer::Estimates }),
        ]
    }

    fn action() -> impl Strategy<Value = Action> {
        let node = any::<u32>().prop_map(NodeId);
        prop_oneof![
            (attempt(), node.clone(), any::<u64>(), any::<u32>()).prop_map(|(attempt, node, bytes, split)| {
                Action::Launch {
                    attempt,
                    node,
                    work: Work::Map { split, start_bytes: 0, bytes, locality: Locality::Rack },
                    reason: Reason::Ranked(RankReason {
                        group: Some(Box::new(GroupReason {
                            kind: GroupKind::Queue,
                            name: "etl".into(),
                            measure: GroupMeasure::CapacityUsed { percent: split },
                        })),
                        measure: Measure::SlotsOverShare { allocated: 1, share_milli: bytes },
                        node_match: Some(NodeMatch::Fallback),
                    }),
                }
            }),
            (attempt(), attempt(), node).prop_map(|(attempt, from, node)| Action::Launch {
                attempt,
                node,
                work: Work::Reduce { start: Start::Migrated { from, node } },
                reason: Reason::Recovery { lost: node },
            }),
            any::<u32>().prop_map(|job| Action::CloseJob { job: JobId(job), outcome: Outcome::Failed }),
            attempt().prop_map(|attempt| Action::Refuse { refusal: Refusal::StaleAttempt(attempt) }),
        ]
    }

    pub(super) fn records() -> impl Strategy<Value = Vec<Record>> {
        let record = (any::<u64>(), event(), prop::collection::vec(action(), 0..4));
        prop::collection::vec(record.prop_map(|(now, event, actions)| Record { now: Time(now), event, actions }), 0..6)
    }

    /// The format numbers variants by their position in the enum: a new one goes to the end, or the version goes up.
    #[test]
    fn variants_keep_their_numbers() {
        let (job, node, attempt) = (JobId(0), NodeId(0), AttemptId::new(JobId(0), Kind::Map, 0, 0));
        let spec = |name: &str| NodeSpec {
            name: name.into(),
            rack: RackId(0),
            map_slots: 1,
            reduce_slots: 1,
            speed_ppm: 1,
            disk_bytes_per_s: 1,
            disk_bytes: 1,
        };
        let job_spec = JobSpec {
            external_id: None,
            id: job,
            name: String::new(),
            user: String::new(),
            pool: String::new(),
            priority: Priority::Normal,
            splits: [].into(),
            reduces: 0,
            slowstart_ppm: 0,
            hint: None,
            estimate_bias_ppm: 1,
        };
        let empty = Snapshot::default();
        let events = [
            Event::JobKilled { job },
            Event::NodeJoined { node, spec: spec("") },
            Event::SlotsOffered { node, progress: vec![] },
            Event::NodeLost { node },
            Event::AttemptFinished { attempt, output_bytes: 0 },
            Event::AttemptFailed { attempt },
            Event::AttemptKilled { attempt },
            Event::AttemptPaused { attempt, progress_ppm: 0 },
            Event::AttemptEndedEarly { attempt, done_bytes: 0, output_bytes: 0 },
            Event::TimerFired { timer: Timer::Estimates },
            Event::ProgressReported { progress: vec![] },
            Event::MapOutputLost { map: attempt },
            Event::YieldRequested { attempt },
            Event::JobOpened(Box::new(job_spec)),
            Event::SlotsRequested { job, maps: 0, reduces: 0 },
            Event::SlotGranted { job, kind: Kind::Map, node },
            Event::JobEnded { job, outcome: Outcome::Succeeded },
            Event::Resynced,
            Event::StopFailed { attempt },
            Event::AttemptProtected { attempt },
            Event::PauseLimitSet { node, attempts: 0 },
            Event::RecoveryRequested { job, slots: 0 },
            Event::Restored(Box::new(empty)),
            Event::NodeDrained { node },
            Event::NodeIncluded { node },
            Event::AttemptLost { attempt },
            Event::NodeSlotsSet { node, slots: PerKind::default() },
            Event::HeadroomSet { job, slots: 0, freed: false },
        ];
        check_numbers(&events, 1);
        let reason = || Reason::Reserved;
        let actions = [
            Action::Launch { attempt, node, work: Work::Reduce { start: Start::Fresh }, reason: reason() },
            Action::Pause { attempt, node, reason: reason() },
            Action::EndEarly { attempt, node, reason: reason() },
            Action::Kill { attempt, node, reason: reason() },
            Action::PlaceReplicas { job, hosts: vec![] },
            Action::CloseJob { job, outcome: Outcome::Succeeded },
            Action::SetTimer { timer: Timer::Estimates, at: Time(0) },
            Action::Refuse { refusal: Refusal::ClockWentBack },
        ];
        check_numbers(&actions, 0);
        let rank = |measure| RankReason { group: None, measure, node_match: None };
        check_numbers(
            &[
                Reason::Ranked(rank(Measure::Submission)),
                Reason::Reserved,
                Reason::Recovery { lost: node },
                Reason::Speculative { progress_ppm: 0 },
                Reason::PreemptedFor { job },
                Reason::PreemptedForRecovery { job },
                Reason::OtherAttemptFinished,
                Reason::JobEnded,
                Reason::RequestedByUser,
                Reason::GrantedByCluster,
                Reason::Preempted(Box::new(PreemptReason {
                    beneficiary: job,
                    group: None,
                    by: Measure::Submission,
                    victim: Measure::Submission,
                    margin_milli: 1_000,
                    time_left: None,
                    min_time_left: Span::ZERO,
                })),
                Reason::StragglerEnded(Box::new(StragglerReason {
                    progress_ppm: 0,
                    left: Span::ZERO,
                    again: Span::ZERO,
                    node,
                })),
                Reason::Retry { failures: 0, failed_on: node },
                Reason::Probe { failures: 0, jobs: 0 },
            ],
            0,
        );
        check_numbers(
            &[
                Measure::Submission,
                Measure::RemainingTime(Span::ZERO),
                Measure::SlotsOverWeight { allocated: 0, weight_milli: 0 },
                Measure::SlotsOverShare { allocated: 0, share_milli: 0 },
                Measure::RemainingWork { shuffle: Span::ZERO, reduce_bytes: 0 },
                Measure::AttainedService(Span::ZERO),
                Measure::RemainingArea(Span::ZERO),
                Measure::RemainingAreaAndShuffle { area: Span::ZERO, shuffle: Span::ZERO },
                Measure::UnknownSize { attained: Span::ZERO },
                Measure::Late { allocated: 0, share_milli: 0 },
                Measure::Small { left: Span::ZERO },
                Measure::CustomValue(0.0),
            ],
            0,
        );
        check_numbers(
            &[
                GroupMeasure::BelowMinShare { allocated: 0, min_share: 0 },
                GroupMeasure::SlotsOverWeight { allocated: 0, weight_milli: 0 },
                GroupMeasure::CapacityUsed { percent: 0 },
                GroupMeasure::BehindFairShare { allocated: 0, due: 0 },
            ],
            0,
        );
        check_numbers(&[GroupKind::Pool, GroupKind::Queue, GroupKind::User], 0);
        check_numbers(&[NodeMatch::Suggested { class: 0 }, NodeMatch::Fallback], 0);
        check_numbers(
            &[
                Refusal::JobExists(job),
                Refusal::UnknownJob(job),
                Refusal::EmptyJob(job),
                Refusal::InvalidJob(job),
                Refusal::UnknownNode(node),
                Refusal::NodeAlreadyUp(node),
                Refusal::NodeIdGap(node),
                Refusal::InvalidNode(node),
                Refusal::StaleAttempt(attempt),
                Refusal::NotRequested(attempt),
                Refusal::ClockWentBack,
                Refusal::NothingPending(job),
                Refusal::NotOpen(job),
                Refusal::InvalidSnapshot,
            ],
            0,
        );
        check_numbers(&Timer::ALL, 0);
        check_numbers(&[Outcome::Succeeded, Outcome::Killed, Outcome::Failed], 0);
    }

    fn check_numbers<T: Serialize + std::fmt::Debug>(variants: &[T], first: u8) {
        for (variant, number) in variants.iter().zip(first..) {
            assert_eq!(postcard::to_allocvec(variant).unwrap()[0], number, "{variant:?}");
        }
    }
}
