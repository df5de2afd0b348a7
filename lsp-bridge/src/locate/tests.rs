//! Programs in folders on the disk.

use std::os::unix::fs::symlink;

use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::{ServerPatch, ServerTable};

/// A machine: `bin` is on the search path, `work` is what the session works in, `home` is the user's.
struct Machine(TempDir);

impl Machine {
    fn new() -> Self {
        let machine = Self(TempDir::new().unwrap());
        for folder in ["bin", "work/bin", "home/bin"] {
            fs::create_dir_all(machine.at(folder)).unwrap();
        }
        machine
    }

    fn at(&self, path: &str) -> PathBuf {
        canonical(self.0.path()).join(path)
    }

    fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), text).unwrap();
    }

    fn program(&self, path: &str) {
        self.write(path, "#!/bin/sh\n");
        let permissions = std::fs::Permissions::from_mode(0o755);
        fs::set_permissions(self.at(path), permissions).unwrap();
    }

    /// A package of npm with a program, linked to as npm does it.
    fn package(&self, prefix: &str, name: &str, version: &str, program: &str) {
        let folder = format!("{prefix}/lib/node_modules/{name}");
        let manifest = json!({"name": name, "version": version}).to_string();
        self.write(&format!("{folder}/package.json"), &manifest);
        self.program(&format!("{folder}/bin/{program}"));
        fs::create_dir_all(self.at(&format!("{prefix}/bin"))).unwrap();
        let target = self.at(&format!("{folder}/bin/{program}"));
        symlink(target, self.at(&format!("{prefix}/bin/{program}"))).unwrap();
    }

    fn look(
        &self,
        definition: &ServerDefinition,
        path: &str,
        root: &str,
    ) -> Result<Located, Missing> {
        let folders = path.split(':').map(|folder| match folder {
            "" => PathBuf::new(),
            // From where this process is.
            "relative" => {
                let cwd = std::env::current_dir().unwrap();
                let up = cwd.components().skip(1).map(|_| "..").collect::<PathBuf>();
                up.join(self.at("odd").strip_prefix("/").unwrap())
            }
            folder => self.at(folder),
        });
        let path = std::env::join_paths(folders).unwrap();
        let (home, roots) = (self.at("home"), [self.at(root)]);
        locate(definition, SearchIn { path: &path, home: Some(&home), session_roots: &roots })
    }

    fn locate(&self, server: &str, path: &str) -> Result<Located, Missing> {
        self.look(&definition(server, ""), path, "work")
    }
}

fn definition(server: &str, patch: &str) -> ServerDefinition {
    let mut table = ServerTable::built_in().clone();
    let patch: ServerPatch = toml::from_str(patch).unwrap();
    table.patch(server, &patch).unwrap();
    table.servers().into_iter().find(|it| it.name == server).unwrap()
}

#[test]
fn a_program_is_taken_from_the_search_path_in_its_order() {
    let machine = Machine::new();
    assert_eq!(machine.locate("clangd", "bin"), Err(Missing::Nowhere("clangd".to_owned())));
    machine.write("bin/clangd", "not a program");
    fs::create_dir_all(machine.at("home/bin/clangd")).unwrap();
    assert_eq!(
        machine.locate("clangd", "bin:home/bin"),
        Err(Missing::Nowhere("clangd".to_owned()))
    );
    machine.program("more/clangd");
    // What stands relative to whatever folder is current is nobody's search path.
    machine.program("odd/clangd");
    let found = machine.locate("clangd", ":relative:bin:home/bin:more").unwrap();
    assert_eq!(found.program, machine.at("more/clangd"));
    assert_eq!(found.initialization, Value::Null);
}

