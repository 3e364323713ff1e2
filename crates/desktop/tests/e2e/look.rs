use std::time::Duration;

use bytes::Buf as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::person::Person;

impl Person {
    /// Takes in what comes within `time`.
    pub(crate) async fn look(&mut self, time: Duration) {
        let end = tokio::time::Instant::now() + time;
        let mut input = vec![0; 65536];
        loop {
            while !self.rfb.output().is_empty() {
                let written = self.socket.write(self.rfb.output()).await.unwrap();
                self.rfb.output().advance(written);
            }
            let Ok(read) = tokio::time::timeout_at(end, self.socket.read(&mut input)).await else { return };
            let read = read.unwrap();
            assert_ne!(read, 0, "the server hangs up");
            self.feed(&input[..read]).unwrap();
        }
    }
}
