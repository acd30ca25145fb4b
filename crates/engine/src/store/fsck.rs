//! `giveway dfs fsck`: every replica and every manifest is read, and each problem is reported as a line of text.

use super::manifest::ManifestError;
use super::namespace::{Namespace, State};
use super::transfer::verify_all;
use super::{BlockId, DfsPath, FsckReport, WorkerEndpoint};
use crate::wire::Token;
use giveway_core::NodeId;
use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

/// Limit of problem lines in a report.
const PROBLEMS_MAX: usize = 200;

impl Namespace {
    /// Has every worker verify all its replicas, and checks every block. With `repair`, corrupt replicas are replaced, orphans are deleted, and names
    /// that were lost are given up: then the blocks of their files are orphans from the next time on.
    pub(super) fn fsck(&self, token: &Token, repair: bool) -> FsckReport {
        let workers: Vec<(WorkerEndpoint, String)> = {
            let replica_map = &self.state().replica_map;
            let named = |at: usize| {
                let endpoint = replica_map.endpoint(NodeId(at as u32))?;
                Some((endpoint, replica_map.nodes[at].name.clone()))
            };
            (0..replica_map.nodes.len()).filter_map(named).collect()
        };
        let mut results = WorkerResults::default();
        thread::scope(|scope| {
            let verify = |(endpoint, name): &(WorkerEndpoint, String)| {
                let (endpoint, name) = (endpoint.clone(), name.clone());
                scope.spawn(move || (name, verify_all(&endpoint.address, token, repair)))
            };
            for running in workers.iter().map(verify).collect::<Vec<_>>() {
                let Ok((name, result)) = running.join() else { continue };
                match result {
                    Ok(corrupt) => results.corrupt.extend(corrupt.into_iter().map(|block| (block, name.clone()))),
                    Err(error) => results.failures.push(format!("{name} did not verify its replicas: {error}")),
                }
            }
        });
        let manifests = self.manifests.read();
        let is_lost = |(_, error): &(_, ManifestError)| matches!(error, ManifestError::NamesMissing);
        if repair
            && manifests.unreadable.iter().any(is_lost)
            && let Err(error) = self.manifests.mark_names()
        {
            results.failures.push(format!("cannot repair the names of the stored files: {error}"));
        }
        let state = &mut *self.state();
        // Manifests may have been restored or corrupted on disk since they were last read.
        state.unreadable = manifests.unreadable;
        // Corrupt replicas are not removed from the replica map here: the workers report them, in order with their other changes.
        state.report(results, workers.len() as u32, repair)
    }
}

/// Results of all workers.
#[derive(Default)]
pub(super) struct WorkerResults {
    /// Corrupt or missing replicas, with the worker's name.
    corrupt: Vec<(BlockId, String)>,
    /// A line for each worker that could not verify its replicas.
    failures: Vec<String>,
}

impl State {
    pub(super) fn report(&mut self, results: WorkerResults, nodes: u32, repair: bool) -> FsckReport {
        let mut report = FsckReport { nodes, corrupt: results.corrupt.len() as u64, ..FsckReport::default() };
        let awaited: Vec<String> =
            self.replica_map.awaited_nodes().map(|name| format!("{name} has not reported its replicas yet")).collect();
        let is_complete = self.unreadable.is_empty() && awaited.is_empty() && results.failures.is_empty();
        report.orphans = self.replica_map.orphans.len() as u64;
        if repair && is_complete && self.replica_map.has_enough_reports() {
            report.orphans_deleted = self.replica_map.delete_orphans(Instant::now(), Duration::ZERO);
        }
        let mut problems = results.failures;
        problems.extend(awaited);
        problems.extend(
            self.unreadable.iter().map(|(path, error)| format!("manifest {} is unreadable: {error}", path.display())),
        );
        let mut files: BTreeMap<BlockId, &DfsPath> = BTreeMap::new();
        for (path, manifest) in &self.files {
            report.files += 1;
            report.bytes += manifest.bytes;
            for info in &manifest.blocks {
                files.insert(info.block, path);
                let Some(block) = self.replica_map.blocks.get(&info.block) else { continue };
                let (live, target) = (block.holders.len(), self.replica_map.target_replicas(block));
                report.blocks += 1;
                report.replicas += live as u64;
                if live == 0 {
                    report.missing += 1;
                    problems.push(format!("{path}: block {} has no valid replica", info.block));
                } else if live < target {
                    report.under_replicated += 1;
                    problems.push(format!("{path}: block {} has {live} of {target} replicas", info.block));
                }
            }
        }
        for (block, node) in results.corrupt {
            let file = files.get(&block).map_or_else(|| "no file".to_string(), ToString::to_string);
            let then = if repair { "it is replaced if there is a valid one" } else { "`fsck --repair` replaces it" };
            problems.push(format!("{file}: the replica of block {block} on {node} is corrupt or missing; {then}"));
        }
        problems.truncate(PROBLEMS_MAX);
        FsckReport { problems, ..report }
    }
}
