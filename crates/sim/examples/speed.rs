//! How fast the simulator is on this machine: `cargo run --release -p giveway-sim --example speed -- [policy] [nodes] [jobs]`.

use giveway_core::policy::catalog;
use giveway_core::{JobId, NodeSpec, Priority, RackId, Span, Tenants, Time, WHOLE_PPM};
use giveway_sim::Simulation;
use giveway_sim::cluster::{Cluster, Costs, Faults, NodeModel, Stragglers};
use giveway_sim::workload::{JobPlan, Workload};
use std::time::Instant;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let number = |index: usize, usual: u32| args.get(index).and_then(|arg| arg.parse().ok()).unwrap_or(usual);
    let name = args.get(1).map_or("fair", String::as_str);
    let (nodes, jobs) = (number(2, 1_000), number(3, 2_000));
    let policy = catalog::by_name(name).expect("a policy of the catalogue");
    let (cluster, workload) = (cluster(nodes), workload(nodes, jobs));
    let mut simulation = Simulation::new(&cluster, &workload, policy, 1).expect("a sound policy");
    let begin = Instant::now();
    let totals = simulation.run(&mut ());
    let took = begin.elapsed().as_secs_f64();
    println!("{name} on {nodes} nodes: {totals:?}");
    println!(
        "{:.2} s, {:.2} M events/s, {:.2} M ticks/s",
        took,
        totals.events as f64 / took / 1e6,
        totals.ticks as f64 / took / 1e6
    );
}

fn cluster(nodes: u32) -> Cluster {
    let node = |index: u32| NodeModel {
        spec: NodeSpec {
            name: format!("n{index}"),
            rack: RackId(index / 40),
            map_slots: 8,
            reduce_slots: 4,
            speed_ppm: WHOLE_PPM,
            disk_bytes_per_s: 100_000_000,
            disk_bytes: 1 << 40,
        },
        net_bytes_per_s: 125_000_000,
    };
    Cluster {
        name: "speed".into(),
        nodes: (0..nodes).map(node).collect(),
        heartbeat: Span::from_secs(3),
        out_of_band: false,
        lost_after: Span::from_secs(25),
        block_bytes: 128 << 20,
        replicas: 3,
        cross_rack: 0.5,
        costs: Costs::default(),
        noise: 0.2,
        stragglers: Stragglers::default(),
        faults: Faults::default(),
    }
}

/// Jobs of all sizes, most of them small, so many a second that about nine tenths of the map slots are busy.
fn workload(nodes: u32, jobs: u32) -> Workload {
    let sizes = [(10, 1), (50, 5), (10, 1), (400, 40), (20, 2), (10, 1), (100, 10), (3_000, 300)];
    let mut submit_s = 0.0;
    let plan = |job: u32| {
        let (maps, reduces) = sizes[(job.wrapping_mul(2_654_435_761) >> 7) as usize % sizes.len()];
        let map_s = 30.0;
        submit_s += f64::from(maps) * map_s / (f64::from(nodes) * 8.0 * 0.9);
        JobPlan {
            id: JobId(job),
            name: String::new(),
            user: format!("user {}", job % 8),
            pool: format!("pool {}", job % 4),
            priority: Priority::Normal,
            submit: Time::from_secs_f64(submit_s),
            group: 0,
            maps,
            map_bytes: 128 << 20,
            map_compute: Span::from_secs_f64(map_s - 3.0),
            map_output_bytes: 64 << 20,
            reduces,
            reduce_compute: Span::from_secs(30),
            reduce_output_bytes: 256 << 20,
            slowstart_ppm: 50_000,
        }
    };
    let jobs = (0..jobs).map(plan).collect();
    let (name, groups) = ("speed".into(), vec!["all".into()]);
    Workload { name, tenants: Tenants::default(), jobs, groups, hints: false, estimate_error: 0.0 }
}
