//! The gateways between programs of others: their viewers in front, their servers behind, over loopback.
//! `cargo xtask viewers` runs it, and prints a table. What a program cannot do is in [`ROWS`], with the
//! reason.
//!
//! QUICKSET_VIEWERS names the rows to play, with commas between them; QUICKSET_NOVNC is the folder of a newer
//! noVNC; QUICKSET_BIN names another command to test.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod far;
mod gateways;
#[path = "../e2e/look.rs"]
mod look;
#[path = "../gateway/person.rs"]
mod person;
#[path = "../e2e/photo.rs"]
mod photo;
#[expect(dead_code, reason = "how long a program worked is not asked here")]
#[path = "../e2e/programs.rs"]
mod programs;
mod servers;
mod viewers;

use std::time::Duration;

use servers::Server;
use viewers::Viewer;

/// How long a condition may take.
const LIMIT: Duration = Duration::from_secs(15);

struct Row {
    name: &'static str,
    program: Program,
    /// What the program cannot do, and why.
    limits: &'static [(Cell, &'static str)],
}

#[derive(Clone, Copy)]
enum Program {
    Viewer(Viewer),
    Server(Server),
}

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    /// The viewer shows what the server has, pixel by pixel.
    Picture,
    /// The viewer has the pointer in the server's shape, in the right place.
    Pointer,
    /// What is copied at the server can be pasted at the viewer.
    ClipboardIn,
    /// And the other way.
    ClipboardOut,
    /// What is typed at the viewer reaches the server.
    Keys,
}

impl Cell {
    const ALL: [Self; 5] = [Self::Picture, Self::Pointer, Self::ClipboardIn, Self::ClipboardOut, Self::Keys];

    fn name(self) -> &'static str {
        match self {
            Self::Picture => "picture",
            Self::Pointer => "pointer",
            Self::ClipboardIn => "clipboard in",
            Self::ClipboardOut => "clipboard out",
            Self::Keys => "keys",
        }
    }
}

const ROWS: &[Row] = &[
    Row { name: "novnc", program: Program::Viewer(Viewer::NoVncOfDebian), limits: &[] },
    Row { name: "tigervnc", program: Program::Viewer(Viewer::TigerVnc), limits: &[] },
    Row { name: "novnc-npm", program: Program::Viewer(Viewer::NoVncOfNpm), limits: &[] },
    Row { name: "no-cursor", program: Program::Viewer(Viewer::WithoutCursor), limits: &[] },
    Row {
        name: "gvncviewer",
        program: Program::Viewer(Viewer::GtkVnc),
        limits: &[
            (Cell::ClipboardIn, "the program takes no notice of texts that its library hears"),
            (Cell::ClipboardOut, "the program tells its library of no text"),
        ],
    },
    Row { name: "x11vnc", program: Program::Server(Server::X11Vnc), limits: &[] },
    Row { name: "tightvnc", program: Program::Server(Server::TightVnc), limits: &[] },
    Row {
        name: "qemu",
        program: Program::Server(Server::Qemu),
        limits: &[
            (Cell::Pointer, "the BIOS has none"),
            (Cell::ClipboardIn, "without an agent in the guest there is no clipboard"),
            (Cell::ClipboardOut, "without an agent in the guest there is no clipboard"),
        ],
    },
];

/// What was found: a cell, and what is wrong with it.
type Found = Vec<(Cell, Result<(), String>)>;

#[tokio::test]
#[ignore = "needs viewers, servers and X programs: cargo xtask viewers"]
async fn strangers_are_served_and_shown() {
    let wanted = std::env::var("QUICKSET_VIEWERS").unwrap_or_default();
    let wanted: Vec<&str> = wanted.split(',').filter(|name| !name.is_empty()).collect();
    for name in &wanted {
        assert!(ROWS.iter().any(|row| row.name == *name), "there is no row {name:?}");
    }
    let (mut lines, mut failed) = (Vec::new(), 0);
    for row in ROWS.iter().filter(|row| wanted.is_empty() || wanted.contains(&row.name)) {
        let program = row.program;
        let played = tokio::spawn(async move {
            match program {
                Program::Viewer(viewer) => viewers::play(viewer).await,
                Program::Server(server) => servers::play(server).await,
            }
        });
        let found = played.await.map_err(|error| error.to_string());
        let (line, wrong) = row.line(&found);
        println!("{line}");
        lines.push(line);
        failed += wrong;
    }
    println!("\n{}", head());
    for line in &lines {
        println!("{line}");
    }
    assert_eq!(failed, 0, "cells that are neither right nor a known limit of the program");
}

fn head() -> String {
    let cells: Vec<&str> = Cell::ALL.iter().map(|cell| cell.name()).collect();
    format!("| row | {} |\n|---{}|", cells.join(" | "), "|---".repeat(cells.len()))
}

impl Row {
    /// The row as it is printed, and how many of its cells are wrong.
    fn line(&self, found: &Result<Found, String>) -> (String, usize) {
        let (mut words, mut wrong) = (vec![self.name.to_owned()], 0);
        for cell in Cell::ALL {
            let limit = self.limits.iter().find(|(limited, _)| *limited == cell).map(|(_, why)| why);
            let result = match found {
                Ok(found) => found.iter().find(|(one, _)| *one == cell).map(|(_, result)| result.clone()),
                Err(error) => Some(Err(error.clone())),
            };
            words.push(match (result, limit) {
                (Some(Ok(())), _) => "yes".to_owned(),
                (_, Some(why)) => format!("not possible: {why}"),
                (Some(Err(why)), None) => {
                    wrong += 1;
                    format!("NO: {why}")
                }
                (None, None) => {
                    wrong += 1;
                    "NO: not tried".to_owned()
                }
            });
        }
        (format!("| {} |", words.join(" | ")), wrong)
    }
}
