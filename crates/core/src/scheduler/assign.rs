//! Assignment of an offered node's free slots: reserved slots first, then jobs in the order of their ranks, then speculative attempts.

use super::Scheduler;
use crate::action::{Action, Start, Work};
use crate::ids::{JobId, Kind, NodeId, TaskId};
use crate::policy::matching::Routing;
use crate::policy::placement::{self, Choice, Offer};
use crate::policy::preemption;
use crate::policy::ranking::Visits;
use crate::policy::speculation;
use crate::reason::{RankReason, Reason};
use crate::state::{Exclusion, JobKey};
use crate::units::Time;
use smallvec::SmallVec;
use std::ops::ControlFlow;

/// A task chosen for an offered slot.
struct Pick {
    job: JobKey,
    choice: Choice,
    /// The routing pass that chose it.
    pass: usize,
}

impl Scheduler {
    /// Fills a node's free slots, up to the policy's limits per offer.
    pub(super) fn assign(&mut self, node: NodeId, out: &mut Vec<Action>) {
        match self.is_probe(node) {
            Some(false) => {}
            Some(true) => return self.probe(node, out),
            None => return,
        }
        for kind in Kind::BOTH {
            if self.state.node(node).free(kind) == 0 {
                continue;
            }
            self.serve_reservations(node, kind, out);
            let placement = &self.policy.slots(kind).placement;
            let limit = placement.max_tasks_per_offer.unwrap_or(u32::MAX);
            let mut off_rack_left = placement.max_off_rack_per_offer.unwrap_or(u32::MAX);
            let mut launched = 0;
            while launched < limit && off_rack_left > 0 && self.state.node(node).free(kind) > 0 {
                let Some(pick) = self.pick(node, kind).or_else(|| self.pick_reserved_elsewhere(node, kind)) else {
                    break;
                };
                let reason = self.reason(&pick, node, kind);
                launched += 1;
                off_rack_left -= u32::from(pick.choice.is_off_rack());
                self.cluster.launch(pick.job, node, pick.choice, reason, out);
            }
            while launched < limit && self.state.node(node).free(kind) > 0 && self.speculate(node, kind, out) {
                launched += 1;
            }
        }
    }

    /// Launches one task on an excluded node, to see whether it succeeds.
    fn probe(&mut self, node: NodeId, out: &mut Vec<Action>) {
        let Some(&Exclusion { failures, jobs, .. }) = self.state.node(node).exclusion() else { return };
        for kind in Kind::BOTH {
            if self.state.node(node).free(kind) > 0
                && let Some(pick) = self.pick(node, kind)
            {
                let attempt = self.cluster.launch(pick.job, node, pick.choice, Reason::Probe { failures, jobs }, out);
                self.cluster.set_probe(node, attempt);
                return;
            }
        }
    }

    /// The first job in rank that has a task for this node.
    fn pick(&mut self, node: NodeId, kind: Kind) -> Option<Pick> {
        let cluster = &mut self.cluster;
        while let Some(job) = cluster.delayed[kind].next_ended(cluster.now) {
            cluster.rankings.stages_mut(kind).iter_mut().for_each(|ranking| ranking.set_delayed(job, false));
        }
        let passes = Routing::new(&cluster.matcher, node).passes(cluster.rankings.stages(kind));
        (0..passes).find_map(|pass| self.pick_in_pass(pass, node, kind))
    }

    fn pick_in_pass(&mut self, pass: usize, node: NodeId, kind: Kind) -> Option<Pick> {
        let cluster = &mut self.cluster;
        let routing = Routing::new(&cluster.matcher, node);
        let ranking = routing.ranking(cluster.rankings.stages(kind), pass);
        if ranking.is_empty() {
            return None;
        }
        let placement = &cluster.policy.slots(kind).placement;
        let local = cluster.delayed[kind].local_to(node);
        let slots = cluster.state.nodes().slots()[kind];
        let (jobs, nodes) = cluster.state.jobs_and_nodes();
        let offer = Offer { node, nodes, now: cluster.now };
        let mut delayed: SmallVec<[(JobKey, Time); 4]> = SmallVec::new();
        let (failures, matcher) = (&cluster.policy.failures, Some(&cluster.matcher));
        let mut visit = |key: JobKey| {
            let job = jobs.get_mut(key);
            if failures.job_avoids(job, key, kind, node, nodes, matcher) {
                return ControlFlow::Continue(());
            }
            if let Some(choice) = placement.choose(job, key, kind, offer) {
                return ControlFlow::Break(Pick { job: key, choice, pass });
            }
            let until = placement.delayed_until(job, kind);
            delayed.extend(until.filter(|&until| offer.now < until).map(|until| (key, until)));
            ControlFlow::Continue(())
        };
        let allow = |group: &_| routing.allows(pass, group);
        let paused_here = if kind == Kind::Reduce { nodes.get(node).paused() } else { &[] };
        let visits = Visits::For { node_type: nodes.type_of(node), local, paused_here };
        let found = ranking.search(slots, &allow, visits, &mut visit);
        if !delayed.is_empty() {
            for (job, until) in delayed {
                cluster.delayed[kind].delay(job, node, until);
                cluster.rankings.stages_mut(kind).iter_mut().for_each(|ranking| ranking.set_delayed(job, true));
            }
        }
        let pick = found.break_value()?;
        cluster.end_delay(pick.job, kind);
        Some(pick)
    }

