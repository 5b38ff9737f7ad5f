//! The fake agent as a program: every verb, and every dialect against recordings of the real one.

mod acp;
mod claude;
mod codex;
mod recordings;
mod stand;
mod terminal;
mod tty;
mod verbs;
