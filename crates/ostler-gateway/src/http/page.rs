//! Pages for people: plain, readable without a script, and without a request to anybody else.

use std::fmt::Write as _;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;

use super::openapi::{Doc, document};
use super::routes;
use crate::live::Start;

/// What a page may do: show itself, and take its own style sheet.
const POLICY: &str =
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const STYLE: &str = include_str!("page.css");

fn page(title: &str, content: &str) -> Response {
    let text = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <link rel=\"stylesheet\" href=\"/docs/style.css\">\n</head>\n<body>\n<main>\n{content}</main>\n</body>\n</html>\n"
    );
    sent(text, "text/html; charset=utf-8")
}

fn sent(text: String, kind: &'static str) -> Response {
    let mut response = Response::new(Body::from(text));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    response
}

/// Where everything is.
pub(super) async fn home() -> Response {
    page(
        "Ostler",
        "<h1>Ostler</h1>\n<p>Live sessions of your own agents, behind the APIs that programs already speak.</p>\n\
         <ul>\n<li><a href=\"/docs\">What can be asked here</a></li>\n\
         <li><a href=\"/openapi.json\">The same for programs (OpenAPI)</a></li>\n</ul>\n",
    )
}

/// How the pages look.
pub(super) async fn style() -> Response {
    sent(STYLE.to_owned(), "text/css; charset=utf-8")
}

fn docs_of<S: Start>() -> Vec<Doc> {
    routes::all::<S>().into_iter().map(|route| route.doc).collect()
}

/// The OpenAPI document.
pub(super) async fn openapi<S: Start>() -> Response {
    sent(document(&docs_of::<S>()).to_string(), "application/json")
}

/// The same, for people.
pub(super) async fn docs<S: Start>() -> Response {
    let mut content = "<h1>What can be asked here</h1>\n\
        <p>Send a key with every request: <code>Authorization: Bearer KEY</code> or <code>x-api-key: KEY</code>. \
        <code>ostler keys</code> makes one. <a href=\"/openapi.json\">The OpenAPI document</a> has all shapes.</p>\n"
        .to_owned();
    let mut group = "";
    for doc in docs_of::<S>() {
        if doc.group_name() != group {
            group = doc.group_name();
            let _ = writeln!(content, "<h2>{}</h2>", escaped(group));
        }
        content.push_str(&told(&doc));
    }
    page("Ostler: what can be asked", &content)
}

fn told(doc: &Doc) -> String {
    let mut text = format!(
        "<section>\n<h3><code>{} {}</code></h3>\n<p>{}",
        doc.method.to_ascii_uppercase(),
        escaped(&doc.told_path()),
        marked(doc.about)
    );
    if let Some(scope) = doc.scope {
        let _ = write!(text, " For keys with <code>{}</code>.", scope.name());
    }
    text.push_str("</p>\n");
    if !doc.parameters.is_empty() {
        text.push_str("<dl>\n");
        for parameter in &doc.parameters {
            let _ = writeln!(
                text,
                "<dt><code>{}</code> ({})</dt><dd>{}</dd>",
                parameter.name,
                parameter.place,
                marked(parameter.about)
            );
        }
        text.push_str("</dl>\n");
    }
    text.push_str("</section>\n");
    text
}

/// What stands between backticks is code. One that has no other is itself.
fn marked(text: &str) -> String {
    let mut marked = String::new();
    let mut rest = text;
    while let Some((before, code, after)) = rest
        .split_once('`')
        .and_then(|(before, within)| within.split_once('`').map(|(code, after)| (before, code, after)))
    {
        let _ = write!(marked, "{}<code>{}</code>", escaped(before), escaped(code));
        rest = after;
    }
    marked + &escaped(rest)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_marked_and_all_is_escaped() {
        assert_eq!(marked("`a` or `<b>`."), "<code>a</code> or <code>&lt;b&gt;</code>.");
        assert_eq!(marked("a < b ` c"), "a &lt; b ` c");
        assert_eq!(marked(""), "");
    }
}
