//! For tests of what must not be done on the runtime's own thread, because everybody else would wait for it.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

/// Sees it through on a runtime whose only thread for what may block is taken at first: it has to wait for that one, and
/// `meanwhile` looks at what it left undone.
pub(crate) fn done_elsewhere<T>(doing: impl Future<Output = T>, meanwhile: impl FnOnce()) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build();
    runtime.unwrap().block_on(async {
        let (free, taken) = std::sync::mpsc::sync_channel::<()>(1);
        let busy = tokio::task::spawn_blocking(move || taken.recv());
        let mut doing = pin!(doing);
        let first = std::future::poll_fn(|context| Poll::Ready(doing.as_mut().poll(context))).await;
        assert!(first.is_pending(), "it was done on the runtime's own thread");
        meanwhile();
        free.send(()).unwrap();
        assert!(busy.await.is_ok());
        doing.await
    })
}
