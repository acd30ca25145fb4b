//! Durations of task phases, and the progress of a task.
//!
//! A map is launched, reads its part of a split, computes, and writes its output. A reduce is launched, fetches (see [`crate::shuffle`]), sorts,
//! and reduces while it writes. The work of a map, and of a reduce that has fetched everything, advances at a constant rate unless the tasks of
//! a node contend for its cores and disk (see [`crate::contention`]). Times within a task are computed in floating point, in one fixed order, and rounded to a microsecond once.

use crate::cluster::{Cluster, Costs};
use crate::contention::{TaskWork, WorkDone};
use crate::workload::JobPlan;
use giveway_core::{Locality, Span, Time, WHOLE_PPM};

/// The gigabyte of `Costs::sort_per_gb`.
const GB: f64 = (1u64 << 30) as f64;

/// Processing and transfer rates of one node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeRates {
    pub(crate) disk_bytes_per_us: f64,
    pub(crate) net_bytes_per_us: f64,
    /// Compute speed of a slot relative to the reference node.
    speed: f64,
    /// Fraction of the link rate that is left across racks.
    cross_rack: f64,
}

impl NodeRates {
    /// The rates of every node of a cluster. A rate of zero would never finish; it is replaced by one byte per second.
    pub(crate) fn of_nodes(cluster: &Cluster) -> Vec<NodeRates> {
        let rate = |bytes_per_s: u64| (bytes_per_s as f64 / 1e6).max(1e-6);
        let rates = |node: &crate::cluster::NodeModel| NodeRates {
            disk_bytes_per_us: rate(node.spec.disk_bytes_per_s),
            net_bytes_per_us: rate(node.net_bytes_per_s),
            speed: f64::from(node.spec.speed_ppm.max(1)) / f64::from(WHOLE_PPM),
            cross_rack: cross_rack(cluster),
        };
        cluster.nodes.iter().map(rates).collect()
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

/// The fraction of a link's rate that a flow across racks gets; 1 if the configured value is out of range.
pub(crate) fn cross_rack(cluster: &Cluster) -> f64 {
    if cluster.cross_rack > 0.0 && cluster.cross_rack <= 1.0 { cluster.cross_rack } else { 1.0 }
}

/// The time to merge this many bytes.
pub(crate) fn sort_span(costs: &Costs, bytes: f64) -> Span {
    costs.sort_per_gb.scaled(bytes / GB)
}

fn rounded(us: f64) -> Span {
    Span((us + 0.5) as u64)
}

/// A map that works on a part of a split, or on all of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MapRun {
    start_bytes: u64,
    bytes: u64,
    /// The output of the split up to the end of this part minus the output up to its start, so that the outputs of all pieces of a split
    /// add up exactly to the output of the split.
    output_bytes: u64,
}

impl MapRun {
    pub(crate) fn new(plan: &JobPlan, start_bytes: u64, bytes: u64) -> MapRun {
        // Most maps work on a whole split, including those without input bytes.
        if bytes == plan.map_bytes {
            return MapRun::whole(plan);
        }
        let output_bytes = output_up_to(plan, start_bytes + bytes) - output_up_to(plan, start_bytes);
        MapRun { bytes, output_bytes, start_bytes }
    }

    pub(crate) fn whole(plan: &JobPlan) -> MapRun {
        MapRun { start_bytes: 0, bytes: plan.map_bytes, output_bytes: plan.map_output_bytes }
    }

    pub(crate) fn is_whole(&self, plan: &JobPlan) -> bool {
        self.bytes == plan.map_bytes
    }

    /// The time from launch to end: reading, computing and writing. `factor` is the task's noise times the attempt's straggler factor.
    pub(crate) fn span(&self, plan: &JobPlan, rates: &NodeRates, locality: Locality, factor: f64) -> Span {
        self.work(plan, rates, locality, factor).span
    }

