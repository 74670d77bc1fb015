"""Owns the Python door: starts runs of the program, hands out their rows as they come, stops and resumes them."""
from __future__ import annotations

import atexit
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import IO, Any, Optional, Union

from qrl_train import functions, launch, recipes

Path = Union[str, "os.PathLike[str]"]
Row = dict[str, Any]
Recipe = Union[Path, Mapping[str, Any]]
Reward = Union[functions.Function, Sequence[functions.Function]]

DONE = 0
STOPPED = 75  # by a signal, after a checkpoint
_POLL_S = 0.1
_EVENT = re.compile(r"cold start |evaluation |eval |committed |resum|stopp|warning: ")  # how such lines of the console begin
_started: set[Run] = set()


class RunError(RuntimeError):
    """Has the program's error as its text, and its exit code; negative: the signal that killed it."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def _error_of(console: str, code: int) -> str:
    """Returns the program's error out of what it printed: all its lines, without its first word. Several ranks have several errors: the first is returned."""
    found = re.search(r"(?ms)^error(?: \(rank \d+\))?: (.*?)(?=^error \(rank \d+\): |\Z)", console)
    if found:
        return found.group(1).rstrip()
    if code < 0:
        return f"killed by {signal.Signals(-code).name}; resume() continues from the last checkpoint"
    lines = [line for line in console.splitlines() if line.strip()]
    return lines[-1] if lines else f"exit code {code}"


def _place(folder: Path, name: str) -> pathlib.Path:
    """Returns a file or folder of a run folder. Raises FileNotFoundError or NotADirectoryError without the run folder; the file may be absent."""
    os.scandir(folder).close()
    return pathlib.Path(folder) / name


def _rows(file: pathlib.Path) -> Iterator[Row]:
    if not file.exists():
        return
    with open(file, encoding="utf-8") as lines:
        for line in lines:
            if line.endswith("\n"):  # the last one may be half written
                yield _row(line, file)


def _row(line: str | bytes, file: pathlib.Path) -> Row:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise RunError(2, f"{file}: expected a JSON object per line, got {line[:60]!r}")
    return row


def _write(file: pathlib.Path, text: str) -> None:
    """Writes a file of the run folder, whole or not at all. A file with this text stays as it is."""
    file.parent.mkdir(parents=True, exist_ok=True)
    if file.exists() and file.read_text(encoding="utf-8") == text:
        return
    unfinished = file.with_name(file.name + ".unfinished")
    unfinished.write_text(text, encoding="utf-8")
    os.replace(unfinished, file)


def _is_notebook() -> bool:
    """Returns whether IPython runs this: there a loop without a line looks as if it hangs."""
    return "IPython" in sys.modules and getattr(sys.modules["IPython"], "get_ipython", lambda: None)() is not None


def _has_values(row: Row) -> bool:
    """Returns whether a row has a step's metrics. A resume with other settings writes a row of their names."""
    return "changed_on_resume" not in row


