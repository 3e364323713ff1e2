//! Reports: pages that need nothing but themselves, with styles, figures (SVG) and pictures inside; no
//! scripts, nothing fetched. Sentences that compare are made from the numbers that stand beside them.

mod chart;
pub mod demo;
pub mod experiments;
mod text;
