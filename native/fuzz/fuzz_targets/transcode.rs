//! Any bytes, as a log, as records or as entries: no panic, no standstill, the same however they
//! are cut into windows and targets, and measured as they are converted.
//!
//! `cargo +nightly fuzz run transcode` in native/. Whether what comes out is right, the twin in
//! Python knows.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use records_kernel::{Outcome, Progress, Recodes, Settings, Transcoder};

#[derive(Arbitrary, Debug)]
struct Input<'a> {
    to_magic: u8,
    first_offset: i64,
    pass_codecs: u8,
    stop_transactional: bool,
    accept_next_entry: bool,
    place: Place,
    is_wrapper: bool,
    trim: bool,
    split_at_gaps: bool,
    window: u16,
    room: u16,
    data: &'a [u8],
}

#[derive(Arbitrary, Debug)]
enum Place {
    Log,
    Batch { header: [u8; 61] },
    Entries { offset_delta: i64, append_time: Option<i64> },
}

/// All that a walk gave, however many calls it took.
#[derive(Debug, PartialEq)]
struct Walk {
    consumed: u64,
    produced: u64,
    outcome: Outcome,
    totals: (u64, u64, u64, u64),
    wrapper: (u64, i64, i64, i64),
}

impl Input<'_> {
    fn transcoder(&self) -> Transcoder {
        let Self { is_wrapper, trim, split_at_gaps, .. } = *self;
        let mut transcoder = Transcoder::new(Settings {
            to_magic: match self.place {
                Place::Log => self.to_magic % 3,
                _ => self.to_magic % 2,
            },
            first_offset: self.first_offset,
            pass_codecs: self.pass_codecs,
            stop_transactional: self.stop_transactional,
            recodes: Recodes { trim, split_at_gaps, ..Recodes::NONE },
        });
        match &self.place {
            Place::Log => {}
            Place::Batch { header } => transcoder.enter_batch(header, is_wrapper),
            Place::Entries { offset_delta, append_time } => {
                let to_magic = self.to_magic % 2;
                transcoder.enter_entries(to_magic, *offset_delta, *append_time, is_wrapper);
            }
        }
        transcoder
    }

    /// Drives calls, each with a window of `size` bytes or more. A call that needs more gets more.
    fn walk(
        &self,
        size: usize,
        mut call: impl FnMut(&mut Transcoder, &[u8], u64) -> Progress,
    ) -> Walk {
        let mut transcoder = self.transcoder();
        let (mut at, mut produced, mut window) = (0, 0, size);
        let mut allowed_at = None; // what is compressed, too, is asked about again
        loop {
            let left = &self.data[at..];
            let bytes = &left[..window.min(left.len())];
            let reached = call(&mut transcoder, bytes, left.len() as u64);
            assert!(reached.consumed <= left.len() as u64);
            at += reached.consumed as usize;
            produced += reached.produced;
            let goes_on = match reached.outcome {
                Outcome::Source => {
                    assert!(bytes.len() < left.len(), "all is there");
                    window = if reached.consumed == 0 { 2 * window } else { size };
                    true
                }
                Outcome::Target => true,
                Outcome::Gap => {
                    transcoder.start_wrapper();
                    true
                }
                Outcome::Batch if self.accept_next_entry && allowed_at != Some(at) => {
                    transcoder.accept_next_entry();
                    allowed_at = Some(at);
                    true
                }
                _ => false,
            };
            if !goes_on {
                return Walk {
                    consumed: at as u64,
                    produced,
                    outcome: reached.outcome,
                    totals: transcoder.totals(),
                    wrapper: transcoder.wrapper(),
                };
            }
        }
    }
}

fuzz_target!(|input: Input<'_>| {
    let mut output = Vec::new();
    let whole = input.walk(usize::MAX, |transcoder, bytes, remaining| {
        let mut target = vec![0; 4 * input.data.len() + 64];
        let reached = transcoder.transcode(bytes, remaining, &mut target);
        output.extend_from_slice(&target[..reached.produced as usize]);
        reached
    });

    let measured = input.walk(usize::MAX, |transcoder, bytes, remaining| {
        transcoder.measure(bytes, remaining, u64::MAX)
    });
    assert_eq!(measured, whole);

    let mut pieces = Vec::new();
    let mut room = usize::from(input.room);
    let cut = input.walk(usize::from(input.window).max(1), |transcoder, bytes, remaining| {
        let mut target = vec![0; room];
        let reached = transcoder.transcode(bytes, remaining, &mut target);
        pieces.extend_from_slice(&target[..reached.produced as usize]);
        let is_short = reached.outcome == Outcome::Target && reached.produced == 0;
        room = if is_short { 2 * room + 1 } else { usize::from(input.room) };
        reached
    });
    assert_eq!(pieces, output);
    assert_eq!(cut, whole);

    let mut rows = vec![0; 80 * 8];
    input.walk(usize::from(input.window).max(1), |transcoder, bytes, remaining| {
        transcoder.columns(bytes, bytes, remaining, &mut rows)
    });
});
