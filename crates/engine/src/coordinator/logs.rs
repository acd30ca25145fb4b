//! What attempts have printed, for clients. Answered on the thread of the client's connection, from the workers' files.

use crate::attempt_logs::{self, LogChunk};
use crate::wire::{FromClient, LogStatus, RejectionCode, ToClient};
use std::path::Path;

/// Bytes of a log in one answer.
const CHUNK_BYTES: u64 = 1 << 20;

/// Answers a request for logs. `status` is the answer to one for the job's status; `limited_to` is the user whose jobs alone the client may read.
pub(super) fn answer(folder: &Path, request: &FromClient, status: ToClient, limited_to: Option<&str>) -> ToClient {
    let job = match status {
        ToClient::Job(status) => status,
        // There is no such job.
        other => return other,
    };
    if limited_to.is_some_and(|user| user != job.user) {
        let reason = format!("{} belongs to {}: only its user and administrators can read its logs", job.job, job.user);
        return RejectionCode::Forbidden.because(reason).into();
    }
    let unreadable = |reason: String| RejectionCode::Unavailable.because(reason).into();
    let logs = match attempt_logs::find(folder, job.job) {
        Ok(logs) => logs,
        Err(error) => return unreadable(format!("cannot list the logs of {}: {error}", job.job)),
    };
    match *request {
        FromClient::ReadLog { attempt, from } => {
            let log = logs.iter().find(|log| log.attempt == attempt);
            match log.map_or_else(|| Ok(LogChunk { start: from, bytes: Vec::new() }), |log| log.read(from, CHUNK_BYTES))
            {
                Ok(LogChunk { start, bytes }) => ToClient::LogChunk { start, bytes },
                Err(error) => unreadable(format!("cannot read the log of {attempt}: {error}")),
            }
        }
        _ => ToClient::Logs(
            logs.iter()
                .map(|log| LogStatus {
                    attempt: log.attempt,
                    bytes: log.bytes(),
                    stored_bytes: log.stored_bytes(),
                    node: log.node.clone(),
                })
                .collect(),
        ),
    }
}
