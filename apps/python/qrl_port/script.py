"""Reads what a Python script gives to TRL, PEFT and Unsloth, from its syntax tree. Nothing is imported or run."""
from __future__ import annotations

import ast
import os
from typing import Any

from qrl_port import BadInput, Read, Script, Varying, flattened

CONFIGS = {"GRPOConfig", "RLOOConfig", "LoraConfig", "BitsAndBytesConfig", "SamplingParams", "ModelConfig", "GenerationConfig"}
# The names of arguments that come without one.
POSITIONS = {"GRPOTrainer": ("model", "reward_funcs", "args", "train_dataset", "eval_dataset"),
             "RLOOTrainer": ("model", "reward_funcs", "args", "train_dataset", "eval_dataset"),
             "from_pretrained": ("model_name",), "get_peft_model": ("model",), "GRPOConfig": ("output_dir",), "RLOOConfig": ("output_dir",)}
OTHER_TRAINERS = ("SFTTrainer", "DPOTrainer", "KTOTrainer", "RewardTrainer", "PPOTrainer", "OnlineDPOTrainer", "DistillationTrainer", "Trainer")
FUNCTIONS = {"reward_funcs": "rewards", "tools": "tools", "environment_factory": "factory"}  # arguments, and what of Script they fill
CONTAINERS = {"args", "peft_config", "quantization_config"}  # hold names that are read for themselves
CONDITIONAL = (ast.If, ast.For, ast.While, ast.IfExp, ast.ExceptHandler)
PARSES = ("parse_args", "parse_args_and_config", "parse_args_into_dataclasses")


def called(node: ast.AST) -> str:
    """Returns the last name of what a call calls; of other nodes the empty text."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id if isinstance(node.func, ast.Name) else ""


def is_main(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Compare) and ast.unparse(node.test.left) == "__name__"


def rename_aliases(tree: ast.Module) -> list[str]:
    """Gives calls of renamed imports and of subclasses the trainer's own name. Returns the subclasses."""
    known, subclasses = {name: name for name in (*CONFIGS, *POSITIONS, *OTHER_TRAINERS)}, []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            known |= {one.asname: one.name for one in node.names if one.asname and one.name in known}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            bases = [base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in node.bases]
            for base in bases:
                if known.get(base) in ("GRPOTrainer", "RLOOTrainer", "GRPOConfig", "RLOOConfig"):
                    known[node.name] = known[base]
                    subclasses.append(f"{node.name} extends {known[base]}: what it overrides is not read")
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            node.func.id = known.get(node.func.id, node.func.id)
    return subclasses


class Scope:
    """Has what names were assigned, in a function and around it."""

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
        self.values: dict[str, list[tuple[int, ast.AST | None, bool]]] = {}  # line, expression, whether under a condition

    def put(self, name: str, line: int, value: ast.AST | None, is_conditional: bool) -> None:
        self.values.setdefault(name, []).append((line, value, is_conditional))

    def find(self, name: str, line: int) -> tuple[ast.AST | None, bool, Scope]:
        """Returns the last expression assigned above a line, and whether another could hold instead."""
        entries = [entry for entry in self.values.get(name, []) if entry[0] < line or self.outer is None]
        entries = [entry for entry in entries if entry[0] < line] or entries[:1]
        if not entries:
            return self.outer.find(name, 1 << 30) if self.outer else (None, True, self)
        last = max((i for i, entry in enumerate(entries) if not entry[2]), default=0)
        return entries[last][1], any(entry[2] for entry in entries[last:]), self


