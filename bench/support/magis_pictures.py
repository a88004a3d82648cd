"""Pictures for bench/magis.py, as SVG: lines through points of memory and time, and bars of extra
time side by side."""

import dataclasses
from xml.sax.saxutils import escape

WIDTH, HEIGHT, LEFT, TOP, PLOT_WIDTH, PLOT_HEIGHT = 760, 440, 60, 40, 480, 340
MOST_EXTRA = 60  # percent that are drawn
GREATEST_RATIO = 1.05
STEPS = 5        # of the grid
COLOURS = ("#888888", "#b8860b", "#2e8b57", "#8b4513", "#6a5acd", "#cd853f", "#9370db", "#4682b4",
           "#1e90ff", "#dc143c", "#ff69b4", "#000000", "#7f7f00", "#008b8b", "#bdb76b")

Curves = dict[str, list[tuple[float, float]]]  # by who: ratios, extra time in percent


@dataclasses.dataclass
class Frame:
    """The parts of a picture whose height is extra time in percent, from `least` to `most`."""
    parts: list[str]
    least: float
    most: float

    def height_of(self, extra: float) -> float:
        span = self.most - self.least
        return TOP + PLOT_HEIGHT * (self.most - min(extra, self.most)) / span

    def text(self, x: float, y: float, words: str, anchor: str = "middle") -> None:
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
                          f"{escape(words)}</text>")

    def path(self, points: str, colour: str = "#dddddd") -> None:
        self.parts.append(f'<path d="{points}" stroke="{colour}"/>')

    def legend(self, index: int, who: str) -> None:
        y = TOP + 10 + 18 * index
        self.parts.append(f'<rect x="{LEFT + PLOT_WIDTH + 16}" y="{y - 8}" width="14" height="4" '
                          f'fill="{COLOURS[index % len(COLOURS)]}"/>')
        self.text(LEFT + PLOT_WIDTH + 36, y - 2, who, "start")

    def svg(self) -> str:
        return "\n".join([*self.parts, "</svg>"]) + "\n"


def frame_of(title: str, extras: list[float]) -> Frame:
    """With the grid's horizontal lines, for all of these, but none above MOST_EXTRA."""
    most, least = min(MOST_EXTRA, max([10.0, *extras])), min([0.0, *extras])
    frame = Frame([f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
                   'font-family="sans-serif" font-size="11">',
                   f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'], least, most)
    frame.text(LEFT + PLOT_WIDTH / 2, 22, title)
    frame.text(LEFT - 6, TOP - 8, "extra %", "end")
    for step in range(STEPS + 1):
        extra = least + step * (most - least) / STEPS
        y = frame.height_of(extra)
        frame.path(f"M{LEFT} {y:.1f}H{LEFT + PLOT_WIDTH}")
        frame.text(LEFT - 6, y + 4, f"{extra:.0f}", "end")
    return frame


def lines(title: str, curves: Curves) -> str:
    """Lines through points, with a legend."""
    frame = frame_of(title, [extra for points in curves.values() for _, extra in points])

    def place(ratio: float) -> float:
        return LEFT + PLOT_WIDTH * min(ratio, GREATEST_RATIO) / GREATEST_RATIO

    for step in range(STEPS + 1):
        x = place(step / STEPS)
        frame.path(f"M{x:.1f} {TOP}V{TOP + PLOT_HEIGHT}")
        frame.text(x, TOP + PLOT_HEIGHT + 16, f"{step / STEPS:g}")
    frame.text(LEFT + PLOT_WIDTH / 2, HEIGHT - 22, "share of the peak in program order")
    for index, (who, points) in enumerate(curves.items()):
        colour = COLOURS[index % len(COLOURS)]
        places = [(place(ratio), frame.height_of(extra)) for ratio, extra in sorted(points)]
        joined = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        frame.parts.append(f'<polyline points="{joined}" fill="none" stroke="{colour}" '
                           'stroke-width="1.5"/>')
        frame.parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>'
                        for x, y in places]
        frame.legend(index, who)
    return frame.svg()


def bars(title: str, names: list[str], rows: dict[str, list[float | None]]) -> str:
    """For each name a bar of each row: extra time; None: no plan, a cross at the foot. What is
    above MOST_EXTRA ends there, with its number."""
    frame = frame_of(title, [extra for row in rows.values() for extra in row if extra is not None])
    group, foot = PLOT_WIDTH / len(names), frame.height_of(0)
    width = 0.8 * group / len(rows)
    for at, name in enumerate(names):
        frame.text(LEFT + group * (at + 0.5), TOP + PLOT_HEIGHT + 16, name)
    for index, (who, row) in enumerate(rows.items()):
        for at, extra in enumerate(row):
            x = LEFT + group * (at + 0.1) + width * index
            if extra is None:
                frame.text(x + width / 2, foot - 2, "x")
                continue
            y, height = frame.height_of(max(extra, 0)), abs(foot - frame.height_of(extra))
            frame.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
                               f'height="{height:.1f}" fill="{COLOURS[index % len(COLOURS)]}"/>')
            if extra > frame.most:
                frame.text(x + width / 2, y - 3, f"{extra:.0f}")
        frame.legend(index, who)
    frame.path(f"M{LEFT} {foot:.1f}H{LEFT + PLOT_WIDTH}", "#000000")
    return frame.svg()
