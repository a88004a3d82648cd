"""Pictures for bench/magis.py, as SVG: lines through points, bars side by side, and bars of shares."""

import dataclasses
import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, TOP, PLOT_WIDTH, PLOT_HEIGHT = 760, 440, 60, 40, 480, 340
STEPS = 5        # of the grid, about
COLOURS = ("#888888", "#b8860b", "#2e8b57", "#8b4513", "#6a5acd", "#cd853f", "#9370db", "#4682b4",
           "#1e90ff", "#dc143c", "#ff69b4", "#000000", "#7f7f00", "#008b8b", "#bdb76b")

Curves = dict[str, list[tuple[float, float]]]  # by who: points


@dataclasses.dataclass(frozen=True)
class Axis:
    """What stands beside it, and what of it is drawn: up to so much, of numbers like these, and at
    least from nothing to `at_least`. Logarithmic: from 1 on, in powers of ten."""
    words: str
    most: float = math.inf
    at_least: float = 0
    is_logarithmic: bool = False

    def told(self, value: float) -> str:
        return f"{value:,.0f}" if self.most > 2 and (abs(value) >= 10 or value == int(value)) else f"{round(value, 2) + 0.0:g}"


EXTRA = Axis("extra %", 60, 10)
RATIO = Axis("ratio", 1, 1)
MEMORY = Axis("share of the peak in program order", 1.05, 1.05)


@dataclasses.dataclass
class Frame:
    """The parts of a picture whose height goes from `least` to `most` of an axis."""
    parts: list[str]
    axis: Axis
    least: float
    most: float

    def height_of(self, value: float) -> float:
        if self.axis.is_logarithmic:
            shown = math.log10(min(max(value, self.least), self.most) / self.least) / math.log10(self.most / self.least)
        else:
            shown = (min(value, self.most) - self.least) / (self.most - self.least)
        return TOP + PLOT_HEIGHT * (1 - shown)

    def text(self, x: float, y: float, words: str, anchor: str = "middle") -> None:
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
                          f"{escape(words)}</text>")

    def path(self, points: str, colour: str = "#dddddd") -> None:
        self.parts.append(f'<path d="{points}" stroke="{colour}"/>')

    def box(self, x: float, y: float, width: float, height: float, index: int) -> None:
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
                          f'fill="{COLOURS[index % len(COLOURS)]}"/>')

    def legend(self, index: int, who: str) -> None:
        y = TOP + 10 + 18 * index
        self.parts.append(f'<rect x="{LEFT + PLOT_WIDTH + 16}" y="{y - 8}" width="14" height="4" '
                          f'fill="{COLOURS[index % len(COLOURS)]}"/>')
        self.text(LEFT + PLOT_WIDTH + 36, y - 2, who, "start")

    def svg(self) -> str:
        return "\n".join([*self.parts, "</svg>"]) + "\n"


def grid_of(axis: Axis, least: float, most: float) -> list[float]:
    """Round numbers, about STEPS of them."""
    if axis.is_logarithmic:
        return [10.0 ** k for k in range(round(math.log10(least)), round(math.log10(most)) + 1)]
    wanted = (most - least) / STEPS
    power = 10.0 ** math.floor(math.log10(wanted))
    step = next(step * power for step in (1, 2, 5, 10) if step * power >= 0.999 * wanted)
    return [k * step for k in range(math.ceil(least / step), math.floor(1.001 * most / step) + 1)]


