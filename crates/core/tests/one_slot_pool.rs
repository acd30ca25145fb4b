//! Open jobs in one pool of slots, as with YARN's containers: the backend grants slots by itself, and pauses and kills at the core's request.

use giveway_core::policy::catalog;
use giveway_core::*;

const POOL: Capabilities = Capabilities {
    pause_reduces: true,
    kill_attempts: true,
    one_slot_pool: true,
    slots_stay_in_pool: true,
    ..Capabilities::ORDER_ONLY
};

/// Two nodes with two slots each.
struct Cluster {
    core: Scheduler,
    now: Time,
}

impl Cluster {
    fn new(policy: &str) -> Cluster {
        let setup = Setup { capabilities: POOL, ..Setup::new(catalog::by_name(policy).expect("known")) };
        let mut cluster = Cluster { core: Scheduler::new(setup).expect("the backend can preempt"), now: Time::ZERO };
        for node in 0..2 {
            let spec = NodeSpec {
                name: format!("n{node}"),
                rack: RackId(0),
                map_slots: 0,
                reduce_slots: 2,
                speed_ppm: WHOLE_PPM,
                disk_bytes_per_s: 1,
                disk_bytes: 0,
            };
            cluster.submit(Event::NodeJoined { node: NodeId(node), spec });
        }
        cluster
    }

    fn at(&mut self, secs: u64) -> &mut Cluster {
        self.now = Time::ZERO + Span::from_secs(secs);
        self
    }

    fn submit(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        self.core.handle(self.now, &event, &mut actions);
        self.core.state().check().expect("the invariants hold");
        assert!(refusal(&actions).is_none(), "{event:?}: {actions:?}");
        actions.retain(|action| !matches!(action, Action::SetTimer { .. }));
        actions
    }

    fn open(&mut self, job: u32) {
        self.open_in(job, "default");
    }

    fn open_in(&mut self, job: u32, pool: &str) {
        let spec = JobSpec {
            external_id: None,
            id: JobId(job),
            name: format!("application {job}"),
            user: "ann".into(),
            pool: pool.into(),
            priority: Priority::Normal,
            splits: [].into(),
            reduces: 0,
            slowstart_ppm: 0,
            hint: None,
            estimate_bias_ppm: WHOLE_PPM,
        };
        self.submit(Event::JobOpened(Box::new(spec)));
    }

    fn request(&mut self, job: u32, slots: u32) -> Vec<Action> {
        self.submit(Event::SlotsRequested { job: JobId(job), maps: 0, reduces: slots })
    }

    fn grant(&mut self, job: u32, node: u32) -> AttemptId {
        let actions = self.submit(Event::SlotGranted { job: JobId(job), kind: Kind::Reduce, node: NodeId(node) });
        match actions[..] {
            [Action::Launch { attempt, .. }] => attempt,
            _ => panic!("expected one launch, got {actions:?}"),
        }
    }

    /// A job that holds all four slots since time 0; the first of its attempts is protected, as an application master's container is.
    fn with_long_job(policy: &str) -> (Cluster, [AttemptId; 4]) {
        let mut cluster = Cluster::new(policy);
        cluster.open(1);
        cluster.request(1, 4);
        let attempts = [0, 0, 1, 1].map(|node| cluster.grant(1, node));
        cluster.submit(Event::AttemptProtected { attempt: attempts[0] });
        (cluster, attempts)
    }

    fn paused(actions: &[Action]) -> Vec<AttemptId> {
        let pause = |action: &Action| match action {
            Action::Pause { attempt, .. } => Some(*attempt),
            _ => None,
        };
        actions.iter().filter_map(pause).collect()
    }

    /// The attempts that an offer of a node resumes: the paused ones and their successors.
    fn resumed(&mut self, node: u32) -> Vec<(AttemptId, AttemptId)> {
        let actions = self.submit(Event::SlotsOffered { node: NodeId(node), progress: vec![] });
        let resume = |action: &Action| match action {
            Action::Launch { attempt, work: Work::Reduce { start: Start::Resumed { from } }, .. } => (*from, *attempt),
            _ => panic!("expected a resume, got {action:?}"),
        };
        actions.iter().map(resume).collect()
    }

    fn pending(&self, job: u32) -> u32 {
        let state = self.core.state();
        state.job(state.find(JobId(job)).expect("live")).counts(Kind::Reduce).pending
    }
}

