//! An order written in Python: a function from the facts of a job to a number.

use giveway_core::policy::View;
use giveway_core::policy::orders::{CustomOrder, JobValue};
use giveway_core::state::Job;
use giveway_core::{Kind, PerKind};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex};

/// What an order in Python may know of a job. Times are in seconds.
#[pyclass(frozen, get_all, module = "giveway._giveway")]
pub struct JobFacts {
    /// Number of the job, from 0 in the order of submission.
    job: u32,
    name: String,
    /// 0 for very high to 4 for very low.
    priority: u8,
    /// "map" or "reduce": the kind of slot that is to be given.
    kind: &'static str,
    /// How many more slots it would have; -1 for one less.
    extra: i32,
    now_s: f64,
    submit_s: f64,
    maps: u32,
    reduces: u32,
    maps_done: u32,
    reduces_done: u32,
    maps_running: u32,
    reduces_running: u32,
    input_bytes: u64,
    /// Estimated time left if it were alone on the cluster.
    remaining_s: f64,
    /// Estimated time from beginning to end if it were alone on the cluster.
    alone_s: f64,
    /// Estimated time in which the whole cluster would do what is left.
    remaining_area_s: f64,
    /// Slot time received so far.
    slot_time_s: f64,
}

impl JobFacts {
    fn of(view: View<'_>, job: &Job, kind: Kind, extra: i32) -> JobFacts {
        let counts = PerKind::from_fn(|kind| job.counts(kind));
        let estimate = job.estimate();
        JobFacts {
            job: job.id().0,
            name: job.name().to_owned(),
            priority: job.priority() as u8,
            kind: match kind {
                Kind::Map => "map",
                Kind::Reduce => "reduce",
            },
            extra,
            now_s: view.now.as_secs_f64(),
            submit_s: job.submitted().as_secs_f64(),
            maps: job.total(Kind::Map),
            reduces: job.total(Kind::Reduce),
            maps_done: counts[Kind::Map].done,
            reduces_done: counts[Kind::Reduce].done,
            maps_running: counts[Kind::Map].running.len() as u32,
            reduces_running: counts[Kind::Reduce].running.len() as u32,
            input_bytes: job.input_bytes(),
            remaining_s: estimate.remaining_time.as_secs_f64(),
            alone_s: estimate.time_alone.as_secs_f64(),
            remaining_area_s: estimate.remaining_area.as_secs_f64(),
            slot_time_s: estimate.attained_service.as_secs_f64(),
        }
    }
}

/// The first exception in an order, which ends the simulation.
#[derive(Clone, Default)]
pub struct FirstError(Arc<Mutex<Option<PyErr>>>);

impl FirstError {
    pub fn set(&self, error: PyErr) {
        self.0.lock().expect("no panic while it is held").get_or_insert(error);
    }

    pub fn is_set(&self) -> bool {
        self.0.lock().expect("no panic while it is held").is_some()
    }

    pub fn take(&self) -> Option<PyErr> {
        self.0.lock().expect("no panic while it is held").take()
    }
}

struct PythonOrder {
    name: String,
    function: Py<PyAny>,
    error: FirstError,
}

/// An order that calls a function.
pub fn custom_order(name: &str, version: &str, function: Py<PyAny>, error: FirstError) -> CustomOrder {
    CustomOrder::new(name, version, PythonOrder { name: name.to_owned(), function, error })
}

impl JobValue for PythonOrder {
    fn value(&self, view: View<'_>, job: &Job, kind: Kind, extra: i32) -> f64 {
        // After an exception the run ends soon; until then any value will do.
        if self.error.is_set() {
            return 0.0;
        }
        let facts = JobFacts::of(view, job, kind, extra);
        let value = Python::attach(|py| -> PyResult<f64> {
            let value: f64 = self.function.call1(py, (facts,))?.extract(py)?;
            if value.is_nan() {
                return Err(PyValueError::new_err(format!(
                    "order {}: NaN for job {} ({}); return a number, and float(\"inf\") for the last",
                    self.name,
                    job.id().0,
                    job.name()
                )));
            }
            Ok(value)
        });
        value.unwrap_or_else(|error| {
            self.error.set(error);
            0.0
        })
    }
}