def frame_of(title: str, axis: Axis, values: list[float]) -> Frame:
    """With the grid's horizontal lines, for all of these, but none above the axis's own."""
    most, least = min(axis.most, max([axis.at_least, *values])), min([0.0, *values])
    if axis.is_logarithmic:
        most, least = 10.0 ** math.ceil(math.log10(max(10.0, most))), 1.0
    frame = Frame([f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
                   'font-family="sans-serif" font-size="11">',
                   f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'], axis, least, most)
    frame.text(LEFT + PLOT_WIDTH / 2, 22, title)
    frame.text(LEFT - 6, TOP - 8, axis.words, "end")
    for value in grid_of(axis, least, most):
        y = frame.height_of(value)
        frame.path(f"M{LEFT} {y:.1f}H{LEFT + PLOT_WIDTH}")
        frame.text(LEFT - 6, y + 4, axis.told(value), "end")
    return frame


def lines(title: str, curves: Curves, across: Axis = MEMORY, up: Axis = EXTRA) -> str:
    """Lines through points, with a legend. `across` begins at nothing and ends at its most."""
    frame = frame_of(title, up, [value for points in curves.values() for _, value in points])

    def place(value: float) -> float:
        return LEFT + PLOT_WIDTH * min(value, across.most) / across.most

    for step in range(STEPS + 1):
        x = place(step / STEPS)
        frame.path(f"M{x:.1f} {TOP}V{TOP + PLOT_HEIGHT}")
        frame.text(x, TOP + PLOT_HEIGHT + 16, f"{step / STEPS:g}")
    frame.text(LEFT + PLOT_WIDTH / 2, HEIGHT - 22, across.words)
    for index, (who, points) in enumerate(curves.items()):
        colour = COLOURS[index % len(COLOURS)]
        places = [(place(x), frame.height_of(y)) for x, y in sorted(points)]
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        frame.parts.append(f'<polyline points="{joined}" fill="none" stroke="{colour}" '
                           'stroke-width="1.5"/>')
        frame.parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>'
                        for x, y in places]
        frame.legend(index, who)
    return frame.svg()


def bars(title: str, names: list[str], rows: dict[str, list[float | None]], axis: Axis = EXTRA) -> str:
    """For each name a bar of each row; None: no plan, a cross at the foot; NaN: nobody asked, and
    nothing is there. What is above the axis ends there, with its number."""
    known = [value for row in rows.values() for value in row if value is not None and not math.isnan(value)]
    frame = frame_of(title, axis, known)
    group, foot = PLOT_WIDTH / len(names), frame.height_of(0)
    width = 0.8 * group / len(rows)
    for at, name in enumerate(names):
        frame.text(LEFT + group * (at + 0.5), TOP + PLOT_HEIGHT + 16, name)
    for index, (who, row) in enumerate(rows.items()):
        for at, value in enumerate(row):
            x = LEFT + group * (at + 0.1) + width * index
            if value is None:
                frame.text(x + width / 2, foot - 2, "x")
                continue
            if math.isnan(value):
                continue
            y, height = frame.height_of(max(value, 0)), abs(foot - frame.height_of(value))
            frame.box(x, y, width, height, index)
            if value > frame.most:
                frame.text(x + width / 2, y - 3, f"{value:.0f}")
        frame.legend(index, who)
    frame.path(f"M{LEFT} {foot:.1f}H{LEFT + PLOT_WIDTH}", "#000000")
    return frame.svg()


def shares(title: str, columns: dict[str, dict[str, float]]) -> str:
    """For each name one bar, cut into the percents of its parts; from the foot up, as the parts
    come."""
    frame = frame_of(title, Axis("%", 100, 100), [])
    parts = list(dict.fromkeys(part for column in columns.values() for part in column))
    group = PLOT_WIDTH / len(columns)
    for at, (name, column) in enumerate(columns.items()):
        frame.text(LEFT + group * (at + 0.5), TOP + PLOT_HEIGHT + 16, name)
        whole, below = sum(column.values()), 0.0
        for part, amount in column.items():
            above = below + 100 * amount / whole
            y = frame.height_of(above)
            frame.box(LEFT + group * (at + 0.25), y, group / 2, frame.height_of(below) - y, parts.index(part))
            below = above
    for index, part in enumerate(parts):
        frame.legend(index, part)
    return frame.svg()
