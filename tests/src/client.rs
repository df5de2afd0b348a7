//! The scripted client: it starts the agent, writes lines, answers questions by its policy, and
//! waits for what the trace shows. It offers no client capability unless a test does.

use std::collections::HashMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::task::JoinSet;

use crate::permission::Permission;
use crate::place::{Launch, Place};
use crate::trace::{Direction, Entry, Trace};
use crate::watch::until_readable;

/// How long anything may take before the test fails. Generous: the machine may be busy.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// The id of a request that the client sent.
pub type RequestId = Value;

/// What came back for a request.
#[derive(Clone, Debug)]
pub struct Reply {
    message: Value,
    read_at: Instant,
}

/// A running agent and everything said so far.
pub struct Client {
    child: Child,
    pid: u32,
    shared: Arc<Shared>,
    tasks: JoinSet<()>,
    next_id: u64,
}

struct Shared {
    trace: Mutex<Trace>,
    /// By the request's id. To look for them in a trace that grows would keep a busy client from
    /// reading, and the agent would seem slow.
    replies: Mutex<HashMap<String, Reply>>,
    changed: watch::Sender<()>,
    permission: Mutex<Permission>,
    reading: watch::Sender<bool>,
    /// Reading ends with the line that holds this.
    last: Mutex<Option<String>>,
    /// The agent's stdout, for looking whether something waits in it.
    output: OwnedFd,
    stdin: AsyncMutex<Option<ChildStdin>>,
}