/// The backend would give the slots of another pool back to that pool.
#[test]
fn slots_are_taken_within_a_pool_only() {
    let mut cluster = Cluster::new("fcs");
    for (job, pool) in [(1, "prod"), (2, "dev")] {
        cluster.open_in(job, pool);
        cluster.request(job, 4);
    }
    let attempts = [(1, 0), (1, 1), (2, 0), (2, 1)].map(|(job, node)| cluster.grant(job, node));
    cluster.at(60).open_in(3, "dev");
    let victims = Cluster::paused(&cluster.request(3, 1));
    assert!(victims.len() == 1 && attempts[2..].contains(&victims[0]), "{victims:?}");
    cluster.open_in(4, "test");
    assert_eq!(Cluster::paused(&cluster.request(4, 2)), [], "no slot of its pool is in use");
}

#[test]
fn a_grant_on_a_node_that_has_just_resumed_an_attempt_leaves_no_free_slot_behind() {
    let (mut cluster, long) = Cluster::with_long_job("fcs");
    cluster.at(20).open(2);
    let victim = Cluster::paused(&cluster.request(2, 1))[0];
    cluster.submit(Event::AttemptPaused { attempt: victim, progress_ppm: 300_000 });
    let node = if long[..2].contains(&victim) { 0 } else { 1 };
    let attempt = cluster.grant(2, node);
    cluster.at(22).submit(Event::AttemptFinished { attempt, output_bytes: 0 });
    assert_eq!(cluster.resumed(node).len(), 1);
    // YARN gave the freed memory to the short job before it heard of the resumption.
    cluster.request(2, 1);
    let attempt = cluster.grant(2, node);
    cluster.at(24).submit(Event::AttemptFinished { attempt, output_bytes: 0 });
    cluster.submit(Event::JobEnded { job: JobId(2), outcome: Outcome::Succeeded });
    // The long job holds all slots again, so the next job needs one of them.
    cluster.at(40).open(3);
    assert_eq!(Cluster::paused(&cluster.request(3, 1)).len(), 1);
}

#[test]
fn a_short_job_pauses_a_long_one_which_resumes_when_nothing_ranks_before_it() {
    let (mut cluster, long) = Cluster::with_long_job("fcs");
    cluster.at(20).open(2);
    let victims = Cluster::paused(&cluster.request(2, 1));
    let [victim] = victims[..] else { panic!("expected one victim, got {victims:?}") };
    assert!(long[1..].contains(&victim), "the first attempt is protected");
    cluster.request(1, 2);
    assert_eq!(cluster.core.rank_jobs(), [JobId(2), JobId(1)], "the freed slot is for the short job");
    cluster.request(1, 0);
    assert_eq!(cluster.submit(Event::AttemptPaused { attempt: victim, progress_ppm: 300_000 }), []);
    let node = if long[..2].contains(&victim) { 0 } else { 1 };
    assert_eq!(cluster.resumed(node), [], "the freed slot is reserved for the short job");
    // YARN grants the slot, wherever it is.
    let short = cluster.grant(2, node);
    assert_eq!(cluster.resumed(node), [], "no slot is free");
    cluster.at(40).submit(Event::AttemptFinished { attempt: short, output_bytes: 0 });
    let resumed = cluster.resumed(node);
    let [(from, to)] = resumed[..] else { panic!("expected one resume, got {resumed:?}") };
    assert_eq!(from, victim);
    cluster.at(60).submit(Event::AttemptFinished { attempt: to, output_bytes: 0 });
}

#[test]
fn a_paused_attempt_may_end_without_a_slot() {
    for finished in [true, false] {
        let (mut cluster, _) = Cluster::with_long_job("fcs");
        cluster.at(20).open(2);
        let attempt = Cluster::paused(&cluster.request(2, 1))[0];
        cluster.submit(Event::AttemptPaused { attempt, progress_ppm: 300_000 });
        let end = if finished {
            Event::AttemptFinished { attempt, output_bytes: 0 }
        } else {
            Event::AttemptKilled { attempt }
        };
        cluster.at(30).submit(end);
        assert_eq!(cluster.pending(1), u32::from(!finished));
        let node = cluster.core.nodes().find(|node| node.paused > 0);
        assert!(node.is_none(), "nothing is paused any more");
    }
}

