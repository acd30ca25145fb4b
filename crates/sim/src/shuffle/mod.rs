//! A fluid model of the shuffle.
//!
//! A shuffle of 20,000 maps by 1,024 reduces has 20 million flows, too many to simulate one by one. Instead each reduce is one flow from its
//! job's finished map output as a whole: its fetched bytes grow at its rate, up to the available fraction of its partition. The rate is the
//! smaller of two shares: of the receiver's link, divided among the backlogged reduces on that node, and of what the nodes with the job's
//! outputs can send, divided among the job's backlogged reduces. Output on the reduce's own node needs no network (hSRTF, section 3.4), and
//! bytes from another rack cost more than their size.
//!
//! Fetched bytes are computed lazily. Each 1/64 of the job's output is only recorded; rates are recomputed at each 1/8, when the last map is
//! done, when the set of fetching reduces on a node changes, and when the senders' share changes by a quarter. A reduce gets a deadline for its
//! fetch only when all output is available. `tests.rs` simulates every flow, for comparison.

mod outputs;
mod page_cache;
mod rates;
#[cfg(test)]
mod tests;

use crate::cluster::Cluster;
use crate::event_queue::NONE;
use crate::tasks::{NodeRates, cross_rack};
use giveway_core::Time;
use outputs::Outputs;
use page_cache::PageCaches;
use smallvec::SmallVec;

/// Number of steps in which the output that reduces can see grows.
const FRACTION_STEPS: f64 = 64.0;
/// Number of steps of the output at which rates are recomputed.
const RATE_STEPS: f64 = 8.0;
/// A fetch is complete when at most this much is missing, a tolerance for rounding.
const TOLERANCE_BYTES: f64 = 0.5;
/// The senders' share may change by this factor before the rates of a job are recomputed.
const MAX_DRIFT_FACTOR: f64 = 1.25;

/// All fetches in the cluster.
pub(crate) struct Shuffle {
    /// By node, the link rate in bytes per microsecond.
    links: Vec<f64>,
    fastest_link: f64,
    caches: PageCaches,
    racks: Vec<u32>,
    rack_count: usize,
    cross_rack: f64,
    jobs: Vec<JobShuffle>,
    free_job_keys: Vec<u32>,
    fetches: Vec<Fetch>,
    free_fetch_keys: Vec<u32>,
    /// By node, the fetches that run there.
    fetches_on_node: Vec<SmallVec<[NodeFetch; 4]>>,
    /// Deadlines to queue: fetch, version, time.
    deadlines: Vec<(u32, u32, Time)>,
    /// Buffer of [`Shuffle::refresh`], reused.
    changed_nodes: Vec<u32>,
}

/// The shuffle of one job: its map output, and the fetches of its reduces.
#[derive(Default)]
struct JobShuffle {
    open: bool,
    outputs: Outputs,
    /// Bytes that one reduce fetches in total.
    partition_bytes: f64,
    /// Fraction (0-1) of the output that the reduces can see; follows the available fraction in steps.
    visible_fraction: f64,
    /// Whether all output is available.
    is_complete: bool,
    /// When the rates of all its fetches were last computed, the visible fraction at that time, and the steps since then.
    rated_at: Time,
    rated_fraction: f64,
    steps: SmallVec<[(Time, f64); 8]>,
    /// Keys of its fetches.
    fetches: Vec<u32>,
    /// Number of its fetches that are backlogged.
    backlogged: u32,
    /// Whether the maps have recently produced more than their nodes could send.
    senders_saturated: bool,
    /// What the senders could give to each fetch when the rates were last computed, in equal shares.
    even_send_rate: f64,
    /// The same, if receivers with slow links leave their surplus to the others.
    send_rate: f64,
}

/// A fetch in the list of its node, with the job whose output it fetches.
#[derive(Clone, Copy)]
struct NodeFetch {
    fetch: u32,
    job: u32,
}

/// The fetch of one reduce.
#[derive(Clone, Copy)]
struct Fetch {
    job: u32,
    node: u32,
    /// The caller's key of the reduce.
    owner: u32,
    version: u32,
    /// Index in its job's list.
    position: u32,
    /// Bytes fetched at time `since`.
    bytes: f64,
    since: Time,
    bytes_per_us: f64,
    /// Bytes of its job's output on its own node, cached.
    local_bytes: u64,
    /// Whether it was backlogged when the rates were last computed.
    is_backlogged: bool,
}

