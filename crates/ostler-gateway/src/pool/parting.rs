//! How a session leaves the pool: parked, so that its conversation can go on, or for good.

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;

use super::Shared;
use crate::ground::{remove, removed};
use crate::live::{LiveSession as _, Start};

impl<S: Start> Shared<S> {
    /// Ends a session that waited. What it knows stays on the shelf, if it is there.
    pub(super) fn retire(self: &Arc<Self>, session: S::Session) -> impl Future<Output = ()> + Send + 'static {
        let shared = self.clone();
        async move {
            let keepsake = session.keepsake();
            match shared.shelf.as_ref().zip(keepsake) {
                Some((shelf, keepsake)) if shelf.is_noted(&keepsake.session) => {
                    session.park().await;
                    shelf.put_back(&keepsake.session);
                }
                Some(_) | None => shared.discard(session).await,
            }
        }
    }

    /// Ends a session that nobody is to go on with.
    pub(super) async fn discard(&self, session: S::Session) {
        let keepsake = session.keepsake();
        session.close().await;
        if let Some((shelf, keepsake)) = self.shelf.as_ref().zip(keepsake)
            && let Some(folder) = shelf.forget(&keepsake.session)
        {
            removed(folder).await;
        }
    }

    /// Removes the folder of a session, for those who cannot wait for that: the pool does, before it is closed.
    pub(super) fn clear(&self, folder: Option<PathBuf>) {
        if let Some(folder) = folder {
            self.tasks.spawn_blocking(move || remove(&folder));
        }
    }
}
