//! What tasks take, phase by phase, and how far they have come.
//!
//! A map is launched, reads its part of a split, computes, and writes its output; once launched it advances evenly, so
//! its end is known at once. A reduce is launched, fetches (see [`crate::shuffle`]), sorts, and reduces while it
//! writes; its end is known when it has fetched everything. Time inside a task is reckoned in floating point, in one
//! fixed order, and rounded to a microsecond once.

use crate::cluster::{Cluster, Costs};
use crate::workload::JobPlan;
use giveway_core::{Locality, Span, Time, WHOLE_PPM};

/// Bytes that `Costs::sort_per_gb` speaks of.
const GB: f64 = (1u64 << 30) as f64;

/// How fast one node is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) disk_bytes_per_us: f64,
    pub(crate) net_bytes_per_us: f64,
    /// Speed of a slot; 1 is the reference node.
    speed: f64,
    cross_rack: f64,
}

impl Pace {
    /// The pace of every node of a cluster. A rate of zero would stop time; it becomes one byte a second.
    pub(crate) fn of_nodes(cluster: &Cluster) -> Vec<Pace> {
        let rate = |bytes_per_s: u64| (bytes_per_s as f64 / 1e6).max(1e-6);
        let pace = |node: &crate::cluster::NodeModel| Pace {
            disk_bytes_per_us: rate(node.spec.disk_bytes_per_s),
            net_bytes_per_us: rate(node.net_bytes_per_s),
            speed: f64::from(node.spec.speed_ppm.max(1)) / f64::from(WHOLE_PPM),
            cross_rack: cross_rack(cluster),
        };
        cluster.nodes.iter().map(pace).collect()
    }

    fn read_us(&self, bytes: f64, locality: Locality) -> f64 {
        bytes
            / match locality {
                Locality::Node => self.disk_bytes_per_us,
                Locality::Rack => self.disk_bytes_per_us.min(self.net_bytes_per_us),
                Locality::Remote => self.disk_bytes_per_us.min(self.net_bytes_per_us * self.cross_rack),
            }
    }
}

/// What part of a link a flow gets across racks; a factor that cannot be is taken for none.
pub(crate) fn cross_rack(cluster: &Cluster) -> f64 {
    if cluster.cross_rack > 0.0 && cluster.cross_rack <= 1.0 { cluster.cross_rack } else { 1.0 }
}

/// What merging this many bytes takes.
pub(crate) fn sort_span(costs: &Costs, bytes: f64) -> Span {
    costs.sort_per_gb.scaled(bytes / GB)
}

fn rounded(us: f64) -> Span {
    Span((us + 0.5) as u64)
}

/// A map at work on bytes of a split.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MapRun {
    start_bytes: u64,
    bytes: u64,
    /// The difference of what the split gives up to its end and up to its beginning, so that the outputs of all pieces
    /// of a split add up to the whole, exactly.
    output_bytes: u64,
}

impl MapRun {
    pub(crate) fn new(plan: &JobPlan, start_bytes: u64, bytes: u64) -> MapRun {
        // Most maps are whole; among them those without a byte to read.
        if bytes == plan.map_bytes {
            return MapRun::whole(plan);
        }
        let output_bytes = output_up_to(plan, start_bytes + bytes) - output_up_to(plan, start_bytes);
        MapRun { bytes, output_bytes, start_bytes }
    }

    /// A map at work on a whole split.
    pub(crate) fn whole(plan: &JobPlan) -> MapRun {
        MapRun { start_bytes: 0, bytes: plan.map_bytes, output_bytes: plan.map_output_bytes }
    }

    pub(crate) fn is_whole(&self, plan: &JobPlan) -> bool {
        self.bytes == plan.map_bytes
    }

