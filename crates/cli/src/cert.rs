use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::Subcommand;
use quickset::Identity;

use crate::say::{named, note, say};
use crate::secret;

/// Make certificates for servers of your own.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE, arg_required_else_help = true)]
pub(crate) struct CertArgs {
    #[command(subcommand)]
    verb: CertVerb,
}

#[derive(Debug, Subcommand)]
enum CertVerb {
    /// Make a key and a certificate that it signed itself.
    ///
    /// Writes cert.pem and key.pem (which only you can read) and prints the fingerprint
    /// that clients give to --pin. Files that exist are left alone.
    #[command(after_help = EXAMPLE, verbatim_doc_comment)]
    New {
        /// Host names and addresses that the server is reached by
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
        /// The folder for cert.pem and key.pem
        #[arg(short, long, value_name = "DIR", default_value = ".")]
        output: PathBuf,
        /// Print fingerprint and files as one JSON document
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(args: &CertArgs) -> anyhow::Result<()> {
    let CertVerb::New { names, output, json } = &args.verb;
    let identity = Identity::self_signed(names.iter().cloned()).with_context(|| {
        format!("there is no certificate for {}; give host names or addresses", names.join(" "))
    })?;
    let (cert, key) = (output.join("cert.pem"), output.join("key.pem"));
    // Both are looked for before either is written.
    for file in [&cert, &key] {
        anyhow::ensure!(
            !file.exists(),
            "{} exists; move it away or choose another folder with --output",
            file.display()
        );
    }
    create(&key, identity.private_key_pem(), true)?;
    create(&cert, identity.certificate_pem(), false)?;
    let fingerprint = identity.fingerprint().to_string();
    if *json {
        // As far as they are text: JSON has nothing else.
        let [cert, key] = [&cert, &key].map(|file| file.to_string_lossy());
        let made = serde_json::json!({ "fingerprint": fingerprint, "certificate": cert, "key": key });
        return say!("{made:#}");
    }
    say!("{fingerprint}")?;
    note!("wrote {} and {}", cert.display(), key.display());
    Ok(())
}

/// Who somebody proves to be, by the files of a certificate and its key, which is closed to others.
///
/// # Errors
/// When they cannot be read, or do not belong together.
pub(crate) fn read(cert: &Path, key: &Path) -> anyhow::Result<Identity> {
    let next = "`quickset cert new` makes such files";
    let text = |file: &Path, text: anyhow::Result<String>| {
        text.with_context(|| format!("{} cannot be used; {next}", named(file)))
    };
    let (cert_pem, key_pem) =
        (text(cert, std::fs::read_to_string(cert).map_err(Into::into))?, text(key, secret::read(key))?);
    Identity::from_pem(&cert_pem, &key_pem)
        .with_context(|| format!("{} and {} cannot be used; {next}", named(cert), named(key)))
}

/// Writes a new file, which for a secret nobody else may read at any moment.
fn create(file: &Path, text: &str, secret: bool) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if secret {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    #[cfg(not(unix))]
    let _ = secret;
    let mut out = options.open(file).with_context(|| {
        format!("{} cannot be written; choose another folder with --output", file.display())
    })?;
    out.write_all(text.as_bytes()).with_context(|| format!("{} cannot be written", file.display()))
}

const EXAMPLE: &str = "\
Example: a certificate for a host by name and by address
  quickset cert new desk.example.net 192.0.2.7";
