"""A file that cannot be imported."""
import of_nobody  # noqa: F401
