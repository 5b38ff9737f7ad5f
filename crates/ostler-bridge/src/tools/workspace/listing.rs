//! `list_files`: names, in order, one a line.

use std::ops::ControlFlow;

use rustix::fs::{FileType, readlinkat};
use tokio_util::sync::CancellationToken;

use super::MOST_ANSWER_BYTES;
use super::arguments::List;
use super::beneath::{Beneath, Fault};
use super::walking::{Entry, Extent, Glob, Walk, shown};

/// How many names are told.
const MOST_NAMES: usize = 2000;

pub(super) fn list(beneath: &Beneath, given: &List, cancelled: &CancellationToken) -> Result<String, Fault> {
    let glob = Glob::new(beneath, given.glob.as_deref())?;
    let depth = match (given.depth, &given.glob) {
        (Some(depth), _) => usize::try_from(depth.max(1)).unwrap_or(usize::MAX),
        (None, Some(_)) => usize::MAX,
        (None, None) => 1,
    };
    let walk = Walk { beneath, start: &given.path, depth, ignored: given.ignored.into(), cancelled };
    let (mut text, mut names) = (String::new(), 0);
    let extent = walk.go(|entry| {
        let is_folder = entry.kind == FileType::Directory;
        let is_meant = if is_folder { given.glob.is_none() } else { glob.takes(beneath, entry.path) };
        if !is_meant {
            return ControlFlow::Continue(());
        }
        let line = line(&entry);
        if names == MOST_NAMES || text.len() + line.len() > MOST_ANSWER_BYTES {
            return ControlFlow::Break(());
        }
        names += 1;
        text.push_str(&line);
        ControlFlow::Continue(())
    })?;
    if names == 0 {
        text.push_str("Nothing is there.\n");
    }
    match extent {
        Extent::Whole { unread: 0 } => {}
        Extent::Whole { unread } => text.push_str(&format!("[{unread} folders could not be read.]\n")),
        Extent::Enough => {
            text.push_str(&format!("[Cut after {names} names. Name a folder below, or a `glob`.]\n"));
        }
        Extent::TooMuch => text.push_str("[Cut: there is too much to look at. Name a folder below.]\n"),
    }
    Ok(text)
}

fn line(entry: &Entry<'_>) -> String {
    let path = shown(entry.path);
    match entry.kind {
        FileType::Directory => format!("{path}/\n"),
        FileType::RegularFile => format!("{path}\n"),
        FileType::Symlink => match readlinkat(entry.folder, entry.name, Vec::new()) {
            Ok(target) => format!("{path} -> {}\n", shown(target.to_string_lossy().as_ref().as_ref())),
            Err(_) => format!("{path} (a link)\n"),
        },
        _ => format!("{path} (neither a file nor a folder)\n"),
    }
}
