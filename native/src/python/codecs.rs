//! Decompression of data in memory, and isal's compressor, which is called through Python.

use std::cell::RefCell;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;

use super::arguments::{Index, guarded, part};
use super::buffers::Buffer;
use crate::{Codec, Workspace};

thread_local! {
    static WORKSPACE: RefCell<Workspace> = RefCell::default();
}

/// Works with this thread's buffers.
pub fn with_workspace<T>(work: impl FnOnce(&mut Workspace) -> T) -> T {
    WORKSPACE.with_borrow_mut(|workspace| {
        let done = work(workspace);
        workspace.trim();
        done
    })
}

/// What `data` of that codec and message format decompresses to, if that is no more than `limit`;
/// or None.
#[pyfunction]
pub fn decompress<'py>(
    py: Python<'py>,
    codec: u8,
    source: &Bound<'_, PyAny>,
    start: Index,
    end: Index,
    magic: u8,
    limit: Index,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let mut buffer = Buffer::default();
    let data = part(buffer.read(source)?, start, end)?;
    let Some(codec) = Codec::of(codec) else {
        return Ok(None);
    };
    with_workspace(|workspace| {
        let body = guarded(py, || workspace.decompress(codec, magic, data, limit.0))?;
        Ok(body.map(|body| PyBytes::new(py, body)))
    })
}

/// isal's `compress`, which makes gzip at its fastest level in two thirds of libdeflate's time. The
/// library cannot be built without an assembler, so Python's package of it is used where it is
/// there.
static ISAL: PyOnceLock<Option<Py<PyAny>>> = PyOnceLock::new();
const ISAL_LEVEL: i32 = 1;
/// With the largest window, framed as gzip.
const ISAL_WINDOW_BITS: i32 = 31;

pub fn isal(py: Python<'_>) -> Option<&'static Py<PyAny>> {
    let find = || py.import("isal.isal_zlib")?.getattr("compress").map(Bound::unbind);
    ISAL.get_or_init(py, || find().ok()).as_ref()
}

/// Appends a gzip member that isal makes. The caller does not hold the interpreter's lock; this
/// takes it.
pub fn compress_by(isal: &Py<PyAny>, data: &[u8], target: &mut Vec<u8>) -> Option<()> {
    Python::attach(|py| {
        let arguments = (PyBytes::new(py, data), ISAL_LEVEL, ISAL_WINDOW_BITS);
        let member = isal.call1(py, arguments).ok()?;
        let member = member.cast_bound::<PyBytes>(py).ok()?.as_bytes();
        target.try_reserve(member.len()).ok()?;
        target.extend_from_slice(member);
        Some(())
    })
}
