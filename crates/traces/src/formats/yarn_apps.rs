//! The application list of YARN's ResourceManager (`/ws/v1/cluster/apps`) as JSON. It has no tasks: the work of an application is its
//! `vcoreSeconds`, or its `memorySeconds` in slots, and the duration model divides it into maps.

use super::Reading;
use crate::tally::us_from_ms;
use crate::{JobOutcome, Oddity, Tasks, TraceJob};
use serde::Deserialize;

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct App {
    id: Option<String>,
    user: Option<String>,
    name: Option<String>,
    queue: Option<String>,
    final_status: Option<String>,
    started_time: Option<i64>,
    finished_time: Option<i64>,
    elapsed_time: Option<i64>,
    memory_seconds: Option<f64>,
    vcore_seconds: Option<f64>,
}

pub(crate) fn job(app: App, reading: &mut Reading) -> Option<TraceJob> {
    let Some(id) = app.id else {
        reading.odd(Oddity::BadObject, "an application without an id");
        return None;
    };
    let Some(submit_us) = app.started_time.filter(|&ms| ms > 0).and_then(us_from_ms) else {
        reading.odd(Oddity::MissingSubmit, &id);
        return None;
    };
    let positive = |number: Option<f64>| number.filter(|number| number.is_finite() && *number > 0.0);
    let elapsed_s = app.elapsed_time.filter(|&ms| ms > 0).map(|ms| ms as f64 / 1e3);
    let work_s = positive(app.vcore_seconds)
        .or_else(|| positive(app.memory_seconds).map(|mb_seconds| mb_seconds / reading.model.slot_mb))
        .or(elapsed_s);
    let Some(work_s) = work_s else {
        reading.odd(Oddity::NoWork, &id);
        return None;
    };
    let maps = reading.model.tasks_from_work(work_s);
    reading.odd(Oddity::TaskTimeModelled, &id);
    let job = reading.counted_job(&id, submit_us, (maps, Tasks::default()));
    Some(TraceJob {
        finish_us: app.finished_time.filter(|&ms| ms > 0).and_then(us_from_ms),
        outcome: JobOutcome::of(app.final_status.as_deref()),
        ..job.named(app.name).of(app.user, app.queue)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::read_text;

    #[test]
    fn the_work_of_an_application_becomes_maps() {
        let text = r#"{"apps":{"app":[
            {"id":"application_1_0001","user":"ann","name":"word count","queue":"q","state":"FINISHED","finalStatus":"SUCCEEDED",
             "startedTime":1700000000000,"finishedTime":1700000060000,"elapsedTime":60000,"vcoreSeconds":300,"memorySeconds":614400},
            {"id":"application_1_0002","user":"bob","finalStatus":"KILLED","startedTime":1700000001000,"memorySeconds":30720},
            {"id":"application_1_0003","startedTime":0},{"id":"application_1_0004","startedTime":5},{"id":7}]}}"#;
        let (jobs, diagnostics) = read_text(text);
        assert_eq!(jobs.len(), 2);
        assert_eq!((jobs[0].maps.count, jobs[0].maps.total_s(), jobs[0].pool.as_str()), (10, 300.0, "q"));
        assert_eq!((jobs[1].maps.count, jobs[1].maps.total_s(), jobs[1].outcome), (1, 30.0, JobOutcome::Killed));
        for oddity in [Oddity::MissingSubmit, Oddity::NoWork, Oddity::BadObject, Oddity::KilledJob] {
            assert_eq!(diagnostics.of(oddity), 1, "{oddity:?}");
        }
    }
}
