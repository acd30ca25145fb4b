//! Rates of fetches, and the bytes fetched so far.
//!
//! The bytes of a fetch follow from their value at some time, the rate since then, and the steps of the visible fraction in between; reading
//! them changes nothing. A rate is set by [`Shuffle::update_rate`] and holds until it is recomputed.

use super::{FRACTION_STEPS, Fetch, JobShuffle, Shuffle, TOLERANCE_BYTES};
use giveway_core::{Span, Time};

impl Shuffle {
    /// The bytes fetched at time `now`, if nothing changes before. Never decreases, even when outputs are lost.
    pub(super) fn fetched_bytes(&self, fetch: u32, now: Time) -> f64 {
        let fetch = &self.fetches[fetch as usize];
        let job_shuffle = &self.jobs[fetch.job as usize];
        let advance = |bytes: f64, fraction: f64, span: Span| {
            let visible_bytes = larger(fraction * job_shuffle.partition_bytes, bytes);
            smaller(bytes + fetch.bytes_per_us * span.0 as i64 as f64, visible_bytes)
        };
        let (mut bytes, mut since, mut fraction) = (fetch.bytes, fetch.since, job_shuffle.rated_fraction);
        for (at, next) in &job_shuffle.steps {
            if *at > since {
                (bytes, since) = (advance(bytes, fraction, at.since(since)), *at);
            }
            fraction = *next;
        }
        advance(bytes, fraction, now.since(since))
    }

    /// Brings the stored bytes of a fetch up to date.
    pub(super) fn settle(&mut self, fetch: u32, now: Time) {
        let fetched_bytes = self.fetched_bytes(fetch, now);
        let fetch = &mut self.fetches[fetch as usize];
        (fetch.bytes, fetch.since) = (fetched_bytes, now);
    }

    /// Whether a fetch uses its share of the link. One that keeps up with the maps step by step uses hardly any.
    pub(super) fn is_backlogged(&self, fetch: u32, now: Time) -> bool {
        self.backlog(fetch, now) > 0.0
    }

    /// The visible bytes that are not fetched yet, beyond what a step may leave.
    fn backlog(&self, fetch: u32, now: Time) -> f64 {
        let state = &self.fetches[fetch as usize];
        let job_shuffle = &self.jobs[state.job as usize];
        let slack = if job_shuffle.is_complete {
            TOLERANCE_BYTES
        } else {
            job_shuffle.partition_bytes / FRACTION_STEPS + TOLERANCE_BYTES
        };
        let fetched_bytes = if state.since == now { state.bytes } else { self.fetched_bytes(fetch, now) };
        job_shuffle.visible_fraction * job_shuffle.partition_bytes - fetched_bytes - slack
    }

    /// Sets the rate of a settled fetch and, if all output of its job is available, its deadline.
    pub(super) fn update_rate(&mut self, fetch: u32, now: Time) {
        let Fetch { job, node, bytes, local_bytes, .. } = self.fetches[fetch as usize];
        let job_shuffle = &self.jobs[job as usize];
        let (backlogged, neighbour_done_us) = self.neighbours(fetch, now, job_shuffle.is_complete);
        let link = self.links[node as usize] / f64::from(1 + backlogged);
        let (on_node, in_rack) = job_shuffle.outputs.locality_fractions(local_bytes, self.racks[node as usize]);
        let remote = larger(1.0 - on_node - in_rack, 0.0);
        let network_cost = in_rack + remote / self.cross_rack;
        let send_rate =
            if node == job_shuffle.outputs.bottleneck_node() { f64::INFINITY } else { job_shuffle.send_rate };
        // A fetch of local output needs no network; the lower limit keeps its rate finite.
        let mut bytes_per_us = smaller(link, send_rate) / larger(network_cost, 1e-9);
        if local_bytes > 0 && self.caches.limited() {
            let read_us = on_node * self.caches.read_us_per_byte(node, job_shuffle.outputs.on_node(node));
            bytes_per_us = if read_us > 0.0 { smaller(bytes_per_us, 1.0 / read_us) } else { bytes_per_us };
        }
        let (is_complete, missing_bytes) =
            (job_shuffle.is_complete, larger(job_shuffle.partition_bytes - bytes - TOLERANCE_BYTES, 0.0));
        let state = &mut self.fetches[fetch as usize];
        state.bytes_per_us = bytes_per_us;
        state.version += 1;
        if is_complete {
            // A neighbour that catches up with its maps leaves the link without an event of its own; the rate is recomputed then.
            let wait_us = smaller(missing_bytes / bytes_per_us, larger(neighbour_done_us, 1.0)).ceil() as u64;
            self.deadlines.push((fetch, state.version, Time(now.0.saturating_add(wait_us))));
        }
    }