#[test]
fn an_attempt_that_could_not_be_stopped_runs_on_and_reserves_nothing() {
    let (mut cluster, _) = Cluster::with_long_job("fcs");
    cluster.at(20).open(2);
    let attempt = Cluster::paused(&cluster.request(2, 1))[0];
    cluster.submit(Event::StopFailed { attempt });
    assert_eq!(cluster.core.state().nodes().reservations()[Kind::Reduce], 0);
    let again = cluster.at(30).submit(Event::TimerFired { timer: Timer::Preemption });
    assert_eq!(Cluster::paused(&again).len(), 1, "the next update tries again: {again:?}");
}

#[test]
fn a_node_pauses_at_most_as_many_as_its_limit() {
    let (mut cluster, long) = Cluster::with_long_job("fcs");
    cluster.submit(Event::PauseLimitSet { node: NodeId(0), attempts: 0 });
    cluster.submit(Event::PauseLimitSet { node: NodeId(1), attempts: 1 });
    cluster.at(20).open(2);
    let victims = Cluster::paused(&cluster.request(2, 3));
    assert_eq!(victims.len(), 1, "one node cannot pause, the other may pause one");
    assert!(long[2..].contains(&victims[0]));
}

/// Where containers have several sizes, only the backend knows whether the next one fits.
#[test]
fn slots_that_are_too_small_for_what_is_requested_are_not_free() {
    let mut cluster = Cluster::new("fcs");
    cluster.open(1);
    cluster.request(1, 2);
    let long = [0, 1].map(|node| cluster.grant(1, node));
    cluster.at(20).open(2);
    assert_eq!(Cluster::paused(&cluster.request(2, 1)), [], "each node has a free slot");
    let set = |cluster: &mut Cluster, node, slots| {
        cluster.submit(Event::NodeSlotsSet { node: NodeId(node), slots: PerKind::new(0, slots) })
    };
    assert_eq!(Cluster::paused(&set(&mut cluster, 0, 1)), [], "the other node has a free slot");
    let victim = Cluster::paused(&set(&mut cluster, 1, 1))[0];
    cluster.submit(Event::AttemptPaused { attempt: victim, progress_ppm: 300_000 });
    // What was freed is too small, too: another attempt has to make room.
    let node = if victim == long[0] { 0 } else { 1 };
    let next = Cluster::paused(&set(&mut cluster, node, 0));
    assert!(next.len() == 1 && next[0] != victim, "{next:?}");
    assert_eq!(cluster.core.nodes().map(|node| node.free[Kind::Reduce]).sum::<u16>(), 0);
    // Now it fits, and once it has ended there is room for the paused attempt again.
    cluster.submit(Event::AttemptPaused { attempt: next[0], progress_ppm: 300_000 });
    let attempt = cluster.grant(2, 1 - node);
    cluster.at(40).submit(Event::AttemptFinished { attempt, output_bytes: 0 });
    set(&mut cluster, node, 1);
    assert_eq!(cluster.resumed(node).len(), 1);
}

/// The same if the backend counts before it reports that the attempt has paused.
#[test]
fn a_slot_that_is_gone_before_its_attempt_has_paused_is_not_waited_for() {
    let mut cluster = Cluster::new("fcs");
    cluster.open(1);
    cluster.request(1, 4);
    for node in [0, 0, 1, 1] {
        cluster.grant(1, node);
    }
    cluster.at(20).open(2);
    let victim = Cluster::paused(&cluster.request(2, 1))[0];
    let state = cluster.core.state();
    let node = state.job(state.find(JobId(1)).unwrap()).task(victim.task.key()).node();
    assert_eq!(cluster.submit(Event::NodeSlotsSet { node, slots: PerKind::new(0, 1) }), []);
    let next = cluster.submit(Event::AttemptPaused { attempt: victim, progress_ppm: 300_000 });
    assert_eq!(Cluster::paused(&next).len(), 1, "{next:?}");
}

/// A queue at its maximum cannot use what is free elsewhere.
#[test]
fn a_job_whose_queue_is_at_its_maximum_takes_slots_of_its_queue_although_others_are_free() {
    let mut cluster = Cluster::new("fcs");
    cluster.open_in(1, "dev");
    cluster.request(1, 10);
    let long = [0, 1].map(|node| cluster.grant(1, node));
    cluster.at(20).open_in(2, "dev");
    assert_eq!(Cluster::paused(&cluster.request(2, 2)), [], "two slots are free");
    let headroom = |cluster: &mut Cluster, slots, freed| {
        Cluster::paused(&cluster.submit(Event::HeadroomSet { job: JobId(2), slots, freed }))
    };
    assert_eq!(headroom(&mut cluster, 2, true), []);
    assert_eq!(headroom(&mut cluster, 1, false), [], "what is freed would go to another queue");
    let victims = headroom(&mut cluster, 1, true);
    assert!(victims.len() == 1 && long.contains(&victims[0]), "{victims:?}");
    assert_eq!(headroom(&mut cluster, 1, true), [], "one slot is granted, the other is being freed");
}

