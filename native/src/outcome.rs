//! Why a call came back: what its caller sees, and what the parser returns.

use crate::reason::Reason;

/// Why a call came back: the numbers of `records.kernel.Outcome`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Outcome {
    /// The next item is not whole in the window.
    Source = 0,
    /// The next item does not fit in what is left of the target.
    Target = 1,
    /// The batch at the position reached needs a decision.
    Batch = 2,
    /// No further entry, or all has been read.
    End = 3,
    /// The next offset does not follow the wrapper's last one.
    Gap = 4,
    /// The next item is damaged.
    Damage = 5,
    /// Advance: the channel took less than it was given.
    Channel = 6,
    /// Advance: as much has been done as was allowed.
    Limit = 7,
}

/// What stops the parser: an `Outcome`, of damage with its reason.
#[derive(Clone, Copy)]
pub enum Stop {
    Source,
    Target,
    Batch,
    End,
    Gap,
    Damage(Reason),
}

/// How far a call came on both sides, in bytes, and why it came back.
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
