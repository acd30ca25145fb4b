//! Pausing, resuming and killing containers: the registry with a scripted plug-in and a clock of its own.

use giveway_core::policy::catalog;
use giveway_core::{Kind, Outcome, Span, Time};
use giveway_yarn::{AppRegistry, AppSpec, ContainerUpdate, NO_HEADROOM_LIMIT, PluginMessage, SidecarMessage};

const LONG: &str = "application_1_0001";
const SHORT: &str = "application_1_0002";

struct Cluster {
    registry: AppRegistry,
    now: Time,
}

impl Cluster {
    /// Two nodes with two containers each; as many as `pausable` may be paused at once on each.
    fn new(policy: &str, pausable: u32) -> Cluster {
        let registry = AppRegistry::open(catalog::by_name(policy).unwrap(), None).unwrap();
        let mut cluster = Cluster { registry, now: Time::ZERO };
        cluster.send(PluginMessage::SnapshotStarted);
        for name in ["n1:1", "n2:1"] {
            let (name, rack) = (name.to_owned(), "/rack".to_owned());
            cluster.send(PluginMessage::NodeAdded { name, rack, slots: 2, pausable, can_resume: true, speed_ppm: 0 });
        }
        cluster.send(PluginMessage::SnapshotEnded);
        cluster
    }

    fn send(&mut self, message: PluginMessage) {
        self.registry.on_message(self.now, message);
        assert_eq!(self.registry.take_warning(), None);
    }

    /// Lets time pass as the sidecar does.
    fn wait(&mut self, secs: u64) {
        for _ in 0..secs {
            self.now = self.now + Span::from_secs(1);
            if self.registry.next_timer().is_some_and(|at| at <= self.now) {
                self.registry.fire_timers(self.now);
            }
            self.registry.poll_paused(self.now);
            assert_eq!(self.registry.take_warning(), None);
        }
    }

    fn add_app(&mut self, app_id: &str, may_pause: bool) {
        let [user, queue, name] = ["ann", "root.giveway", "count"].map(str::to_owned);
        self.send(PluginMessage::AppAdded(AppSpec {
            app_id: app_id.into(),
            name,
            user,
            queue,
            priority: 0,
            may_pause,
        }));
    }

    fn ask(&mut self, app_id: &str, maps: u32, reduces: u32) {
        self.update_app(app_id, 300_000, [maps, reduces]);
    }

    fn update_app(&mut self, app_id: &str, progress_ppm: u32, outstanding_asks: [u32; 2]) {
        let app_id = app_id.to_owned();
        self.send(PluginMessage::AppUpdated {
            app_id,
            progress_ppm,
            outstanding_asks,
            recovery_asks: 0,
            headroom: NO_HEADROOM_LIMIT,
            gets_freed: true,
        });
    }

    fn allocate(&mut self, app_id: &str, container_id: &str, node: &str, is_master: bool, asks: u32) {
        self.allocated(app_id, container_id, node, is_master, false, asks);
    }

    fn allocated(&mut self, app: &str, container: &str, node: &str, is_master: bool, is_demoted: bool, asks: u32) {
        let [app_id, container_id, node] = [app, container, node].map(str::to_owned);
        let (kind, outstanding_asks) = (Kind::Reduce, [0, asks]);
        let message = PluginMessage::ContainerAllocated {
            app_id,
            container_id,
            node,
            kind,
            is_master,
            is_demoted,
            outstanding_asks,
        };
        self.send(message);
    }

    fn release(&mut self, app_id: &str, container_id: &str) {
        let [app_id, container_id] = [app_id, container_id].map(str::to_owned);
        let message =
            PluginMessage::ContainerReleased { app_id, container_id, succeeded: true, outstanding_asks: [0, 0] };
        self.send(message);
    }

    fn update(&mut self, container_id: &str, update: ContainerUpdate) {
        let container_id = container_id.to_owned();
        self.send(PluginMessage::ContainerUpdated { app_id: LONG.into(), container_id, update });
    }

