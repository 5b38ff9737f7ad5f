// Asks a gateway as programs of others do: by the official libraries for JavaScript, unmodified.
//
//   OSTLER_TEST_KEY=… OSTLER_TEST_CLIENTS=DIR node api.mjs API URL
//
// API: `messages`, `chat` or `responses`. An order is a line of JSON on standard input, and so is each answer on standard
// output. Conversations are kept here, by name, as the libraries' own objects: what is sent back is what they made of it.
// `api.py` takes the same orders.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [which, url] = process.argv.slice(2);
const { OSTLER_TEST_KEY: key, OSTLER_TEST_CLIENTS: clients } = process.env;
const { resolve } = createRequire(`${clients}/package.json`);
const load = async (name) => (await import(pathToFileURL(resolve(name)))).default;
const [Anthropic, OpenAI] = [await load("@anthropic-ai/sdk"), await load("openai")];

const model = "claude";
const add = {
  type: "object",
  properties: { a: { type: "integer" }, b: { type: "integer" } },
  required: ["a", "b"],
  additionalProperties: false,
};
const talks = {};
const tell = (told) => process.stdout.write(`${JSON.stringify(told)}\n`);
// What is refused is to be seen, not asked again.
const clientWith = (apiKey) =>
  which === "messages"
    ? new Anthropic({ apiKey, baseURL: url, maxRetries: 0, timeout: 120_000 })
    : new OpenAI({ apiKey, baseURL: `${url}/v1`, maxRetries: 0, timeout: 120_000 });
const client = clientWith(key);

const messages = {
  tools: [{ name: "add", description: "Adds two numbers.", input_schema: add }],
  ask: (talk, more, by = client) => by.messages.create({ model, max_tokens: 1000, messages: talk, ...more }),
  piece: (event) => (event.type === "content_block_delta" && event.delta.type === "text_delta" ? event.delta.text : ""),
  helper: (talk, more) => client.messages.stream({ model, max_tokens: 1000, messages: talk, ...more }),
  heard: (stream, hear) => stream.on("text", hear),
  final: (stream) => stream.finalMessage(),
  told: ({ id, content, stop_reason: stop, usage }) => {
    const said = content.map((block) => (block.type === "text" ? block.text : "")).join("");
    return { said, stop, tokens: usage.output_tokens, id };
  },
  echo: (talk, { content }) => talk.push({ role: "assistant", content }),
  calls: ({ content }) => content.filter(({ type }) => type === "tool_use").map(({ id, input }) => [id, input]),
  results: (talk, results) => {
    const content = results.map(([id, text]) => ({ type: "tool_result", tool_use_id: id, content: text }));
    talk.push({ role: "user", content });
  },
};

const chat = {
  tools: [{ type: "function", function: { name: "add", parameters: add, strict: true } }],
  ask: (talk, more, by = client) => by.chat.completions.create({ model, messages: talk, ...more }),
  piece: (chunk) => chunk.choices[0]?.delta.content ?? "",
  helper: (talk, more) =>
    client.chat.completions.stream({ model, messages: talk, stream_options: { include_usage: true }, ...more }),
  heard: (stream, hear) => stream.on("content", hear),
  final: (stream) => stream.finalChatCompletion(),
  told: ({ id, choices: [{ message, finish_reason: stop }], usage }) => ({
    said: message.content ?? "",
    stop,
    tokens: usage?.completion_tokens ?? null,
    id,
  }),
  echo: (talk, { choices }) => talk.push(choices[0].message),
  calls: ({ choices }) =>
    (choices[0].message.tool_calls ?? []).map(({ id, function: called }) => [id, JSON.parse(called.arguments)]),
  results: (talk, results) => {
    talk.push(...results.map(([id, content]) => ({ role: "tool", tool_call_id: id, content })));
  },
};

const responses = {
  tools: [{ type: "function", name: "add", parameters: add, strict: true }],
  ask: (talk, more, by = client) => by.responses.create({ model, input: talk, ...more }),
  piece: (event) => (event.type === "response.output_text.delta" ? event.delta : ""),
  helper: (talk, more) => client.responses.stream({ model, input: talk, ...more }),
  heard: (stream, hear) => stream.on("response.output_text.delta", ({ delta }) => hear(delta)),
  final: (stream) => stream.finalResponse(),
  told: ({ id, output_text: said, status: stop, usage }) => ({ said, stop, tokens: usage?.output_tokens ?? null, id }),
  echo: (talk, { output }) => talk.push(...output),
  calls: ({ output }) =>
    output
      .filter(({ type }) => type === "function_call")
      .map(({ call_id: id, arguments: args }) => [id, JSON.parse(args)]),
  results: (talk, results) => {
    talk.push(...results.map(([id, output]) => ({ type: "function_call_output", call_id: id, output })));
  },
};

