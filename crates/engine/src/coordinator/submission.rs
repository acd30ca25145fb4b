//! Submission: from a plan to a job in the journal and in the core.

use super::inputs::{ClientLink, Effect};
use super::job_table::{JobRecord, plan_bytes};
use super::output_work::OutputError;
use super::state_machine::{Coordinator, Deferred};
use crate::job::{FileLocation, InputSplit, Plan, Request};
use crate::program::ProgramId;
use crate::wire::{Rejection, RejectionCode};
use giveway_core::{Hosts, JobSpec, NodeId, Split, WHOLE_PPM};
use std::path::Path;

/// The most jobs that may be running or waiting, in all and of one user: each is kept in memory and in each new journal.
const UNFINISHED_JOBS_MAX: u32 = 200_000;
const UNFINISHED_JOBS_OF_USER_MAX: u32 = if cfg!(test) { 2_000 } else { 100_000 };

/// The most bytes of their plans: options, lists of input files, splits. A snapshot has all of them in one frame.
const UNFINISHED_BYTES_MAX: u64 = if cfg!(test) { 8 << 20 } else { 1 << 30 };

impl Coordinator {
    /// Accepts a planned job: its plan is journalled, then its output folder is created, and then the job is submitted to the core and the client
    /// receives its id. So a folder never exists without a plan in the journal.
    pub(super) fn on_job_planned(&mut self, mut plan: Plan, program: Option<ProgramId>, client: ClientLink) {
        match self.pool_of(&plan.request) {
            Ok(pool) => plan.request.pool = pool,
            Err(reason) => {
                let rejection = RejectionCode::Invalid.because(reason);
                return self.deferred.push(Deferred::Reply(client, rejection.into()));
            }
        }
        if let Err(rejection) = self.check_unfinished(&plan) {
            return self.deferred.push(Deferred::Reply(client, rejection.into()));
        }
        let job = self.add_planned(plan, program);
        self.create_output(job, Some(client));
    }

    /// Checks a job against those that have not ended.
    fn check_unfinished(&self, plan: &Plan) -> Result<(), Rejection> {
        let (unfinished, request) = (&self.table.unfinished, &plan.request);
        // Checked in the table: a job with several rounds creates its output folder only for its last round.
        if unfinished.has_output(&request.output) {
            return Err(self.taken_output(&request.output).rejection());
        }
        if unfinished.jobs() >= UNFINISHED_JOBS_MAX {
            return Err(RejectionCode::Unavailable.because(format!(
                "the cluster has {UNFINISHED_JOBS_MAX} unfinished jobs, the most; try again when some have ended"
            )));
        }
        if unfinished.bytes() + plan_bytes(plan) > UNFINISHED_BYTES_MAX {
            return Err(RejectionCode::Unavailable.because(format!(
                "the options, input files and splits of all unfinished jobs would need more than {} MiB; try again when some have ended, or put long options into a file",
                UNFINISHED_BYTES_MAX >> 20
            )));
        }
        let user = &request.user;
        if unfinished.of_user(user) >= UNFINISHED_JOBS_OF_USER_MAX {
            return Err(RejectionCode::Unavailable.because(format!(
                "user {user} has {UNFINISHED_JOBS_OF_USER_MAX} unfinished jobs, the most for one user; try again when some have ended, or kill some"
            )));
        }
        Ok(())
    }

    /// Why a directory that exists, or that an unfinished job has named, cannot be the output of another job.
    pub(super) fn taken_output(&self, output: &Path) -> OutputError {
        let writes = |record: &&JobRecord| !record.finalized && record.plan.request.output == output;
        match self.table.jobs.values().find(writes) {
            Some(record) => OutputError::InUse { path: output.into(), job: record.plan.job },
            None => OutputError::Exists(output.into()),
        }
    }

    /// The pool of a job: that of its user if it names none. Other pools have to be declared: each has a share of its own, so a user who could invent pools could
    /// have any share.
    fn pool_of(&self, request: &Request) -> Result<String, String> {
        let (pool, user) = (&request.pool, &request.user);
        let pools = &self.core.setup().tenants.pools;
        if pool.is_empty() || pool == user {
            return Ok(user.clone());
        }
        if pools.iter().any(|declared| declared.name == *pool) {
            return Ok(pool.clone());
        }
        let names: Vec<&str> = pools.iter().map(|pool| pool.name.as_str()).collect();
        let declared = if names.is_empty() { "none are".to_owned() } else { format!("declared: {}", names.join(", ")) };
        Err(format!(
            "pool `{pool}` is not declared ({declared}); leave the pool out to use that of user `{user}`, or declare it in the tenants file"
        ))
    }

    /// Has a program removed if no live job needs it.
    pub(super) fn release_program(&mut self, program: Option<ProgramId>) {
        if let Some(program) = program
            && !self.needs_program(program)
        {
            self.effects.push(Effect::RemoveProgram(program));
        }
    }

    /// True if a live job was shipped with this program.
    pub(crate) fn needs_program(&self, program: ProgramId) -> bool {
        self.table.unfinished.needs(program)
    }

    /// The core's description of a job, with the nodes on which each split is local.
    pub(super) fn job_spec(&self, plan: &Plan) -> JobSpec {
        let up: Hosts = self.core.nodes().filter(|node| node.up).map(|node| node.id).collect();
        let location = |split: &InputSplit| plan.files.get(split.file as usize).map(|file| &file.location);
        let hosts = |split: &InputSplit| match location(split) {
            None => Hosts::default(),
            // All workers run on this machine and open the file themselves: it is local to each.
            Some(FileLocation::Local(_) | FileLocation::LocalVersion { .. }) => up.clone(),
            Some(FileLocation::Hdfs(blocks)) => {
                let after = blocks.partition_point(|block| block.offset <= split.offset);
                let hosts = blocks.get(..after).and_then(<[_]>::last).map_or(&[][..], |block| &block.hosts);
                up.iter().copied().filter(|&node| self.is_on_host(node, hosts)).collect()
            }
        };
        let splits = plan.splits.iter().map(|split| Split { bytes: split.bytes, hosts: hosts(split) }).collect();
        let request = &plan.request;
        JobSpec {
            external_id: None,
            id: plan.job,
            name: request.name.clone(),
            user: request.user.clone(),
            pool: request.pool.clone(),
            priority: request.priority,
            splits,
            reduces: plan.reduces,
            slowstart_ppm: self.settings.slowstart_ppm,
            hint: None,
            estimate_bias_ppm: WHOLE_PPM,
        }
    }

    /// Whether a worker's host is one of these. Several workers may have the same host.
    fn is_on_host(&self, node: NodeId, hosts: &[String]) -> bool {
        let connection = self.nodes.get(node.0 as usize).and_then(|session| session.connection.as_ref());
        connection.is_some_and(|worker| hosts.iter().any(|host| host.eq_ignore_ascii_case(&worker.host)))
    }
}
