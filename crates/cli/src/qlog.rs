//! `--qlog`: traces of connections.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use quickset::QlogDir;
use quickset::qlog::Sinks;

/// Where traces go.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct QlogArgs {
    /// Write a trace of each connection to a file in this folder, for <https://qvis.quictools.info>
    #[arg(long, value_name = "DIR")]
    pub(crate) qlog: Option<PathBuf>,
}

impl QlogArgs {
    /// The folder, made where it does not exist.
    pub(crate) fn sinks(&self) -> anyhow::Result<Option<Arc<dyn Sinks>>> {
        let Some(dir) = &self.qlog else { return Ok(None) };
        let sinks = QlogDir::new(dir).with_context(|| {
            format!("no folder can be made at {}; choose another with --qlog", dir.display())
        })?;
        Ok(Some(Arc::new(sinks)))
    }
}
