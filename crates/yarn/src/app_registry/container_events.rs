//! What happens to the containers of applications: allocations, pauses, resumes, progress.

use super::AppRegistry;
use crate::containers::{Container, ContainerState, Order, PAUSE_TIMEOUT, PAUSES_TRIED, TaskTally, task_progress};
use crate::wire::{ContainerUpdate, SidecarMessage};
use giveway_core::{AttemptId, Event, JobId, Kind, NodeId, PreemptAction, Progress, Span, Time};

/// Time for which no node may be able to pause before that is reported.
const NO_PAUSE_GRACE: Span = Span::from_secs(30);

/// Time in which the plug-in reports the progress of single tasks, if it can.
const REPORT_GRACE: Span = Span::from_secs(10);

/// An order for the plug-in, and the line about it in the operator's log.
#[derive(Debug)]
pub struct LoggedOrder {
    pub message: SidecarMessage,
    pub log_line: String,
}

/// A container that the core is about to learn of.
pub(super) struct GrantedContainer {
    pub id: String,
    pub node: NodeId,
    pub kind: Kind,
    pub is_master: bool,
}

impl AppRegistry {
    /// Turns an order into a message to the plug-in and updates the container's state. `beneficiary` is the job that a pause or kill serves.
    pub(super) fn carry_out(&mut self, now: Time, order: Order, beneficiary: Option<JobId>) {
        let (Order::Pause(attempt) | Order::Kill(attempt) | Order::Resume { from: attempt, .. }) = order;
        let Some((app_id, container_id)) = self.index.get(&attempt).cloned() else { return };
        let Some(container) = self.apps.get_mut(&app_id).and_then(|app| app.containers.get_mut(&container_id)) else {
            return;
        };
        let reason = match beneficiary.and_then(|job| self.app_ids.get(&job)) {
            Some(served) if *served == app_id => "for another task of it".to_owned(),
            Some(served) => format!("for {served}"),
            None => String::new(),
        };
        let (message, verb) = match order {
            Order::Pause(_) => {
                container.state = ContainerState::Pausing { since: now };
                (SidecarMessage::Pause(container_id.clone()), "pausing")
            }
            Order::Kill(_) => (SidecarMessage::Kill(container_id.clone()), "killing"),
            Order::Resume { from, to } => {
                (container.attempt, container.state) = (to, ContainerState::Resuming);
                self.index.remove(&from);
                self.index.insert(to, (app_id.clone(), container_id.clone()));
                (SidecarMessage::Resume(container_id.clone()), "resuming")
            }
        };
        let log_line = format!("{verb} {container_id} of {app_id} {reason}").trim_end().to_owned();
        self.orders.push(LoggedOrder { message, log_line });
    }

    /// Takes the orders for the plug-in since the last call.
    pub fn take_orders(&mut self) -> Vec<LoggedOrder> {
        std::mem::take(&mut self.orders)
    }

    /// True while containers are paused or about to be: then [`poll_paused`](AppRegistry::poll_paused) must be called every second.
    pub fn has_paused(&self) -> bool {
        self.containers().any(|container| !matches!(container.state, ContainerState::Running))
    }

    /// Number of nodes, if the policy pauses containers and for half a minute none of them could. Returned once.
    pub fn unable_to_pause(&mut self, now: Time) -> Option<usize> {
        let state = self.core.state();
        let pauses = state.nodes().ids_up().any(|node| state.node(node).pause_limit() > 0);
        let policy_pauses = self.core.setup().policy.preempts_by(PreemptAction::Pause, true);
        if self.nodes.is_empty() || pauses || !self.one_pool || !policy_pauses {
            self.no_pause_since = None;
            return None;
        }
        let since = *self.no_pause_since.get_or_insert(now);
        // NodeManagers report what they can do some time after they have registered.
        if self.no_pause_reported || now.since(since) < NO_PAUSE_GRACE {
            return None;
        }
        self.no_pause_reported = true;
        Some(self.nodes.len())
    }

    pub(super) fn containers(&self) -> impl Iterator<Item = &Container> {
        self.apps.values().flat_map(|app| app.containers.values())
    }

    /// Offers the free slots of nodes with paused containers to the core, which resumes those that rank first, and gives up demotions that the
    /// plug-in does not confirm.
    pub fn poll_paused(&mut self, now: Time) {
        let timed_out = |container: &&Container| matches!(container.state, ContainerState::Pausing { since } if now.since(since) >= PAUSE_TIMEOUT);
        let mut late: Vec<AttemptId> = self.containers().filter(timed_out).map(|container| container.attempt).collect();
        late.sort_unstable();
        for attempt in late {
            let Some((app_id, container_id)) = self.index.get(&attempt).cloned() else { continue };
            let log_line =
                format!("resuming {container_id} of {app_id}: its application master did not confirm the pause");
            self.orders.push(LoggedOrder { message: SidecarMessage::Resume(container_id.clone()), log_line });
            self.not_demoted(now, &app_id, &container_id);
        }
        let reduce = Kind::Reduce;
        let offered = self.core.nodes().filter(|node| node.up && node.paused > 0 && node.free[reduce] > 0);
        let offered: Vec<NodeId> = offered.map(|node| node.id).filter(|node| self.can_resume.contains(node)).collect();
        for node in offered {
            self.submit_event(now, Event::SlotsOffered { node, progress: Vec::new() });
        }
    }

