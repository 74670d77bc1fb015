"""What qrl_train promises, on the tiny recipe of argv, in the working directory. Ends with an error where it does not hold."""
import contextlib
import functools
import io
import itertools
import pathlib
import re
import signal
import sys
import time

import qrl_train

TINY = sys.argv[1]
ENDLESS = 100_000


def settings(folder, steps, **more):
    return {"trainer.default_local_dir": folder, "trainer.total_training_steps": steps, **more}


def without_times(rows):
    return [{name: value for name, value in row.items() if not name.startswith(("timing_s/", "perf/"))} for row in rows]


def error_of(make):
    try:
        make()
    except qrl_train.RunError as error:
        return error
    raise SystemExit("expected a RunError, got none")


# Rows come while it trains, each once. Stopped and killed, it resumes where they were.
assert re.fullmatch(r"\d+\.\d+\.\d+", qrl_train.__version__), qrl_train.__version__
run = qrl_train.start(pathlib.Path(TINY), settings("stopped", ENDLESS))
seen = list(itertools.islice(run, 2))
assert run.code is None, "the first rows came when the run had ended"
try:
    run.resume()
    raise SystemExit("a run that runs was resumed")
except RuntimeError as error:
    assert "call stop() first" in str(error), error
assert run.stop() == 75 == run.stop() and "exit code 75" in repr(run)
seen += list(run)
assert list(run) == [], "a second loop gets the rows again"
run.resume()
seen.append(next(iter(run)))
run._process.send_signal(signal.SIGKILL)
killed = error_of(run.wait)
assert killed.code == -9 and "killed by SIGKILL" in str(killed), killed
seen += itertools.islice(run.resume(), 2)
assert run.stop() == 75
seen += list(run)
assert [row["step"] for row in seen] == list(range(len(seen))), [row["step"] for row in seen]
last = seen[-1]["step"] + 1  # one more, since a run evaluates after its last step

# They are those of a run that was never stopped.
whole = qrl_train.start(TINY, settings("whole", last), ranks=1)
assert whole.wait() == 0 == whole.code
rows = list(itertools.islice(whole, 1)) + list(whole)  # a loop that breaks off loses no row
assert without_times(seen) == without_times(rows[:-1]), "rows differ from those of a run that was never stopped"
assert rows == qrl_train.metrics("whole") == qrl_train.metrics(whole.folder)
assert list(qrl_train.start(TINY, settings("whole", last))) == rows, "a run that is done has other rows when it is started again"
samples = [sample["step"] for sample in qrl_train.rollouts("whole")]
assert samples == [step for step in range(1, last + 1) for _ in range(16)], samples
assert [row["step"] for row in whole.resume({"trainer.total_training_steps": last + 1})] == [last + 1]

# A run may be stopped in its first moments, and an interrupted stop waits on. Nothing exists yet, and nothing is lost.
early = qrl_train.start(TINY, settings("early", ENDLESS))
assert list(early.rollouts()) == []
assert early.stop() == 75, early.console
assert qrl_train.metrics(early.folder) == []
busy = qrl_train.start(TINY, settings("busy", ENDLESS))
for _ in itertools.islice(busy, 2):
    assert busy.console  # a look at the console moves no line of it
signal.signal(signal.SIGALRM, signal.default_int_handler)
signal.setitimer(signal.ITIMER_REAL, 0.001)
try:
    busy.stop()
except KeyboardInterrupt:
    pass
assert busy.stop() == 75, busy.console
commits = re.findall("committed .*", (busy.folder / "log.txt").read_text())
assert len(commits) > 3 and commits == re.findall("committed .*", busy.console), busy.console
assert error_of(lambda: busy.resume({"optim.lrr": 1})).code == 2
done = qrl_train.metrics(busy.folder)[-1]["step"]  # more than the loop saw: the run went on until it was told to stop
assert [row["step"] for row in busy.resume({"trainer.total_training_steps": done + 1})][-1] == done + 1
assert " qrl-train export" in busy.console, busy.console

# Values of each kind, errors.
with qrl_train.start(TINY, settings("with", ENDLESS, **{"optim.lr": 1e-5, "optim.betas": [0.9, 0.95], "trainer.tensorboard": False,
                                                         "data.prompt_template": "null: {prompt}"})) as short:
    next(iter(short))
