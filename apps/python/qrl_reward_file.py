"""Imports a user's file for qrl_reward.py and qrl_env, finds what its functions read, and words their errors."""
import ast
import asyncio
import contextlib
import enum
import importlib
import importlib.util
import inspect
import json
import math
import os
import pathlib
import sys
import textwrap
import traceback

MODULE, FILE_VARIABLE = "reward_of_user", "QRL_REWARD_FILE"
HERE = os.path.dirname(os.path.abspath(__file__))
PASSED = tuple(os.path.dirname(os.path.abspath(place)) + os.sep for place in (__file__, importlib.__file__, asyncio.__file__))
LARGEST = 3.4028234663852886e38  # of a score


class Refused(Exception):
    """Says why the file cannot judge."""


class WrongResult(TypeError):
    """Says what a function returned that its trainer does not accept, with the function's file and line."""


class OwnFile:
    """Finds the user's file under the name MODULE, also in processes that its pools start (spawn, forkserver)."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        file = os.environ.get(FILE_VARIABLE) if name == MODULE else None
        return importlib.util.spec_from_file_location(name, file) if file else None


sys.meta_path.append(OwnFile)


# ---- the file

def relative_level(source):
    """Returns the largest number of points before a relative import; 0 without one."""
    try:
        return max((node.level for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)), default=0)
    except (SyntaxError, ValueError):
        return 0  # the import reports it


def module_of(file):
    """Returns the module's name and the folder to import it from. A file with relative imports is a module of its package."""
    folder, parts, level = file.parent, [file.stem], relative_level(file.read_bytes())
    while (folder / "__init__.py").is_file() or len(parts) <= level:
        parts.insert(0, folder.name)
        folder = folder.parent
    if not level:
        return MODULE, file.parent
    if not all(parts) or any("." in part for part in parts):
        raise Refused(f"expected a file that can be a module of its package (it has relative imports), got {'.'.join(filter(None, parts))!r} in {folder}; "
                      "use names without a dot, and no more dots before an import than it has folders")
    return ".".join(parts), folder


def load_module(file):
    path = pathlib.Path(os.path.abspath(file))
    if not path.is_file():
        raise Refused(f"expected a Python file, got {file!r}, which is {'a folder' if path.is_dir() else 'not'} in {os.getcwd()}")
    if path.suffix != ".py":
        raise Refused(f"expected a Python file, got {file!r}; name it {path.stem}.py")
    os.environ[FILE_VARIABLE] = str(path)
    module_name, folder = module_of(path)
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        module = importlib.import_module(module_name)
    except SystemExit as error:
        raise Refused(f"{file} cannot be imported: it exits, {words_of(error)}; move what runs under if __name__ == \"__main__\"") from None
    except Exception as error:
        trace = traceback_of(error)
        raise Refused(f"{file} cannot be imported: {words_of(error)}" + (f"\n{trace}" if trace else "")) from None
    if not os.path.samefile(module.__file__ or "", path):
        raise Refused(f"expected {module_name} to be {path}, got {module.__file__}, which has the same name")
    return module


def load(file, name):
    module = load_module(file)
    if not callable(getattr(module, name, None)):
        known = ", ".join(key for key, value in vars(module).items() if inspect.isfunction(value))
        raise Refused(f"expected a function {name!r} in {file}, which has {known or 'none'}")
    return getattr(module, name)


def call(function, value_of, *arguments, **named_arguments):
    """Returns value_of(function(…)). Says the place of a function that does not take the arguments; an exit is an error like others."""
    try:
        return value_of(function(*arguments, **named_arguments))
    except SystemExit as error:
        raise RuntimeError(f"it exits: sys.exit({'' if error.code is None else repr(error.code)})").with_traceback(error.__traceback__) from None
    except TypeError as error:
        if frames_of(error):
            raise
        taken = ", ".join([*(f"argument {i + 1}" for i in range(len(arguments))), *named_arguments])
        raise WrongResult(f"{place_of(function)}{name_of(function)} is called with {taken}: {error}") from None


# ---- what a function reads

def body_of(function):
    """Returns a function's syntax tree; None if its source is unknown."""
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function))))
    except (OSError, TypeError, SyntaxError):
        return None


def parameters_of(function):
    return inspect.signature(function).parameters


def rest_of(function):
    """Returns the name of **kwargs; None without it."""
    return next((name for name, one in parameters_of(function).items() if one.kind == one.VAR_KEYWORD), None)


def is_used(function, variable):
    tree = body_of(function)
    return tree is None or any(isinstance(node, ast.Name) and node.id == variable for node in ast.walk(tree))


def keys_read(function, variable):
    """Returns the constant keys that a function reads from a dict: variable["key"], variable.get("key")."""
    found = []
    for node in ast.walk(body_of(function) or ast.Module([], [])):
        is_get = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get" and node.args
        held, key = (node.func.value, node.args[0]) if is_get else (node.value, node.slice) if isinstance(node, ast.Subscript) else (None, None)
        if isinstance(held, ast.Name) and held.id == variable and isinstance(key, ast.Constant) and isinstance(key.value, str):
            found.append(key.value)
    return list(dict.fromkeys(found))


def attributes_read(function, variable):
    nodes = [node for node in ast.walk(body_of(function) or ast.Module([], [])) if isinstance(node, ast.Attribute)]
    return list(dict.fromkeys(node.attr for node in nodes if isinstance(node.value, ast.Name) and node.value.id == variable))