class Reader:
    def __init__(self, text: str, name: str) -> None:
        try:
            self.tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError) as error:
            line = getattr(error, "lineno", None)
            raise BadInput(f"{name}:{line}" if line else name, "Python", str(getattr(error, "msg", error)), "port reads scripts that Python accepts")
        self.name = name
        self.script = Script("trl", code=text, notes=rename_aliases(self.tree))
        self.calls: list[tuple[ast.Call, Scope]] = []
        self.attributes: list[tuple[ast.Attribute, ast.AST, Scope, bool]] = []
        self.options: dict[str, ast.AST | None] = {}  # defaults of add_argument by the attribute that argparse makes
        self.visit(self.tree, Scope(), False)

    def visit(self, node: ast.AST, scope: Scope, is_conditional: bool) -> None:
        """Collects assignments and calls in the order of the lines."""
        for child in ast.iter_child_nodes(node):
            inner, under = scope, is_conditional or (isinstance(child, CONDITIONAL) and not is_main(child))
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
                inner = Scope(scope)
                for argument in (*child.args.args, *child.args.kwonlyargs, *child.args.posonlyargs):
                    inner.put(argument.arg, child.lineno, None, False)
            elif isinstance(child, ast.ClassDef):
                inner = Scope(scope)
            elif isinstance(child, (ast.Assign, ast.AnnAssign, ast.AugAssign)) and child.value is not None:
                targets = child.targets if isinstance(child, ast.Assign) else [child.target]
                for target in targets:
                    self.assign(target, child, scope, is_conditional)
            elif isinstance(child, (ast.For, ast.comprehension)):
                for name in ast.walk(child.target):
                    if isinstance(name, ast.Name):
                        scope.put(name.id, getattr(child, "lineno", 1), None, True)
            if isinstance(child, ast.Call):
                self.calls.append((child, scope))
                self.add_option(child)
            self.visit(child, inner, under)

    def add_option(self, call: ast.Call) -> None:
        """Keeps the default of an option of argparse."""
        names = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        if called(call) == "add_argument" and names:
            words = {word.arg: word.value for word in call.keywords}
            place = words.get("dest")
            name = place.value if isinstance(place, ast.Constant) else max(names, key=len).lstrip("-").replace("-", "_")
            is_flag = isinstance(words.get("action"), ast.Constant) and words["action"].value == "store_true"  # type: ignore[attr-defined]
            self.options[str(name)] = words.get("default", ast.Constant(False) if is_flag else None)

    def assign(self, target: ast.AST, node: Any, scope: Scope, is_conditional: bool) -> None:
        if isinstance(target, ast.Name):
            scope.put(target.id, node.lineno, None if isinstance(node, ast.AugAssign) else node.value, is_conditional)
        elif isinstance(target, ast.Attribute):
            self.attributes.append((target, node.value, scope, is_conditional))
        elif isinstance(target, (ast.Tuple, ast.List)):
            pairs = node.value.elts if isinstance(node.value, (ast.Tuple, ast.List)) and len(node.value.elts) == len(target.elts) else None
            for i, one in enumerate(target.elts):
                if isinstance(one, ast.Name):
                    scope.put(one.id, node.lineno, pairs[i] if pairs else node.value, is_conditional)

    def value(self, node: ast.AST | None, scope: Scope, depth: int = 0) -> Any:
        """Returns a constant, a list or dict of constants, or a Varying text."""
        if node is None:
            return Varying("")
        if depth > 50:
            return Varying(ast.unparse(node))
        inner = [node, scope, depth + 1]

        def of(one: ast.AST | None) -> Any:
            return self.value(one, inner[1], inner[2])

        if isinstance(node, ast.Constant) and not isinstance(node.value, (bytes, complex, type(...))):
            return node.value
        if isinstance(node, ast.Name):
            found, is_open, where = scope.find(node.id, node.lineno)
            value = Varying(node.id) if found is None or is_open else self.value(found, where, depth + 1)
            return Varying(node.id) if isinstance(value, Varying) else value
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            values = [of(one) for one in node.elts]
            return Varying(ast.unparse(node)) if any(isinstance(one, Varying) for one in values) else values
        if isinstance(node, ast.Dict):
            return {str(of(key)): of(value) for key, value in zip(node.keys, node.values)} if None not in node.keys else Varying(ast.unparse(node))
        if isinstance(node, ast.JoinedStr):
            parts = [of(part.value) if isinstance(part, ast.FormattedValue) and part.format_spec is None and part.conversion == -1 else of(part)
                     for part in node.values]
            return Varying(ast.unparse(node)) if any(isinstance(part, Varying) for part in parts) else "".join(map(str, parts))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "torch":
            return node.attr  # torch.bfloat16
        if isinstance(node, ast.Attribute) and self.options.get(node.attr) is not None and self.is_parsed(node.value, scope):
            return of(self.options[node.attr])
        if isinstance(node, (ast.BinOp, ast.UnaryOp)):
            return self.computed(node, of)
        if called(node) == "dict" and all(word.arg for word in node.keywords):  # type: ignore[attr-defined]
            return {str(word.arg): of(word.value) for word in node.keywords}  # type: ignore[attr-defined]
        if called(node) in ("get", "getenv") and "environ" in ast.unparse(node.func) + "getenv" and len(node.args) == 2:  # type: ignore[attr-defined]
            return of(node.args[1]) if "environ" in ast.unparse(node.func) or called(node) == "getenv" else Varying(ast.unparse(node))  # type: ignore[attr-defined]
        return Varying(ast.unparse(node))

    def computed(self, node: ast.BinOp | ast.UnaryOp, of: Any) -> Any:
        """Returns the value of an operation on numbers, or of texts joined by +."""
        sides = [of(node.left), of(node.right)] if isinstance(node, ast.BinOp) else [of(node.operand)]
        numbers = all(isinstance(side, (int, float)) for side in sides)
        texts = isinstance(node.op, ast.Add) and all(isinstance(side, str) and not isinstance(side, Varying) for side in sides)
        is_small = not isinstance(node.op, (ast.Pow, ast.LShift)) or all(abs(side) < 100 for side in sides if numbers)
        if not (numbers and is_small) and not texts:
            return Varying(ast.unparse(node))
        try:
            names = [ast.Constant(side) for side in sides]
            plain = ast.BinOp(names[0], node.op, names[1]) if isinstance(node, ast.BinOp) else ast.UnaryOp(node.op, names[0])
            return eval(compile(ast.fix_missing_locations(ast.Expression(plain)), "", "eval"), {"__builtins__": {}})  # constants alone
        except (ArithmeticError, ValueError, TypeError):
            return Varying(ast.unparse(node))

    def is_parsed(self, node: ast.AST, scope: Scope) -> bool:
        """Returns whether a name holds what argparse read."""
        origin, _ = self.origin(node, scope)
        return called(origin or node) in PARSES or (isinstance(node, ast.Name) and node.id in ("args", "opt", "options"))

    def origin(self, node: ast.AST | None, scope: Scope) -> tuple[ast.AST | None, Scope]:
        """Follows a name to the expression that it holds."""
        for _ in range(20):
            if not isinstance(node, ast.Name):
                break
            found, _, where = scope.find(node.id, node.lineno)
            if found is None:
                break
            node, scope = found, where
        return node, scope

    def read(self) -> Script:
        trainers = [called(call) for call, _ in self.calls]
        has_trainer = any(name in ("GRPOTrainer", "RLOOTrainer") for name in trainers)
        if not has_trainer and not any(name in ("GRPOConfig", "RLOOConfig") for name in trainers):
            other = next((name for name in trainers if name in OTHER_TRAINERS), "no call of them")
            raise BadInput(self.name, "a script with GRPOConfig, GRPOTrainer, RLOOConfig or RLOOTrainer", other,
                           "qrl-train trains with such rewards; supervised training is its cold start (sft)")
        for call, scope in self.calls:
            name = called(call)
            if name in ("GRPOTrainer", "RLOOTrainer"):
                self.read_trainer(call, scope)
            elif name in CONFIGS or name == "get_peft_model" or (name == "from_pretrained" and self.is_model(call)):
                self.read_call(call, scope, "LoraConfig" if name == "get_peft_model" else name)
            elif name == "replace" and call.args and called(self.origin(call.args[0], scope)[0] or call.args[0]) in CONFIGS:
                self.read_call(call, scope, called(self.origin(call.args[0], scope)[0] or call.args[0]))  # of dataclasses
            elif name in PARSES and isinstance(call.func, ast.Attribute):
                self.script.notes.append(f"line {call.lineno}: {name}() reads the command line; options have their defaults here, and a shell script with the command has its values")
        self.read_attributes()
        if "RLOOTrainer" in trainers or "RLOOConfig" in trainers:
            self.script.trainer = "rloo"
        return self.script

    def is_model(self, call: ast.Call) -> bool:
        return isinstance(call.func, ast.Attribute) and "Model" in ast.unparse(call.func.value)

    def arguments(self, call: ast.Call, scope: Scope) -> list[tuple[str, ast.AST]]:
        names = POSITIONS.get(called(call), ())
        pairs: list[tuple[str, ast.AST]] = list(zip(names, call.args))
        for word in call.keywords:
            node, _ = self.origin(word.value, scope) if word.arg is None else (word.value, scope)
            if word.arg is not None:
                pairs.append((word.arg, word.value))
            elif called(node) == "dict" and not node.args:  # type: ignore[union-attr]
                pairs += [(str(inner.arg), inner.value) for inner in node.keywords]  # type: ignore[union-attr]
            elif isinstance(node, ast.Dict) and all(isinstance(key, ast.Constant) for key in node.keys):
                pairs += [(str(key.value), value) for key, value in zip(node.keys, node.values)]  # type: ignore[union-attr]
            else:
                pairs.append(("**" + ast.unparse(word.value), word.value))
        return pairs

    def read_call(self, call: ast.Call, scope: Scope, kind: str) -> None:
        for name, node in self.arguments(call, scope):
            if kind == "LoraConfig" and name == "model":
                continue
            self.add(name, self.value(node, scope), node, kind)

    def add(self, name: str, value: Any, node: ast.AST, kind: str) -> None:
        for inner, constant in flattened(name, value):
            self.script.reads.append(Read(inner, constant, getattr(node, "lineno", 0), kind))

    def read_trainer(self, call: ast.Call, scope: Scope) -> None:
        for name, node in self.arguments(call, scope):
            origin, where = self.origin(node, scope)
            if name == "args" or (name in CONTAINERS and called(origin or node)):
                continue  # of a config that is read for itself, or of a function of the command line's values
            if name == "model" and called(origin or node) == "get_peft_model":
                continue
            if name == "model" and called(origin or node) == "from_pretrained":
                continue
            if name in FUNCTIONS:
                self.read_functions(name, node, scope)
            elif name in ("train_dataset", "eval_dataset") and not isinstance(origin, ast.Constant):
                self.read_dataset(name, node, scope)
            else:
                self.add(name, self.value(node, scope), node, "GRPOTrainer")

    def read_functions(self, name: str, node: ast.AST, scope: Scope) -> None:
        """Keeps the names of functions or classes that the script defines."""
        origin, where = self.origin(node, scope)
        entries = origin.elts if isinstance(origin, (ast.List, ast.Tuple)) else [node]
        values = []
        for entry in entries:
            constant = self.value(entry, where)
            if isinstance(entry, ast.Name) and constant == Varying(entry.id):
                values.append(entry.id)
            else:
                values.append(constant if isinstance(constant, Varying) else Varying(f"the model {constant}"))
        is_known = not any(isinstance(value, Varying) for value in values)
        if is_known:
            getattr(self.script, FUNCTIONS[name]).extend(values)
        self.script.reads.append(Read(name, values if is_known else Varying(ast.unparse(node)), getattr(node, "lineno", 0), "GRPOTrainer"))

    def read_dataset(self, name: str, node: ast.AST, scope: Scope) -> None:
        """Follows a data set to load_dataset of constants; what the script does with its rows becomes a note."""
        steps, line = [], getattr(node, "lineno", 0)
        for _ in range(50):
            node, scope = self.origin(node, scope)  # type: ignore[assignment]
            if called(node) == "load_dataset":
                break
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                steps.append(ast.unparse(node)[len(ast.unparse(node.func.value)):])
                node = node.func.value
            elif isinstance(node, ast.Subscript):
                steps.append(f"[{ast.unparse(node.slice)}]")
                node = node.value
            else:
                self.script.reads.append(Read(name, Varying(ast.unparse(node) if node else ""), line, "GRPOTrainer"))
                return
        assert isinstance(node, ast.Call)
        values = [self.value(argument, scope) for argument in node.args[:2]]
        words = {str(word.arg): self.value(word.value, scope) for word in node.keywords}
        path, config = values[0] if values else words.get("path"), values[1] if len(values) > 1 else words.get("name")
        split = words.get("split", "train" if name == "train_dataset" else "test")
        if isinstance(split, list):
            split = split[0 if name == "train_dataset" else min(1, len(split) - 1)]
        note = "the script then does " + ", ".join(step if len(step) < 60 else step[:57] + "…" for step in reversed(steps)) if steps else ""
        is_constant = not any(isinstance(one, Varying) or one is None for one in (path, split)) and not isinstance(config, Varying)
        value: Any = [path, config, split] if is_constant else Varying(ast.unparse(node))
        self.script.reads.append(Read(name, value, line, "load_dataset", note))

    def read_attributes(self) -> None:
        """Reads CONFIG.NAME = VALUE of a variable that holds a config, or the command line's values."""
        for target, node, scope, is_conditional in self.attributes:
            origin, _ = self.origin(target.value, scope)
            if called(origin or target.value) in CONFIGS or called(origin or target.value) in PARSES:
                value = Varying(ast.unparse(node)) if is_conditional else self.value(node, scope)
                self.add(target.attr, value, target, called(origin or target.value))
