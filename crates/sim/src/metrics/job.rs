//! What is remembered of a job while it lives: three bytes for each task, and where each finished map left its output.

use giveway_core::{JobId, JobSpec, Kind, NodeId, Span, TaskId, Time};

/// A live job.
#[derive(Clone, Debug)]
pub(super) struct Live {
    pub(super) id: JobId,
    pub(super) submit: Time,
    pub(super) group: u16,
    pub(super) user: u32,
    pub(super) first_map: Option<Time>,
    /// Tasks that wait for a slot: COSHH's demand.
    pub(super) waiting: u32,
    pub(super) paused: Vec<Paused>,
    pub(super) pauses: u32,
    pub(super) kills: u32,
    pub(super) early_ends: u32,
    tasks: [Vec<Task>; 2],
    homes: Vec<Home>,
    /// Maps that are not done, those included that have no number yet.
    maps_left: u32,
    last_map: Time,
    /// Rests of maps that ended early and have not been launched: their numbers are not known yet.
    rests: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Task {
    running: u8,
    done: bool,
    launched: bool,
}

/// A paused reduce.
#[derive(Clone, Copy, Debug)]
pub(super) struct Paused {
    pub(super) index: u32,
    pub(super) node: NodeId,
    /// Slot time that went into what is kept.
    pub(super) kept_us: u64,
}

/// Where a map's output lies.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Home {
    pub(super) node: u32,
    /// How often the node had been lost before: its next loss takes the output with it.
    pub(super) loss: u32,
    pub(super) took_us: u64,
}

impl Task {
    fn waits(self) -> bool {
        !self.done && self.running == 0
    }
}

impl Live {
    pub(super) fn new(spec: &JobSpec, submit: Time, group: u16, user: u32) -> Live {
        let (maps, reduces) = (spec.splits.len(), spec.reduces as usize);
        Live {
            id: spec.id,
            submit,
            group,
            user,
            first_map: None,
            waiting: (maps + reduces) as u32,
            paused: Vec::new(),
            pauses: 0,
            kills: 0,
            early_ends: 0,
            tasks: [vec![Task::default(); maps], vec![Task::default(); reduces]],
            homes: vec![Home::default(); maps],
            maps_left: maps as u32,
            last_map: submit,
            rests: 0,
        }
    }

    /// An attempt at a task was launched. Says whether it is the task's first, and by how much the demand changed.
    pub(super) fn started(&mut self, id: TaskId, now: Time) -> (bool, i64) {
        let unknown = (id.index as usize + 1).saturating_sub(self.tasks[id.kind.index()].len());
        let mut change = 0;
        for _ in 0..unknown {
            self.tasks[id.kind.index()].push(Task::default());
            if id.kind == Kind::Map {
                self.homes.push(Home::default());
            }
            // A rest that has waited without a number now has one. A task nobody announced waits from now on.
            if id.kind == Kind::Map && self.rests > 0 {
                self.rests -= 1;
            } else {
                self.maps_left += u32::from(id.kind == Kind::Map);
                change += 1;
            }
        }
        let task = &mut self.tasks[id.kind.index()][id.index as usize];
        let first = !task.launched;
        if task.done {
            // Its output was lost: it is no longer done. It was not counted as waiting in between.
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
        self.waits_change(change);
        (first, change)
    }

    /// An attempt at a task ended. Says whether the task now waits, and by how much the demand changed.
    pub(super) fn stopped(&mut self, id: TaskId, done: bool) -> (bool, i64) {
        let Some(task) = self.tasks[id.kind.index()].get_mut(id.index as usize) else { return (false, 0) };
        let waited = task.waits();
        task.running = task.running.saturating_sub(1);
        if done && !task.done {
            task.done = true;
            self.maps_left -= u32::from(id.kind == Kind::Map);
        }
        let waits = task.waits();
        let change = i64::from(waits) - i64::from(waited);
        self.waits_change(change);
        (waits, change)
    }

    /// A map that ended early left a rest, which waits as a new map. Says by how much the demand changed.
    pub(super) fn left_rest(&mut self) -> i64 {
        self.rests += 1;
        self.maps_left += 1;
        self.waits_change(1);
        1
    }

    /// A map's output lies on a node now.
    pub(super) fn mapped(&mut self, index: u32, now: Time, home: Home) {
        self.last_map = now;
        if let Some(place) = self.homes.get_mut(index as usize) {
            *place = home;
        }
    }

    pub(super) fn is_done(&self, id: TaskId) -> bool {
        self.tasks[id.kind.index()].get(id.index as usize).is_some_and(|task| task.done)
    }

    /// If a map that is about to be launched was done before, where its output was: a done map runs again only if that
    /// is gone.
    pub(super) fn lost_output(&self, id: TaskId) -> Option<Home> {
        (id.kind == Kind::Map && self.is_done(id)).then(|| self.homes[id.index as usize])
    }

    /// How long ago the map phase ended; no time if it has not (FCS, section 5.1).
    pub(super) fn since_maps(&self, now: Time) -> Span {
        if self.maps_left == 0 { now.since(self.last_map) } else { Span::ZERO }
    }

    /// A reduce is launched: it is no longer paused. Returns the slot time that went into what was kept of it.
    pub(super) fn unpaused(&mut self, index: u32) -> u64 {
        let at = self.paused.iter().position(|paused| paused.index == index);
        at.map_or(0, |at| self.paused.swap_remove(at).kept_us)
    }

    fn waits_change(&mut self, change: i64) {
        self.waiting = self.waiting.saturating_add_signed(change as i32);
    }
}
