//! Certificates: a server whose authority only the user's own settings name.

use std::path::Path;
use std::process::Stdio;

use bridle_tests::{Launch, Place, skip};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

const LIST: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n\
                    {\"data\":[{\"id\":\"claude-over-tls\"}]}";

#[expect(clippy::disallowed_methods, reason = "the tests start programs as a person would")]
fn openssl(folder: &Path, arguments: &str) -> Command {
    let mut command = Command::new("openssl");
    command
        .args(arguments.split(' '))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true);
    command
}

/// An HTTPS server of a throw-away authority (`ca.pem` in its folder), which has one list of
/// models; `None` where OpenSSL is not installed.
async fn server(folder: &Path) -> Option<(Child, String)> {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    let names = "subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n";
    fs_err::write(folder.join("names"), names).unwrap();
    fs_err::create_dir(folder.join("v1")).unwrap();
    fs_err::write(folder.join("v1/models?limit=1000"), LIST).unwrap();
    for step in [
        format!(
            "req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=bridle-test -days 2 -addext \
             basicConstraints=critical,CA:TRUE"
        ),
        format!("req {key} -keyout server.key -out server.csr -subj /CN=localhost"),
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem -days 2 \
         -extfile names"
            .to_owned(),
    ] {
        let status = openssl(folder, &step).status().await.ok()?;
        assert!(status.success(), "openssl {step}");
    }
    let serve = "s_server -accept 127.0.0.1:0 -cert server.pem -key server.key -HTTP";
    let mut child = openssl(folder, serve).spawn().ok()?;
    let mut lines = BufReader::new(child.stdout.take()?).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if let Some(port) = line.strip_prefix("ACCEPT 127.0.0.1:") {
            return Some((child, format!("https://localhost:{port}")));
        }
    }
    panic!("the server does not start");
}

/// The same authorities are trusted for MCP servers.
#[tokio::test]
async fn an_authority_is_trusted_for_mcp_servers_too() {
    let folder = tempfile::tempdir().unwrap();
    let Some((_server, url)) = server(folder.path()).await else {
        return skip("tls", "openssl is not installed");
    };
    let ca = folder.path().join("ca.pem");
    let table = format!("[mcp.s]\nurl = \"{url}/mcp\"\n");
    for (config, refused) in [(table.clone(), true), (format!("ca_file = {ca:?}\n{table}"), false)]
    {
        let place = Place::new();
        place.configure("config.toml", config);
        let output = place.launch(["mcp", "test"]).output().await;
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        // It speaks no MCP in either case.
        assert!(told.starts_with("FAIL  s: "), "{told}");
        let is_refused = told.contains("cannot be reached") && told.contains("certificate");
        assert_eq!(is_refused, refused, "{told}");
    }
}

fn refresh(place: &Place, url: &str) -> Launch {
    place.launch(["models", "--refresh"]).model_at(url)
}

async fn lists(launch: &Launch) -> (Option<i32>, bool, String) {
    let output = launch.output().await;
    let listed = String::from_utf8_lossy(&output.stdout).contains("claude-over-tls");
    (output.status.code(), listed, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// An authority of the user's own is trusted by a variable or by the configuration, and not
/// otherwise.
#[tokio::test]
async fn an_authority_is_trusted_when_the_user_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let Some((_server, url)) = server(folder.path()).await else {
        return skip("tls", "openssl is not installed");
    };
    let ca = folder.path().join("ca.pem");

    let (code, listed, told) = lists(&refresh(&Place::new(), &url)).await;
    assert_eq!((code, listed), (Some(1), false), "an unknown authority: {told}");

    let place = Place::new();
    let (code, listed, told) = lists(&refresh(&place, &url).env("SSL_CERT_FILE", &ca)).await;
    assert_eq!((code, listed), (Some(0), true), "{told}");

    let place = Place::new();
    place.configure("config.toml", format!("ca_file = {ca:?}\n"));
    let (code, listed, told) = lists(&refresh(&place, &url)).await;
    assert_eq!((code, listed), (Some(0), true), "{told}");

    for content in [None, Some("no certificate")] {
        let place = Place::new();
        let wrong = place.user_home().join("wrong.pem");
        if let Some(content) = content {
            fs_err::write(&wrong, content).unwrap();
        }
        place.configure("config.toml", format!("ca_file = {wrong:?}\n"));
        let (code, listed, told) = lists(&refresh(&place, &url)).await;
        assert_eq!((code, listed), (Some(1), false));
        assert!(told.contains("wrong.pem"), "{told}");
    }
}
