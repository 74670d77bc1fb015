#!/usr/bin/env python3
"""Judges responses for qrl-train with reward functions written for other trainers.

    reward: {verifier: command, command: [python3, -m, qrl_reward, "verl:my_reward.py:compute_score"]}

verl:FILE[:NAME]      NAME(data_source, solution_str, ground_truth, extra_info) -> number or dict with "score" (default: compute_score)
trl:FILE:NAME[,NAME]  NAME(prompts, completions, trainer_state, **columns) -> list of numbers or None, for all responses of a prompt at once
openrlhf:FILE         reward_func(queries, prompts, labels) -> numbers, or dict with "rewards"
slime:FILE:NAME       async NAME(args, sample) -> number or dict with "score"
http://…, https://…   posts {query, prompts, labels, prompt, response, label}; the answer is a number, or has rewards, reward or score

Functions may be async, may print (it goes to standard error), may return tensors, and may start processes of any start method. A score
of NaN or None does not apply to the response. An exception or an infinite score is an error of that response.
`serve` is for a program of your own (docs/reference/reward-protocol.md).
"""
import asyncio
import concurrent.futures
import contextlib
import importlib
import importlib.util
import inspect
import json
import math
import os
import sys
import threading
import time
import traceback
import types
import urllib.request


MODULE, FILE_VARIABLE = "reward_of_user", "QRL_REWARD_FILE"


def open_channel():
    """The lines from qrl-train, and a function that writes one, on descriptors that user functions do not have."""
    source, sink, lock = os.fdopen(os.dup(0), "rb"), os.dup(1), threading.Lock()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)

    def write(message):
        line = json.dumps(message).encode() + b"\n"
        with lock:
            while line:
                line = line[os.write(sink, line):]

    return source, write


def value_of(result, loop=asyncio.new_event_loop()):
    return loop.run_until_complete(result) if inspect.isawaitable(result) else result


def plain(value):
    return value.tolist() if hasattr(value, "tolist") else value  # tensors and arrays


def number(value):
    """A score; None where it does not apply. A TypeError for what is no number, a ValueError for what is not finite."""
    value = plain(value)
    while isinstance(value, (list, tuple)) and len(value) == 1:
        value = plain(value[0])
    if isinstance(value, str):
        raise TypeError(f"expected a number as score, got the text {value!r}")
    return finite(None if value is None else float(value))


def finite(value):
    """The value; None for NaN, which is a score that does not apply. A ValueError for an infinity."""
    if isinstance(value, float) and math.isinf(value):
        raise ValueError(f"expected a finite number as score, got {value}")
    return None if isinstance(value, float) and math.isnan(value) else value


def named(result, main, whole="score"):
    """Scores by name: of a number, or of a dict whose `whole` is the main one. Entries that are no numbers are left out."""
    result = result if isinstance(result, dict) else {whole: result}
    scores = {main: number(result[whole])}
    for name in result.keys() - {whole}:
        with contextlib.suppress(TypeError, ValueError):
            scores[name] = number(result[name])
    return scores


class TrainerState:
    """What TRL's functions may ask of the trainer: the number of steps that it has done; 0 in an evaluation."""

    def __init__(self, step):
        self.global_step = max(step - 1, 0)


