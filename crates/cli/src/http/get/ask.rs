//! What is asked for, beside the URL: a method, fields, content.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use bytes::{Bytes, BytesMut};
use quickset::h3::{ContentSender, Field, Request};
use quickset_desktop::trust::check_secret;
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;
use tokio::sync::mpsc;

use super::super::pulse::Pulse;
use super::H3Url;
use crate::say::{named, note};
use crate::secret;

/// What to ask.
#[derive(Debug, clap::Args)]
pub(super) struct AskArgs {
    /// The method [default: GET, with --data POST]
    #[arg(short = 'X', long, value_name = "METHOD", value_parser = method, conflicts_with = "head")]
    method: Option<String>,
    /// A field of the request, as NAME: VALUE, or those of a file, one a line, with @FILE: what is secret is
    /// in the list of processes else. Without a value a field that is sent otherwise is left out. May stand
    /// several times
    #[arg(short = 'H', long, value_name = "FIELD|@FILE")]
    header: Vec<String>,
    /// Content of the request: this text, or that of a file with @FILE, or what comes on standard input with
    /// -
    #[arg(short, long, value_name = "TEXT|@FILE|-", conflicts_with = "head")]
    data: Option<String>,
    /// Ask for the head only, and print it
    #[arg(short = 'I', long, conflicts_with_all = ["output", "resume"])]
    pub(super) head: bool,
}

/// A request for any URL.
#[derive(Clone, Debug)]
pub(super) struct UrlAsk {
    pub(super) method: String,
    fields: Vec<Field>,
    pub(super) data: Option<RequestData>,
}

/// Where the content of a request comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RequestData {
    Text(Bytes),
    File(PathBuf),
    /// Once.
    Input,
}

impl AskArgs {
    /// # Errors
    /// When a field cannot be sent, or its file not be read.
    pub(super) fn ask(&self) -> anyhow::Result<UrlAsk> {
        let data = self.data.as_deref().map(|text| match text.strip_prefix('@') {
            None if text == "-" => RequestData::Input,
            Some(file) => RequestData::File(file.into()),
            None => RequestData::Text(Bytes::copy_from_slice(text.as_bytes())),
        });
        let method = match (&self.method, self.head, &data) {
            (Some(method), ..) => method.clone(),
            (None, true, _) => "HEAD".to_owned(),
            (None, _, Some(_)) => "POST".to_owned(),
            (None, _, None) => "GET".to_owned(),
        };
        // RFC 9110 §9.3.2, §9.3.8: there is nothing that it could mean.
        let is_odd = data.is_some() && ["HEAD", "TRACE"].contains(&&*method);
        anyhow::ensure!(!is_odd, "a {method} has no content; leave out --data, or name another --method");
        let mut fields = Vec::new();
        for given in &self.header {
            if let Some(file) = given.strip_prefix('@') {
                fields.extend(from_file(Path::new(file))?);
                continue;
            }
            let field =
                field(given).map_err(|fault| anyhow::anyhow!("--header {}: {fault}", shown(given)))?;
            if field.sensitive {
                let name = String::from_utf8_lossy(&field.name).into_owned();
                note!(
                    "quickset: warning: others on this machine can see {name} in the list of processes; put it into a file: --header @FILE"
                );
            }
            fields.push(field);
        }
        Ok(UrlAsk { method, fields, data })
    }
}

impl UrlAsk {
    pub(super) fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// Whether it asks for what is at a URL: what comes is that, or a part.
    pub(super) fn is_get(&self) -> bool {
        self.method == "GET"
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.name == name)
    }

    /// The head of the request for this URL, with its content.
    ///
    /// # Errors
    /// When the content is not to be had.
    pub(super) async fn request(
        &self,
        url: &H3Url,
        priority: Option<&str>,
    ) -> anyhow::Result<(Request, Option<ContentSource>)> {
        let mut request = Request::new(self.method.clone(), url.authority.clone(), url.path.clone());
        let usual =
            [("user-agent", Some(concat!("quickset/", env!("CARGO_PKG_VERSION")))), ("priority", priority)];
        for (name, value) in usual {
            if let Some(value) = value.filter(|_| !self.has(name)) {
                request = request.with(name, value.to_owned());
            }
        }
        // One without a value stands for that there is none.
        request.fields.extend(self.fields.iter().filter(|field| !field.value.is_empty()).cloned());
        let Some(data) = &self.data else { return Ok((request, None)) };
        let (source, len) = data.open().await?;
        if let Some(len) = len {
            request = request.with("content-length", len.to_string());
        }
        Ok((request, Some(source)))
    }
}

