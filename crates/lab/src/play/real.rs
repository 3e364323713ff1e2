use super::{Seen, Setting};

/// Why a run in real time came to no end.
#[derive(Debug, thiserror::Error)]
pub enum RealError {
    /// No socket or thread.
    #[error("the system gives no socket or thread: {0}")]
    System(#[from] std::io::Error),
}

/// Plays a setting over real sockets, with TLS, through the emulated link.
///
/// # Errors
/// When the system gives no socket or thread.
pub fn really(_setting: &Setting, _seed: u64) -> Result<Seen, RealError> {
    Err(RealError::System(std::io::ErrorKind::Unsupported.into()))
}
