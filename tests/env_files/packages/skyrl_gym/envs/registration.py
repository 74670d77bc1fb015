import importlib
import types

registry = {"toy": types.SimpleNamespace(entry_point="skyrl_style:Echo")}


def load_env_creator(point):
    module, _, name = point.partition(":")
    return getattr(importlib.import_module(module), name)
