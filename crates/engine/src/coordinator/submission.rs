//! Submission: from a plan to a job in the journal and in the core.

use super::finalize::{create_output, remove_output};
use super::journal::Metadata;
use super::planning::SubmitError;
use super::run::{Coordinator, Effect};
use crate::job::{FileLocation, InputSplit, Plan};
use crate::wire::ToClient;
use giveway_core::{Event, Hosts, JobId, JobSpec, NodeId, Outcome, Split, WHOLE_PPM};
use std::sync::mpsc::Sender;

impl Coordinator {
    pub(super) fn on_job_planned(&mut self, plan: Plan, reply: Sender<ToClient>) {
        let output = &plan.request.output;
        // Checked in the table too: a job with several rounds creates its output folder only for its last round.
        let taken = self.table.jobs.values().any(|job| !job.finalized && job.plan.request.output == *output);
        let accepted = if taken { Err(SubmitError::OutputExists(output.clone())) } else { self.accept(plan) };
        let answer = match accepted {
            Ok(job) => ToClient::Submitted { job },
            Err(error) => ToClient::Refused { reason: error.to_string() },
        };
        self.effects.push(Effect::Reply(reply, answer));
    }

    /// Assigns a job id, creates the output folder, writes the plan to the journal and submits the job to the core.
    pub(super) fn accept(&mut self, mut plan: Plan) -> Result<JobId, SubmitError> {
        plan.job = JobId(self.table.next_job);
        let job = plan.job;
        create_output(&plan)?;
        let spec = self.job_spec(&plan);
        self.append_metadata(Metadata::JobPlanned(Box::new(plan)));
        match self.submit_event(Event::JobSubmitted(Box::new(spec))) {
            None => Ok(job),
            Some(refusal) => {
                self.discard_unsubmitted(job);
                Err(SubmitError::Refused(refusal))
            }
        }
    }

    /// Submits a job to the core whose plan is in the journal, but whose submission is not.
    pub(super) fn resubmit(&mut self, job: JobId) {
        let Some(plan) = self.table.jobs.get(&job).map(|record| record.plan.clone()) else { return };
        match create_output(&plan) {
            Ok(()) => {
                self.submit_event(Event::JobSubmitted(Box::new(self.job_spec(&plan))));
            }
            Err(error) => {
                self.record_failure(job, error.to_string());
                self.append_metadata(Metadata::JobFinalized { job, outcome: Outcome::Failed, next_round: None });
            }
        }
    }

    /// Removes a planned job that never reached the core, with its output folder.
    pub(super) fn discard_unsubmitted(&mut self, job: JobId) {
        if let Some(record) = self.table.jobs.get(&job) {
            remove_output(&record.plan.output, record.plan.nonce);
            // Without this line the next recovery would remove the folder again, which may then belong to another job or program.
            self.append_metadata(Metadata::JobFinalized { job, outcome: Outcome::Killed, next_round: None });
            self.table.jobs.remove(&job);
        }
    }

    /// The core's description of a job, with the nodes on which each split is local.
    fn job_spec(&self, plan: &Plan) -> JobSpec {
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
            slowstart_ppm: self.options.slowstart_ppm,
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
