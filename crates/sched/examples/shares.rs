//! The shares of a small tree, while some of it has nothing to send: `cargo run -p quickset-sched --example
//! shares`.
//!
//! It is a web page: HTML beside what it needs, of which style sheets come before scripts, and images when
//! these are done.

use quickset_sched::{ClassId, Priority, Tree};

const FRAME: u32 = 1200;
const FRAMES: u32 = 100_000;

fn main() -> Result<(), quickset_sched::Error> {
    let mut page = Tree::new(FRAME, 100);
    let root = page.root();
    let shared = |weight: f64, urgency: u8| Priority::weighted(weight).urgency(urgency);
    let whole = |urgency: u8| Priority { urgency, ..Priority::default() };

    let html = page.insert_leaf(root, shared(0.2, 0), "HTML")?;
    let web = page.insert_branch(root, shared(0.8, 0))?;
    let css = page.insert_leaf(web, whole(0), "CSS")?;
    let js = page.insert_leaf(web, whole(1), "JS")?;
    let images = page.insert_branch(root, shared(1.0, 1))?;
    let largest = page.insert_leaf(images, shared(2.0, 3), "image A")?;
    let other = page.insert_leaf(images, shared(1.0, 3), "image B")?;
    let hidden = page.insert_leaf(images, shared(1.0, 4), "image C, below the fold")?;
    for leaf in [html, css, js, largest, other, hidden] {
        page.set_backlogged(leaf, true);
    }

    print("All have something to send", &mut page);
    end(&mut page, "CSS", css);
    end(&mut page, "JS", js);
    end(&mut page, "HTML", html);
    end(&mut page, "Image A", largest);
    end(&mut page, "Image B", other);
    Ok(())
}

fn end(page: &mut Tree<&'static str>, name: &str, leaf: ClassId) {
    page.set_backlogged(leaf, false);
    print(&format!("{name} is done"), page);
}

fn print(title: &str, page: &mut Tree<&'static str>) {
    let mut sent: Vec<(&str, u32)> = Vec::new();
    for _ in 0..FRAMES {
        let Some(leaf) = page.next() else { break };
        page.charge(leaf, FRAME);
        let name = page.key(leaf).copied().unwrap_or_default();
        match sent.iter_mut().find(|(known, _)| *known == name) {
            Some((_, frames)) => *frames += 1,
            None => sent.push((name, 1)),
        }
    }
    println!("{title}:");
    for (name, frames) in sent {
        println!("  {:5.1} %  {name}", 100.0 * f64::from(frames) / f64::from(FRAMES));
    }
}
