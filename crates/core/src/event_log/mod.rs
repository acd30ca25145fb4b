//! The event log: everything that happened and everything that was asked for, in order.
//!
//! An event log is a head with the [`Setup`](crate::Setup), then one record for each call of the scheduler (when, what
//! happened, what it asked for), then a closing record. Every body writes the same bytes, a report never asks who wrote
//! them, and replaying the events through a scheduler made of the setup gives the same actions. The engine's journal is
//! an event log that is synced as it grows.
//!
//! This module turns records into bytes and bytes into records; files are the caller's business. Writing is
//! [`EventLogWriter`]; reading is [`EventLogReader`] for an event log that lies in memory and [`EventLogDecoder`] for one that arrives in
//! pieces.
//!
//! # Bytes
//!
//! Integers are little-endian. A *check* is the CRC-32C of all lengths and contents from the event log's first byte up to
//! and including what it follows (the checks themselves left out). Each check so depends on everything before it: a
//! record that is changed, removed, doubled, moved, or taken from another event log does not fit.
//!
//! | head | |
//! |---|---|
//! | 8 bytes | the mark `89 47 49 56 45 57 41 59` (0x89, then `GIVEWAY`) |
//! | `u32` | version of the format, 1 |
//! | `u64` | the setup's seed (TOML has no unsigned 64-bit integers) |
//! | `u32` | length of the setup |
//! | `u32` | check |
//! | text | the setup as TOML in UTF-8, its seed written as 0 |
//! | `u32` | check |
//!
//! | record | |
//! |---|---|
//! | `u32` | length of the content, 1 byte to 1 GiB |
//! | `u32` | check |
//! | bytes | content |
//! | `u32` | check |
//!
//! The content is in postcard's format: a byte 0, then instant, event and list of actions; or, in the closing record, a
//! byte 1, then the number of records before it. The length has a check of its own so that a damaged length is not
//! taken for a cut: a journal is cut back to its last whole record after a crash, and must never be cut for a flipped
//! bit in its middle.
//!
//! Records are counted from 1 in messages; 0 is the head. An event log that ends before its closing record was cut short: the
//! writer was killed. If a power cut left zeros where a record should begin, that is a cut too.

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
pub const EVENT_LOG_VERSION: u32 = 1;

/// The longest setup or record: what claims to be longer is refused before room is made for it.
pub const RECORD_BYTES_MAX: u32 = 1 << 30;

/// The first byte is no text, so that a tool that repairs line ends or encodings shows at once.
const MARK: [u8; 8] = *b"\x89GIVEWAY";
const HEAD_BYTES: usize = 28;
const LENGTH_BYTES: usize = 8;
const CHECK_BYTES: usize = 4;

/// True if these bytes begin as an event log does.
pub fn is_event_log(bytes: &[u8]) -> bool {
    bytes.starts_with(&MARK)
}

/// One call of the scheduler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// When.
    pub now: Time,
    /// What happened.
    pub event: Event,
    /// What the scheduler asked for.
    pub actions: Vec<Action>,
}

/// Why an event log cannot be written.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EventLogWriteError {
    /// The setup has no text form.
    #[error("the setup cannot be written as TOML ({problem}); simplify the policy or the tenants")]
    Setup {
        /// What TOML cannot say.
        problem: String,
    },
    /// More than a record may hold.
    #[error("{} would be {bytes} bytes long, over the limit of {RECORD_BYTES_MAX}; split the job", At(*.record))]
    TooLong {
        /// Which record, counted from 1; 0 is the head.
        record: u64,
        /// How long it would be.
        bytes: usize,
    },
}

