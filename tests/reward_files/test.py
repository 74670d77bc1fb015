#!/usr/bin/env python3
"""qrl_reward.py with reward files in each trainer's style, which print: the answers are what the functions give when called."""
import http.server
import json
import pathlib
import subprocess
import sys
import threading
import unittest

HERE = pathlib.Path(__file__).resolve().parent
HELPER = HERE.parents[1] / "apps/python/qrl_reward.py"
FIRST = {"prompt": "one?", "ground_truth": "abc", "data_source": "toy",
         "row": {"prompt": "one?", "answer": "abc", "extra_info": {"gold": "abc"}}}


class Program:
    """A program that judges, spoken to as qrl-train does."""

    def __init__(self, *arguments, first=FIRST, stderr=subprocess.DEVNULL):
        self.process = subprocess.Popen([sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=stderr, cwd=HERE, text=True)
        self.first = first
        self.next_id = 0
        self.step = 1
        self.say({"hello": {"protocol": 1, "task": "reward", "seed": 0, "run": "r", "first": first}})
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {}
        self.ready, self.refusal = answer.get("ready"), answer.get("error")

    def say(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def judge(self, *responses, tokens=None):
        samples = [{"response": text, "stop": "length" if text == "cut" else "eos", "response_tokens": 3,
                    "tokens": tokens[i] if tokens else [5, 6, 7], "index": i} for i, text in enumerate(responses)]
        answers = []
        for group in [samples] if self.ready.get("rows") == "group" else [[sample] for sample in samples]:
            self.next_id += 1
            row = {"id": self.next_id, **self.first, "step": self.step, "eval": self.step == 0}
            if "prompt_tokens" in self.ready.get("fields", []):
                row["prompt_tokens"] = [1, 2]
            if "fields" not in self.ready:
                del row["row"]
            is_group = self.ready.get("rows") == "group"
            self.say({**row, **({"samples": group} if is_group else group[0])})
            answer = json.loads(self.process.stdout.readline())
            assert answer["id"] == self.next_id, answer
            answers += answer["answers"] if is_group and "error" not in answer else [answer]
        self.answers = answers
        return [answer.get("scores", answer.get("error")) for answer in answers]

    def end(self):
        self.process.stdin.close()
        errors = self.process.stderr.read() if self.process.stderr else ""
        for stream in (self.process.stdout, self.process.stderr):
            if stream:
                stream.close()
        return self.process.wait(10), errors


def adapter(spec, **options):
    return Program(HELPER, spec, **options)


class Adapters(unittest.TestCase):
    def test_verl(self):
        program = adapter("verl:verl_style.py:compute_score", stderr=subprocess.PIPE)
        self.assertEqual(program.ready["scores"], {"score": 1, "acc": 0, "length": 0})
        self.assertEqual(list(program.ready["scores"])[0], "score")
        scores = program.judge("abc", "x", "", "later", "raise")
        self.assertEqual(scores[:4], [{"score": 1.0, "acc": 1.0, "length": 3.0}, {"score": 0.0, "acc": 0.0, "length": 1.0},
                                      {"score": 0.0, "acc": 0.0, "length": None}, {"score": 0.5, "acc": 1.0, "length": None}])
        self.assertIn("KeyError", scores[4])
        program.judge("later")
        code, errors = program.end()
        self.assertEqual(code, 0)
        self.assertEqual(errors.count("'surprise' was not declared at the start"), 1)
        self.assertIn("judging toy {'gold': 'abc'}", errors)

    def test_verl_number(self):
        program = adapter("verl:verl_style.py:plain")
        self.assertEqual(program.ready["scores"], {"score": 1})
        self.assertEqual(program.judge("abc", "x"), [{"score": 1.0}, {"score": 0.0}])
        program.end()

    def test_trl(self):
        program = adapter("trl:trl_style.py:length_reward,answer_reward,think_reward,best_of_group")
        self.assertEqual(program.ready["scores"], {"length_reward": 1, "answer_reward": 1, "think_reward": 1, "best_of_group": 1})
        self.assertEqual(program.judge("abc", "<think>x</think>"),
                         [{"length_reward": 0.3, "answer_reward": 1.0, "think_reward": None, "best_of_group": 0.0},
                          {"length_reward": 1.6, "answer_reward": 0.0, "think_reward": 1.0, "best_of_group": 1.0}])
        program.end()
        messages = {**FIRST, "row": {"prompt": [{"role": "user", "content": "one?"}]}}
        program = adapter("trl:trl_style.py:think_reward", first=messages)
        self.assertEqual(program.judge("<think></think>abc"), [{"think_reward": 1.0}])
        program.end()

    def test_openrlhf(self):
        program = adapter("openrlhf:openrlhf_style.py")
        self.assertEqual(program.ready["scores"], {"reward": 1, "length": 0, "score": 0})
        self.assertEqual(program.judge("abc", "xy"), [{"reward": 1.0, "length": 3.0, "score": 1.0}, {"reward": 0.0, "length": 2.0, "score": 0.0}])
        program.end()

    def test_slime(self):
        program = adapter("slime:slime_style.py:custom_rm")
        self.assertEqual(program.ready["scores"], {"score": 1, "cut": 0})
        self.assertEqual(program.ready["fields"], ["index", "prompt_tokens", "row", "tokens"])
        self.assertEqual(program.judge("abc", "cut"), [{"score": 1.0, "cut": 0.0}, {"score": 0.0, "cut": 1.0}])
        program.end()
        program = adapter("slime:slime_style.py:places")
        self.assertEqual(program.judge("abc", "abcd"), [{"score": 5.0, "place": 0.0}, {"score": 5.0, "place": 1.0}])
        program.end()

    def test_not_applicable(self):
        program = adapter("trl:trl_style.py:length_reward,sometimes")
        self.assertEqual(program.judge("a", "ab"), [{"length_reward": 0.1, "sometimes": None}, {"length_reward": 0.2, "sometimes": 1.0}])
        self.assertIn("sometimes returned [inf] (list); expected a list of finite numbers", program.judge("beyond")[0])
        self.assertEqual(program.judge("ab"), [{"length_reward": 0.2, "sometimes": 1.0}])  # the worker lives
        program.end()
        program = adapter("verl:verl_style.py:undefined")
        self.assertEqual(program.judge("abc", "x"), [{"score": None}, {"score": 1.0}])
        program.end()

    def test_trainer_state(self):
        program = adapter("trl:trl_style.py:from_step")
        self.assertEqual(program.judge("abc"), [{"from_step": 0.0}])  # the first step: none is done
        program.step = 8
        self.assertEqual(program.judge("abc"), [{"from_step": 7.0}])
        program.step = 0  # an evaluation
        self.assertEqual(program.judge("abc"), [{"from_step": 0.0}])
        program.end()

    def test_pools(self):
        for method in ("fork", "spawn", "forkserver"):
            with self.subTest(method):
                program = adapter(f"verl:pool_style.py:{method}")
                self.assertEqual(program.judge("abc", "x"), [{"score": 1.0}, {"score": 0.0}])
                self.assertEqual(program.end()[0], 0)

    def test_http(self):
        seen = []

        class Server(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                seen.append(body)
                answer = json.dumps({"rewards": [float(body["response"] == body["label"])]}).encode()
                self.send_response(200)
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for form in ("http://127.0.0.1:{}/judge", "http:http://127.0.0.1:{}/judge"):
            program = adapter(form.format(server.server_port))
            self.assertEqual(program.judge("abc", "x"), [{"score": 1.0}, {"score": 0.0}])
            self.assertEqual(seen.pop(0)["query"], ["one?abc"])
            seen.clear()
            program.end()
        program = adapter(f"https://127.0.0.1:{server.server_port}/judge")  # a server without TLS: asked, and the error is its own
        self.assertIn("SSL", program.judge("abc")[0])
        program.end()
        server.shutdown()
        server.server_close()
        program = adapter(f"http://127.0.0.1:{server.server_port}/judge")
        self.assertIn(f"http://127.0.0.1:{server.server_port}/judge gives no answer: <urlopen error", program.judge("abc")[0])
        self.assertNotIn("traceback", program.answers[0])
        program.end()

    def test_serve(self):
        code = ("import sys; sys.path.insert(0, %r)\nfrom qrl_reward import serve\n"
                "serve(lambda row: {'correct': row['response'] == row['ground_truth']}, scores={'correct': 2})" % str(HELPER.parent))
        program = Program("-c", code)
        self.assertEqual(program.ready["scores"], {"correct": 2})
        self.assertEqual(program.judge("abc", "x"), [{"correct": True}, {"correct": False}])
        self.assertEqual(program.end()[0], 0)
        nan = code.replace("row['response'] == row['ground_truth']", "float(row['response'])")
        whole = nan.replace("return", "").replace("{'correct': float(row['response'])}", "{'scores': {'correct': float(row['response'])}}")
        for program in (Program("-c", nan), Program("-c", whole)):
            self.assertEqual(program.judge("nan", "1"), [{"correct": None}, {"correct": 1.0}])
            self.assertIn("got -inf", program.judge("-inf")[0])
            program.end()

    def test_faults(self):
        for spec, words in (("verl", "expected one argument"), ("ray:x.py", "expected one argument"), ("slime:x.py", "expected one argument"),
                            ("http:localhost:5000/judge", "http://, https://, got 'http:localhost:5000/judge'")):
            with self.subTest(spec):
                program = adapter(spec, stderr=subprocess.PIPE)
                self.assertIsNone(program.ready)
                code, errors = program.end()
                self.assertNotEqual(code, 0)
                self.assertIn(words, errors)

    def refusal_of(self, spec, **options):
        program = adapter(spec, stderr=subprocess.PIPE, **options)
        self.assertIsNone(program.ready)
        code, errors = program.end()
        self.assertEqual((code, errors), (0, ""))
        return program.refusal

    def test_refused_file(self):
        for spec, words in (("verl:missing.py", "'missing.py', which is not in"), ("verl:verl_style.py:other", "compute_score, plain"),
                            ("verl:broken_style.py", "broken_style.py cannot be imported: ModuleNotFoundError: No module named 'of_nobody' at broken_style.py:2\nTraceback"),
                            ("verl:exits_import.py", "exits_import.py cannot be imported: it exits, SystemExit: expected --model at exits_import.py:4; move what runs"),
                            ("verl:name.with.dots.py", "(it has relative imports), got '"),
                            ("verl:notes.txt", "expected a Python file, got 'notes.txt'; name it notes.py"),
                            ("trl:pack:f", "expected a Python file, got 'pack', which is a folder in"),
                            ("trl:pack/lost.py:f", "cannot be imported: ModuleNotFoundError: No module named 'pack.nowhere' at lost.py:2")):
            with self.subTest(spec):
                self.assertIn(words, self.refusal_of(spec))
        self.assertNotIn("importlib", self.refusal_of("verl:broken_style.py"))  # the first frame is the user's

    def test_exits_and_ranges(self):
        """A function that exits is an error of its response; the worker lives. A score beyond 32 bits is one as well."""
        program = adapter("verl:exits_style.py:on_wrong")
        self.assertEqual(program.judge("abc", "x")[:2], [{"score": 1.0}, {"score": 0.0}])
        self.assertEqual(program.judge("out")[0].partition(";")[0], "RuntimeError: it exits: sys.exit('bye') at exits_style.py:21")
        self.assertEqual(program.judge("abc"), [{"score": 1.0}])
        self.assertEqual(program.end()[0], 0)
        program = adapter("trl:exits_style.py:huge")
        for text in ("int", "float"):
            self.assertIn("exits_style.py:25: huge returned [1", program.judge(text)[0])
        self.assertEqual(program.judge("abc"), [{"huge": 1.0}])
        program.end()

    def test_messages_are_read(self):
        messages = {**FIRST, "prompt": "", "row": {"prompt": [{"role": "user", "content": "one?"}]}}
        program = adapter("trl:exits_style.py:with_messages", first=messages)
        self.assertEqual(program.ready["reads"]["with_messages: prompts"], "messages")
        program.end()

    def test_told(self):
        """An error has the function's line and its row. A function that fails on an empty answer alone is started, with a note."""
        program = adapter("trl:raising_style.py:exact", stderr=subprocess.PIPE)
        self.assertEqual(program.ready["scores"], {"exact": 1})
        self.assertEqual(program.judge("abc", "x")[:2], [{"exact": 1.0}, {"exact": 0.0}])
        errors = [program.judge("")[0], program.ready["notes"][0]]
        self.assertTrue(program.answers[0]["traceback"].startswith("Traceback (most recent call last):\n  File"))
        self.assertIn("raising_style.py", program.answers[0]["traceback"].splitlines()[1])  # the first frame is the user's
        self.assertEqual(program.end(), (0, ""))
        for text in errors:
            self.assertIn("IndexError: list index out of range at raising_style.py:5; columns of the row: answer, extra_info, prompt", text)
            self.assertIn('response ""', text)

    def test_refused_start(self):
        """A function that cannot judge the first row at all: the cause comes first, with the row's columns."""
        for spec, words in (("trl:raising_style.py:needs", "TypeError: needs takes solution; its row has answer, data_source, extra_info, ground_truth"),
                            ("verl:raising_style.py:of_extra", "KeyError: 'gold_answer' at raising_style.py:13"),
                            ("trl:returning_style.py:a_float", "returning_style.py:4: a_float returned 0.5 (float); expected a list of finite numbers or None, as long as completions (1)"),
                            ("trl:returning_style.py:three", "returning_style.py:8: three returned [1.0, 1.0, 1.0] (list); expected a list of finite "),
                            ("trl:returning_style.py:a_dict", "returning_style.py:12: a_dict returned {'score': 1.0} (dict); expected a list of finite"),
                            ("verl:exits_style.py:of_two", "exits_style.py:15: of_two is called with data_source, solution_str, ground_truth, extra_info: of_two() got an unexpected"),
                            ("trl:exits_style.py:shy", "exits_style.py:29: shy returned <Shy, whose text raises RuntimeError> (Shy); expected a list"),
                            ("trl:exits_style.py:mute", "Mute: <Mute, whose text raises RuntimeError> at exits_style.py:34"),
                            ("slime:exits_style.py:late", "ValueError at exits_style.py:38; columns"),
                            ("verl:returning_style.py:a_text", "returning_style.py:16: a_text returned 'good' (str); expected a number, or a dict"),
                            ("verl:returning_style.py:no_score", "returning_style.py:20: no_score returned {'points': 1} (dict); expected a number, or a dict"),
                            ("slime:returning_style.py:nothing", "returning_style.py:24: nothing returned [] (list); expected a number, or a dict"),
                            ("nemo:returning_style.py:a_list", "returning_style.py:28: a_list returned [1, True] (list); expected a finite number, or a tuple")):
            with self.subTest(spec):
                refusal = self.refusal_of(spec)
                self.assertEqual(refusal[:len(words)], words)
                self.assertIn('columns of the row: answer, extra_info, prompt; prompt "one?"', refusal)
                self.assertLessEqual(refusal.count(words), 1 + ("Traceback" in refusal))

    def test_completion_ids(self):
        """A function that takes **kwargs gets the ids that one with the parameter gets."""
        for name in ("in_kwargs", "as_parameter"):
            program = adapter(f"trl:tokens_style.py:{name}")
            self.assertEqual(program.ready["fields"], ["row", "tokens"])
            self.assertEqual(program.judge("abc", "x", tokens=[[1, 2], [3]]), [{name: 2.0}, {name: 1.0}])
            program.end()
        program = adapter("trl:tokens_style.py:without")
        self.assertEqual(program.ready["fields"], ["row"])
        program.end()

    def test_package(self):
        """Files with relative imports, with and without __init__.py, run as members of their package."""
        for spec in ("trl:pack/rewards.py:exact", "trl:pack/deep/inner.py:exact", "trl:loose/rewards.py:exact", "trl:pack/absolute.py:exact"):
            with self.subTest(spec):
                program = adapter(spec)
                self.assertEqual(program.judge("abc", "x"), [{"exact": 1.0}, {"exact": 0.0}])
                program.end()

    def test_trainers_types(self):
        """slime's status equals its text and the member of an enum, and its class passes isinstance."""
        program = adapter("slime:types_style.py:by_enum")
        self.assertEqual(program.judge("abc", "cut"), [{"score": 0.0}, {"score": 1.0}])
        program.end()
        program = adapter("slime:types_style.py:by_name", stderr=subprocess.PIPE)
        self.assertEqual(program.judge("abc", "cut"), [{"score": 0.0}, {"score": 1.0}])
        self.assertIn("args.threshold is None: qrl-train has no arguments of slime", program.end()[1])
        program = adapter("slime:types_style.py:unknown")
        self.assertIn("Sample has no rollout_log_probs in qrl-train; it has index, label", program.refusal)
        program.end()

    def test_nemo(self):
        program = adapter("nemo:nemo_style.py:exact,short")
        self.assertEqual(program.ready["scores"], {"exact": 1, "short": 1})
        self.assertEqual(program.judge("abc", "x"), [{"exact": 1.0, "short": 0.0}, {"exact": 0.0, "short": 1.0}])
        self.assertEqual([answer["outcome"] for answer in program.answers], ["correct", "wrong"])
        program.end()
        program = adapter("nemo:nemo_style.py:short")
        self.assertEqual(program.judge("abc"), [{"short": 0.0}])
        self.assertNotIn("outcome", program.answers[0])
        program.end()

    def test_reads(self):
        """The ready line has what a file reads and gets; null means that the first row has no value for it."""
        for spec, reads in (("trl:reads_style.py:columns", {"columns: completions": "texts", "columns: answer": '"abc"', "columns: level": None,
                                                            "columns: completion_ids": "the ids of each response's tokens",
                                                            "columns: bonus": "its default 2: the row has no such field"}),
                            ("verl:reads_style.py:compute_score", {"solution_str": "the response", "ground_truth": '"abc"', "extra_info": '"{\\"gold\\": \\"abc\\"}"',
                                                                   "extra_info.gold": '"abc"', "extra_info.level": None}),
                            ("slime:reads_style.py:custom", {"args.rm_type": None, "sample.response": "the response", "sample.label": '"abc"'})):
            with self.subTest(spec):
                program = adapter(spec)
                self.assertEqual(program.ready["reads"], reads)
                program.end()


if __name__ == "__main__":
    unittest.main()