    /// The orders since the last call, as text.
    fn orders(&mut self) -> Vec<String> {
        self.registry.take_orders().iter().map(|order| format!("{:?}", order.message).replace('"', "")).collect()
    }

    /// A long application whose application master and three tasks hold all containers for 30 s.
    fn with_long_app(policy: &str, may_pause: bool, pausable: u32) -> Cluster {
        let mut cluster = Cluster::new(policy, pausable);
        cluster.add_app(LONG, may_pause);
        cluster.ask(LONG, 1, 0);
        cluster.allocate(LONG, "am", "n1:1", true, 3);
        cluster.allocate(LONG, "r1", "n1:1", false, 2);
        cluster.allocate(LONG, "r2", "n2:1", false, 1);
        cluster.allocate(LONG, "r3", "n2:1", false, 0);
        cluster.wait(30);
        assert_eq!(cluster.orders(), [""; 0]);
        cluster
    }

    /// A short application asks for its application master's container. Returns the orders.
    fn submit_short(&mut self) -> Vec<String> {
        self.add_app(SHORT, true);
        self.ask(SHORT, 1, 0);
        self.orders()
    }
}

/// The container that a list with one order to pause is about.
fn paused(orders: &[String]) -> String {
    let [order] = orders else { panic!("expected one order, got {orders:?}") };
    order.strip_prefix("Pause(").and_then(|rest| rest.strip_suffix(')')).expect("an order to pause").to_owned()
}

#[test]
fn a_container_is_paused_for_a_short_application_and_resumed_after_it() {
    let mut cluster = Cluster::with_long_app("fcs", true, 20);
    let victim = paused(&cluster.submit_short());
    assert_ne!(victim, "am");
    let node = if victim == "r1" { "n1:1" } else { "n2:1" };
    cluster.update(&victim, ContainerUpdate::Demoted);
    cluster.allocate(SHORT, "short-am", node, true, 0);
    cluster.wait(5);
    assert_eq!(cluster.orders(), [""; 0], "no slot is free");
    cluster.release(SHORT, "short-am");
    cluster.send(PluginMessage::AppRemoved { app_id: SHORT.into(), outcome: Outcome::Succeeded });
    cluster.wait(2);
    assert_eq!(cluster.orders(), [format!("Resume({victim})")]);
    cluster.update(&victim, ContainerUpdate::Promoted);
    cluster.release(LONG, &victim);
    cluster.wait(2);
    assert_eq!(cluster.orders(), [""; 0]);
    assert_eq!(cluster.registry.counts().containers, 3);
}

/// The cluster of `with_long_app` has no free slots; here each node has one more, of which not all can be used.
#[test]
fn containers_are_paused_although_slots_are_free_if_the_queue_may_not_use_them_or_the_container_does_not_fit() {
    for queue_is_at_its_maximum in [true, false] {
        let mut cluster = Cluster::with_long_app("fcs", true, 20);
        let node = |cluster: &mut Cluster, name: &str, slots| {
            let [name, rack] = [name, "/rack"].map(str::to_owned);
            cluster.send(PluginMessage::NodeAdded { name, rack, slots, pausable: 20, can_resume: true, speed_ppm: 0 });
        };
        node(&mut cluster, "n1:1", 3);
        node(&mut cluster, "n2:1", 3);
        assert_eq!(cluster.submit_short(), [""; 0]);
        if queue_is_at_its_maximum {
            let (app_id, outstanding_asks) = (SHORT.to_owned(), [1, 0]);
            let (progress_ppm, recovery_asks, headroom, gets_freed) = (0, 0, 0, true);
            let full = PluginMessage::AppUpdated {
                app_id,
                progress_ppm,
                outstanding_asks,
                recovery_asks,
                headroom,
                gets_freed,
            };
            cluster.send(full);
        } else {
            node(&mut cluster, "n1:1", 2);
            node(&mut cluster, "n2:1", 2);
            assert_eq!(cluster.orders(), [""; 0], "messages about containers may follow");
            cluster.send(PluginMessage::Heartbeat);
        }
        paused(&cluster.orders());
    }
}

