//! Matching applications to nodes: the registry with a scripted plug-in, and the frames of the sidecar.

use giveway_core::policy::catalog;
use giveway_core::{Kind, Outcome, Span, Time, WHOLE_PPM};
use giveway_yarn::{AppRegistry, AppSpec, NO_HEADROOM_LIMIT, PluginMessage, adapt};

const FAST: &str = "fast:1";
const LARGE: &str = "application_1_0001";
const SMALL: &str = "application_1_0002";

struct Cluster {
    registry: AppRegistry,
    now: Time,
    containers: u32,
}

impl Cluster {
    /// A fast node and two slow ones, each with four containers.
    fn new(policy: &str) -> Cluster {
        let mut policy = adapt(catalog::by_name(policy).unwrap(), true).policy;
        if let Some(matching) = &mut policy.matching {
            matching.history_interval_jobs = 1;
        }
        let registry = AppRegistry::open(policy, None).unwrap();
        let mut cluster = Cluster { registry, now: Time::ZERO, containers: 0 };
        cluster.report_node(FAST, 4 * WHOLE_PPM);
        cluster.report_node("slow1:1", 0);
        cluster.report_node("slow2:1", WHOLE_PPM);
        cluster
    }

    fn send(&mut self, message: PluginMessage) {
        self.now = self.now + Span::from_millis(100);
        self.registry.on_message(self.now, message);
    }

    fn report_node(&mut self, name: &str, speed_ppm: u32) {
        let (name, rack) = (name.to_owned(), "/rack".to_owned());
        self.send(PluginMessage::NodeAdded { name, rack, slots: 4, pausable: 0, can_resume: true, speed_ppm });
        assert_eq!(self.registry.take_warning(), None);
    }

    fn add_app(&mut self, app_id: &str, user: &str) {
        let [app_id, user, queue, name] = [app_id, user, "root.giveway", "count"].map(str::to_owned);
        self.send(PluginMessage::AppAdded(AppSpec { app_id, name, user, queue, priority: 0, may_pause: true }));
    }

    fn ask(&mut self, app_id: &str, maps: u32) {
        let (app_id, outstanding_asks) = (app_id.to_owned(), [maps, 0]);
        self.send(PluginMessage::AppUpdated {
            app_id,
            progress_ppm: 0,
            outstanding_asks,
            recovery_asks: 0,
            headroom: NO_HEADROOM_LIMIT,
            gets_freed: true,
        });
    }

    /// Runs `tasks` maps of an application one after the other on a node, each for this long, with `left` still outstanding after each.
    fn run_maps(&mut self, app: &str, node: &str, tasks: u32, secs: u64, left: u32) {
        for _ in 0..tasks {
            self.containers += 1;
            let [app_id, node] = [app, node].map(str::to_owned);
            let (container_id, outstanding_asks) = (format!("container_{}", self.containers), [left, 0]);
            self.send(PluginMessage::ContainerAllocated {
                app_id: app_id.clone(),
                container_id: container_id.clone(),
                node,
                kind: Kind::Map,
                is_master: false,
                is_demoted: false,
                outstanding_asks,
            });
            self.now = self.now + Span::from_secs(secs);
            self.send(PluginMessage::ContainerReleased { app_id, container_id, succeeded: true, outstanding_asks });
        }
    }

    fn end(&mut self, app_id: &str) {
        self.send(PluginMessage::AppRemoved { app_id: app_id.into(), outcome: Outcome::Succeeded });
    }

    fn class_of(&self, node: &str) -> u16 {
        let classes = self.registry.node_classes();
        classes.into_iter().find(|(name, _)| name == node).map(|(_, class)| class).expect("the node is up")
    }

    /// The classes of nodes that are refused to an application.
    fn refused(&self, app_id: &str) -> Vec<u16> {
        let refused = self.registry.refusals();
        refused.into_iter().find(|(refused, _)| refused == app_id).map(|(_, classes)| classes).unwrap_or_default()
    }
}