impl Shuffle {
    pub(crate) fn new(cluster: &Cluster) -> Shuffle {
        let racks: Vec<u32> = cluster.nodes.iter().map(|node| node.spec.rack.0).collect();
        let links: Vec<f64> = NodeRates::of_nodes(cluster).iter().map(|rates| rates.net_bytes_per_us).collect();
        Shuffle {
            fastest_link: links.iter().copied().fold(0.0, f64::max),
            links,
            caches: PageCaches::new(cluster),
            rack_count: racks.iter().max().map_or(1, |rack| *rack as usize + 1),
            racks,
            cross_rack: cross_rack(cluster),
            jobs: Vec::new(),
            free_job_keys: Vec::new(),
            fetches: Vec::new(),
            free_fetch_keys: Vec::new(),
            fetches_on_node: vec![SmallVec::new(); cluster.nodes.len()],
            deadlines: Vec::new(),
            changed_nodes: Vec::new(),
        }
    }

    /// Starts the shuffle of a job and returns its key.
    pub(crate) fn open(&mut self, maps: u32, output_bytes: u64, reduces: u32) -> u32 {
        let job = self.free_job_keys.pop().unwrap_or_else(|| {
            self.jobs.push(JobShuffle::default());
            self.jobs.len() as u32 - 1
        });
        self.jobs[job as usize] = JobShuffle {
            open: true,
            outputs: Outputs::new(maps, output_bytes, self.links.len(), self.rack_count),
            partition_bytes: output_bytes as f64 / f64::from(reduces.max(1)),
            even_send_rate: f64::INFINITY,
            send_rate: f64::INFINITY,
            ..JobShuffle::default()
        };
        job
    }

    /// Drops a job and all its fetches; calls `on_dropped` with the owner of each.
    pub(crate) fn close(&mut self, now: Time, job: u32, mut on_dropped: impl FnMut(u32)) {
        let fetches = std::mem::take(&mut self.jobs[job as usize].fetches);
        for fetch in fetches {
            on_dropped(self.fetches[fetch as usize].owner);
            self.remove_fetch(fetch);
            self.update_rates_on_node(now, self.fetches[fetch as usize].node);
        }
        self.jobs[job as usize] = JobShuffle::default();
        self.free_job_keys.push(job);
    }

    /// Adds the output of a map on a node.
    pub(crate) fn add_output(&mut self, now: Time, job: u32, map: u32, bytes: u64, node: u32) {
        let (rack, link) = (self.racks[node as usize], self.links[node as usize]);
        if self.jobs[job as usize].outputs.add(map, bytes, node, rack, link, &mut self.caches) {
            for node_fetch in self.fetches_on_node[node as usize].iter().filter(|node_fetch| node_fetch.job == job) {
                self.fetches[node_fetch.fetch as usize].local_bytes += bytes;
            }
            self.on_output_added(now, job);
        }
    }

    /// Adds a piece to the maps of a job: a map that ended early left a remainder.
    pub(crate) fn add_piece(&mut self, job: u32) {
        self.jobs[job as usize].outputs.add_piece();
    }

    /// Removes all output on a node. What was fetched from it stays fetched.
    pub(crate) fn lose_node(&mut self, now: Time, node: u32) {
        for node_fetch in &self.fetches_on_node[node as usize] {
            self.fetches[node_fetch.fetch as usize].local_bytes = 0;
        }
        for job in 0..self.jobs.len() as u32 {
            let job_shuffle = &mut self.jobs[job as usize];
            if job_shuffle.open && job_shuffle.outputs.lose_node(node, self.racks[node as usize]) {
                self.find_bottleneck(job);
                self.refresh(now, job);
            }
        }
    }

    /// Tasks of a node have read or written these bytes, besides map output.
    pub(crate) fn pass_page_cache(&mut self, node: u32, bytes: u64) {
        self.caches.pass(node, bytes);
    }

