#!/usr/bin/env python3
"""Judges responses for qrl-train with reward functions written for other trainers.

    reward: {verifier: command, command: [python3, -m, qrl_reward, "verl:my_reward.py:compute_score"]}

    verl:FILE[:NAME]      NAME(data_source, solution_str, ground_truth, extra_info) -> number or dict with "score" (default: compute_score)
    trl:FILE:NAME[,NAME]  NAME(prompts, completions, completion_ids, trainer_state, **columns) -> list of numbers or None, for all responses of
                          a prompt at once
    openrlhf:FILE         reward_func(queries, prompts, labels) -> numbers, or dict with "rewards"
    slime:FILE:NAME       async NAME(args, sample) -> number or dict with "score"
    nemo:FILE:NAME[,NAME] NAME(ground_truth, response) -> number, or (number, whether the response is correct)
    http://…, https://…   posts {query, prompts, labels, prompt, response, label}; the answer is a number, or has rewards, reward or score

Functions may be async, may print (it goes to standard error), may return tensors, and may start processes of any start method. A score
of NaN or None does not apply to the response. An exception or an infinite score is an error of that response. A file with relative
imports is imported as part of its package. `serve` is for a program of your own (docs/reference/reward-protocol.md).
"""
import asyncio
import concurrent.futures
import contextlib
import inspect
import json
import os
import sys
import threading
import time
import urllib.request

from qrl_reward_file import (Member, Refused, StandIn, WrongResult, attributes_read, call, cut, finite, given, is_used, keys_read, load, named, number,
                             parameters_of, plain, read_result, rest_of, told, traceback_of)


