//! gzip by libdeflate, for data that is whole in memory. It is at least twice as fast as zlib.
//!
//! Each thread makes libdeflate's objects once, because they are large and expensive to make.
//!
//! Members are read by Java's rules (records/codecs/gzip.py).

use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr::NonNull;

pub use libdeflater::CompressionLvl;
use libdeflater::Compressor;

use super::append;

/// Magic and method. Java takes these bytes for the beginning of another member.
const MEMBER_START: [u8; 3] = [0x1f, 0x8b, 8];
/// Magic, method, flags, time, extra flags, system; CRC-32, size. Java ignores a rest of fewer
/// bytes.
const FURTHER_SIZE_MIN: usize = 10 + 8 + 1;
const FLAGS_AT: usize = 3;
/// The header has a checksum, which libdeflate does not compare.
const FLAG_CHECKSUM: u8 = 0x02;

thread_local! {
    static COMPRESSOR: RefCell<Option<(CompressionLvl, Compressor)>> = const { RefCell::new(None) };
    static DECOMPRESSOR: Decompressor = Decompressor::new();
}

/// Appends one member, without a name or a time. None if there is not enough memory.
pub fn compress(data: &[u8], level: CompressionLvl, target: &mut Vec<u8>) -> Option<()> {
    COMPRESSOR.with_borrow_mut(|slot| {
        let compressor = match slot {
            Some((made_for, compressor)) if *made_for == level => compressor,
            _ => &mut slot.insert((level, Compressor::new(level))).1,
        };
        let size_max = compressor.gzip_compress_bound(data.len());
        append(target, size_max, |room| compressor.gzip_compress(data, room).ok())
    })
}

/// The content of all members, one after the other.
pub fn decompress(data: &[u8], room: &mut [u8]) -> Option<usize> {
    DECOMPRESSOR.with(|decompressor| {
        let (mut rest, mut made) = (data, 0);
        loop {
            if *rest.get(FLAGS_AT)? & FLAG_CHECKSUM != 0 {
                return None;
            }
            let (taken, size) = decompressor.member(rest, &mut room[made..])?;
            made += size;
            rest = rest.get(taken..)?;
            if rest.len() < FURTHER_SIZE_MIN || !rest.starts_with(&MEMBER_START) {
                return Some(made); // other data after a member is ignored
            }
        }
    })
}

/// libdeflate's decompressor. The crate libdeflater has no call that returns the size of a member.
struct Decompressor(Option<NonNull<libdeflate_sys::libdeflate_decompressor>>);

#[allow(unsafe_code)]
impl Decompressor {
    fn new() -> Self {
        // SAFETY: the call has no arguments. Null, its result if there is no memory, becomes None.
        Self(NonNull::new(unsafe { libdeflate_sys::libdeflate_alloc_decompressor() }))
    }

    /// Decompresses the first member of `data`. Returns the bytes taken and made.
    fn member(&self, data: &[u8], room: &mut [u8]) -> Option<(usize, usize)> {
        let decompressor = self.0?;
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
        let is_good = result == libdeflate_sys::libdeflate_result_LIBDEFLATE_SUCCESS;
        is_good.then_some((taken, made))
    }
}

#[allow(unsafe_code)]
impl Drop for Decompressor {
    fn drop(&mut self) {
        if let Some(decompressor) = self.0 {
            // SAFETY: the pointer came from libdeflate_alloc_decompressor and is freed only here.
            unsafe { libdeflate_sys::libdeflate_free_decompressor(decompressor.as_ptr()) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(content: &[u8]) -> Vec<u8> {
        let mut member = vec![];
        compress(content, CompressionLvl::fastest(), &mut member).expect("there is memory");
        member
    }

    #[test]
    fn members_follow_each_other_and_what_is_none_is_ignored() {
        let mut room = [0; 20];
        let short = [MEMBER_START.as_slice(), &[0; 15]].concat();
        assert_eq!(short.len(), FURTHER_SIZE_MIN - 1);
        let other = b"\x1f\x8b of another method";
        for after in [b"".as_slice(), &MEMBER_START, &short, &[0; 30], other] {
            let data = [&member(b"one, "), &member(b"two"), after].concat();
            assert_eq!(decompress(&data, &mut room), Some(8));
            assert_eq!(&room[..8], b"one, two");
        }
    }

    #[test]
    fn a_damaged_member_after_a_good_one_is_left_to_the_stream() {
        let second = member(b"two");
        let data = [member(b"one"), second[..second.len() - 1].to_vec()].concat();
        assert_eq!(decompress(&data, &mut [0; 20]), None);
        let mut data = member(b"one");
        data[FLAGS_AT] |= FLAG_CHECKSUM;
        assert_eq!(decompress(&data, &mut [0; 20]), None);
    }
}
