//! The shuffle, as a fluid.
//!
//! A shuffle of 20,000 maps by 1,024 reduces is 20 million flows; nobody needs to see them. Each reduce is one vessel
//! that fills from its job's common pool of finished map output: what it has fetched follows what is there, no faster
//! than its rate. The rate is the smaller of two shares: the receiver's link among the reduces that pull there now, and
//! what the holders of the job's outputs can send among the reduces of the job that pull now. Output on the reduce's
//! own node costs no network (hSRTF, section 3.4), and bytes from another rack count for more than one.
//!
//! Levels are settled lazily. Each 1/64 of the job's output is only noted; rates are looked at again at each 1/8, when
//! the last map is done, when the reduces that fetch on a node change, and when the sender's share moves by a quarter.
//! Only when all output is there does a reduce get an instant at which it will be full. `twin` does the same flow by
//! flow, slowly and obviously, for comparison.

mod outputs;
mod rates;
#[cfg(test)]
mod twin;

use crate::cluster::Cluster;
use crate::queue::NONE;
use crate::tasks::{Pace, cross_rack};
use giveway_core::Time;
use outputs::Outputs;
use smallvec::SmallVec;

/// In how many steps reduces learn of what is there.
const STEPS: f64 = 64.0;
/// In how many steps their rates follow.
const LOOKS: f64 = 8.0;
/// A reduce is full when less than this is missing.
const CRUMB_BYTES: f64 = 0.5;
/// The sender's share may drift by this much before the rates of a job are looked at again.
const DRIFT: f64 = 1.25;

/// All fetching in the cluster.
pub(crate) struct Shuffle {
    links: Vec<f64>,
    fastest_link: f64,
    racks: Vec<u32>,
    rack_count: usize,
    cross_rack: f64,
    jobs: Vec<Pool>,
    free_jobs: Vec<u32>,
    fetches: Vec<Fetch>,
    free_fetches: Vec<u32>,
    /// By node: the reduces that fetch there.
    on_node: Vec<SmallVec<[Here; 4]>>,
    /// Instants to put in line: fetch, version, when.
    due: Vec<(u32, u32, Time)>,
    touched: Vec<u32>,
}

/// The map output of a job, and the reduces that draw on it.
#[derive(Default)]
struct Pool {
    open: bool,
    outputs: Outputs,
    /// What one reduce fetches in all.
    partition_bytes: f64,
    /// What part of the output the reduces know of, of 1; it follows the outputs step by step.
    share: f64,
    complete: bool,
    /// When the rates of all its reduces were last looked at, what they knew then, and what they have learnt since and
    /// when.
    looked: Time,
    looked_share: f64,
    steps: SmallVec<[(Time, f64); 8]>,
    fetches: Vec<u32>,
    /// How many of them pull.
    pulling: u32,
    /// Whether the maps have made more of late than their nodes could send.
    strained: bool,
    /// What senders could give each of them when last looked at, if all took the same.
    even_share: f64,
    /// The same, if those that can take less leave the rest to the others.
    sender_share: f64,
}

/// A reduce that fetches on a node, and whose output it fetches.
#[derive(Clone, Copy)]
struct Here {
    fetch: u32,
    job: u32,
}

/// One reduce that fetches.
#[derive(Clone, Copy)]
struct Fetch {
    job: u32,
    node: u32,
    /// Whose fetch it is: a number for the caller.
    owner: u32,
    version: u32,
    /// Where it stands in its pool's list.
    place: u32,
    bytes: f64,
    /// When `bytes` was true.
    since: Time,
    bytes_per_us: f64,
    /// What lies on its own node of its job's output, so that nobody has to look that up.
    at_hand: u64,
    /// Whether it pulled when its node was last looked at.
    pulls: bool,
}

impl Shuffle {
    pub(crate) fn new(cluster: &Cluster) -> Shuffle {
        let racks: Vec<u32> = cluster.nodes.iter().map(|node| node.spec.rack.0).collect();
        let links: Vec<f64> = Pace::of_nodes(cluster).iter().map(|pace| pace.net_bytes_per_us).collect();
        Shuffle {
            fastest_link: links.iter().copied().fold(0.0, f64::max),
            links,
            rack_count: racks.iter().max().map_or(1, |rack| *rack as usize + 1),
            racks,
            cross_rack: cross_rack(cluster),
            jobs: Vec::new(),
            free_jobs: Vec::new(),
            fetches: Vec::new(),
            free_fetches: Vec::new(),
            on_node: vec![SmallVec::new(); cluster.nodes.len()],
            due: Vec::new(),
            touched: Vec::new(),
        }
    }

