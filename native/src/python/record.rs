//! The class `Record`. Its key, value and headers become objects when they are looked at.
//!
//! Not here: making records of rows (`records`).

use pyo3::basic::CompareOp;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyString, PyTuple};

use crate::cursor::Cursor;
use crate::gather::next_header;
use crate::item::{CREATE_TIME, LOG_APPEND_TIME, TIMESTAMP_TYPE_NONE};

/// A key or value by its size, or headers.
#[derive(Clone, Copy)]
pub struct Place {
    pub at: u32,
    /// Negative is null.
    pub size: i32,
}

/// Fields that have not been made: where they lie in bytes that neighbours share.
pub struct Shared {
    pub bytes: Py<PyBytes>,
    pub key: Place,
    pub value: Place,
    pub headers: Place,
    pub headers_count: i32,
}

/// Fields that are objects: those of a large record, and of one that Python made.
pub struct Made {
    pub key: Py<PyAny>,
    pub value: Py<PyAny>,
    pub headers: Py<PyAny>,
}

pub enum Fields {
    Shared(Shared),
    Made(Box<Made>),
}

/// One record: `records.record.Record` where this kernel runs.
#[pyclass(frozen, freelist = 1024, module = "records.record")]
pub struct Record {
    #[pyo3(get)]
    pub offset: i64,
    #[pyo3(get)]
    pub timestamp: i64,
    #[pyo3(get)]
    pub sequence: i64,
    pub timestamp_type: i8,
    pub fields: Fields,
}

#[pymethods]
impl Record {
    #[new]
    #[pyo3(signature = (offset, timestamp, timestamp_type=0, key=None, value=None, headers=None,
        sequence=-1))]
    #[allow(clippy::too_many_arguments)] // its fields
    fn new(
        py: Python<'_>,
        offset: i64,
        timestamp: i64,
        timestamp_type: i64,
        key: Option<Py<PyAny>>,
        value: Option<Py<PyAny>>,
        headers: Option<Py<PyAny>>,
        sequence: i64,
    ) -> PyResult<Self> {
        let made = Made {
            key: key.unwrap_or_else(|| py.None()),
            value: value.unwrap_or_else(|| py.None()),
            headers: headers.unwrap_or_else(|| PyTuple::empty(py).into_any().unbind()),
        };
        let timestamp_type = timestamp_type_of(timestamp_type)?;
        let fields = Fields::Made(Box::new(made));
        Ok(Self { offset, timestamp, sequence, timestamp_type, fields })
    }

    #[getter]
    fn timestamp_type<'py>(&self, py: Python<'py>) -> PyResult<&'py Bound<'py, PyAny>> {
        timestamp_type(py, self.timestamp_type)
    }

    #[getter]
    fn key<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.fields {
            Fields::Shared(shared) => shared.field(py, shared.key),
            Fields::Made(made) => Ok(made.key.bind(py).clone()),
        }
    }

    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.fields {
            Fields::Shared(shared) => shared.field(py, shared.value),
            Fields::Made(made) => Ok(made.value.bind(py).clone()),
        }
    }

    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.fields {
            Fields::Shared(shared) => {
                Ok(headers(py, shared.part(py, shared.headers)?, shared.headers_count)?.into_any())
            }
            Fields::Made(made) => Ok(made.headers.bind(py).clone()),
        }
    }

    fn __richcmp__<'py>(
        &self,
        py: Python<'py>,
        other: &Bound<'py, PyAny>,
        op: CompareOp,
    ) -> PyResult<Py<PyAny>> {
        let (Ok(other), CompareOp::Eq | CompareOp::Ne) = (other.cast::<Self>(), op) else {
            return Ok(py.NotImplemented());
        };
        let equal = self.all(py)?.rich_compare(other.get().all(py)?, op)?;
        Ok(equal.unbind())
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        self.all(py)?.hash()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!(
            "Record(offset={}, timestamp={}, timestamp_type={}, key={}, value={}, headers={}, \
             sequence={})",
            self.offset,
            self.timestamp,
            self.timestamp_type(py)?.repr()?,
            self.key(py)?.repr()?,
            self.value(py)?.repr()?,
            self.headers(py)?.repr()?,
            self.sequence,
        ))
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        Ok((slf.get_type().into_any(), slf.get().all(slf.py())?))
    }
}

impl Record {
    /// Its fields, in the order of the constructor.
    fn all<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        (
            self.offset,
            self.timestamp,
            self.timestamp_type(py)?,
            self.key(py)?,
            self.value(py)?,
            self.headers(py)?,
            self.sequence,
        )
            .into_pyobject(py)
    }
}

impl Shared {
    #[inline]
    fn part<'a>(&'a self, py: Python<'a>, place: Place) -> PyResult<&'a [u8]> {
        let rest = self.bytes.as_bytes(py).get(place.at as usize..);
        let part = rest.and_then(|rest| rest.get(..place.size.max(0) as usize));
        part.ok_or_else(|| PyValueError::new_err("a position is outside of the record"))
    }

    #[inline]
    fn field<'py>(&self, py: Python<'py>, place: Place) -> PyResult<Bound<'py, PyAny>> {
        if place.size < 0 {
            return Ok(py.None().into_bound(py));
        }
        Ok(PyBytes::new(py, self.part(py, place)?).into_any())
    }
}

/// Headers as tuples of a text and bytes or None. Bytes of keys that are no UTF-8 become
/// surrogates.
pub fn headers<'py>(py: Python<'py>, bytes: &[u8], count: i32) -> PyResult<Bound<'py, PyTuple>> {
    if count <= 0 {
        return Ok(PyTuple::empty(py));
    }
    let mut found = Vec::new(); // not sized by a count
    let mut headers = Cursor::new(bytes);
    for _ in 0..count {
        let (key, value) = next_header(&mut headers).map_err(PyValueError::new_err)?;
        let key = match str::from_utf8(key) {
            Ok(key) => PyString::new(py, key).into_any(),
            Err(_) => PyBytes::new(py, key).call_method1("decode", ("utf-8", "surrogateescape"))?,
        };
        let value = value.map(|value| PyBytes::new(py, value));
        found.push((key, value).into_pyobject(py)?);
    }
    PyTuple::new(py, found)
}

/// A row's timestamp type. ValueError if it is none.
pub fn timestamp_type_of(number: i64) -> PyResult<i8> {
    let kinds = [TIMESTAMP_TYPE_NONE, CREATE_TIME, LOG_APPEND_TIME];
    let found = kinds.into_iter().find(|kind| i64::from(*kind) == number);
    found.ok_or_else(|| PyValueError::new_err(format!("{number} is not a valid TimestampType")))
}

/// The members of `records.formats.TimestampType`, from NONE, which is -1, upwards.
static TIMESTAMP_TYPES: PyOnceLock<[Py<PyAny>; 3]> = PyOnceLock::new();

fn timestamp_type<'py>(py: Python<'py>, kind: i8) -> PyResult<&'py Bound<'py, PyAny>> {
    let members = TIMESTAMP_TYPES.get_or_try_init(py, || {
        let class = py.import("records.formats")?.getattr("TimestampType")?;
        let member = |kind: i8| class.call1((kind,)).map(Bound::unbind);
        Ok::<_, PyErr>([
            member(TIMESTAMP_TYPE_NONE)?,
            member(CREATE_TIME)?,
            member(LOG_APPEND_TIME)?,
        ])
    })?;
    let member = members.get((kind - TIMESTAMP_TYPE_NONE) as usize);
    let member = member.ok_or_else(|| PyValueError::new_err("no such timestamp type"))?;
    Ok(member.bind(py))
}
