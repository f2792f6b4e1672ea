//! Descriptors of Python objects: a file to read from, a channel to write to. Python opens and
//! closes them.

#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::FileExt;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::{Channel, ReadAt};

/// A file, read by position.
pub struct Readable(ManuallyDrop<File>);

impl Readable {
    /// ValueError if the number cannot be a descriptor.
    pub fn borrow(descriptor: i32) -> PyResult<Self> {
        check(descriptor)?;
        // SAFETY: the descriptor is not -1, and `ManuallyDrop` leaves closing it to its owner, who
        // keeps it open during the call (records/kernel.py). If the owner closes it all the same,
        // reads fail or read another file's bytes, as os.preadv would. Any bytes are accepted.
        Ok(Self(ManuallyDrop::new(unsafe { File::from_raw_fd(descriptor) })))
    }
}

impl ReadAt for Readable {
    fn read_at(&self, window: &mut [u8], position: u64) -> io::Result<usize> {
        loop {
            match FileExt::read_at(&*self.0, window, position) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }
}

/// A channel: a plain socket, pipe or file.
pub enum Writable {
    /// Written by send(2), so that a closed connection is an error and not a signal. UnixStream
    /// serves for sockets of every kind.
    Socket(ManuallyDrop<TcpStream>),
    /// Written by write(2).
    File(ManuallyDrop<File>),
}

impl Writable {
    /// ValueError if the number cannot be a descriptor.
    pub fn borrow(descriptor: i32, is_socket: bool) -> PyResult<Self> {
        check(descriptor)?;
        // SAFETY: as in `Readable::borrow`. If Python closes it meanwhile, writes fail, or go where
        // Python's own writes would go.
        Ok(unsafe {
            if is_socket {
                Self::Socket(ManuallyDrop::new(TcpStream::from_raw_fd(descriptor)))
            } else {
                Self::File(ManuallyDrop::new(File::from_raw_fd(descriptor)))
            }
        })
    }
}

impl Write for Writable {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        match self {
            Self::Socket(socket) => socket.write(data),
            Self::File(file) => file.write(data),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Channel for Writable {
    fn room(&self) -> Option<usize> {
        match self {
            Self::Socket(socket) => room_of(socket.as_raw_fd()),
            Self::File(_) => None,
        }
    }
}

/// The room in a socket's buffer, as Linux counts it: the buffer's size minus the bytes in it, with
/// the kernel's own overhead. For TCP, unacknowledged bytes also count as in the buffer.
#[cfg(target_os = "linux")]
fn room_of(descriptor: i32) -> Option<usize> {
    use libc::{SK_MEMINFO_SNDBUF, SK_MEMINFO_WMEM_ALLOC, SK_MEMINFO_WMEM_QUEUED};
    let mut figures = [0_u32; SK_MEMINFO_WMEM_QUEUED as usize + 1];
    let mut size = size_of_val(&figures) as libc::socklen_t;
    // SAFETY: `figures` has `size` bytes, and the system writes no more. A descriptor that is no
    // socket, or is closed, is an error.
    let failed = unsafe {
        libc::getsockopt(
            descriptor,
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            figures.as_mut_ptr().cast(),
            &raw mut size,
        )
    };
    if failed != 0 || (size as usize) < size_of_val(&figures) {
        return None;
    }
    let figure = |at: i32| figures[at as usize];
    let queued = figure(SK_MEMINFO_WMEM_ALLOC).max(figure(SK_MEMINFO_WMEM_QUEUED));
    Some(figure(SK_MEMINFO_SNDBUF).saturating_sub(queued) as usize)
}

#[cfg(not(target_os = "linux"))]
fn room_of(_: i32) -> Option<usize> {
    None
}

fn check(descriptor: i32) -> PyResult<()> {
    if descriptor < 0 {
        return Err(PyValueError::new_err("no descriptor"));
    }
    Ok(())
}
