//! Rows to Arrow's columns (`records/kernel.py`, Gather and GatherHeaders).

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use super::arguments::{Index, guarded, part};
use super::buffers::Buffer;
use crate::gather::{self, Column, Targets};

/// The column of keys, or of values: bytes written, and the number of nulls.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // the contract's
pub fn gather_column(
    py: Python<'_>,
    rows: &Bound<'_, PyAny>,
    rows_start: Index,
    rows_end: Index,
    source: &Bound<'_, PyAny>,
    values: bool,
    ends: &Bound<'_, PyAny>,
    validity: &Bound<'_, PyAny>,
    data: &Bound<'_, PyAny>,
) -> PyResult<(usize, usize)> {
    let (mut rows_buffer, mut source_buffer) = (Buffer::new(), Buffer::new());
    let (mut ends_buffer, mut validity_buffer) = (Buffer::new(), Buffer::new());
    let mut data_buffer = Buffer::new();
    let rows = part(rows_buffer.read(rows)?, rows_start, rows_end)?;
    let source = source_buffer.read(source)?;
    let ends = ends_buffer.write(ends, &[rows, source])?;
    let validity = validity_buffer.write(validity, &[rows, source, ends])?;
    let data = data_buffer.write(data, &[rows, source, ends, validity])?;
    let column = if values { Column::Value } else { Column::Key };
    let targets = Targets { ends, validity, data };
    let gathered = guarded(py, || gather::gather_column(rows, source, column, targets))?;
    gathered.map_err(PyValueError::new_err)
}

/// Where rows end among the headers; where keys end, and keys; where values end, values, and which
/// of them there are.
#[pyfunction]
pub fn gather_headers<'py>(
    py: Python<'py>,
    rows: &Bound<'_, PyAny>,
    rows_start: Index,
    rows_end: Index,
    source: &Bound<'_, PyAny>,
) -> PyResult<Bound<'py, PyTuple>> {
    let (mut rows_buffer, mut source_buffer) = (Buffer::new(), Buffer::new());
    let rows = part(rows_buffer.read(rows)?, rows_start, rows_end)?;
    let source = source_buffer.read(source)?;
    let found = guarded(py, || gather::gather_headers(rows, source))?;
    let found = found.map_err(PyValueError::new_err)?;
    let columns = [
        &found.ends,
        &found.key_ends,
        &found.keys,
        &found.value_ends,
        &found.values,
        &found.validity,
    ];
    PyTuple::new(py, columns.map(|column| PyBytes::new(py, column)))
}
