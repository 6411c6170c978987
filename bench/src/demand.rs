//! What is asked of a figure, and what becomes of that.

/// What is asked of a figure or of a ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Demand {
    /// At least the first; the second is hoped for.
    AtLeast(f64, f64),
    /// Less than the first; the second is hoped for.
    Below(f64, f64),
    /// Nothing; this much is hoped for.
    Report(f64),
}

/// Whether a bar held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// What is asked, and what is hoped for.
    Reached,
    /// What is asked.
    Held,
    /// Not what is asked.
    Missed,
    /// Nothing was asked.
    Reported,
}

impl Verdict {
    /// In words.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reached => "held, and the aim",
            Self::Held => "held",
            Self::Missed => "MISSED",
            Self::Reported => "reported",
        }
    }
}

impl Demand {
    /// Judges a median.
    pub fn judge(self, median: f64) -> Verdict {
        let (held, reached) = match self {
            Self::AtLeast(bar, aim) => (median >= bar, median >= aim),
            Self::Below(bar, aim) => (median < bar, median < aim),
            Self::Report(_) => return Verdict::Reported,
        };
        match (held, reached) {
            (true, true) => Verdict::Reached,
            (true, false) => Verdict::Held,
            (false, _) => Verdict::Missed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn demands_have_a_bar_and_an_aim() {
        let at_least = Demand::AtLeast(10.0, 15.0);
        assert_eq!(at_least.judge(9.99), Verdict::Missed);
        assert_eq!(at_least.judge(10.0), Verdict::Held);
        assert_eq!(at_least.judge(15.0), Verdict::Reached);
        let below = Demand::Below(64.0, 40.0);
        assert_eq!(below.judge(64.0), Verdict::Missed);
        assert_eq!(below.judge(63.0), Verdict::Held);
        assert_eq!(below.judge(39.0), Verdict::Reached);
    }
}
