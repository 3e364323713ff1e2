//! When resources would be there if bytes were a fluid: the prediction that pages are held against.

use crate::play::Resource;
use quickset_h3::Priority;

/// For each resource, how many bytes of all have come when its last one does, by RFC 9218 §10: urgencies strictly one after the
/// other; within one first what is of use only as a whole, in the order of requests, then the others, which share alike.
/// All are asked for at once.
pub(crate) fn bytes_before_end(resources: &[Resource]) -> Vec<f64> {
    let priorities: Vec<Priority> = resources
        .iter()
        .map(|resource| Priority::parse(resource.priority.as_bytes()).unwrap_or_default())
        .collect();
    let mut ends = vec![0.0; resources.len()];
    let mut sent = 0.0;
    for urgency in 0..=7 {
        let of = |incremental: bool| -> Vec<usize> {
            let is =
                |n: &usize| (priorities[*n].urgency, priorities[*n].incremental) == (urgency, incremental);
            (0..resources.len()).filter(is).collect()
        };
        for n in of(false) {
            sent += resources[n].bytes as f64;
            ends[n] = sent;
        }
        let mut sharing = of(true);
        sharing.sort_by_key(|n| resources[*n].bytes);
        let mut each = 0.0;
        for (done, n) in sharing.iter().enumerate() {
            // Those that are left have as much of it as this one.
            let more = resources[*n].bytes as f64 - each;
            sent += more * (sharing.len() - done) as f64;
            each += more;
            ends[*n] = sent;
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(bytes: u64, priority: &str) -> Resource {
        Resource { priority: priority.to_owned(), ..Resource::new("r", bytes) }
    }

    /// The times of the design at 5 Mbit/s.
    #[test]
    fn the_page_of_the_paper_flows_as_computed() {
        let page = [
            resource(148_000, "u=0, i"),
            resource(260_000, "u=1, i"),
            resource(620_000, "u=2, i"),
            resource(116_000, "u=3, i"),
            resource(177_000, "u=3, i"),
            resource(177_000, "u=3, i"),
            resource(177_000, "u=3, i"),
            resource(177_000, "u=4, i"),
            resource(177_000, "u=4, i"),
        ];
        let seconds: Vec<f64> = bytes_before_end(&page).iter().map(|bytes| bytes * 8.0 / 5e6).collect();
        for (got, expected) in
            seconds.iter().zip([0.237, 0.653, 1.645, 2.387, 2.680, 2.680, 2.680, 3.246, 3.246])
        {
            assert!((got - expected).abs() < 0.0006, "{got}, {expected}");
        }
    }

    #[test]
    fn wholes_go_one_after_the_other_and_first() {
        let page =
            [resource(30, "i"), resource(10, "u=3"), resource(20, ""), resource(10, "i"), resource(5, "u=7")];
        assert_eq!(bytes_before_end(&page), [70.0, 10.0, 30.0, 50.0, 75.0]);
    }
}