    /// The number of other backlogged fetches on the node, and the time until one of them may stop without an event of its own, because it
    /// catches up with its maps. Without `exact`, which is enough while maps of the job still run, the backlog at the last computation of the
    /// rates is used and no time is returned.
    fn neighbours(&self, fetch: u32, now: Time, exact: bool) -> (u32, f64) {
        let node = self.fetches[fetch as usize].node;
        let others = self.fetches_on_node[node as usize]
            .iter()
            .map(|node_fetch| node_fetch.fetch)
            .filter(|other| *other != fetch);
        if !exact {
            return (others.filter(|other| self.fetches[*other as usize].is_backlogged).count() as u32, f64::INFINITY);
        }
        let (mut backlogged, mut soonest_us) = (0, f64::INFINITY);
        for other in others {
            let backlog = self.backlog(other, now);
            if backlog > 0.0 {
                backlogged += 1;
                let other = &self.fetches[other as usize];
                if !self.jobs[other.job as usize].is_complete {
                    soonest_us = soonest_us.min(backlog / other.bytes_per_us);
                }
            }
        }
        (backlogged, soonest_us)
    }

    /// Divides what the nodes with a job's outputs can send. The bottleneck node determines it: it need not send to reduces on itself, and
    /// receivers with slow links leave their surplus to the others.
    pub(super) fn divide_send_rate(&mut self, job: u32, fetches: &[u32]) {
        let job_shuffle = &self.jobs[job as usize];
        let (send, count_all) = (job_shuffle.outputs.send_bytes_per_us(), job_shuffle.senders_saturated);
        let receivers = fetches.iter().map(|fetch| (*fetch, &self.fetches[*fetch as usize]));
        let receivers = receivers.filter(|(_, fetch)| {
            (count_all || fetch.is_backlogged) && fetch.node != job_shuffle.outputs.bottleneck_node()
        });
        let count = receivers.clone().count();
        let even = send / count.max(1) as f64;
        let (mut slow, mut taken) = (0, 0.0);
        if even < self.fastest_link {
            for (fetch, state) in receivers {
                let (backlogged, _) = self.neighbours(fetch, state.since, false);
                let link = self.links[state.node as usize] / f64::from(1 + backlogged);
                if link < even {
                    (slow, taken) = (slow + 1, taken + link);
                }
            }
        }
        let send_rate = match count - slow {
            _ if count == 0 => send,
            0 => f64::INFINITY,
            fast => (send - taken) / fast as f64,
        };
        let job_shuffle = &mut self.jobs[job as usize];
        (job_shuffle.even_send_rate, job_shuffle.send_rate) =
            (job_shuffle.even_send_rate_among(fetches.len()), send_rate);
    }
}

// Plain comparisons, because no value here is ever NaN; `f64::max` and `f64::min` would check for it each time.

fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

fn smaller(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

impl JobShuffle {
    /// Whether the maps have produced more since the rates were last computed than their nodes can have sent.
    pub(super) fn saturates_senders(&self, now: Time, fetching: usize) -> bool {
        let produced_bytes = (self.visible_fraction - self.rated_fraction) * self.partition_bytes * fetching as f64;
        self.outputs.send_bytes_per_us() * (now.since(self.rated_at).0 as f64) < produced_bytes
    }

    /// The equal share of each backlogged fetch in what the nodes with the outputs can send; of every fetch, if the senders are saturated.
    pub(super) fn even_send_rate_among(&self, fetching: usize) -> f64 {
        let receivers = if self.senders_saturated { fetching as u32 } else { self.backlogged };
        self.outputs.send_bytes_per_us() / f64::from(receivers.max(1))
    }
}
