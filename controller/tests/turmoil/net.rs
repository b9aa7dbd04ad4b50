//! The shipped network code over turmoil's sockets: the two ends that a machine would otherwise give it.

use std::io;
use std::net::Ipv4Addr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use controller::quorum::Dial;
use futures::Stream;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::codegen::http::Uri;
use tonic::transport::Endpoint;
use tonic::transport::server::Connected;
use turmoil::net::{TcpListener, TcpStream};

/// Where every controller listens.
pub const PORT: u16 = 9093;

/// Channels that dial through the simulated network, by simulated names.
pub fn dial() -> Dial {
    let connector = tower::service_fn(|uri: Uri| async move {
        let host = uri.host().unwrap_or_default().to_owned();
        let stream = TcpStream::connect((host, uri.port_u16().unwrap_or(PORT))).await?;
        Ok::<_, io::Error>(TokioIo::new(stream))
    });
    Arc::new(move |endpoint: Endpoint| endpoint.connect_with_connector_lazy(connector))
}

/// Connections as they come in.
pub async fn incoming() -> io::Result<impl Stream<Item = io::Result<Accepted>>> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT)).await?;
    Ok(futures::stream::unfold(listener, |listener| async {
        let accepted = listener.accept().await.map(|(stream, _)| Accepted(stream));
        Some((accepted, listener))
    }))
}

/// A connection that was accepted.
pub struct Accepted(TcpStream);

impl Connected for Accepted {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

impl AsyncRead for Accepted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, into)
    }
}

impl AsyncWrite for Accepted {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