/// Content on its way.
#[derive(Debug)]
pub(super) enum ContentSource {
    Text(Bytes),
    /// So many bytes of it, where that is known.
    File {
        file: File,
        name: PathBuf,
        left: Option<u64>,
    },
    Input(mpsc::Receiver<std::io::Result<Bytes>>),
}

impl RequestData {
    /// The content, and how long it is, if that is known.
    async fn open(&self) -> anyhow::Result<(ContentSource, Option<u64>)> {
        match self {
            Self::Text(text) => Ok((ContentSource::Text(text.clone()), Some(text.len() as u64))),
            Self::File(name) => {
                let unread = || format!("{} cannot be read", named(name));
                let file = File::open(name).await.with_context(unread)?;
                let metadata = file.metadata().await.with_context(unread)?;
                anyhow::ensure!(!metadata.is_dir(), "{} is a folder; name a file", named(name));
                let left = metadata.is_file().then_some(metadata.len());
                Ok((ContentSource::File { file, name: name.clone(), left }, left))
            }
            Self::Input => Ok((ContentSource::Input(input()), None)),
        }
    }
}

/// What comes on standard input. Nobody waits for the thread: it may be reading from a terminal when all else
/// is done.
fn input() -> mpsc::Receiver<std::io::Result<Bytes>> {
    let (parts, received) = mpsc::channel(1);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        loop {
            let mut part = BytesMut::zeroed(PART);
            let read = match input.read(&mut part) {
                Ok(0) => return,
                Ok(n) => {
                    part.truncate(n);
                    Ok(part.freeze())
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let is_last = read.is_err();
            if parts.blocking_send(read).is_err() || is_last {
                return;
            }
        }
    });
    received
}

impl ContentSource {
    /// Sends all of it, as the server takes it. A server may answer before it has all, and want no more: that
    /// is no error.
    ///
    /// # Errors
    /// When the content cannot be read. The server hears then that this was not all.
    pub(super) async fn send(mut self, mut out: ContentSender, pulse: &Pulse) -> anyhow::Result<()> {
        loop {
            // What is wrong with the connection the answer tells.
            let Ok(room) = out.room().await else { return Ok(()) };
            let Some(mut part) = self.next(room.min(PART)).await? else { break };
            while !part.is_empty() {
                if out.send_some(&mut part).await.is_err() {
                    return Ok(());
                }
                pulse.moved();
            }
        }
        let _ = out.finish();
        Ok(())
    }

    async fn next(&mut self, most: usize) -> anyhow::Result<Option<Bytes>> {
        match self {
            Self::Text(text) if text.is_empty() => Ok(None),
            Self::Text(text) => Ok(Some(text.split_to(most.min(text.len())))),
            Self::File { left: Some(0), .. } => Ok(None),
            Self::File { file, name, left } => {
                let most =
                    left.map_or(most, |left| usize::try_from(left).map_or(most, |left| left.min(most)));
                let mut part = BytesMut::zeroed(most);
                let n =
                    file.read(&mut part).await.with_context(|| format!("{} cannot be read", named(name)))?;
                part.truncate(n);
                match left {
                    Some(left) => {
                        anyhow::ensure!(n > 0, "{} became shorter while it was sent", named(name));
                        *left -= n as u64;
                    }
                    None if n == 0 => return Ok(None),
                    None => {}
                }
                Ok(Some(part.freeze()))
            }
            Self::Input(parts) => {
                Ok(parts.recv().await.transpose().context("standard input cannot be read")?)
            }
        }
    }
}

/// The fields of a file, one a line.
fn from_file(file: &Path) -> anyhow::Result<Vec<Field>> {
    let mut fields = Vec::new();
    let open = std::fs::File::open(file).with_context(|| format!("{} cannot be read", named(file)))?;
    let text = secret::text(file, &open)?;
    for (n, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        // Of what is there nothing is repeated: it may be secret, if it is no field.
        let read =
            field(line).map_err(|fault| anyhow::anyhow!("{}, line {}: {fault}", named(file), n + 1))?;
        if read.sensitive {
            check_secret(file, &open)?;
        }
        // Whatever it is, somebody took care.
        fields.push(Field { sensitive: true, ..read });
    }
    Ok(fields)
}

