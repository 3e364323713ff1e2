//! What shells and man(1) want to know of the command, from what it says of itself in its help.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::say::{self, named};

/// Print what a shell reads to complete this command: its subcommands, options and their values.
#[derive(Debug, clap::Args)]
#[command(after_help = COMPLETIONS_EXAMPLE, arg_required_else_help = true)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Write a page for man(1) for this command and each of its subcommands.
#[derive(Debug, clap::Args)]
#[command(after_help = MANUAL_EXAMPLE)]
pub(crate) struct ManualArgs {
    /// The folder for the pages, which is made when it is missing
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn completions(args: &CompletionsArgs) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Command::command(), NAME, &mut script);
    say::text(format_args!("{}", String::from_utf8(script)?))
}

pub(crate) fn pages(args: &ManualArgs) -> anyhow::Result<()> {
    let folder = &args.folder;
    fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", named(folder)))?;
    for page in ManualPage::all()? {
        let file = folder.join(&page.file);
        fs::write(&file, &page.text).with_context(|| format!("{} cannot be written", named(&file)))?;
    }
    Ok(())
}

/// A page of the manual.
struct ManualPage {
    /// As git has them, `quickset-desktop-serve.1`.
    file: PathBuf,
    text: Vec<u8>,
}

impl ManualPage {
    /// The page of the command, and those of all subcommands that its help shows.
    fn all() -> std::io::Result<Vec<Self>> {
        let mut command = crate::Command::command().disable_help_subcommand(true);
        // Only then does each know by what names it is called.
        command.build();
        let mut pages = Vec::new();
        Self::add(&command, &mut pages)?;
        Ok(pages)
    }

    fn add(command: &clap::Command, pages: &mut Vec<Self>) -> std::io::Result<()> {
        let name = command.get_display_name().unwrap_or(NAME).to_owned();
        pages.push(Self::of(command, &name)?);
        command.get_subcommands().filter(|sub| !sub.is_hide_set()).try_for_each(|sub| Self::add(sub, pages))
    }

    fn of(command: &clap::Command, name: &str) -> std::io::Result<Self> {
        // clap_mangen would fill the lines of examples as those of a paragraph.
        let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        let has_subcommands = command.get_subcommands().any(|sub| !sub.is_hide_set());
        let page = Man::new(command.clone());
        // Of clap_mangen's own the empty date gets lost, and what follows it is taken for that. A date of the
        // build would make each build another.
        let version = env!("CARGO_PKG_VERSION");
        let mut text = format!(".TH {name} 1 \"\" \"quickset {version}\" Quickset\n").into_bytes();
        page.render_name_section(&mut text)?;
        page.render_synopsis_section(&mut text)?;
        page.render_description_section(&mut text)?;
        page.render_options_section(&mut text)?;
        if has_subcommands {
            page.render_subcommands_section(&mut text)?;
        }
        let mut end = Roff::new();
        end.control("SH", ["EXAMPLES"]).control("nf", []).text([roman(examples)]).control("fi", []);
        if let Some((above, _)) = name.rsplit_once('-') {
            end.control("SH", ["SEE ALSO"]).text([roman(format!("{above}(1)"))]);
        }
        end.to_writer(&mut text)?;
        Ok(Self { file: Path::new(name).with_extension("1"), text })
    }
}

const NAME: &str = "quickset";

const COMPLETIONS_EXAMPLE: &str = "\
Example: for bash, and for this user alone (the Debian package has them for everybody)
  quickset completions bash > ~/.local/share/bash-completion/completions/quickset";

const MANUAL_EXAMPLE: &str = "\
Example: the pages where man(1) looks for those of a user
  quickset manual ~/.local/share/man/man1";

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Names of pages by the help: each line below `Commands:` begins with a subcommand.
    fn by_help(command: &mut clap::Command, name: &str, names: &mut Vec<String>) {
        let help = command.render_help().to_string();
        names.push(format!("{name}.1"));
        let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
        for line in listed.take_while(|line| !line.is_empty()) {
            // What begins further right goes on with the line above.
            let Some(line) = line.strip_prefix("  ").filter(|line| !line.starts_with(' ')) else { continue };
            let sub = line.split(' ').next().unwrap();
            if sub != "help" {
                by_help(command.find_subcommand_mut(sub).unwrap(), &format!("{name}-{sub}"), names);
            }
        }
    }

    #[test]
    fn each_subcommand_has_a_page_with_its_example() {
        let mut wanted = Vec::new();
        by_help(&mut crate::Command::command(), NAME, &mut wanted);
        assert!(wanted.iter().any(|name| name == "quickset-desktop-serve.1"), "{wanted:?}");
        let pages = ManualPage::all().unwrap();
        let made: Vec<_> = pages.iter().map(|page| page.file.display().to_string()).collect();
        assert_eq!(made, wanted);
        for page in pages {
            let text = String::from_utf8(page.text).unwrap();
            let name = page.file.with_extension("").display().to_string();
            assert!(text.contains(&format!(".TH {name} 1 ")), "{text}");
            assert!(text.contains(".SH EXAMPLES\n.nf\nExample"), "{text}");
        }
    }

    #[test]
    fn man_has_nothing_to_say_against_the_pages() {
        let folder = tempfile::tempdir().unwrap();
        pages(&ManualArgs { folder: folder.path().to_owned() }).unwrap();
        for page in ManualPage::all().unwrap() {
            let file = folder.path().join(page.file);
            let mut man = Command::new("man");
            man.args(["--warnings", "--encoding=UTF-8", "--local-file"]).arg(&file);
            // Lines that cannot be broken are no faults of a page, at this width there are none.
            man.env("LC_ALL", "C.UTF-8").env("MANWIDTH", "100").env("MANROFFSEQ", "").stdin(Stdio::null());
            // It is not on every machine.
            let Ok(shown) = man.output() else { return };
            assert_eq!(String::from_utf8_lossy(&shown.stderr), "", "{}", file.display());
            assert!(shown.status.success() && !shown.stdout.is_empty(), "{}", file.display());
        }
    }

    #[test]
    fn shells_are_told_of_each_subcommand() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut crate::Command::command(), NAME, &mut script);
            let script = String::from_utf8(script).unwrap();
            for sub in crate::Command::command().get_subcommands().filter(|sub| !sub.is_hide_set()) {
                assert!(script.contains(sub.get_name()), "{shell} does not know {}", sub.get_name());
            }
        }
    }
}
