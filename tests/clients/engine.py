#!/usr/bin/env python3
"""What the proxy leaves of a real engine's prompt cache: six turns with recall in three dialects, with it and without.

    tests/clients/engine.py AGENTSPINE SERVER [PYTHON]

AGENTSPINE is the binary. SERVER is a Python program that takes `--port N --ctx N` and serves llama.cpp on 127.0.0.1; PYTHON
is the interpreter that has its packages (xllamacpp, model weights; some 350 MB, not fetched here). Not part of CI.

Each conversation is held twice. Once through the proxy, whose forwarded bodies a listener between proxy and engine keeps.
Once without it, by a client that wrote the injected text itself: each user message is, from its own turn to the end, what
the engine was sent for it in that turn.
The engine says how much of each prompt came from its cache. From turn 2 on both shares may differ by 2 % of the prompt.
Both begin with another word, so that neither finds the other's prompts in the cache.
"""

import http.client
import http.server
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

TURNS = {
    "kitchen": "Kettles hang over brass hooks",
    "garden": "Roses grow behind seven walls",
    "library": "Atlases lie under green lamps",
    "harbour": "Ferries leave before midnight",
    "workshop": "Chisels stay inside oak drawers",
    "attic": "Trunks carry old theatre costumes",
}
FIRST, SECOND = "Morning.", "Evening."
LIMIT = 0.02
ANSWER_TOKENS = 12
CONTEXT = 8192
PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}


def post(port, path, body, headers=()):
    """Sends bytes and gives the answer's JSON; anything but 200 ends the run."""
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    link.request("POST", path, body, {"content-type": "application/json", **dict(headers)})
    answer = link.getresponse()
    text = answer.read()
    if answer.status != 200:
        sys.exit(f"{path}: {answer.status} {text[:400]!r}")
    return json.loads(text)


def message(dialect, role, text):
    """A message of a conversation."""
    if dialect != "responses":
        return {"role": role, "content": text}
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def body_of(dialect, messages):
    """A request of this dialect; its answer has a fixed length and no chance in it."""
    said = {"model": "local", "temperature": 0, "ignore_eos": True}
    if dialect == "responses":
        said |= {"max_output_tokens": ANSWER_TOKENS, "input": messages}
    else:
        said |= {"max_tokens": ANSWER_TOKENS, "messages": messages}
    return json.dumps(said).encode()


def read(dialect, answer):
    """The answer's text, tokens of the prompt, and how many of them came from the cache."""
    usage = answer["usage"]
    if dialect == "chat":
        text = answer["choices"][0]["message"]["content"]
        return text, usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]
    if dialect == "messages":
        cached = usage["cache_read_input_tokens"]
        return answer["content"][0]["text"], usage["input_tokens"] + cached, cached
    text = next(item for item in answer["output"] if item["type"] == "message")["content"][0]["text"]
    return text, usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"]


