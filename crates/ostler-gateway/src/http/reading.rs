//! What the query of a request says.

use axum::http::Uri;

/// What a parameter of the query says.
pub(super) fn query(uri: &Uri, name: &str) -> Option<String> {
    let pairs = uri.query()?.split('&');
    let named = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let mut found = named.filter(|(found, _)| *found == name).map(|(_, value)| value.to_owned());
    found.next()
}
