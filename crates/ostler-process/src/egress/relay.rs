//! A port of this machine that a jail has too.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

/// Connects each connection of the listener to the same port outside.
pub(super) async fn serve(listener: TcpListener, address: SocketAddr) {
    super::accept(listener, move |inside| connect(inside, address)).await;
}

/// Where nobody listens outside, the connection is closed.
async fn connect(mut inside: TcpStream, address: SocketAddr) {
    let Ok(mut outside) = TcpStream::connect(address).await else { return };
    let _ = outside.set_nodelay(true);
    // Either end may break off at any time.
    let _ = copy_bidirectional(&mut inside, &mut outside).await;
}
