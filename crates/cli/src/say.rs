//! What a command has to say: on standard output, and beside that on standard error.

use std::fmt::{Arguments, Write as _};
use std::io::{ErrorKind, Write};

/// Prints a line to standard output, as [`text`] does.
macro_rules! say {
    ($($words:tt)*) => {
        $crate::say::text(format_args!("{}\n", format_args!($($words)*)))
    };
}
pub(crate) use say;

/// Writes a line to standard error, as [`aside`] does.
macro_rules! note {
    ($($words:tt)*) => {
        $crate::say::aside(format_args!("{}\n", format_args!($($words)*)))
    };
}
pub(crate) use note;

/// Prints to standard output. A reader who wants no more, like `head`, is no error: what there is to do goes on.
pub(crate) fn text(words: Arguments<'_>) -> anyhow::Result<()> {
    print(&mut std::io::stdout().lock(), words)
}

/// Writes to standard error. Where that cannot be written (a full disk below a log, a reader who left) nobody hears it and what
/// there is to do goes on; `eprintln!` would panic, and so end answers that others wait for, or the server.
pub(crate) fn aside(words: Arguments<'_>) {
    // At once, since standard error has no buffer: lines of several programs may share a file.
    let _ = std::io::stderr().lock().write_all(words.to_string().as_bytes());
}

/// Words of others, for a line of ours: what acts on a terminal, ends the line or turns its direction is escaped.
pub(crate) fn plain(words: &str) -> String {
    let acts = |c: char| c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    words.chars().fold(String::new(), |mut out, c| {
        if acts(c) {
            let _ = write!(out, "{}", c.escape_default());
        } else {
            out.push(c);
        }
        out
    })
}

fn print(output: &mut impl Write, words: Arguments<'_>) -> anyhow::Result<()> {
    match output.write_fmt(words).and_then(|()| output.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("standard output cannot be written"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Output(ErrorKind);

    impl Write for Output {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn who_stops_reading_is_no_error_and_a_full_disk_is() {
        assert!(print(&mut Output(ErrorKind::BrokenPipe), format_args!("10 Gbit/s")).is_ok());
        let error =
            print(&mut Output(ErrorKind::StorageFull), format_args!("10 Gbit/s")).expect_err("it is full");
        assert!(error.to_string().contains("standard output"), "{error}");
    }

    #[test]
    fn words_of_others_do_not_act() {
        assert_eq!(plain("été, \"so\" \\ 'so'"), "été, \"so\" \\ 'so'");
        assert_eq!(plain("a\r\n\tb"), "a\\r\\n\\tb");
        assert_eq!(plain("\u{1b}[2J\u{9b}2J\u{7f}"), "\\u{1b}[2J\\u{9b}2J\\u{7f}");
        assert_eq!(plain("\u{202e}gpj\u{2066}"), "\\u{202e}gpj\\u{2066}");
    }
}
