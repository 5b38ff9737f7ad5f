//! How a session leaves the pool: parked, so that its conversation can go on, or for good.

use std::future::Future;
use std::sync::Arc;

use super::Shared;
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
                Some((shelf, keepsake)) => {
                    session.close().await;
                    shelf.forget(&keepsake.session);
                }
                None => session.close().await,
            }
        }
    }

    /// Ends a session that nobody is to go on with.
    pub(super) async fn discard(&self, session: S::Session) {
        let keepsake = session.keepsake();
        session.close().await;
        if let Some((shelf, keepsake)) = self.shelf.as_ref().zip(keepsake) {
            shelf.forget(&keepsake.session);
        }
    }
}
