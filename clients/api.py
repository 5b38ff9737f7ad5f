"""Asks a gateway as programs of others do: by the official Python libraries, unmodified.

    OSTLER_TEST_KEY=… python api.py API URL

API: `messages`, `chat` or `responses`. An order is a line of JSON on standard input, and so is each answer on standard
output. Conversations are kept here, by name, as the libraries' own objects: what is sent back is what they made of it.
`api.mjs` takes the same orders.
"""

import copy
import json
import os
import sys

import anthropic
import openai

API, URL = sys.argv[1:3]
MODEL = "claude"
ADD = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
talks = {}


def tell(**told):
    print(json.dumps(told), flush=True)


def client_with(key):
    # What is refused is to be seen, not asked again.
    if API == "messages":
        return anthropic.Anthropic(api_key=key, base_url=URL, max_retries=0, timeout=120)
    return openai.OpenAI(api_key=key, base_url=f"{URL}/v1", max_retries=0, timeout=120)


client = client_with(os.environ["OSTLER_TEST_KEY"])


class Messages:
    tools = [{"name": "add", "description": "Adds two numbers.", "input_schema": ADD}]

    def ask(self, talk, client=None, **more):
        more = {"model": MODEL, "max_tokens": 1000, **more}
        return (client or globals()["client"]).messages.create(messages=talk, **more)

    def pieces(self, talk, **more):
        for event in self.ask(talk, stream=True, **more):
            if event.type == "content_block_delta" and event.delta.type == "text_delta":
                yield event.delta.text

    def helper(self, talk, **more):
        return client.messages.stream(model=MODEL, max_tokens=1000, messages=talk, **more)

    def texts(self, stream):
        return stream.text_stream

    def final(self, stream):
        return stream.get_final_message()

    def told(self, answer):
        text = "".join(block.text for block in answer.content if block.type == "text")
        return {"said": text, "stop": answer.stop_reason, "tokens": answer.usage.output_tokens, "id": answer.id}

    def echo(self, talk, answer):
        talk.append({"role": "assistant", "content": answer.content})

    def calls(self, answer):
        return [(call.id, call.input) for call in answer.content if call.type == "tool_use"]

    def results(self, talk, results):
        blocks = [{"type": "tool_result", "tool_use_id": id, "content": text} for id, text in results]
        talk.append({"role": "user", "content": blocks})


class Chat:
    tools = [{"type": "function", "function": {"name": "add", "parameters": ADD, "strict": True}}]

    def ask(self, talk, client=None, **more):
        more = {"model": MODEL, **more}
        return (client or globals()["client"]).chat.completions.create(messages=talk, **more)

    def pieces(self, talk, **more):
        for chunk in self.ask(talk, stream=True, **more):
            if chunk.choices and chunk.choices[0].delta.content:
                yield chunk.choices[0].delta.content

    def helper(self, talk, **more):
        usage = {"include_usage": True}
        return client.chat.completions.stream(model=MODEL, messages=talk, stream_options=usage, **more)

    def texts(self, stream):
        # The first says who speaks, and nothing else.
        return (event.delta for event in stream if event.type == "content.delta" and event.delta)

    def final(self, stream):
        return stream.get_final_completion()

    def told(self, answer):
        choice, usage = answer.choices[0], answer.usage
        tokens = usage and usage.completion_tokens
        return {"said": choice.message.content or "", "stop": choice.finish_reason, "tokens": tokens, "id": answer.id}

    def echo(self, talk, answer):
        talk.append(answer.choices[0].message)

    def calls(self, answer):
        calls = answer.choices[0].message.tool_calls or []
        return [(call.id, json.loads(call.function.arguments)) for call in calls]

    def results(self, talk, results):
        talk.extend({"role": "tool", "tool_call_id": id, "content": text} for id, text in results)


class Responses:
    tools = [{"type": "function", "name": "add", "parameters": ADD, "strict": True}]

    def ask(self, talk, client=None, **more):
        more = {"model": MODEL, **more}
        return (client or globals()["client"]).responses.create(input=talk, **more)

    def pieces(self, talk, **more):
        for event in self.ask(talk, stream=True, **more):
            if event.type == "response.output_text.delta":
                yield event.delta

    def helper(self, talk, **more):
        return client.responses.stream(model=MODEL, input=talk, **more)

    def texts(self, stream):
        return (event.delta for event in stream if event.type == "response.output_text.delta")

    def final(self, stream):
        return stream.get_final_response()

    def told(self, answer):
        tokens = answer.usage and answer.usage.output_tokens
        return {"said": answer.output_text, "stop": answer.status, "tokens": tokens, "id": answer.id}

    def echo(self, talk, answer):
        talk.extend(answer.output)

    def calls(self, answer):
        calls = [item for item in answer.output if item.type == "function_call"]
        return [(call.call_id, json.loads(call.arguments)) for call in calls]

    def results(self, talk, results):
        talk.extend({"type": "function_call_output", "call_id": id, "output": text} for id, text in results)


api = {"messages": Messages, "chat": Chat, "responses": Responses}[API]()


