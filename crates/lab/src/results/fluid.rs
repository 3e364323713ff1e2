//! When resources would be there if bytes were a fluid: the prediction that pages are held against.

use quickset_base::number::Unsigned as _;
use quickset_h3::Priority;

use crate::play::PageResource;

/// For each resource, how many bytes of all have come when its last one does. All are asked for at once, and
/// at each step of the tree of classes (`spec/priorities.md`) the most urgent have it all: the first of what
/// is of use only as a whole, or else the others by weight.
///
/// It is written for this, and shares nothing with what schedules.
pub(crate) fn bytes_before_end(resources: &[PageResource]) -> Vec<f64> {
    let page = FluidPage::of(resources);
    let mut left: Vec<f64> = resources.iter().map(|resource| resource.bytes.approx()).collect();
    let mut ends = vec![0.0; resources.len()];
    let mut sent = 0.0;
    loop {
        let mut parts = vec![0.0; resources.len()];
        page.pour(ROOT, 1.0, &left, &mut parts);
        // Until the next of those that get something is complete.
        let flowing = || (0..left.len()).filter(|n| parts[*n] > 0.0);
        let Some(step) = flowing().map(|n| left[n] / parts[n]).min_by(f64::total_cmp) else { return ends };
        sent += step;
        for n in flowing().collect::<Vec<_>>() {
            left[n] -= step * parts[n];
            if left[n] < DROP {
                (left[n], ends[n]) = (0.0, sent);
            }
        }
    }
}

/// The children of the connection that share it at first: for each resource the number of the child that it
/// is below and the child's part of what they get together; `None` for what has to wait.
pub(crate) fn first_shares(resources: &[PageResource]) -> Vec<Option<(usize, f64)>> {
    let page = FluidPage::of(resources);
    let all = vec![1.0; resources.len()];
    let chosen = page.chosen(ROOT, &all);
    let sum: f64 = chosen.iter().map(|child| page.nodes[*child].weight).sum();
    let mut shares = vec![None; resources.len()];
    for &child in &chosen {
        for leaf in page.leaves(child) {
            shares[leaf] = Some((child, page.nodes[child].weight / sum));
        }
    }
    shares
}

/// Classes and resources, in the order of requests; the first is the connection.
struct FluidPage {
    nodes: Vec<FluidNode>,
}

struct FluidNode {
    name: String,
    parent: usize,
    urgency: u8,
    incremental: bool,
    weight: f64,
    resource: Option<usize>,
}

impl FluidPage {
    fn of(resources: &[PageResource]) -> Self {
        let connection = FluidNode {
            name: String::new(),
            parent: usize::MAX,
            urgency: 0,
            incremental: false,
            weight: 1.0,
            resource: None,
        };
        let mut page = Self { nodes: vec![connection] };
        for (n, resource) in resources.iter().enumerate() {
            let said = Priority::parse(resource.priority.as_bytes()).unwrap_or_default();
            let mut parent = ROOT;
            for class in said.classes() {
                let known = |node: &FluidNode| {
                    node.parent == parent && node.resource.is_none() && node.name == class.name
                };
                let at = page.nodes.iter().position(known).unwrap_or(page.nodes.len());
                let node = FluidNode {
                    name: class.name,
                    parent,
                    urgency: class.priority.urgency,
                    incremental: class.priority.incremental,
                    weight: class.priority.weight.get(),
                    resource: None,
                };
                // The latest request is right.
                if at < page.nodes.len() {
                    page.nodes[at] = node;
                } else {
                    page.nodes.push(node);
                }
                parent = at;
            }
            page.nodes.push(FluidNode {
                name: resource.name.clone(),
                parent,
                urgency: said.urgency,
                incremental: said.incremental,
                weight: said.weight().get(),
                resource: Some(n),
            });
        }
        page
    }

    fn children(&self, of: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.nodes.len()).filter(move |n| self.nodes[*n].parent == of)
    }

    /// The resources below a class, or it alone.
    fn leaves(&self, at: usize) -> Vec<usize> {
        match self.nodes[at].resource {
            Some(resource) => vec![resource],
            None => self.children(at).flat_map(|child| self.leaves(child)).collect(),
        }
    }

    /// Which children get something, of those with something left below them.
    fn chosen(&self, at: usize, left: &[f64]) -> Vec<usize> {
        let has = |child: &usize| self.leaves(*child).iter().any(|leaf| left[*leaf] > 0.0);
        let active: Vec<usize> = self.children(at).filter(has).collect();
        let best = active.iter().map(|child| self.nodes[*child].urgency).min();
        let best = active.into_iter().filter(|child| Some(self.nodes[*child].urgency) == best);
        let (sharing, alone): (Vec<usize>, Vec<usize>) =
            best.partition(|child| self.nodes[*child].incremental);
        alone.first().map_or(sharing, |first| vec![*first])
    }

    /// Divides what flows to a class.
    fn pour(&self, at: usize, flow: f64, left: &[f64], parts: &mut [f64]) {
        if let Some(resource) = self.nodes[at].resource {
            parts[resource] = flow;
            return;
        }
        let chosen = self.chosen(at, left);
        let sum: f64 = chosen.iter().map(|child| self.nodes[*child].weight).sum();
        for child in chosen {
            self.pour(child, flow * self.nodes[child].weight / sum, left, parts);
        }
    }
}

const ROOT: usize = 0;
/// Less than this of a byte is a matter of rounding.
const DROP: f64 = 1e-6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::{Hierarchy, nine};

    fn resource(bytes: u64, priority: &str) -> PageResource {
        PageResource { priority: priority.to_owned(), ..PageResource::new("r", bytes) }
    }

    /// The times of the design at 5 Mbit/s.
    #[test]
    fn the_page_of_the_paper_flows_as_computed() {
        let seconds = |hierarchy| -> Vec<f64> {
            bytes_before_end(&nine(hierarchy)).iter().map(|bytes| bytes * 8.0 / 5e6).collect()
        };
        let flat = [0.237, 0.653, 1.645, 2.387, 2.680, 2.680, 2.680, 3.246, 3.246];
        for (got, expected) in seconds(Hierarchy::Flat).iter().zip(flat) {
            assert!((got - expected).abs() < 0.0006, "{got}, {expected}");
        }
        // HTML, CSS and JS; all of HTML and web are 1144 kB. Of what is in view LCP has half: it is there
        // when A and B have half of theirs. C and D are the last.
        let tree = [1.184, 0.520, 1.645, 1.8304, 2.3968, 2.680, 2.680, 3.246, 3.246];
        for (got, expected) in seconds(Hierarchy::Tree).iter().zip(tree) {
            assert!((got - expected).abs() < 0.0006, "{got}, {expected}");
        }
    }

    #[test]
    fn wholes_go_one_after_the_other_and_first() {
        let page =
            [resource(30, "i"), resource(10, "u=3"), resource(20, ""), resource(10, "i"), resource(5, "u=7")];
        let ends = bytes_before_end(&page);
        for (got, expected) in ends.iter().zip([70.0, 10.0, 30.0, 50.0, 75.0]) {
            assert!((got - expected).abs() < 1e-3, "{ends:?}");
        }
    }

    #[test]
    fn who_shares_at_first() {
        let shares = first_shares(&nine(Hierarchy::Tree));
        let of: Vec<Option<f64>> = shares.iter().map(|share| share.map(|(_, part)| part)).collect();
        let (html, web) = (Some(0.2), Some(0.8));
        assert_eq!(of, [html, web, web, web, None, None, None, None, None]);
        assert_eq!(first_shares(&nine(Hierarchy::Flat))[..2], [Some((1, 1.0)), None]);
    }
}