class OwnFile:
    """Finds the user's file under the name MODULE, also in processes that its pools start (spawn, forkserver)."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        file = os.environ.get(FILE_VARIABLE) if name == MODULE else None
        return importlib.util.spec_from_file_location(name, file) if file else None


def load(file, name):
    if not os.path.isfile(file):
        sys.exit(f"qrl_reward: expected a Python file, got {file!r}, which is not in {os.getcwd()}")
    os.environ[FILE_VARIABLE] = os.path.abspath(file)
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))
    module = importlib.import_module(MODULE)
    known = ", ".join(key for key, value in vars(module).items() if inspect.isfunction(value))
    if not callable(getattr(module, name, None)):
        sys.exit(f"qrl_reward: expected a function {name!r} in {file}, which has {known or 'none'}")
    return getattr(module, name)


def probes(hello):
    """The first row, and two answers to it: nothing, and its ground truth."""
    first = hello["first"] or {"prompt": "", "ground_truth": "", "data_source": "", "row": {}}
    gold = first["ground_truth"][0] if first["ground_truth"] and isinstance(first["ground_truth"], list) else first["ground_truth"]
    gold = gold if isinstance(gold, str) else json.dumps(gold)
    return first, [{"response": text, "stop": "eos", "response_tokens": len(text)} for text in ("", gold)]


def cut(text, most):
    text = text if isinstance(text, str) else json.dumps(text)
    return json.dumps(text if len(text) <= most else text[:most] + "…", ensure_ascii=False)


def told(error, row, samples):
    """One line: what a function raised and at which line of the user's file, the row's columns, its prompt, the response."""
    files = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == os.environ.get(FILE_VARIABLE)]
    place = f" at {os.path.basename(files[-1].filename)}:{files[-1].lineno}" if files else ""
    response = cut(samples[0]["response"], 40) if len(samples) == 1 else f"{len(samples)} of them"
    return (f"{type(error).__name__}: {error}{place}; columns of the row: {', '.join(sorted(row['row'])) or 'none'}; "
            f"prompt {cut(row['prompt'], 60)}, response {response}")


def find_weights(judge, hello, main):
    """The names that a function gives: `main` has weight 1, the others 0. It may fail on one of the two probes."""
    row, samples = probes(hello)
    found, failure = set(), None
    for sample in samples:
        try:
            found |= set(judge(row, [sample])[0])
        except Exception as error:
            failure = error
            print(f"qrl_reward: {told(error, row, [sample])}", file=sys.stderr)
    if not found:
        raise failure
    return {main: 1, **dict.fromkeys(sorted(found - {main}), 0)}


def each(score):  # a judge of several responses
    return lambda row, samples: [score(row, sample) for sample in samples]


def verl(hello, file, name="compute_score"):
    function = load(file, name)
    judge = each(lambda row, sample: named(value_of(function(
        data_source=row["data_source"], solution_str=sample["response"], ground_truth=row["ground_truth"],
        extra_info=dict(row["row"].get("extra_info") or {}))), "score"))
    return judge, find_weights(judge, hello, "score"), {"fields": ["row"]}


def trl(hello, file, names):
    functions = {name: load(file, name) for name in names.split(",")}
    first, samples = probes(hello)

    def ask(name, row, samples, is_chat):
        columns = {"ground_truth": row["ground_truth"], "data_source": row["data_source"], **row["row"]}
        prompt, texts = columns.pop("prompt", None), [sample["response"] for sample in samples]
        if not isinstance(prompt, list):
            prompt = [{"role": "user", "content": row["prompt"]}] if is_chat else row["prompt"]
        arguments = {key: [value] * len(texts) for key, value in columns.items()} | {
                      "prompts": [prompt] * len(texts), "trainer_state": TrainerState(row.get("step", 0)),
                      "completions": [[{"role": "assistant", "content": text}] for text in texts] if is_chat else texts,
                      "completion_ids": [sample.get("tokens", []) for sample in samples],
                      "log_extra": lambda *_: None, "log_metric": lambda *_: None}
        parameters = inspect.signature(functions[name]).parameters
        missing = [key for key, one in parameters.items() if key not in arguments and one.default is one.empty
                   and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
        if missing:
            raise TypeError(f"{name} takes {', '.join(missing)}; its row has {', '.join(sorted(columns))}")
        if not any(one.kind == one.VAR_KEYWORD for one in parameters.values()):
            arguments = {key: value for key, value in arguments.items() if key in parameters}
        scores = [number(score) for score in plain(value_of(functions[name](**arguments)))]
        if len(scores) != len(texts):
            raise ValueError(f"expected {len(texts)} scores of {name}, got {len(scores)}")
        return scores

    def style(name):
        """Whether completions are messages: as the data's prompts are, else as the first call goes through."""
        styles = [True] if isinstance(first["row"].get("prompt"), list) else [False, True]
        for probe in (samples, samples[1:]):  # it may raise on an empty answer
            failure = None
            for is_chat in styles:
                try:
                    ask(name, first, probe, is_chat)
                    return is_chat
                except Exception as error:
                    by_style = isinstance(error, (TypeError, KeyError, IndexError, AttributeError))
                    failure = failure if failure and by_style else error
                    if not by_style:
                        break
            print(f"qrl_reward: {told(failure, first, probe[:1])}", file=sys.stderr)
        raise failure

    chats = {name: style(name) for name in functions}

    def judge(row, samples):
        columns = {name: ask(name, row, samples, is_chat) for name, is_chat in chats.items()}
        return [{name: scores[i] for name, scores in columns.items()} for i in range(len(samples))]

    fields = {"row", *("tokens" for one in functions.values() if "completion_ids" in inspect.signature(one).parameters)}
    return judge, dict.fromkeys(functions, 1), {"fields": sorted(fields), "rows": "group"}


