//! Keys and values to a batch (`records/kernel_functions.py`, KeyedBatch).

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyTuple};

use super::records::batch_header;
use crate::keyed::{KeyedBatch, Producer};

type Field<'py> = Option<Bound<'py, PyBytes>>;

/// The batch, and the fields of its header.
#[pyfunction]
pub fn keyed_batch<'py>(
    pairs: &Bound<'py, PyAny>,
    time: i64,
    producer: Option<Producer>,
) -> PyResult<(Bound<'py, PyByteArray>, Bound<'py, PyTuple>)> {
    let mut batch = KeyedBatch::default();
    for pair in pairs.try_iter()? {
        let (key, value): (Field<'_>, Field<'_>) = pair?.extract()?;
        let key = key.as_ref().map(PyBytesMethods::as_bytes);
        let value = value.as_ref().map(PyBytesMethods::as_bytes);
        batch.add(key, value).ok_or_else(|| PyValueError::new_err("the batch is too large"))?;
    }
    let made = batch.finish(time, producer);
    let made = made.ok_or_else(|| PyValueError::new_err("no records, or no memory for them"))?;
    let fields = made.first_chunk().map(batch_header).unwrap_or_default();
    Ok((PyByteArray::new(pairs.py(), &made), PyTuple::new(pairs.py(), fields)?))
}
