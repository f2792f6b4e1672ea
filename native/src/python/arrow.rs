//! The class `ArrowColumns` (`records/kernel_functions.py`).

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::arguments::{Index, RowsAndSource, guarded, part};
use super::buffers::{Buffer, Memory, Numbers};
use crate::arrow::{self, BinaryColumn, Bounds, Fields, ListColumn};
use crate::layout::ROW_SIZE;
use crate::read::{self, Wanted};
use crate::workspace::trim;

/// Arrow columns, filled from entries of a log or from rows.
#[pyclass(module = "records._kernel")]
pub struct ArrowColumns {
    columns: arrow::ArrowColumns,
    body: Vec<u8>,
}

#[pymethods]
#[allow(clippy::too_many_arguments)] // the contract has them
impl ArrowColumns {
    #[new]
    fn new(
        rows_max: Index,
        bytes_max: Index,
        keys: bool,
        values: bool,
        headers: bool,
        offsets: (i64, i64),
        timestamps: (i64, i64),
    ) -> PyResult<Self> {
        let wanted = Fields { keys, values, headers };
        let bounds = Bounds {
            first_offset: offsets.0,
            last_offset: offsets.1,
            first_timestamp: timestamps.0,
            last_timestamp: timestamps.1,
        };
        let columns = arrow::ArrowColumns::new(rows_max.0, bytes_max.0, wanted, bounds);
        let columns = columns.ok_or_else(|| PyValueError::new_err("no such size of columns"))?;
        Ok(Self { columns, body: Vec::new() })
    }

    fn __len__(&self) -> usize {
        self.columns.rows()
    }

    fn add_entries(
        &mut self,
        py: Python<'_>,
        source: &Bound<'_, PyAny>,
        start: Index,
        end: Index,
        verify: bool,
        transactional: bool,
        size_max: Index,
    ) -> PyResult<(usize, bool)> {
        let mut buffer = Buffer::default();
        let window = part(buffer.read(source)?, start, end)?;
        let wanted = Wanted { verify, control: false, transactional, body_size_max: size_max.0 };
        let Self { columns, body } = self;
        let reached = guarded(py, || read::gather(window, &wanted, body, columns))?;
        trim(body);
        Ok(reached)
    }

    fn add_rows(
        &mut self,
        py: Python<'_>,
        rows: &Bound<'_, PyAny>,
        start: Index,
        end: Index,
        source: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        let mut buffers = RowsAndSource::default();
        let (rows, source) = buffers.read(rows, (start, end), source)?;
        let columns = &mut self.columns;
        let added = guarded(py, || columns.add_rows(rows, source))?;
        Ok(added.map_err(PyValueError::new_err)? * ROW_SIZE)
    }

    fn take<'py>(&mut self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let taken = self.columns.take();
        let rows = taken.offsets.len();
        (
            rows,
            Memory::new(Numbers::Int64(taken.offsets)),
            Memory::new(Numbers::Int64(taken.timestamps)),
            Memory::new(Numbers::Int32(taken.timestamp_types)),
            taken.keys.map(|keys| binary(py, keys)).transpose()?,
            taken.values.map(|values| binary(py, values)).transpose()?,
            taken.headers.map(|headers| lists(py, headers)).transpose()?,
        )
            .into_pyobject(py)
    }
}

/// Nulls, validity, ends, data.
fn binary<'py>(py: Python<'py>, column: BinaryColumn) -> PyResult<Bound<'py, PyTuple>> {
    (
        column.nulls,
        column.validity.map(|bits| Memory::new(Numbers::Bytes(bits))),
        Memory::new(Numbers::Int32(column.ends)),
        Memory::new(Numbers::Bytes(column.data)),
    )
        .into_pyobject(py)
}

/// Rows with headers, validity, ends, keys, values.
fn lists<'py>(py: Python<'py>, column: ListColumn) -> PyResult<Bound<'py, PyTuple>> {
    (
        column.present,
        column.validity.map(|bits| Memory::new(Numbers::Bytes(bits))),
        Memory::new(Numbers::Int32(column.ends)),
        binary(py, column.keys)?,
        binary(py, column.values)?,
    )
        .into_pyobject(py)
}