def openrlhf(hello, file):
    function = load(file, "reward_func")

    def judge(row, samples):
        prompts, labels = [row["prompt"]] * len(samples), [row["ground_truth"]] * len(samples)
        result = value_of(function([row["prompt"] + sample["response"] for sample in samples], prompts, labels))
        result = result if isinstance(result, dict) else {"rewards": result}
        columns = {"rewards": result["rewards"], "score": result.get("scores"), **(result.get("extra_logs") or {})}
        columns = {name: plain(values) for name, values in columns.items() if values is not None}
        lists = {name: values if isinstance(values, (list, tuple)) else [values] * len(samples) for name, values in columns.items()}
        return [named({name: values[i] for name, values in lists.items() if len(values) == len(samples)}, "reward", "rewards")
                for i in range(len(samples))]

    return judge, find_weights(judge, hello, "reward"), {"rows": "group"}


def slime(hello, file, name):
    function, unset = load(file, name), type("Args", (), {"__getattr__": lambda *_: None})()
    judge = each(lambda row, sample: named(value_of(function(unset, types.SimpleNamespace(
        prompt=row["prompt"], response=sample["response"], label=row["ground_truth"], metadata=row["row"],
        tokens=row.get("prompt_tokens", []) + sample.get("tokens", []), index=sample.get("index", 0),
        response_length=sample["response_tokens"], status="truncated" if sample["stop"] == "length" else "completed"))), "score"))
    return judge, find_weights(judge, hello, "score"), {"fields": ["index", "prompt_tokens", "row", "tokens"]}


def http(_, url, tries=4):
    def score(row, sample):
        prompt, response, label = row["prompt"], sample["response"], row["ground_truth"]
        body = json.dumps({"query": [prompt + response], "prompts": [prompt], "labels": [label],
                           "prompt": prompt, "response": response, "label": label}).encode()
        for left in reversed(range(tries)):
            with contextlib.suppress(*([OSError] if left else [])):
                with urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": "application/json"})) as answer:
                    result = json.load(answer)
                break
            time.sleep(2.0 ** -left)
        main = next((name for name in ("rewards", "reward", "score") if name in result), "score") if isinstance(result, dict) else ""
        return {"score": number(result[main] if main else result)}

    return each(score), {"score": 1}, {"threads": 32}


def talk(source, write, judge, weights, threads=1, **ready):
    """Answers rows until their end. A score that was not there at the start is dropped, one that is missing is null."""
    warned = set()
    write({"ready": {"protocol": 1, "scores": weights, **ready}})

    def answer_of(scores):
        if "scores" in scores:
            return {**scores, "scores": {name: finite(score) for name, score in scores["scores"].items()}}
        for name in scores.keys() - weights.keys() - warned:
            warned.add(name)
            print(f"qrl_reward: the score {name!r} was not declared at the start and is dropped", file=sys.stderr)
        return {"scores": {name: finite(scores.get(name)) for name in weights}}

    def answer(message):
        message.setdefault("row", {})
        try:
            answers = [answer_of(scores) for scores in judge(message, message.get("samples") or [message])]
            write({"id": message["id"], **({"answers": answers} if "samples" in message else answers[0])})
        except MemoryError:
            os._exit(1)  # as a program that the system ended: a fresh one has memory again
        except Exception as error:
            traceback.print_exc()
            write({"id": message["id"], "error": told(error, message, message.get("samples") or [message])})

    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        for line in source:
            pool.submit(answer, json.loads(line)) if threads > 1 else answer(json.loads(line))


def serve(function, scores):
    """Judges by function(row) -> {name: number or None}, or an answer of the protocol. `scores` has the names and weights."""
    source, write = open_channel()
    source.readline()  # hello
    talk(source, write, each(lambda row, sample: function({**row, **sample})), scores, fields=["row"])


def main():
    adapters = {"verl": verl, "trl": trl, "openrlhf": openrlhf, "slime": slime, "http": http}
    argument = sys.argv[1] if len(sys.argv) == 2 else ""
    kind, _, rest = argument.removeprefix("http:" if argument.startswith(("http:http://", "http:https://")) else "").partition(":")
    is_url = kind in ("http", "https")
    if not rest.startswith("//") if is_url else kind not in adapters or not rest:
        names = ", ".join([*(f"{name}:" for name in adapters if name != "http"), "http://", "https://"])
        sys.exit(f"{__doc__}\nqrl_reward: expected one argument that begins with {names}, got {argument!r}")
    source, write = open_channel()
    hello = json.loads(source.readline())["hello"]
    try:
        judge, weights, ready = adapters["http"](hello, f"{kind}:{rest}") if is_url else adapters[kind](hello, *rest.split(":"))
    except Exception as error:
        row, samples = probes(hello)
        sys.exit(f"qrl_reward: {rest} judges neither an empty answer nor the ground truth of the first row: {told(error, row, samples[1:])}")
    talk(source, write, judge, weights, **ready)


sys.meta_path.append(OwnFile)  # here: a process that a pool starts reads this file, but does not call main
if __name__ == "__main__":
    main()
