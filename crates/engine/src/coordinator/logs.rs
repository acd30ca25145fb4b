//! What attempts have printed, and the event log, for clients. Answered on the thread of the client's connection, from files.

use super::connections::Answers;
use super::journal::{journal_path, read_journal};
use crate::attempt_logs::{self, LogChunk};
use crate::wire::{FromClient, LogStatus, RejectionCode, ToClient, WireError};
use std::path::Path;

/// Bytes of a log in one answer.
const CHUNK_BYTES: u64 = 1 << 20;

/// Sends the event log in the journal, as far as it is synced.
pub(super) fn send_event_log(answers: &Answers, folder: &Path) -> Result<(), WireError> {
    let (events, clock) = match read_journal(&journal_path(folder)) {
        Ok(read) => read,
        Err(error) => {
            return answers.send(&ToClient::from(RejectionCode::Unavailable.because(error.to_string())));
        }
    };
    for piece in events.chunks(CHUNK_BYTES as usize) {
        answers.send(&ToClient::EventLog { bytes: piece.to_vec(), clock: None })?;
    }
    answers.send(&ToClient::EventLog { bytes: Vec::new(), clock: Some(clock) })
}

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
                Ok(chunk) => ToClient::LogChunk(chunk),
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
