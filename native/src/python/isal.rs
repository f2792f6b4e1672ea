//! isal's compressor. At its fastest level it makes gzip in at most two thirds of libdeflate's
//! time. The library cannot be built without an assembler, so its Python package is called if it is
//! installed.

#![allow(unsafe_code)]

use std::thread;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;

use crate::{CompressionLvl, FAST_GZIP};

static COMPRESS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
const LEVEL: i32 = 1;
/// libdeflate compresses smaller data, and is usually faster there. isal's output for less than 4
/// KiB differed between threads. (For so little data it clears only a part of its hash table, which
/// may be the cause.)
const SIZE_MIN: usize = 8 * 1024;
/// With the largest window, framed as gzip.
const WINDOW_BITS: i32 = 31;

/// Uses isal, if it is installed.
pub fn find(py: Python<'_>) {
    let found = py.import("isal.isal_zlib").and_then(|isal| isal.getattr("compress"));
    if found.is_ok_and(|found| COMPRESS.set(py, found.unbind()).is_ok()) {
        let _ = FAST_GZIP.set(compress);
    }
}

/// Appends a gzip member made by isal, or by libdeflate if the data is small. Takes the
/// interpreter's lock, which the caller must not hold.
fn compress(data: &[u8], target: &mut Vec<u8>) -> Option<()> {
    if data.len() < SIZE_MIN {
        return crate::gzip_compress(data, CompressionLvl::fastest(), target);
    }
    Python::attach(|py| {
        let isal = COMPRESS.get(py)?;
        let arguments = (PyBytes::new(py, data), LEVEL, WINDOW_BITS).into_pyobject(py).ok()?;
        let member = call(isal.bind(py), arguments.as_any()).ok()?;
        let member = member.cast::<PyBytes>().ok()?.as_bytes();
        target.try_reserve(member.len()).ok()?;
        target.extend_from_slice(member);
        Some(())
    })
}

/// Calls a Python function whose C code releases the interpreter's lock and takes it again.
///
/// If the interpreter ends in between, Python before 3.14 ends the thread by unwinding its stack.
/// The unwinding would reach Rust frames, one of which catches panics, and abort the process. So it
/// ends here, and the thread sleeps until the process is over, as threads do since 3.14 and in
/// PyO3's own calls.
fn call<'py>(
    function: &Bound<'py, PyAny>,
    arguments: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    unsafe extern "C-unwind" {
        // As in pyo3::ffi, which declares it as not unwinding.
        fn PyObject_CallObject(
            function: *mut ffi::PyObject,
            arguments: *mut ffi::PyObject,
        ) -> *mut ffi::PyObject;
    }
    let stop = StandStill;
    // SAFETY: `Bound` guarantees that both objects are alive and the interpreter's lock is held.
    // The result is a new reference, or null with an error set.
    let made = unsafe {
        let made = PyObject_CallObject(function.as_ptr(), arguments.as_ptr());
        Bound::from_owned_ptr_or_err(function.py(), made)
    };
    std::mem::forget(stop);
    made
}

struct StandStill;

impl Drop for StandStill {
    fn drop(&mut self) {
        loop {
            thread::park();
        }
    }
}
