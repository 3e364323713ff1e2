//! Patterns of rules on paths and content types.

/// A pattern for a whole text: `*` is any characters but slashes, `**` any at all, `?` one that is no slash.
#[derive(Clone, Debug)]
pub(in super::super) struct Glob(Vec<GlobStep>);

#[derive(Clone, Copy, Debug)]
enum GlobStep {
    Just(char),
    One,
    /// Any number of characters, among them slashes or not.
    Any {
        slashes: bool,
    },
}

impl Glob {
    /// Looks at each character once for each step of the pattern: a client chooses the path.
    pub(in super::super) fn fits(&self, text: &str) -> bool {
        let Self(steps) = self;
        // Which steps may be next.
        let mut at = vec![false; steps.len() + 1];
        at[0] = true;
        self.skip(&mut at);
        for c in text.chars() {
            let mut next = vec![false; steps.len() + 1];
            for (n, step) in steps.iter().enumerate().filter(|(n, _)| at[*n]) {
                match step {
                    GlobStep::Just(just) => next[n + 1] |= *just == c,
                    GlobStep::One => next[n + 1] |= c != '/',
                    GlobStep::Any { slashes } => next[n] |= *slashes || c != '/',
                }
            }
            self.skip(&mut next);
            at = next;
        }
        at[steps.len()]
    }

    /// Whether there is a text that begins with a slash, like paths, and fits.
    pub(in super::super) fn takes_paths(&self) -> bool {
        let first = self.0.iter().find(|step| !matches!(step, GlobStep::Any { slashes: false }));
        matches!(first, Some(GlobStep::Just('/') | GlobStep::Any { .. }))
    }

    /// Any number may be none.
    fn skip(&self, at: &mut [bool]) {
        for (n, step) in self.0.iter().enumerate() {
            at[n + 1] |= at[n] && matches!(step, GlobStep::Any { .. });
        }
    }
}

impl From<&str> for Glob {
    fn from(pattern: &str) -> Self {
        let mut steps = Vec::new();
        for c in pattern.chars() {
            match (c, steps.last_mut()) {
                ('*', Some(GlobStep::Any { slashes })) => *slashes = true,
                ('*', _) => steps.push(GlobStep::Any { slashes: false }),
                ('?', _) => steps.push(GlobStep::One),
                (just, _) => steps.push(GlobStep::Just(just)),
            }
        }
        Self(steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_whole_texts() {
        for (pattern, fits, fails) in [
            ("/", &["/"][..], &["", "/a"][..]),
            ("/*.css", &["/a.css", "/.css"], &["/a/b.css", "/a.css2"]),
            ("/**.css", &["/a.css", "/a/b.css"], &["/a.cs"]),
            ("/img/**", &["/img/", "/img/a/b"], &["/img", "/image"]),
            ("**/a?c", &["/abc", "x/y/a-c"], &["/a/c", "/ac"]),
            ("image/*", &["image/png"], &["text/image/png"]),
            ("*é*", &["été", "é"], &["e"]),
            ("", &[""], &["/"]),
        ] {
            let glob = Glob::from(pattern);
            for text in fits {
                assert!(glob.fits(text), "{pattern} {text}");
            }
            for text in fails {
                assert!(!glob.fits(text), "{pattern} {text}");
            }
        }
    }

    #[test]
    fn patterns_for_paths_can_begin_with_a_slash() {
        for (pattern, takes) in [
            ("/", true),
            ("**", true),
            ("**.css", true),
            ("*/a", true),
            ("***/a", true),
            ("", false),
            ("*", false),
            ("*.css", false),
            ("?img", false),
            ("img/**", false),
        ] {
            assert_eq!(Glob::from(pattern).takes_paths(), takes, "{pattern}");
        }
    }

    #[test]
    fn hard_patterns_take_no_longer() {
        let glob = Glob::from(&*"**a".repeat(20));
        assert!(!glob.fits(&"a".repeat(5000).replace("aaaa", "aaab")[..4999].replace('a', "b")));
        assert!(glob.fits(&"a".repeat(5000)));
    }
}
