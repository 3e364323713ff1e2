use quickset::h3::{Request, Response};

use super::*;

const RULES: &str = r#"
[[rule]]
path = "/app/**"
type = "Image/*"
u = 4
i = true
exp_w = 2
parents = [{ name = "images", i = true, exp_w = 0.25 }, { name = "app", u = 1 }]

[[rule]]
type = "text/html"
u = 3
i = false
exp_b = 2
exp_d = 20

[[rule]]
path = "/été/*"
exp_w = 0.5
unless_asked = true

[[rule]]
path = "/plain"

[[rule]]
path = "/**"
u = 7
"#;

fn verdict(path: &'static str, kind: &'static str) -> Option<(bool, String)> {
    let ranks = Ranks::parse(RULES).unwrap();
    let response = Response::new(200).with("content-type", kind);
    let (own, priority) = match ranks.of(&Request::new("GET", "example.com", path), &response)? {
        RankVerdict::Own(priority) => (true, priority),
        RankVerdict::Usual(priority) => (false, priority),
    };
    Some((own, String::from_utf8(priority.value().to_vec()).unwrap()))
}

#[test]
fn the_first_rule_that_fits_counts() {
    let own = |value: &str| Some((true, value.to_owned()));
    let image = r#"u=4, i, exp_w=2.0, exp_p=("images";i;exp_w=0.25 "app";u=1)"#;
    assert_eq!(verdict("/app/x/y.png?v=1", "image/png"), own(image));
    assert_eq!(verdict("/app/index.html", "Text/HTML; charset=utf-8"), own("u=3, i=?0, exp_b=2, exp_d=20"));
    assert_eq!(verdict("/%C3%A9t%c3%a9/a", "text/css"), Some((false, "exp_w=0.5".to_owned())));
    assert_eq!(verdict("/plain", "text/css"), own(""), "as the client says");
    assert_eq!(verdict("/app/%ff/%0a.png", "image/png"), own(image), "names need not be text");
    assert_eq!(verdict("/apple", "image/png"), own("u=7"));
    assert_eq!(verdict("*", "image/png"), None);
    assert!(Ranks::default().rules.is_empty());
}

#[test]
fn errors_name_the_line_and_the_field() {
    for (text, line, needle) in [
        ("[[rule]]\nu = 8", 2, "u is 0"),
        ("[[rule]]\n\nu = -1\ni = true", 3, "not -1"),
        ("[[rule]]\nu = \"1\"", 2, "string"),
        ("[[rule]]\nu = 1\ni = 1", 3, "boolean"),
        ("[[rule]]\nexp_w = 0", 2, "exp_w is a number from 0.01 to 100"),
        ("[[rule]]\nexp_w = -1.5", 2, "exp_w"),
        ("[[rule]]\nexp_w = nan", 2, "exp_w"),
        ("[[rule]]\nexp_w = 101", 2, "exp_w"),
        ("[[rule]]\nexp_w = \"1\"", 2, "exp_w"),
        ("[[rule]]\nexp_b = -1", 2, "exp_b"),
        ("[[rule]]\nexp_d = 1.5", 2, "exp_d"),
        ("[[rule]]\nurgency = 1", 2, "unknown field `urgency`"),
        ("[[rule]]\n[[rule]]\nparents = [{ name = \"\" }]", 3, "name of a class"),
        ("[[rule]]\nparents = [\n  { name = \"a\" },\n  { name = \"b\", u = 9 },\n]", 4, "u is 0"),
        ("[[rule]]\nparents = [{ u = 1 }]", 2, "name"),
        ("[rules]", 1, "unknown field `rules`"),
        ("[[rule]]\nu = ", 2, "u ="),
        ("[[rule]]\npath = 3", 2, "path"),
        ("[[rule]]\nu = 1\npath = \"img/**\"", 3, "no path fits"),
        ("[[rule]]\npath = \"*.css\"", 2, "**.css"),
        ("[[rule]]\ntype = \"image\"", 2, "no type fits"),
        ("[[rule]]\ntype = \"text/html; charset=utf-8\"", 2, "no type fits"),
    ] {
        let error = Ranks::parse(text).expect_err(text);
        assert!(error.starts_with(&format!("line {line}, ")), "{text}: {error}");
        assert!(error.contains(needle), "{text}: {error}");
    }
    assert!(Ranks::parse("").unwrap().rules.is_empty());
}