const api = { messages, chat, responses }[which];

// That the first piece came is told at once.
function listener() {
  const texts = [];
  const hear = (piece) => {
    if (texts.length === 0) tell({ began: piece });
    texts.push(piece);
  };
  return { texts, hear };
}

async function answer(talk, how, more) {
  if (how === "whole") return [await api.ask(talk, more), null];
  const { texts, hear } = listener();
  const stream = api.helper(talk, more);
  api.heard(stream, hear);
  return [await api.final(stream), texts.length];
}

// An answer that breaks off after its first words. In one of the APIs that is an event like others.
async function faulty(talk) {
  if (which === "responses") {
    for await (const event of await api.ask(talk, { stream: true }))
      if (event.type === "response.failed") return { failed: event.response.error.code };
    return {};
  }
  const stream = api.helper(talk, {});
  api.heard(stream, listener().hear);
  await api.final(stream);
  return {};
}

const talkOf = (order) => {
  const talk = (talks[order.talk] ??= []);
  talk.push({ role: "user", content: order.text });
  return talk;
};

const orders = {
  async say(order) {
    const talk = talkOf(order);
    const more = order.after ? { previous_response_id: order.after } : {};
    if (order.how === "stream") {
      const { texts, hear } = listener();
      for await (const event of await api.ask(talk, { stream: true, ...more }))
        if (api.piece(event)) hear(api.piece(event));
      talk.push({ role: "assistant", content: texts.join("") });
      return tell({ said: texts.join(""), pieces: texts.length });
    }
    const [got, pieces] = await answer(talk, order.how, more);
    api.echo(talk, got);
    tell({ ...api.told(got), pieces });
  },

  // With a tool that is run here.
  async use(order) {
    const [talk, calls] = [talkOf(order), []];
    for (;;) {
      const [got] = await answer(talk, order.how, { tools: api.tools });
      api.echo(talk, got);
      const wanted = api.calls(got);
      if (wanted.length === 0) return tell({ ...api.told(got), calls });
      calls.push([api.told(got).stop, wanted.map(([, args]) => args)]);
      api.results(talk, wanted.map(([id, { a, b }]) => [id, `${a + b}`]));
    }
  },

  // Goes away in the middle, and keeps what was heard.
  async leave(order) {
    const talk = talkOf(order);
    let first = "";
    if (order.how === "helper") {
      const stream = api.helper(talk, {});
      first = await new Promise((heard, failed) => {
        api.heard(stream, heard);
        stream.on("error", failed);
      });
      const gone = api.final(stream).catch((error) => error);
      stream.abort();
      await gone;
    } else {
      for await (const event of await api.ask(talk, { stream: true }))
        if ((first = api.piece(event))) break;
    }
    talk.push({ role: "assistant", content: first });
    tell({ left: first });
  },

  // What only the words of a conversation make: as programs keep it that show it to people.
  async words(order) {
    const text = (content) =>
      typeof content === "string"
        ? content
        : (content ?? []).filter((block) => "text" in block).map((block) => block.text).join("\n\n");
    const kept = talks[order.talk].map(({ role, content }) => ({ role, content: text(content) }));
    talks[order.as] = kept.filter(({ content }) => content);
    tell({ messages: talks[order.as].length });
  },

  // A conversation whose first message was another; without a text, a copy.
  async edit(order) {
    const talk = structuredClone(talks[order.talk]);
    if (order.text) talk[0] = { role: "user", content: order.text };
    talks[order.as] = talk;
    tell({ messages: talk.length });
  },

  async wrong(order) {
    const talk = [{ role: "user", content: "hello" }];
    const tries = {
      key: () => api.ask(talk, {}, clientWith("ostler_wrong")),
      model: () => api.ask(talk, { model: "gpt-wrong" }),
      empty: () => api.ask([]),
      streamed: () => api.ask(talk, { model: "gpt-wrong", stream: true }),
      counted: () => client.messages.countTokens({ model, messages: talk }),
      faulty: () => faulty([{ role: "user", content: order.text }]),
    };
    try {
      const found = await tries[order.what]();
      tell({ error: found?.failed ?? null });
    } catch (error) {
      if (!(error instanceof Anthropic.APIError || error instanceof OpenAI.APIError)) throw error;
      tell({ error: error.constructor.name, status: error.status ?? null, request: Boolean(error.requestID) });
    }
  },

  async models() {
    const found = [];
    for await (const { id } of client.models.list()) found.push(id);
    tell({ models: found, one: (await client.models.retrieve("claude/opus")).id });
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const order = JSON.parse(line);
  try {
    await orders[order.do](order);
  } catch (error) {
    // Whatever it is, the test is to tell it.
    tell({ failed: `${error.constructor.name}: ${error.message}` });
  }
}
