//! What a process behind a wall reaches: each attempt in a process of its own, with the wall and without it, by root and
//! by a plain user.

mod cost;
mod escapes;
mod read_back;
mod scene;
