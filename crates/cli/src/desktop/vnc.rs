//! The VNC servers of `quickset desktop serve`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use quickset::Trust;
use quickset_desktop::serve::{DesktopConfig, VncTrust};
use quickset_desktop::trust::{DesktopLabel, GatewayFolder, ParseLabelError, read_login};

use super::vnc_password;
use crate::say::named;
use crate::values;

/// Which VNC servers to show, and how to come in there.
#[derive(Debug, clap::Args)]
pub(super) struct VncArgs {
    /// The VNC server; no other can be reached through this gateway. Display :1 has the port 5901, and so on.
    /// May be repeated for several desktops, each with a name, which links and `desktop view --desktop`
    /// choose
    #[arg(long, value_name = "[NAME=]HOST:PORT", required_unless_present = "config", value_parser = desktop_place)]
    vnc: Vec<DesktopPlace>,
    /// File with the VNC server's password, readable by you alone; of several desktops, for the one of this
    /// name, or for all that have none of their own
    #[arg(long, value_name = "[NAME=]FILE")]
    vnc_password_file: Vec<String>,
    /// File with the name and, in its second line, the password of a user whom the VNC server asks for
    /// (X509Plain), readable by you alone
    #[arg(long, value_name = "[NAME=]FILE")]
    vnc_login_file: Vec<String>,
    /// Certificate authorities to believe of the VNC server, as PEM: it has to encrypt (VeNCrypt), with a
    /// certificate of theirs for its name [default: a VNC server that encrypts is believed on first use, and
    /// has the same key from then on]
    #[arg(long, value_name = "[NAME=]FILE")]
    vnc_ca: Vec<String>,
    /// The fingerprint of the VNC server's certificate: it has to encrypt (VeNCrypt), with this one
    #[arg(long, value_name = "[NAME=]sha256:…")]
    vnc_pin: Vec<String>,
}

/// Where a desktop is, and how clients call it.
#[derive(Clone, Debug)]
struct DesktopPlace {
    name: Option<DesktopLabel>,
    vnc: String,
}

fn desktop_place(text: &str) -> Result<DesktopPlace, String> {
    let (name, place) = match text.split_once('=') {
        Some((name, place)) => (Some(name.parse().map_err(|e: ParseLabelError| e.to_string())?), place),
        None => (None, text),
    };
    Ok(DesktopPlace { name, vnc: values::place(place, Some(5900))? })
}

impl VncArgs {
    /// The desktops that these options name; what is known of their VNC servers is in `folder`.
    ///
    /// # Errors
    /// When they contradict one another, or a file cannot be used.
    pub(super) fn desktops(&self, folder: &GatewayFolder) -> anyhow::Result<Vec<DesktopConfig>> {
        for (i, place) in self.vnc.iter().enumerate() {
            let name = place.name.as_ref();
            ensure!(
                name.is_some() || self.vnc.len() == 1,
                "of several desktops each needs a name: write --vnc NAME={}",
                place.vnc
            );
            let twice = self.vnc[..i].iter().any(|other| other.name.as_ref() == name);
            ensure!(!twice, "two desktops are called {}", name.map_or("", DesktopLabel::as_str));
        }
        let passwords = self.of_each(&self.vnc_password_file, "--vnc-password-file NAME=FILE")?;
        let logins = self.of_each(&self.vnc_login_file, "--vnc-login-file NAME=FILE")?;
        let authorities = self.of_each(&self.vnc_ca, "--vnc-ca NAME=FILE")?;
        let pins = self.of_each(&self.vnc_pin, "--vnc-pin NAME=sha256:…")?;
        let desktop = |(i, place): (usize, &DesktopPlace)| {
            let login = logins[i].map(|file| read_login(Path::new(file))).transpose()?;
            let trust = match (authorities[i], pins[i]) {
                (Some(_), Some(_)) => bail!("a VNC server is known by --vnc-ca or by --vnc-pin, not by both"),
                (Some(file), None) => VncTrust::Authorities(authorities_in(Path::new(file))?),
                (None, Some(pin)) => VncTrust::Pinned(pin.parse()?),
                (None, None) => VncTrust::Known(folder.known_vnc_servers()?),
            };
            Ok(DesktopConfig {
                name: place.name.clone(),
                vnc_password: vnc_password(passwords[i].map(PathBuf::from).as_ref())?,
                vnc_login: login,
                vnc_trust: trust,
                ..DesktopConfig::at(place.vnc.clone())
            })
        };
        self.vnc.iter().enumerate().map(desktop).collect()
    }

    /// For each desktop what an option says of it: that with its name before, or else that without a name.
    fn of_each<'a>(&self, all: &'a [String], form: &str) -> anyhow::Result<Vec<Option<&'a str>>> {
        let names: Vec<&str> =
            self.vnc.iter().filter_map(|place| place.name.as_ref().map(DesktopLabel::as_str)).collect();
        // A name of a file may have the sign in it, too.
        let named = |text: &'a str| text.split_once('=').filter(|(name, _)| names.contains(name));
        let mut common = all.iter().map(String::as_str).filter(|text| named(text).is_none());
        let rest = common.next();
        ensure!(common.next().is_none(), "write {form} for desktops with one of their own");
        let of = |place: &DesktopPlace| {
            let name = place.name.as_ref().map(DesktopLabel::as_str);
            let own = all.iter().filter_map(|text| named(text)).find(|(n, _)| Some(*n) == name);
            own.map(|(_, value)| value).or(rest)
        };
        Ok(self.vnc.iter().map(of).collect())
    }
}