    /// Reading, computing and writing, once launched. `factor` is the task's noise times the attempt's ill luck.
    pub(crate) fn span(&self, plan: &JobPlan, pace: &Pace, locality: Locality, factor: f64) -> Span {
        let share = if self.is_whole(plan) { 1.0 } else { self.bytes as f64 / plan.map_bytes as f64 };
        let read_us = pace.read_us(self.bytes as f64, locality);
        let compute_us = plan.map_compute.0 as f64 * share * factor / pace.speed;
        let spill_us = self.output_bytes as f64 / pace.disk_bytes_per_us;
        rounded(read_us + compute_us + spill_us)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn output_bytes(&self) -> u64 {
        self.output_bytes
    }

    /// Bytes read and mapped when this part of the work is done, and what they gave.
    pub(crate) fn done(&self, plan: &JobPlan, ready: Time, end: Time, now: Time) -> (u64, u64) {
        let (spent, whole) = (now.since(ready).0, end.since(ready).0.max(1));
        let done_bytes = (u128::from(self.bytes) * u128::from(spent.min(whole)) / u128::from(whole)) as u64;
        (done_bytes, output_up_to(plan, self.start_bytes + done_bytes) - output_up_to(plan, self.start_bytes))
    }
}

fn output_up_to(plan: &JobPlan, bytes: u64) -> u64 {
    let whole = u128::from(plan.map_bytes.max(1));
    (u128::from(plan.map_output_bytes) * u128::from(bytes).min(whole) / whole) as u64
}

/// How much of each phase a reduce has behind it, of 1. This is what a pause keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Done {
    pub(crate) fetched: f64,
    pub(crate) sorted: f64,
    pub(crate) reduced: f64,
}

impl Done {
    /// Hadoop's count: a third for each phase. More than a third says that everything is fetched, so a reduce that
    /// fetches again after it moved does not count what it has reduced.
    pub(crate) fn ppm(&self) -> u32 {
        let third = f64::from(WHOLE_PPM) / 3.0;
        if self.fetched < 1.0 {
            (self.fetched * third) as u32
        } else if self.sorted < 1.0 {
            ((1.0 + self.sorted) * third).ceil() as u32
        } else {
            ((2.0 + self.reduced) * third).ceil().min(f64::from(WHOLE_PPM)) as u32
        }
    }

    /// What is left on another node: all input must be fetched and merged again; what was reduced was also written.
    pub(crate) fn migrated(self) -> Done {
        Done { fetched: 0.0, sorted: 0.0, ..self }
    }
}

/// A reduce at work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReduceRun {
    /// Its fetch, while it has one.
    pub(crate) fetch: Option<u32>,
    /// What was done when it was launched; while it fetches, the fetch knows better.
    pub(crate) done: Done,
    /// When it began to sort.
    sort_from: Time,
    sort_span: Span,
}

impl ReduceRun {
    pub(crate) fn new(done: Done) -> ReduceRun {
        ReduceRun { fetch: None, done, sort_from: Time::NEVER, sort_span: Span::ZERO }
    }

    /// Everything is here: plans the rest and returns its end.
    pub(crate) fn sort(&mut self, now: Time, plan: &JobPlan, costs: &Costs, pace: &Pace, factor: f64) -> Time {
        self.fetch = None;
        self.done.fetched = 1.0;
        self.sort_from = now;
        self.sort_span = sort_span(costs, plan.partition_bytes() as f64).scaled(1.0 - self.done.sorted);
        let compute_us = plan.reduce_compute.0 as f64 * factor / pace.speed;
        let write_us = plan.reduce_output_bytes as f64 / pace.disk_bytes_per_us.min(pace.net_bytes_per_us);
        now + self.sort_span + rounded((compute_us + write_us) * (1.0 - self.done.reduced))
    }

    /// What is done now, given the part fetched and the end if it is known.
    pub(crate) fn done(&self, fetched: f64, end: Time, now: Time) -> Done {
        if self.sort_from == Time::NEVER {
            return Done { fetched, ..self.done };
        }
        let reduce_from = self.sort_from + self.sort_span;
        let sorted = part(now.since(self.sort_from), self.sort_span);
        let reduced = if now < reduce_from { 0.0 } else { part(now.since(reduce_from), end.since(reduce_from)) };
        Done {
            fetched: 1.0,
            sorted: self.done.sorted + (1.0 - self.done.sorted) * sorted,
            reduced: self.done.reduced + (1.0 - self.done.reduced) * reduced,
        }
    }
}