    /// Its work, alone on its node.
    pub(crate) fn work(&self, plan: &JobPlan, rates: &NodeRates, locality: Locality, factor: f64) -> TaskWork {
        let share = if self.is_whole(plan) { 1.0 } else { self.bytes as f64 / plan.map_bytes as f64 };
        let read_us = rates.read_us(self.bytes as f64, locality);
        let compute_us = plan.map_compute.0 as f64 * share * factor / rates.speed;
        let spill_us = self.output_bytes as f64 / rates.disk_bytes_per_us;
        // The disk that a remote read uses is another node's.
        let local_read_us = if locality == Locality::Node { read_us } else { 0.0 };
        TaskWork::new(rounded(read_us + compute_us + spill_us), compute_us, local_read_us + spill_us)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn output_bytes(&self) -> u64 {
        self.output_bytes
    }

    /// Input bytes processed and their output bytes.
    pub(crate) fn processed(&self, plan: &JobPlan, done: WorkDone) -> (u64, u64) {
        let (spent, whole) = (done.spent.0, done.whole.0.max(1));
        let done_bytes = (u128::from(self.bytes) * u128::from(spent.min(whole)) / u128::from(whole)) as u64;
        (done_bytes, output_up_to(plan, self.start_bytes + done_bytes) - output_up_to(plan, self.start_bytes))
    }
}

fn output_up_to(plan: &JobPlan, bytes: u64) -> u64 {
    let whole = u128::from(plan.map_bytes.max(1));
    (u128::from(plan.map_output_bytes) * u128::from(bytes).min(whole) / whole) as u64
}

/// Progress of a reduce: the completed fraction (0-1) of each phase. A pause retains it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ReduceProgress {
    pub(crate) fetched: f64,
    pub(crate) sorted: f64,
    pub(crate) reduced: f64,
}

impl ReduceProgress {
    /// Progress as Hadoop reports it: a third for each phase. More than a third means that everything is fetched, so a migrated reduce
    /// that fetches again does not count what it has already reduced.
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

    /// The progress that is reported so.
    pub(crate) fn of_ppm(ppm: u32) -> ReduceProgress {
        let thirds = f64::from(ppm) * 3.0 / f64::from(WHOLE_PPM);
        let of_phase = |before: f64| (thirds - before).clamp(0.0, 1.0);
        ReduceProgress { fetched: of_phase(0.0), sorted: of_phase(1.0), reduced: of_phase(2.0) }
    }

    /// What is left of it on another node: all input must be fetched and merged again, but reduced records have been written.
    pub(crate) fn migrated(self) -> ReduceProgress {
        ReduceProgress { fetched: 0.0, sorted: 0.0, ..self }
    }
}

/// A running reduce.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReduceRun {
    /// The key of its fetch in the shuffle; none before and after fetching.
    pub(crate) fetch: Option<u32>,
    /// Progress at launch. While the reduce fetches, the shuffle holds the current fraction.
    pub(crate) progress: ReduceProgress,
    /// When it began to sort; `NEVER` before.
    sort_from: Time,
    sort_span: Span,
}

impl ReduceRun {
    pub(crate) fn new(progress: ReduceProgress) -> ReduceRun {
        ReduceRun { fetch: None, progress, sort_from: Time::NEVER, sort_span: Span::ZERO }
    }

    /// Starts the sort phase, with all input fetched, and returns the work that is left.
    pub(crate) fn sort(
        &mut self,
        now: Time,
        plan: &JobPlan,
        costs: &Costs,
        rates: &NodeRates,
        factor: f64,
    ) -> TaskWork {
        self.fetch = None;
        self.progress.fetched = 1.0;
        self.sort_from = now;
        self.sort_span = sort_span(costs, plan.partition_bytes() as f64).scaled(1.0 - self.progress.sorted);
        let compute_us = plan.reduce_compute.0 as f64 * factor / rates.speed;
        let write_us = plan.reduce_output_bytes as f64 / rates.disk_bytes_per_us.min(rates.net_bytes_per_us);
        let left = 1.0 - self.progress.reduced;
        let span = self.sort_span + rounded((compute_us + write_us) * left);
        let disk_us = plan.reduce_output_bytes as f64 / rates.disk_bytes_per_us * left;
        // Merging runs is computing.
        TaskWork::new(span, self.sort_span.0 as f64 + compute_us * left, disk_us)
    }

    /// When it began to sort; `NEVER` before.
    pub(crate) fn sort_from(&self) -> Time {
        self.sort_from
    }

