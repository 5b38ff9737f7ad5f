//! Where in a document's text a value stands. Both formats are parsed again, on the error path only.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use toml_edit::{Document, Item, Value};

use super::Segment;

/// Byte offset of the value at `path`, or of its closest existing parent.
pub(super) fn in_toml(text: &str, path: &[Segment]) -> Option<usize> {
    let document = Document::parse(text).ok()?;
    let mut offset = None;
    let mut here = Place::Item(document.as_item());
    for segment in path {
        let Some((next, key_at)) = here.step(segment) else { break };
        here = next;
        offset = key_at.or_else(|| here.start()).or(offset);
    }
    offset
}

#[derive(Clone, Copy)]
enum Place<'a> {
    Item(&'a Item),
    Value(&'a Value),
    Table(&'a toml_edit::Table),
}

impl<'a> Place<'a> {
    fn step(self, segment: &Segment) -> Option<(Self, Option<usize>)> {
        match segment {
            Segment::Key(name) => {
                let table: &dyn toml_edit::TableLike = match self {
                    Place::Item(item) => item.as_table_like()?,
                    Place::Value(value) => value.as_inline_table()?,
                    Place::Table(table) => table,
                };
                let (key, item) = table.get_key_value(name)?;
                Some((Place::Item(item), key.span().map(|span| span.start)))
            }
            Segment::Index(index) => {
                let next = match self {
                    Place::Item(Item::ArrayOfTables(tables)) => Place::Table(tables.get(*index)?),
                    Place::Item(item) => Place::Value(item.as_array()?.get(*index)?),
                    Place::Value(value) => Place::Value(value.as_array()?.get(*index)?),
                    Place::Table(_) => return None,
                };
                Some((next, None))
            }
        }
    }

    fn start(self) -> Option<usize> {
        let span = match self {
            Place::Item(item) => item.span(),
            Place::Value(value) => value.span(),
            Place::Table(table) => table.span(),
        };
        span.map(|span| span.start)
    }
}

/// Byte offset of the value at `path`, or of its closest existing parent. A borrowed `RawValue` is a slice of the
/// text it was parsed from, so its place is the distance between the two.
pub(super) fn in_json(text: &str, root: &RawValue, path: &[Segment]) -> Option<usize> {
    let mut here = root;
    for segment in path {
        let next = match segment {
            Segment::Key(name) => serde_json::from_str::<BTreeMap<String, &RawValue>>(here.get())
                .ok()
                .and_then(|mut map| map.remove(name)),
            Segment::Index(index) => serde_json::from_str::<Vec<&RawValue>>(here.get())
                .ok()
                .and_then(|list| list.get(*index).copied()),
        };
        let Some(next) = next else { break };
        here = next;
    }
    (here.get().as_ptr() as usize).checked_sub(text.as_ptr() as usize)
}