assert short.code == 75 and "cold start" in short.console, short.console
config = (short.folder / "config.yaml").read_text()
assert "1e-05" in config or "1.0e-5" in config or "1e-5" in config, config
assert 'prompt_template: "null: {prompt}"' in config, config
wrong = error_of(lambda: qrl_train.start(TINY, {"optim.lrr": 1}))
assert wrong.code == 2 and "optim.lr" in str(wrong), wrong
several = error_of(lambda: qrl_train.start(TINY, {"optim.lrr": 1, "rollout.nn": 2}))
assert str(several).startswith("2 unknown keys") and "optim.lrr" in str(several) and "rollout.nn" in str(several), several
late = error_of(lambda: list(qrl_train.start(TINY, {"model.init.config": "absent.json"})))
assert late.code == 2 and "absent.json" in str(late) and "\n" not in str(late), late

# A recipe may be a dict, and a reward functions of the caller; both are files of the run folder, by which the run resumes.
TOY = {"include": TINY, "data": {"train_generator": {"size": 64}}, "trainer.total_training_steps": 2, "sft.steps": 0}


def words(completions, **kwargs):
    import re
    return [float(len(re.findall("[a-z]+", text))) for text in completions]


def longer(completions, prompts, **kwargs):
    return [len(text) / 100 for text in completions]


def is_right(data_source, solution_str, ground_truth, extra_info=None) -> "float":
    return float(len(solution_str) % 2)


toy = qrl_train.start({**TOY, "trainer.default_local_dir": "toy", "reward.weights": {"words": 1, "longer": 0.5}}, reward=[words, longer], show=True)
assert toy.progress() == "starting" or toy.progress().startswith(("step", "eval", "<qrl_train.Run")), toy.progress()
toy_rows = list(toy)
assert [row["step"] for row in toy_rows] == [0, 1, 2] and "reward/longer/mean" in toy_rows[1], toy.console
assert toy.progress() == repr(toy) and "exit code 0" in toy.progress()
made = sorted(file.name for file in toy.folder.glob("re*") if file.is_file())
assert len(made) == 2 and re.fullmatch(r"reward_words_[0-9a-f]{12}\.py", made[1]) or made[0].startswith("recipe"), made
recipe = (toy.folder / "recipe.yaml").read_text()
assert "size: 64" in recipe and "# " not in recipe and f"trl:{toy.folder}/reward_words_" in recipe and ".py:words,longer" in recipe, recipe
assert [row["step"] for row in toy.resume({"trainer.total_training_steps": 3})] == [3]
# Another text is another file, and so a changed key.
other = error_of(lambda: list(qrl_train.start({**TOY, "trainer.default_local_dir": "toy", "trainer.total_training_steps": 4}, reward=[longer, words])))
assert other.code == 2 and "reward.command" in str(other), other
judged = qrl_train.start(TINY, settings("judged", 1, **{"sft.steps": 0}), reward=is_right)
assert judged.wait() == 0 and "verl:" in (judged.folder / "config.yaml").read_text(), judged.console



def is_equal(ground_truth, response):
    return float(response == ground_truth)


equal = qrl_train.start(TINY, settings("equal", 1, **{"sft.steps": 0}), reward=is_equal)
assert equal.wait() == 0 and "nemo:" in (equal.folder / "config.yaml").read_text(), equal.console
printed = io.StringIO()
with contextlib.redirect_stdout(printed):
    list(qrl_train.start(TINY, settings("shown", 1), show=True))
assert "cold start" in printed.getvalue() and "committed" in printed.getvalue() and "step 1/" not in printed.getvalue(), printed.getvalue()


def refused(reward, *parts, recipe=TINY):
    try:
        qrl_train.start(recipe, settings("refused", 1), reward=reward)
    except (ValueError, TypeError) as error:
        assert all(part in str(error) for part in parts) and "\n" not in str(error), error
        return
    raise SystemExit(f"expected an error about {parts}")


LIMIT, limit = 3, 4


def closure():
    inner = 5
    return lambda completions: inner


