//! Pages that browsers ask for, as data: resources, their sizes, what waits for what, and what is urgent.

use quickset_base::Rng;
use quickset_base::number::Float as _;

use crate::play::PageResource;

/// How the requests of a page say what is urgent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hierarchy {
    /// By urgency alone; all are of use in parts.
    Flat,
    /// By a tree of classes with weights (TUM 2025, table I): `exp_p` and `exp_w`.
    Tree,
}

/// The page of TUM 2025, figure 6: nine resources, all asked for at once. What is seen first is the image
/// `LCP`.
pub fn nine(hierarchy: Hierarchy) -> Vec<PageResource> {
    let resource = |(name, kilobytes, flat, tree): &(&str, u64, &str, &str)| PageResource {
        priority: match hierarchy {
            Hierarchy::Flat => (*flat).to_owned(),
            Hierarchy::Tree => (*tree).to_owned(),
        },
        is_seen: *name == "LCP",
        ..PageResource::new(*name, kilobytes * 1000)
    };
    NINE.iter().map(resource).collect()
}

/// 150 resources of a usual page: a page of its own for each number.
///
/// Sizes have log-normal distributions, by the median and the ninetieth percentile of each kind (the HTTP
/// Archive's, 2024). They are asked for in three waves, as in a browser: the document; style sheets, scripts
/// and half of the images, which it names; and behind the style sheets the fonts, behind the scripts all
/// others. Urgencies are those of Chromium.
pub fn usual(number: u64) -> Vec<PageResource> {
    let mut rng = Rng::new(number ^ PAGE);
    let mut page: Vec<PageResource> = Vec::new();
    let of = |page: &[PageResource], kind: &str| -> Vec<usize> {
        (0..page.len()).filter(|n| page[*n].name.starts_with(kind)).collect()
    };
    for kind in KINDS {
        for n in 1..=kind.count {
            let after = match kind.name {
                "html" => Vec::new(),
                "font" => of(&page, "css"),
                "rest" => of(&page, "js"),
                "image" if n > kind.count / 2 => of(&page, "js"),
                _ => vec![0],
            };
            let is_in_view = kind.name == "image" && n <= IN_VIEW;
            let priority = if is_in_view { "u=2, i" } else { kind.priority };
            page.push(PageResource {
                priority: priority.to_owned(),
                after,
                is_seen: is_in_view || matches!(kind.name, "html" | "css" | "font"),
                ..PageResource::new(format!("{} {n}", kind.name), kind.sizes.draw(&mut rng))
            });
        }
    }
    page
}

/// Resources of a kind.
struct ResourceKind {
    name: &'static str,
    count: usize,
    sizes: ResourceSizes,
    priority: &'static str,
}

/// Bytes of resources of a kind.
enum ResourceSizes {
    Always(u64),
    /// From this to that, each as likely.
    Even(u64, u64),
    /// Median and ninetieth percentile.
    LogNormal(f64, f64),
}

impl ResourceSizes {
    fn draw(&self, rng: &mut Rng) -> u64 {
        match *self {
            Self::Always(bytes) => bytes,
            Self::Even(from, to) => from + rng.below(to - from + 1),
            Self::LogNormal(median, ninetieth) => {
                let sigma = (ninetieth / median).ln() / NINETIETH;
                let bytes = (median.ln() + sigma * normal(rng)).exp();
                bytes.round().whole::<u64>().clamp(LEAST, MOST)
            }
        }
    }
}

