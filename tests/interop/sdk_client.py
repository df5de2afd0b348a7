"""A client on the Python SDK: initialize, new, a prompt whose question is answered, a prompt that
is cancelled. Prints what it saw as one JSON line. Judges nothing."""

import asyncio
import json
import os

import acp

seen = {"questions": 0, "text": "", "kinds": []}
streaming = asyncio.Event()


class Interop:
    def on_connect(self, conn):
        pass

    async def request_permission(self, session_id, tool_call, options, **_):
        seen["questions"] += 1
        option = next(option for option in options if option.kind == "allow_once")
        return {"outcome": {"outcome": "selected", "optionId": option.option_id}}

    async def session_update(self, session_id, update, **_):
        seen["kinds"].append(update.session_update)
        if update.session_update == "agent_message_chunk":
            seen["text"] += update.content.text
            if "first" in seen:
                streaming.set()


async def main():
    command, env = os.environ["BRIDLE_BIN"], dict(os.environ)
    async with acp.spawn_agent_process(Interop(), command, "acp", env=env) as (agent, process):
        initialized = await agent.initialize(protocol_version=acp.PROTOCOL_VERSION)
        seen["version"] = initialized.protocol_version
        session = await agent.new_session(cwd=os.getcwd(), mcp_servers=[])

        def prompt(text):
            return agent.prompt(session_id=session.session_id, prompt=[acp.text_block(text)])

        seen["first"] = (await prompt("please edit")).stop_reason
        second = asyncio.create_task(prompt("please hang"))
        await streaming.wait()
        await agent.cancel(session_id=session.session_id)
        seen["second"] = (await second).stop_reason
        process.stdin.close()
        seen["exit"] = await process.wait()
    print(json.dumps(seen))


asyncio.run(main())
