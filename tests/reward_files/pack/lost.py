"""A member of the package that imports what is not there."""
from .nowhere import same  # noqa: F401
