"""Lists and calls the memory tools of `agentspine mcp` with the official MCP library; prints what came as JSON.

Arguments: the program, then its arguments. Stdin: a JSON list of calls, each {"name": ..., "arguments": {...}}; a string
value "$key.key" in the arguments is taken from the answer of the last call.
"""

import asyncio
import json
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


def filled(value, last):
    if isinstance(value, str) and value.startswith("$"):
        for key in value[1:].split("."):
            last = last[int(key)] if isinstance(last, list) else last[key]
        return last
    if isinstance(value, list):
        return [filled(one, last) for one in value]
    if isinstance(value, dict):
        return {key: filled(one, last) for key, one in value.items()}
    return value


async def main():
    calls = json.load(sys.stdin)
    server = StdioServerParameters(command=sys.argv[1], args=sys.argv[2:], env=None)
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        hello = await session.initialize()
        listed = await session.list_tools()
        answers, last = [], None
        for call in calls:
            result = await session.call_tool(call["name"], filled(call["arguments"], last))
            wire = result.model_dump(mode="json", by_alias=True)
            last = json.loads(wire["content"][0]["text"])
            answers.append({"isError": wire["isError"], "answer": last, "structured": wire["structuredContent"]})
        tools = [tool.model_dump(mode="json", by_alias=True) for tool in listed.tools]
        server_info = hello.model_dump(mode="json", by_alias=True)["serverInfo"]
        print(json.dumps({"server": server_info, "tools": tools, "answers": answers}))


asyncio.run(main())
