//! Tables by Arrow's C interface, which pandas, Polars and pyarrow read without copies.

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, Float64Array, RecordBatch, RecordBatchIterator, StringArray, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use giveway_sim::rows::{self, Values};
use pyo3::exceptions::{PyKeyError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyList};
use std::sync::Arc;

/// A table whose columns have names and one type each.
#[pyclass(frozen, module = "giveway._giveway")]
pub struct Table {
    rows: rows::Table,
}

impl Table {
    pub fn new(rows: rows::Table) -> Table {
        Table { rows }
    }

    /// One batch of all rows. A number that is missing is null.
    fn batch(&self) -> Result<RecordBatch, ArrowError> {
        let array = |values: &Values| -> (DataType, ArrayRef) {
            match values {
                Values::Text(values) => (DataType::Utf8, Arc::new(StringArray::from_iter_values(values))),
                Values::Integer(values) => {
                    (DataType::UInt64, Arc::new(UInt64Array::from_iter_values(values.iter().copied())))
                }
                Values::Real(values) => {
                    let present = |value: &f64| Some(*value).filter(|value| !value.is_nan());
                    (DataType::Float64, Arc::new(values.iter().map(present).collect::<Float64Array>()))
                }
            }
        };
        let (types, arrays): (Vec<DataType>, Vec<ArrayRef>) =
            self.rows.columns.iter().map(|column| array(&column.values)).unzip();
        let fields = self.rows.columns.iter().zip(types).map(|(column, of_type)| {
            let nullable = of_type == DataType::Float64;
            Field::new(column.name, of_type, nullable)
        });
        RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), arrays)
    }
}

#[pymethods]
impl Table {
    /// The names of the columns, from left to right.
    #[getter]
    fn columns(&self) -> Vec<&'static str> {
        self.rows.columns.iter().map(|column| column.name).collect()
    }

    fn __len__(&self) -> usize {
        self.rows.rows()
    }

    /// The values of a column as a list; NaN where a number is missing.
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        match self.rows.column(name) {
            None => Err(PyKeyError::new_err(format!("no column {name}; columns: {}", self.columns().join(", ")))),
            Some(Values::Text(values)) => PyList::new(py, values.iter().map(|word| &**word)),
            Some(Values::Integer(values)) => PyList::new(py, values),
            Some(Values::Real(values)) => PyList::new(py, values),
        }
    }

    /// Arrow's C interface for streams.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A consumer may ask for another schema, and has to take what it gets.
        drop(requested_schema);
        let batch = py.detach(|| self.batch()).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        let schema = batch.schema();
        let stream = FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new([Ok(batch)], schema)));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}
