// Talks to a bridge as clients of others do, and prints what it found as one line of JSON.
//
//   OSTLER_TEST_TOKEN=… OSTLER_TEST_CLIENTS=DIR node client.mjs KIND URL
//
// KIND: `sdk`, the client that most agents are built with; `pinned`, a newer one that insists on the newest revision of
// the protocol; `old`, the newer one, which knows one older revision and nothing else; `ancient`, one that is not served.
// A line on standard input takes the call back that is waiting then.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [kind, url] = process.argv.slice(2);
const { OSTLER_TEST_TOKEN: token, OSTLER_TEST_CLIENTS: clients } = process.env;
const { resolve } = createRequire(`${clients}/package.json`);
const load = (name) => import(pathToFileURL(resolve(name)));
const us = { name: `conformance-${kind}`, version: "1" };

async function made() {
  if (kind === "sdk") {
    const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
    const { StreamableHTTPClientTransport } = await load("@modelcontextprotocol/sdk/client/streamableHttp.js");
    const { ResultSchema } = await load("@modelcontextprotocol/sdk/types.js");
    return { client: new Client(us), Transport: StreamableHTTPClientTransport, anything: ResultSchema };
  }
  const { Client, StreamableHTTPClientTransport } = await load("@modelcontextprotocol/client");
  const options = {
    pinned: { versionNegotiation: { mode: { pin: "2026-07-28" } } },
    old: { supportedProtocolVersions: ["2025-06-18"], versionNegotiation: { mode: "legacy" } },
    ancient: { supportedProtocolVersions: ["2024-11-05"], versionNegotiation: { mode: "legacy" } },
  }[kind];
  const anything = { "~standard": { version: 1, vendor: "ostler", validate: (value) => ({ value }) } };
  return { client: new Client(us, options), Transport: StreamableHTTPClientTransport, anything };
}

const { client, Transport, anything } = await made();
const headers = { Authorization: `Bearer ${token}` };
const found = {};
// What went wrong. The newest revision says it with the status 404 too, of which its client makes a fault of HTTP.
const wrong = (error) => (error.data?.text ? JSON.parse(error.data.text).error.code : (error.code ?? error.name));
const call = (name, args, options) =>
  kind === "sdk"
    ? client.callTool({ name, arguments: args }, undefined, options)
    : client.callTool({ name, arguments: args }, options);
const said = ({ isError, content }) => ({ isError: isError ?? false, text: content[0].text });

async function talk() {
  const transport = new Transport(new URL(url), { requestInit: { headers } });
  await client.connect(transport);
  found.server = client.getServerVersion()?.name;
  found.protocol = client.getNegotiatedProtocolVersion?.() ?? transport.protocolVersion;
  found.tools = (await client.listTools()).tools.map((tool) => tool.name);
  found.noted = said(await call("report_progress", { text: `from ${kind}` }));
  found.refused = said(await call("submit_artifact", { type: "plan", content: "# No" }));
  found.mistaken = said(await call("submit_artifact", { type: 3 }));
  found.unknownTool = said(await call("no_such_tool", {}));
  found.unknownMethod = await client.request({ method: "no/such", params: {} }, anything).then(() => "answered", wrong);
  found.ping = await client.ping().then(() => "answered", wrong);
  // Slow enough to be told that it goes on. Once for each way to talk: it takes its time.
  let progress = 0;
  const patient = { onprogress: () => (progress += 1), resetTimeoutOnProgress: true };
  const timeout = kind === "old" ? 0 : 12;
  found.slow = said(await call("ask_human", { question: "slow", default: "later", timeout }, patient));
  found.progress = progress > 0;
  // Taken back when somebody says so.
  const abort = new AbortController();
  createInterface({ input: process.stdin }).once("line", () => abort.abort("no longer wanted"));
  const taken = call("ask_human", { question: "take back" }, { signal: abort.signal });
  found.takenBack = await taken.then(() => "answered", () => "taken back");
  found.after = said(await call("report_progress", { text: "after" }));
  await client.close();
}

async function batch() {
  const ping = (id) => ({ jsonrpc: "2.0", id, method: "ping" });
  const answer = await fetch(url, {
    method: "POST",
    headers: { ...headers, "content-type": "application/json", accept: "application/json, text/event-stream" },
    body: JSON.stringify([ping(1), ping(2)]),
  });
  return { status: answer.status, code: (await answer.json()).error?.code };
}

try {
  await talk();
  found.batch = await batch();
} catch (error) {
  found.failed = error.message;
}
process.stdout.write(`${JSON.stringify(found)}\n`);
process.exit(0);
