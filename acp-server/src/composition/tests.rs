//! What the composition offers and refuses, from settings alone.

use bridle_model::{FailureCode, ModelSource};

use super::*;

async fn app(variables: &[(&str, &str)]) -> App {
    let (secrets, plain): (Vec<_>, Vec<_>) =
        variables.iter().partition(|(name, _)| Environment::is_secret_name(name));
    let environment = Environment::new(
        plain.into_iter().map(|(k, v)| (k.into(), v.into())),
        secrets.into_iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())),
    );
    App::compose(environment, Overrides::default()).await
}

fn write_private(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    fs_err::write(path, text).unwrap();
    fs_err::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

async fn refusal(app: &App, route: &str) -> (FailureCode, String) {
    let failure = app
        .scope
        .get::<dyn ModelSource>()
        .unwrap()
        .prepare(&Route::parse(route).unwrap())
        .await
        .err()
        .unwrap();
    (failure.code, failure.message)
}

#[tokio::test]
async fn without_a_key_the_prompt_says_what_to_set_and_models_are_still_listed() {
    let app = app(&[]).await;
    assert!(!app.has_credentials());
    assert!(app.settings().route.is_none());
    let models = app.models();
    assert!(models.iter().all(|choice| choice.name.ends_with(" (no key)")), "{models:?}");
    let models: Vec<_> = models.into_iter().map(|choice| choice.route.provider).collect();
    assert_eq!(models, ["anthropic".into(), "deepseek".into()]);
    let (code, message) = refusal(&app, "deepseek/deepseek-flash").await;
    assert_eq!(code, FailureCode::Auth);
    assert!(message.contains("DEEPSEEK_API_KEY"), "{message}");
}

#[tokio::test]
async fn the_route_of_a_call_is_the_route_that_was_asked_for() {
    let app = app(&[("ANTHROPIC_API_KEY", "k")]).await;
    for route in ["anthropic/claude-opus-5-5", "anthropic/not-in-the-catalogue"] {
        let route = Route::parse(route).unwrap();
        let call = app.scope.get::<dyn ModelSource>().unwrap().prepare(&route).await.unwrap();
        assert_eq!(call.route(), &route);
    }
    let (code, message) = refusal(&app, "openai/gpt").await;
    assert_eq!(code, FailureCode::UnknownModel);
    assert!(message.contains("anthropic or deepseek"), "{message}");
}

#[tokio::test]
async fn the_default_is_the_first_model_offered_and_none_is_offered_twice() {
    let app = app(&[("ANTHROPIC_API_KEY", "k"), ("BRIDLE_MODEL", "anthropic/new-model")]).await;
    let models = app.models();
    assert_eq!(models[0].route.to_string(), "anthropic/new-model");
    let mut routes: Vec<_> = models.iter().map(|choice| choice.route.to_string()).collect();
    let count = routes.len();
    assert!(count > 1 && routes.iter().all(|route| route.starts_with("anthropic/")));
    routes.sort();
    routes.dedup();
    assert_eq!(routes.len(), count);
}

#[tokio::test]
async fn a_model_that_cannot_work_is_named_so_and_not_offered() {
    for model in ["bogus/x", "bogus", "openai/x"] {
        let app = app(&[("ANTHROPIC_API_KEY", "k"), ("BRIDLE_MODEL", model)]).await;
        let route = app.settings().route.clone().unwrap();
        assert!(app.models().iter().all(|choice| choice.route.provider.as_ref() == "anthropic"));
        assert!(app.model(&route).name.ends_with(" (cannot be used)"), "{model}");
    }
}

#[tokio::test]
async fn a_reload_takes_a_key_that_was_written_meanwhile() {
    let home = tempfile::tempdir().unwrap();
    let app = app(&[("BRIDLE_HOME", home.path().to_str().unwrap())]).await;
    assert!(!app.has_credentials());
    let key = "[providers.deepseek]\napi_key = \"k\"\n";
    write_private(&home.path().join("credentials.toml"), key);
    app.reload();
    assert!(app.has_credentials());
    assert_eq!(app.settings().route.as_ref().unwrap().provider.as_ref(), "deepseek");
}

#[tokio::test]
async fn full_access_is_offered_only_when_the_user_enabled_it() {
    let home = tempfile::tempdir().unwrap();
    let variables = [("BRIDLE_HOME", home.path().to_str().unwrap())];
    assert!(!app(&variables).await.modes_under(Mode::FullAccess).contains(&Mode::FullAccess));
    fs_err::write(home.path().join("config.toml"), "full_access = true\n").unwrap();
    assert!(app(&variables).await.modes_under(Mode::FullAccess).contains(&Mode::FullAccess));
}

#[tokio::test]
async fn optional_tools_are_offered_only_when_the_user_enabled_them() {
    let home = tempfile::tempdir().unwrap();
    for (config, state) in
        [("", RowState::Disabled), ("apply_patch = true\nterminal = true\n", RowState::Active)]
    {
        fs_err::write(home.path().join("config.toml"), config).unwrap();
        let app = app(&[("BRIDLE_HOME", home.path().to_str().unwrap())]).await;
        let (parts, _) = app.session_parts().await;
        for tool in ["apply_patch", "terminal"] {
            let part = parts.iter().find(|part| part.id == tool).unwrap();
            assert_eq!(part.state, state, "{tool}: {config}");
        }
        app.close().await;
    }
}

#[tokio::test]
async fn a_session_needs_a_home_and_an_absolute_existing_folder() {
    let home = tempfile::tempdir().unwrap();
    let homeless = app(&[]).await.new_header(home.path(), Vec::new(), "acp").unwrap_err();
    assert!(homeless.contains("BRIDLE_HOME"), "{homeless}");
    assert!(app(&[]).await.store().list().is_err());

    let app = app(&[("BRIDLE_HOME", home.path().to_str().unwrap())]).await;
    let file = home.path().join("file");
    fs_err::write(&file, "").unwrap();
    for (path, fault) in [
        (Path::new("relative"), "not an absolute path"),
        (&home.path().join("missing"), "missing"),
        (&file, "not a folder"),
    ] {
        let error = app.new_header(path, Vec::new(), "acp").unwrap_err();
        assert!(error.contains(fault), "{error}");
    }
    let header = app.new_header(home.path(), Vec::new(), "acp").unwrap();
    assert_eq!(header.cwd, fs_err::canonicalize(home.path()).unwrap());
    assert!(SessionId::parse(header.id.as_str()).is_some());
}

#[tokio::test]
async fn every_part_of_the_process_and_of_a_session_is_active() {
    let home = tempfile::tempdir().unwrap();
    let app = app(&[("BRIDLE_HOME", home.path().to_str().unwrap())]).await;
    let parts = [app.parts().await, app.session_parts().await.0].concat();
    let faults: Vec<_> = parts.iter().filter_map(fault).collect();
    assert!(faults.is_empty(), "{faults:?}");
    assert!(parts.len() > 20, "{parts:?}");
    app.close().await;
}
