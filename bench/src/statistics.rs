//! What several runs of the same come to.

use serde::Serialize;

/// The middle and the ends of some numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Half of them are no greater, and half no less.
    pub median: f64,
    /// The least of them.
    pub least: f64,
    /// The greatest of them.
    pub greatest: f64,
}

impl Spread {
    /// Of these numbers; `None` when there are none, or one is no number.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.iter().any(|value| value.is_nan()) {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (least, greatest) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        Some(Self {
            median,
            least,
            greatest,
        })
    }

    /// How far the ends are from the middle, as a share of it; the greater of the two.
    pub fn deviation(&self) -> f64 {
        if self.median == 0.0 {
            return 0.0;
        }
        (self.greatest - self.median).max(self.median - self.least) / self.median.abs()
    }
}

/// Each number over the one of the same round. What befell a whole round, such as a busy neighbour, befell both.
pub fn ratios(over: &[f64], under: &[f64]) -> Vec<f64> {
    over.iter().zip(under).map(|(over, under)| over / under).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_or_between_the_two_in_the_middle() {
        let median = |values: &[f64]| Spread::of(values).unwrap().median;
        assert_eq!(median(&[3.0]), 3.0);
        assert_eq!(median(&[9.0, 1.0, 5.0]), 5.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 100.0]), 3.0);
    }

    #[test]
    fn the_ends_are_the_least_and_the_greatest() {
        let spread = Spread::of(&[10.0, 8.0, 15.0]).unwrap();
        assert_eq!((spread.least, spread.greatest), (8.0, 15.0));
        assert_eq!(spread.deviation(), 0.5);
    }

    #[test]
    fn nothing_and_no_number_have_no_spread() {
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn a_ratio_is_taken_within_a_round() {
        // The second round was half as fast for both.
        assert_eq!(ratios(&[20.0, 10.0], &[2.0, 1.0]), vec![10.0, 10.0]);
    }
}
