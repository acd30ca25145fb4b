//! Another policy and other tenants while jobs run.
//!
//! The setup is the head of a journal and determines every action in it. So a new setup begins a new journal: the core is taken as a snapshot, and a core
//! of the new setup continues from that, as one does after a restart. The journal before it is archived. Each of the two can be replayed, and a
//! coordinator that is killed at any moment recovers with the old setup or with the new one.

use super::inputs::{ClientLink, Effect};
use super::journal::JournalError;
use super::recovery::Begun;
use super::state_machine::{Coordinator, Deferred};
use crate::access::Access;
use crate::wire::{RejectionCode, Reload, ToClient};
use giveway_core::{Policy, Setup, Span, Tenants};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tracing::info;

/// What can be changed while a cluster runs.
#[derive(Clone, Debug)]
pub struct Reloadable {
    pub policy: Policy,
    /// Users and pools with their shares.
    pub tenants: Tenants,
    /// Users who have access beside the owner.
    pub access: Access,
}

/// Reads the policy and the tenants again; an error says what is wrong with them.
#[derive(Clone)]
pub struct ReloadSource(Arc<dyn Fn() -> Result<Reloadable, String> + Send + Sync>);

impl ReloadSource {
    /// A source that calls this function, on the thread of a client's connection.
    pub fn new(read: impl Fn() -> Result<Reloadable, String> + Send + Sync + 'static) -> ReloadSource {
        ReloadSource(Arc::new(read))
    }

    pub(super) fn read(&self) -> Result<Reloadable, String> {
        (self.0)()
    }
}

impl std::fmt::Debug for ReloadSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReloadSource(..)")
    }
}

/// The time of a task without input, until one was observed: a message to a worker that is up, and its answer.
const TASK_START: Span = Span::from_millis(20);

/// The settings that differ, with their values before and after, a line each.
fn changes(before: &Setup, after: &Setup) -> Vec<String> {
    let mut lines = Vec::new();
    let value = |of: &Setup| (serde_json::to_value(&of.policy), serde_json::to_value(&of.tenants));
    let ((Ok(policy), Ok(tenants)), (Ok(new_policy), Ok(new_tenants))) = (value(before), value(after)) else {
        return lines;
    };
    add_changes("policy", &policy, &new_policy, &mut lines);
    add_changes("tenants", &tenants, &new_tenants, &mut lines);
    lines
}

fn add_changes(path: &str, before: &Value, after: &Value, lines: &mut Vec<String>) {
    // Users and pools are found by their name.
    let by_key = |value: &Value| -> Option<BTreeMap<String, Value>> {
        match value {
            Value::Object(fields) => Some(fields.clone().into_iter().collect()),
            Value::Array(items) => {
                let by_name = items.iter().map(|item| Some((item.get("name")?.as_str()?.to_owned(), item.clone())));
                let by_position = || (0..).zip(items).map(|(at, item): (usize, _)| (format!("[{at}]"), item.clone()));
                by_name.collect::<Option<_>>().or_else(|| Some(by_position().collect()))
            }
            _ => None,
        }
    };
    match (by_key(before), by_key(after)) {
        _ if before == after => {}
        (Some(old), Some(new)) => {
            let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for key in keys {
                let at = |of: &BTreeMap<String, Value>| of.get(key).cloned().unwrap_or(Value::Null);
                let dot = if key.starts_with('[') { "" } else { "." };
                add_changes(&format!("{path}{dot}{key}"), &at(&old), &at(&new), lines);
            }
        }
        _ => {
            let text = |value: &Value| if value.is_null() { "(none)".into() } else { value.to_string() };
            lines.push(format!("{path}: {} -> {}", text(before), text(after)));
        }
    }
}

/// A policy as it applies here, where a task needs no new process.
pub(super) fn with_task_start(policy: Policy) -> Policy {
    Policy { task_start: policy.task_start.min(TASK_START), ..policy }
}

impl Coordinator {
    /// Accepts a new policy and new tenants, or refuses them whole.
    pub(super) fn on_reload(&mut self, policy: Policy, tenants: Tenants, client: ClientLink) {
        let current = self.core.setup();
        let setup = Setup { policy: with_task_start(policy), tenants, ..current.clone() };
        if let Err(error) = setup.check() {
            let reason = format!("{error}; the previous policy and tenants stay in force");
            return self.deferred.push(Deferred::Reply(client, RejectionCode::Conflict.because(reason).into()));
        }
        let unchanged = *current == setup;
        if let Some((_, waiting)) = self.reload.take() {
            let rejection = RejectionCode::Conflict.because("a later reload has replaced this one");
            self.deferred.push(Deferred::Reply(waiting, rejection.into()));
        }
        if unchanged {
            let answer = ToClient::Reloaded(Reload { policy: setup.policy.name, changed: false, changes: Vec::new() });
            return self.deferred.push(Deferred::Reply(client, answer));
        }
        self.reload = Some((setup, client));
    }

    /// Has the requested setup take effect, if one is requested and a journal can begin now. Returns the content of that journal.
    pub(super) fn apply_reload(&mut self) -> Result<Option<Vec<u8>>, JournalError> {
        let Some((setup, client)) = self.reload.take() else { return Ok(None) };
        let changes = changes(self.core.setup(), &setup);
        let (answer, content) = match self.begin_journal(setup.clone())? {
            // Within moments the slots of the ended job are free.
            Begun::NotNow => {
                self.reload = Some((setup, client));
                return Ok(None);
            }
            Begun::Refused(refusal) => {
                let reason = format!(
                    "the jobs that run cannot continue under policy {}: {refusal}; the previous policy and tenants stay in force",
                    setup.policy.name
                );
                (RejectionCode::Conflict.because(reason).into(), None)
            }
            Begun::New(content) => {
                // Free slots may match other tasks now.
                self.offer_epoch += 1;
                info!(policy = %setup.policy.name, "policy and tenants loaded again; a new journal has begun");
                (ToClient::Reloaded(Reload { policy: setup.policy.name, changed: true, changes }), Some(content))
            }
        };
        self.effects.push(Effect::Reply(client, answer));
        Ok(content)
    }
}
