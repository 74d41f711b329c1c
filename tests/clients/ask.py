"""Asks in each way that the vendors' libraries have; a line with status and message of the error each time."""

import anthropic
import openai

SAID = [{"role": "user", "content": "hello"}]
claude = anthropic.Anthropic(api_key="sk-ant-dummy").messages
gpt = openai.OpenAI(api_key="sk-dummy")
ASKS = {
    "anthropic": lambda stream: claude.create(model="claude-opus-5-5", max_tokens=16, messages=SAID, stream=stream),
    "openai-chat": lambda stream: gpt.chat.completions.create(model="gpt-5.5", messages=SAID, stream=stream),
    "openai-responses": lambda stream: gpt.responses.create(model="gpt-5.5", input="hello", stream=stream),
}

for name, ask in ASKS.items():
    for stream in (False, True):
        try:
            ask(stream)
            print(name, "answered")
        except (anthropic.APIStatusError, openai.APIStatusError) as error:
            print(name, error.status_code, error.message)