class Between(http.server.BaseHTTPRequestHandler):
    """Passes requests on to the engine and keeps their bodies."""

    protocol_version = "HTTP/1.1"
    engine = 0
    kept = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        self.kept.append((self.path, body))
        link = http.client.HTTPConnection("127.0.0.1", self.engine, timeout=300)
        link.request("POST", self.path, body, {"content-type": "application/json"})
        answer = link.getresponse()
        text = answer.read()
        self.send_response(answer.status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def start_engine(python, server):
    port = free_port()
    engine = subprocess.Popen([python, server, "--port", str(port), "--ctx", str(CONTEXT)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(600):
        if engine.poll() is not None:
            sys.exit("the engine ended: does PYTHON have its packages?")
        try:
            link = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
            link.request("GET", "/health")
            if link.getresponse().status == 200:
                return engine, port
        except OSError:
            pass
        time.sleep(0.2)
    sys.exit("the engine does not answer")


def furnish(agentspine, home, engine):
    """A project with an instruction file and a memory for each turn; how to call the binary there."""
    project = os.path.join(home, "project")
    os.makedirs(os.path.join(project, ".git"))
    os.makedirs(os.path.join(home, ".config/agentspine"))
    with open(os.path.join(project, "CLAUDE.md"), "w") as file:
        file.write("Answer briefly. Say what you do and why.\n")
    with open(os.path.join(home, ".config/agentspine/config.toml"), "w") as file:
        base = f"http://127.0.0.1:{engine}"
        file.write(f'[proxy]\nanthropic = "{base}"\nopenai = "{base}"\n')
    spawn = {"env": {"HOME": home, "PATH": "/usr/bin:/bin"}, "cwd": project}
    for place, fact in TURNS.items():
        subprocess.run([agentspine, "memory", "remember", "--title", place, "--summary", f"{fact}: {place}."],
                       check=True, stdout=subprocess.DEVNULL, **spawn)
    return spawn


def start_proxy(agentspine, spawn):
    proxy = subprocess.Popen([agentspine, "proxy", "--listen", "127.0.0.1:0", "--instruction-host", "claude"],
                             stdout=subprocess.PIPE, text=True, **spawn)
    said = proxy.stdout.readline()
    found = re.search(r"http://127\.0\.0\.1:(\d+)/w/([0-9a-f]+)", said)
    return proxy, int(found[1]), found[2]


def converse(dialect, port, secret, users):
    """Six turns; what the engine said of each prompt."""
    messages, seen = [], []
    for user in users:
        messages.append(user)
        answer = post(port, PATHS[dialect], body_of(dialect, messages), {"x-agentspine-workspace": secret})
        text, prompt, cached = read(dialect, answer)
        messages.append(message(dialect, "assistant", text))
        seen.append((prompt, cached))
    return seen


def compare(dialect, engine, port, secret):
    """Both conversations; the largest difference of the cached shares from turn 2 on."""
    Between.kept.clear()
    asked = [message(dialect, "user", f"Describe the {place}.") for place in TURNS]
    asked[0] = message(dialect, "user", f"{FIRST} Describe the kitchen.")
    through = converse(dialect, port, secret, asked)
    sent = [json.loads(body) for _, body in Between.kept]
    written = [(body.get("messages") or body.get("input"))[-1] for body in sent]
    recalled = sum(fact in json.dumps(user) for fact, user in zip(TURNS.values(), written))
    # The engine keeps prompts of the past: with another beginning none of the first conversation is of use.
    written[0] = json.loads(json.dumps(written[0]).replace(FIRST, SECOND))
    alone = converse(dialect, engine, "none", written)
    print(f"{dialect}: recalled text in {recalled} of {len(TURNS)} turns")
    worst = 0.0
    for turn, ((prompt, cached), (same, without)) in enumerate(zip(through, alone), 1):
        worst = max(worst, abs(cached / prompt - without / same) if turn > 1 else 0.0)
        print(f"  turn {turn}: through the proxy {cached:5} of {prompt:5} tokens cached ({cached / prompt:6.1%}), "
              f"without it {without:5} of {same:5} ({without / same:6.1%})", flush=True)
    return worst


def main():
    agentspine, server = (os.path.abspath(path) for path in sys.argv[1:3])
    engine, engine_port = start_engine(sys.argv[3] if len(sys.argv) > 3 else sys.executable, server)
    started, worst = [engine], 0.0
    try:
        Between.engine = engine_port
        between = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Between)
        threading.Thread(target=between.serve_forever, daemon=True).start()
        with tempfile.TemporaryDirectory() as home:
            spawn = furnish(agentspine, home, between.server_address[1])
            proxy, port, secret = start_proxy(agentspine, spawn)
            started.append(proxy)
            worst = max(compare(dialect, engine_port, port, secret) for dialect in PATHS)
            proxy.send_signal(signal.SIGTERM)
            proxy.wait()
    finally:
        for process in started:
            process.kill()
    print(f"largest difference from turn 2 on: {worst:.2%}; limit {LIMIT:.0%}: {'met' if worst <= LIMIT else 'MISSED'}")
    sys.exit(worst > LIMIT)


main()
