//! What tokens cost: price lists in the form in which providers publish them, and sums of money.
//!
//! It computes; it knows no provider. Amounts are whole billionths of a currency's unit, so that
//! sums are exact. Two currencies are never added: nobody here knows what one is worth in the other.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::id::UnixMillis;
use crate::vocabulary::Usage;

/// Billionths in one unit of a currency.
const NANOS: f64 = 1e9;

/// Tokens that a published price is for.
const PER: u128 = 1_000_000;

const MILLIS_PER_HOUR: u64 = 3_600_000;

/// An amount of one currency, in billionths of its unit. Written as a decimal number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Nanos(pub u64);

impl Nanos {
    /// In whole units, for showing and for protocols; exact to fifteen digits.
    #[expect(clippy::cast_precision_loss, reason = "nobody spends nine million units")]
    pub fn units(self) -> f64 {
        self.0 as f64 / NANOS
    }

    /// The nearest amount; `None` for what is negative, infinite or no number.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked before")]
    pub fn from_units(units: f64) -> Option<Self> {
        let nanos = (units * NANOS).round();
        (0.0..1e18).contains(&nanos).then_some(Self(nanos as u64))
    }
}

impl Serialize for Nanos {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.units())
    }
}

impl<'de> Deserialize<'de> for Nanos {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let units = f64::deserialize(deserializer)?;
        Self::from_units(units).ok_or_else(|| serde::de::Error::custom("is no amount of money"))
    }
}

/// Money of one currency.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Money {
    /// The currency, e.g. `USD`.
    pub currency: String,
    /// How much of it.
    pub amount: Nanos,
}

/// What a model's tokens cost, as its provider publishes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceList {
    /// The provider's own currency, e.g. `USD`; nothing is converted.
    pub currency: String,
    /// Prices by the size of the prompt.
    pub tiers: Vec<PriceTier>,
    /// When they are higher.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak: Option<Peak>,
}

/// Prices for one million tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceTier {
    /// For prompts of more tokens than this, cached ones included.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub over: u64,
    /// Input that was neither read from nor written to a cache.
    pub input: Nanos,
    /// Output, reasoning included.
    pub output: Nanos,
    /// Input read from a cache; as `input` where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<Nanos>,
    /// Input written to a cache; as `input` where it is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<Nanos>,
}

/// Hours in which a provider asks for more. Its holidays are not known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peak {
    /// How much more: 200 is twice the price.
    pub percent: u32,
    /// Hours of the day in UTC, each from its first (inclusive) to its second (exclusive).
    pub utc_hours: Vec<(u64, u64)>,
    /// Whether Saturdays and Sundays (in UTC) have none.
    pub weekdays: bool,
}

impl PriceList {
    /// What a request cost that ended at `time`; `None` for a list without a tier for it.
    pub fn cost(&self, usage: &Usage, time: UnixMillis) -> Option<Money> {
        let prompt = usage.context().saturating_sub(usage.output);
        let fitting = self.tiers.iter().filter(|tier| tier.over == 0 || prompt > tier.over);
        let tier = fitting.max_by_key(|tier| tier.over)?;
        let percent = self.peak.as_ref().map_or(100, |peak| peak.percent_at(time));
        let parts = [
            (usage.input, tier.input),
            (usage.output, tier.output),
            (usage.cache_read, tier.cache_read.unwrap_or(tier.input)),
            (usage.cache_write, tier.cache_write.unwrap_or(tier.input)),
        ];
        let product = |(tokens, price): (u64, Nanos)| u128::from(tokens) * u128::from(price.0);
        let nanos = parts.into_iter().map(product).fold(0, u128::saturating_add);
        let nanos = nanos.saturating_mul(u128::from(percent)) / 100 / PER;
        let amount = Nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        Some(Money { currency: self.currency.clone(), amount })
    }
}

impl Peak {
    fn percent_at(&self, time: UnixMillis) -> u32 {
        let hours = time.0 / MILLIS_PER_HOUR;
        let (day, hour) = (hours / 24, hours % 24);
        // The first day of Unix time was a Thursday; days of the week are counted from Sunday.
        let is_weekend = matches!((day + 4) % 7, 0 | 6);
        let is_peak = self.utc_hours.iter().any(|(from, to)| (*from..*to).contains(&hour));
        if is_peak && !(self.weekdays && is_weekend) { self.percent } else { 100 }
    }
}

/// What requests cost together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// The sum of each currency, in the order in which they were first spent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sums: Vec<Money>,
    /// How many requests are in no sum, because nobody knows their prices.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unpriced: u64,
}

impl Cost {
    /// Adds one request.
    pub fn add(&mut self, money: Option<Money>) {
        let Some(money) = money else {
            self.unpriced = self.unpriced.saturating_add(1);
            return;
        };
        match self.sums.iter_mut().find(|sum| sum.currency == money.currency) {
            Some(sum) => sum.amount = Nanos(sum.amount.0.saturating_add(money.amount.0)),
            None => self.sums.push(money),
        }
    }

    /// The whole cost as one sum; `None` when there is none, when it is in several currencies, or
    /// when a part of it is not known.
    pub fn whole(&self) -> Option<&Money> {
        match self.sums.as_slice() {
            [sum] if self.unpriced == 0 => Some(sum),
            _ => None,
        }
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