    /// Opens the pool of a job and names it.
    pub(crate) fn open(&mut self, maps: u32, output_bytes: u64, reduces: u32) -> u32 {
        let job = self.free_jobs.pop().unwrap_or_else(|| {
            self.jobs.push(Pool::default());
            self.jobs.len() as u32 - 1
        });
        self.jobs[job as usize] = Pool {
            open: true,
            outputs: Outputs::new(maps, output_bytes, self.links.len(), self.rack_count),
            partition_bytes: output_bytes as f64 / f64::from(reduces.max(1)),
            even_share: f64::INFINITY,
            sender_share: f64::INFINITY,
            ..Pool::default()
        };
        job
    }

    /// Drops a job and all its fetches; `orphaned` is told whose they were.
    pub(crate) fn close(&mut self, now: Time, job: u32, mut orphaned: impl FnMut(u32)) {
        let fetches = std::mem::take(&mut self.jobs[job as usize].fetches);
        for fetch in fetches {
            orphaned(self.fetches[fetch as usize].owner);
            self.forget(fetch);
            self.look_again(now, self.fetches[fetch as usize].node);
        }
        self.jobs[job as usize] = Pool::default();
        self.free_jobs.push(job);
    }

    /// The output of a map lies on a node.
    pub(crate) fn add_output(&mut self, now: Time, job: u32, map: u32, bytes: u64, node: u32) {
        let (rack, link) = (self.racks[node as usize], self.links[node as usize]);
        if self.jobs[job as usize].outputs.add(map, bytes, node, rack, link) {
            for here in self.on_node[node as usize].iter().filter(|here| here.job == job) {
                self.fetches[here.fetch as usize].at_hand += bytes;
            }
            self.follow(now, job);
        }
    }

    /// A map ended early: there is one piece more.
    pub(crate) fn divide(&mut self, job: u32) {
        self.jobs[job as usize].outputs.divide();
    }

    /// A node is gone, and all output that lay there. What was fetched from it stays fetched.
    pub(crate) fn lose_node(&mut self, now: Time, node: u32) {
        for here in &self.on_node[node as usize] {
            self.fetches[here.fetch as usize].at_hand = 0;
        }
        for job in 0..self.jobs.len() as u32 {
            let (links, rack) = (&self.links, self.racks[node as usize]);
            let pool = &mut self.jobs[job as usize];
            if pool.open && pool.outputs.lose(node, rack, |node| links[node as usize]) {
                self.refresh(now, job);
            }
        }
    }

    /// A reduce begins to fetch, with this part of its partition fetched before.
    pub(crate) fn begin(&mut self, now: Time, job: u32, node: u32, owner: u32, fetched: f64) -> u32 {
        let fetch = self.free_fetches.pop().unwrap_or_else(|| {
            let unused = Fetch {
                job,
                node,
                owner,
                version: 0,
                place: 0,
                bytes: 0.0,
                since: now,
                bytes_per_us: 0.0,
                at_hand: 0,
                pulls: false,
            };
            self.fetches.push(unused);
            self.fetches.len() as u32 - 1
        });
        let pool = &mut self.jobs[job as usize];
        let version = self.fetches[fetch as usize].version;
        let place = pool.fetches.len() as u32;
        let bytes = pool.partition_bytes * fetched;
        let at_hand = pool.outputs.bytes_on(node);
        pool.fetches.push(fetch);
        self.fetches[fetch as usize] =
            Fetch { job, node, owner, version, place, bytes, since: now, bytes_per_us: 0.0, at_hand, pulls: false };
        self.on_node[node as usize].push(Here { fetch, job });
        let pulls = self.pulls(fetch, now);
        self.fetches[fetch as usize].pulls = pulls;
        self.jobs[job as usize].pulling += u32::from(pulls);
        self.look_again(now, node);
        self.mind_drift(now, job);
        fetch
    }

    /// A reduce stops fetching; returns the part of its partition it has.
    pub(crate) fn end(&mut self, now: Time, fetch: u32) -> f64 {
        let fetched = self.fetched(now, fetch);
        let Fetch { job, node, place, pulls, .. } = self.fetches[fetch as usize];
        let pool = &mut self.jobs[job as usize];
        pool.fetches.swap_remove(place as usize);
        pool.pulling -= u32::from(pulls);
        if let Some(moved) = pool.fetches.get(place as usize) {
            self.fetches[*moved as usize].place = place;
        }
        self.forget(fetch);
        self.look_again(now, node);
        self.mind_drift(now, job);
        fetched
    }

