//! The Python module `records._kernel`: `records/kernel.py` and `records/kernel_functions.py`.
//!
//! This module checks arguments, borrows buffers without a copy and releases the interpreter's lock
//! around each call. A panic is a defect and becomes a RuntimeError.

mod arguments;
mod arrow;
mod buffers;
mod codecs;
mod descriptors;
mod isal;
mod keyed;
mod record;
mod records;
mod transcoder;

use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use arguments::{Index, RowsAndSource, guarded};
use buffers::Buffer;

use crate::CompressionLvl;

type Progress = (u64, u64, u8);

/// Rows to records of a v2 batch, or to v0 or v1 messages.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // the contract has them
fn encode(
    py: Python<'_>,
    rows: &Bound<'_, PyAny>,
    rows_start: Index,
    rows_end: Index,
    source: &Bound<'_, PyAny>,
    magic: i64,
    base_offset: i64,
    base_timestamp: i64,
    target: &Bound<'_, PyAny>,
    at: Index,
    limit: Index,
) -> PyResult<Progress> {
    let (mut buffers, mut target_buffer) = (RowsAndSource::default(), Buffer::default());
    let (rows, source) = buffers.read(rows, (rows_start, rows_end), source)?;
    let rows = rows.as_flattened();
    let target = target_buffer.write(target, &[rows, source])?;
    let target = arguments::part_mut(target, at, limit)?;
    let magic = u8::try_from(magic).unwrap_or(u8::MAX);
    let progress =
        guarded(py, || crate::encode(rows, source, magic, base_offset, base_timestamp, target))?;
    progress.map(arguments::progress).map_err(PyValueError::new_err)
}

/// CRC-32 (IEEE), continued from `value`.
#[pyfunction]
#[pyo3(signature = (source, start, end, value=0))]
fn crc32(
    py: Python<'_>,
    source: &Bound<'_, PyAny>,
    start: Index,
    end: Index,
    value: u32,
) -> PyResult<u32> {
    let mut buffer = Buffer::default();
    let bytes = arguments::part(buffer.read(source)?, start, end)?;
    guarded(py, || crate::crc32(value, bytes))
}

/// Times of the last change, sizes and inodes of files, in the order of `paths`.
#[pyfunction]
fn file_stamps<'py>(
    py: Python<'py>,
    paths: Vec<Bound<'py, PyBytes>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let names: Vec<&[u8]> = paths.iter().map(PyBytesMethods::as_bytes).collect();
    let stamps = guarded(py, || crate::file_stamps(&names))?;
    let numbers = stamps.as_flattened();
    PyBytes::new_with(py, size_of_val(numbers), |bytes| {
        for (place, number) in bytes.chunks_exact_mut(size_of::<i64>()).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        Ok(())
    })
}

/// One gzip member, without a name or a time. ValueError if there is no such level.
#[pyfunction]
fn gzip_compress<'py>(
    py: Python<'py>,
    source: &Bound<'_, PyAny>,
    start: Index,
    end: Index,
    level: i32,
) -> PyResult<Bound<'py, PyBytes>> {
    let mut buffer = Buffer::default();
    let bytes = arguments::part(buffer.read(source)?, start, end)?;
    let level = CompressionLvl::new(level)
        .map_err(|_| PyValueError::new_err("no such level of compression"))?;
    let mut member = Vec::new();
    let made = guarded(py, || crate::gzip_compress(bytes, level, &mut member))?;
    made.ok_or_else(|| PyMemoryError::new_err("no memory for a gzip member"))?;
    Ok(PyBytes::new(py, &member))
}

/// The compiled kernel. records/kernel.py and records/kernel_functions.py are its contract.
#[pymodule]
fn _kernel(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // Imported now, and not in a thread that may still run when the interpreter ends
    // (`isal::call`).
    isal::find(module.py());
    record::find_timestamp_types(module.py())?;
    module.add_class::<transcoder::Transcoder>()?;
    module.add_class::<record::Record>()?;
    module.add_class::<arrow::ArrowColumns>()?;
    module.add_function(wrap_pyfunction!(records::read_entries, module)?)?;
    module.add_function(wrap_pyfunction!(records::make_records, module)?)?;
    module.add_function(wrap_pyfunction!(records::make_inner_records, module)?)?;
    module.add_function(wrap_pyfunction!(records::summarize_batch, module)?)?;
    module.add_function(wrap_pyfunction!(keyed::keyed_batch, module)?)?;
    module.add_function(wrap_pyfunction!(encode, module)?)?;
    module.add_function(wrap_pyfunction!(crc32, module)?)?;
    module.add_function(wrap_pyfunction!(file_stamps, module)?)?;
    module.add_function(wrap_pyfunction!(gzip_compress, module)?)?;
    module.add_function(wrap_pyfunction!(codecs::decompress, module)?)
}
