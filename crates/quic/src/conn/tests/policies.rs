//! Policies that say exactly when repair goes, as an application's own would: those of the crate
//! `quickset-policies` are of a core without these tests.

use crate::policy::{
    Boundaries, Carried, CodingView, CustomPolicy, LaneConfig, LaneProgress, Pattern, Protection,
    ReliabilityPolicy, RepairCode, Scheme, Schemes,
};

/// The core's own protections by their text, `fixed:10` and `xor2d:4x5`.
pub(super) fn protection(text: &str) -> Protection {
    let (name, arguments) = text.split_once(':').unwrap_or((text, ""));
    let number = |text: &str| text.parse::<u16>().unwrap();
    match name {
        "fixed" => fixed(number(arguments)),
        "xor2d" => {
            let (rows, columns) = arguments.split_once('x').unwrap();
            let grid = SummedGrid { rows: number(rows), columns: number(columns), ..SummedGrid::default() };
            custom(Scheme::Grid, text, move || Box::new(grid.clone()))
        }
        _ => text.parse().unwrap(),
    }
}

/// A repair symbol after each `interval` symbols.
pub(super) fn fixed(interval: u16) -> Protection {
    let each = EachSo { interval: interval.into(), ..EachSo::default() };
    custom(Scheme::Rlc, &format!("fixed:{interval}"), move || Box::new(each.clone()))
}

fn custom(
    scheme: Scheme,
    text: &str,
    make: impl Fn() -> Box<dyn ReliabilityPolicy> + Send + Sync + 'static,
) -> Protection {
    Protection::Custom(CustomPolicy::new(Schemes::default().with(scheme), make).with_text(text))
}

#[derive(Clone, Debug, Default)]
struct EachSo {
    interval: u64,
    progress: LaneProgress,
    answered: u64,
}

impl ReliabilityPolicy for EachSo {
    fn protect(&mut self, view: &CodingView<'_>, _: Carried) -> Option<LaneConfig> {
        self.progress.update(view.lanes[0].sources);
        Some(LaneConfig::RLC)
    }

    fn fec_pattern(&mut self, view: &CodingView<'_>) -> Pattern {
        let due = (self.progress.update(view.lanes[0].sources) - self.answered) / self.interval;
        self.answered += due * self.interval;
        if due == 0 || view.lanes[0].open == 0 {
            return Pattern::No;
        }
        Pattern::Repair { lane: 0, n: u32::try_from(due).unwrap() }
    }

    fn delay_sensitivity(&self, view: &CodingView<'_>) -> f64 {
        -view.loss.rate
    }

    fn quiet_for(&self, _: &CodingView<'_>) -> u64 {
        (self.answered + self.interval).saturating_sub(self.progress.total())
    }
}

/// The sum of each row as it ends, and those of the columns with the last.
#[derive(Clone, Debug, Default)]
struct SummedGrid {
    rows: u16,
    columns: u16,
    answered: u64,
    boundaries: Boundaries,
}

impl ReliabilityPolicy for SummedGrid {
    fn protect(&mut self, view: &CodingView<'_>, carried: Carried) -> Option<LaneConfig> {
        let open = view.lanes[0].open;
        self.boundaries.observe(view.demand.boundaries, open);
        let code = RepairCode::Xor2d { rows: self.rows, columns: self.columns };
        (open > 0 || !carried.resend).then_some(LaneConfig { code, ..LaneConfig::RLC })
    }

    fn fec_pattern(&mut self, view: &CodingView<'_>) -> Pattern {
        let (lane, columns) = (&view.lanes[0], u64::from(self.columns));
        let (k, full) = (lane.open, (u64::from(self.rows) * columns).min(lane.window));
        let ends = self.boundaries.passed(view.demand.boundaries, k) || k >= full;
        // Fewer rows than were answered are those of another block.
        if k / columns < self.answered || k == 0 {
            self.answered = 0;
        }
        let rows = if ends { k.div_ceil(columns) } else { k / columns } - self.answered;
        let n = match (k, ends) {
            (0, _) => 0,
            (1, true) => 1,
            (_, true) => rows + columns.min(k),
            (_, false) => rows,
        };
        self.answered = if ends { 0 } else { k / columns };
        if n == 0 { Pattern::No } else { Pattern::Repair { lane: 0, n: u32::try_from(n).unwrap() } }
    }

    fn delay_sensitivity(&self, view: &CodingView<'_>) -> f64 {
        -view.loss.rate
    }

    fn quiet_for(&self, view: &CodingView<'_>) -> u64 {
        let (open, columns) = (view.lanes[0].open, u64::from(self.columns));
        // A block begins with a question, since only then it is known to be another.
        if open == 0 { 0 } else { (columns - open % columns).min(view.lanes[0].window.saturating_sub(open)) }
    }
}
