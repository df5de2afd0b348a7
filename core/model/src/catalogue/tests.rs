//! The file in the binary, what an endpoint adds to it, and what a user says differently.

use bridle_session::{Nanos, UnixMillis, Usage};

use super::*;

fn route(text: &str) -> Route {
    Route::parse(text).unwrap()
}

fn cost(route_text: &str, usage: Usage, millis: u64) -> (String, u64) {
    let model = Catalogue::builtin().row(&route(route_text)).unwrap();
    let money = model.prices.unwrap().cost(&usage, UnixMillis(millis)).unwrap();
    (money.currency, money.amount.0)
}

#[test]
fn the_built_in_file_is_whole() {
    let catalogue = Catalogue::parse(include_str!("../catalogue.toml")).unwrap();
    assert_eq!(catalogue.as_of().len(), "2026-12-01".len());
    for model in catalogue.models() {
        assert!(catalogue.provider(&model.provider).is_some(), "{model:?}");
        assert_eq!(catalogue.find(&model.route()), Some(model), "{} is listed twice", model.id);
        assert!(model.max_output < model.window, "{model:?}");
        assert!(model.levels.is_sorted(), "{model:?}");
        assert!(model.default_level.is_none_or(|level| model.levels.contains(&level)), "{model:?}");
        assert!(model.inputs.contains(&Input::Text), "{model:?}");
        assert!(!model.source.is_empty() && model.as_of.len() == 10, "{model:?}");
        let prices = model.prices.as_ref().unwrap_or_else(|| panic!("{} has no prices", model.id));
        assert!(prices.tiers.iter().any(|tier| tier.over == 0), "{model:?}");
    }
    for provider in catalogue.providers() {
        assert!(catalogue.default_for(&provider.name).is_some(), "{provider:?}");
    }
}

#[test]
fn an_unlisted_model_of_a_known_provider_gets_small_limits() {
    let catalogue = Catalogue::builtin();
    let unlisted = route("anthropic/claude-next");
    assert_eq!(catalogue.find(&unlisted), None);
    let assumed = catalogue.row(&unlisted).unwrap();
    assert_eq!(assumed.limits(), RouteLimits { window: 128_000, max_output: 8_000 });
    assert_eq!((assumed.dialect, assumed.route()), (Dialect::Anthropic, unlisted));
    assert!(assumed.assumed && assumed.prices.is_none() && assumed.levels.is_empty());
    assert_eq!(assumed.level(Some(Effort::High)), None, "nothing is asked of it");
    assert_eq!(catalogue.row(&route("nobody/x")), None);
}

#[test]
fn the_defaults_are_named() {
    let catalogue = Catalogue::builtin();
    assert_eq!(catalogue.default_for("anthropic").unwrap().id, "claude-sonnet-5-5");
    assert_eq!(catalogue.default_for("deepseek").unwrap().id, "deepseek-flash");
}

#[test]
fn a_listed_model_is_added_and_a_known_one_stays() {
    let listed = |id: &str, window| ListedModel {
        id: id.into(),
        name: Some("Named".into()),
        window,
        max_output: None,
    };
    let list = [listed("claude-next", Some(500_000)), listed("claude-opus-5-5", Some(1))];
    let catalogue = Catalogue::builtin().clone().with_listed("anthropic", "2026-12-02", &list);
    let new = catalogue.find(&route("anthropic/claude-next")).unwrap();
    assert_eq!((new.window, new.max_output, new.assumed), (500_000, 8_000, true));
    assert_eq!((new.name.as_str(), new.as_of.as_str()), ("Named", "2026-12-02"));
    let known = route("anthropic/claude-opus-5-5");
    assert_eq!(catalogue.find(&known), Catalogue::builtin().find(&known));
    let nobody = Catalogue::builtin().clone().with_listed("nobody", "2026-12-02", &list);
    assert_eq!(nobody.models(), Catalogue::builtin().models());
}

#[test]
fn what_a_user_says_wins_field_by_field() {
    let patch: ModelPatch = toml::from_str(
        "window = 200_000\nlevels = [\"max\", \"low\"]\n\
         prices = { currency = \"EUR\", tiers = [{ input = 1, output = 2.5 }] }\n",
    )
    .unwrap();
    let opus = route("anthropic/claude-opus-5-5");
    let catalogue = Catalogue::builtin().clone().with_patch(&opus, &patch);
    let row = catalogue.find(&opus).unwrap();
    assert_eq!((row.window, row.max_output), (200_000, 128_000));
    assert_eq!(row.levels, [Effort::Low, Effort::Max]);
    let usage = Usage { output: 2_000_000, ..Usage::default() };
    let money = row.prices.as_ref().unwrap().cost(&usage, UnixMillis(0)).unwrap();
    assert_eq!((money.currency.as_str(), money.amount), ("EUR", Nanos(5_000_000_000)));
    let own = route("deepseek/mine");
    let catalogue = catalogue.with_patch(&own, &patch);
    assert_eq!(catalogue.find(&own).unwrap().window, 200_000);
    assert!(toml::from_str::<ModelPatch>("windoww = 1").is_err());
}

#[test]
fn cost_follows_the_size_of_the_prompt() {
    let usage = |input| Usage { input, output: 1_000, cache_read: 10_000, ..Usage::default() };
    // Haiku: 0.10 / 0.50 / 0.01, from 100,000 tokens on 0.50 / 2.50.
    let small = 50_000 * 100 + 1_000 * 500 + 10_000 * 10;
    assert_eq!(cost("anthropic/claude-haiku-5-5", usage(50_000), 0), ("USD".into(), small));
    let (_, at) = cost("anthropic/claude-haiku-5-5", usage(90_000), 0);
    let (_, over) = cost("anthropic/claude-haiku-5-5", usage(90_001), 0);
    assert_eq!(at, 90_000 * 100 + 1_000 * 500 + 10_000 * 10, "100,000 is not over 100,000");
    assert!(over > 4 * at, "{over} {at}");
}

#[test]
fn cost_follows_the_hour_in_the_providers_own_currency() {
    let usage = Usage { input: 1_000_000, ..Usage::default() };
    let hour = 3_600_000;
    // 2026-12-01, a Tuesday, 00:00 UTC; Beijing is eight hours ahead.
    let tuesday = 1_796_083_200_000;
    let at = |millis| cost("deepseek/deepseek-flash", usage, millis);
    assert_eq!(at(tuesday), ("CNY".into(), 1_000_000_000), "eight in the morning");
    assert_eq!(at(tuesday + hour).1, 2_000_000_000, "nine");
    assert_eq!(at(tuesday + 4 * hour).1, 1_000_000_000, "noon");
    assert_eq!(at(tuesday + 6 * hour).1, 2_000_000_000, "two in the afternoon");
    assert_eq!(at(tuesday + 10 * hour).1, 1_000_000_000, "six");
    assert_eq!(at(tuesday + 4 * 24 * hour + hour).1, 1_000_000_000, "Saturday");
    assert_eq!(at(tuesday + 6 * 24 * hour + hour).1, 2_000_000_000, "Monday");
}
