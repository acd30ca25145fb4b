//! Submission: from a plan to a job in the journal and in the core.

use super::inputs::{ClientLink, Effect};
use super::output_work::OutputError;
use super::state_machine::{Coordinator, Deferred};
use crate::job::{FileLocation, InputSplit, Plan};
use crate::program::ProgramId;
use crate::wire::ToClient;
use giveway_core::{Hosts, JobSpec, NodeId, Split, WHOLE_PPM};

impl Coordinator {
    /// Accepts a planned job: its plan is journalled, then its output folder is created, and then the job is submitted to the core and the client
    /// receives its id. So a folder never exists without a plan in the journal.
    pub(super) fn on_job_planned(&mut self, plan: Plan, program: Option<ProgramId>, client: ClientLink) {
        let output = &plan.request.output;
        // Checked in the table: a job with several rounds creates its output folder only for its last round.
        if self.table.jobs.values().any(|job| !job.finalized && job.plan.request.output == *output) {
            let reason = OutputError::Exists(output.clone()).to_string();
            return self.deferred.push(Deferred::Reply(client, ToClient::Refused { reason }));
        }
        let job = self.add_planned(plan, program);
        self.create_output(job, Some(client));
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
        self.table.programs.values().any(|needed| *needed == program)
    }

    /// The core's description of a job, with the nodes on which each split is local.
    pub(super) fn job_spec(&self, plan: &Plan) -> JobSpec {
        let up: Hosts = self.core.nodes().filter(|node| node.up).map(|node| node.id).collect();
        let location = |split: &InputSplit| plan.files.get(split.file as usize).map(|file| &file.location);
        let hosts = |split: &InputSplit| match location(split) {
            None => Hosts::default(),
            // All workers run on this machine and open the file themselves: it is local to each.
            Some(FileLocation::Local(_)) => up.clone(),
            Some(FileLocation::Blocks(blocks)) => self.store.nodes_at(blocks, split.offset).into_iter().collect(),
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
        let worker_host = self.nodes.get(node.0 as usize).map_or("", |session| &session.host);
        hosts.iter().any(|host| host.eq_ignore_ascii_case(worker_host))
    }
}