    fn not_demoted(&mut self, now: Time, app_id: &str, container_id: &str) {
        let container = self.apps.get_mut(app_id).and_then(|app| app.containers.get_mut(container_id));
        if let Some(container) = container.filter(|one| matches!(one.state, ContainerState::Pausing { .. })) {
            container.state = ContainerState::Running;
            container.failed_pauses = container.failed_pauses.saturating_add(1);
            let (attempt, is_refused) = (container.attempt, container.failed_pauses >= PAUSES_TRIED);
            self.submit_event(now, Event::StopFailed { attempt });
            if is_refused {
                self.submit_event(now, Event::AttemptProtected { attempt });
            }
        }
    }

    pub(super) fn container_updated(&mut self, now: Time, app_id: &str, container_id: &str, update: ContainerUpdate) {
        let Some(app) = self.apps.get_mut(app_id) else { return };
        match (update, app.containers.get_mut(container_id)) {
            (ContainerUpdate::Demoted, Some(container))
                if matches!(container.state, ContainerState::Pausing { .. }) =>
            {
                container.state = ContainerState::Paused;
                let attempt = container.attempt;
                let progress_ppm = self.progress_of(attempt);
                self.submit_event(now, Event::AttemptPaused { attempt, progress_ppm });
            }
            (ContainerUpdate::NotDemoted, Some(_)) => self.not_demoted(now, app_id, container_id),
            (ContainerUpdate::Promoted, Some(container)) if container.state == ContainerState::Resuming => {
                container.state = ContainerState::Running;
            }
            // Promoted without an order, by the plug-in alone: the core sees a new attempt.
            (ContainerUpdate::Promoted, Some(container)) if container.state == ContainerState::Paused => {
                let (attempt, node, kind) = (container.attempt, container.node, container.kind);
                app.containers.remove(container_id);
                self.index.remove(&attempt);
                self.submit_event(now, Event::AttemptKilled { attempt });
                let id = container_id.to_owned();
                self.grant(now, app_id, GrantedContainer { id, node, kind, is_master: false });
            }
            (ContainerUpdate::Promoted, None) => {
                let Some((node, kind)) = app.demoted.remove(container_id) else { return };
                let Some(&node) = self.nodes.get(&node) else { return };
                let mut asks = app.asks;
                asks[kind.index()] = asks[kind.index()].saturating_add(1);
                self.update_pending(now, app_id, asks);
                let id = container_id.to_owned();
                self.grant(now, app_id, GrantedContainer { id, node, kind, is_master: false });
            }
            _ => {}
        }
    }

    fn progress_of(&self, attempt: AttemptId) -> u32 {
        let state = self.core.state();
        let job = state.find(attempt.task.job).map(|key| state.job(key));
        job.and_then(|job| job.find_task(attempt.task.key())).map_or(0, |task| task.progress_ppm())
    }

    /// A container was allocated; `asks` are those that remain.
    pub(super) fn container_allocated(
        &mut self,
        now: Time,
        app_id: &str,
        granted: GrantedContainer,
        outstanding_asks: [u32; 2],
    ) {
        if self.apps.get(app_id).is_none_or(|app| app.containers.contains_key(&granted.id)) {
            return;
        }
        // The message's asks no longer include this container, and the core binds a granted slot to a pending task.
        let mut asks = outstanding_asks;
        let asked = &mut asks[granted.kind.index()];
        *asked = asked.saturating_add(1);
        self.update_pending(now, app_id, asks);
        if let Some(app) = self.apps.get_mut(app_id) {
            app.asks = outstanding_asks;
        }
        self.grant(now, app_id, granted);
    }

    /// Reports a container to the core as a granted slot.
    fn grant(&mut self, now: Time, app_id: &str, granted: GrantedContainer) {
        let GrantedContainer { id, node, kind, is_master } = granted;
        let Some(job) = self.apps.get(app_id).map(|app| app.job) else { return };
        let Some(attempt) = self.submit_event(now, Event::SlotGranted { job, kind, node }) else { return };
        self.index.insert(attempt, (app_id.to_owned(), id.clone()));
        let Some(app) = self.apps.get_mut(app_id) else { return };
        let state = ContainerState::Running;
        app.containers
            .insert(id, Container { attempt, node, state, kind, is_master, progress_ppm: None, failed_pauses: 0 });
        if self.one_pool && (is_master || !app.may_pause) {
            self.submit_event(now, Event::AttemptProtected { attempt });
        }
    }

    /// Progress of the attempts whose progress the core needs: as reported for their containers, otherwise divided from that of their application.
    pub(super) fn attempt_progress(&self, now: Time) -> Vec<Progress> {
        let mut all = Vec::new();
        // Soon after a snapshot the progress of single tasks is not known yet.
        if !self.core.needs_progress() || now.since(self.snapshot_at) < REPORT_GRACE {
            return all;
        }
        for app in self.apps.values() {
            if !Kind::BOTH.iter().any(|kind| self.core.needs_progress_of(app.job, *kind)) {
                continue;
            }
            let tasks = || app.containers.values().filter(|container| !container.is_master);
            let tally = Kind::BOTH.map(|kind| TaskTally {
                finished: app.finished[kind.index()],
                running: tasks().filter(|container| container.kind == kind).count() as u64,
                pending: u64::from(app.asks[kind.index()]),
            });
            // The core keeps the largest value, so a mean must not come before the value of a task that is behind.
            let is_reported = tasks().any(|container| container.progress_ppm.is_some());
            let of_kind = if is_reported { [None; 2] } else { task_progress(app.progress_ppm, tally) };
            all.extend(tasks().filter_map(|container| {
                let progress_ppm = container.progress_ppm.or(of_kind[container.kind.index()])?;
                Some(Progress { attempt: container.attempt, progress_ppm })
            }));
        }
        all.sort_unstable_by_key(|progress| progress.attempt);
        all
    }
}