    /// A task for a slot that no other job uses, of the first job in rank that waits for a slot which is still being freed on another node. Its
    /// reservation there is dropped: what is being stopped may not stop soon.
    fn pick_reserved_elsewhere(&mut self, node: NodeId, kind: Kind) -> Option<Pick> {
        let cluster = &mut self.cluster;
        let here = cluster.state.node(node).reservations(kind);
        // By job, because many reservations are of few jobs.
        let elsewhere = |(job, id, reserved): (JobKey, JobId, u32)| {
            let here = here.iter().filter(|of| (of.job, of.id) == (job, id)).count() as u32;
            // A job that was killed is still known while its attempts end.
            let may_use = cluster.state.find(id) == Some(job) && !cluster.state.job(job).is_closed();
            (reserved > here && may_use).then_some((job, reserved - here))
        };
        let mut waiting: Vec<_> = cluster.state.nodes().reserved_by_job(kind).filter_map(elsewhere).collect();
        waiting.sort_by_cached_key(|&(job, _)| cluster.comparison().rank(cluster.state.job(job), kind, 0));
        let placement = &cluster.policy.slots(kind).placement;
        let (failures, matcher) = (&cluster.policy.failures, Some(&cluster.matcher));
        let (jobs, nodes) = cluster.state.jobs_and_nodes();
        let offer = Offer { node, nodes, now: cluster.now };
        let (job, refused, choice) = waiting.into_iter().find_map(|(key, reserved)| {
            let job = jobs.get_mut(key);
            if failures.job_avoids(job, key, kind, node, nodes, matcher) {
                return None;
            }
            // Each reservation is offered the slot. That makes a difference to paused reduces, which count the offers that they refuse.
            let offers = if kind == Kind::Reduce { reserved } else { 1 };
            (0..offers).find_map(|nth| Some((key, nth, placement.choose(job, key, kind, offer)?)))
        })?;
        let id = cluster.state.job(job).id();
        let elsewhere = cluster.state.nodes().ids_reserved(kind).filter(|&at| at != node);
        let on_node = |at: NodeId| {
            let own = cluster.state.node(at).reservations(kind).iter().filter(move |of| (of.job, of.id) == (job, id));
            own.map(move |_| at)
        };
        let reserved_on = elsewhere.flat_map(on_node).nth(refused as usize)?;
        cluster.state.drop_reservation(job, kind, Some(reserved_on));
        cluster.end_delay(job, kind);
        Some(Pick { job, choice, pass: 0 })
    }

    fn reason(&self, pick: &Pick, node: NodeId, kind: Kind) -> Reason {
        let job = self.state.job(pick.job);
        if let Some(lost) = job.lost_with(pick.choice.task()) {
            return Reason::Recovery { lost };
        }
        if let Some((failures, failed_on)) = job.last_failure(pick.choice.task()) {
            return Reason::Retry { failures, failed_on };
        }
        let routing = Routing::new(&self.matcher, node);
        let ranking = routing.ranking(self.rankings.stages(kind), pick.pass);
        Reason::Ranked(RankReason {
            group: if self.has_groups {
                ranking.group_reason(pick.job, self.state.nodes().slots()[kind])
            } else {
                None
            },
            measure: self.policy.measure(self.view(), job, kind),
            node_match: routing.node_match(pick.pass, job),
        })
    }

    /// Launches tasks in free slots of the jobs they are reserved for. A reservation that its job no longer needs is dropped.
    fn serve_reservations(&mut self, node: NodeId, kind: Kind, out: &mut Vec<Action>) {
        if self.state.nodes().reservations()[kind] == 0 {
            return;
        }
        while self.state.node(node).free(kind) > 0
            && let Some(reservation) = self.cluster.state.take_reservation(node, kind)
        {
            let job = reservation.job;
            let Some(choice) = self.choose_reserved(job, reservation.task, node, kind) else {
                self.cluster.rerank(job, kind);
                continue;
            };
            let lost_with = self.state.job(job).lost_with(choice.task());
            let reason = lost_with.map_or(Reason::Reserved, |lost| Reason::Recovery { lost });
            self.cluster.launch(job, node, choice, reason, out);
        }
    }