#[test]
fn only_what_may_be_paused_is_paused() {
    assert_eq!(Cluster::with_long_app("fcs", false, 20).submit_short(), [""; 0], "the application must not be paused");
    assert_eq!(Cluster::with_long_app("fcs", true, 0).submit_short(), [""; 0], "no node can pause");
    assert_eq!(Cluster::with_long_app("fifo", true, 20).submit_short(), [""; 0], "the policy does not preempt");
}

#[test]
fn the_memory_of_paused_containers_is_limited() {
    let mut cluster = Cluster::with_long_app("fcs", true, 1);
    cluster.ask(LONG, 8, 0);
    cluster.add_app(SHORT, true);
    cluster.ask(SHORT, 3, 0);
    assert_eq!(cluster.orders().len(), 2, "one container on each node");
}

#[test]
fn a_demotion_that_fails_or_is_not_confirmed_is_given_up() {
    let mut cluster = Cluster::with_long_app("fcs", true, 20);
    let victim = paused(&cluster.submit_short());
    cluster.update(&victim, ContainerUpdate::NotDemoted);
    let mut orders = Vec::new();
    while orders.is_empty() {
        cluster.wait(1);
        orders = cluster.orders();
    }
    let victim = paused(&orders);
    cluster.wait(29);
    assert_eq!(cluster.orders(), [""; 0]);
    cluster.wait(1);
    assert_eq!(cluster.orders().first(), Some(&format!("Resume({victim})")));
}

/// As an application master that was not recognized as one. Otherwise the short job would wait for it as long as the long one runs.
#[test]
fn another_container_is_paused_if_one_is_refused_twice() {
    let mut cluster = Cluster::with_long_app("fcs", true, 20);
    let mut orders = cluster.submit_short();
    let mut victims = Vec::new();
    for _ in 0..3 {
        victims.push(paused(&orders));
        cluster.update(&paused(&orders), ContainerUpdate::NotDemoted);
        orders = Vec::new();
        while orders.is_empty() {
            cluster.wait(1);
            orders = cluster.orders();
        }
    }
    assert!(victims[0] == victims[1] && victims[1] != victims[2], "{victims:?}");
}

#[test]
fn a_container_that_was_demoted_before_the_snapshot_counts_once_it_is_promoted() {
    let mut cluster = Cluster::new("fcs", 20);
    cluster.send(PluginMessage::SnapshotStarted);
    for name in ["n1:1", "n2:1"] {
        let (name, rack) = (name.to_owned(), "/rack".to_owned());
        cluster.send(PluginMessage::NodeAdded { name, rack, slots: 2, pausable: 1, can_resume: true, speed_ppm: 0 });
    }
    cluster.add_app(LONG, true);
    cluster.allocate(LONG, "am", "n1:1", true, 0);
    cluster.allocated(LONG, "r1", "n1:1", false, true, 0);
    cluster.send(PluginMessage::SnapshotEnded);
    assert_eq!(cluster.registry.counts().containers, 1);
    cluster.update("r1", ContainerUpdate::Promoted);
    assert_eq!(cluster.registry.counts().containers, 2);
    cluster.release(LONG, "r1");
    assert_eq!(cluster.registry.counts().containers, 1);
}

#[test]
fn a_container_that_the_plugin_promotes_by_itself_runs() {
    let mut cluster = Cluster::with_long_app("fcs", true, 20);
    let victim = paused(&cluster.submit_short());
    cluster.update(&victim, ContainerUpdate::Demoted);
    cluster.update(&victim, ContainerUpdate::Promoted);
    assert_eq!(cluster.registry.counts().containers, 4);
    cluster.release(LONG, &victim);
    assert_eq!(cluster.registry.counts().containers, 3);
}

#[test]
fn killing_policies_order_kills() {
    let mut cluster = Cluster::with_long_app("hsrtf-pup", true, 0);
    cluster.ask(LONG, 8, 0);
    let orders = cluster.submit_short();
    assert!(matches!(&orders[..], [order] if order.starts_with("Kill(r")), "{orders:?}");
}

