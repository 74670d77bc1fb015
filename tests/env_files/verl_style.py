"""Functions as veRL's tools."""
from verl.tools.function_tool import function_tool


@function_tool
def weather(city: str) -> dict:
    """Says the weather.

    Args:
        city: A city.
    """
    return {"city": city, "sky": "clear"}


@function_tool("scored")
async def scoring(text: str):
    """Has a reward.

    Args:
        text: A text.
    """
    return text.upper(), 0.25
