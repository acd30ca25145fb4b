//! From what a user asks for to what tasks need to know.

use crate::apps::{self, Apps};
use crate::input::StoreAccess;
use crate::job::{Plan, Request};
use crate::record::Failure;
use crate::wire::MESSAGE_BYTES_MAX;
use giveway_core::JobId;

/// More reduces than this are a typing error.
const REDUCES_MOST: u32 = 10_000;

/// Looks at the request and its input. The job's number is set when it is accepted.
pub(super) fn plan(request: Request, known: &Apps, stored: &dyn StoreAccess) -> Result<Plan, Failure> {
    let app = known.find(&request.app)?;
    let output = request.output.display();
    if !request.output.is_absolute() {
        return Err(Failure(format!("the output {output} is not an absolute path")));
    }
    if request.output.file_name().is_none() {
        return Err(Failure(format!(
            "the output {output} has no name of its own; write a folder that does not exist yet"
        )));
    }
    // Also said when the job is accepted; here before the input is read for nothing.
    if request.output.exists() {
        return Err(output_exists(&request));
    }
    if request.split_bytes == 0 {
        return Err(Failure("a split of 0 bytes would never end; write for example 64MiB".into()));
    }
    if request.reduces.is_some_and(|reduces| reduces > REDUCES_MOST) {
        return Err(Failure(format!("more than {REDUCES_MOST} reduces for one job; ask for fewer")));
    }
    let plan = apps::plan(app.as_ref(), JobId(0), request, stored)?;
    // Workers get the plan as one message.
    let bytes = postcard::to_allocvec(&plan).map_or(usize::MAX, |plan| plan.len());
    if bytes + 1024 > MESSAGE_BYTES_MAX {
        let (files, splits) = (plan.files.len(), plan.splits.len());
        return Err(Failure(format!(
            "{files} files in {splits} splits are too many for one job; use fewer, larger files or splits"
        )));
    }
    Ok(plan)
}

pub(super) fn output_exists(request: &Request) -> Failure {
    let output = request.output.display();
    Failure(format!("the output {output} exists already; remove it or choose another, results are never overwritten"))
}
