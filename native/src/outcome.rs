//! The reasons for a call's return.

use crate::reason::Reason;

/// Why a call returned, or why the parser stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The next item is not whole in the window.
    Source,
    /// The next item does not fit in the rest of the target.
    Target,
    /// The batch at the position reached needs a decision.
    Batch,
    /// There is no further entry, or all records have been read.
    End,
    /// The next offset does not follow the wrapper's last one.
    Gap,
    /// The next item is damaged.
    Damage(Reason),
    /// Advance: the channel took less than it was given.
    Channel,
    /// Advance: the budget is used up.
    Limit,
}

impl Outcome {
    /// The number in `records.kernel.Outcome`.
    pub fn number(self) -> u8 {
        match self {
            Self::Source => 0,
            Self::Target => 1,
            Self::Batch => 2,
            Self::End => 3,
            Self::Gap => 4,
            Self::Damage(_) => 5,
            Self::Channel => 6,
            Self::Limit => 7,
        }
    }
}

/// Bytes consumed and made by a call, and the reason for its return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Progress {
    pub consumed: u64,
    pub produced: u64,
    pub outcome: Outcome,
}
