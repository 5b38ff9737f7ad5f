"""Hooks for schemathesis against `ostler serve --rehearse`.

Generated requests alone hardly get past validation: ids name nothing, models do not exist. These hooks put ids of real
sessions, turns and responses, models that are served and valid messages into most of them, and leave the rest as it is.
What is put where depends on the generated value alone, so that a seed gives the same run again.
"""

import hashlib
import json
import os
import urllib.error
import urllib.request

import schemathesis

URL, KEY = os.environ["OSTLER_URL"], os.environ["OSTLER_KEY"]


def post(path, body):
    headers = {"x-api-key": KEY, "content-type": "application/json"}
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=120) as response:
            return json.load(response)
    except urllib.error.HTTPError:
        return {}


def served_ids():
    models = ["claude", "claude", "codex"]
    sessions = [session["id"] for session in (post("/api/v1/sessions", {"model": name}) for name in models) if session]
    turns = [post(f"/api/v1/sessions/{session}/turns", {"text": "hello", "wait": True}) for session in sessions]
    responses = [post("/v1/responses", {"model": "claude", "input": "hello"})]
    found = {
        "session": sessions,
        "turn": [turn["turn"] for turn in turns if turn],
        "id": [response["id"] for response in responses if response],
        "model": ["claude"],
    }
    return {name: ids for name, ids in found.items() if ids}


IDS = served_ids()
HEADERS = {
    "x-ostler-engine": ["stream", "terminal"],
    "x-ostler-permissions": ["deny", "ask", "edits"],
    "x-ostler-slash": ["allow"],
}
# Fields that are refused with most values; two of three are left out of a request that is to be answered.
STRICT = (
    "background conversation function_call functions instructions logprobs max_tokens mcp_servers modalities n prompt "
    "previous_response_id response_format stream stream_options system text thread tool_choice tools top_logprobs"
).split()


def choose(value, count):
    digest = hashlib.sha256(repr(value).encode("utf-8", "surrogatepass")).hexdigest()
    return int(digest, 16) % count


@schemathesis.hook
def map_path_parameters(context, path_parameters):
    for name, value in (path_parameters or {}).items():
        if name in IDS and choose(path_parameters, 4):
            path_parameters[name] = IDS[name][choose(value, len(IDS[name]))]
    return path_parameters


@schemathesis.hook
def map_headers(context, headers):
    if headers and choose(sorted(dict(headers).items()), 4):
        for name in list(headers):
            if name.lower() == "x-ostler-cwd":
                del headers[name]
            elif values := HEADERS.get(name.lower()):
                headers[name] = values[choose(headers[name], len(values))]
    return headers


@schemathesis.hook
def map_body(context, body):
    kind = choose(body, 8)
    if not isinstance(body, dict) or kind == 0:
        return body
    if "model" in body:
        body["model"] = ["claude", "claude/other", "codex"][choose(body["model"], 3)] if kind == 7 else "claude"
    if kind > 1:
        for name in ("messages", "input"):
            if name in body:
                body[name] = [{"role": "user", "content": "hello"}]
    if kind > 3:
        for name in STRICT:
            if name in body and choose((name, body[name]), 3):
                del body[name]
        if "messages" in body:
            body.setdefault("max_tokens", 64)
    return body
