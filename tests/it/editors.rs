//! The files of `editor-configs`: each is read by the rules of its own format, and the command
//! that an editor would take out of it really starts the agent, which opens a session.

use std::path::{Path, PathBuf};

use bridle_tests::{Client, Launch, Place, binary, skip};
use serde_json::{Value, json};

use crate::repository::{root, tracked};

/// What the Neovim plugins do with their configuration: run it, and look into what it sets up.
const NEOVIM: &str = r#"
local words
package.preload["codecompanion"] = function()
  return { setup = function(options)
    local adapter = options.adapters.acp[options.interactions.chat.adapter]()
    words = adapter.commands.default
  end }
end
package.preload["codecompanion.adapters"] = function()
  return { extend = function(_, options) return options end }
end
package.preload["avante"] = function()
  return { setup = function(options)
    local provider = options.acp_providers[options.provider]
    words = { "/usr/bin/env", "-i", "PATH=" .. os.getenv("PATH") }
    for name, value in pairs(provider.env) do table.insert(words, name .. "=" .. value) end
    table.move({ provider.command, table.unpack(provider.args) }, 1, 9, #words + 1, words)
  end }
end
dofile(arg[1])
for _, word in ipairs(words) do print(word) end
"#;

/// A place with `bridle` on the `PATH` of what is started in it.
struct Desk {
    place: Place,
    programs: PathBuf,
}

impl Desk {
    fn new() -> Self {
        let place = Place::new();
        let programs = place.user_home().join("bin");
        fs_err::create_dir(&programs).unwrap();
        std::os::unix::fs::symlink(binary(), programs.join("bridle")).unwrap();
        Self { place, programs }
    }

    /// A command, found as an editor finds it.
    fn launch(&self, words: &[String]) -> Launch {
        let path = format!("{}:/usr/bin:/bin", self.programs.display());
        let launch = self.place.launch(&words[1..]).replacing_program(&words[0]).env("PATH", path);
        launch.through(["/usr/bin/env"])
    }

    async fn starts(&self, words: &[String]) {
        let mut client = Client::start(&self.launch(words));
        let result = client.request("initialize", json!({"protocolVersion": 1})).await.ok();
        assert_eq!(result["agentInfo"]["name"], "bridle", "{words:?}");
        client.new_session(&self.place).await;
        client.finish(&self.place).await;
    }

    /// The lines that a program prints.
    async fn lines(&self, words: &[&str]) -> Vec<String> {
        let words: Vec<String> = words.iter().map(|&word| word.into()).collect();
        let output = self.launch(&words).output().await;
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }
}

fn file(name: &str) -> PathBuf {
    root().join("editor-configs").join(name)
}

fn text(name: &str) -> String {
    fs_err::read_to_string(file(name)).unwrap()
}

fn parsed(name: &str) -> Value {
    serde_json::from_str(&text(name)).unwrap()
}

fn words(values: &Value) -> Vec<String> {
    values.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
}

/// The command of the one entry in `agent_servers`.
fn agent_server(configuration: &Value) -> Vec<String> {
    let servers = configuration["agent_servers"].as_object().unwrap();
    let server = servers.values().next().unwrap();
    assert!(server["env"].is_object());
    let command = server["command"].as_str().unwrap().to_owned();
    [vec![command], words(&server["args"])].concat()
}

#[tokio::test]
async fn zed_starts_the_agent() {
    let configuration = parsed("zed.json");
    assert_eq!(configuration["agent_servers"]["Bridle"]["type"], "custom");
    Desk::new().starts(&agent_server(&configuration)).await;
}

/// The command must be absolute; where it lies is for the reader to say.
#[tokio::test]
async fn jetbrains_starts_the_agent() {
    let desk = Desk::new();
    let mut words = agent_server(&parsed("jetbrains.json"));
    assert!(Path::new(&words[0]).is_absolute() && words[0].ends_with("/bridle"), "{words:?}");
    words[0] = desk.programs.join("bridle").display().to_string();
    desk.starts(&words).await;
}

#[tokio::test]
async fn acpx_starts_the_agent() {
    Desk::new().starts(&words(&parsed("acpx.json")["agents"]["bridle"]["argv"])).await;
}

#[tokio::test]
async fn codecompanion_and_avante_start_the_agent() {
    if !Path::new("/usr/bin/lua5.4").exists() {
        return skip("lua", "lua5.4 is not installed");
    }
    for name in ["codecompanion.lua", "avante.lua"] {
        let desk = Desk::new();
        let reader = desk.place.write("reader.lua", NEOVIM);
        let (reader, file) = (reader.display().to_string(), file(name).display().to_string());
        desk.starts(&desk.lines(&["lua5.4", &reader, &file]).await).await;
    }
}

#[tokio::test]
async fn agent_shell_starts_the_agent() {
    let forms = Sexp::read(&text("agent-shell.el"));
    let client = forms.find("agent-shell--make-acp-client").expect("a client");
    let Some(Sexp::Text(command)) = client.after(":command") else { panic!("no command") };
    let Some(Sexp::List(parameters)) = client.after(":command-params") else { panic!("no list") };
    let mut words = vec![command.clone()];
    for parameter in parameters {
        let Sexp::Text(parameter) = parameter else { panic!("{parameter:?} is no string") };
        words.push(parameter.clone());
    }
    Desk::new().starts(&words).await;
}

/// Toad gives the command to a shell.
#[tokio::test]
async fn toad_starts_the_agent() {
    use std::os::unix::fs::PermissionsExt as _;
    let desk = Desk::new();
    let toad = desk.programs.join("toad");
    fs_err::write(&toad, "#!/bin/sh\nprintf '%s\\n' \"$@\"\n").unwrap();
    fs_err::set_permissions(&toad, std::fs::Permissions::from_mode(0o700)).unwrap();
    let given = desk.lines(&["sh", file("toad.sh").to_str().unwrap(), "--title", "x"]).await;
    assert_eq!([&given[..1], &given[2..]].concat(), ["acp", "--title", "x"]);
    desk.starts(&["sh".into(), "-c".into(), given[1].clone()]).await;
}

#[test]
fn every_configuration_has_its_page_and_its_row() {
    let index = text("README.md");
    let paths: Vec<String> = tracked().into_iter().map(|file| file.path).collect();
    let names: Vec<&str> =
        paths.iter().filter_map(|path| path.strip_prefix("editor-configs/")).collect();
    assert!(names.len() > 8, "{names:?}");
    for name in names.iter().filter(|name| !name.ends_with(".md")) {
        let (client, _) = name.rsplit_once('.').unwrap();
        let page = format!("{client}.md");
        assert!(names.contains(&page.as_str()), "{name} has no page");
        assert!(index.contains(&format!("]({page})")), "{page} has no row");
        assert!(text(&page).contains(&format!("]({name})")), "{page} does not show {name}");
        assert!(include_str!("editors.rs").contains(&format!("{name}\"")), "no test of {name}");
    }
}

/// As much of Emacs Lisp as a configuration needs: lists, strings, symbols, quotes, comments.
#[derive(Debug)]
enum Sexp {
    List(Vec<Sexp>),
    Text(String),
    Symbol(String),
}

impl Sexp {
    /// All forms of a file, as one list.
    fn read(text: &str) -> Self {
        let mut open = vec![Vec::new()];
        let mut rest = text.chars().peekable();
        while let Some(next) = rest.next() {
            match next {
                ';' => while rest.next_if(|&next| next != '\n').is_some() {},
                '(' => open.push(Vec::new()),
                ')' => {
                    let list = open.pop().unwrap();
                    open.last_mut().expect("a `)` too many").push(Self::List(list));
                }
                '"' => {
                    let mut text = String::new();
                    while let Some(next) = rest.next().filter(|&next| next != '"') {
                        text.push(if next == '\\' { rest.next().unwrap() } else { next });
                    }
                    open.last_mut().unwrap().push(Self::Text(text));
                }
                _ if next.is_whitespace() || next == '\'' => {}
                _ => {
                    let mut symbol = String::from(next);
                    let ends = |next: &char| next.is_whitespace() || "()\";'".contains(*next);
                    while let Some(next) = rest.next_if(|next| !ends(next)) {
                        symbol.push(next);
                    }
                    open.last_mut().unwrap().push(Self::Symbol(symbol));
                }
            }
        }
        assert_eq!(open.len(), 1, "a `)` is missing");
        Self::List(open.remove(0))
    }

    fn is(&self, name: &str) -> bool {
        matches!(self, Self::Symbol(symbol) if symbol == name)
    }

    /// The first list, however deep, that begins with this symbol.
    fn find(&self, name: &str) -> Option<&Self> {
        let Self::List(items) = self else { return None };
        if items.first().is_some_and(|first| first.is(name)) {
            return Some(self);
        }
        items.iter().find_map(|item| item.find(name))
    }

    /// What follows a keyword of this list.
    fn after(&self, keyword: &str) -> Option<&Self> {
        let Self::List(items) = self else { return None };
        items.get(items.iter().position(|item| item.is(keyword))? + 1)
    }
}
