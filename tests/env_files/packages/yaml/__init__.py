"""Reads YAML that is JSON."""
from json import load as safe_load

__all__ = ["safe_load"]