def by_global(completions, **kwargs):
    return [float(len(text) > LIMIT + limit) for text in completions]


def by_default(completions, most=LIMIT):
    return [float(most)] * len(completions)


def by_module(completions):
    return [float(bool(re.match("a", text))) for text in completions]


@functools.lru_cache
def decorated(completions):
    return [0.0]


def of_nobody(texts):
    return [0.0]


class Judge:
    def method(self, completions):
        return [0.0]


refused(by_global, "by_global, which uses LIMIT, limit from outside")
refused(by_default, "by_default, which uses LIMIT from outside")
refused([words, by_module], "by_module, which uses re from outside", "inside the function")
refused(closure(), "a lambda")
refused(Judge().method, "got method Judge.method")
refused(decorated, "got _lru_cache_wrapper")
refused(of_nobody, "of_nobody(texts)", "completions")
refused([], "an empty list")
refused([words, words], "different names")
refused(words, "leave one of them out", recipe={**TOY, "reward.command": ["x"]})
for wrong_recipe, part in (({"optim": 1, "optim.lr": 2}, "optim to be a section"), ({1: 2}, "names that are texts"),
                           ({"optim.lr": words}, "got function"), ({"optim.lr": 1, "optim": {"lr": 2}}, "once, got it twice")):
    try:
        qrl_train.start(wrong_recipe)
        raise SystemExit(f"{wrong_recipe} was taken")
    except (ValueError, TypeError) as error:
        assert part in str(error), error
typo = error_of(lambda: qrl_train.start({**TOY, "optim": {"lrr": 1}}))
assert typo.code == 2 and "optim.lrr" in str(typo) and "did you mean optim.lr" in str(typo), typo
# A reward that raises says so in the error, with its file.


def broken(completions, **kwargs):
    return [1 / len(kwargs["absent"])] * len(completions)


fault = error_of(lambda: list(qrl_train.start({**TOY, "trainer.default_local_dir": "broken"}, reward=broken)))
assert fault.code == 2 and "absent" in str(fault) and "reward_broken_" in str(fault), fault
# A name that begins with a dash is a recipe's, no option.
for dashed in ("--help", "-dash.yaml"):
    assert error_of(lambda: qrl_train.start(dashed)).code == 2
pathlib.Path("-dash.yaml").write_text(pathlib.Path(TINY).read_text())
assert error_of(lambda: qrl_train.start("-dash.yaml", {"optim.lrr": 1})).code == 2
# A clock that steps back while a run starts hides no row.
real_time = time.time
time.time = lambda: real_time() + 3600
assert [row["step"] for row in qrl_train.start(TINY, settings("clock", 2))] == [0, 1, 2]
time.time = real_time
# Rows that are no objects are errors of the file.
malformed = pathlib.Path("malformed")
malformed.mkdir()
for line in ("5", "null", "[]", '"x"', "x", "[" * 100_000):
    (malformed / "metrics.jsonl").write_text(line + "\n")
    wrong_row = error_of(lambda: qrl_train.metrics(malformed))
    assert "metrics.jsonl: expected a JSON object per line" in str(wrong_row), wrong_row
# A file is no run folder, and a value that no recipe can have is named with its key.
for place, wanted in (("nowhere", FileNotFoundError), ("-dash.yaml", NotADirectoryError)):
    try:
        qrl_train.metrics(place)
        raise SystemExit(f"{place} has rows")
    except wanted:
        pass
for values, said in (({"optim": {"lr": float("nan")}}, "optim.lr: expected a finite number, got nan"),
                     ({"optim.betas": [object()]}, "optim.betas: a recipe's value: expected a text")):
    try:
        qrl_train.start({"include": TINY, **values})
        raise SystemExit(f"{values} began a run")
    except (TypeError, ValueError) as error:
        assert str(error).startswith(said), error
# Where exit codes are lost, no run is started.
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
try:
    qrl_train.start(TINY)
    raise SystemExit("a run was started whose exit code is lost")
except RuntimeError as error:
    assert "SIGCHLD" in str(error), error
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
# The caller looks at this one's session: what runs when Python ends is stopped.
left = qrl_train.start(TINY, settings("left", ENDLESS))
next(iter(left))
