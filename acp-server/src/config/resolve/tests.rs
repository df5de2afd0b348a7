//! Which layer wins, what a model choice becomes, and that no key is ever shown.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

const MARKER: &str = "marker-secret-7c1e";

struct Case {
    _folder: tempfile::TempDir,
    environment: Environment,
}

/// A home with these files, and an environment that points to it.
fn case(files: &[(&str, &str)], variables: &[(&str, &str)]) -> Case {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        fs_err::write(&path, text).unwrap();
        fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let (secrets, plain): (Vec<_>, Vec<_>) =
        variables.iter().partition(|(name, _)| Environment::is_secret_name(name));
    let home = ("BRIDLE_HOME".into(), folder.path().into());
    let plain = plain.into_iter().map(|(k, v)| (k.into(), v.into())).chain([home]);
    let secrets = secrets.into_iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    Case { environment: Environment::new(plain, secrets), _folder: folder }
}

fn resolve(case: &Case, overrides: &Overrides) -> Settings {
    load(&case.environment, overrides)
}

fn key_of(settings: &Settings, provider: &str) -> Option<String> {
    match settings.provider(provider)?.key.as_ref()? {
        KeySource::Key(key) => Some(key.expose().to_owned()),
        KeySource::Command(words) => Some(format!("command {}", words.join(" "))),
    }
}

/// The route that the catalogue names as a provider's default.
fn default_of(provider: &str) -> String {
    Catalogue::builtin().default_for(provider).unwrap().route().to_string()
}

fn route(settings: &Settings) -> String {
    settings.route.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string)
}

#[test]
fn flag_beats_variable_beats_file_beats_first_key() {
    let file = [("config.toml", "model = \"anthropic/file\"\n")];
    let key = [("DEEPSEEK_API_KEY", "k")];
    let both = [("DEEPSEEK_API_KEY", "k"), ("BRIDLE_MODEL", "anthropic/variable")];
    let flag = Overrides { model: Some("anthropic/flag".into()), ..Overrides::default() };
    let none = Overrides::default();
    assert_eq!(route(&resolve(&case(&[], &[]), &none)), "none");
    assert_eq!(route(&resolve(&case(&[], &key), &none)), default_of("deepseek"));
    assert_eq!(route(&resolve(&case(&file, &key), &none)), "anthropic/file");
    assert_eq!(route(&resolve(&case(&file, &both), &none)), "anthropic/variable");
    assert_eq!(route(&resolve(&case(&file, &both), &flag)), "anthropic/flag");
}

#[test]
fn anthropic_is_looked_at_first_and_credentials_count() {
    let credentials = [("credentials.toml", "[providers.anthropic]\napi_key = \"k\"\n")];
    let settings =
        resolve(&case(&credentials, &[("DEEPSEEK_API_KEY", "k")]), &Overrides::default());
    assert_eq!(route(&settings), default_of("anthropic"));
}

#[test]
fn a_variable_beats_the_credentials_file_and_an_empty_one_counts_as_unset() {
    let credentials = [("credentials.toml", "[providers.anthropic]\napi_key = \"file\"\n")];
    for (variable, expected) in [("variable", "variable"), ("", "file")] {
        let case = case(&credentials, &[("ANTHROPIC_API_KEY", variable)]);
        let settings = resolve(&case, &Overrides::default());
        assert_eq!(key_of(&settings, "anthropic").as_deref(), Some(expected));
    }
}

#[test]
fn a_model_that_cannot_work_is_kept_and_reported_never_replaced() {
    for (model, kept, fault) in [
        ("openai/gpt", "openai/gpt", "is not supported by this version"),
        ("antropic/x", "antropic/x", "did you mean `anthropic`?"),
        ("nobody/x", "nobody/x", "unknown provider `nobody`"),
        ("claude", "/claude", "names no provider"),
    ] {
        let case = case(&[], &[("ANTHROPIC_API_KEY", "k"), ("BRIDLE_MODEL", model)]);
        let settings = resolve(&case, &Overrides::default());
        assert_eq!(route(&settings), kept);
        let problems = settings.problems.join("\n");
        assert!(problems.contains(fault), "{model}: {problems}");
        assert!(problems.starts_with("variable BRIDLE_MODEL: "), "{problems}");
    }
}

