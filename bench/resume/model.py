"""A model on loopback that decides only from the conversation it is sent: five pieces, one shell command each.

A piece whose result is in the conversation is done. A piece that the prompt calls interrupted is checked before it is
repeated. So a finished call that the agent lost shows as a piece written twice, and an interrupted call that nobody
mentions shows as a piece that is missing.
"""
import json, re, threading, uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PIECES = 5
USAGE = {"input_tokens": 10, "output_tokens": 5}


def text_of(content):
    if isinstance(content, str):
        return content
    parts = [block.get("text") or block.get("content") for block in content or [] if isinstance(block, dict)]
    return "\n".join(text_of(part) for part in parts if part)


def anthropic(body):
    for message in body["messages"]:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block["type"] == "text" and message["role"] in ("user", "system"):
                yield "user", None, block["text"]
            elif block["type"] == "tool_use":
                yield "call", block["id"], block["input"].get("command", "")
            elif block["type"] == "tool_result":
                yield "result", block["tool_use_id"], text_of(block.get("content"))


def responses(body):
    for item in body["input"]:
        kind = item.get("type")
        if kind == "message" and item["role"] == "user":
            yield "user", None, text_of(item["content"])
        elif kind == "function_call":
            yield "call", item["call_id"], json.loads(item["arguments"]).get("cmd", "")
        elif kind == "function_call_output":
            yield "result", item["call_id"], text_of(item["output"])


def chat(body):
    for message in body["messages"]:
        if message["role"] == "user":
            yield "user", None, text_of(message["content"])
        elif message["role"] == "tool":
            yield "result", message["tool_call_id"], text_of(message["content"])
        for call in message.get("tool_calls") or []:
            yield "call", call["id"], json.loads(call["function"]["arguments"]).get("command", "")


def next_command(conversation):
    """The text and the shell command of the next answer; no command when all pieces are done."""
    done, interrupted, aborted, pieces = set(), set(), set(), {}
    for kind, call, text in conversation:
        named = re.search(r"piece (\d)", text)
        if kind == "call":
            pieces[call] = int(named[1]) if named else None
        elif kind == "result" and pieces.get(call):
            piece = pieces[call]
            done.add(piece)
            interrupted.discard(piece)
            (aborted.add if re.search("aborted|interrupted", text) else aborted.discard)(piece)
        elif kind == "user":
            if "finish that step" in text:
                interrupted |= aborted
            for line in (line for line in text.splitlines() if line.startswith("- ")):
                named = re.search(r"piece (\d)", line)
                if named and "was interrupted" in line:
                    interrupted.add(int(named[1]))
                elif named and "do not repeat it" in line:
                    done.add(int(named[1]))
    done -= interrupted
    if interrupted:
        piece = min(interrupted)
        return f"I check step {piece}.", f"grep -qx 'piece {piece}' done.txt || echo piece {piece} >> done.txt"
    for piece in range(1, PIECES + 1):
        if piece not in done:
            return f"Now step {piece}.", f"sleep 0.12; echo piece {piece} >> done.txt; sleep 0.12"
    return "All is done.", None


def anthropic_stream(body, text, command, call):
    message = {"id": "msg_" + uuid.uuid4().hex, "type": "message", "role": "assistant", "model": body["model"], "content": [],
               "stop_reason": None, "stop_sequence": None, "usage": USAGE}
    blocks = [({"type": "text", "text": ""}, {"type": "text_delta", "text": text})]
    if command:
        blocks.append(({"type": "tool_use", "id": call, "name": "Bash", "input": {}},
                       {"type": "input_json_delta", "partial_json": json.dumps({"command": command})}))
    yield "message_start", {"message": message}
    for index, (block, delta) in enumerate(blocks):
        yield "content_block_start", {"index": index, "content_block": block}
        yield "content_block_delta", {"index": index, "delta": delta}
        yield "content_block_stop", {"index": index}
    reason = "tool_use" if command else "end_turn"
    yield "message_delta", {"delta": {"stop_reason": reason, "stop_sequence": None}, "usage": USAGE}
    yield "message_stop", {}


def responses_stream(_body, text, command, call):
    response = {"id": "resp_" + uuid.uuid4().hex}
    yield "response.created", {"response": response}
    yield "response.output_item.done", {"item": {"type": "message", "role": "assistant", "id": "msg_" + uuid.uuid4().hex,
                                                 "content": [{"type": "output_text", "text": text}]}}
    if command:
        arguments = json.dumps({"cmd": command, "yield_time_ms": 20_000})
        yield "response.output_item.done", {"item": {"type": "function_call", "name": "exec_command",
                                                     "arguments": arguments, "call_id": call}}
    usage = {**USAGE, "input_tokens_details": None, "output_tokens_details": None, "total_tokens": 15}
    yield "response.completed", {"response": {**response, "usage": usage}}


def chat_stream(_body, text, command, call):
    def chunk(delta, reason=None):
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return None, {"id": call, "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    yield chunk({"role": "assistant", "content": text})
    if command:
        arguments = json.dumps({"command": command, "description": "a step"})
        function = {"name": "bash", "arguments": arguments}
        yield chunk({"tool_calls": [{"index": 0, "id": call, "type": "function", "function": function}]})
    yield chunk({}, "tool_calls" if command else "stop")


FORMATS = {"/messages": (anthropic, anthropic_stream), "/responses": (responses, responses_stream),
           "/chat/completions": (chat, chat_stream)}


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, body, kind="application/json"):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self):
        self.reply(b"")

    def do_GET(self):
        self.reply(b'{"data":[],"object":"list","models":[]}')

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"] or 0)))
        if "count_tokens" in self.path:
            return self.reply(b'{"input_tokens":10}')
        read, write = next(both for part, both in FORMATS.items() if part in self.path)
        # Requests that agents make for themselves, such as titles, offer no tools.
        text, command = next_command(read(body)) if body.get("tools") else ("A title", None)
        call = "call_" + uuid.uuid4().hex[:20]
        if not body.get("stream"):
            content = [{"type": "text", "text": text}]
            answer = {"id": call, "type": "message", "role": "assistant", "model": body["model"], "content": content,
                      "stop_reason": "end_turn", "stop_sequence": None, "usage": USAGE}
            return self.reply(json.dumps(answer).encode())
        lines = []
        for name, data in write(body, text, command, call):
            lines.append((f"event: {name}\n" if name else "") + "data: " + json.dumps({"type": name, **data} if name else data))
        if write is chat_stream:
            lines.append("data: [DONE]")
        self.reply("".join(line + "\n\n" for line in lines).encode(), "text/event-stream")


def serve():
    """Starts it on a free port of loopback, and returns the port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]
