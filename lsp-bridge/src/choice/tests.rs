//! Which servers a file has.

use fs_err as fs;
use tempfile::TempDir;

use super::*;
use crate::ServerTable;

/// The names of the servers for a file of a tree, and the roots below it that are not the whole.
fn chosen(tree: &[&str], file: &str) -> Vec<String> {
    let folder = TempDir::new().unwrap();
    for path in tree {
        let place = folder.path().join(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, "").unwrap();
    }
    let servers = ServerTable::built_in().servers();
    let roots = [folder.path().to_owned()];
    let top = crate::roots::canonical(folder.path());
    let chosen = servers_for(&folder.path().join(file), &servers, &roots);
    let names = chosen.iter().map(|it| {
        let root = it.root.strip_prefix(&top).unwrap().to_str().unwrap();
        match root {
            "" => it.definition.name.clone(),
            root => format!("{}@{root}", it.definition.name),
        }
    });
    names.collect()
}

#[test]
fn servers_stand_in_the_order_of_preference() {
    let python = ["ty", "basedpyright", "pyright", "pyrefly", "zuban", "jedi", "pylsp", "ruff"];
    assert_eq!(chosen(&[], "a.py"), python);
    assert_eq!(chosen(&[], "a.rs"), ["rust-analyzer"]);
    assert_eq!(chosen(&[], "a.unknown"), Vec::<String>::new());
}

#[test]
fn deno_is_for_its_own_projects_and_there_alone() {
    let typescript = ["typescript", "typescript-language-server", "vtsls"];
    assert_eq!(chosen(&[], "a.ts"), typescript);
    assert_eq!(chosen(&["deno.json"], "a.ts"), ["deno"]);
    assert_eq!(chosen(&["deno.json", "package.json"], "a.ts"), ["deno"]);
    assert_eq!(chosen(&["package.json", "d/deno.json"], "d/src/a.ts"), ["deno@d"]);
    let web = ["typescript@web", "typescript-language-server@web", "vtsls@web"];
    assert_eq!(chosen(&["deno.json", "web/package.json"], "web/a.ts"), web, "the nearer one");
}

#[test]
fn a_linter_is_asked_beside_the_server_where_it_is_configured() {
    let with = ["typescript", "typescript-language-server", "vtsls", "eslint@w"];
    assert_eq!(chosen(&["w/eslint.config.mjs"], "w/a.ts"), with);
    assert_eq!(chosen(&["deno.json", "biome.json"], "a.ts"), ["deno", "biome"]);
    assert_eq!(chosen(&["ansible.cfg"], "roles/x.yml"), ["ansible"]);
    assert_eq!(chosen(&[], "roles/x.yml"), ["yaml-language-server"]);
}

#[test]
fn a_file_outside_has_no_server() {
    let servers = ServerTable::built_in().servers();
    let inside = TempDir::new().unwrap();
    let outside = TempDir::new().unwrap();
    let roots = [inside.path().to_owned()];
    assert_eq!(servers_for(&outside.path().join("a.rs"), &servers, &roots), []);
    assert_eq!(servers_for(&inside.path().join("a.rs"), &servers, &roots).len(), 1);
    assert_eq!(servers_for(&inside.path().join("a.rs"), &servers, &[]), []);
}

#[test]
fn a_language_is_known_by_the_name_of_the_file() {
    let servers = ServerTable::built_in().servers();
    let language = |server: &str, file: &str| {
        let server = servers.iter().find(|it| it.name == server).unwrap();
        language_of(Path::new(file), server)
    };
    assert_eq!(language("typescript", "/a/x.d.ts"), Some("typescript"));
    assert_eq!(language("typescript", "x.tsx"), Some("typescriptreact"));
    assert_eq!(language("typescript", "ts"), None);
    assert_eq!(language("typescript", "x.ts.bak"), None);
    assert_eq!(language("docker", "Dockerfile"), Some("dockerfile"));
    assert_eq!(language("docker", "Dockerfile.dev"), Some("dockerfile"));
    assert_eq!(language("docker", "my.Dockerfile"), Some("dockerfile"));
    assert_eq!(language("docker", "MyDockerfile"), None);
    assert_eq!(language("cmake", "CMakeLists.txt"), Some("cmake"));
    assert_eq!(language("cmake", "notes.txt"), None);
    assert_eq!(language("fortls", "OLD.F90"), Some("fortran"));
    assert_eq!(language("gopls", "go.mod"), Some("go.mod"));
    assert_eq!(language("r", "a.R"), Some("r"));
    let files =
        "command = 'm'\nfiles = { '.ts' = 'a', '.d.ts' = 'b', 'x.ts' = 'c', 'y*.ts' = 'd' }";
    let mut table = ServerTable::built_in().clone();
    table.patch("mine", &toml::from_str(files).unwrap()).unwrap();
    let mine = &table.servers()[0];
    for (file, language) in [("i.ts", "a"), ("i.d.ts", "b"), ("x.ts", "c"), ("yes.ts", "d")] {
        assert_eq!(language_of(Path::new(file), mine), Some(language), "{file}");
    }
}
