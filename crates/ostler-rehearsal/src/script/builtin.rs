//! Scripts that come with Ostler. Every one is played by every real agent in the end-to-end tests.

/// A script that comes with Ostler.
#[derive(Debug)]
pub struct Builtin {
    /// What it is asked for by.
    pub name: &'static str,
    /// The script itself, in TOML.
    pub text: &'static str,
}

/// Every built-in script.
pub static BUILTIN: &[Builtin] = &[
    Builtin { name: "hello", text: include_str!("../../scripts/hello.toml") },
    Builtin { name: "echo", text: include_str!("../../scripts/echo.toml") },
    Builtin { name: "todo", text: include_str!("../../scripts/todo.toml") },
    Builtin { name: "tools", text: include_str!("../../scripts/tools.toml") },
    Builtin { name: "long", text: include_str!("../../scripts/long.toml") },
    Builtin { name: "flaky", text: include_str!("../../scripts/flaky.toml") },
    Builtin { name: "stall", text: include_str!("../../scripts/stall.toml") },
    Builtin { name: "chatty", text: include_str!("../../scripts/chatty.toml") },
    Builtin { name: "compact", text: include_str!("../../scripts/compact.toml") },
    Builtin { name: "smoke", text: include_str!("../../scripts/smoke.toml") },
];
