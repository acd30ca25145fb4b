//! Small clusters and jobs for tests.

use crate::cluster::{Cluster, Costs, Faults, HeartbeatMode, NodeModel, Stragglers};
use crate::workload::{JobPlan, Workload};
use giveway_core::{JobId, NodeSpec, PerKind, Priority, RackId, Span, Tenants, Time, WHOLE_PPM};

/// A cluster of equal nodes in one rack: four map slots, two reduce slots, 100 MB/s disks and links, no noise.
pub(crate) fn cluster(nodes: u32) -> Cluster {
    let node = |index| NodeModel {
        spec: NodeSpec {
            name: format!("n{index}"),
            rack: RackId(0),
            map_slots: 4,
            reduce_slots: 2,
            speed_ppm: WHOLE_PPM,
            disk_bytes_per_s: 100_000_000,
            disk_bytes: 1 << 40,
        },
        net_bytes_per_s: 100_000_000,
        shared: None,
    };
    Cluster {
        name: "test".into(),
        nodes: (0..nodes).map(node).collect(),
        heartbeat: Span::from_secs(3),
        reporting: HeartbeatMode::Heartbeat,
        lost_after: Span::from_secs(25),
        block_bytes: 64 << 20,
        replicas: 3,
        cross_rack: 1.0,
        costs: Costs::default(),
        noise: 0.0,
        stragglers: Stragglers::default(),
        faults: Faults::default(),
    }
}

/// A job of 64 MiB maps that compute 10 s and output as much as they read, and reduces that compute 20 s.
pub(crate) fn plan(job: u32, submit_s: f64, maps: u32, reduces: u32) -> JobPlan {
    JobPlan {
        id: JobId(job),
        name: format!("job {job}"),
        user: "user".into(),
        pool: "default".into(),
        priority: Priority::Normal,
        submit: Time::from_secs_f64(submit_s),
        group: 0,
        maps,
        map_bytes: 64 << 20,
        map_compute: Span::from_secs(10),
        map_output_bytes: 64 << 20,
        reduces,
        reduce_compute: Span::from_secs(20),
        reduce_output_bytes: 64 << 20,
        slowstart_ppm: 50_000,
        relative_ppm: PerKind::default(),
        input: None,
    }
}

/// A workload of these jobs in one group.
pub(crate) fn workload(jobs: Vec<JobPlan>) -> Workload {
    Workload {
        name: "test".into(),
        tenants: Tenants::default(),
        jobs,
        groups: vec!["all".into()],
        hints: false,
        estimate_error: 0.0,
    }
}
