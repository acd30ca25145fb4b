//! Applications: what a job runs.

use crate::job::Plan;
use crate::record::{Combine, Failure, Mapper, Reducer};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// A MapReduce program under a name. One value serves many tasks at once.
pub trait App: Send + Sync {
    /// What it is called on the command line.
    fn name(&self) -> &'static str;

    /// One line for people: what it does and its options.
    fn about(&self) -> &'static str;

    /// Looks at the request and at the input before the job begins: checks options, chooses the number of reduces if the request left it
    /// open, samples cut points. Runs on the coordinator's machine; the input can be read through [`crate::input`].
    fn prepare(&self, plan: &mut Plan) -> Result<(), Failure>;

    /// A mapper for one task.
    fn mapper(&self, plan: &Plan) -> Result<Box<dyn Mapper>, Failure>;

    /// A reducer for one task; none if the output of the maps is the output of the job (then the job has no reduces).
    fn reducer(&self, plan: &Plan) -> Result<Option<Box<dyn Reducer>>, Failure>;

    /// What is done with a key's values before they travel.
    fn combine(&self, _plan: &Plan) -> Combine {
        Combine::Nothing
    }

    /// A round is over and its output stands in `plan.output`: the plan of the next round, if there is one. `job` is left for the caller to set.
    fn next_round(&self, _plan: &Plan) -> Result<Option<Plan>, Failure> {
        Ok(None)
    }
}

/// The applications a cluster knows.
#[derive(Clone, Default)]
pub struct Apps {
    by_name: BTreeMap<&'static str, Arc<dyn App>>,
}

impl fmt::Debug for Apps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_name.keys()).finish()
    }
}

impl Apps {
    /// No application at all.
    pub fn none() -> Apps {
        Apps::default()
    }

    /// With one more.
    pub fn with(mut self, app: impl App + 'static) -> Apps {
        self.by_name.insert(app.name(), Arc::new(app));
        self
    }

    /// The application of this name.
    pub fn find(&self, name: &str) -> Result<Arc<dyn App>, Failure> {
        self.by_name.get(name).cloned().ok_or_else(|| {
            let known: Vec<&str> = self.by_name.keys().copied().collect();
            Failure(format!("there is no application `{name}`; there are {}", known.join(", ")))
        })
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &dyn App> {
        self.by_name.values().map(|app| app.as_ref())
    }
}

/// Where a round before the last puts its output: beside the job's own output, out of the user's sight.
pub fn round_output(plan: &Plan, round: u32) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(plan.request.output.file_name().unwrap_or_default());
    name.push(format!(".round-{round}"));
    plan.request.output.with_file_name(name)
}