    fn find_bottleneck(&mut self, job: u32) {
        let (links, caches) = (&self.links, &self.caches);
        let send_rate = |node: u32, output| caches.send_bytes_per_us(node, links[node as usize], output);
        self.jobs[job as usize].outputs.find_bottleneck(send_rate);
    }

    /// Starts the fetch of a reduce, of which the fraction `fetched` was fetched before; returns its key.
    pub(crate) fn begin_fetch(&mut self, now: Time, job: u32, node: u32, owner: u32, fetched: f64) -> u32 {
        let fetch = self.free_fetch_keys.pop().unwrap_or_else(|| {
            let unused = Fetch {
                job,
                node,
                owner,
                version: 0,
                position: 0,
                bytes: 0.0,
                since: now,
                bytes_per_us: 0.0,
                local_bytes: 0,
                is_backlogged: false,
            };
            self.fetches.push(unused);
            self.fetches.len() as u32 - 1
        });
        let job_shuffle = &mut self.jobs[job as usize];
        let version = self.fetches[fetch as usize].version;
        let position = job_shuffle.fetches.len() as u32;
        let bytes = job_shuffle.partition_bytes * fetched;
        let local_bytes = job_shuffle.outputs.bytes_on_node(node);
        job_shuffle.fetches.push(fetch);
        self.fetches[fetch as usize] = Fetch {
            job,
            node,
            owner,
            version,
            position,
            bytes,
            since: now,
            bytes_per_us: 0.0,
            local_bytes,
            is_backlogged: false,
        };
        self.fetches_on_node[node as usize].push(NodeFetch { fetch, job });
        let is_backlogged = self.is_backlogged(fetch, now);
        self.fetches[fetch as usize].is_backlogged = is_backlogged;
        self.jobs[job as usize].backlogged += u32::from(is_backlogged);
        self.update_rates_on_node(now, node);
        self.refresh_if_drifted(now, job);
        fetch
    }

    /// Ends a fetch; returns the fetched fraction of the partition.
    pub(crate) fn end_fetch(&mut self, now: Time, fetch: u32) -> f64 {
        let fetched = self.fetched(now, fetch);
        let Fetch { job, node, position, is_backlogged, .. } = self.fetches[fetch as usize];
        let job_shuffle = &mut self.jobs[job as usize];
        job_shuffle.fetches.swap_remove(position as usize);
        job_shuffle.backlogged -= u32::from(is_backlogged);
        if let Some(moved) = job_shuffle.fetches.get(position as usize) {
            self.fetches[*moved as usize].position = position;
        }
        self.remove_fetch(fetch);
        self.update_rates_on_node(now, node);
        self.refresh_if_drifted(now, job);
        fetched
    }

    /// The fetched fraction (0-1) of a reduce's partition.
    pub(crate) fn fetched(&self, now: Time, fetch: u32) -> f64 {
        let job_shuffle = &self.jobs[self.fetches[fetch as usize].job as usize];
        if job_shuffle.partition_bytes < 1.0 {
            return job_shuffle.visible_fraction;
        }
        (self.fetched_bytes(fetch, now) / job_shuffle.partition_bytes).min(1.0)
    }

    /// Handles the deadline of a fetch: returns its owner if the fetch is complete. Otherwise the rate has changed since, and a new
    /// deadline is set.
    pub(crate) fn complete_fetch(&mut self, now: Time, fetch: u32, version: u32) -> Option<u32> {
        if self.fetches[fetch as usize].version != version {
            return None;
        }
        self.settle(fetch, now);
        let Fetch { job, owner, bytes, bytes_per_us, .. } = self.fetches[fetch as usize];
        let job_shuffle = &self.jobs[job as usize];
        // Times are whole microseconds, so the bytes of one microsecond may be missing.
        if job_shuffle.is_complete && job_shuffle.partition_bytes - bytes <= TOLERANCE_BYTES + bytes_per_us {
            return Some(owner);
        }
        self.update_rate(fetch, now);
        None
    }