/// The application's progress is the same for all its containers, so only what is reported for each tells them apart.
#[test]
fn the_container_with_the_least_progress_is_killed() {
    for least in ["r1", "r2", "r3"] {
        let mut cluster = Cluster::with_long_app("hsrtf-pup", true, 0);
        cluster.ask(LONG, 8, 0);
        for container in ["r1", "r2", "r3"] {
            let progress_ppm = if container == least { 200_000 } else { 700_000 };
            let (app_id, container_id) = (LONG.into(), container.into());
            cluster.send(PluginMessage::ContainerProgress { app_id, container_id, progress_ppm });
        }
        cluster.wait(10);
        assert_eq!(cluster.submit_short(), [format!("Kill({least})")]);
    }
}

/// With one container each application has exactly its share, so their ranks are equal and say nothing about the order.
#[test]
fn a_share_is_enforced_whenever_the_short_application_arrives() {
    for reducing_secs in [1, 4, 9, 15, 30, 60] {
        // 80 % when all reduces have merged their input, and 15 % more in the following 100 s.
        let progress_ppm = if reducing_secs < 10 { 500_000 } else { 800_000 + 1_500 * reducing_secs as u32 };
        let mut cluster = Cluster::new("hsrtf-prp", 0);
        cluster.add_app(LONG, true);
        cluster.ask(LONG, 1, 0);
        cluster.allocate(LONG, "am", "n1:1", true, 0);
        cluster.wait(4);
        cluster.ask(LONG, 1, 0);
        cluster.allocate(LONG, "m1", "n2:1", false, 0);
        cluster.wait(3);
        cluster.release(LONG, "m1");
        cluster.ask(LONG, 0, 3);
        for (container, node, asks) in [("r1", "n1:1", 2), ("r2", "n2:1", 1), ("r3", "n2:1", 0)] {
            cluster.allocate(LONG, container, node, false, asks);
        }
        cluster.wait(reducing_secs);
        cluster.update_app(LONG, progress_ppm, [0, 0]);
        assert_eq!(cluster.orders(), [""; 0]);
        let mut orders = cluster.submit_short();
        // At the latest when the estimates are next updated: the first ones may have been made before any task had finished.
        cluster.wait(10);
        orders.extend(cluster.orders());
        assert!(matches!(&orders[..], [order] if order.starts_with("Kill(r")), "after {reducing_secs} s: {orders:?}");
    }
}

#[test]
fn an_application_that_ended_is_not_killed() {
    let mut cluster = Cluster::with_long_app("hsrtf-pup", true, 0);
    cluster.send(PluginMessage::AppRemoved { app_id: LONG.into(), outcome: Outcome::Killed });
    assert!(cluster.registry.take_orders().iter().all(|order| !matches!(order.message, SidecarMessage::Kill(_))));
}

#[test]
fn a_cluster_that_cannot_pause_is_reported_once() {
    let mut cluster = Cluster::new("fcs", 0);
    assert_eq!(cluster.registry.unable_to_pause(cluster.now), None, "nodes report what they can do after a while");
    cluster.wait(30);
    assert_eq!(cluster.registry.unable_to_pause(cluster.now), Some(2));
    assert_eq!(cluster.registry.unable_to_pause(cluster.now), None);
    for (policy, pausable) in [("fcs", 1), ("hsrtf-pr", 0)] {
        let mut cluster = Cluster::new(policy, pausable);
        cluster.registry.unable_to_pause(cluster.now);
        cluster.wait(30);
        assert_eq!(cluster.registry.unable_to_pause(cluster.now), None, "{policy}");
    }
}

#[test]
fn containers_of_a_lost_node_are_forgotten_before_they_are_released() {
    let mut cluster = Cluster::with_long_app("fcs", true, 20);
    let victim = paused(&cluster.submit_short());
    cluster.update(&victim, ContainerUpdate::Demoted);
    cluster.send(PluginMessage::NodeRemoved { name: "n2:1".into() });
    assert_eq!(cluster.registry.counts().containers, 2);
    for container in ["r2", "r3"] {
        // The core refuses events of attempts that it has ended; `release` checks that there is no such warning.
        cluster.release(LONG, container);
    }
}