/// A standard normal number (Box and Muller, 1958).
fn normal(rng: &mut Rng) -> f64 {
    // Above 0, for the logarithm's sake.
    let (u, v) = (1.0 - rng.unit(), rng.unit());
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// Name, kilobytes, and how it is asked for: flat, and as a tree.
///
/// The tree: `HTML` and `web` share 1 to 4; in `web` the style sheet is before the script, and that before
/// the font. Behind all of these `img`, in which `ivp`, what is in the viewport, is before `off`. (The paper
/// has the weights of `HTML` and `web`, the style sheet before the script, image A's parents and a heavier
/// LCP; the rest is ours.)
const NINE: [(&str, u64, &str, &str); 9] = [
    ("HTML", 148, "u=0, i", "u=0, i, exp_w=0.2"),
    ("CSS", 260, "u=1, i", r#"u=0, exp_p=("web";u=0;i;exp_w=0.8)"#),
    ("JS", 620, "u=2, i", r#"u=1, exp_p=("web";u=0;i;exp_w=0.8)"#),
    ("font", 116, "u=3, i", r#"u=2, exp_p=("web";u=0;i;exp_w=0.8)"#),
    ("LCP", 177, "u=3, i", r#"i, exp_w=2, exp_p=("ivp";u=3;i "img";u=1)"#),
    ("A", 177, "u=3, i", r#"i, exp_p=("ivp";u=3;i "img";u=1)"#),
    ("B", 177, "u=3, i", r#"i, exp_p=("ivp";u=3;i "img";u=1)"#),
    ("C", 177, "u=4, i", r#"i, exp_p=("off";u=4;i "img";u=1)"#),
    ("D", 177, "u=4, i", r#"i, exp_p=("off";u=4;i "img";u=1)"#),
];

const KINDS: [ResourceKind; 6] = [
    ResourceKind { name: "html", count: 1, sizes: ResourceSizes::Always(33_000), priority: "u=0, i" },
    ResourceKind { name: "css", count: 9, sizes: ResourceSizes::LogNormal(8e3, 60e3), priority: "u=0" },
    ResourceKind { name: "js", count: 24, sizes: ResourceSizes::LogNormal(20e3, 90e3), priority: "u=1" },
    ResourceKind { name: "font", count: 5, sizes: ResourceSizes::LogNormal(30e3, 60e3), priority: "u=1" },
    ResourceKind { name: "image", count: 70, sizes: ResourceSizes::LogNormal(12e3, 180e3), priority: "i" },
    ResourceKind { name: "rest", count: 41, sizes: ResourceSizes::Even(1000, 5000), priority: "u=4" },
];

/// Images in the viewport.
const IN_VIEW: usize = 8;
/// The ninetieth percentile of the standard normal distribution.
const NINETIETH: f64 = 1.281_551_565_544_6;
/// Nothing is smaller than a pixel, or larger than what a page's author would cut down.
const LEAST: u64 = 100;
const MOST: u64 = 1_000_000;
/// Pages are not the losses of the same number.
const PAGE: u64 = 0x7061_6765;

#[cfg(test)]
mod tests {
    use quickset_h3::{Priority, sfv::ListEntry};

    use super::*;

    #[test]
    fn the_page_of_the_paper_adds_up() {
        for hierarchy in [Hierarchy::Flat, Hierarchy::Tree] {
            let page = nine(hierarchy);
            assert_eq!(page.iter().map(|resource| resource.bytes).sum::<u64>(), 2_029_000);
            assert!(page.iter().all(|resource| resource.after.is_empty()));
            let seen: Vec<&str> =
                page.iter().filter(|resource| resource.is_seen).map(|resource| &resource.name[..]).collect();
            assert_eq!(seen, ["LCP"]);
        }
        let flat: Vec<(u8, bool)> = nine(Hierarchy::Flat)
            .iter()
            .map(|resource| {
                let priority = Priority::parse(resource.priority.as_bytes()).unwrap();
                (priority.urgency, priority.incremental)
            })
            .collect();
        assert_eq!(flat, [0, 1, 2, 3, 3, 3, 3, 4, 4].map(|urgency| (urgency, true)));
    }

    /// What is written of the tree is what HTTP reads: the parents of each resource, the nearest first.
    #[test]
    fn the_tree_can_be_read() {
        let parents: Vec<Vec<String>> = nine(Hierarchy::Tree)
            .iter()
            .map(|resource| {
                let priority = Priority::parse(resource.priority.as_bytes()).expect(&resource.priority);
                match priority.parameters.get("exp_p") {
                    Some(ListEntry::InnerList(list)) => {
                        let name = |item: &quickset_h3::sfv::Item| {
                            item.bare_item.as_string().unwrap().as_str().to_owned()
                        };
                        list.items.iter().map(name).collect()
                    }
                    _ => Vec::new(),
                }
            })
            .collect();
        let (web, seen, off) = (vec!["web"], vec!["ivp", "img"], vec!["off", "img"]);
        let none = Vec::new();
        assert_eq!(parents, [&none, &web, &web, &web, &seen, &seen, &seen, &off, &off].map(Clone::clone));
    }

    #[test]
    fn a_usual_page_comes_in_three_waves() {
        let page = usual(1);
        assert_eq!(page.len(), 150);
        assert_eq!(page, usual(1), "seeded");
        assert_ne!(page, usual(2));
        // The wave of each: one more than that of what it waits for.
        let mut waves: Vec<usize> = Vec::new();
        for resource in &page {
            let before = resource.after.iter().map(|n| waves[*n]).max();
            waves.push(before.map_or(0, |wave| wave + 1));
        }
        let of = |wave: usize| waves.iter().filter(|other| **other == wave).count();
        assert_eq!([of(0), of(1), of(2)], [1, 9 + 24 + 35, 5 + 35 + 41]);
    }

    /// Over many pages, the medians and ninetieth percentiles are those asked for.
    #[test]
    fn sizes_have_the_distributions_of_their_kinds() {
        let pages: Vec<Vec<PageResource>> = (0..300).map(usual).collect();
        for (kind, median, ninetieth) in
            [("css", 8e3, 60e3), ("js", 20e3, 90e3), ("font", 30e3, 60e3), ("image", 12e3, 180e3)]
        {
            let mut sizes: Vec<u64> = pages
                .iter()
                .flatten()
                .filter(|resource| resource.name.starts_with(kind))
                .map(|resource| resource.bytes)
                .collect();
            sizes.sort_unstable();
            for (share, expected) in [(0.5, median), (0.9, ninetieth)] {
                let got = sizes[(sizes.len() as f64 * share) as usize] as f64;
                assert!((got / expected - 1.0).abs() < 0.12, "{kind}, {share}: {got}, {expected}");
            }
        }
        let rest = pages.iter().flatten().filter(|resource| resource.name.starts_with("rest"));
        assert!(rest.clone().all(|resource| (1000..=5000).contains(&resource.bytes)));
        assert_eq!(rest.count(), 300 * 41);
    }
}
