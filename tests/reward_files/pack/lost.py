"""A member of the package that imports an absent module."""
from .nowhere import same  # noqa: F401
