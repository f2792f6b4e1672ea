//! The size of what a stretch of a file would become, by one call.

use crate::log_window::{Input, LogWindow};
use crate::outcome::{Outcome, Progress};
use crate::transcoder::Transcoder;
use crate::workspace::Workspace;

/// How far to measure.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    /// Where the conversion stands.
    pub position: u64,
    /// Where it ends.
    pub end: u64,
    /// Bytes looked at at a time.
    pub chunk_size: usize,
    /// As many bytes as messages may take.
    pub room: u64,
    /// No other chunk is begun once so much has been consumed.
    pub budget: u64,
}

impl Transcoder {
    /// As `measure`, chunk after chunk, until a limit is reached or something has to be decided.
    pub fn measure_from(
        &mut self,
        input: &Input<'_>,
        stretch: &Stretch,
        workspace: &mut Workspace,
    ) -> Progress {
        let mut log = LogWindow::new(input, &mut workspace.sending.window);
        let (mut consumed, mut produced) = (0, 0);
        let outcome = loop {
            let position = stretch.position + consumed;
            if position >= stretch.end {
                break Outcome::End;
            }
            if consumed >= stretch.budget {
                break Outcome::Limit;
            }
            let left = stretch.end - position;
            log.fill(position, stretch.chunk_size, left);
            let source = log.rest();
            if source.is_empty() {
                break Outcome::Source;
            }
            let chunk = &source[..stretch.chunk_size.min(source.len())];
            let progress = self.measure(chunk, left, stretch.room - produced);
            consumed += progress.consumed;
            produced += progress.produced;
            if progress.outcome != Outcome::Source || progress.consumed == 0 {
                break progress.outcome;
            }
            log.drop(); // what is left of an item is read again
        };
        Progress { consumed, produced, outcome }
    }
}
