//! Vectors as they are kept: a byte for each number, and a bit for each number to look through many of them fast.

/// How many numbers a vector has.
pub const DIMENSIONS: usize = 384;

const WORDS: usize = DIMENSIONS / 64;

/// Only the signs of a vector.
pub type Bits = [u64; WORDS];

/// A direction, in 384 numbers of a byte each. Its length tells nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vector(Vec<i8>);

impl Vector {
    /// The nearest to these numbers; nothing if there are not so many, or they are not numbers, or all are zero.
    pub fn of(numbers: &[f32]) -> Option<Self> {
        let most = numbers.iter().fold(0.0_f32, |most, number| most.max(number.abs()));
        let is_sound = numbers.len() == DIMENSIONS && numbers.iter().all(|number| number.is_finite());
        if !is_sound || most <= 0.0 {
            return None;
        }
        // Within -127 to 127, so that the cast cannot wrap.
        Some(Self(numbers.iter().map(|number| (number / most * 127.0).round() as i8).collect()))
    }

    /// As it was kept.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        (bytes.len() == DIMENSIONS).then(|| Self(bytes.iter().map(|byte| byte.cast_signed()).collect()))
    }

    /// As it is kept.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().map(|number| number.cast_unsigned()).collect()
    }

    /// Its signs.
    pub fn bits(&self) -> Bits {
        let mut bits = [0; WORDS];
        for (at, number) in self.0.iter().enumerate() {
            if *number > 0 {
                bits[at / 64] |= 1 << (at % 64);
            }
        }
        bits
    }

    /// How near the other is: 1 for the same direction, 0 for none in common.
    pub fn nearness(&self, other: &Self) -> f64 {
        let product = dot(&self.0, &other.0) as f64;
        let lengths = (dot(&self.0, &self.0) as f64).sqrt() * (dot(&other.0, &other.0) as f64).sqrt();
        if lengths > 0.0 { product / lengths } else { 0.0 }
    }

    /// The direction between two.
    pub fn between(&self, other: &Self) -> Option<Self> {
        let length = |vector: &Self| (dot(&vector.0, &vector.0) as f32).sqrt();
        let (mine, theirs) = (length(self), length(other));
        if mine <= 0.0 || theirs <= 0.0 {
            return None;
        }
        let both = self.0.iter().zip(&other.0);
        Self::of(
            &both
                .map(|(left, right)| f32::from(*left) / mine + f32::from(*right) / theirs)
                .collect::<Vec<_>>(),
        )
    }
}

fn dot(left: &[i8], right: &[i8]) -> i32 {
    left.iter().zip(right).map(|(left, right)| i32::from(*left) * i32::from(*right)).sum()
}

/// In how many signs two differ.
pub fn distance(left: &Bits, right: &Bits) -> u32 {
    left.iter().zip(right).map(|(left, right)| (left ^ right).count_ones()).sum()
}

/// Signs as bytes, and back.
pub(crate) fn bits_to_bytes(bits: &Bits) -> Vec<u8> {
    bits.iter().flat_map(|word| word.to_le_bytes()).collect()
}

pub(crate) fn bits_from_bytes(bytes: &[u8]) -> Option<Bits> {
    if bytes.len() != DIMENSIONS / 8 {
        return None;
    }
    let mut bits = [0; WORDS];
    for (word, eight) in bits.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(eight.try_into().ok()?);
    }
    Some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(step: usize) -> Vector {
        let numbers: Vec<f32> = (0..DIMENSIONS).map(|at| ((at * step) as f32 * 0.37).sin()).collect();
        Vector::of(&numbers).unwrap()
    }

    #[test]
    fn a_vector_is_kept_and_compared() {
        let (one, other) = (wave(1), wave(2));
        assert!((one.nearness(&one) - 1.0).abs() < 1e-9);
        assert!(one.nearness(&other).abs() < 0.2);
        assert_eq!(Vector::from_bytes(&one.to_bytes()).as_ref(), Some(&one));
        assert_eq!(bits_from_bytes(&bits_to_bytes(&one.bits())), Some(one.bits()));
        assert_eq!(distance(&one.bits(), &one.bits()), 0);
        assert!(distance(&one.bits(), &other.bits()) > 100);
        let between = one.between(&other).unwrap();
        assert!(between.nearness(&one) > 0.6 && between.nearness(&other) > 0.6);
    }

    #[test]
    fn what_is_no_direction_is_refused() {
        assert_eq!(Vector::of(&[0.0; DIMENSIONS]), None);
        assert_eq!(Vector::of(&[f32::NAN; DIMENSIONS]), None);
        assert_eq!(Vector::of(&[1.0; 3]), None);
        assert_eq!(Vector::from_bytes(&[1; 3]), None);
        assert_eq!(bits_from_bytes(&[1; 3]), None);
    }
}
