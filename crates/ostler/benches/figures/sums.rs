//! Sorted times, and what is told of them.

use std::time::Duration;

/// Milliseconds of many tries, sorted.
pub(crate) struct Times(Vec<f64>);

impl Times {
    pub(crate) fn of(times: impl IntoIterator<Item = f64>) -> Self {
        let mut times: Vec<f64> = times.into_iter().collect();
        times.sort_by(f64::total_cmp);
        Self(times)
    }

    pub(crate) fn median(&self) -> f64 {
        self.at(0.5)
    }

    pub(crate) fn p90(&self) -> f64 {
        self.at(0.9)
    }

    pub(crate) fn p99(&self) -> f64 {
        self.at(0.99)
    }

    /// The least disturbed one: on a busy machine the nearest to what it takes.
    pub(crate) fn least(&self) -> f64 {
        self.at(0.0)
    }

    fn at(&self, part: f64) -> f64 {
        let place = part * (self.0.len().max(1) - 1) as f64;
        self.0.get(place.round() as usize).copied().unwrap_or(f64::NAN)
    }
}

pub(crate) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}