impl Client {
    /// Starts the agent. Nothing is sent yet.
    pub fn start(launch: &Launch) -> Self {
        let mut child = launch.command().spawn().expect("the agent starts");
        let pid = child.id().expect("it has just started");
        let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let shared = Arc::new(Shared {
            trace: Mutex::default(),
            replies: Mutex::default(),
            changed: watch::Sender::new(()),
            permission: Mutex::new(Permission::Allow),
            reading: watch::Sender::new(true),
            last: Mutex::default(),
            output: stdout.as_fd().try_clone_to_owned().expect("a descriptor"),
            stdin: AsyncMutex::new(child.stdin.take()),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(read_stdout(Arc::clone(&shared), stdout));
        tasks.spawn(read_stderr(Arc::clone(&shared), stderr));
        Self { child, pid, shared, tasks, next_id: 1 }
    }

    /// Starts the agent and initializes it without any client capability.
    pub async fn ready(launch: &Launch) -> Self {
        let mut client = Self::start(launch);
        client.request("initialize", json!({"protocolVersion": 1})).await.ok();
        client
    }

    /// Starts and initializes the agent and opens a session in the workspace of `place`.
    pub async fn in_session(place: &Place, launch: &Launch) -> (Self, String) {
        let mut client = Self::ready(launch).await;
        let session = client.new_session(place).await;
        (client, session)
    }

    /// The process id of the agent.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// How questions are answered from now on.
    pub fn set_permission(&self, permission: Permission) {
        *lock(&self.shared.permission) = permission;
    }

    /// Stops or resumes reading the agent's stdout, as a stuck client would; to the end, whatever
    /// [`Client::read_until`] was told.
    pub fn set_reading(&self, reading: bool) {
        lock(&self.shared.last).take();
        self.shared.reading.send_replace(reading);
    }

    /// Reads no further than the next line that holds `text`. Wait for that line before what follows.
    pub fn read_until(&self, text: &str) {
        *lock(&self.shared.last) = Some(text.to_owned());
    }

    /// Waits until the agent has written what nobody reads.
    pub async fn unread(&self) {
        let shared = Arc::clone(&self.shared);
        let waits = tokio::task::spawn_blocking(move || until_readable(&shared.output, DEADLINE));
        assert!(waits.await.unwrap(), "the agent writes nothing more\n{}", self.trace());
    }

    /// Everything said so far.
    pub fn trace(&self) -> Trace {
        lock(&self.shared.trace).clone()
    }

    /// Takes out of the trace what was said so far, for a test that goes on for long: every wait
    /// looks through all of it. Nothing may be waited for that was said before.
    pub fn take_entries(&self) -> Vec<Entry> {
        std::mem::take(&mut lock(&self.shared.trace).entries)
    }

    /// Sends a request and waits for its response.
    pub async fn request(&mut self, method: &str, params: Value) -> Reply {
        let id = self.begin(method, params).await;
        self.reply(&id).await
    }

    /// Sends a request.
    pub async fn begin(&mut self, method: &str, params: Value) -> RequestId {
        let id = json!(self.next_id);
        self.next_id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
        id
    }

    /// Waits for the response to a request.
    pub async fn reply(&self, id: &RequestId) -> Reply {
        let key = id.to_string();
        let heard = |_: &Trace| lock(&self.shared.replies).get(&key).cloned();
        self.wait_for(&format!("the response to {id}"), heard).await
    }

    /// Sends a notification.
    pub async fn notify(&self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    /// Opens a session in the workspace.
    pub async fn new_session(&mut self, place: &Place) -> String {
        let params = json!({"cwd": place.workspace(), "mcpServers": []});
        let result = self.request("session/new", params).await.ok();
        result["sessionId"].as_str().expect("a session id").to_owned()
    }

    /// Loads a session of the workspace.
    pub async fn load(&mut self, place: &Place, session: &str) -> Reply {
        let cwd = place.workspace();
        let params = json!({"sessionId": session, "cwd": cwd, "mcpServers": []});
        self.request("session/load", params).await
    }

    /// Sends a prompt of one text and waits for the end of the turn.
    pub async fn prompt(&mut self, session: &str, text: &str) -> Reply {
        let id = self.begin_prompt(session, text).await;
        self.reply(&id).await
    }

    /// Sends a prompt of one text.
    pub async fn begin_prompt(&mut self, session: &str, text: &str) -> RequestId {
        let prompt = json!([{"type": "text", "text": text}]);
        self.begin("session/prompt", json!({"sessionId": session, "prompt": prompt})).await
    }

    /// Cancels the running turn of a session.
    pub async fn cancel(&self, session: &str) {
        self.notify("session/cancel", json!({"sessionId": session})).await;
    }

    /// Sends one message as one line.
    pub async fn send(&self, message: &Value) {
        self.send_raw(format!("{message}\n").as_bytes()).await;
    }

    /// Writes bytes as they are, in one write where the pipe takes it. Each line goes into the
    /// trace. An agent that has gone is no failure here: what follows will show it.
    pub async fn send_raw(&self, bytes: &[u8]) {
        self.shared.write(bytes).await;
    }

    /// Writes bytes in many small writes.
    pub async fn send_in_pieces(&self, bytes: &[u8], size: usize) {
        self.shared.record_lines(bytes);
        let mut stdin = self.shared.stdin.lock().await;
        let pipe = stdin.as_mut().expect("stdin is open");
        for piece in bytes.chunks(size) {
            pipe.write_all(piece).await.expect("the agent reads");
            pipe.flush().await.expect("the agent reads");
        }
    }

    /// Waits until `found` finds something in the trace.
    ///
    /// # Panics
    /// After the deadline, or when the agent has gone and nothing was found, with the trace.
    pub async fn wait_for<T>(&self, what: &str, found: impl Fn(&Trace) -> Option<T>) -> T {
        let mut changed = self.shared.changed.subscribe();
        let wait = async {
            loop {
                match self.look(&found) {
                    (Some(value), _) => return Some(value),
                    (None, true) => return None,
                    (None, false) => changed.changed().await.unwrap(),
                }
            }
        };
        match tokio::time::timeout(DEADLINE, wait).await {
            Ok(Some(value)) => value,
            Ok(None) => panic!("the agent has gone without {what}\n{}", self.trace()),
            Err(_) => panic!("no {what} in {DEADLINE:?}\n{}", self.trace()),
        }
    }

    /// What `found` finds now, and whether the agent's output has ended.
    fn look<T>(&self, found: impl Fn(&Trace) -> Option<T>) -> (Option<T>, bool) {
        let trace = lock(&self.shared.trace);
        (found(&trace), trace.ended)
    }

    /// Waits for the next question that has not been answered yet, and returns it whole.
    pub async fn question(&self) -> Value {
        self.wait_for("question", |trace| {
            let answered = |id: &Value| {
                trace.entries.iter().any(|entry| {
                    entry.direction == Direction::ToAgent
                        && entry.message.get("method").is_none()
                        && entry.message["id"] == *id
                })
            };
            let mut asked = trace.calls("session/request_permission").into_iter();
            asked.find(|request| !answered(&request["id"]))
        })
        .await
    }

    /// Answers a held question.
    pub async fn answer(&self, question: &Value, permission: Permission) {
        let answer = permission.answer(question).expect("an answer, not another wait");
        self.send(&answer).await;
    }

    /// Closes the agent's stdin.
    pub async fn close_stdin(&self) {
        drop(self.shared.stdin.lock().await.take());
    }

    /// Sends a signal to the agent alone.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = i32::try_from(self.pid).ok().and_then(rustix::process::Pid::from_raw).unwrap();
        rustix::process::kill_process(pid, signal).expect("the agent runs");
    }

    /// Waits for the end of the agent and of its output.
    pub async fn wait(&mut self) -> (ExitStatus, Trace) {
        let end = async {
            let status = self.child.wait().await.expect("a child of ours");
            while self.tasks.join_next().await.is_some() {}
            status
        };
        match tokio::time::timeout(DEADLINE, end).await {
            Ok(status) => (status, self.trace()),
            Err(_) => panic!("the agent does not end\n{}", self.trace()),
        }
    }

    /// Closes stdin and asserts what must hold at the end of every run: exit code 0, no process
    /// left, and no breach of the rules of a trace.
    pub async fn finish(self, place: &Place) -> Trace {
        let trace = self.finish_beside().await;
        assert_eq!(place.processes(), [], "processes survive the agent\n{trace}");
        trace
    }

    /// [`Client::finish`] while another agent works in the same place.
    pub async fn finish_beside(mut self) -> Trace {
        self.close_stdin().await;
        let (status, trace) = self.wait().await;
        assert!(status.success(), "the agent ended with {status}\n{trace}");
        let breaches = trace.breaches();
        assert!(breaches.is_empty(), "{}\n{trace}", breaches.join("\n"));
        trace
    }
}

/// No test can end without its messages having been held against the schemas.
impl Drop for Client {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return;
        }
        let trace = self.trace();
        let breaches = trace.schema_breaches();
        assert!(breaches.is_empty(), "{}\n{trace}", breaches.join("\n"));
    }
}

