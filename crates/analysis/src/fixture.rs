//! An event log for tests: a small simulation under a policy that preempts, with a node that fails.

use giveway_core::event_log::EventLogWriter;
use giveway_core::policy::catalog;
use giveway_core::{Action, Capabilities, Event, Setup, Time};
use giveway_sim::cluster::Cluster;
use giveway_sim::workload::Workload;
use giveway_sim::{Observer, Simulation};

const CLUSTER: &str = r#"
lost_after = "20s"
heartbeat = "1s"
[[nodes]]
name = "node"
count = 4
map_slots = 2
reduce_slots = 1
[[faults.scripted]]
node = "node-2"
at = "60s"
"#;

const WORKLOAD: &str = r#"
[[jobs]]
name = "<b>large</b>"
app = "sort"
maps = 60
reduces = 4
submit = "0s"
user = "ann"
pool = "prod"
[[jobs]]
name = "small"
app = "sort"
maps = 2
reduces = 1
submit = "100s"
user = "bob"
pool = "adhoc"
"#;

struct Writer {
    writer: EventLogWriter,
    bytes: Vec<u8>,
}

impl Observer for Writer {
    fn observe(&mut self, now: Time, event: &Event, actions: &[Action]) {
        self.writer.record(now, event, actions, &mut self.bytes).unwrap();
    }
}

/// The event log of the run; it has no closing record.
pub(crate) fn event_log() -> Vec<u8> {
    let cluster = Cluster::from_toml(CLUSTER, "cluster").unwrap();
    let workload = Workload::from_toml(WORKLOAD, "workload", &cluster, 1).unwrap();
    let policy = catalog::by_name("giveway").unwrap();
    let setup =
        Setup { policy: policy.clone(), tenants: workload.tenants.clone(), capabilities: Capabilities::ALL, seed: 1 };
    let (writer, bytes) = EventLogWriter::begin(&setup).unwrap();
    let mut writer = Writer { writer, bytes };
    Simulation::new(&cluster, &workload, policy, 1).unwrap().run(&mut writer);
    writer.bytes
}
