"""Line charts as small SVG files, by the standard library alone: panels in a row that share one y axis and one legend."""
import math
import pathlib
from typing import NamedTuple

WIDTH = 840  # pixels; GitHub shows a page's text in a column of about this width
LEFT, RIGHT, GAP = 58, 6, 14  # margins, and the gap between panels
LEGEND_ROW, TITLE, PLOT, AXIS = 20, 24, 168, 40  # heights
INSET = 14  # between a panel's edge and the first and last tick
GRAY = "#666666"
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")  # Okabe and Ito's, which color-blind readers can distinguish
DASHES = ("", "7 4", "2 3", "9 3 2 3")  # two curves with the same values both show
MARKERS = ("circle", "square", "triangle", "diamond")
SHAPES = {"circle": "m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0z", "square": "m-3-3h6v6h-6z", "triangle": "m0-4l4 7h-8z",
          "diamond": "m0-4l4 4l-4 4l-4-4z"}
MOST_MARKED = 8  # points of a curve; a curve with more has neither markers nor bars


class Curve(NamedTuple):
    name: str
    points: list  # of (x, y, lowest, highest), x ascending; a bar is drawn from lowest to highest
    is_control: bool = False  # drawn in gray


class Look(NamedTuple):
    color: str
    dashes: str
    marker: str  # "" for a curve of many points


def chart(panels, x_label, y_label, is_log=False):
    """The SVG's text. panels: {title: [Curve, ...]}; curves of one name look alike in all panels. is_log wants values > 0."""
    looks = _looks(curve for its_curves in panels.values() for curve in its_curves)
    points = [point for its_curves in panels.values() for curve in its_curves for point in curve.points]
    x_ticks = _ticks(min(p[0] for p in points), max(p[0] for p in points), 4)
    low, high = min(p[2] for p in points), max(p[3] for p in points)
    y_ticks = _decades(low, high) if is_log else _ticks(low, high, 6)
    scale = math.log10 if is_log else float
    legend, num_rows = _legend(looks)
    top = num_rows * LEGEND_ROW + TITLE
    bottom = top + PLOT
    height = bottom + AXIS
    width = (WIDTH - LEFT - RIGHT - GAP * (len(panels) - 1)) / len(panels)

    def y_of(value):
        first, last = scale(y_ticks[0]), scale(y_ticks[-1])
        return bottom - (scale(value) - first) / (last - first) * PLOT

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
           'font-family="Helvetica, Arial, sans-serif" font-size="12" fill="#222">',
           f'<rect width="{WIDTH}" height="{height}" fill="white"/>', *legend,
           f'<text transform="translate(14 {_n((top + bottom) / 2)}) rotate(-90)" text-anchor="middle">{y_label}</text>',
           f'<text x="{_n((LEFT + WIDTH - RIGHT) / 2)}" y="{height - 6}" text-anchor="middle">{x_label}</text>']
    out += [f'<text x="{LEFT - 6}" y="{_n(y_of(tick) + 4)}" text-anchor="end">{_label(tick, is_log)}</text>' for tick in y_ticks]
    for number, (title, its_curves) in enumerate(panels.items()):
        left = LEFT + number * (width + GAP)

        def x_of(value, left=left):
            return left + INSET + (value - x_ticks[0]) / (x_ticks[-1] - x_ticks[0]) * (width - 2 * INSET)

        grid = "".join(f"M{_n(left)} {_n(y_of(tick))}h{_n(width)}" for tick in y_ticks)
        out += [f'<text x="{_n(left + width / 2)}" y="{top - 8}" text-anchor="middle" font-weight="bold">{title}</text>',
                f'<path d="{grid}" stroke="#ddd"/>',
                f'<path d="M{_n(left)} {top}V{bottom}h{_n(width)}" fill="none" stroke="#222"/>']
        out += [f'<text x="{_n(x_of(tick))}" y="{bottom + 16}" text-anchor="middle">{_label(tick)}</text>' for tick in x_ticks]
        for place, curve in enumerate(its_curves):
            shift = 4 * (place - (len(its_curves) - 1) / 2) if looks[curve.name].marker else 0  # else bars hide each other
            out.append(_drawn(looks[curve.name], [(x_of(x) + shift, *map(y_of, ys)) for x, *ys in curve.points]))
    return "\n".join([*out, "</svg>"]) + "\n"


def write(file, *args, **options):
    pathlib.Path(file).write_text(chart(*args, **options), encoding="utf-8")


def _looks(curves):
    """Name -> Look."""
    looks, styles = {}, iter(zip(COLORS, DASHES, MARKERS))
    for curve in curves:
        if curve.name not in looks:
            color, dashes, marker = (GRAY, "4 3", "circle") if curve.is_control else next(styles)
            looks[curve.name] = Look(color, dashes, marker if len(curve.points) <= MOST_MARKED else "")
    return looks


def _legend(looks):
    """The legend's elements, and its number of rows."""
    out, x, row = [], LEFT, 0
    for name, look in looks.items():
        length = 36 + 6.6 * len(name) + 20  # 6.6: the mean width of a letter
        if x + length > WIDTH and x > LEFT:
            x, row = LEFT, row + 1
        y = row * LEGEND_ROW + 14
        out += [_group(look, f"M{_n(x)} {y}h30", [(x + 15, y)]), f'<text x="{_n(x + 36)}" y="{y + 4}">{name}</text>']
        x += length
    return out, row + 1


def _drawn(look, places):
    """places: (x, y, y of the lowest, y of the highest) of each point, in pixels."""
    line = "M" + "L".join(f"{_n(x)} {_n(y)}" for x, y, _, _ in places)
    bars = "".join(f"M{_n(x)} {_n(low)}V{_n(high)}" for x, _, low, high in places if low != high) if look.marker else ""
    return _group(look, line, [(x, y) for x, y, _, _ in places], bars)


def _group(look, line, marked, bars=""):
    dashes = f' stroke-dasharray="{look.dashes}"' if look.dashes else ""
    out = f'<g stroke="{look.color}" fill="{look.color}"><path d="{line}" fill="none" stroke-width="1.6"{dashes}/>'
    if bars:
        out += f'<path d="{bars}"/>'
    if look.marker:
        out += f'<path d="{"".join(f"M{_n(x)} {_n(y)}{SHAPES[look.marker]}" for x, y in marked)}" stroke="none"/>'
    return out + "</g>"


def _ticks(low, high, most):
    """The finest round numbers that enclose low and high in at most `most` intervals."""
    if low == high:
        high = low + (abs(low) or 1)
    for step in (factor * 10.0 ** power for power in range(-9, 10) for factor in (1, 2, 5)):
        first, last = math.floor(low / step), math.ceil(high / step)
        if last - first <= most:
            return [k * step for k in range(first, last + 1)]
    raise ValueError(f"no ticks for {low} to {high}")


def _decades(low, high):
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [10.0 ** k for k in range(first, max(last, first + 1) + 1)]


def _label(value, is_log=False):
    return f"{value:.0e}" if is_log else f"{value:.10g}"


def _n(value):
    return f"{value:.1f}".removesuffix(".0")