def _handles_sigterm(pid: int) -> bool:
    """Returns whether a process of ours would stop with a checkpoint; in its first moments SIGTERM would kill it."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    masks = re.findall(r"(?m)^Sig(?:Blk|Cgt):\s*([0-9a-f]+)$", status)  # with --ranks the first process waits for it
    return any(int(mask, 16) >> (signal.SIGTERM - 1) & 1 for mask in masks)


class Run:
    """Owns one run: its folder, and its process while there is one. It ends with a checkpoint when Python ends."""

    def __init__(self, recipe: Recipe, overrides: Optional[Mapping[str, object]] = None, *, reward: Optional[Reward] = None, ranks: int = 1,
                 options: Sequence[str] = (), cwd: Optional[Path] = None, show: Optional[bool] = None) -> None:
        """Starts the run, or resumes that of the same folder. Raises RunError if the recipe is refused.

        `recipe`: a file, recipes:NAME, or a dict of sections or dotted keys, which becomes RUN/recipe.yaml. `overrides`: values by their
        keys, as --set has them. `reward`: a function in the form of TRL, veRL or NeMo, or a list; its source becomes a file of the run
        folder. `options`: other words of the command line. `cwd`: the folder that relative paths and the run folder are seen from.
        `show`: print a line for each event while a loop waits for rows; default: in a notebook."""
        self.recipe: Recipe = dict(recipe) if isinstance(recipe, Mapping) else os.fspath(recipe)
        self.overrides: dict[str, object] = dict(overrides or {})
        self.ranks = ranks
        self.options = list(options)
        self.cwd = pathlib.Path(cwd if cwd is not None else os.getcwd()).resolve()
        self._reward = functions.settings_of(reward) if reward is not None else None
        self._shows = _is_notebook() if show is None else show
        self._last_step = -1  # of the rows handed out
        self._start()

    def _start(self) -> None:
        if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
            raise RuntimeError("SIGCHLD: expected its default, got a process that ignores it, so that exit codes are lost; "
                               "call signal.signal(signal.SIGCHLD, signal.SIG_DFL)")
        self.folder, words = self._prepare()
        self._position = 0
        self._shown = 0  # bytes of the console
        self._sessions_before = self._sessions()  # by their times, which no clock that steps back makes equal
        self._is_stopping = False
        self._console: IO[bytes] = tempfile.TemporaryFile()
        # In a session of its own: an interrupt of a notebook's cell ends the cell, not the run.
        self._process = subprocess.Popen([*words, f"--ranks={self.ranks}"], executable=launch.PROGRAM, stdin=subprocess.DEVNULL,
                                         stdout=self._console, stderr=subprocess.STDOUT, cwd=self.cwd, env=launch.environment(),
                                         start_new_session=True)
        _started.add(self)

    def _prepare(self) -> tuple[pathlib.Path, list[str]]:
        """Returns the run folder, with the files of a dict and of reward functions in it, and the command line."""
        if self._reward and (taken := [key for key in functions.KEYS if key in self.overrides]):
            raise ValueError(f"reward: expected no {taken[0]} beside it, got {self.overrides[taken[0]]!r}; leave one of them out")
        values = dict(self.overrides)
        with tempfile.TemporaryDirectory() as scratch:
            file: Path = os.fspath(self.recipe) if not isinstance(self.recipe, Mapping) else self._write_base(pathlib.Path(scratch) / "recipe.yaml")
            if isinstance(self.recipe, Mapping):
                values = {**self._sections(), **values}
            if self._reward is None:
                folder, printed = self._resolve(file, values)
            else:
                settings, name, text = self._reward
                folder, _ = self._resolve(file, {**values, **functions.placed(settings, pathlib.Path(name))})
                _write(folder / name, text)
                values |= functions.placed(settings, folder / name)
                _, printed = self._resolve(file, values)
            if isinstance(self.recipe, Mapping):
                file, values = folder / "recipe.yaml", {}
                _write(folder / "recipe.yaml", recipes.set_keys(printed))
        return folder, self._command(file, values)

    def _write_base(self, file: pathlib.Path) -> pathlib.Path:
        """Writes a recipe with a dict's include alone: paths of the rest are seen from the working directory, as those of --set are."""
        assert isinstance(self.recipe, Mapping)
        base = str(self.recipe.get("include", ""))
        include = f"include: {recipes.yaml(base if base.startswith('recipes:') else str(self.cwd / base))}\n" if base else ""
        file.write_text(include + "trainer:\n", encoding="utf-8")
        return file

    def _sections(self) -> dict[str, object]:
        assert isinstance(self.recipe, Mapping)
        tree = recipes.sections({name: value for name, value in self.recipe.items() if name != "include"})
        reward = tree.get("reward")
        if isinstance(reward, dict) and "command" in reward:
            if self._reward:
                raise ValueError("reward: expected no reward.command beside it, got one in the recipe; leave one of them out")
            reward.setdefault("folder", str(self.cwd))
        return tree

    def _command(self, file: Path, values: Mapping[str, object]) -> list[str]:
        words = [word for key, value in values.items() for word in ("--set", f"{key}={recipes.yaml(value, str(key))}")]
        recipe = os.fspath(file)
        return ["qrl-train", f"./{recipe}" if recipe.startswith("-") else recipe, *words, *self.options]  # a dash begins no option

    def _resolve(self, file: Path, values: Mapping[str, object]) -> tuple[pathlib.Path, str]:
        """Returns the run folder, and the resolved recipe with each value's origin."""
        done = subprocess.run([*self._command(file, values), "--print-config"], executable=launch.PROGRAM, capture_output=True, text=True,
                              cwd=self.cwd, env=launch.environment(), check=False)
        found = re.search(r'(?m)^  default_local_dir: ("(?:[^"\\]|\\.)*")', done.stdout)
        if done.returncode != 0 or found is None:
            raise RunError(done.returncode, _error_of(done.stderr, done.returncode))
        return self.cwd / str(json.loads(found.group(1))), done.stdout

    def __repr__(self) -> str:
        state = "running" if self.code is None else f"ended with exit code {self.code}"
        return f"<qrl_train.Run {self.folder}: {state}>"

    @property
    def code(self) -> Optional[int]:
        """Is the exit code; None while the run runs."""
        return self._process.poll()

    @property
    def console(self) -> str:
        """Is what this start has printed so far."""
        file = self._console.fileno()  # its position is also the program's: reads leave it
        return os.pread(file, os.fstat(file).st_size, 0).decode(errors="replace")

    def __iter__(self) -> Iterator[Row]:
        """Hands out the rows of metrics.jsonl as they are written, each step once, from the run's first step on.

        Ends when the run is done or stopped. Raises RunError if it failed."""
        while True:
            has_ended = self.code is not None
            self._show_events()
            yield from self._new_rows()
            if has_ended:
                self._require_success()
                return
            time.sleep(_POLL_S)

    def _new_rows(self) -> Iterator[Row]:
        """Reads what is new. Before this start wrote its session, the file may hold rows that it will cut off."""
        rows = self.folder / "metrics.jsonl"
        if not self._sessions() - self._sessions_before or not rows.exists():
            return
        with open(rows, "rb") as file:
            file.seek(self._position)
            text = file.read()
        for line in text[: text.rfind(b"\n") + 1].splitlines(keepends=True):
            self._position += len(line)  # before the row: a loop that breaks off leaves the next rows unread
            row = _row(line, rows)
            if _has_values(row) and row["step"] > self._last_step:
                self._last_step = row["step"]
                yield row

    def progress(self) -> str:
        """Returns the last line of the console that tells how far the run is: a step, the cold start, an evaluation; at the end how it ended."""
        if self.code is not None:
            return repr(self)
        lines = [line for line in self.console.splitlines() if line.startswith("step ") or _EVENT.match(line)]
        return lines[-1] if lines else "starting"

    def _show_events(self) -> None:
        """Prints what the console has got since, other than steps, so that a loop that waits for rows is not silent."""
        if not self._shows:
            return
        file = self._console.fileno()
        text = os.pread(file, os.fstat(file).st_size - self._shown, self._shown)
        whole = text[: text.rfind(b"\n") + 1]
        self._shown += len(whole)
        for line in whole.decode(errors="replace").splitlines():
            if _EVENT.match(line):
                print(line, flush=True)

    def _sessions(self) -> set[str]:
        """Returns the times of the starts that the run folder lists."""
        file = self.folder / "sessions.jsonl"
        return set(re.findall(r'"unix": ?([^,}]+)', file.read_text(errors="replace") if file.exists() else ""))

    def _require_success(self) -> None:
        code = self._process.wait()
        if code not in (DONE, STOPPED):
            raise RunError(code, _error_of(self.console, code))

    def wait(self) -> int:
        """Waits for the end, and returns the exit code: 0 done, 75 stopped. Raises RunError if the run failed."""
        self._require_success()
        return self._process.returncode

    def stop(self) -> int:
        """Lets the step finish, writes a checkpoint and ends the run. Returns the exit code; a run that has ended keeps its own.

        Called again after an interrupt, it waits on: a second signal would end the run without its checkpoint."""
        self._request_stop()
        _started.discard(self)
        return self._process.wait()

    def _request_stop(self) -> None:
        while self.code is None and not self._is_stopping:
            if _handles_sigterm(self._process.pid):
                self._is_stopping = True
                self._process.send_signal(signal.SIGTERM)
            else:
                time.sleep(_POLL_S)

    def resume(self, overrides: Optional[Mapping[str, object]] = None) -> Run:
        """Resumes from the newest checkpoint, with these values besides. Rows continue behind those handed out. Returns the run itself."""
        if self.code is None:
            raise RuntimeError(f"{self.folder}: expected a run that has ended, got one that runs; call stop() first")
        before = self.overrides
        self.overrides = {**before, **(overrides or {})}
        try:
            self._start()
        except BaseException:
            self.overrides = before
            raise
        return self

    def rollouts(self) -> Iterator[Row]:
        """Hands out the responses of all steps so far, as rollouts() does."""
        return rollouts(self.folder) if self.folder.exists() else iter(())

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        self.stop()