    /// What part of its partition a reduce has, of 1.
    pub(crate) fn fetched(&self, now: Time, fetch: u32) -> f64 {
        let pool = &self.jobs[self.fetches[fetch as usize].job as usize];
        if pool.partition_bytes < 1.0 {
            return pool.share;
        }
        (self.level(fetch, now) / pool.partition_bytes).min(1.0)
    }

    /// The instant of a fetch came: its owner, if it is full. Fallback a neighbour has changed, and it gets another
    /// instant.
    pub(crate) fn fell_due(&mut self, now: Time, fetch: u32, version: u32) -> Option<u32> {
        if self.fetches[fetch as usize].version != version {
            return None;
        }
        self.settle(fetch, now);
        let Fetch { job, owner, bytes, bytes_per_us, .. } = self.fetches[fetch as usize];
        let pool = &self.jobs[job as usize];
        // One microsecond's worth may be missing, for instants are whole microseconds.
        if pool.complete && pool.partition_bytes - bytes <= CRUMB_BYTES + bytes_per_us {
            return Some(owner);
        }
        self.pace(fetch, now);
        None
    }

    /// Takes the instants that have been reckoned since the last call.
    pub(crate) fn due(&mut self) -> impl Iterator<Item = (u32, u32, Time)> + '_ {
        self.due.drain(..)
    }

    /// The outputs of a job have grown: tells its reduces, if that is a step worth telling.
    fn follow(&mut self, now: Time, job: u32) {
        let pool = &mut self.jobs[job as usize];
        let (share, complete) = (pool.outputs.share(), pool.outputs.complete());
        let stepped = |steps: f64| (share * steps) as u32 != (pool.share * steps) as u32;
        if complete || stepped(LOOKS) {
            self.refresh(now, job);
        } else if stepped(STEPS) {
            pool.steps.push((now, share));
            pool.share = share;
        } else {
            self.mind_drift(now, job);
        }
    }

    fn mind_drift(&mut self, now: Time, job: u32) {
        let pool = &mut self.jobs[job as usize];
        pool.strained = pool.strained && pool.strains_senders(now, pool.fetches.len());
        // A share that no receiver's link could take in binds nobody, however it changes.
        let binding = |share: f64| share.min(self.fastest_link);
        let (before, share) = (binding(pool.even_share), binding(pool.even_send(pool.fetches.len())));
        if pool.pulling > 0 && (share > before * DRIFT || share * DRIFT < before) {
            self.refresh(now, job);
        }
    }

    /// Settles every reduce of a job, tells them what is there now, and gives them new rates.
    fn refresh(&mut self, now: Time, job: u32) {
        let fetches = std::mem::take(&mut self.jobs[job as usize].fetches);
        for fetch in &fetches {
            self.settle(*fetch, now);
        }
        let pool = &mut self.jobs[job as usize];
        let strained = pool.strains_senders(now, fetches.len());
        (pool.share, pool.complete) = (pool.outputs.share(), pool.outputs.complete());
        pool.strained = strained && !pool.complete;
        (pool.looked, pool.looked_share) = (now, pool.share);
        pool.steps.clear();
        pool.pulling = 0;
        let mut touched = std::mem::take(&mut self.touched);
        for fetch in &fetches {
            let pulls = self.pulls(*fetch, now);
            let before = std::mem::replace(&mut self.fetches[*fetch as usize].pulls, pulls);
            self.jobs[job as usize].pulling += u32::from(pulls);
            if before != pulls {
                touched.push(self.fetches[*fetch as usize].node);
            }
        }
        self.share_senders(job, &fetches);
        for fetch in &fetches {
            self.pace(*fetch, now);
        }
        self.jobs[job as usize].fetches = fetches;
        for node in touched.drain(..) {
            self.look_again_beside(now, node, job);
        }
        self.touched = touched;
    }

    /// Settles and re-rates every reduce that fetches on a node.
    fn look_again(&mut self, now: Time, node: u32) {
        self.look_again_beside(now, node, NONE);
    }

    /// The same, but for those of one job, which have been seen to.
    fn look_again_beside(&mut self, now: Time, node: u32, job: u32) {
        for index in 0..self.on_node[node as usize].len() {
            let here = self.on_node[node as usize][index];
            if here.job != job {
                self.settle(here.fetch, now);
                self.pace(here.fetch, now);
            }
        }
    }

    fn forget(&mut self, fetch: u32) {
        let node = self.fetches[fetch as usize].node;
        self.on_node[node as usize].retain(|here| here.fetch != fetch);
        self.fetches[fetch as usize].version += 1;
        self.free_fetches.push(fetch);
    }
}
