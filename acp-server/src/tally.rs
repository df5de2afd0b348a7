//! Numbers, tokens and money as a person reads them.

use bridle_session::{Cost, Money, Usage};

/// A number with its thousands apart.
pub(crate) fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Tokens of a request, a turn or a session: what was read, of that from the cache, and written.
pub(crate) fn tokens(usage: Usage) -> String {
    let read = usage.context().saturating_sub(usage.output);
    let cached = match usage.cache_read {
        0 => String::new(),
        cached => format!(" ({} from the cache)", number(cached)),
    };
    format!("{} tokens in{cached}, {} out", number(read), number(usage.output))
}

/// The currency and as much of the amount as says something: `USD 12.35`, `USD 0.0123`.
pub(crate) fn money(money: &Money) -> String {
    let units = money.amount.units();
    let currency = &money.currency;
    match units {
        1.0.. => format!("{currency} {units:.2}"),
        0.0001.. => format!("{currency} {units:.4}"),
        0.0 => format!("{currency} 0"),
        _ => format!("less than {currency} 0.0001"),
    }
}

/// What is known of a cost, and what is not; `None` when nothing was asked for yet.
pub(crate) fn cost(cost: &Cost) -> Option<String> {
    let sums = cost.sums.iter().map(money).collect::<Vec<_>>().join(" + ");
    let unpriced = match cost.unpriced {
        0 => return (!sums.is_empty()).then_some(sums),
        1 => "1 request whose price is not known".to_owned(),
        more => format!("{} requests whose prices are not known", number(more)),
    };
    Some(if sums.is_empty() { unpriced } else { format!("{sums} + {unpriced}") })
}

/// Tokens, and their cost.
pub(crate) fn spent(usage: Usage, costs: &Cost) -> String {
    let tokens = tokens(usage);
    cost(costs).map_or(tokens.clone(), |cost| format!("{tokens}; {cost}"))
}

#[cfg(test)]
mod tests {
    use bridle_session::Nanos;

    use super::*;

    #[test]
    fn thousands_stand_apart() {
        let shown = [0, 999, 1_234_567].map(number);
        assert_eq!(shown, ["0", "999", "1,234,567"]);
    }

    #[test]
    fn tokens_say_what_came_from_the_cache() {
        let usage = Usage { input: 10, output: 20, cache_read: 3_000, cache_write: 5 };
        assert_eq!(tokens(usage), "3,015 tokens in (3,000 from the cache), 20 out");
        let usage = Usage { input: 10, output: 20, ..Usage::default() };
        assert_eq!(tokens(usage), "10 tokens in, 20 out");
    }

    #[test]
    fn a_cost_says_what_it_does_not_know() {
        let of = |sums: &[(&str, u64)], unpriced| {
            let sums = sums.iter().map(|(currency, nanos)| Money {
                currency: (*currency).to_owned(),
                amount: Nanos(*nanos),
            });
            cost(&Cost { sums: sums.collect(), unpriced })
        };
        assert_eq!(of(&[], 0), None);
        assert_eq!(of(&[("USD", 12_345_000_000)], 0).unwrap(), "USD 12.35");
        assert_eq!(of(&[("USD", 12_300_000)], 0).unwrap(), "USD 0.0123");
        assert_eq!(of(&[("USD", 99)], 0).unwrap(), "less than USD 0.0001");
        let both = of(&[("USD", 1_000_000_000), ("CNY", 500_000_000)], 2).unwrap();
        assert_eq!(both, "USD 1.00 + CNY 0.5000 + 2 requests whose prices are not known");
    }
}
