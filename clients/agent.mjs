// Has a conversation by the Claude Agent SDK, unmodified, with one tool that is run here. Prints what came of each turn as
// one line of JSON.
//
//   OSTLER_TEST_CLIENTS=DIR OSTLER_TEST_CLAUDE=PROGRAM node agent.mjs TEXT...
//
// Where the model is reached says the environment, as for Claude Code itself.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const { OSTLER_TEST_CLIENTS: clients, OSTLER_TEST_CLAUDE: program } = process.env;
const { resolve } = createRequire(`${clients}/package.json`);
const load = (name) => import(pathToFileURL(resolve(name)));
const { createSdkMcpServer, query, tool } = await load("@anthropic-ai/claude-agent-sdk");
const { z } = await load("zod");

const calls = [];
const add = tool("add", "Adds two numbers.", { a: z.number(), b: z.number() }, async ({ a, b }) => {
  calls.push([a, b]);
  return { content: [{ type: "text", text: String(a + b) }] };
});

// The next one is asked when the answer to the last one came: a conversation, not a queue.
let answered = () => {};
async function* prompts() {
  for (const content of process.argv.slice(2)) {
    const done = new Promise((resolve) => (answered = resolve));
    yield { type: "user", message: { role: "user", content }, parent_tool_use_id: null };
    await done;
  }
}

const options = {
  pathToClaudeCodeExecutable: program,
  mcpServers: { calc: createSdkMcpServer({ name: "calc", version: "1", tools: [add] }) },
  allowedTools: ["mcp__calc__add"],
  settingSources: [],
};
for await (const message of query({ prompt: prompts(), options })) {
  if (message.type !== "result") continue;
  const { subtype, is_error: failed, result } = message;
  process.stdout.write(`${JSON.stringify({ subtype, failed, result, calls: calls.splice(0) })}\n`);
  answered();
}
