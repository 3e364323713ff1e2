//! What a command has to say, on standard output.

use std::fmt::Arguments;
use std::io::{ErrorKind, Write};

/// Prints a line to standard output, as [`text`] does.
macro_rules! say {
    ($($words:tt)*) => {
        $crate::say::text(format_args!("{}\n", format_args!($($words)*)))
    };
}
pub(crate) use say;

/// Prints to standard output. A reader who wants no more, like `head`, is no error: what there is to do goes on.
pub(crate) fn text(words: Arguments<'_>) -> anyhow::Result<()> {
    print(&mut std::io::stdout().lock(), words)
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
}