def given(value):
    """Returns a value of the first row in words; None if it is empty."""
    return None if value is None or value == "" or value == [] or value == {} else cut(value, 60)


# ---- stand-ins for objects of a trainer

class StandIn:
    """Has the fields that qrl-train knows. isinstance accepts it as the trainer's own class if the user's file imported that class."""

    def __init__(self, **fields):
        self.__dict__.update(fields)

    def __getattr__(self, name):
        raise AttributeError(f"{type(self).__name__} has no {name} in qrl-train; it has {', '.join(sorted(vars(self)))}")

    @property
    def __class__(self):
        return getattr(sys.modules.get(type(self).module), type(self).__name__, type(self))


class Member(str):
    """Stands for a member of a trainer's enum. Equals its text, and the member of the trainer's own enum."""

    name = property(str.upper)
    value = property(str.__str__)
    __hash__ = str.__hash__

    def __eq__(self, other):
        return str.__eq__(self, other.value if isinstance(other, enum.Enum) and isinstance(other.value, str) else other)

    def __ne__(self, other):
        return not self == other


# ---- results

def plain(value):
    return value.tolist() if hasattr(value, "tolist") else value  # tensors and arrays


def number(value):
    """Returns a score; None if it does not apply. Raises TypeError for no number, and ValueError for an infinity."""
    value = plain(value)
    while isinstance(value, (list, tuple)) and len(value) == 1:
        value = plain(value[0])
    if isinstance(value, str):
        raise TypeError(f"expected a number as score, got the text {value!r}")
    return finite(None if value is None else float(value))


def finite(value):
    """Returns the value; None for NaN, a score that does not apply. Raises ValueError for what is no finite float of 32 bits."""
    if isinstance(value, (int, float)) and abs(value) > LARGEST:
        raise ValueError(f"expected a finite number as score, got {value}")
    return None if isinstance(value, float) and math.isnan(value) else value


def named(result, main, whole="score"):
    """Returns scores by name, from a number or from a dict whose `whole` is the main one. Omits entries that are no numbers."""
    result = result if isinstance(result, dict) else {whole: result}
    scores = {main: number(result[whole])}
    for name in (name for name in result if isinstance(name, str) and name != whole):
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            scores[name] = number(result[name])
    return scores


def name_of(function):
    return getattr(function, "__name__", type(function).__name__)


def place_of(function):
    """Returns "FILE:LINE: " of a function or class; "" if its source is unknown."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code:
        return f"{os.path.basename(code.co_filename)}:{code.co_firstlineno}: "
    try:
        return f"{os.path.basename(inspect.getsourcefile(function))}:{inspect.getsourcelines(function)[1]}: "
    except (OSError, TypeError):
        return ""


def read_result(function, result, form, read):
    """Returns read(result). If that fails, raises WrongResult with the function's place, its result and the expected form."""
    try:
        return read(plain(result))
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError):
        text = text_of(repr, result)
        shown = text if len(text) <= 100 else text[:100] + "…"
        of_type = "" if result is None else f" ({type(result).__name__})"
        raise WrongResult(f"{place_of(function)}{name_of(function)} returned {shown}{of_type}; expected {form}") from None


# ---- faults in words

def cut(text, most):
    text = text if isinstance(text, str) else json.dumps(text)
    return json.dumps(text if len(text) <= most else text[:most] + "…", ensure_ascii=False)


def text_of(convert, value):
    """Returns str or repr of an object of the user, whose own method may raise."""
    try:
        return convert(value)
    except Exception as error:
        return f"<{type(value).__name__}, whose text raises {type(error).__name__}>"


def frames_of(error):
    """Returns the frames after those of this program, of importlib and of asyncio."""
    frame = error.__traceback__
    while frame and (os.path.abspath(file := frame.tb_frame.f_code.co_filename).startswith(PASSED) or file.startswith("<frozen importlib")):
        frame = frame.tb_next
    return frame


def traceback_of(error):
    """Returns the traceback from the user's file on; "" for errors of this program or of the file's syntax."""
    frame = frames_of(error)
    return "".join(traceback.format_exception(type(error), error, frame)) if frame else ""


def words_of(error):
    """Returns an error in one line, with the line of the user's file."""
    if isinstance(error, WrongResult):
        return str(error)
    if isinstance(error, SyntaxError) and error.filename:
        return f"{type(error).__name__}: {error.msg} at {os.path.basename(error.filename)}:{error.lineno}"
    frames = traceback.extract_tb(frames_of(error))
    own = [frame for frame in frames if frame.filename == os.environ.get(FILE_VARIABLE)] or frames
    place = f" at {os.path.basename(own[-1].filename)}:{own[-1].lineno}" if own else ""
    text = text_of(str, error)
    return f"{type(error).__name__}{': ' if text else ''}{text}{place}"


def told(error, row, samples):
    """Returns words_of, then the row's columns, its prompt and the response."""
    response = cut(samples[0]["response"], 40) if len(samples) == 1 else f"{len(samples)} of them"
    return (f"{words_of(error)}; columns of the row: {', '.join(sorted(row['row'])) or 'none'}; "
            f"prompt {cut(row['prompt'], 60)}, response {response}")