impl Reply {
    /// The reply that this is, by the id of its request.
    fn of(entry: &Entry) -> Option<(String, Self)> {
        let message = &entry.message;
        let is_reply = entry.direction == Direction::FromAgent && message.get("method").is_none();
        let id = message.get("id").filter(|_| is_reply)?.to_string();
        Some((id, Self { message: message.clone(), read_at: Instant::now() }))
    }

    /// The result.
    ///
    /// # Panics
    /// When it is an error.
    pub fn ok(&self) -> Value {
        assert!(self.message.get("error").is_none(), "an error came back: {}", self.message);
        self.message["result"].clone()
    }

    /// The result; `None` when it is an error.
    pub fn result(&self) -> Option<Value> {
        self.message.get("result").cloned()
    }

    /// The error.
    ///
    /// # Panics
    /// When it is a result.
    pub fn error(&self) -> Value {
        assert!(self.message.get("error").is_some(), "no error came back: {}", self.message);
        self.message["error"].clone()
    }

    /// When the client had read it.
    pub fn read_at(&self) -> Instant {
        self.read_at
    }

    /// The stop reason of a prompt's result.
    pub fn stop_reason(&self) -> String {
        self.ok()["stopReason"].as_str().expect("a stop reason").to_owned()
    }

    /// Whether the method was refused as unknown.
    pub fn is_unknown_method(&self) -> bool {
        self.message["error"]["code"] == -32601
    }

    /// The code of the error.
    pub fn code(&self) -> i64 {
        self.error()["code"].as_i64().expect("a code")
    }
}

impl Shared {
    async fn write(&self, bytes: &[u8]) {
        let mut stdin = self.stdin.lock().await;
        self.record_lines(bytes);
        let Some(pipe) = stdin.as_mut() else { return };
        let written = async {
            pipe.write_all(bytes).await?;
            pipe.flush().await
        };
        match written.await {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => *stdin = None,
            Err(error) => panic!("write to the agent: {error}"),
        }
    }

    fn record_lines(&self, bytes: &[u8]) {
        for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            self.record(Entry::new(Direction::ToAgent, line));
        }
    }

    fn record(&self, entry: Entry) {
        let reply = Reply::of(&entry);
        lock(&self.trace).entries.push(entry);
        if let Some((id, reply)) = reply {
            // The first counts; a second one is a breach, which the trace shows.
            lock(&self.replies).entry(id).or_insert(reply);
        }
        self.changed.send_replace(());
    }

    async fn heard(&self, line: &[u8]) {
        let entry = Entry::new(Direction::FromAgent, line);
        let is_last = |text: &mut String| entry.message.to_string().contains(text.as_str());
        if lock(&self.last).take_if(is_last).is_some() {
            self.reading.send_replace(false);
        }
        let is_request = ["id", "method"].iter().all(|key| entry.message.get(key).is_some());
        let request = is_request.then(|| entry.message.clone());
        self.record(entry);
        let Some(request) = request else { return };
        let answer = match request["method"].as_str() {
            Some("session/request_permission") => lock(&self.permission).answer(&request),
            // Only a client that shows such questions is asked any; the test answers.
            Some("elicitation/create") => None,
            _ => {
                let error = json!({"code": -32601, "message": "Method not found"});
                Some(json!({"jsonrpc": "2.0", "id": request["id"], "error": error}))
            }
        };
        if let Some(answer) = answer {
            self.write(format!("{answer}\n").as_bytes()).await;
        }
    }
}

async fn read_stdout(shared: Arc<Shared>, stdout: ChildStdout) {
    let mut stdout = BufReader::new(stdout);
    let mut reading = shared.reading.subscribe();
    loop {
        reading.wait_for(|reading| *reading).await.unwrap();
        let mut line = Vec::new();
        match stdout.read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => break,
            Ok(_) => shared.heard(&line).await,
        }
    }
    lock(&shared.trace).ended = true;
    shared.changed.send_replace(());
}

async fn read_stderr(shared: Arc<Shared>, mut stderr: ChildStderr) {
    let mut piece = vec![0; 8192];
    while let Ok(read) = stderr.read(&mut piece).await
        && read > 0
    {
        lock(&shared.trace).stderr.push_str(&String::from_utf8_lossy(&piece[..read]));
        shared.changed.send_replace(());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