#[test]
fn reservations_follow_the_request_and_end_with_the_job() {
    let (mut cluster, _) = Cluster::with_long_job("fcs");
    cluster.at(20).open(2);
    assert_eq!(Cluster::paused(&cluster.request(2, 2)).len(), 2);
    let reserved = |cluster: &Cluster| cluster.core.state().nodes().reservations()[Kind::Reduce];
    assert_eq!(reserved(&cluster), 2);
    cluster.request(2, 1);
    assert_eq!(reserved(&cluster), 1);
    cluster.submit(Event::JobEnded { job: JobId(2), outcome: Outcome::Killed });
    assert_eq!(reserved(&cluster), 0);
}

#[test]
fn a_resync_forgets_what_is_paused() {
    let (mut cluster, _) = Cluster::with_long_job("fcs");
    cluster.at(20).open(2);
    let attempt = Cluster::paused(&cluster.request(2, 1))[0];
    cluster.submit(Event::AttemptPaused { attempt, progress_ppm: 300_000 });
    cluster.submit(Event::Resynced);
    assert!(cluster.core.nodes().all(|node| node.paused == 0));
    assert_eq!(cluster.pending(1), 4);
    assert_eq!(cluster.core.state().nodes().reservations()[Kind::Reduce], 0);
}

#[test]
fn killing_policies_kill_for_the_job_with_less_left() {
    let (mut cluster, long) = Cluster::with_long_job("hsrtf-pup");
    cluster.request(1, 8);
    cluster.at(20).open(2);
    let actions = cluster.request(2, 1);
    let [Action::Kill { attempt, .. }] = actions[..] else { panic!("expected one kill, got {actions:?}") };
    assert!(long[1..].contains(&attempt));
    cluster.submit(Event::AttemptKilled { attempt });
    assert_eq!(cluster.pending(1), 9);
}

#[test]
fn only_the_reduce_part_of_a_policy_has_to_be_possible() {
    let check =
        |name: &str, capabilities| Setup { capabilities, ..Setup::new(catalog::by_name(name).unwrap()) }.check();
    for name in ["fcs", "fcs-kill", "fair-preempt", "hsrtf-pup", "hsrtf-prp", "hsrtf-pup-pause", "chronos(fifo)"] {
        assert_eq!(check(name, POOL), Ok(()), "{name}");
    }
    let no_pause = Capabilities { pause_reduces: false, ..POOL };
    assert!(check("fcs", no_pause).unwrap_err().to_string().contains("pause a reduce"));
    assert!(check("coshh", POOL).unwrap_err().to_string().contains("run the tasks of a job on given nodes"));
}

#[test]
fn lost_work_ranks_first_and_pauses_what_ranks_lower() {
    let mut cluster = Cluster::new("chronos(fifo)");
    cluster.open(1);
    cluster.open(2);
    cluster.request(1, 2);
    let first = [0, 1].map(|node| cluster.grant(1, node));
    cluster.request(2, 3);
    let second = [0, 1].map(|node| cluster.grant(2, node));
    // One of the first job's slots was lost; its application asks again, for lost work.
    cluster.at(20).submit(Event::AttemptKilled { attempt: first[0] });
    cluster.grant(2, 0);
    cluster.request(1, 1);
    let actions = cluster.submit(Event::RecoveryRequested { job: JobId(1), slots: 1 });
    let victims = Cluster::paused(&actions);
    assert_eq!(victims.len(), 1, "{actions:?}");
    assert_eq!(victims[0].task.job, second[0].task.job);
    // The second job cannot take slots of the first, which was submitted before it.
    cluster.request(2, 1);
    let actions = cluster.submit(Event::RecoveryRequested { job: JobId(2), slots: 1 });
    assert_eq!(actions, [], "nothing ranks lower");
    assert_eq!(cluster.core.rank_jobs(), [JobId(1), JobId(2)]);
    cluster.submit(Event::RecoveryRequested { job: JobId(1), slots: 0 });
    assert_eq!(cluster.core.rank_jobs(), [JobId(2), JobId(1)], "only the second recovers now");
}