#[test]
fn full_access_needs_the_users_own_file() {
    let flag = Overrides { mode: Some(Mode::FullAccess), ..Overrides::default() };
    let off = resolve(&case(&[], &[]), &flag);
    assert_eq!(off.mode, Mode::Ask);
    assert!(off.problems.join("\n").contains("full_access = true"), "{:?}", off.problems);
    let on = resolve(&case(&[("config.toml", "full_access = true\n")], &[]), &flag);
    assert_eq!(on.mode, Mode::FullAccess);
    assert_eq!(on.problems, Vec::<String>::new());
}

#[test]
fn a_bad_base_url_is_not_replaced_and_not_repeated() {
    for url in ["nonsense", "ftp://host", "https://user:marker-secret-7c1e@host", "http://h/?a"] {
        let settings = resolve(&case(&[], &[("ANTHROPIC_BASE_URL", url)]), &Overrides::default());
        assert_eq!(settings.provider("anthropic").unwrap().base_url, None, "{url}");
        assert_eq!(settings.problems.len(), 1, "{url}");
        assert!(!format!("{settings:?}").contains(MARKER));
    }
}

#[test]
fn keys_of_every_layer_stay_out_of_debug_rows_and_problems() {
    let toml = format!(
        "[providers.anthropic]\napi_key = \"{MARKER}\"\n[providers.openai]\napi_key = \"{MARKER}\"\n"
    );
    let case = case(
        &[("config.toml", &toml), ("credentials.toml", &toml)],
        &[("DEEPSEEK_API_KEY", MARKER), ("ANTHROPIC_API_KEY", MARKER)],
    );
    let settings = resolve(&case, &Overrides::default());
    assert!(!format!("{settings:?}").contains(MARKER));
    let keys = settings.rows.iter().filter(|row| row.key.ends_with("api_key"));
    assert_eq!(keys.map(|row| row.value.as_str()).collect::<Vec<_>>(), ["(set)"; 3]);
}

#[test]
fn a_broken_file_leaves_the_safe_default_and_says_so() {
    let settings =
        resolve(&case(&[("config.toml", "mode = \n\u{0}[[[")], &[]), &Overrides::default());
    assert_eq!(settings.mode, Mode::Ask);
    assert!(settings.problems.join("\n").contains("config.toml:1: "), "{:?}", settings.problems);
}

#[test]
fn no_home_is_no_failure() {
    let settings = load(&Environment::default(), &Overrides::default());
    assert_eq!((settings.state, settings.config), (None, None));
    assert_eq!(settings.problems, Vec::<String>::new());
}

/// A key is bound to the address that it was given with.
#[test]
fn a_key_goes_to_the_address_of_its_own_place_only() {
    let file_key = "[providers.anthropic]\napi_key = \"file\"\n";
    let file_url = "[providers.anthropic]\nbase_url = \"http://proxy\"\n";
    let named = "[providers.anthropic]\nbase_url = \"http://proxy\"\n\
                 api_key_variable = \"ANTHROPIC_API_KEY\"\n";
    let key = ("ANTHROPIC_API_KEY", "variable");
    let url = ("ANTHROPIC_BASE_URL", "http://elsewhere");
    let same = ("ANTHROPIC_BASE_URL", "https://api.anthropic.com/other");
    for (config, credentials, variables, expected) in [
        ("", "", vec![key, url], Some("variable")),
        ("", file_key, vec![url], None),
        ("", file_key, vec![same], Some("file")),
        ("", file_key, vec![key, url], Some("variable")),
        (file_url, file_key, vec![], Some("file")),
        (file_url, "", vec![key], None),
        (file_url, file_key, vec![key], Some("file")),
        (named, "", vec![key], Some("variable")),
    ] {
        let files = [("config.toml", config), ("credentials.toml", credentials)];
        let settings = resolve(&case(&files, &variables), &Overrides::default());
        let used = key_of(&settings, "anthropic");
        assert_eq!(used.as_deref(), expected, "{config:?} {credentials:?} {variables:?}");
        let provider = settings.provider("anthropic").unwrap();
        assert_eq!(provider.withheld.is_some(), expected.is_none());
        assert_eq!(settings.problems.len(), usize::from(expected.is_none()));
    }
}
