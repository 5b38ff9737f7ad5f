// An MCP server with one tool, as others write them: over standard input and output, over HTTP, or over HTTPS with
// `server.pem` and `server.key` beside the file that gets its port.
import { createServer } from "node:http";
import { createServer as createSecureServer } from "node:https";
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";

const [way, place] = process.argv.slice(2);
const tool = {
  name: "say",
  description: "Says it again.",
  inputSchema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
};

function answer({ id, method, params }, key) {
  if (id === undefined) return undefined;
  const results = {
    initialize: () => ({
      protocolVersion: params.protocolVersion,
      capabilities: { tools: {} },
      serverInfo: { name: "test", version: "1" },
    }),
    "tools/list": () => ({ tools: [tool] }),
    "tools/call": () => ({ content: [{ type: "text", text: `${way} ${key} heard ${params.arguments.text}` }] }),
    ping: () => ({}),
  };
  const result = results[method];
  return result
    ? { jsonrpc: "2.0", id, result: result() }
    : { jsonrpc: "2.0", id, error: { code: -32601, message: "no such method" } };
}

if (way === "stdio") {
  console.error("the server begins");
  createInterface({ input: process.stdin }).on("line", (line) => {
    const said = answer(JSON.parse(line), "without a key");
    if (said) console.log(JSON.stringify(said));
  });
} else {
  const heard = (request, response) => {
    if (request.method !== "POST") return response.writeHead(405).end();
    let body = "";
    request.on("data", (piece) => (body += piece));
    request.on("end", () => {
      const said = answer(JSON.parse(body), `with ${request.headers["x-key"]}`);
      if (!said) return response.writeHead(202).end();
      response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(said));
    });
  };
  const beside = (name) => readFileSync(join(dirname(place), name));
  const server =
    way === "https"
      ? createSecureServer({ cert: beside("server.pem"), key: beside("server.key") }, heard)
      : createServer(heard);
  server.listen(0, "127.0.0.1", () => writeFileSync(place, `${server.address().port}\n`));
}
