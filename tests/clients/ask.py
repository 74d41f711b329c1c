"""Asks once with a vendor's library; prints status and message of the error, and ends with 3 then."""

import os
import sys

import anthropic
import openai

dialect, stream = sys.argv[1], sys.argv[2] == "stream"
said = [{"role": "user", "content": "hello"}]
try:
    if dialect == "anthropic":
        client = anthropic.Anthropic(api_key="sk-ant-dummy")
        answer = client.messages.create(model="claude-opus-5-5", max_tokens=16, messages=said, stream=stream)
    elif dialect == "openai-chat":
        client = openai.OpenAI(api_key="sk-dummy")
        answer = client.chat.completions.create(model="gpt-5.5", messages=said, stream=stream)
    else:
        client = openai.OpenAI(api_key="sk-dummy")
        answer = client.responses.create(model="gpt-5.5", input="hello", stream=stream)
    print(list(answer) if stream else answer)
except (anthropic.APIStatusError, openai.APIStatusError) as error:
    print(error.status_code, error.message)
    sys.exit(3)