/// A field, as NAME: VALUE; it is sensitive if its name says so.
fn field(text: &str) -> Result<Field, String> {
    let (name, value) = text.split_once(':').ok_or("write it as NAME: VALUE")?;
    let (name, value) = (name.to_ascii_lowercase(), value.trim_matches([' ', '\t']));
    // RFC 9114 §4.2.
    let fault = match &*name {
        "connection" | "keep-alive" | "proxy-connection" | "transfer-encoding" | "upgrade" => {
            Some("it is of connections of HTTP/1.1, which this is not")
        }
        "te" if !value.is_empty() && !value.eq_ignore_ascii_case("trailers") => {
            Some("by HTTP/3 it is `trailers` only")
        }
        "host" => Some("the host is that of the URL"),
        "content-length" => Some("that is counted, of what --data gives"),
        "expect" => Some("content is sent without being waited for"),
        _ => None,
    };
    if let Some(fault) = fault {
        return Err(format!("{name} cannot be sent: {fault}; leave it out"));
    }
    let field = Field { sensitive: is_credential(&name), ..Field::new(name, value.to_owned()) };
    let asked = Request { fields: vec![field.clone()], ..Request::new("GET", "host", "/") };
    asked.check().map_err(|fault| format!("it is none ({fault}); write it as NAME: VALUE"))?;
    Ok(field)
}

/// Whether a field of this name lets somebody in.
fn is_credential(name: &str) -> bool {
    ["authorization", "proxy-authorization", "cookie"].contains(&name)
        || ["-key", "-token", "-secret"].iter().any(|end| name.ends_with(end))
}

/// A field for a message, without its value.
fn shown(field: &str) -> String {
    match field.split_once(':') {
        Some((name, _)) => format!("{name}: …"),
        None => "…".to_owned(),
    }
}

/// RFC 9110 §9.1: a token. What makes a tunnel is no request for a URL.
fn method(text: &str) -> Result<String, String> {
    let is_token = Request::new(text.to_owned(), "host", "/").check().is_ok();
    match text {
        "CONNECT" => Err("it makes a tunnel, for which there is no way from here".to_owned()),
        _ if is_token => Ok(text.to_owned()),
        _ => Err("write it like PUT".to_owned()),
    }
}

/// Bytes read at a time at most.
const PART: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_what_may_be_sent() {
        for (text, name, value, sensitive) in [
            ("Accept: text/html", "accept", "text/html", false),
            ("x-a:b:c", "x-a", "b:c", false),
            ("X-Empty:", "x-empty", "", false),
            ("Authorization: Bearer x", "authorization", "Bearer x", true),
            ("X-Api-Key:\tx ", "x-api-key", "x", true),
            ("TE: trailers", "te", "trailers", false),
        ] {
            let field = field(text).unwrap();
            assert_eq!(
                (&*field.name, &*field.value, field.sensitive),
                (name.as_bytes(), value.as_bytes(), sensitive)
            );
        }
        // RFC 9114 §4.2, §4.3: those of connections, and of the request line.
        for text in [
            "accept",
            ":path: /x",
            ": x",
            "a b: c",
            "a: b\r\nc: d",
            "a: \0",
            "connection: close",
            "Keep-Alive: 5",
            "Transfer-Encoding: chunked",
            "upgrade: h2c",
            "TE: gzip",
            "Host: other",
            "content-length: 7",
            "Expect: 100-continue",
        ] {
            let said = field(text).unwrap_err();
            assert!(said.contains("leave it out") || said.contains("NAME: VALUE"), "{text}: {said}");
        }
    }

    #[test]
    fn secrets_are_taken_from_files_that_are_closed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("fields");
        std::fs::write(&file, "accept: a/b\n\nX-Id: 7\r\n").unwrap();
        let fields = from_file(&file).unwrap();
        assert!(fields.len() == 2 && fields.iter().all(|field| field.sensitive), "{fields:?}");
        assert_eq!(fields[1].value, "7");
        std::fs::write(&file, "cookie: a=b\n").unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
            let said = from_file(&file).unwrap_err().to_string();
            assert!(said.contains("chmod 600"), "{said}");
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        assert!(from_file(&file).is_ok());
        std::fs::write(&file, "accept: a/b\nsecret\n").unwrap();
        let said = from_file(&file).unwrap_err().to_string();
        assert!(said.contains("line 2") && !said.contains("secret"), "{said}");
    }

    #[test]
    fn methods_are_tokens() {
        for good in ["GET", "PUT", "M-SEARCH", "x!"] {
            assert_eq!(method(good).as_deref(), Ok(good));
        }
        for bad in ["", "A B", "GET\n", "CONNECT", "é"] {
            assert!(method(bad).is_err(), "{bad}");
        }
    }
}
