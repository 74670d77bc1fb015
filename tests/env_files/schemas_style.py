"""Functions whose schemas scripts/golden/tools.py takes from transformers, and test.py from qrl_env."""
from enum import Enum
from typing import Any, Literal, Optional, Union


class Side(Enum):
    LEFT = "left"
    RIGHT = "right"


class Mixed(Enum):
    ONE = 1
    NONE = None


def plain(a: int, b: float = 2.0, name: str = "x", flag: bool = False) -> float:
    """Adds numbers.

    Args:
        a: The first number.
        b: The second one,
            on two lines, and more: here
            (with a note) at the end,
            note: not an argument.
        name: A name
        flag: Whether it holds.

    Returns:
        The sum of both.
    """


def optional(city: Optional[str] = None, unit: Literal["C", "F", 3] = "C") -> Optional[dict]:
    """
    Looks up a city

    over two paragraphs, with Args: in a line.

    Args:
        city (Optional[str]): Its name.

        unit (str): The unit (choices: ["C", "F"])
    """


def nested(rows: list[list[int]], pair: tuple[int, str], table: dict[str, float], one_of: Union[int, str, None], many: list[int] | str, rest: Any, mixed: Union[str, int] = 1):
    """Takes nested types. Args follow.

    Args:
      rows: rows
      pair: a pair
      table: a table
      one_of: one of several
      many: a list or a text
      rest: anything
      mixed: a text or a number
    Raises:
      ValueError: never
    """


def kinds(side: Side, mixed: Mixed, items: list, pairs: tuple, table: dict, empty: None, sides: list[Side]) -> str:
    """Takes enums.

    Args:
        side: a side
        mixed: mixed values
        items: items
        pairs: pairs
        table: table
        empty: nothing
        sides: sides

    Returns:
        str: what it says
            on two lines

    Raises:
        KeyError: sometimes
    """


def nothing():
    """Takes nothing."""


def unknown_result(x: int) -> Side | set:
    """Returns what no schema has.

    Args:
        x: a number
    """


class Methods:
    def bound(self, x: int) -> list[int]:
        """Is a method.

        Args:
            x: a number
        """

    @staticmethod
    def fixed(x: "int") -> None:
        """Is a static method with a hint in quotes.

        Args:
            x: a number
        """


FUNCTIONS = [plain, optional, nested, kinds, nothing, unknown_result, Methods().bound, Methods.fixed]
