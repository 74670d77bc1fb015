#!/usr/bin/env python3
"""qrl_env with environments in each trainer's style, which print: spoken to as qrl-train does, with scripted answers."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest

import openenv_server
import schemas_style

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FIRST = {"prompt": "one?", "ground_truth": "abc", "data_source": "toy", "row": {"answer": "3"}}
sys.path.insert(0, str(ROOT / "apps/python"))
from qrl_env.calls import calls_of, without_calls  # noqa: E402
from qrl_env.schema import function_schema  # noqa: E402


def call(name, **arguments):
    return f'<tool_call>\n{json.dumps({"name": name, "arguments": arguments})}\n</tool_call>'


class Program:
    """A program that plays environments. Its answers come in any order."""

    def __init__(self, *arguments, role="tool", style="chat", sessions=1, max_turns=4, first=FIRST, stderr=subprocess.DEVNULL, seed=0,
                 python=sys.executable, packages=HERE / "packages", folder=HERE):
        paths = [str(ROOT / "apps/python"), *([str(packages)] if packages else [])]
        self.process = subprocess.Popen([python, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, cwd=folder, text=True,
                                        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)})
        self.next_id, self.max_turns, self.answers = 0, max_turns, {}
        self.turns, self.answered = {}, {}  # by id: the last turn sent, and the last one answered
        self.say("hello", {"protocol": 1, "task": "environment", "seed": seed, "run": "r", "style": style, "role": role,
                           "max_turns": max_turns, "sessions": sessions, "first": first})
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {}
        self.ready, self.refusal = answer.get("ready"), answer.get("error")

    def say(self, kind, message):
        self.process.stdin.write(json.dumps({kind: message}) + "\n")
        self.process.stdin.flush()

    def wait(self, number):
        """Returns the next answer with an id, without it and without its turn."""
        while number not in self.answers:
            answer = json.loads(self.process.stdout.readline())
            of = answer.pop("id")
            self.answered[of] = answer.pop("turn", 0)
            self.answers[of] = answer
        return self.answers.pop(number)

    def send_start(self, **fields):
        self.next_id += 1
        self.turns[self.next_id] = 0
        self.say("start", {"id": self.next_id, "seed": 17, "step": 4, "eval": False, **{**FIRST, **fields}})
        return self.next_id

    def send_step(self, number, text, last=None):
        self.turns[number] += 1
        is_last = self.turns[number] == self.max_turns if last is None else last
        self.say("step", {"id": number, "turn": self.turns[number], "text": text, "stop": "eos", "last": is_last})

    def start(self, **fields):
        number = self.send_start(**fields)
        return number, self.wait(number)

    def step(self, number, text, last=None):
        self.send_step(number, text, last)
        answer = self.wait(number)
        if self.answered[number] != self.turns[number]:
            raise AssertionError(f"answered turn {self.answered[number]} instead of {self.turns[number]}: {answer}")
        return answer

    def play(self, *texts, **fields):
        """Plays a conversation. Returns the first observation, and the answer to each turn."""
        number, first = self.start(**fields)
        return first.get("observation", first), [self.step(number, text) for text in texts]

    def row(self, part, index):
        self.next_id += 1
        self.say("row", {"id": self.next_id, "set": part, "index": index})
        return self.wait(self.next_id)

    def end(self):
        self.process.stdin.close()
        errors = self.process.stderr.read() if self.process.stderr else ""
        for stream in (self.process.stdout, self.process.stderr):
            if stream:
                stream.close()
        return self.process.wait(10), errors


def contents(answer):
    return [message["content"] for message in answer["observations"]]


class Case(unittest.TestCase):
    def open(self, argument, **options):
        program = Program("-m", "qrl_env", argument, **options)
        self.addCleanup(lambda: program.process.stdin.closed or program.end())
        return program

    def refused(self, argument, *words, **options):
        program = self.open(argument, **options)
        for word in words:
            self.assertIn(word, program.refusal)
        self.assertEqual(program.end()[0], 0)


class Goldens(unittest.TestCase):
    golden = json.loads((ROOT / "tests/data/golden/tools.json").read_text())

    def test_schemas_equal_those_of_transformers(self):
        for function, wanted in zip(schemas_style.FUNCTIONS, self.golden["schemas"], strict=True):
            with self.subTest(function.__name__):
                self.assertEqual(json.dumps(function_schema(function)), json.dumps(wanted))  # in order

    def test_calls_equal_those_of_transformers(self):
        schemas = {schema["function"]["name"]: schema for schema in self.golden["schemas"]}
        for one in self.golden["calls"]:
            with self.subTest(one["text"]):
                found = [{"name": found.name, "arguments": found.arguments} for found in calls_of(one["text"], schemas)]
                self.assertEqual((found, without_calls(one["text"])), (one["calls"], one["content"]))


class Calls(Case):
    def test_what_cannot_be_read_is_an_error(self):
        for text, word in (("<tool_call>{\"name\": \"f\"", "no </tool_call>"), ("<tool_call>x</tool_call>", "Expecting value at character 1"),
                           ('<tool_call>{"name": 1}</tool_call>', '"arguments"'), ('<tool_call>{"name": "f", "arguments": "{}"}</tool_call>', "object"),
                           ('<tool_call>{"name": "f", "arguments": {"a": NaN}}</tool_call>', "number"),
                           ('<tool_call>{"name": "f", "arguments": {"a": 1e999}}</tool_call>', "number"),
                           ('<tool_call>{"name": "f", "arguments": {"a": %s}}</tool_call>' % ("9" * 5000), "integer"),
                           ('<tool_call>{"name": "f", "arguments": {"a": %s}}</tool_call>' % ("[" * 100000), "nested"),
                           ('<tool_call>{"name": "f", "arguments": {"a": %s}}</tool_call>' % ("[" * 20 + "]" * 20), "nested"),
                           ('<tool_call>{"name": "f", "arguments": {}} {}</tool_call>', "one JSON object"),
                           ('{"name": "f", "parameters": {"a"', "Expecting"), ('{"name": "f"}', '"parameters"')):
            with self.subTest(text[:60]):
                found, = calls_of(text, {})
                self.assertEqual((found.name, found.arguments), ("", None))
                self.assertIn(word, found.error)

    def test_what_is_no_call(self):
        for text in ("", "<think><tool_call>{}</tool_call>", "<think>\n<tool_call>x</tool_call></think>4", '{"answer": 4}', "tool_call", "5 {\"name\": 1}"):
            self.assertEqual(calls_of(text, {}), [])

    def test_several_of_a_turn(self):
        text = call("a", x=1) + "<tool_call>{" + call("b") + '{"name": "c"}'
        self.assertEqual([(found.name, bool(found.error)) for found in calls_of(text, {})], [("a", False), ("", True), ("b", False)])
        text = '{"name": "a", "parameters": {}}; {"type": "function", "name": "b", "parameters": {"x": 1}} and {"name": "c", "parameters": {}}'
        self.assertEqual([found.name for found in calls_of(text, {})], ["a", "b"])


class Trl(Case):
    def test_class_plays_as_in_trl(self):
        program = self.open("trl:trl_style.py:Adder,search:totals", stderr=subprocess.PIPE)
        names = [tool["function"]["name"] for tool in program.ready["tools"]]
        self.assertEqual(names, ["search", "add", "fail", "wait"])  # tools, then methods in TRL's order
        self.assertEqual((program.ready["scores"], program.ready["protocol"]), ({"Adder": 1, "totals": 1}, 1))
        first, answers = program.play("Hm. " + call("add", value=1) + call("add", value=2), call("search", query="x"), "3", row={"answer": "3", "hint": " Add."})
        self.assertEqual(first, " Add.")
        self.assertEqual(answers[0], {
            "observations": [{"content": "total 1", "name": "add", "call": {"name": "add", "arguments": {"value": 1}}},
                             {"content": "total 3", "name": "add", "call": {"name": "add", "arguments": {"value": 2}}}],
            "calls": [{"name": "add", "arguments": {"value": 1}}, {"name": "add", "arguments": {"value": 2}}]})
        self.assertEqual(contents(answers[1]), ["{'found': 'x'}"])
        self.assertEqual(answers[2], {"done": True, "scores": {"Adder": 1.0, "totals": 3.06}})  # six messages
        first, answers = program.play("no")  # the same instance, reset
        self.assertEqual((first, answers), (None, [{"done": True, "scores": {"Adder": 0.0, "totals": 0.01}}]))
        code, errors = program.end()
        self.assertEqual((code, errors.count("an Adder is made"), errors.count("adding")), (0, 1, 2))

    def test_errors_are_told_to_the_model(self):
        program = self.open("trl:trl_style.py:Adder", stderr=subprocess.PIPE)
        number, _ = program.start()
        answer = program.step(number, call("fail", text="no") + call("gone") + "<tool_call>{</tool_call>" + call("add", wrong=1))
        self.assertEqual(contents(answer)[:2], ["{'error': 'no'}", "{'error': 'Tool gone not found.'}"])
        self.assertIn("must be JSON", contents(answer)[2])
        self.assertIn("unexpected keyword argument", contents(answer)[3])
        self.assertEqual([(found["name"], "error" in found) for found in answer["calls"]], [("fail", True), ("gone", True), ("", True), ("add", True)])
        program.step(number, call("fail", text="other"))
        self.assertEqual(program.step(number, "<tool_call>" * 65)["calls"][0]["error"], "a turn may have 64 calls, got 65")
        self.assertEqual(program.end()[1].count("Traceback"), 1)  # a place in a file has one

    def test_last_turn_calls_nothing(self):
        program = self.open("trl:trl_style.py:Adder", max_turns=1)
        self.assertEqual(program.play(call("add", value=3))[1], [{"done": True, "scores": {"Adder": 0.0}}])
        number, _ = program.start()
        program.say("end", {"id": number, "why": "length"})
        self.assertEqual(program.wait(number), {"done": True, "scores": {"Adder": 0.0}})

    def test_async_tools_run_at_once(self):
        program = self.open("trl:trl_style.py:Adder")
        begin = time.monotonic()
        answer = program.play(call("wait", seconds=0.4) * 20 + call("add", value=1))[1][0]
        self.assertEqual((contents(answer)[0], contents(answer)[20]), ("waited 0.4", "total 1"))
        self.assertLess(time.monotonic() - begin, 4)  # 8 s one after another

    def test_sessions_have_a_thread_each(self):
        program = self.open("trl:trl_style.py:Adder", sessions=8, stderr=subprocess.PIPE)
        numbers = [program.send_start(row={"answer": str(i)}) for i in range(8)]
        for number in numbers:
            self.assertEqual(program.wait(number), {"observation": None})
        begin = time.monotonic()
        for i, number in enumerate(numbers):
            program.send_step(number, call("wait", seconds=0.4) + call("add", value=i))
        self.assertEqual([contents(program.wait(number))[1] for number in numbers], [f"total {i}" for i in range(8)])
        self.assertLess(time.monotonic() - begin, 2)
        for number in reversed(numbers):
            self.assertEqual(program.step(number, "done")["scores"], {"Adder": 1.0})
        again = [program.send_start() for _ in range(8)]
        self.assertEqual([program.wait(number) for number in again], [{"observation": None}] * 8)
        self.assertEqual(program.end()[1].count("an Adder is made"), 8)  # made once, reset often

    def test_seed_and_threads(self):
        program = self.open("trl:trl_style.py:Seeded")
        drawn = [contents(program.play(call("drawn"))[1][0]) for _ in range(2)]
        self.assertEqual(drawn[0], drawn[1])
        self.assertEqual(contents(program.play(call("thread"))[1][0]), ["True"])

    def test_role_user_has_the_schemas_in_the_system_message(self):
        program = self.open("trl:trl_style.py:Adder", role="user")
        self.assertNotIn("tools", program.ready)
        system = program.ready["system"]
        self.assertIn('<tool_call>\n{"name": "add", "arguments": {"value": 3}}\n</tool_call>', system)
        self.assertEqual([json.loads(line)["name"] for line in system.splitlines() if line.startswith('{"name"') and "parameters" in line], ["add", "fail", "wait"])
        answer = program.play(call("add", value=1) + call("add", value=2))[1][0]
        self.assertEqual(answer["observation"], "total 1\ntotal 3")

    def test_style_continue_pastes_results(self):
        program = self.open("trl:trl_style.py:Adder", style="continue")
        self.assertEqual(program.ready.keys(), {"protocol", "scores"})
        self.assertEqual(program.play(call("add", value=1))[1][0]["observation"], "total 1")

    def test_routing_by_the_rows_column(self):
        program = self.open("trl:trl_style.py:routed")
        self.assertEqual(program.ready["scores"], {"Adder": 1})
        self.assertEqual(program.play("x", row={"environment": "failing", "answer": 0})[1], [{"done": True, "scores": {"Adder": 1.0}}])
        self.assertIn("expected one of adder, failing", program.start(row={"environment": "other"})[1]["error"])

    def test_rows_of_their_own(self):
        program = self.open("trl:trl_style.py:Adder?rows=3", first=None)
        self.assertEqual(program.ready["rows"], {"train": 3})
        self.assertEqual(program.row("train", 2), {"row": {"prompt": [{"role": "user", "content": ""}], "data_source": "Adder", "index": 2}})

    def test_refusals_have_file_and_line(self):
        line = 1 + (HERE / "trl_style.py").read_text().splitlines().index("    def tool(self, x: int):")
        self.refused("trl:trl_style.py:Undescribed", f"trl_style.py:{line}: the tool tool has no docstring")
        self.refused("trl:trl_style.py:Adder,add", "two tools are named add: trl_style.py:", " and trl_style.py:")
        self.refused("trl:trl_style.py:mixed", "has other tools than adder")
        self.refused("trl:trl_style.py:Adder:ids", "takes completion_ids")
        self.refused("trl:trl_style.py:Nobody", "expected a function 'Nobody'")
        self.refused("trl:gone.py:Adder", "expected a Python file")
        self.refused("trl:trl_style.py:Adder?rows=0", "rows=0")

    def test_fault_of_an_environment_is_an_error_of_its_conversation(self):
        line = 1 + (HERE / "trl_style.py").read_text().splitlines().index('        raise RuntimeError("no server")')
        program = self.open("trl:trl_style.py:Failing", sessions=2)
        for _ in range(2):
            answer = program.start()[1]
            self.assertEqual(answer["error"], f"RuntimeError: no server at trl_style.py:{line}; columns of the row: answer; prompt \"one?\"")
            self.assertTrue(answer["traceback"].startswith("Traceback"))

    def test_large_and_odd_results(self):
        program = self.open("trl:trl_style.py:Silent")
        self.assertIn("an answer may have", program.play(call("large"))[1][0]["error"])
        self.assertEqual(contents(program.play(call("odd"))[1][0]), ["a?b"])

    def test_signals_need_the_main_thread(self):
        self.assertEqual(contents(self.open("tools:tools_style.py:limited").play(call("limited"))[1][0]), ["[(1, 2)]"])
        self.assertIn("set environment.sessions: 1", self.open("tools:tools_style.py:limited", sessions=2).play(call("limited"))[1][0]["error"])

    def test_rewards_see_the_messages_of_trl(self):
        program = self.open("tools:tools_style.py:limited,root:seen", max_turns=2)
        answers = program.play("Look. " + call("limited") + call("root", x=4), call("root", x=1))[1]
        self.assertEqual(answers[1], {"done": True, "scores": {"seen": 3.0}})

    def test_asynchronous_reward_that_does_not_apply(self):
        self.assertEqual(self.open("trl:trl_style.py:Asynchronous").play("x")[1], [{"done": True, "scores": {"Asynchronous": None}}])

    def test_functions_as_tools(self):
        program = self.open("tools:tools_style.py:twice,root:short")
        self.assertEqual([tool["function"]["name"] for tool in program.ready["tools"]], ["twice", "root"])
        answers = program.play(call("root", x=2.25) + call("twice", text="ab"), "short")[1]
        self.assertEqual((contents(answers[0]), answers[1]), (["1.5", "abab"], {"done": True, "scores": {"short": 1.0}}))
        self.refused("tools:tools_style.py::short", "the tool seen", "type hint")  # all public functions that are no rewards
        program = self.open("tools:tools_style.py:twice")
        self.assertNotIn("scores", program.ready)
        self.assertEqual(program.play("x")[1], [{"done": True}])


class Others(Case):
    def test_skyrl_gym(self):
        for argument, bonus in (("skyrl_gym:toy?bonus=0.75", 0.75), ("skyrl_gym:skyrl_style.py:Echo", 0.5)):
            program = self.open(argument, stderr=subprocess.PIPE, max_turns=2)
            first, answers = program.play("x", "y")
            self.assertEqual((first, answers[0]), (" Go.", {"observations": [{"role": "user", "content": "again"}, {"role": "user", "content": "x"}],
                                                            "scores": {"reward": -0.25}}))
            self.assertEqual(answers[1], {"done": True, "scores": {"reward": bonus}})
            self.assertEqual(program.play("abc")[1], [{"done": True, "scores": {"reward": 1.0}}])
            self.assertIn("closed after 2", program.end()[1])
        self.assertIn("postprocessed_action", self.open("skyrl_gym:toy?edits=true").play("x")[1][0]["error"])
        self.assertIn("init changed the prompt", self.open("skyrl_gym:skyrl_style.py:Rewriting").start()[1]["error"])
        self.assertEqual(self.open("skyrl_gym:toy", style="continue").play("x")[1][0]["observation"], "againx")
        self.refused("skyrl_gym:toy?wrong=1", "no option wrong; it has bonus, edits")
        self.refused("skyrl_gym:gone", "known: toy")
        self.refused("skyrl_gym:toy", "pip install skyrl-gym", packages=None)

    def test_openrlhf(self):
        program = self.open("openrlhf:openrlhf_style.py", style="continue")
        self.assertIn("stands in", program.ready["notes"][0])
        first, answers = program.play("x", "y", "abc")
        self.assertEqual((first, answers[0]), (" Begin.", {"observation": "\n\nHuman: no 11\n\nAssistant: ", "scores": {"reward": 0.25}}))
        self.assertEqual(answers[1]["observation"], "\n\nHuman: no 39\n\nAssistant: ")
        self.assertEqual(answers[2], {"done": True, "scores": {"reward": 1.0, "score": 1.0}, "reason": "steps=3.0"})
        self.refused("openrlhf:openrlhf_style.py", "expected environment.style: continue")
        self.refused("openrlhf:openrlhf_loop.py", "openrlhf_loop.py:5: AgentExecutor runs a loop of its own", style="continue")

    def test_verl(self):
        program = self.open("verl_tools:verl_style.yaml,verl_style.py?score=tool_reward", sessions=2)
        self.assertEqual([tool["function"]["name"] for tool in program.ready["tools"]], ["compare", "scored", "weather"])
        row = {"extra_info": {"tools_kwargs": {"compare": {"create_kwargs": {"answer": 7}}}}}
        number, _ = program.start(row=row)
        answer = program.step(number, call("compare", number=6) + call("compare", number=7) + call("weather", city="X") + call("scored", text="a"))
        self.assertEqual(contents(answer), ["wrong", "right", '{"city": "X", "sky": "clear"}', "A"])
        self.assertEqual(contents(program.step(number, call("compare"))), ["Error executing tool 'compare': 'number'"])
        self.assertEqual(program.step(number, "7"), {"done": True, "scores": {"tool_reward": 0.65}})
        self.assertNotIn("scores", self.open("verl_tools:verl_style.py").ready)
        self.refused("verl_tools:gone.yaml", "expected a YAML file, got 'gone.yaml'")

    def test_reasoning_gym(self):
        program = self.open("reasoning_gym:sums?size=30&val=4&largest=8", first=None, sessions=3, seed=5)
        self.assertEqual((program.ready["rows"], program.ready["scores"]), ({"train": 30, "val": 4}, {"score": 1}))
        row = program.row("val", 1)["row"]
        self.assertEqual(row, {"prompt": "4 + 3 = ?", "ground_truth": "7", "data_source": "sums", "index": 31})
        for text, extracted, score in (("7", "7", 1.0), ("<answer>8</answer>or <answer> 7 </answer>.", "7", 1.0), ("I say 7", "I say 7", 0.05),
                                       ("<think>8</think>\n7", "7", 1.0), ("x", "x", 0.0)):
            self.assertEqual(program.play(text, row=row)[1], [{"done": True, "scores": {"score": score}, "extracted": extracted}])
        self.refused("reasoning_gym:gone", "known: sums")
        self.refused("reasoning_gym:sums?largest=1", "largest must be at least 2; known: largest, seed, size")

    def test_openenv_text(self):
        server = openenv_server.Server(has_tools=False, most=2)
        program = self.open(f"openenv:{server.address()}", sessions=3)
        first, answers = program.play("hello", "refuse", "x" * 70000, "stop")
        self.assertEqual((first, answers[0]), ("seed 17", {"observation": "hello", "scores": {"reward": 0.5}}))
        self.assertIn("VALIDATION_ERROR", answers[1]["observation"])
        self.assertEqual((len(answers[2]["observation"]), answers[3]), (70000, {"done": True, "scores": {"reward": 0.4}}))
        numbers = [program.send_start() for _ in range(3)]
        answers = [program.wait(number) for number in numbers]
        full = [answer["error"] for answer in answers if "error" in answer]
        self.assertEqual(len(full), 1)
        self.assertIn("set environment.sessions", full[0])
        self.refused(f"openenv:{server.address()}?action=text", "no field text; it has message")
        server.shutdown()
        server.server_close()
        self.refused(f"openenv:{server.address()}", "/schema cannot be read")

    def test_openenv_tools(self):
        server = openenv_server.Server(has_tools=True, most=1)
        program = self.open(f"openenv:{server.address()}")
        self.assertEqual(program.ready["tools"][0]["function"]["parameters"]["required"], ["a"])
        number, first = program.start()
        answer = program.step(number, call("add", a=2) + call("add"))
        self.assertEqual((first["observation"], contents(answer), answer["scores"]), (None, ["2", "{'error': 'a is missing'}"], {"reward": 4.0}))
        answer = program.step(number, call("add", a=3))
        self.assertEqual((answer["done"], answer["scores"], answer["calls"]), (True, {"reward": 5.0}, [{"name": "add", "arguments": {"a": 3}}]))
        self.assertEqual(program.play("no call")[1], [{"done": True, "scores": {"reward": 0.0}}])

    def test_serve(self):
        program = Program("serve_style.py", "rows")
        self.addCleanup(program.end)
        self.assertEqual((program.ready["scores"], program.ready["rows"]), ({"correct": 1}, {"train": 20, "val": 2}))
        self.assertEqual(program.row("val", 1), {"row": {"prompt": "number 1", "ground_truth": "2"}})
        first, answers = program.play("1", "3", "2", ground_truth="2")
        self.assertEqual((first, answers), (" From 1 to 9.", [{"observation": "higher"}, {"observation": "lower"},
                                                              {"done": True, "scores": {"correct": True}, "extracted": "2"}]))
        self.assertIn("ValueError: invalid literal for int() with base 10: 'x' at serve_style.py:", program.play("x", ground_truth="2")[1][0]["error"])
        self.assertIn("JSON compliant", program.play("nan", ground_truth="2")[1][0]["error"])
        number, _ = program.start(ground_truth=None)
        program.say("end", {"id": number, "why": "length"})
        self.assertEqual(program.wait(number), {"done": True, "scores": {"correct": 0.0}})
        self.assertIn("row 5 of other: KeyError", program.row("other", 5)["error"])

    def test_arguments(self):
        for argument in ("", "trl", "trl:", "gone:x", "trl:a", "trl:a:b:c:d", "reasoning_gym:a:b", "verl_tools:a?b=1"):
            ended = subprocess.run([sys.executable, "-m", "qrl_env", argument], capture_output=True, text=True, check=False,
                                   env={**os.environ, "PYTHONPATH": str(ROOT / "apps/python")})
            self.assertIn("qrl_env: expected one argument that begins with trl:", ended.stderr)
            self.assertEqual(ended.returncode, 1)


class Recipes(Case):
    folder = ROOT / "recipes/environments"

    def test_countdown_feedback(self):
        gold = json.dumps({"numbers": [5, 10, 8], "target": 23})
        for words, first in (([], "=16~23?"), (["silent"], "")):
            program = Program("countdown_feedback.py", *words, style="continue", max_turns=2, folder=self.folder, packages=None)
            self.addCleanup(program.end)
            self.assertNotIn("scores", program.ready)
            self.assertEqual(program.play("10*8=80~23?<answer>(10/5)*8</answer>", "<answer>1</answer>", ground_truth=gold)[1],
                             [{"observation": first}, {"done": True}])
            self.assertEqual(program.play("<answer>10+5+8</answer>", ground_truth=gold)[1], [{"done": True}])
            for text in ("none", "<answer>10*</answer>", "<answer>10/0</answer>"):
                self.assertEqual(program.play(text, ground_truth=gold)[1], [{"observation": "" if words else "=~23?"}])

    def test_calculator_and_its_rows(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, self.folder / "products.py", folder], check=True, stdout=subprocess.DEVNULL)
            files = {file.stem: [json.loads(line) for line in file.read_text().splitlines()] for file in pathlib.Path(folder).iterdir()}
        self.assertEqual({name: len(rows) for name, rows in files.items()}, {"train": 4096, "test": 200, "with_calls": 512, "worked": 512})
        questions = [row["prompt"] for row in files["train"] + files["test"]] + [row["messages"][0]["content"] for row in files["worked"]]
        self.assertEqual(len(set(questions)), len(questions))
        program = self.open("tools:calculator.py:multiply", role="user", folder=self.folder, packages=None)
        for row, worked in zip(files["with_calls"][:50], files["worked"]):
            system, question, called, result, answer = (message["content"] for message in row["messages"])
            self.assertEqual((system, question), (program.ready["system"], worked["messages"][0]["content"]))
            observed, ended = program.play(called, answer)[1]
            self.assertEqual((observed["observation"], ended), (result, {"done": True}))
            self.assertTrue(answer.endswith(f"= {result}") and worked["messages"][1]["content"].endswith(f"= {result}"))


if __name__ == "__main__":
    unittest.main()