def start(recipe: Recipe, overrides: Optional[Mapping[str, object]] = None, *, reward: Optional[Reward] = None, ranks: int = 1,
          options: Sequence[str] = (), cwd: Optional[Path] = None, show: Optional[bool] = None) -> Run:
    """Starts a run of a recipe, a file, recipes:NAME or a dict, and returns it at once. Arguments and errors: those of Run."""
    return Run(recipe, overrides, reward=reward, ranks=ranks, options=options, cwd=cwd, show=show)


def metrics(folder: Path) -> list[Row]:
    """Returns the rows of a run folder's metrics, of a run that runs or has ended; none before the first step."""
    return [row for row in _rows(_place(folder, "metrics.jsonl")) if _has_values(row)]


def rollouts(folder: Path) -> Iterator[Row]:
    """Hands out the responses of a run folder, step by step; docs/reference/run-folder.md lists their fields."""
    place = _place(folder, "rollouts")
    steps = [(int(found.group(1)), file) for file in place.glob("*") if (found := re.fullmatch(r"step_(\d+)\.jsonl", file.name))]
    for _, file in sorted(steps):
        yield from _rows(file)


@atexit.register
def _stop_all() -> None:
    for run in _started:
        run._request_stop()
    for run in tuple(_started):
        run.stop()