fn part(spent: Span, whole: Span) -> f64 {
    if whole.is_zero() { 1.0 } else { (spent.0 as f64 / whole.0 as f64).min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_map_reads_at_the_pace_of_its_locality() {
        let mut cluster = fixture::cluster(1);
        cluster.nodes[0].spec.disk_bytes_per_s = 100_000_000;
        cluster.nodes[0].net_bytes_per_s = 50_000_000;
        cluster.cross_rack = 0.5;
        let pace = Pace::of_nodes(&cluster)[0];
        let mut plan = fixture::plan(0, 0.0, 1, 0);
        (plan.map_bytes, plan.map_compute, plan.map_output_bytes) = (100_000_000, Span::from_secs(3), 0);
        let run = MapRun::new(&plan, 0, plan.map_bytes);
        assert_eq!(run.span(&plan, &pace, Locality::Node, 1.0), Span::from_secs(4));
        assert_eq!(run.span(&plan, &pace, Locality::Rack, 1.0), Span::from_secs(5));
        assert_eq!(run.span(&plan, &pace, Locality::Remote, 1.0), Span::from_secs(7));
        assert_eq!(run.span(&plan, &pace, Locality::Node, 2.0), Span::from_secs(7));
    }

    #[test]
    fn the_pieces_of_a_split_add_up_to_the_whole() {
        let mut plan = fixture::plan(0, 0.0, 1, 1);
        (plan.map_bytes, plan.map_output_bytes) = (1_000, 777);
        let run = MapRun::new(&plan, 0, 1_000);
        let (done_bytes, output) = run.done(&plan, Time(50), Time(350), Time(151));
        assert_eq!(done_bytes, 336);
        let rest = MapRun::new(&plan, done_bytes, 1_000 - done_bytes);
        assert_eq!(output + rest.output_bytes(), 777);
        assert_eq!(run.done(&plan, Time(50), Time(350), Time(20)), (0, 0));
    }

    #[test]
    fn a_split_without_bytes_still_gives_its_output() {
        let mut plan = fixture::plan(0, 0.0, 1, 1);
        (plan.map_bytes, plan.map_output_bytes) = (0, 10);
        assert_eq!(MapRun::new(&plan, 0, 0).output_bytes(), 10);
    }

    #[test]
    fn a_paused_reduce_does_nothing_twice() {
        let cluster = fixture::cluster(1);
        let pace = Pace::of_nodes(&cluster)[0];
        let plan = fixture::plan(0, 0.0, 4, 1);
        let mut whole = ReduceRun::new(Done::default());
        let end = whole.sort(Time(0), &plan, &cluster.costs, &pace, 1.0);
        let middle = Time(end.0 * 7 / 10);
        let kept = whole.done(1.0, end, middle);
        assert!(kept.ppm() > 333_333 && kept.ppm() < WHOLE_PPM);
        let mut rest = ReduceRun::new(kept);
        let rest_span = rest.sort(Time(0), &plan, &cluster.costs, &pace, 1.0).0;
        assert!(rest_span.abs_diff(end.0 - middle.0) <= 2, "{rest_span} of {}", end.0);
        assert_eq!(whole.done(1.0, end, end).ppm(), WHOLE_PPM);
    }

    #[test]
    fn more_than_a_third_means_all_fetched() {
        let moved = Done { fetched: 0.9, sorted: 0.0, reduced: 0.8 };
        assert_eq!(moved.ppm(), 300_000);
        assert_eq!(Done { fetched: 1.0, ..Done::default() }.ppm(), WHOLE_PPM / 3 + 1);
    }
}
