// A client on the TypeScript SDK: initialize, new, a prompt whose question is answered, a prompt
// that is cancelled. Prints what it saw as one JSON line. Judges nothing.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const child = spawn(process.env.BRIDLE_BIN, ["acp"], { stdio: ["pipe", "pipe", "inherit"] });
const ended = new Promise((resolve) => child.on("exit", (code) => resolve(code)));
const seen = { questions: 0, text: "", kinds: [] };
let onText = () => {};

const client = new acp.ClientApp({ name: "interop" });
client.onRequest("session/request_permission", ({ params }) => {
  seen.questions += 1;
  const option = params.options.find(({ kind }) => kind === "allow_once");
  return { outcome: { outcome: "selected", optionId: option.optionId } };
});
client.onNotification("session/update", ({ params: { update } }) => {
  seen.kinds.push(update.sessionUpdate);
  if (update.sessionUpdate === "agent_message_chunk") {
    seen.text += update.content.text;
    onText(update.content.text);
  }
});

const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
await client.connectWith(stream, async (agent) => {
  const initialized = await agent.request("initialize", { protocolVersion: acp.PROTOCOL_VERSION });
  const cwd = process.cwd();
  const { sessionId } = await agent.request("session/new", { cwd, mcpServers: [] });
  const prompt = (text) =>
    agent.request("session/prompt", { sessionId, prompt: [{ type: "text", text }] });
  seen.version = initialized.protocolVersion;
  seen.first = (await prompt("please edit")).stopReason;
  const streaming = new Promise((resolve) => (onText = resolve));
  const second = prompt("please hang");
  await streaming;
  await agent.notify("session/cancel", { sessionId });
  seen.second = (await second).stopReason;
});
child.stdin.end();
seen.exit = await ended;
console.log(JSON.stringify(seen));
process.exit(0);
