//! The class `Record`. Its headers become Python objects at the first access.
//!
//! Not here: making records of rows (`records`).

use pyo3::basic::CompareOp;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyString, PyTuple};

use crate::cursor::Cursor;
use crate::item::{CREATE_TIME, LOG_APPEND_TIME, TIMESTAMP_TYPE_NONE};
use crate::record::header;

/// A record's headers.
pub enum Headers {
    /// No headers.
    None,
    /// This many headers, as encoded in a v2 record.
    Encoded(Py<PyBytes>, i32),
    /// The object that Python code passed to the constructor.
    Made(Py<PyAny>),
}

/// One record: `records.record.Record` under this kernel.
///
/// Frequently used fields are Python objects from the beginning, at fixed places that the
/// interpreter reads without a call. This costs less than making them at each access.
#[pyclass(frozen, freelist = 1024, module = "records.record")]
pub struct Record {
    #[pyo3(get)]
    pub offset: Py<PyAny>,
    #[pyo3(get)]
    pub timestamp: Py<PyAny>,
    #[pyo3(get)]
    pub key: Py<PyAny>,
    #[pyo3(get)]
    pub value: Py<PyAny>,
    #[pyo3(get)]
    pub sequence: i64,
    pub headers: Headers,
    pub timestamp_type: i8,
}

#[pymethods]
impl Record {
    #[new]
    #[pyo3(signature = (offset, timestamp, timestamp_type=0, key=None, value=None, headers=None,
        sequence=-1))]
    #[allow(clippy::too_many_arguments)] // one for each field
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
        Ok(Self {
            offset: number(py, offset),
            timestamp: number(py, timestamp),
            key: key.unwrap_or_else(|| py.None()),
            value: value.unwrap_or_else(|| py.None()),
            sequence,
            headers: headers.map_or(Headers::None, Headers::Made),
            timestamp_type: timestamp_type_of(timestamp_type)?,
        })
    }

    #[getter]
    fn timestamp_type<'py>(&self, py: Python<'py>) -> PyResult<&'py Bound<'py, PyAny>> {
        Ok(timestamp_type(py, self.timestamp_type)?.0.bind(py))
    }

    #[getter]
    fn headers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.headers {
            Headers::None => Ok(PyTuple::empty(py).into_any()),
            Headers::Encoded(bytes, count) => {
                Ok(headers(py, bytes.as_bytes(py), *count)?.into_any())
            }
            Headers::Made(made) => Ok(made.bind(py).clone()),
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
            self.offset.bind(py),
            self.timestamp.bind(py),
            timestamp_type(py, self.timestamp_type)?.1,
            self.key.bind(py).repr()?,
            self.value.bind(py).repr()?,
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
            self.offset.bind(py),
            self.timestamp.bind(py),
            self.timestamp_type(py)?,
            self.key.bind(py),
            self.value.bind(py),
            self.headers(py)?,
            self.sequence,
        )
            .into_pyobject(py)
    }
}

/// A Python integer.
#[inline]
pub fn number(py: Python<'_>, number: i64) -> Py<PyAny> {
    let Ok(number) = number.into_pyobject(py);
    number.into_any().unbind()
}

/// Headers as tuples of a text and bytes or None. Invalid UTF-8 in keys becomes surrogates.
pub fn headers<'py>(py: Python<'py>, bytes: &[u8], count: i32) -> PyResult<Bound<'py, PyTuple>> {
    if count <= 0 {
        return Ok(PyTuple::empty(py));
    }
    let mut found = Vec::new(); // not sized by a count
    let mut headers = Cursor::new(bytes);
    for _ in 0..count {
        let (key, value) =
            header(&mut headers).map_err(|reason| PyValueError::new_err(reason.text()))?;
        let key = match str::from_utf8(key) {
            Ok(key) => PyString::new(py, key).into_any(),
            Err(_) => PyBytes::new(py, key).call_method1("decode", ("utf-8", "surrogateescape"))?,
        };
        let value = value.map(|value| PyBytes::new(py, value));
        found.push((key, value).into_pyobject(py)?);
    }
    PyTuple::new(py, found)
}

/// A row's timestamp type. ValueError if it is unknown.
pub fn timestamp_type_of(number: i64) -> PyResult<i8> {
    let kinds = [TIMESTAMP_TYPE_NONE, CREATE_TIME, LOG_APPEND_TIME];
    let found = kinds.into_iter().find(|kind| i64::from(*kind) == number);
    found.ok_or_else(|| PyValueError::new_err(format!("{number} is not a valid TimestampType")))
}

/// A member of `records.formats.TimestampType`, and its printed form. (An enumeration would print
/// itself by running Python code.)
type TimestampType = (Py<PyAny>, String);

/// All members, from NONE (-1) upwards.
static TIMESTAMP_TYPES: PyOnceLock<[TimestampType; 3]> = PyOnceLock::new();

pub fn find_timestamp_types(py: Python<'_>) -> PyResult<&[TimestampType; 3]> {
    TIMESTAMP_TYPES.get_or_try_init(py, || {
        let class = py.import("records.formats")?.getattr("TimestampType")?;
        let member = |kind: i8| {
            let member = class.call1((kind,))?;
            let printed = member.repr()?.extract()?;
            Ok::<_, PyErr>((member.unbind(), printed))
        };
        Ok([member(TIMESTAMP_TYPE_NONE)?, member(CREATE_TIME)?, member(LOG_APPEND_TIME)?])
    })
}

fn timestamp_type(py: Python<'_>, kind: i8) -> PyResult<&TimestampType> {
    let member = find_timestamp_types(py)?.get((kind - TIMESTAMP_TYPE_NONE) as usize);
    member.ok_or_else(|| PyValueError::new_err("no such timestamp type"))
}
