"""A calculator as a tool. recipes/environments/calculator.yaml trains with it."""


def multiply(a: int, b: int) -> int:
    """Multiplies two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a * b
