//! Randomness that is a function of a seed, a purpose and a number, never of timing.

use rand::SeedableRng;
use rand::rngs::StdRng;

/// Where all randomness of a run comes from.
///
/// Every decision draws from a generator of its own, named by what it is for and by the number of the thing it is
/// about. So the tenth delivery meets the same fate in every run with this seed, whatever was sent before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub u64);

impl Seed {
    /// The generator for decision `number` about `purpose`.
    pub fn rng(self, purpose: &str, number: u64) -> StdRng {
        let named = purpose
            .bytes()
            .fold(self.0, |state, byte| mix(state ^ u64::from(byte)));
        StdRng::seed_from_u64(mix(named ^ mix(number)))
    }
}

/// The finalizer of SplitMix64: neighbouring inputs give unrelated outputs.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;

    #[test]
    fn the_same_name_draws_the_same_and_another_draws_differently() {
        let draw = |seed: u64, purpose: &str, number: u64| Seed(seed).rng(purpose, number).random::<u64>();
        assert_eq!(draw(7, "wait", 3), draw(7, "wait", 3));
        assert_ne!(draw(7, "wait", 3), draw(8, "wait", 3));
        assert_ne!(draw(7, "wait", 3), draw(7, "task", 3));
        assert_ne!(draw(7, "wait", 3), draw(7, "wait", 4));
    }
}
