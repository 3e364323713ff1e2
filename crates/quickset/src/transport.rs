use std::sync::Arc;

use quickset_quic::{Budget, EarlyData, Estimates, Fec, Protection, TransportConfig};

/// How connections behave: a whole, and the parts that are said by themselves. These count whichever comes
/// first.
#[derive(Clone, Default)]
pub(crate) struct TransportParts {
    whole: TransportConfig,
    fec: FecOffer,
    protection: Option<Protection>,
    early: Option<EarlyData>,
    budget: Option<Budget>,
}

/// What of erasure correction is offered.
#[derive(Clone, Default)]
enum FecOffer {
    /// What the whole says.
    #[default]
    Unsaid,
    Nothing,
    This(Fec),
}

impl TransportParts {
    pub(crate) fn set_whole(&mut self, whole: TransportConfig) {
        self.whole = whole;
    }

    pub(crate) fn set_fec(&mut self, fec: Option<Fec>) {
        self.fec = fec.map_or(FecOffer::Nothing, FecOffer::This);
    }

    pub(crate) fn set_protection(&mut self, protection: Protection) {
        self.protection = Some(protection);
    }

    pub(crate) fn set_early(&mut self, early: EarlyData) {
        self.early = Some(early);
    }

    pub(crate) fn set_budget(&mut self, budget: Budget) {
        self.budget = Some(budget);
    }

    /// All of it.
    pub(crate) fn merged(&self) -> Arc<TransportConfig> {
        let mut all = self.whole.clone();
        match &self.fec {
            FecOffer::Unsaid => {}
            FecOffer::Nothing => all.fec = None,
            FecOffer::This(fec) => all.fec = Some(fec.clone()),
        }
        // Who offers nothing, in so many words, has nothing to protect with.
        let can = !matches!(self.fec, FecOffer::Nothing);
        if let Some(protection) = self.protection.as_ref().filter(|_| can) {
            all.fec.get_or_insert_default().protection.clone_from(protection);
        }
        if let Some(early) = &self.early {
            all.early_data = Some(early.clone());
        }
        if let Some(budget) = &self.budget {
            all.budget = Some(budget.clone());
        }
        Arc::new(all)
    }
}

/// The same configuration, with a place where connections tell one another of losses if it names none.
pub(crate) fn sharing(transport: &Arc<TransportConfig>, estimates: &Arc<Estimates>) -> Arc<TransportConfig> {
    let mut transport = transport.clone();
    if transport.fec.as_ref().is_some_and(|fec| fec.estimates.is_none()) {
        if let Some(fec) = &mut Arc::make_mut(&mut transport).fec {
            fec.estimates = Some(estimates.clone());
        }
    }
    transport
}
