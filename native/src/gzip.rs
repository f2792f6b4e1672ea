//! gzip in one go, by libdeflate: twice zlib's speed and more, for data that is whole in memory.
//!
//! libdeflate's objects are made once for each thread: they are large, and their making is not
//! free.
//!
//! Not here: streams, several members, what is behind a member, and what is wrong with damaged
//! data: whoever must know reads it as a stream (records/codecs/gzip.py).

use std::cell::RefCell;
use std::collections::TryReserveError;
use std::ffi::c_void;
use std::ptr::NonNull;

pub use libdeflater::CompressionLvl;
use libdeflater::Compressor;

/// Decompressed bytes that one byte of deflate can make, at the most.
const EXPANSION_MAX: u64 = 1032;
/// magic, method, flags, time, extra flags, system; CRC-32, size.
const SIZE_MIN: usize = 10 + 8;
const FLAGS_AT: usize = 3;
/// The header has a checksum, which libdeflate does not look at.
const FLAG_CHECKSUM: u8 = 0x02;

thread_local! {
    static COMPRESSOR: RefCell<Option<(CompressionLvl, Compressor)>> = const { RefCell::new(None) };
    static DECOMPRESSOR: Decompressor = Decompressor::new();
}

/// One member, without a name or a time. An error where there is no memory for it.
pub fn compress(data: &[u8], level: CompressionLvl) -> Result<Vec<u8>, TryReserveError> {
    COMPRESSOR.with_borrow_mut(|slot| {
        let compressor = match slot {
            Some((made_for, compressor)) if *made_for == level => compressor,
            _ => &mut slot.insert((level, Compressor::new(level))).1,
        };
        let bound = compressor.gzip_compress_bound(data.len());
        let mut member = Vec::new();
        member.try_reserve_exact(bound)?;
        member.resize(bound, 0);
        let size = compressor.gzip_compress(data, &mut member).expect("the bound is one");
        member.truncate(size);
        Ok(member)
    })
}

/// The size that a member claims for its content in its last four bytes, if that is possible and
/// not above `limit`.
pub fn claimed_size(data: &[u8], limit: u64) -> Option<usize> {
    if data.len() < SIZE_MIN || data[FLAGS_AT] & FLAG_CHECKSUM != 0 {
        return None;
    }
    let claim = u64::from(u32::from_le_bytes(*data.last_chunk()?));
    let possible = limit.min(EXPANSION_MAX.saturating_mul(data.len() as u64));
    (claim <= possible).then_some(claim as usize)
}

/// Decompresses a member into room of the size that it claims. False if `data` is not one good
/// member, whole, of that size.
pub fn decompress(data: &[u8], room: &mut [u8]) -> bool {
    DECOMPRESSOR.with(|decompressor| decompressor.member(data, room))
}

/// libdeflate's decompressor. libdeflater's has no call that says how many bytes a member took.
struct Decompressor(Option<NonNull<libdeflate_sys::libdeflate_decompressor>>);

#[allow(unsafe_code)]
impl Decompressor {
    fn new() -> Self {
        // SAFETY: it takes nothing; null, which is where there is no memory, becomes None.
        Self(NonNull::new(unsafe { libdeflate_sys::libdeflate_alloc_decompressor() }))
    }

    fn member(&self, data: &[u8], room: &mut [u8]) -> bool {
        let Some(decompressor) = self.0 else {
            return false;
        };
        let (mut taken, mut made) = (0, 0);
        // SAFETY: the decompressor is alive until `drop`, and this thread's alone; libdeflate reads
        // `data.len()` bytes and writes at most `room.len()`, and the two slices cannot overlap,
        // since one is borrowed mutably.
        let result = unsafe {
            libdeflate_sys::libdeflate_gzip_decompress_ex(
                decompressor.as_ptr(),
                data.as_ptr().cast::<c_void>(),
                data.len(),
                room.as_mut_ptr().cast::<c_void>(),
                room.len(),
                &raw mut taken,
                &raw mut made,
            )
        };
        result == libdeflate_sys::libdeflate_result_LIBDEFLATE_SUCCESS
            && taken == data.len()
            && made == room.len()
    }
}

#[allow(unsafe_code)]
impl Drop for Decompressor {
    fn drop(&mut self) {
        if let Some(decompressor) = self.0 {
            // SAFETY: it came from libdeflate_alloc_decompressor and is freed here alone.
            unsafe { libdeflate_sys::libdeflate_free_decompressor(decompressor.as_ptr()) }
        }
    }
}