/// Fault 29, and a part of 28.
#[test]
fn no_program_of_the_workspace_is_taken() {
    let machine = Machine::new();
    machine.program("work/node_modules/.bin/ty");
    let inside = machine.at("work/node_modules/.bin/ty");
    let path = "work/node_modules/.bin:bin";
    assert_eq!(machine.locate("ty", path), Err(Missing::InWorkspace(inside.clone())));
    // Nor through a link to a folder of it.
    symlink(machine.at("work/node_modules/.bin"), machine.at("tools")).unwrap();
    let linked = machine.at("tools/ty");
    assert_eq!(machine.locate("ty", "tools"), Err(Missing::InWorkspace(linked)));
    machine.program("bin/ty");
    assert_eq!(machine.locate("ty", path).unwrap().program, machine.at("bin/ty"));
    // What the user names is the user's choice.
    let named = definition("ty", &format!("command = '{}'", inside.display()));
    assert_eq!(machine.look(&named, "bin", "work").unwrap().program, inside);
    let gone = definition("ty", "command = '/nowhere/ty'");
    let fault = Err(Missing::NotAProgram(PathBuf::from("/nowhere/ty")));
    assert_eq!(machine.look(&gone, "bin", "work"), fault);
}

#[test]
fn a_session_in_the_users_home_has_the_users_programs() {
    let machine = Machine::new();
    machine.program("home/bin/ty");
    let ty = definition("ty", "");
    assert!(machine.look(&ty, "home/bin", "home").is_ok());
    assert!(machine.look(&ty, "home/bin", "").is_ok());
    assert!(machine.look(&ty, "home/bin", "home/bin").is_err());
}

#[test]
fn the_version_of_typescript_decides_which_server_is_for_it() {
    let machine = Machine::new();
    machine.package("seven", "typescript", "7.0.2", "tsc");
    machine.package("five", "typescript", "5.9.3", "tsc");
    machine.program("bin/typescript-language-server");
    assert!(machine.locate("typescript", "bin:seven/bin").is_ok());
    let fault = machine.locate("typescript-language-server", "bin:seven/bin").unwrap_err();
    let Missing::Version { found, wanted, .. } = &fault else { panic!("{fault:?}") };
    assert_eq!((found.as_str(), wanted.as_str()), ("7.0.2", "versions before 7"));
    let older = machine.locate("typescript-language-server", "bin:five/bin").unwrap();
    assert_eq!(older.program, machine.at("bin/typescript-language-server"));
    let tsserver = machine.at("five/lib/node_modules/typescript/lib/tsserver.js");
    assert_eq!(older.initialization["tsserver"]["path"], tsserver.to_str().unwrap());
    assert_eq!(older.initialization["maxTsServerMemory"], 3072);
    let fault = machine.locate("typescript", "bin:five/bin").unwrap_err();
    assert!(fault.to_string().contains("is version 5.9.3"), "{fault}");
    assert!(fault.to_string().contains("works with 7 and later only"), "{fault}");
    let none = machine.locate("typescript-language-server", "bin").unwrap_err();
    assert_eq!(none, Missing::Nowhere("tsc".to_owned()));
}

#[test]
fn a_version_is_seen_also_behind_a_script_where_it_can_be() {
    let machine = Machine::new();
    // An installer that writes scripts instead of links.
    machine.program("shims/bin/tsc");
    machine.program("shims/bin/typescript-language-server");
    let path = "shims/bin";
    assert!(machine.locate("typescript", path).is_ok(), "the newest is assumed");
    assert!(machine.locate("typescript-language-server", path).is_err());
    let manifest = r#"{"name": "typescript", "version": "5.1.0"}"#;
    machine.write("shims/lib/node_modules/typescript/package.json", manifest);
    assert!(machine.locate("typescript", path).is_err());
    assert!(machine.locate("typescript-language-server", path).is_ok());
}

#[test]
fn settings_name_what_is_in_the_root_only_where_it_is() {
    let machine = Machine::new();
    let pyright = definition("pyright", "");
    let root = machine.at("work");
    assert_eq!(pyright.settings_in(&root)["python"].get("pythonPath"), None);
    machine.program("work/.venv/bin/python");
    let python = machine.at("work/.venv/bin/python");
    let settings = pyright.settings_in(&root);
    assert_eq!(settings["python"]["pythonPath"], python.to_str().unwrap());
    assert_eq!(settings["python"]["analysis"]["diagnosticMode"], "openFilesOnly");
}