def open_channel():
    """The lines from qrl-train, and a function that writes one, on descriptors that user functions do not have."""
    source, sink, lock = os.fdopen(os.dup(0), "rb"), os.dup(1), threading.Lock()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)

    def write(message):
        # A lone surrogate is no UTF-8, and NaN no JSON: the latter raises ValueError.
        line = json.dumps(message, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace") + b"\n"
        with lock:
            while line:
                line = line[os.write(sink, line):]

    return source, write


def value_of(result, loop=asyncio.new_event_loop()):
    return loop.run_until_complete(result) if inspect.isawaitable(result) else result


def probes(hello):
    """Returns the first row and two answers to it: nothing, and its ground truth, or its prompt if it has none."""
    first = hello["first"] or {"prompt": "", "ground_truth": "", "data_source": "", "row": {}}
    gold = first["ground_truth"][0] if first["ground_truth"] and isinstance(first["ground_truth"], list) else first["ground_truth"]
    gold = first["prompt"] if gold is None else gold if isinstance(gold, str) else json.dumps(gold)
    return first, [{"response": text, "stop": "eos", "response_tokens": len(text.encode()), "tokens": list(text.encode())} for text in ("", gold)]


def find_weights(judge, hello, main):
    """Returns the names of a function's scores with weights (`main` 1, others 0), and a note if it failed on one of two probes."""
    row, samples = probes(hello)
    found, notes, failure = set(), [], None
    for sample in samples:
        try:
            found |= set(judge(row, [sample])[0])
        except Exception as error:
            failure = error
            notes.append(f"the first row, judged before training: {told(error, row, [sample])}")
    if not found:
        raise failure
    return {"scores": {main: 1, **dict.fromkeys(sorted(found - {main}), 0)}, "notes": notes}


def each(score):  # a judge of several responses
    return lambda row, samples: [score(row, sample) for sample in samples]


FORM_OF_ONE = 'a number, or a dict with the number "score"'


def verl(hello, file, name="compute_score"):
    function = load(file, name)
    judge = each(lambda row, sample: read_result(function, call(
        function, value_of, data_source=row["data_source"], solution_str=sample["response"], ground_truth=row["ground_truth"],
        extra_info=dict(row["row"].get("extra_info") or {})), FORM_OF_ONE, lambda result: named(result, "score")))
    ready = find_weights(judge, hello, "score")
    first, _ = probes(hello)
    extra = first["row"].get("extra_info") or {}
    reads = {"solution_str": "the response"}
    reads |= {key: given(first[key]) for key in ("data_source", "ground_truth") if is_used(function, key)}
    reads |= {"extra_info": given(extra)} if is_used(function, "extra_info") else {}
    reads |= {f"extra_info.{key}": given(extra.get(key)) for key in keys_read(function, "extra_info")}
    return judge, {**ready, "fields": ["row"], "reads": reads}


class TrainerState(StandIn):
    """Tells TRL's functions the number of steps done; 0 in an evaluation."""

    module = "transformers.trainer_callback"


def log_metric(name, value):
    print(f"qrl_reward: metric {name} {value}", file=sys.stderr)


def log_extra(column, values):
    print(f"qrl_reward: column {column} {values}", file=sys.stderr)


def columns_of(row):
    gold = {} if row["ground_truth"] is None else {"ground_truth": row["ground_truth"]}
    return {**gold, "data_source": row["data_source"], **row["row"]}


def trl_style(ask, name, first, samples):
    """Returns whether a function takes messages: as the data has prompts, else as the first call succeeds. Adds a note of a failure."""
    styles = [True] if isinstance(first["row"].get("prompt"), list) else [False, True]
    notes = []
    for probe in (samples, samples[1:]):  # it may raise on an empty answer
        failure = None
        for is_chat in styles:
            try:
                ask(name, first, probe, is_chat)
                return is_chat, notes
            except Exception as error:
                by_style = isinstance(error, (TypeError, KeyError, IndexError, AttributeError))
                failure = failure if failure and by_style else error
                if not by_style:
                    break
        notes.append(f"the first row, judged before training: {told(failure, first, probe[:1])}")
    raise failure


def trl_reads(name, function, first, is_chat):
    columns = columns_of(first)
    form = "messages" if is_chat else "texts"
    fixed = {"prompts": form if first["prompt"] or first["row"].get("prompt") else None, "completions": form,
             "completion_ids": "the ids of each response's tokens", "trainer_state": "global_step", "log_metric": "a function that writes to the log",
             "log_extra": "a function that writes to the log"}
    rest, reads = rest_of(function), {}
    for key, one in parameters_of(function).items():
        if key in fixed or key in columns:
            reads[key] = fixed[key] if key in fixed else given(columns[key])
        elif key != rest:
            reads[key] = f"its default {one.default!r}: the row has no such field"
    for key in keys_read(function, rest) if rest else []:
        reads[key] = fixed[key] if key in fixed else given(columns.get(key))
    return {f"{name}: {key}": value for key, value in reads.items()}


def trl_scores(function, row, columns, lists, value_of=value_of):
    """Returns what a reward function of TRL gives for responses. Each of `lists` has a value a response, and they share `columns`."""
    count, name = len(lists["completions"]), getattr(function, "__name__", type(function).__name__)
    arguments = {key: [value] * count for key, value in columns.items()} | lists | {
        "trainer_state": TrainerState(global_step=max(row.get("step", 0) - 1, 0)), "log_extra": log_extra, "log_metric": log_metric}
    parameters = parameters_of(function)
    missing = [key for key, one in parameters.items() if key not in arguments and one.default is one.empty
               and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    if missing:
        raise TypeError(f"{name} takes {', '.join(missing)}; its row has {', '.join(sorted(columns))}")
    if not rest_of(function):
        arguments = {key: value for key, value in arguments.items() if key in parameters}

    def scores_of(result):
        scores = [number(score) for score in (result.items if isinstance(result, (dict, str)) else result)]
        if len(scores) != count:
            raise ValueError
        return scores

    return read_result(function, call(function, value_of, **arguments), f"a list of finite numbers or None, as long as completions ({count})", scores_of)


def trl(hello, file, names):
    functions = {name: load(file, name) for name in names.split(",")}
    first, samples = probes(hello)

    def ask(name, row, samples, is_chat):
        columns = columns_of(row)
        prompt, texts = columns.pop("prompt", None), [sample["response"] for sample in samples]
        if not isinstance(prompt, list):
            prompt = [{"role": "user", "content": row["prompt"]}] if is_chat else row["prompt"]
        return trl_scores(functions[name], row, columns, {
            "prompts": [prompt] * len(texts),
            "completions": [[{"role": "assistant", "content": text}] for text in texts] if is_chat else texts,
            "completion_ids": [sample.get("tokens", []) for sample in samples]})

    styles = {name: trl_style(ask, name, first, samples) for name in functions}

    def judge(row, samples):
        columns = {name: ask(name, row, samples, is_chat) for name, (is_chat, _) in styles.items()}
        return [{name: scores[i] for name, scores in columns.items()} for i in range(len(samples))]

    fields, reads = {"row"}, {}
    for name, function in functions.items():
        reads |= trl_reads(name, function, first, styles[name][0])
        if "completion_ids" in parameters_of(function) or rest_of(function):
            fields.add("tokens")
    notes = [note for _, notes in styles.values() for note in notes]
    return judge, {"scores": dict.fromkeys(functions, 1), "fields": sorted(fields), "rows": "group", "reads": reads, "notes": notes}


def openrlhf(hello, file):
    function = load(file, "reward_func")

    def judge(row, samples):
        prompts, labels = [row["prompt"]] * len(samples), [row["ground_truth"]] * len(samples)
        result = call(function, value_of, [row["prompt"] + sample["response"] for sample in samples], prompts, labels)

        def scores_of(result):
            result = result if isinstance(result, dict) else {"rewards": result}
            columns = {"rewards": result["rewards"], "score": result.get("scores"), **(result.get("extra_logs") or {})}
            columns = {name: plain(values) for name, values in columns.items() if values is not None}
            lists = {name: values if isinstance(values, (list, tuple)) else [values] * len(samples) for name, values in columns.items()}
            return [named({name: values[i] for name, values in lists.items() if len(values) == len(samples)}, "reward", "rewards")
                    for i in range(len(samples))]

        return read_result(function, result, f'a finite number, a list of them as long as queries ({len(samples)}), or a dict with such "rewards"', scores_of)

    ready = find_weights(judge, hello, "reward")
    first, _ = probes(hello)
    reads = {"queries": "prompt and response", "prompts": given(first["prompt"]), "labels": given(first["ground_truth"])}
    return judge, {**ready, "rows": "group", "reads": {key: value for key, value in reads.items() if is_used(function, key)}}


class Sample(StandIn):
    """Tells slime's functions what is known of a response."""

    module = "slime.utils.types"

    class Status:
        PENDING, COMPLETED, TRUNCATED, ABORTED, FAILED = map(Member, ("pending", "completed", "truncated", "aborted", "failed"))


class Args:
    """Stands for slime's arguments. Each is None, which the log says at its first use."""

    def __getattr__(self, name):
        print(f"qrl_reward: args.{name} is None: qrl-train has no arguments of slime", file=sys.stderr)
        setattr(self, name, None)


def slime(hello, file, name):
    function, args = load(file, name), Args()

    def sample_of(row, sample):
        return Sample(
            prompt=row["prompt"], response=sample["response"], label=row["ground_truth"], metadata=row["row"],
            tokens=row.get("prompt_tokens", []) + sample.get("tokens", []), index=sample.get("index", 0),
            response_length=sample["response_tokens"],
            status=Sample.Status.TRUNCATED if sample["stop"] == "length" else Sample.Status.COMPLETED)

    judge = each(lambda row, sample: read_result(function, call(function, value_of, args, sample_of(row, sample)), FORM_OF_ONE,
                                                 lambda result: named(result, "score")))
    ready = find_weights(judge, hello, "score")
    of_args, of_sample = [*parameters_of(function), "", ""][:2]
    first, samples = probes(hello)
    sample = vars(sample_of(first, samples[1]))
    fixed = {"tokens": "the ids of the prompt's and the response's tokens", "index": "the response's number",
             "response": "the response", "response_length": "its tokens", "status": "completed, or truncated if it was cut",
             "Status": "the members of its enum"}
    reads = {f"args.{key}": None for key in attributes_read(function, of_args)}
    reads |= {f"sample.{key}": fixed.get(key) or given(sample.get(key)) for key in attributes_read(function, of_sample)}
    return judge, {**ready, "fields": ["index", "prompt_tokens", "row", "tokens"], "reads": reads}


def nemo(hello, file, names):
    functions = {name: load(file, name) for name in names.split(",")}

    def pair_of(result):
        score, is_correct = result if isinstance(result, tuple) and len(result) == 2 else (result, None)
        return number(score), None if is_correct is None else bool(plain(is_correct))

    def score(row, sample):
        pairs = {name: read_result(function, call(function, value_of, row["ground_truth"], sample["response"]),
                                   "a finite number, or a tuple of it and True, False or None", pair_of)
                 for name, function in functions.items()}
        said = [is_correct for _, is_correct in pairs.values() if is_correct is not None]
        outcome = {"outcome": "correct" if all(said) else "wrong"} if said else {}
        return {"scores": {name: value for name, (value, _) in pairs.items()}, **outcome}

    first, _ = probes(hello)
    ready = find_weights(each(lambda row, sample: score(row, sample)["scores"]), hello, next(iter(functions)))
    reads = {"ground_truth": given(first["ground_truth"]), "response": "the response"}
    return each(score), {**ready, "scores": dict.fromkeys(functions, 1), "reads": reads}


def http(_, url, tries=4):
    def score(row, sample):
        prompt, response, label = row["prompt"], sample["response"], row["ground_truth"]
        body = json.dumps({"query": [prompt + response], "prompts": [prompt], "labels": [label],
                           "prompt": prompt, "response": response, "label": label}).encode()
        for left in reversed(range(tries)):
            try:
                with urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": "application/json"})) as answer:
                    text = answer.read().decode("utf-8", "replace")
                break
            except OSError as error:
                if not left:
                    raise WrongResult(f"{url} gives no answer: {error}") from None
            time.sleep(2.0 ** -left)
        try:
            result = json.loads(text)
            main = next((name for name in ("rewards", "reward", "score") if name in result), "score") if isinstance(result, dict) else ""
            return {"score": number(result[main] if main else result)}
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            raise WrongResult(f"{url} answered {cut(text, 100)}; expected a number, or an object with rewards, reward or score") from None

    return each(score), {"scores": {"score": 1}}


def talk(source, write, judge, ready, threads=1):
    """Answers rows until their end. A score that was not there at the start is dropped, one that is missing is null."""
    warned, weights = set(), ready["scores"]
    write({"ready": {"protocol": 1, **{name: value for name, value in ready.items() if value}}})

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
            trace = traceback_of(error)
            write({"id": message["id"], "error": told(error, message, message.get("samples") or [message]),
                   **({"traceback": trace} if trace else {})})

    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        for line in source:
            pool.submit(answer, json.loads(line)) if threads > 1 else answer(json.loads(line))


def serve(function, scores):
    """Judges by function(row) -> {name: number or None}, or an answer of the protocol. `scores` has the names and weights."""
    source, write = open_channel()
    source.readline()  # hello
    talk(source, write, each(lambda row, sample: function({**row, **sample})), {"scores": scores, "fields": ["row"]})


def main():
    adapters = {"verl": verl, "trl": trl, "openrlhf": openrlhf, "slime": slime, "nemo": nemo, "http": http}
    argument = sys.argv[1] if len(sys.argv) == 2 else ""
    kind, _, rest = argument.removeprefix("http:" if argument.startswith(("http:http://", "http:https://")) else "").partition(":")
    is_url = kind in ("http", "https")
    parts = [f"{kind}:{rest}"] if is_url else rest.split(":")
    fits = rest.startswith("//") if is_url else kind in adapters and rest
    if fits:
        try:
            inspect.signature(adapters["http" if is_url else kind]).bind(None, *parts)
        except TypeError:
            fits = False
    if not fits:
        names = ", ".join([*(f"{name}:" for name in adapters if name != "http"), "http://", "https://"])
        sys.exit(f"{__doc__}\nqrl_reward: expected one argument that begins with {names}, got {argument!r}")
    source, write = open_channel()
    hello = json.loads(source.readline())["hello"]
    try:
        judge, ready = adapters["http" if is_url else kind](hello, *parts)
    except Refused as error:
        write({"error": str(error)})
    except Exception as error:
        row, samples = probes(hello)
        trace = traceback_of(error)
        what = "prompt" if row["ground_truth"] is None else "ground truth"
        write({"error": f"{told(error, row, samples[1:])} (the {what} of the first row)" + (f"\n{trace}" if trace else "")})
    else:
        talk(source, write, judge, ready, threads=32 if is_url else 1)


if __name__ == "__main__":
    main()
