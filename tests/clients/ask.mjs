// Asks once with a vendor's library; prints status and message of the error, and ends with 3 then.
import { createRequire } from "node:module";
import path from "node:path";

const folder = path.join(process.env.AGENTSPINE_REAL_CLIENTS, "js", "node_modules");
const load = createRequire(path.join(folder, "here.js"));
const [dialect, how] = process.argv.slice(2);
const stream = how === "stream";
const said = [{ role: "user", content: "hello" }];

async function ask() {
  if (dialect === "anthropic") {
    const Anthropic = load("@anthropic-ai/sdk").default;
    const client = new Anthropic({ apiKey: "sk-ant-dummy" });
    return client.messages.create({ model: "claude-opus-5-5", max_tokens: 16, messages: said, stream });
  }
  const OpenAI = load("openai").default;
  const client = new OpenAI({ apiKey: "sk-dummy" });
  return dialect === "openai-chat"
    ? client.chat.completions.create({ model: "gpt-5.5", messages: said, stream })
    : client.responses.create({ model: "gpt-5.5", input: "hello", stream });
}

try {
  const answer = await ask();
  if (stream) for await (const event of answer) console.log(event);
  else console.log(answer);
} catch (error) {
  console.log(error.status, error.message);
  process.exitCode = 3;
}