    /// Takes the deadlines that were computed since the last call.
    pub(crate) fn take_deadlines(&mut self) -> impl Iterator<Item = (u32, u32, Time)> + '_ {
        self.deadlines.drain(..)
    }

    /// Makes added output visible to the reduces, if it amounts to a step.
    fn on_output_added(&mut self, now: Time, job: u32) {
        let job_shuffle = &mut self.jobs[job as usize];
        let (fraction, is_complete) = (job_shuffle.outputs.available_fraction(), job_shuffle.outputs.is_complete());
        let stepped = |steps: f64| (fraction * steps) as u32 != (job_shuffle.visible_fraction * steps) as u32;
        if is_complete || stepped(RATE_STEPS) {
            self.refresh(now, job);
        } else if stepped(FRACTION_STEPS) {
            job_shuffle.steps.push((now, fraction));
            job_shuffle.visible_fraction = fraction;
        } else {
            self.refresh_if_drifted(now, job);
        }
    }

    /// Recomputes the rates of a job if the senders' share has changed by more than the drift factor.
    fn refresh_if_drifted(&mut self, now: Time, job: u32) {
        let job_shuffle = &mut self.jobs[job as usize];
        job_shuffle.senders_saturated =
            job_shuffle.senders_saturated && job_shuffle.saturates_senders(now, job_shuffle.fetches.len());
        // A share above every receiver's link does not limit any fetch, however it changes.
        let limit = |rate: f64| rate.min(self.fastest_link);
        let before = limit(job_shuffle.even_send_rate);
        let rate = limit(job_shuffle.even_send_rate_among(job_shuffle.fetches.len()));
        if job_shuffle.backlogged > 0 && (rate > before * MAX_DRIFT_FACTOR || rate * MAX_DRIFT_FACTOR < before) {
            self.refresh(now, job);
        }
    }

    /// Settles every fetch of a job, makes all available output visible, and recomputes the rates.
    fn refresh(&mut self, now: Time, job: u32) {
        let fetches = std::mem::take(&mut self.jobs[job as usize].fetches);
        for fetch in &fetches {
            self.settle(*fetch, now);
        }
        if self.caches.limited() {
            self.find_bottleneck(job);
        }
        let job_shuffle = &mut self.jobs[job as usize];
        let senders_saturated = job_shuffle.saturates_senders(now, fetches.len());
        job_shuffle.visible_fraction = job_shuffle.outputs.available_fraction();
        job_shuffle.is_complete = job_shuffle.outputs.is_complete();
        job_shuffle.senders_saturated = senders_saturated && !job_shuffle.is_complete;
        (job_shuffle.rated_at, job_shuffle.rated_fraction) = (now, job_shuffle.visible_fraction);
        job_shuffle.steps.clear();
        job_shuffle.backlogged = 0;
        let mut changed_nodes = std::mem::take(&mut self.changed_nodes);
        for fetch in &fetches {
            let is_backlogged = self.is_backlogged(*fetch, now);
            let before = std::mem::replace(&mut self.fetches[*fetch as usize].is_backlogged, is_backlogged);
            self.jobs[job as usize].backlogged += u32::from(is_backlogged);
            if before != is_backlogged {
                changed_nodes.push(self.fetches[*fetch as usize].node);
            }
        }
        self.divide_send_rate(job, &fetches);
        for fetch in &fetches {
            self.update_rate(*fetch, now);
        }
        self.jobs[job as usize].fetches = fetches;
        for node in changed_nodes.drain(..) {
            self.update_rates_except(now, node, job);
        }
        self.changed_nodes = changed_nodes;
    }

    /// Settles and recomputes every fetch on a node.
    fn update_rates_on_node(&mut self, now: Time, node: u32) {
        self.update_rates_except(now, node, NONE);
    }

    /// Like [`Shuffle::update_rates_on_node`], without the fetches of one job.
    fn update_rates_except(&mut self, now: Time, node: u32, job: u32) {
        for index in 0..self.fetches_on_node[node as usize].len() {
            let node_fetch = self.fetches_on_node[node as usize][index];
            if node_fetch.job != job {
                self.settle(node_fetch.fetch, now);
                self.update_rate(node_fetch.fetch, now);
            }
        }
    }

    fn remove_fetch(&mut self, fetch: u32) {
        let node = self.fetches[fetch as usize].node;
        self.fetches_on_node[node as usize].retain(|node_fetch| node_fetch.fetch != fetch);
        self.fetches[fetch as usize].version += 1;
        self.free_fetch_keys.push(fetch);
    }
}