def heard(pieces):
    """All pieces; that the first came is told at once."""
    texts = []
    for piece in pieces:
        if not texts:
            tell(began=piece)
        texts.append(piece)
    return texts


def answer(talk, how, **more):
    """The library's own object of the answer, and how many pieces of text it came in."""
    if how == "whole":
        return api.ask(talk, **more), None
    with api.helper(talk, **more) as stream:
        count = len(heard(api.texts(stream)))
        return api.final(stream), count


def say(order):
    talk = talks.setdefault(order["talk"], [])
    talk.append({"role": "user", "content": order["text"]})
    more = {} if "after" not in order else {"previous_response_id": order["after"]}
    if order["how"] == "stream":
        texts = heard(api.pieces(talk, **more))
        talk.append({"role": "assistant", "content": "".join(texts)})
        return tell(said="".join(texts), pieces=len(texts))
    got, count = answer(talk, order["how"], **more)
    api.echo(talk, got)
    tell(**api.told(got), pieces=count)


def use(order):
    """With a tool that is run here."""
    talk, calls = talks.setdefault(order["talk"], []), []
    talk.append({"role": "user", "content": order["text"]})
    while True:
        got, _ = answer(talk, order["how"], tools=api.tools)
        api.echo(talk, got)
        wanted = api.calls(got)
        if not wanted:
            return tell(**api.told(got), calls=calls)
        calls.append([api.told(got)["stop"], [args for _, args in wanted]])
        api.results(talk, [(id, str(args["a"] + args["b"])) for id, args in wanted])


def leave(order):
    """Goes away in the middle, and keeps what was heard."""
    talk = talks.setdefault(order["talk"], [])
    talk.append({"role": "user", "content": order["text"]})
    texts = []
    if order["how"] == "helper":
        with api.helper(talk) as stream:
            for piece in api.texts(stream):
                texts.append(piece)
                break
    else:
        pieces = api.pieces(talk)
        texts.append(next(pieces))
        pieces.close()
    talk.append({"role": "assistant", "content": "".join(texts)})
    tell(left="".join(texts))


def plain(value):
    """What the libraries made of it, as JSON has it."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return value.to_dict() if hasattr(value, "to_dict") else value


def words(order):
    """What only the words of a conversation make: as programs keep it that show it to people."""
    kept = []
    for message in plain(talks[order["talk"]]):
        content = message.get("content") or []
        blocks = [{"text": content}] if isinstance(content, str) else content
        text = "\n\n".join(block["text"] for block in blocks if "text" in block)
        if text:
            kept.append({"role": message["role"], "content": text})
    talks[order["as"]] = kept
    tell(messages=len(kept))


def edit(order):
    """A conversation whose first message was another; without a text, a copy."""
    talk = copy.deepcopy(talks[order["talk"]])
    if "text" in order:
        talk[0] = {"role": "user", "content": order["text"]}
    talks[order["as"]] = talk
    tell(messages=len(talk))


def faulty(talk):
    """An answer that breaks off after its first words. In one of the APIs that is an event like others."""
    if API == "responses":
        failed = [event for event in api.ask(talk, stream=True) if event.type == "response.failed"]
        return tell(error=failed[0].response.error.code)
    with api.helper(talk) as stream:
        heard(api.texts(stream))
        api.final(stream)
    tell(error=None)


def wrong(order):
    talk = [{"role": "user", "content": "hello"}]
    try:
        match order["what"]:
            case "key":
                api.ask(talk, client_with("ostler_wrong"))
            case "model":
                api.ask(talk, model="gpt-wrong")
            case "empty":
                api.ask([])
            case "streamed":
                for _ in api.pieces(talk, model="gpt-wrong"):
                    pass
            case "counted":
                client.messages.count_tokens(model=MODEL, messages=talk)
            case "faulty":
                return faulty([{"role": "user", "content": order["text"]}])
        tell(error=None)
    except (anthropic.APIError, openai.APIError) as error:
        status = getattr(error, "status_code", None)
        tell(error=type(error).__name__, status=status, request=bool(getattr(error, "request_id", None)))


def models(_):
    tell(models=[model.id for model in client.models.list()], one=client.models.retrieve("claude/opus").id)


def parameters(_):
    """What the library itself lets a program send, in a body."""
    from anthropic.types import message_create_params as of_messages
    from anthropic.types.beta import message_create_params as of_beta
    from openai.types.chat import completion_create_params as of_chat
    from openai.types.responses import response_create_params as of_responses

    sent = {
        "messages": [of_messages.MessageCreateParamsStreaming, of_beta.MessageCreateParamsStreaming],
        "chat": [of_chat.CompletionCreateParamsStreaming],
        "responses": [of_responses.ResponseCreateParamsStreaming],
    }
    names = {name for shape in sent[API] for name in shape.__annotations__}
    # This one becomes a header.
    tell(parameters=sorted(names - {"betas"}))


for line in sys.stdin:
    order = json.loads(line)
    try:
        orders = [say, use, leave, words, edit, wrong, models, parameters]
        {one.__name__: one for one in orders}[order["do"]](order)
    except Exception as error:  # Whatever it is, the test is to tell it.
        tell(failed=f"{type(error).__name__}: {error}")
