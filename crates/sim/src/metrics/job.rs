//! State of a live job: three bytes for each task, and the location of each finished map's output.

use giveway_core::{JobId, JobSpec, Kind, NodeId, Span, TaskId, Time};

#[derive(Clone, Debug)]
pub(super) struct LiveJob {
    pub(super) id: JobId,
    pub(super) submit: Time,
    pub(super) group: u16,
    pub(super) user: u32,
    pub(super) first_map: Option<Time>,
    /// Tasks that are pending: COSHH's demand.
    pub(super) pending: u32,
    pub(super) paused: Vec<Paused>,
    pub(super) pauses: u32,
    pub(super) kills: u32,
    pub(super) early_ends: u32,
    tasks: [Vec<Task>; 2],
    output_locations: Vec<OutputLocation>,
    /// Maps that are not done, including remainders that have no number yet.
    maps_left: u32,
    last_map: Time,
    /// Remainders of maps that ended early and have not been launched: the events do not contain their numbers before that.
    unnumbered_remainders: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Task {
    running: u8,
    done: bool,
    launched: bool,
}

/// A reduce that is paused.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paused {
    pub(super) index: u32,
    pub(super) node: NodeId,
    /// Slot time spent on the retained progress.
    pub(super) retained_us: u64,
}

/// Where a map's output is stored.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OutputLocation {
    pub(super) node: u32,
    /// Number of losses of the node before the map finished: the next loss removes the output.
    pub(super) loss: u32,
    /// Slot time of the map.
    pub(super) duration_us: u64,
}

impl Task {
    fn is_pending(self) -> bool {
        !self.done && self.running == 0
    }
}

impl LiveJob {
    pub(super) fn new(spec: &JobSpec, submit: Time, group: u16, user: u32) -> LiveJob {
        let (maps, reduces) = (spec.splits.len(), spec.reduces as usize);
        LiveJob {
            id: spec.id,
            submit,
            group,
            user,
            first_map: None,
            pending: (maps + reduces) as u32,
            paused: Vec::new(),
            pauses: 0,
            kills: 0,
            early_ends: 0,
            tasks: [vec![Task::default(); maps], vec![Task::default(); reduces]],
            output_locations: vec![OutputLocation::default(); maps],
            maps_left: maps as u32,
            last_map: submit,
            unnumbered_remainders: 0,
        }
    }

    /// Records the launch of an attempt. Returns whether it is the first of its task, and the change of the demand.
    pub(super) fn on_launch(&mut self, id: TaskId, now: Time) -> (bool, i64) {
        let unknown = (id.index as usize + 1).saturating_sub(self.tasks[id.kind.index()].len());
        let mut change = 0;
        for _ in 0..unknown {
            self.tasks[id.kind.index()].push(Task::default());
            if id.kind == Kind::Map {
                self.output_locations.push(OutputLocation::default());
            }
            // A remainder that was pending without a number gets one now. A task that was not announced counts as pending first.
            if id.kind == Kind::Map && self.unnumbered_remainders > 0 {
                self.unnumbered_remainders -= 1;
            } else {
                self.maps_left += u32::from(id.kind == Kind::Map);
                change += 1;
            }
        }
        let task = &mut self.tasks[id.kind.index()][id.index as usize];
        let first = !task.launched;
        if task.done {
            // Its output was lost, so it is no longer done. It did not count as pending in between.
            task.done = false;
            self.maps_left += u32::from(id.kind == Kind::Map);
        } else if task.running == 0 {
            change -= 1;
        }
        task.launched = true;
        task.running = task.running.saturating_add(1);
        if id.kind == Kind::Map && self.first_map.is_none() {
            self.first_map = Some(now);
        }
        self.change_pending(change);
        (first, change)
    }

    /// Records the end of an attempt. Returns whether the task is pending now, and the change of the demand.
    pub(super) fn on_stop(&mut self, id: TaskId, done: bool) -> (bool, i64) {
        let Some(task) = self.tasks[id.kind.index()].get_mut(id.index as usize) else { return (false, 0) };
        let was_pending = task.is_pending();
        task.running = task.running.saturating_sub(1);
        if done && !task.done {
            task.done = true;
            self.maps_left -= u32::from(id.kind == Kind::Map);
        }
        let is_pending = task.is_pending();
        let change = i64::from(is_pending) - i64::from(was_pending);
        self.change_pending(change);
        (is_pending, change)
    }

    /// Adds the remainder of a map that ended early as a pending map. Returns the change of the demand.
    pub(super) fn add_remainder(&mut self) -> i64 {
        self.unnumbered_remainders += 1;
        self.maps_left += 1;
        self.change_pending(1);
        1
    }

    /// Records a finished map and the location of its output.
    pub(super) fn set_output_location(&mut self, index: u32, now: Time, location: OutputLocation) {
        self.last_map = now;
        if let Some(stored) = self.output_locations.get_mut(index as usize) {
            *stored = location;
        }
    }

    pub(super) fn is_done(&self, id: TaskId) -> bool {
        self.tasks[id.kind.index()].get(id.index as usize).is_some_and(|task| task.done)
    }

    /// Where the output of a map was, if the map is launched again although it is done: that happens only after its output was lost.
    pub(super) fn lost_output(&self, id: TaskId) -> Option<OutputLocation> {
        (id.kind == Kind::Map && self.is_done(id)).then(|| self.output_locations[id.index as usize])
    }

    /// Time since the end of the map phase; zero before it (FCS, section 5.1).
    pub(super) fn since_map_phase(&self, now: Time) -> Span {
        if self.maps_left == 0 { now.since(self.last_map) } else { Span::ZERO }
    }

    /// Removes a reduce from the paused ones at its launch. Returns the slot time spent on its retained progress.
    pub(super) fn remove_paused(&mut self, index: u32) -> u64 {
        let at = self.paused.iter().position(|paused| paused.index == index);
        at.map_or(0, |at| self.paused.swap_remove(at).retained_us)
    }

    fn change_pending(&mut self, change: i64) {
        self.pending = self.pending.saturating_add_signed(change as i32);
    }
}
