//! Which key names an item of an answer, and which others belong to it.

use crate::script::WrittenItem;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Thinking,
    Tool,
    Role,
    Http,
    Stall,
    Cut,
    StopReason,
    Usage,
}

pub(super) const KINDS: [Kind; 9] = [
    Kind::Text,
    Kind::Thinking,
    Kind::Tool,
    Kind::Role,
    Kind::Http,
    Kind::Stall,
    Kind::Cut,
    Kind::StopReason,
    Kind::Usage,
];

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Thinking => "thinking",
            Self::Tool => "tool",
            Self::Role => "tool_by_role",
            Self::Http => "http",
            Self::Stall => "stall",
            Self::Cut => "cut",
            Self::StopReason => "stop_reason",
            Self::Usage => "usage",
        }
    }

    pub(super) fn is_named(self, item: &WrittenItem) -> bool {
        match self {
            Self::Text => item.text.is_some(),
            Self::Thinking => item.thinking.is_some(),
            Self::Tool => item.tool.is_some(),
            Self::Role => item.tool_by_role.is_some(),
            Self::Http => item.http.is_some(),
            Self::Stall => item.stall.is_some(),
            Self::Cut => item.cut.is_some(),
            Self::StopReason => item.stop_reason.is_some(),
            Self::Usage => item.usage.is_some(),
        }
    }

    pub(super) fn details(self, item: &WrittenItem) -> &'static [&'static str] {
        match self {
            Self::Text => &["chunk", "gap", "repeat"],
            Self::Thinking => &["chunk", "gap"],
            Self::Tool => &["arguments", "input"],
            Self::Role => match item.tool_by_role.as_deref() {
                Some("shell") => &["command"],
                Some("write_file") => &["path", "content"],
                Some("read_file") => &["path"],
                _ => &["arguments"],
            },
            Self::Http => &["retry_after", "message", "body", "headers", "times"],
            Self::Stall => &["for", "keep_alive", "times"],
            Self::Cut => &["times"],
            Self::StopReason | Self::Usage => &[],
        }
    }
}

pub(super) fn given(item: &WrittenItem) -> Vec<&'static str> {
    let table = [
        ("chunk", item.chunk.is_some()),
        ("gap", item.gap.is_some()),
        ("repeat", item.repeat.is_some()),
        ("arguments", item.arguments.is_some()),
        ("input", item.input.is_some()),
        ("command", item.command.is_some()),
        ("path", item.path.is_some()),
        ("content", item.content.is_some()),
        ("retry_after", item.retry_after.is_some()),
        ("message", item.message.is_some()),
        ("body", item.body.is_some()),
        ("headers", item.headers.is_some()),
        ("for", item.duration.is_some()),
        ("keep_alive", item.keep_alive.is_some()),
        ("times", item.times.is_some()),
    ];
    table.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
}
