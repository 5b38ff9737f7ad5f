//! What was probably meant: the valid name that is closest to an unknown one.

/// How alike two names must be (Jaro-Winkler, 0 to 1) before one is offered for the other. Below this the
/// suggestions are noise: `shell` for `stall` scores 0.74.
const ALIKE: f64 = 0.75;

/// The candidate that `name` was most likely meant to be, if any is close enough.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (strsim::jaro_winkler(name, candidate), candidate))
        .filter(|(score, _)| *score >= ALIKE)
        .max_by(|left, right| left.0.total_cmp(&right.0))
        .map(|(_, candidate)| candidate)
}
