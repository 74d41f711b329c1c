// Asks in each way that the vendors' libraries have; a line with status and message of the error each time.
import { createRequire } from "node:module";
import path from "node:path";

const folder = path.join(process.env.AGENTSPINE_REAL_CLIENTS, "js", "node_modules");
const load = createRequire(path.join(folder, "here.js"));
const Anthropic = load("@anthropic-ai/sdk").default;
const OpenAI = load("openai").default;

const messages = [{ role: "user", content: "hello" }];
const claude = new Anthropic({ apiKey: "sk-ant-dummy" });
const gpt = new OpenAI({ apiKey: "sk-dummy" });
const asks = {
  anthropic: (stream) => claude.messages.create({ model: "claude-opus-5-5", max_tokens: 16, messages, stream }),
  "openai-chat": (stream) => gpt.chat.completions.create({ model: "gpt-5.5", messages, stream }),
  "openai-responses": (stream) => gpt.responses.create({ model: "gpt-5.5", input: "hello", stream }),
};

for (const [name, ask] of Object.entries(asks)) {
  for (const stream of [false, true]) {
    try {
      await ask(stream);
      console.log(name, "answered");
    } catch (error) {
      console.log(name, error.status, error.message);
    }
  }
}