    /// The task for a reserved slot: the one it is reserved for if that is pending, otherwise another of the job; none if no task is
    /// pending.
    fn choose_reserved(&mut self, key: JobKey, task: Option<u32>, node: NodeId, kind: Kind) -> Option<Choice> {
        let cluster = &mut self.cluster;
        let (jobs, nodes) = cluster.state.jobs_and_nodes();
        let job = jobs.get_mut(key);
        if job.is_closed() {
            return None;
        }
        let is_ready = |&index: &u32| job.is_ready(crate::TaskKey { kind, index });
        match (kind, task.filter(is_ready)) {
            (Kind::Map, Some(map)) => Some(Choice::Map(map, job.locality(map, node, nodes.racks()))),
            (Kind::Map, None) => {
                let offer = Offer { node, nodes, now: cluster.now };
                placement::nearest_map(job, offer).map(|(map, locality)| Choice::Map(map, locality))
            }
            (Kind::Reduce, Some(reduce)) => Some(Choice::FreshReduce(reduce)),
            (Kind::Reduce, None) => {
                let paused_here = nodes.get(node).paused().iter().find(|&&(owner, _)| owner == key);
                let paused = paused_here.map(|&(_, reduce)| Choice::PausedReduce(reduce));
                paused.or_else(|| job.next_pending_reduce(node, cluster.now).map(Choice::FreshReduce))
            }
        }
    }

    /// Resumes paused reduces on a node of a cluster that grants slots itself, where they rank before what other jobs request: free slots
    /// are counted as if the requests of the jobs ahead had been granted.
    pub(super) fn resume_paused(&mut self, node: NodeId, out: &mut Vec<Action>) {
        let kind = Kind::Reduce;
        let reserved = self.state.node(node).reservations(kind).len();
        let mut free_here = usize::from(self.state.node(node).free(kind)).saturating_sub(reserved);
        if free_here == 0 || self.state.node(node).paused().is_empty() {
            return;
        }
        let mut free = preemption::unreserved(self.view(), kind);
        for job in self.ranked(kind) {
            let counts = self.state.job(job).counts(kind);
            let requested = counts.pending.saturating_sub(counts.reserved);
            let paused_here: Vec<u32> = self
                .state
                .node(node)
                .paused()
                .iter()
                .filter(|&&(owner, _)| owner == job)
                .map(|&(_, task)| task)
                .collect();
            // Its own paused reduces come before what it requests.
            for reduce in paused_here {
                if free == 0 || free_here == 0 {
                    return;
                }
                let pick = Pick { job, choice: Choice::PausedReduce(reduce), pass: 0 };
                let reason = self.reason(&pick, node, kind);
                self.cluster.launch(job, node, pick.choice, reason, out);
                (free, free_here) = (free - 1, free_here - 1);
            }
            free = free.saturating_sub(requested);
        }
    }

    /// Launches a speculative attempt of a straggler that runs elsewhere; returns whether there was one.
    fn speculate(&mut self, node: NodeId, kind: Kind, out: &mut Vec<Action>) -> bool {
        let mut stragglers = std::mem::take(&mut self.cluster.memory.stragglers[kind]);
        while stragglers.front().is_some_and(|&first| speculation::node_of(self.view(), first).is_none()) {
            stragglers.pop_front();
        }
        let placement = &self.policy.slots(kind).placement;
        let may_run_here = |&straggler: &TaskId| {
            let job = self.state.find(straggler.job);
            speculation::node_of(self.view(), straggler).is_some_and(|own| own != node)
                && job.is_some_and(|key| placement.may_use(self.state.job(key), key, kind, node, self.state.nodes()))
        };
        let at = stragglers.iter().position(may_run_here);
        let straggler = at.and_then(|at| stragglers.remove(at));
        self.cluster.memory.stragglers[kind] = stragglers;
        let Some(straggler) = straggler else { return false };
        let key = self.state.find(straggler.job).expect("the straggler runs");
        let task = straggler.key();
        let attempt = self.cluster.state.launch_speculative(key, task, node, self.now);
        let job = self.state.job(key);
        let work = match kind {
            Kind::Map => job.map_work(task.index, job.locality(task.index, node, self.state.nodes().racks())),
            Kind::Reduce => Work::Reduce { start: Start::Fresh },
        };
        let reason = Reason::Speculative { progress_ppm: job.task(task).progress_ppm() };
        out.push(Action::Launch { attempt, node, work, reason });
        self.cluster.index_map_node(key, kind, node);
        if kind == Kind::Reduce {
            self.cluster.run_lost_maps_again(key);
        }
        self.cluster.rerank(key, kind);
        true
    }
}
