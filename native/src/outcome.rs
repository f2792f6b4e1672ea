//! The reasons for a call's return, for its caller and inside the parser.

use crate::reason::Reason;

/// Why a call returned. The numbers are those of `records.kernel.Outcome`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Outcome {
    /// The next item is not whole in the window.
    Source = 0,
    /// The next item does not fit in the rest of the target.
    Target = 1,
    /// The batch at the position reached needs a decision.
    Batch = 2,
    /// There is no further entry, or all records have been read.
    End = 3,
    /// The next offset does not follow the wrapper's last one.
    Gap = 4,
    /// The next item is damaged.
    Damage = 5,
    /// Advance: the channel took less than it was given.
    Channel = 6,
    /// Advance: the budget is used up.
    Limit = 7,
}

/// Why the parser stops: an `Outcome`, or damage with its reason.
#[derive(Clone, Copy)]
pub enum Stop {
    Source,
    Target,
    Batch,
    End,
    Gap,
    Damage(Reason),
}

/// Bytes consumed and made by a call, and the reason for its return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Progress {
    pub consumed: u64,
    pub produced: u64,
    pub outcome: Outcome,
}

impl From<Stop> for Outcome {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Source => Self::Source,
            Stop::Target => Self::Target,
            Stop::Batch => Self::Batch,
            Stop::End => Self::End,
            Stop::Gap => Self::Gap,
            Stop::Damage(_) => Self::Damage,
        }
    }
}
