"""Modules that tests alone need, in this Python or in the virtual environment of scripts/setup --tests. A library, not a command."""
import importlib.util
import os
import pathlib
import sys

PYTHON = pathlib.Path(__file__).resolve().parents[2] / ".deps/test_python/bin/python"


def has(module):
    """Whether a module can be imported. Where only the environment has it, the calling script starts again there."""
    if importlib.util.find_spec(module):
        return True
    if pathlib.Path(sys.prefix) == PYTHON.parents[1] or not PYTHON.exists():
        return False
    os.execv(PYTHON, [str(PYTHON), *sys.argv])