#[test]
fn a_small_application_leaves_nodes_to_a_large_one_until_that_needs_none() {
    let mut cluster = Cluster::new("coshh");
    assert_ne!(cluster.class_of(FAST), cluster.class_of("slow1:1"));
    assert_eq!(cluster.class_of("slow1:1"), cluster.class_of("slow2:1"));
    cluster.add_app(LARGE, "ann");
    cluster.ask(LARGE, 40);
    cluster.add_app(SMALL, "bob");
    assert_eq!(cluster.registry.refusals(), [], "it has asked for nothing");
    cluster.ask(SMALL, 4);
    assert_eq!(cluster.refused(LARGE), []);
    assert_eq!(cluster.refused(SMALL).len(), 1);
    let lines = cluster.registry.take_suggestions();
    let expected = format!("{SMALL} is suggested for nodes of class {}", 1 - cluster.refused(SMALL)[0]);
    assert!(lines.contains(&expected) && lines.contains(&format!("{LARGE} is suggested for nodes of class 0 and 1")));
    assert_eq!(cluster.registry.take_suggestions(), [""; 0], "nothing has changed");
    cluster.ask(LARGE, 0);
    assert_eq!(cluster.registry.refusals(), [], "no node idles");
}

#[test]
fn the_predictor_learns_from_finished_applications() {
    let mut cluster = Cluster::new("coshh");
    // As many tasks each, but those of ann take a hundred times as long.
    for round in 0..3 {
        for (user, secs, number) in [("ann", 100, 0), ("bob", 1, 1)] {
            let app_id = format!("application_1_{:04}", 100 + 2 * round + number);
            cluster.add_app(&app_id, user);
            cluster.ask(&app_id, 4);
            cluster.run_maps(&app_id, "slow1:1", 4, secs, 0);
            cluster.end(&app_id);
        }
    }
    for (app_id, user) in [(LARGE, "ann"), (SMALL, "bob")] {
        cluster.add_app(app_id, user);
        cluster.ask(app_id, 4);
    }
    assert_eq!(cluster.refused(LARGE), [], "it has more work than nodes of one class can do");
    assert_eq!(cluster.refused(SMALL).len(), 1);
}

#[test]
fn the_speed_of_a_node_changes_while_it_runs_nothing() {
    let mut cluster = Cluster::new("coshh");
    let version = cluster.registry.nodes_version();
    cluster.report_node("slow1:1", WHOLE_PPM);
    assert_eq!(cluster.registry.nodes_version(), version, "the same speed");
    cluster.report_node("slow1:1", 4 * WHOLE_PPM);
    assert_eq!(cluster.class_of("slow1:1"), cluster.class_of(FAST));
    cluster.add_app(LARGE, "ann");
    cluster.ask(LARGE, 1);
    let (rack, speed_ppm) = ("/rack".to_owned(), 9 * WHOLE_PPM);
    let [app_id, container_id, node] = [LARGE, "container_1", FAST].map(str::to_owned);
    let (kind, is_master, is_demoted, outstanding_asks) = (Kind::Map, false, false, [0, 0]);
    cluster.send(PluginMessage::ContainerAllocated {
        app_id,
        container_id,
        node,
        kind,
        is_master,
        is_demoted,
        outstanding_asks,
    });
    let name = FAST.to_owned();
    cluster.send(PluginMessage::NodeAdded { name, rack, slots: 4, pausable: 0, can_resume: true, speed_ppm });
    assert!(cluster.registry.take_warning().is_some_and(|warning| warning.contains("registers again")));
    assert_eq!(cluster.registry.counts().containers, 1);
}

#[test]
fn a_policy_that_compares_speeds_keeps_few_tasks_from_slow_nodes() {
    let mut cluster = Cluster::new("giveway");
    cluster.add_app(SMALL, "bob");
    cluster.ask(SMALL, 2);
    assert_eq!(cluster.refused(SMALL), [cluster.class_of("slow1:1")]);
    cluster.ask(SMALL, 200);
    assert_eq!(cluster.registry.refusals(), []);
    let mut other = Cluster::new("fcs");
    other.add_app(SMALL, "bob");
    other.ask(SMALL, 2);
    assert_eq!(other.registry.refusals(), []);
}
