"""What qrl_train promises, on the tiny recipe of argv, in the working directory. Ends with an error where it does not hold."""
import itertools
import pathlib
import re
import signal
import sys

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


# Rows come while it trains, each once. Stopped and killed, it goes on where they were.
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

# A run may be stopped in its first moments, and an interrupted stop waits on. Nothing is there yet, and nothing is lost.
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
assert [row["step"] for row in busy.resume({"trainer.total_training_steps": 4})][-1] == 4
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
late = error_of(lambda: list(qrl_train.start(TINY, {"model.init.config": "absent.json"})))
assert late.code == 2 and "absent.json" in str(late) and "\n" not in str(late), late
# The caller looks at this one's session: what runs when Python ends is stopped.
left = qrl_train.start(TINY, settings("left", ENDLESS))
next(iter(left))
