//! Others have the thread while the driver always finds more.

use std::io;
use std::sync::atomic::AtomicUsize;

use quickset_base::Ecn;
use tokio::task::LocalSet;

use super::*;
use crate::socket::UnsentBatch;

/// More has always come: as much as a call takes, for nobody.
#[derive(Debug, Default)]
struct Inexhaustible {
    came: AtomicUsize,
}

impl DatagramSocket for Inexhaustible {
    fn local_addr(&self) -> SocketAddr {
        ([127, 0, 0, 1], 1).into()
    }

    fn poll_recv(
        &self,
        _: &mut Context<'_>,
        buffers: &mut ReceiveBuffers,
        _: bool,
    ) -> Poll<io::Result<ReceivedCount>> {
        let path = AddressPair::to(([127, 0, 0, 1], 2).into());
        for at in 0..WIDTH {
            buffers.put(at, path, Ecn::NotEct, &vec![0; LONG]);
        }
        self.came.fetch_add(WIDTH * LONG, Ordering::Relaxed);
        Poll::Ready(Ok(ReceivedCount { buffers: WIDTH, was_all: false }))
    }

    fn poll_send(&self, _: &mut Context<'_>, _: &Batch) -> Poll<Result<(), UnsentBatch>> {
        Poll::Ready(Ok(()))
    }

    fn send_response(&self, _: &AddressPair, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

/// A runtime of one thread polls what `block_on` waits for between dozens of polls of its tasks; each of the
/// driver's takes several calls of the system.
#[test]
fn a_local_set_has_its_turn_behind_each_megabyte() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let most = LocalSet::new().block_on(&runtime, async {
        let socket = Arc::new(Inexhaustible::default());
        tokio::spawn(driver_of(socket.clone(), router(None, 0)));
        let reader = tokio::task::spawn_local(async move {
            let (mut before, mut most) = (0, 0);
            for _ in 0..100 {
                tokio::task::yield_now().await;
                let came = socket.came.load(Ordering::Relaxed);
                most = most.max(came - before);
                before = came;
            }
            assert!(before > 0, "the driver has its turns, too");
            most
        });
        reader.await.unwrap()
    });
    // What a call brings beyond it comes with it.
    assert!(most <= AHEAD + WIDTH * LONG, "{most} bytes came in between");
}

/// Bytes of a datagram.
const LONG: usize = 60_000;
