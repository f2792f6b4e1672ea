//! Decompression of data in memory, and the thread's buffers.

use std::cell::RefCell;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::arguments::{Index, guarded, part};
use super::buffers::Buffer;
use crate::{Codec, Workspace};

thread_local! {
    static WORKSPACE: RefCell<Workspace> = RefCell::default();
}

/// Calls `work` with this thread's buffers.
pub fn with_workspace<T>(work: impl FnOnce(&mut Workspace) -> T) -> T {
    WORKSPACE.with_borrow_mut(|workspace| {
        let done = work(workspace);
        workspace.trim();
        done
    })
}

/// Decompresses `data` of that codec and message format. None if the output is more than `limit`
/// bytes.
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
