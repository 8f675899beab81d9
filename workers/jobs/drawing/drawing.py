"""Draws a graph of jobs with their states, as Mermaid and as SVG. It reads and runs nothing."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import pairwise
from unicodedata import east_asian_width

from interlock.workers.jobs.drawing.layout import Box, Edge, Point, layers, layout


@dataclass(frozen=True, slots=True)
class Node:
    """One job of a drawing.

    A name with a slash is a job of another graph. The state is empty where it is not known; the
    note is shown under it.
    """

    name: str
    state: str
    after: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """How a state is drawn: a sign in text, an icon of 16 by 16 pixels, and three colours."""

    sign: str
    icon: str
    fill: str
    strong: str
    ink: str


EYE = "M2 8q6-7.5 12 0q-6 7.5-12 0ZM8 7.4v1.2"
LENS = "M7 3a4 4 0 1 0 .01 0ZM10 10l3.4 3.4"
BANG = "M8 3v6M8 12.4v.1"
PERSON = "M8 2.8a2.6 2.6 0 1 0 .01 0ZM3 13.4q5-6.4 10 0"
PENCIL = "M3.6 12.4l.8-3L10.6 3.2l2.2 2.2L6.6 11.6Z"
CROSS = "M4.6 4.6l6.8 6.8m0-6.8l-6.8 6.8"
CLOCK = "M8 2.6a5.4 5.4 0 1 0 .01 0ZM8 5.4v2.8l2 1.4"
ASKED = "M5.6 6a2.4 2.4 0 1 1 3.5 2.1q-1.1 .6-1.1 1.7M8 12.6v.1"

# In the order of a job's life, which is the order of the legend.
# fmt: off
LOOKS: Mapping[str, Look] = {
    "draft":                 Look("✎", PENCIL,                  "#f8fafc", "#64748b", "#334155"),
    "pending":               Look("◷", CLOCK,                   "#f1f5f9", "#475569", "#1e293b"),
    "suspended":             Look("■", "M5 5h6v6H5Z",           "#e7e5e4", "#57534e", "#292524"),
    "running":               Look("►", "M6 4l6 4-6 4Z",         "#dbeafe", "#1d4ed8", "#1e3a8a"),
    "paused":                Look("‖", "M6 4v8M10 4v8",         "#cffafe", "#0e7490", "#164e63"),
    "review_required":       Look("◉", EYE,                     "#f3e8ff", "#7e22ce", "#581c87"),
    "reviewing":             Look("◎", LENS,                    "#ede9fe", "#5b21b6", "#4c1d95"),
    "intervention_required": Look("!", BANG,                    "#ffedd5", "#c2410c", "#7c2d12"),
    "approval_required":     Look("☺", PERSON,                  "#fef3c7", "#a16207", "#713f12"),
    "success":               Look("✓", "M3.6 8.6l3 3 6-7",      "#dcfce7", "#15803d", "#14532d"),
    "canceled":              Look("⊘", "M4 12L12 4",            "#e5e7eb", "#4b5563", "#1f2937"),
    "failed":                Look("✗", CROSS,                   "#fee2e2", "#b91c1c", "#7f1d1d"),
}
UNKNOWN = Look("?", ASKED, "#ffffff", "#64748b", "#334155")
# fmt: on
ASKS_A_PERSON = {"approval_required", "intervention_required"}

# What the jobs behind an edge wait for: done, or not yet.
MET = 'stroke="#15803d" stroke-width="1.8"'
OPEN = 'stroke="#94a3b8" stroke-width="1.4"'
PAPER = "#ffffff"
# A job of another graph, in the legend.
ELSEWHERE = (
    '<rect y="3.5" width="21" height="17" rx="5" fill="none" stroke="#64748b"'
    ' stroke-width="1.4" stroke-dasharray="4 3"/>'
)

# Longer texts end in an ellipsis. A wide letter, as in Chinese, counts twice.
TITLE_LETTERS = 70
NAME_LETTERS = 26
NOTE_LETTERS = 38
LABEL_LETTERS = 80

# Pixels. Heights are even, so that middles are whole.
MARGIN = 24.0
WIDTH_MIN = 360.0
HEADER = 34.0
TALLY_GAP = 16
LEGEND_LINE = 26.0
BOX_HEIGHT = 50.0
NOTE_HEIGHT = 18.0
BOX_WIDTH_MIN = 120.0
# What a letter takes in the widest usual fonts.
TITLE_LETTER = 10.6
NAME_LETTER = 8.7
STATE_LETTER = 7.2
NOTE_LETTER = 6.6
TEXT_INDENT = 40.0
TEXT_END = 14.0

# What XML forbids, other control characters, and those that turn the direction of what follows.
UNFIT = re.compile(
    "[^\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]|[\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)
# What Mermaid still finds after it has turned numbers into letters: a formula, which breaks the
# whole drawing where it is none; a new line; an icon; its own marks. A letter without width between
# the two keeps it from that.
PAIRS = re.compile(r"\$(?=\$)|\\(?=n)|:(?=fa-)|\ufb02(?=\u00b0)|\u00b6(?=\u00df)")
# Mermaid takes a title for HTML, though it shows it as text: it would show "&amp;".
MARKUP = str.maketrans("&<>", "\uff06\u2039\u203a")
# What is neither letter nor digit could be syntax to Mermaid, but for a dash and a slash between
# quotes; a direction is syntax even there.
SYNTAX = re.compile(r"[^\w /-]|_|(?<=direction) ")


def mermaid(title: str, nodes: Sequence[Node]) -> str:
    """Return a flowchart. Most renderers refuse more than 500 edges or 50,000 letters.

    Raises ValueError for a name that two jobs have, and for jobs that wait in a ring.
    """
    every = _every(nodes)
    # Who draws it decides where jobs stand; here it only refuses a ring.
    layers({node.name: node.after for node in every})
    ids = {node.name: f"n{index}" for index, node in enumerate(every)}
    head = _head(_clean(title).translate(MARKUP), every)
    # JSON is YAML as well; but to Mermaid two percent signs begin a directive wherever they are.
    told = json.dumps(head, ensure_ascii=False).replace("%", "\\u0025")
    lines = ["---", f"title: {told}", "---", "flowchart LR"]
    lines += [f"    {line}" for line in _statements(every, ids)]
    return "\n".join(lines) + "\n"


def svg(title: str, nodes: Sequence[Node]) -> str:
    """Return a whole SVG document, which refers to nothing outside itself.

    Raises ValueError for a name that two jobs have, and for jobs that wait in a ring.
    """
    every = _every(nodes)
    found = layout(
        {node.name: node.after for node in every}, {node.name: _size(node) for node in every}
    )
    inner = max(found.width, _header_width(title, every), WIDTH_MIN)
    legend, legend_height = _legend(every, inner)
    top = MARGIN + HEADER + legend_height
    width, height = inner + 2 * MARGIN, top + found.height + MARGIN
    met = {node.name for node in every if node.state == "success"}
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_px(width)}" height="{_px(height)}"',
        f' viewBox="0 0 {_px(width)} {_px(height)}" role="img" font-family="sans-serif"',
        f' aria-label="{escape(_head(_clean(title), every))}">',
        f'<rect x="0.5" y="0.5" width="{_px(width - 1)}" height="{_px(height - 1)}" rx="10"',
        f' fill="{PAPER}" stroke="#cbd5e1"/>',
        f'<g transform="translate({_px(MARGIN)} {_px(MARGIN)})">',
        _header(title, every),
        *legend,
        f'</g><g transform="translate({_px(MARGIN)} {_px(top)})">',
        *(_line(edge, found.edges[edge], MET if edge[0] in met else OPEN) for edge in found.edges),
        *(_job(node, found.boxes[node.name]) for node in every),
        "</g></svg>",
    ]
    return "\n".join(drawn) + "\n"


def _every(nodes: Sequence[Node]) -> list[Node]:
    """Return the jobs, each dependency once, and behind them those that are only waited for."""
    given: dict[str, Node] = {}
    for node in nodes:
        if node.name in given:
            raise ValueError(f"two jobs are called {node.name!r}")
        given[node.name] = replace(node, after=tuple(dict.fromkeys(node.after)))
    others = dict.fromkeys(one for node in given.values() for one in node.after)
    return [*given.values(), *(Node(one, "", ()) for one in others if one not in given)]


def _elsewhere(node: Node) -> bool:
    return "/" in node.name


def _head(title: str, every: Sequence[Node]) -> str:
    return f"{title}: {_tally(every)}" if title else _tally(every)


def _tally(every: Sequence[Node]) -> str:
    """Return how far the jobs of this graph are; those of others are not counted."""
    if not every:
        return "no jobs"
    states = [node.state for node in every if node.state and not _elsewhere(node)]
    asked = sum(state in ASKS_A_PERSON for state in states)
    waiting = f"{asked} wait{'s' if asked == 1 else ''} for a person"
    return f"{states.count('success')} of {len(states)} succeeded, {waiting}"


def _words(state: str) -> str:
    return _shortened(_clean(state.replace("_", " ")), NAME_LETTERS) or "unknown"


def _dashed(node: Node) -> bool:
    return not node.state or _elsewhere(node)


def _clean(text: str) -> str:
    """Return a text as one line that XML, YAML and a reader can take."""
    return UNFIT.sub("", " ".join(text.split()))


def _letters(text: str) -> int:
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def _shortened(text: str, letters: int) -> str:
    if _letters(text) <= letters:
        return text
    # Not more letters than these can fit, however narrow.
    kept = text[: letters - 1]
    while _letters(kept) >= letters:
        kept = kept[:-1]
    return kept.rstrip() + "…"


def _statements(every: Sequence[Node], ids: Mapping[str, str]) -> list[str]:
    if not every:
        return ['nothing["no jobs"]']
    lines = [f'{ids[node.name]}["{_label(node)}"]:::{_shape(node)}' for node in every]
    lines += [f"{ids[one]} --> {ids[node.name]}" for node in every for one in node.after]
    used = {_shape(node) for node in every}
    lines += [
        f"classDef {shape} fill:{look.fill},stroke:{look.strong},color:{look.ink}"
        for shape, look in {**LOOKS, "unknown": UNKNOWN}.items()
        if shape in used
    ]
    dashed = [ids[node.name] for node in every if _dashed(node)]
    if dashed:
        lines += ["classDef dashed stroke-dasharray:5 4", f"class {','.join(dashed)} dashed"]
    return lines


def _shape(node: Node) -> str:
    # Never a text of somebody else's: it is a word of the syntax.
    return node.state if node.state in LOOKS else "unknown"


def _label(node: Node) -> str:
    sign = LOOKS.get(node.state, UNKNOWN).sign
    return "<br/>".join(
        [
            f"{sign} {_quoted(node.name)}",
            _quoted(_words(node.state)),
            *([_quoted(node.note)] if _clean(node.note) else []),
        ]
    )


def _quoted(text: str) -> str:
    """Return a text with the numbers of its letters, which Mermaid reads after it has parsed."""
    told = PAIRS.sub("\\g<0>\u2060", _shortened(_clean(text), LABEL_LETTERS))
    return SYNTAX.sub(lambda one: f"#{ord(one[0])};", told)


def _px(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0")


def _header(title: str, every: Sequence[Node]) -> str:
    short = _shortened(_clean(title), TITLE_LETTERS)
    return (
        '<text y="14" font-size="16" font-weight="700" fill="#0f172a">'
        f"<title>{escape(_clean(title))}</title>{escape(short)}"
        f'<tspan dx="{TALLY_GAP if short else 0}" font-size="12.5" font-weight="400"'
        f' fill="#475569">{_tally(every)}</tspan></text>'
    )


def _header_width(title: str, every: Sequence[Node]) -> float:
    short = _shortened(_clean(title), TITLE_LETTERS)
    return _letters(short) * TITLE_LETTER + TALLY_GAP + _letters(_tally(every)) * STATE_LETTER


def _size(node: Node) -> tuple[float, float]:
    name, note = _shown(node)
    texts = (
        _letters(name) * NAME_LETTER,
        _letters(_words(node.state)) * STATE_LETTER,
        _letters(note) * NOTE_LETTER,
    )
    width = max(TEXT_INDENT + max(texts) + TEXT_END, BOX_WIDTH_MIN)
    return round(width), BOX_HEIGHT + (NOTE_HEIGHT if note else 0)


def _shown(node: Node) -> tuple[str, str]:
    return _shortened(_clean(node.name), NAME_LETTERS), _shortened(_clean(node.note), NOTE_LETTERS)


def _job(node: Node, box: Box) -> str:
    look = LOOKS.get(node.state, UNKNOWN)
    name, note = _shown(node)
    told = f"{_clean(node.name)}: {_words(node.state)}"
    told += f" - {_clean(node.note)}" if note else ""
    dashes = ' stroke-dasharray="5 4"' if _dashed(node) else ""
    wide = 2.4 if node.state in ASKS_A_PERSON else 1.4
    noted = f'<text x="{_px(TEXT_INDENT)}" y="56" font-size="11">{escape(note)}</text>'
    return (
        f'<g data-job="{escape(_clean(node.name))}" fill="{look.ink}"'
        f' transform="translate({_px(box.x)} {_px(box.y)})">'
        f"<title>{escape(told)}</title>"
        f'<rect width="{_px(box.width)}" height="{_px(box.height)}" rx="8" fill="{look.fill}"'
        f' stroke="{look.strong}" stroke-width="{wide}"{dashes}/>'
        f"{_badge(look, 12, 15)}"
        f'<text x="{_px(TEXT_INDENT)}" y="21" font-size="13" font-weight="700">{escape(name)}'
        "</text>"
        f'<text x="{_px(TEXT_INDENT)}" y="38" font-size="12">{escape(_words(node.state))}</text>'
        f"{noted if note else ''}</g>"
    )


def _badge(look: Look, x: float, y: float) -> str:
    return (
        f'<g transform="translate({_px(x)} {_px(y)})"><circle cx="8" cy="8" r="10"'
        f' fill="{look.strong}"/><path d="{look.icon}" fill="none" stroke="#ffffff"'
        ' stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round"/></g>'
    )


def _line(edge: Edge, points: Sequence[Point], stroke: str) -> str:
    drawn = [f"M{_px(points[0][0])} {_px(points[0][1])}"]
    for index, ((x, y), (to_x, to_y)) in enumerate(pairwise(points)):
        if index % 2 or y == to_y:
            drawn.append(f"L{_px(to_x)} {_px(to_y)}")
            continue
        bend = (x + to_x) / 2
        drawn.append(f"C{_px(bend)} {_px(y)} {_px(bend)} {_px(to_y)} {_px(to_x)} {_px(to_y)}")
    # The head of the arrow: every edge arrives from the left.
    drawn.append("m-7 -4l7 4l-7 4")
    source, target = (escape(_clean(name)) for name in edge)
    return (
        f'<path data-from="{source}" data-to="{target}" d="{"".join(drawn)}" fill="none" {stroke}/>'
    )


def _legend(every: Sequence[Node], width: float) -> tuple[list[str], float]:
    """Return the states that occur, how often, in lines of this width; and how high they are."""
    own = Counter(node.state for node in every if not _elsewhere(node))
    far = sum(_elsewhere(node) for node in every)
    states = [state for state in LOOKS if state in own]
    states += [state for state in own if state not in LOOKS]
    told = [
        (_badge(LOOKS.get(state, UNKNOWN), 2, 4), f"{_words(state)} {own[state]}")
        for state in states
    ]
    told += [(ELSEWHERE, f"in other graphs {far}")] if far else []
    drawn: list[str] = []
    x, y = 0.0, HEADER
    for swatch, text in told:
        wide = 28 + _letters(text) * STATE_LETTER + 10
        if x and x + wide > width:
            x, y = 0.0, y + LEGEND_LINE
        drawn.append(
            f'<g transform="translate({_px(x)} {_px(y - 8)})">{swatch}<text x="28" y="16"'
            f' font-size="12" fill="#334155">{escape(text)}</text></g>'
        )
        x += wide
    return drawn, (y - HEADER + LEGEND_LINE + 12) if told else 0.0
