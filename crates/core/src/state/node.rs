//! A node: its slots, what runs there, what is paused there, and who was promised its next free slot.

use super::JobIx;
use crate::event::NodeSpec;
use crate::ids::JobId;
use smallvec::SmallVec;

/// A node, up or down. What every start and every end looks at stands first and lies together in memory.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Node {
    /// Free slots of each kind.
    pub free: [u16; 2],
    /// Which type of node it is; nodes of one type have the same slots, speed and disk.
    pub profile: u16,
    /// Whether it is up.
    pub up: bool,
    /// Attempts that hold a slot of each kind: job, task, attempt number.
    pub running: [SmallVec<[(JobIx, u32, u16); 8]>; 2],
    /// Reduces whose state is kept here: job, task.
    pub paused: Vec<(JobIx, u32)>,
    /// Who was promised the next free slots of each kind, in this order.
    pub claims: [Vec<Claim>; 2],
    /// What it has.
    pub spec: NodeSpec,
}

/// A promise: a slot is being freed here on somebody's behalf, so it goes to them and not to whoever asks first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Where the job stands.
    pub jx: JobIx,
    /// Which job that was when the promise was made.
    pub job: JobId,
    /// A task, if it must be this one.
    pub task: Option<u32>,
}

impl Node {
    /// A node that has just joined.
    pub fn new(spec: NodeSpec, profile: u16) -> Node {
        Node {
            free: [spec.map_slots, spec.reduce_slots],
            spec,
            up: true,
            running: Default::default(),
            paused: Vec::new(),
            claims: Default::default(),
            profile,
        }
    }
}
