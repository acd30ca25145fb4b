//! How fast each reduce fetches, and how far that has brought it.
//!
//! A level is a number that was true at some instant, a rate since then, and the steps the pool has taken meanwhile;
//! reading it never changes it. A rate is given by [`Shuffle::pace`] and holds until somebody looks again.

use super::{CRUMB_BYTES, Fetch, Pool, STEPS, Shuffle};
use giveway_core::{Span, Time};

impl Shuffle {
    /// What a reduce has at an instant, if nothing changes before. It never falls, even when outputs are lost.
    pub(super) fn level(&self, fetch: u32, now: Time) -> f64 {
        let fetch = &self.fetches[fetch as usize];
        let pool = &self.jobs[fetch.job as usize];
        let fill = |bytes: f64, share: f64, span: Span| {
            let there = larger(share * pool.partition_bytes, bytes);
            smaller(bytes + fetch.bytes_per_us * span.0 as i64 as f64, there)
        };
        let (mut bytes, mut since, mut share) = (fetch.bytes, fetch.since, pool.looked_share);
        for (at, next) in &pool.steps {
            if *at > since {
                (bytes, since) = (fill(bytes, share, at.since(since)), *at);
            }
            share = *next;
        }
        fill(bytes, share, now.since(since))
    }

    pub(super) fn settle(&mut self, fetch: u32, now: Time) {
        let level = self.level(fetch, now);
        let fetch = &mut self.fetches[fetch as usize];
        (fetch.bytes, fetch.since) = (level, now);
    }

    /// Whether a reduce takes its share of the link. One that keeps up with the maps step by step hardly does.
    pub(super) fn pulls(&self, fetch: u32, now: Time) -> bool {
        self.backlog(fetch, now) > 0.0
    }

    /// What a reduce lags behind, beyond what a step may leave.
    fn backlog(&self, fetch: u32, now: Time) -> f64 {
        let state = &self.fetches[fetch as usize];
        let pool = &self.jobs[state.job as usize];
        let slack = if pool.complete { CRUMB_BYTES } else { pool.partition_bytes / STEPS + CRUMB_BYTES };
        let level = if state.since == now { state.bytes } else { self.level(fetch, now) };
        pool.share * pool.partition_bytes - level - slack
    }

    /// Gives a settled reduce its rate, and its instant if all output of its job is there.
    pub(super) fn pace(&mut self, fetch: u32, now: Time) {
        let Fetch { job, node, bytes, at_hand, .. } = self.fetches[fetch as usize];
        let pool = &self.jobs[job as usize];
        let (pulling, neighbour_done_us) = self.neighbours(fetch, now, pool.complete);
        let link = self.links[node as usize] / f64::from(1 + pulling);
        let (on_node, in_rack) = pool.outputs.near(at_hand, self.racks[node as usize]);
        let afar = larger(1.0 - on_node - in_rack, 0.0);
        let carried = in_rack + afar / self.cross_rack;
        let sent = if node == pool.outputs.fullest_holder() { f64::INFINITY } else { pool.sender_share };
        // A reduce with everything at hand needs no network; the floor keeps its rate finite.
        let bytes_per_us = smaller(link, sent) / larger(carried, 1e-9);
        let (complete, missing_bytes) = (pool.complete, larger(pool.partition_bytes - bytes - CRUMB_BYTES, 0.0));
        let state = &mut self.fetches[fetch as usize];
        state.bytes_per_us = bytes_per_us;
        state.version += 1;
        if complete {
            // A neighbour that catches up with its maps leaves the link without an event of its own: look again then.
            let wait_us = smaller(missing_bytes / bytes_per_us, larger(neighbour_done_us, 1.0)).ceil() as u64;
            self.due.push((fetch, state.version, Time(now.0.saturating_add(wait_us))));
        }
    }

    /// How many others pull on the node of a reduce, and how soon one of them may stop without an event of its own,
    /// because it catches up with its maps. While maps of the reduce run too, it is enough to know who pulled when last
    /// looked at.
    fn neighbours(&self, fetch: u32, now: Time, exactly: bool) -> (u32, f64) {
        let node = self.fetches[fetch as usize].node;
        let others = self.on_node[node as usize].iter().map(|here| here.fetch).filter(|other| *other != fetch);
        if !exactly {
            return (others.filter(|other| self.fetches[*other as usize].pulls).count() as u32, f64::INFINITY);
        }
        let (mut pulling, mut soonest_us) = (0, f64::INFINITY);
        for other in others {
            let backlog = self.backlog(other, now);
            if backlog > 0.0 {
                pulling += 1;
                let other = &self.fetches[other as usize];
                if !self.jobs[other.job as usize].complete {
                    soonest_us = soonest_us.min(backlog / other.bytes_per_us);
                }
            }
        }
        (pulling, soonest_us)
    }

    /// Divides what the holders of a job's outputs can send. The fullest holder is the one that matters: it need not
    /// send to reduces on its own node, and what the link of a receiver cannot take in is left to the others.
    pub(super) fn share_senders(&mut self, job: u32, fetches: &[u32]) {
        let pool = &self.jobs[job as usize];
        let (send, everyone) = (pool.outputs.send_bytes_per_us(), pool.strained);
        let receivers = fetches.iter().map(|fetch| (*fetch, &self.fetches[*fetch as usize]));
        let receivers =
            receivers.filter(|(_, fetch)| (everyone || fetch.pulls) && fetch.node != pool.outputs.fullest_holder());
        let count = receivers.clone().count();
        let even = send / count.max(1) as f64;
        let (mut slow, mut taken) = (0, 0.0);
        if even < self.fastest_link {
            for (fetch, state) in receivers {
                let (pulling, _) = self.neighbours(fetch, state.since, false);
                let link = self.links[state.node as usize] / f64::from(1 + pulling);
                if link < even {
                    (slow, taken) = (slow + 1, taken + link);
                }
            }
        }
        let sender_share = match count - slow {
            _ if count == 0 => send,
            0 => f64::INFINITY,
            fast => (send - taken) / fast as f64,
        };
        let pool = &mut self.jobs[job as usize];
        (pool.even_share, pool.sender_share) = (pool.even_send(fetches.len()), sender_share);
    }
}

// Plain comparisons, for nothing here is ever undefined: `f64::max` and `f64::min` would look out for that each time.

fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

fn smaller(a: f64, b: f64) -> f64 {
    if a < b { a } else { b }
}

impl Pool {
    /// Whether the maps have made more since the last look than their nodes can have sent.
    pub(super) fn strains_senders(&self, now: Time, fetching: usize) -> bool {
        let made_bytes = (self.share - self.looked_share) * self.partition_bytes * fetching as f64;
        self.outputs.send_bytes_per_us() * (now.since(self.looked).0 as f64) < made_bytes
    }

    /// What the holders of the outputs can send to each reduce that pulls; if they are strained, that is each one that
    /// fetches.
    pub(super) fn even_send(&self, fetching: usize) -> f64 {
        let receivers = if self.strained { fetching as u32 } else { self.pulling };
        self.outputs.send_bytes_per_us() / f64::from(receivers.max(1))
    }
}