    /// Progress, given the fetched fraction and what is done of the work since the sort began.
    pub(crate) fn progress_at(&self, fetched: f64, done: WorkDone) -> ReduceProgress {
        if self.sort_from == Time::NEVER {
            return ReduceProgress { fetched, ..self.progress };
        }
        let WorkDone { spent, whole } = done;
        let sorted = fraction(spent, self.sort_span);
        let reduced = match spent.0.checked_sub(self.sort_span.0) {
            None => 0.0,
            Some(spent) => fraction(Span(spent), Span(whole.0.saturating_sub(self.sort_span.0))),
        };
        ReduceProgress {
            fetched: 1.0,
            sorted: self.progress.sorted + (1.0 - self.progress.sorted) * sorted,
            reduced: self.progress.reduced + (1.0 - self.progress.reduced) * reduced,
        }
    }
}

fn fraction(spent: Span, whole: Span) -> f64 {
    if whole.is_zero() { 1.0 } else { (spent.0 as f64 / whole.0 as f64).min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_map_reads_at_the_rate_of_its_locality() {
        let mut cluster = fixture::cluster(1);
        cluster.nodes[0].spec.disk_bytes_per_s = 100_000_000;
        cluster.nodes[0].net_bytes_per_s = 50_000_000;
        cluster.cross_rack = 0.5;
        let rates = NodeRates::of_nodes(&cluster)[0];
        let mut plan = fixture::plan(0, 0.0, 1, 0);
        (plan.map_bytes, plan.map_compute, plan.map_output_bytes) = (100_000_000, Span::from_secs(3), 0);
        let run = MapRun::new(&plan, 0, plan.map_bytes);
        assert_eq!(run.span(&plan, &rates, Locality::Node, 1.0), Span::from_secs(4));
        assert_eq!(run.span(&plan, &rates, Locality::Rack, 1.0), Span::from_secs(5));
        assert_eq!(run.span(&plan, &rates, Locality::Remote, 1.0), Span::from_secs(7));
        assert_eq!(run.span(&plan, &rates, Locality::Node, 2.0), Span::from_secs(7));
    }

    #[test]
    fn the_outputs_of_the_pieces_of_a_split_add_up() {
        let mut plan = fixture::plan(0, 0.0, 1, 1);
        (plan.map_bytes, plan.map_output_bytes) = (1_000, 777);
        let run = MapRun::new(&plan, 0, 1_000);
        let (done_bytes, output) = run.processed(&plan, WorkDone::between(Time(50), Time(350), Time(151)));
        assert_eq!(done_bytes, 336);
        let remainder = MapRun::new(&plan, done_bytes, 1_000 - done_bytes);
        assert_eq!(output + remainder.output_bytes(), 777);
        assert_eq!(run.processed(&plan, WorkDone::between(Time(50), Time(350), Time(20))), (0, 0));
    }

    #[test]
    fn a_split_without_input_bytes_still_has_output() {
        let mut plan = fixture::plan(0, 0.0, 1, 1);
        (plan.map_bytes, plan.map_output_bytes) = (0, 10);
        assert_eq!(MapRun::new(&plan, 0, 0).output_bytes(), 10);
    }

    #[test]
    fn a_resumed_reduce_repeats_no_work() {
        let cluster = fixture::cluster(1);
        let rates = NodeRates::of_nodes(&cluster)[0];
        let plan = fixture::plan(0, 0.0, 4, 1);
        let mut whole = ReduceRun::new(ReduceProgress::default());
        let end = Time(0) + whole.sort(Time(0), &plan, &cluster.costs, &rates, 1.0).span;
        let middle = Time(end.0 * 7 / 10);
        let paused = whole.progress_at(1.0, WorkDone::between(Time(0), end, middle));
        assert!(paused.ppm() > 333_333 && paused.ppm() < WHOLE_PPM);
        let mut resumed = ReduceRun::new(paused);
        let resumed_span = resumed.sort(Time(0), &plan, &cluster.costs, &rates, 1.0).span.0;
        assert!(resumed_span.abs_diff(end.0 - middle.0) <= 2, "{resumed_span} of {}", end.0);
        assert_eq!(whole.progress_at(1.0, WorkDone::between(Time(0), end, end)).ppm(), WHOLE_PPM);
    }

    #[test]
    fn more_than_a_third_means_that_everything_is_fetched() {
        let migrated = ReduceProgress { fetched: 0.9, sorted: 0.0, reduced: 0.8 };
        assert_eq!(migrated.ppm(), 300_000);
        assert_eq!(ReduceProgress { fetched: 1.0, ..ReduceProgress::default() }.ppm(), WHOLE_PPM / 3 + 1);
    }
}
