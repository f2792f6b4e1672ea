//! Python's buffers as slices, without a copy.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::ops::Range;
use std::slice;

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;

/// A borrowed Python buffer, released when this is dropped. It cannot move while a slice of its
/// bytes exists, because the slice borrows it.
pub struct Buffer {
    view: MaybeUninit<ffi::Py_buffer>,
    is_borrowed: bool,
}

impl Default for Buffer {
    #[inline]
    fn default() -> Self {
        Self { view: MaybeUninit::uninit(), is_borrowed: false }
    }
}

impl Buffer {
    /// All bytes of a buffer. A Python error if the object is no buffer or not contiguous.
    #[inline]
    pub fn read(&mut self, object: &Bound<'_, PyAny>) -> PyResult<&[u8]> {
        let (start, size) = self.borrow(object, ffi::PyBUF_SIMPLE)?;
        // SAFETY: the exporter keeps `size` bytes at `start` in place until `drop` releases the
        // view, and the slice cannot outlive `self`. Callers do not change a buffer during a call
        // (records/kernel.py): a write by another thread is undefined behaviour. To contain it,
        // each access is checked, and C libraries decompress a copy (`workspace::with_copy`).
        Ok(unsafe { slice::from_raw_parts(start, size) })
    }

    /// All bytes of a buffer, for writing. ValueError if it overlaps a buffer read in the same
    /// call.
    #[inline]
    pub fn write(&mut self, object: &Bound<'_, PyAny>, read: &[&[u8]]) -> PyResult<&mut [u8]> {
        let (start, size) = self.borrow(object, ffi::PyBUF_WRITABLE)?;
        let written = start.addr()..start.addr() + size;
        for bytes in read {
            let Range { start, end } = bytes.as_ptr_range();
            if start.addr() < written.end && written.start < end.addr() {
                return Err(PyValueError::new_err("source and target overlap"));
            }
        }
        // SAFETY: as in `read`. The exporter allows writing, and no slice of this call overlaps it.
        Ok(unsafe { slice::from_raw_parts_mut(start, size) })
    }

    #[inline]
    fn borrow(&mut self, object: &Bound<'_, PyAny>, flags: i32) -> PyResult<(*mut u8, usize)> {
        if self.is_borrowed {
            return Err(PyValueError::new_err("a buffer is borrowed twice"));
        }
        // SAFETY: `Bound` guarantees that `object` is alive and the interpreter is held. `view` is
        // room for a Py_buffer.
        let failed =
            unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), self.view.as_mut_ptr(), flags) };
        if failed != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        self.is_borrowed = true;
        // SAFETY: PyObject_GetBuffer has filled it.
        let view = unsafe { self.view.assume_init_ref() };
        if view.len == 0 || view.buf.is_null() {
            return Ok((std::ptr::dangling_mut(), 0)); // an empty buffer may be anywhere
        }
        Ok((view.buf.cast(), view.len as usize))
    }
}

impl Drop for Buffer {
    #[inline]
    fn drop(&mut self) {
        if self.is_borrowed {
            // SAFETY: PyObject_GetBuffer filled the view, and it is released once. A Buffer lives
            // on the stack of a call from Python, which holds the interpreter's lock when it ends.
            unsafe { ffi::PyBuffer_Release(self.view.as_mut_ptr()) }
        }
    }
}

/// Memory of the kernel that Python reads as a buffer, for as long as it wants.
#[pyclass(frozen, module = "records._kernel")]
pub struct Memory(Numbers);

/// The bytes in it.
pub enum Numbers {
    Bytes(Vec<u8>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
}

impl Memory {
    pub fn new(numbers: Numbers) -> Self {
        Self(numbers)
    }

    fn start_and_size(&self) -> (*const u8, usize) {
        match &self.0 {
            Numbers::Bytes(bytes) => (bytes.as_ptr(), bytes.len()),
            Numbers::Int32(numbers) => (numbers.as_ptr().cast(), size_of_val(numbers.as_slice())),
            Numbers::Int64(numbers) => (numbers.as_ptr().cast(), size_of_val(numbers.as_slice())),
        }
    }
}

#[pymethods]
impl Memory {
    /// Only the interpreter calls this.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: std::ffi::c_int,
    ) -> PyResult<()> {
        let (start, size) = slf.get().start_and_size();
        // SAFETY: the interpreter passes `view` to be filled. The memory is never written again and
        // never moves, because the class is frozen. The view keeps the object alive. A vector has
        // no more than isize::MAX bytes.
        let failed = unsafe {
            let start = start.cast_mut().cast();
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, size as isize, 1, flags)
        };
        if failed != 0 { Err(PyErr::fetch(slf.py())) } else { Ok(()) }
    }
}