fn authorities_in(file: &Path) -> anyhow::Result<Trust> {
    let pem = std::fs::read_to_string(file).with_context(|| format!("{} cannot be read", named(file)))?;
    Trust::roots(&pem).with_context(|| format!("{} cannot be used", named(file)))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::super::serve::ServeArgs;
    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: ServeArgs,
    }

    fn configured(line: &Line) -> anyhow::Result<Vec<DesktopConfig>> {
        let folder = tempfile::tempdir()?;
        line.args.vnc.desktops(&GatewayFolder::at(folder.path()))
    }

    fn desktops(words: &[&str]) -> Result<Vec<String>, String> {
        let line = Line::try_parse_from([&["serve"], words].concat()).map_err(|error| error.to_string())?;
        let told = |d: DesktopConfig| format!("{:?} {} {}", d.name, d.vnc, d.vnc_password.is_some());
        Ok(configured(&line).map_err(|error| error.to_string())?.into_iter().map(told).collect())
    }

    #[test]
    fn several_desktops_have_names() {
        assert_eq!(desktops(&["--vnc", "h"]).unwrap(), ["None h:5900 false"]);
        let two = ["--vnc", "work=[::1]:5901", "--vnc", "play=h"];
        let (work, play) = ("Some(DesktopLabel(\"work\")) [::1]:5901", "Some(DesktopLabel(\"play\")) h:5900");
        assert_eq!(desktops(&two).unwrap(), [format!("{work} false"), format!("{play} false")]);
        for (words, told) in [
            (&["--vnc", "a=h", "--vnc", "h"][..], "write --vnc NAME=h:5900"),
            (&["--vnc", "a=h", "--vnc", "a=g"], "called a"),
            (&["--vnc", "a b=h"], "letters, digits"),
            (&["--vnc", "=h"], "letters, digits"),
            (&[], "--vnc"),
        ] {
            let said = desktops(words).unwrap_err();
            assert!(said.contains(told), "{words:?}: {said}");
        }
        // Passwords: that of all, and that of one.
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a=b").display().to_string();
        std::fs::write(&file, "secret").unwrap();
        #[cfg(unix)]
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        let (play_file, option) = (format!("play={file}"), "--vnc-password-file");
        let with = |files: &[&str]| desktops(&[&two[..], files].concat());
        assert_eq!(with(&[option, &play_file]).unwrap(), [format!("{work} false"), format!("{play} true")]);
        assert_eq!(with(&[option, &file]).unwrap(), [format!("{work} true"), format!("{play} true")]);
        assert!(with(&[option, &file, option, &file]).unwrap_err().contains("NAME=FILE"));
    }
    #[test]
    fn each_vnc_server_is_trusted_in_its_own_way() {
        let trust = |words: &[&str]| -> Result<Vec<String>, String> {
            let words = [&["serve", "--vnc", "work=h:1", "--vnc", "play=h:2"], words].concat();
            let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
            let told = |d: DesktopConfig| match d.vnc_trust {
                VncTrust::Pinned(pin) => pin.to_string(),
                VncTrust::Known(_) => "known".to_owned(),
                VncTrust::Authorities(_) => "authorities".to_owned(),
                VncTrust::Unencrypted => "none".to_owned(),
            };
            Ok(configured(&line).map_err(|error| error.to_string())?.into_iter().map(told).collect())
        };
        let pin = format!("sha256:{}", "7".repeat(64));
        let of_play = format!("play={pin}");
        assert_eq!(trust(&[]).unwrap(), ["known", "known"]);
        assert_eq!(trust(&["--vnc-pin", &of_play]).unwrap(), ["known", &pin]);
        assert_eq!(trust(&["--vnc-pin", &pin]).unwrap(), [&pin[..], &pin]);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem").display().to_string();
        let identity = quickset::Identity::self_signed(["h"]).unwrap();
        std::fs::write(&file, identity.certificate_pem()).unwrap();
        assert_eq!(trust(&["--vnc-ca", &file]).unwrap(), ["authorities", "authorities"]);
        for (words, told) in [
            (&["--vnc-pin", "sha256:7"][..], "64 hexadecimal digits"),
            (&["--vnc-ca", "/nowhere/ca.pem"], "/nowhere/ca.pem cannot be read"),
            (&["--vnc-ca", &file, "--vnc-pin", &pin], "not by both"),
            (&["--vnc-login-file", "/nowhere/login"], "/nowhere/login"),
        ] {
            let said = trust(words).unwrap_err();
            assert!(said.contains(told), "{words:?}: {said}");
        }
    }
}
