use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::programs::Program;

/// A sound server of our own, with devices that nobody hears.
pub(crate) struct PulseServer {
    _server: Program,
    /// As programs name it in PULSE_SERVER.
    pub(crate) place: String,
}

impl PulseServer {
    /// With sinks of these names, in a new folder.
    pub(crate) async fn start(folder: &Path, sinks: &[&str]) -> Self {
        std::fs::create_dir_all(folder).unwrap();
        let socket = folder.join("socket");
        let mut command = Command::new("pulseaudio");
        command.args([
            "-n",
            "--daemonize=no",
            "--exit-idle-time=-1",
            "--use-pid-file=no",
            "--realtime=no",
            "--disable-shm",
        ]);
        command
            .arg(format!("--load=module-native-protocol-unix socket={} auth-anonymous=1", socket.display()));
        for sink in sinks {
            command
                .arg(format!("--load=module-null-sink sink_name={sink} rate=48000 format=s16le channels=2"));
        }
        command.env("HOME", folder).env("XDG_RUNTIME_DIR", folder).env_remove("DBUS_SESSION_BUS_ADDRESS");
        let mut server = Program::start(&mut command);
        let end = Instant::now() + super::LIMIT;
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            assert!(!server.ended() && Instant::now() < end, "no sound server: {:?}", server.lines());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Self { _server: server, place: format!("unix:{}", socket.display()) }
    }

    /// A program that plays a file of samples, over and over.
    pub(crate) fn plays(&self, file: &Path) -> Program {
        let words =
            format!("while cat {}; do :; done | pacat --playback {}", file.display(), FORMAT.join(" "));
        Program::start(Command::new("sh").args(["-c", &words]).env("PULSE_SERVER", &self.place))
    }

    /// Listens to what a sink plays, 10 ms at a time, each with when the last of it was there.
    pub(crate) fn listens(
        &self,
        sink: &str,
        mut heard: impl FnMut(Instant, &[i16]) + Send + 'static,
    ) -> Listener {
        let mut command = Command::new("parec");
        command.args(FORMAT).arg("--latency-msec=10").arg(format!("--device={sink}.monitor"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).env("PULSE_SERVER", &self.place);
        let mut child = command.spawn().unwrap();
        let mut samples = child.stdout.take().unwrap();
        // It ends with the program.
        std::thread::spawn(move || {
            let mut bytes = [0; 480 * 4];
            while samples.read_exact(&mut bytes).is_ok() {
                let at = Instant::now();
                // Both channels are the same.
                let left: Vec<i16> =
                    bytes.chunks_exact(4).map(|s| i16::from_le_bytes([s[0], s[1]])).collect();
                heard(at, &left);
            }
        });
        Listener(child)
    }
}

/// Somebody who listens, until this is dropped.
pub(crate) struct Listener(Child);

impl Drop for Listener {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const FORMAT: &[&str] = &["--raw", "--format=s16le", "--rate=48000", "--channels=2"];
