use quickset_base::Duration;

use crate::cc::Algorithm;
use crate::cc::tests::link::{Link, World};

const FAR: Link =
    Link { bits_per_second: 100_000_000, rtt: Duration::from_millis(100), queue: 1_250_000, loss: 0.0 };

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[test]
fn random_loss_costs_little() {
    for loss in [0.0, 0.005, 0.01] {
        for seed in 0..4 {
            let mut world = World::new(Link { loss, ..FAR }, seed);
            world.add(Algorithm::Bbr);
            let start = world.run(secs(4));
            let report = world.run(secs(30));
            println!(
                "loss {loss} seed {seed}: start {:?} then {report:?} {:?}",
                start.utilisation(),
                world.rate(0)
            );
            assert!(report.utilisation() > 0.85, "{report:?}\n{}", world.describe(0));
        }
    }
}
