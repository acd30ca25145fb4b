//! The check: every replica is read, every manifest too, and what is wrong is said in words.

use super::catalog::{Catalog, State};
use super::data::check_all;
use super::{BlockId, Health, Holder, Name};
use crate::wire::Token;
use giveway_core::NodeId;
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

/// More lines than this help nobody.
const PROBLEMS_MOST: usize = 200;

impl Catalog {
    /// Has every worker read all it has, collects what belongs to no file, and looks at every block. Repairs begin at once and may take longer.
    pub(super) fn check(&self, token: &Token) -> Health {
        let workers: Vec<(Holder, String)> = {
            let holdings = &self.state().holdings;
            let up = |at: usize| holdings.holder(NodeId(at as u32)).map(|holder| (holder, holdings.nodes[at].name.clone()));
            (0..holdings.nodes.len()).filter_map(up).collect()
        };
        let mut found = Found::default();
        thread::scope(|scope| {
            let ask = |(holder, name): &(Holder, String)| {
                let (holder, name) = (holder.clone(), name.clone());
                scope.spawn(move || (name, check_all(&holder.address, token)))
            };
            for asked in workers.iter().map(ask).collect::<Vec<_>>() {
                let Ok((name, answer)) = asked.join() else { continue };
                match answer {
                    Ok(bad) => found.bad.extend(bad.into_iter().map(|block| (block, name.clone()))),
                    Err(error) => found.silent.push(format!("{name} did not answer: {error}")),
                }
            }
        });
        let manifests = self.manifests.read();
        let state = &mut *self.state();
        // Put right on disk, or gone wrong, since the last look.
        state.unreadable = manifests.unreadable;
        // What is bad the workers say themselves, in order with whatever else happens to their shelves.
        state.health(found, workers.len() as u32)
    }
}

/// What the workers said.
#[derive(Default)]
struct Found {
    bad: Vec<(BlockId, String)>,
    silent: Vec<String>,
}

impl State {
    fn health(&mut self, found: Found, nodes: u32) -> Health {
        let mut health = Health { nodes, damaged: found.bad.len() as u64, ..Health::default() };
        let awaited: Vec<String> = self.holdings.awaited().map(|name| format!("{name} has not said yet what it has")).collect();
        if self.unreadable.is_empty() && awaited.is_empty() && found.silent.is_empty() {
            health.strays = self.holdings.collect(Instant::now(), Duration::ZERO);
        }
        let mut problems = found.silent;
        problems.extend(awaited);
        problems.extend(self.unreadable.iter().map(|(path, why)| format!("the manifest {}: {why}", path.display())));
        let mut owners: BTreeMap<BlockId, &Name> = BTreeMap::new();
        for (name, manifest) in &self.files {
            health.files += 1;
            health.bytes += manifest.bytes;
            for held in &manifest.blocks {
                owners.insert(held.block, name);
                let Some(block) = self.holdings.blocks.get(&held.block) else { continue };
                let (live, wanted) = (block.holders.len(), self.holdings.wanted(block));
                health.blocks += 1;
                health.replicas += live as u64;
                if live == 0 {
                    health.missing += 1;
                    problems.push(format!("{name}: block {} has no sound replica", held.block));
                } else if live < wanted {
                    health.under_replicated += 1;
                    problems.push(format!("{name}: block {} has {live} of {wanted} replicas", held.block));
                }
            }
        }
        for (block, node) in found.bad {
            let of = owners.get(&block).map_or_else(|| "no file".to_string(), ToString::to_string);
            problems.push(format!("{of}: the replica of block {block} on {node} was damaged or gone, and is replaced if there is a sound one"));
        }
        problems.truncate(PROBLEMS_MOST);
        Health { problems, ..health }
    }
}
