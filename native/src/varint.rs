//! Zigzag varints by the rules of Kafka's ByteUtils: 32 bits in up to 5 bytes, 64 bits in up to 10.
//!
//! Overlong encodings are accepted, and bits beyond the width are dropped. Nearly all varints of a
//! record have one or two bytes. These are read inline, the others out of line.

use crate::cursor::Cursor;

const MORE: u8 = 0x80;

/// Why there is no valid varint. The cursor is then at an arbitrary place. Its owner knows where
/// the item began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The bytes end inside the varint.
    Short,
    /// Its last possible byte says that another one follows.
    TooLong,
}

/// The maximum bytes of a 32-bit varint.
pub const SIZE_MAX_32: usize = 5;
/// The maximum bytes of a 64-bit varint.
pub const SIZE_MAX_64: usize = 10;

#[inline(always)]
pub fn read_i32(cursor: &mut Cursor<'_>) -> Result<i32, Fault> {
    match cursor.rest() {
        [first, ..] if *first < MORE => {
            let _ = cursor.take(1);
            Ok(unzigzag_32(u32::from(*first)))
        }
        [first, second, ..] if *second < MORE => {
            let _ = cursor.take(2);
            Ok(unzigzag_32(two(*first, *second)))
        }
        _ => Ok(unzigzag_32(long::<SIZE_MAX_32>(cursor)? as u32)),
    }
}

#[inline(always)]
pub fn read_i64(cursor: &mut Cursor<'_>) -> Result<i64, Fault> {
    match cursor.rest() {
        [first, ..] if *first < MORE => {
            let _ = cursor.take(1);
            Ok(i64::from(unzigzag_32(u32::from(*first))))
        }
        [first, second, ..] if *second < MORE => {
            let _ = cursor.take(2);
            Ok(i64::from(unzigzag_32(two(*first, *second))))
        }
        _ => {
            let raw = long::<SIZE_MAX_64>(cursor)?;
            Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
        }
    }
}

#[inline(always)]
fn two(first: u8, second: u8) -> u32 {
    u32::from(first & !MORE) | u32::from(second) << 7
}

#[inline(always)]
fn unzigzag_32(raw: u32) -> i32 {
    (raw >> 1) as i32 ^ -((raw & 1) as i32)
}

#[inline(always)]
fn long<const SIZE_MAX: usize>(cursor: &mut Cursor<'_>) -> Result<u64, Fault> {
    let (raw, after) = read_long::<SIZE_MAX>(*cursor)?;
    *cursor = after;
    Ok(raw)
}

/// Returns a new cursor instead of moving one. A reference to a cursor would force it into memory
/// everywhere, instead of registers.
#[cold]
#[inline(never)]
fn read_long<const SIZE_MAX: usize>(mut cursor: Cursor<'_>) -> Result<(u64, Cursor<'_>), Fault> {
    let mut raw = 0u64;
    for index in 0..SIZE_MAX {
        let [byte] = *cursor.array().map_err(|_| Fault::Short)?;
        raw |= u64::from(byte & !MORE) << (7 * index);
        if byte < MORE {
            return Ok((raw, cursor));
        }
    }
    Err(Fault::TooLong)
}

/// Writes at the beginning of `target`. Returns the bytes written.
#[inline(always)]
pub fn write(value: i64, target: &mut [u8; SIZE_MAX_64]) -> usize {
    let mut raw = zigzag(value);
    let mut size = 0;
    while raw >= u64::from(MORE) {
        target[size] = raw as u8 | MORE;
        raw >>= 7;
        size += 1;
    }
    target[size] = raw as u8;
    size + 1
}

/// The number of bytes that `write` needs. A 32-bit value needs the same as a 64-bit one.
#[inline(always)]
pub fn size(value: i64) -> usize {
    let bits = 64 - (zigzag(value) | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

#[inline(always)]
fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn i32_of(bytes: &[u8]) -> Result<(i32, usize), Fault> {
        let mut cursor = Cursor::new(bytes);
        read_i32(&mut cursor).map(|value| (value, cursor.left()))
    }

    fn i64_of(bytes: &[u8]) -> Result<(i64, usize), Fault> {
        let mut cursor = Cursor::new(bytes);
        read_i64(&mut cursor).map(|value| (value, cursor.left()))
    }

    #[test]
    fn what_is_written_is_read_and_has_the_size_foretold() {
        for shift in 0..64 {
            for value in [1i64 << shift, -1 << shift, (1i64 << shift).wrapping_sub(1)] {
                let mut bytes = [0xff; SIZE_MAX_64];
                let size = write(value, &mut bytes);
                assert_eq!(size, super::size(value));
                assert_eq!(i64_of(&bytes), Ok((value, SIZE_MAX_64 - size)));
                if let Ok(value) = i32::try_from(value) {
                    assert_eq!(i32_of(&bytes[..size]), Ok((value, 0)));
                }
                for end in 0..size {
                    assert_eq!(i64_of(&bytes[..end]), Err(Fault::Short));
                }
            }
        }
    }

    #[test]
    fn bits_beyond_the_width_are_shifted_out_and_a_byte_too_many_is_refused() {
        assert_eq!(i32_of(b"\xff\xff\xff\xff\x7f"), Ok((i32::MIN, 0)));
        assert_eq!(i32_of(b"\xff\xff\xff\xff\xff"), Err(Fault::TooLong));
        assert_eq!(i32_of(b"\xff\xff\xff\xff"), Err(Fault::Short));
        assert_eq!(i64_of(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), Ok((i64::MIN, 0)));
        assert_eq!(i64_of(&[0xff; 10]), Err(Fault::TooLong));
        assert_eq!(i64_of(&[0xff; 9]), Err(Fault::Short));
        assert_eq!(i32_of(b"\x80\x80\x00"), Ok((0, 0)));
    }
}