/// Why an event log cannot be read, or not to its end. Records are counted from 1; 0 is the head.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EventLogError {
    /// It does not begin as an event log does.
    #[error("this is not a Giveway event log: it does not begin with an event log's mark; check which file was meant")]
    NotAnEventLog,
    /// It was written by another release.
    #[error(
        "the event log has format version {found}, this release reads version {known}; use the release that wrote it"
    )]
    Version {
        /// The event log's version.
        found: u32,
        /// The version known here.
        known: u32,
    },
    /// It ends before its closing record.
    #[error(
        "the event_log ends in {}: its writer was stopped before it closed the event_log; what comes before (the first {valid_bytes} \
         bytes) is whole and can be used",
        At(*.record)
    )]
    Truncated {
        /// The record that is cut or missing.
        record: u64,
        /// Where the last whole record ends. A journal is cut back to this length and goes on from there.
        valid_bytes: u64,
    },
    /// Its bytes are not those that were written.
    #[error("the event log is damaged in {}: a checksum does not fit; what comes before is whole, restore the rest from a copy", At(*.record))]
    Damaged {
        /// The first record that does not fit.
        record: u64,
    },
    /// Its checksums fit, but it makes no sense.
    #[error("{} of the event log makes no sense ({problem}); use the release that wrote it, or report how it was made", At(*.record))]
    Malformed {
        /// The record.
        record: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// Something follows its closing record.
    #[error("bytes follow the event log's closing record, after {records} records; keep one event log to a file")]
    Trailing {
        /// Records before the closing one: all of them are whole.
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
    use crate::action::{Locality, Outcome, Reason, Refusal, Start, Work};
    use crate::event::{Hint, JobSpec, NodeSpec, Priority, Progress, Split};
    use crate::ids::{AttemptId, JobId, Kind, NodeId, RackId};
    use crate::policy::{
        AttemptOrder, Guards, Matching, Migration, Placement, Policy, PreemptAction, Preemption, PreemptionTrigger,
        Prior, Recovery, Share, SlotPolicy, Speculation, VictimOrder,
    };
    use crate::setup::{Capabilities, Setup};
    use crate::tenants::{Pool, Tenants, User};
    use crate::timer::Timer;
    use crate::units::Span;
    use proptest::prelude::*;

    /// A setup that uses every word there is: what TOML cannot carry would show.
    pub(super) fn setup() -> Setup {
        let spare = Guards {
            slackness: Some(5.0),
            min_runtime: Span(1),
            progress_over: Some(0.1 + 0.2),
            gave_way: Some(u32::MAX),
        };
        let preemption = |when| Preemption {
            when,
            whom: VictimOrder::MostOverShare,
            attempt: AttemptOrder::NearData,
            how: PreemptAction::Kill,
            spare,
        };
        let lane = SlotPolicy {
            share: Share::Weighted,
            placement: Placement {
                max_tasks_per_offer: Some(1),
                migrate: Migration::AfterRefusals(61),
                ..Placement::default()
            },
            preempt: vec![
                preemption(PreemptionTrigger::Outranked),
                preemption(PreemptionTrigger::Starved {
                    min_share: Span::FOREVER,
                    fair_share: Span::from_millis(1_500),
                }),
            ],
            ..SlotPolicy::default()
        };
        Setup {
            policy: Policy {
                name: "all \"words\"".into(),
                about: "One of everything.\nIn two lines.".into(),
                renew: Span(1_234_567),
                prior: Prior::default(),
                map: lane.clone(),
                reduce: SlotPolicy { preempt: vec![], placement: Placement::default(), ..lane },
                failure: Recovery::Chronos,
                matching: Some(Matching::default()),
                speculation: Some(Speculation { rate_below: 1.0 / 3.0, after: Span::from_secs(60) }),
            },
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
            external_id: None,
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
                    reason: Reason::SlotsOverShare { allocated: 1, share_milli: bytes },
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

    /// The numbers of events and actions on the event log are their places in the enums: a new one goes to the end, or the
    /// version goes up.
    #[test]
    fn events_and_actions_keep_their_numbers() {
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
        ];
        for (event, number) in events.iter().zip(1..) {
            assert_eq!(postcard::to_allocvec(event).unwrap()[0], number, "{event:?}");
        }
        let reason = Reason::SubmissionOrder;
        let actions = [
            Action::Launch { attempt, node, work: Work::Reduce { start: Start::Fresh }, reason },
            Action::Pause { attempt, node, reason },
            Action::EndEarly { attempt, node, reason },
            Action::Kill { attempt, node, reason },
            Action::PlaceReplicas { job, hosts: vec![] },
            Action::CloseJob { job, outcome: Outcome::Succeeded },
            Action::SetTimer { timer: Timer::Estimates, at: Time(0) },
            Action::Refuse { refusal: Refusal::ClockWentBack },
        ];
        for (action, number) in actions.iter().zip(0..) {
            assert_eq!(postcard::to_allocvec(action).unwrap()[0], number, "{action:?}");
        }
    }
}
