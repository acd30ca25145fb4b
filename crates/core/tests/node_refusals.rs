//! Nodes that are refused to open jobs: matching and the refusal of slow nodes where the backend grants slots itself, as YARN does.

use giveway_core::cluster::NodeRefusals;
use giveway_core::policy::catalog;
use giveway_core::*;

/// A large job and a small one, of different users.
const LARGE: JobId = JobId(0);
const SMALL: JobId = JobId(1);

/// A cluster of one fast node and two slow ones, with two slots of each kind.
struct GrantingCluster {
    core: Scheduler,
    now: Time,
}

impl GrantingCluster {
    fn new(policy: &str) -> GrantingCluster {
        let mut policy = catalog::by_name(policy).expect("known");
        if let Some(matching) = &mut policy.matching {
            matching.place_replicas = false;
        }
        policy.speculation = None;
        let one_slot_pool = !policy.reduce.preempt.is_empty();
        let able = Capabilities { pause_reduces: true, one_slot_pool, refuse_nodes: true, ..Capabilities::ORDER_ONLY };
        let setup = Setup { capabilities: able, ..Setup::new(policy) };
        let mut cluster = GrantingCluster { core: Scheduler::new(setup).expect("possible"), now: Time::ZERO };
        for (node, speed) in [(0, 4), (1, 1), (2, 1)] {
            cluster.submit_event(Event::NodeJoined { node: NodeId(node), spec: node_spec(node, speed * WHOLE_PPM) });
        }
        cluster
    }

    fn submit_event(&mut self, event: Event) {
        let mut actions = Vec::new();
        self.now = self.now + Span::from_secs(1);
        self.core.handle(self.now, &event, &mut actions);
        assert!(!actions.iter().any(|action| matches!(action, Action::Refuse { .. })), "{actions:?}");
        self.core.state().check().expect("the invariants hold");
    }

    /// Opens a job that requests these slots.
    fn open_job(&mut self, id: JobId, user: &str, maps: u32, reduces: u32) {
        let spec = JobSpec {
            external_id: None,
            id,
            name: String::new(),
            user: user.into(),
            pool: "default".into(),
            priority: Priority::Normal,
            splits: [].into(),
            reduces: 0,
            slowstart_ppm: 0,
            hint: None,
            estimate_bias_ppm: WHOLE_PPM,
        };
        self.submit_event(Event::JobOpened(Box::new(spec)));
        self.request(id, maps, reduces);
    }

    fn request(&mut self, job: JobId, maps: u32, reduces: u32) {
        self.submit_event(Event::SlotsRequested { job, maps, reduces });
    }

    fn refused(&self, class: u16) -> Vec<JobId> {
        let refusals = self.core.node_refusals();
        refusals.into_iter().find(|of: &NodeRefusals| of.class == class).map(|of| of.refused).expect("a class")
    }
}

fn node_spec(node: u32, speed_ppm: u32) -> NodeSpec {
    NodeSpec {
        name: format!("n{node}"),
        rack: RackId(0),
        map_slots: 2,
        reduce_slots: 2,
        speed_ppm,
        disk_bytes_per_s: 1,
        disk_bytes: 0,
    }
}

/// The one class of nodes that is suggested for the small job, and the other one.
fn with_both_jobs(policy: &str) -> (GrantingCluster, u16, u16) {
    let mut cluster = GrantingCluster::new(policy);
    cluster.open_job(LARGE, "ann", 40, 0);
    cluster.open_job(SMALL, "bob", 4, 0);
    let suggested = cluster.core.suggested_node_classes(SMALL).expect("it has a class");
    let [own] = suggested[..] else { panic!("expected one class of nodes, got {suggested:?}") };
    assert_eq!(cluster.core.suggested_node_classes(LARGE), Some(vec![0, 1]), "it has more work than one class does");
    (cluster, own, 1 - own)
}

#[test]
fn a_job_is_refused_nodes_of_which_another_one_is_in_need() {
    let (mut cluster, own, other) = with_both_jobs("coshh");
    assert_eq!(cluster.refused(own), []);
    assert_eq!(cluster.refused(other), [SMALL]);
    assert_eq!(cluster.core.refusal_max_wait(), Some(Span::from_secs(10)));
    // Known before it requests slots again.
    cluster.request(SMALL, 0, 0);
    assert_eq!(cluster.refused(other), [SMALL]);
    // The large job needs nothing: no node idles.
    cluster.request(SMALL, 4, 0);
    cluster.request(LARGE, 0, 0);
    assert_eq!(cluster.refused(other), []);
    assert_eq!(cluster.core.node_class(NodeId(1)), cluster.core.node_class(NodeId(2)));
}

#[test]
fn strict_matching_refuses_always() {
    let (mut cluster, _, other) = with_both_jobs("coshh-strict");
    cluster.request(LARGE, 0, 0);
    assert_eq!(cluster.refused(other), [SMALL]);
    assert_eq!(cluster.core.refusal_max_wait(), None);
}

#[test]
fn an_open_job_is_classified_by_what_it_requests() {
    let (mut cluster, own, other) = with_both_jobs("coshh");
    let opened = JobId(2);
    cluster.open_job(opened, "bob", 0, 0);
    assert_eq!(cluster.core.suggested_node_classes(opened), None, "it has requested nothing");
    cluster.request(opened, 4, 0);
    assert_eq!(cluster.core.suggested_node_classes(opened), Some(vec![own]));
    assert_eq!(cluster.refused(other), [SMALL, opened]);
}

#[test]
fn nodes_of_one_class_are_refused_to_nobody() {
    let (mut cluster, ..) = with_both_jobs("coshh");
    cluster.submit_event(Event::NodeLost { node: NodeId(0) });
    assert_eq!(cluster.core.node_refusals(), []);
    let mut cluster = GrantingCluster::new("fair");
    cluster.open_job(LARGE, "ann", 40, 0);
    assert_eq!(cluster.core.node_refusals(), [], "the policy makes no difference between nodes");
}

#[test]
fn a_job_refuses_nodes_that_are_too_slow_for_its_few_tasks() {
    let mut cluster = GrantingCluster::new("giveway");
    cluster.open_job(SMALL, "bob", 0, 1);
    assert_eq!(cluster.refused(0), [], "the fastest nodes are never refused");
    assert_eq!(cluster.refused(1), [SMALL]);
    cluster.request(SMALL, 0, 100);
    assert_eq!(cluster.refused(1), [], "it has work for all nodes");
}
