"""A file that cannot be a module of its package."""
from .pack import util  # noqa: F401
