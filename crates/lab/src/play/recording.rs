use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use quickset::Side;
use quickset_quic::qlog::{Output, Sinks, Subject};
use serde::Serialize;

use super::Setting;

/// What a run leaves for analysers, in a folder of its own: for each end of each flow `FLOW_client.sqlog` and
/// `FLOW_server.sqlog` for qvis, and in virtual time `FLOW_client.pcap` and `FLOW_server.pcap`, as tcpdump
/// would have seen it there. In virtual time nothing is encrypted, so Wireshark finds no QUIC of its own in
/// the packets; the keys of a run in real time go to the file that `SSLKEYLOGFILE` names.
#[derive(Debug)]
pub struct Recording {
    dir: PathBuf,
}

impl Recording {
    /// Makes the folder, where it does not exist, with `run.json` that says which run it is of.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(dir: &Path, run: &impl Serialize) -> io::Result<Self> {
        std::fs::create_dir_all(dir)?;
        std::fs::write(dir.join("run.json"), serde_json::to_vec_pretty(run)?)?;
        Ok(Self { dir: dir.to_owned() })
    }

    /// The setting, with connections that leave traces.
    ///
    /// # Errors
    /// When a file cannot be made.
    pub fn traced(&self, mut setting: Setting) -> io::Result<Setting> {
        for flow in &mut setting.flows {
            let file = |side| self.file(&flow.name, side, "sqlog").map(Some).map(Mutex::new);
            let traces = Traces { client: file("client")?, server: file("server")? };
            flow.transport.qlog = Some(Arc::new(traces));
        }
        Ok(setting)
    }

    pub(super) fn capture(&self, flow: &str, side: &str) -> io::Result<BufWriter<File>> {
        self.file(flow, side, "pcap")
    }

    fn file(&self, flow: &str, side: &str, ending: &str) -> io::Result<BufWriter<File>> {
        let path = self.dir.join(format!("{flow}_{side}.{ending}"));
        File::create(&path)
            .map(BufWriter::new)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    }
}

/// The traces of a flow, each given out once.
struct Traces {
    client: Mutex<Option<BufWriter<File>>>,
    server: Mutex<Option<BufWriter<File>>>,
}

impl Sinks for Traces {
    fn open(&self, subject: &Subject) -> Option<Output> {
        let file = match subject.side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        };
        let file = file.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        // Times of a run count from its beginning.
        Some(Output { writer: Box::new(file), reference_time_ms: 0.0 })
    }
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Traces")
    }
}
