use quickset_base::number::{Float as _, Unsigned as _};

/// How likely a message is to be lost: of the newest some hundred, with a cautious guess before them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MessageLoss {
    messages: f64,
    losses: f64,
}

impl Default for MessageLoss {
    /// One in two hundred, as if of a hundred messages.
    fn default() -> Self {
        Self { messages: 100.0, losses: 0.5 }
    }
}

impl MessageLoss {
    /// Of one message, 0 to 1.
    pub fn rate(&self) -> f64 {
        (self.losses / self.messages).clamp(0.0, 1.0)
    }

    /// How many repair datagrams behind `messages` leave a chance below one in 500 that more messages are
    /// lost than these replace, if losses are independent; 0 where the chance is as small without any.
    pub fn repairs(&self, messages: u64) -> u32 {
        let (rate, messages) = (self.rate(), messages.approx());
        // Of a binomial distribution, term by term: P(k + 1) = P(k) (n - k) / (k + 1) · p / (1 - p).
        let odds = rate / (1.0 - rate).max(1e-9);
        let mut chance = (1.0 - rate).powf(messages);
        let (mut left, mut repairs) = (1.0 - chance, 0_u32);
        let most: u32 = (messages / 2.0).ceil().whole();
        while left > MISSED && repairs < most {
            chance *= (messages - f64::from(repairs)) / f64::from(repairs + 1) * odds;
            left -= chance;
            repairs += 1;
        }
        repairs
    }

    pub(super) fn arrived(&mut self, messages: u64) {
        self.messages += messages.approx();
        self.forget();
    }

    pub(super) fn lost(&mut self, messages: u64) {
        self.messages += messages.approx();
        self.losses += messages.approx();
        self.forget();
    }

    fn forget(&mut self) {
        if self.messages > MEMORY {
            let share = MEMORY / self.messages;
            self.losses *= share;
            self.messages *= share;
        }
    }
}

/// Chance that a round trip is lost all the same: rare enough that the slowest of a hundred keys is none of
/// those.
const MISSED: f64 = 0.002;
/// Messages that count: at 10 Mbit/s what is sent in two seconds.
const MEMORY: f64 = 2000.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rate: f64) -> MessageLoss {
        MessageLoss { messages: 1000.0, losses: 1000.0 * rate }
    }

    #[test]
    fn repairs_are_as_many_as_the_binomial_distribution_asks_for() {
        // P(X > n) for X of B(45, 0.01): 0.364, 0.0745, 0.0104, 0.0011.
        assert_eq!(of(0.01).repairs(45), 3);
        // For B(45, 0.002): 0.0862, 0.00378, 0.00011.
        assert_eq!(of(0.002).repairs(45), 2);
        // For B(44, 0.0001): 0.0044, 0.00001.
        assert_eq!(of(0.0001).repairs(44), 1);
        assert_eq!(of(0.02).repairs(1), 1);
        assert_eq!(of(0.005).repairs(1), 1);
        assert_eq!(of(0.0015).repairs(1), 0);
        assert_eq!((of(0.0).repairs(100), of(0.3).repairs(0)), (0, 0));
        // Never more than half as many.
        assert_eq!(of(0.9).repairs(10), 5);
        assert_eq!(of(1.0).repairs(7), 4);
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let mut loss = MessageLoss::default();
        assert!((loss.rate() - 0.005).abs() < 1e-9);
        loss.lost(200);
        loss.arrived(1700);
        assert!((loss.rate() - 0.1).abs() < 0.005, "{}", loss.rate());
        for _ in 0..10 {
            loss.arrived(1000);
        }
        assert!(loss.rate() < 0.002, "{}", loss.rate());
    }
}
