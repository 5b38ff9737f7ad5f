//! The folders of a workspace that are watched, and what is read from the watches.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;

use super::rules::is_rules_file;
use super::walk::{Folder, Ground, Leash, Step};
use crate::watches::{Interest, Sight, Watches, What};

/// The folders that are watched.
pub(super) struct Watched {
    watches: Watches,
    pub(super) folders: HashMap<i32, Folder>,
    most: usize,
}

/// What was read from the watches.
pub(super) struct News {
    pub(super) is_change: bool,
    pub(super) arrivals: Arrivals,
}

/// What is to be watched besides.
pub(super) enum Arrivals {
    Folders(Vec<Folder>),
    /// The watches do not fit the workspace any more.
    Unclear,
}

impl Watched {
    pub(super) fn set(ground: &Ground, leash: &Leash, most: usize) -> io::Result<Self> {
        let mut watched = Self { watches: Watches::new()?, folders: HashMap::new(), most };
        watched.add(ground, ground.top(), leash)?;
        Ok(watched)
    }

    /// Readable when there is something to read.
    pub(super) fn notices(&self) -> BorrowedFd<'_> {
        self.watches.as_fd()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.folders.is_empty()
    }

    /// Watches a folder and all below. A folder is watched before its entries are read, so that none slips through.
    pub(super) fn add(&mut self, ground: &Ground, from: Folder, leash: &Leash) -> io::Result<()> {
        let mut failed = None;
        ground.walk(from, leash, |step| {
            let Step::Folder(folder) = step else { return ControlFlow::Continue(()) };
            match self.add_one(folder) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        });
        failed.map_or(Ok(()), Err)
    }

    fn add_one(&mut self, folder: &Folder) -> io::Result<()> {
        match self.watches.add(&folder.path, Interest::Tree) {
            Ok(watch) => {
                self.folders.insert(watch, folder.clone());
                if self.folders.len() > self.most {
                    return Err(io::Error::other("more folders than are watched"));
                }
                Ok(())
            }
            // Just gone, or not ours to see.
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied) =>
            {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn read(&mut self, ground: &Ground) -> io::Result<News> {
        let mut news = News { is_change: false, arrivals: Arrivals::Folders(Vec::new()) };
        let (mut gone, mut left) = (Vec::new(), Vec::new());
        let (folders, most) = (&self.folders, self.most);
        // What is left to read after this wakes us again.
        self.watches.drain(|sight| match sight {
            Sight::Overflow => news = News { is_change: true, arrivals: Arrivals::Unclear },
            Sight::WatchGone(watch) => gone.push(watch),
            Sight::FolderMoved(_) => {}
            Sight::Entry { watch, name, what } => {
                let Some(folder) = folders.get(&watch) else { return };
                news.take_in(ground, folder, name, what);
                if what == What::FolderLeft {
                    left.push(folder.path.join(name));
                }
            }
        })?;
        for watch in gone {
            self.folders.remove(&watch);
        }
        for path in left {
            self.forget(&path);
        }
        if matches!(&news.arrivals, Arrivals::Folders(came) if came.len() > most) {
            news.arrivals = Arrivals::Unclear;
        }
        Ok(news)
    }

    /// Ends the watches on a folder that was moved away, and below it. If it was moved within the workspace it is also
    /// among those that came.
    fn forget(&mut self, path: &Path) {
        let below: Vec<i32> = self
            .folders
            .iter()
            .filter(|(_, folder)| folder.path.starts_with(path))
            .map(|(watch, _)| *watch)
            .collect();
        for watch in below {
            self.watches.remove(watch);
            self.folders.remove(&watch);
        }
    }
}

impl News {
    fn take_in(&mut self, ground: &Ground, folder: &Folder, name: &OsStr, what: What) {
        match what {
            What::File => {
                if is_rules_file(name) {
                    self.arrivals = Arrivals::Unclear;
                }
                self.is_change |= ground.shows(folder, name);
            }
            What::FolderCame => {
                if let Ok(Some(folder)) = ground.inside(folder, name) {
                    self.is_change = true;
                    if let Arrivals::Folders(came) = &mut self.arrivals {
                        came.push(folder);
                    }
                }
            }
            What::FolderLeft | What::FolderGone => self.is_change |= ground.shows_folder(folder, name),
        }
    }
}
