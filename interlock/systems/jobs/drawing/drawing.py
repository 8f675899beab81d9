"""Draws a graph of jobs with their states, as Mermaid and as SVG. Pure."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape

from rich.cells import cell_len

from interlock.system.pages import Layout
from interlock.system.tables import Dependencies, shortened
from interlock.system.text import visible
from interlock.systems.jobs.machines.job.names import State


@dataclass(frozen=True, slots=True)
class DrawnJob:
    """One job of a drawing, with the names of the jobs that it depends on.

    A name with a slash is a job of another graph. The state is '' if it is not known. The note is
    shown below the state.
    """

    name: str
    state: str
    after: tuple[str, ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class JobStyle:
    """The drawing of a state: a sign in texts, an icon of 16 by 16 pixels, and three colours."""

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
QUESTION = "M5.6 6a2.4 2.4 0 1 1 3.5 2.1q-1.1 .6-1.1 1.7M8 12.6v.1"

# The order is that of a job's life, and of the legend.
# fmt: off
STATE_STYLES: Mapping[str, JobStyle] = {
    State.DRAFT:                 JobStyle("✎", PENCIL,             "#f8fafc", "#64748b", "#334155"),
    State.PENDING:               JobStyle("◷", CLOCK,              "#f1f5f9", "#475569", "#1e293b"),
    State.SUSPENDED:             JobStyle("■", "M5 5h6v6H5Z",      "#e7e5e4", "#57534e", "#292524"),
    State.RUNNING:               JobStyle("►", "M6 4l6 4-6 4Z",    "#dbeafe", "#1d4ed8", "#1e3a8a"),
    State.PAUSED:                JobStyle("‖", "M6 4v8M10 4v8",    "#cffafe", "#0e7490", "#164e63"),
    State.REVIEW_REQUIRED:       JobStyle("◉", EYE,                "#f3e8ff", "#7e22ce", "#581c87"),
    State.REVIEWING:             JobStyle("◎", LENS,               "#ede9fe", "#5b21b6", "#4c1d95"),
    State.INTERVENTION_REQUIRED: JobStyle("!", BANG,               "#ffedd5", "#c2410c", "#7c2d12"),
    State.APPROVAL_REQUIRED:     JobStyle("☺", PERSON,             "#fef3c7", "#a16207", "#713f12"),
    State.SUCCESS:               JobStyle("✓", "M3.6 8.6l3 3 6-7", "#dcfce7", "#15803d", "#14532d"),
    State.CANCELED:              JobStyle("⊘", "M4 12L12 4",       "#e5e7eb", "#4b5563", "#1f2937"),
    State.FAILED:                JobStyle("✗", CROSS,              "#fee2e2", "#b91c1c", "#7f1d1d"),
}
UNKNOWN_STYLE = JobStyle("?", QUESTION, "#ffffff", "#64748b", "#334155")
# fmt: on
WAITS_FOR_PERSON = {State.APPROVAL_REQUIRED, State.INTERVENTION_REQUIRED}

# An edge from a job that has succeeded, and from one that has not.
MET_STROKE = 'stroke="#15803d" stroke-width="1.8"'
OPEN_STROKE = 'stroke="#94a3b8" stroke-width="1.4"'
BACKGROUND = "#ffffff"
# The style of a job of another graph in the legend.
OTHER_GRAPH_SWATCH = (
    '<rect y="3.5" width="21" height="17" rx="5" fill="none" stroke="#64748b"'
    ' stroke-width="1.4" stroke-dasharray="4 3"/>'
)

# Longer texts end in an ellipsis. A wide letter, for example a Chinese one, counts as two.
TITLE_LETTERS = 70
NAME_LETTERS = 26
NOTE_LETTERS = 38
LABEL_LETTERS = 80

# Pixels. Heights are even, so that the middle of a box is a whole number.
MARGIN = 24.0
WIDTH_MIN = 360.0
HEADER = 34.0
TALLY_GAP = 16
LEGEND_LINE = 26.0
BOX_HEIGHT = 50.0
NOTE_HEIGHT = 18.0
BOX_WIDTH_MIN = 120.0
# The width of a letter in the widest of the usual fonts.
TITLE_LETTER = 10.6
NAME_LETTER = 8.7
STATE_LETTER = 7.2
NOTE_LETTER = 6.6
TEXT_INDENT = 40.0
TEXT_END = 14.0

# The visible characters that XML forbids.
UNDRAWABLE = re.compile("[\ufffe\uffff]")
# Pairs of characters that Mermaid interprets even if they are written as numbers: a formula (one
# that is invalid breaks the whole drawing), a new line, an icon, and its internal marks. A letter
# without width between the two characters prevents that.
MERMAID_PAIRS = re.compile(r"\$(?=\$)|\\(?=n)|:(?=fa-)|\ufb02(?=\u00b0)|\u00b6(?=\u00df)")
# Mermaid escapes a title as HTML but shows it as text, so that "&" would become "&amp;".
MARKUP = str.maketrans("&<>", "\uff06\u2039\u203a")
# Between quotes, Mermaid may read anything except letters, digits, dash and slash as syntax, and
# also the word "direction" with a space after it.
SYNTAX = re.compile(r"[^\w /-]|_|(?<=direction) ")


def mermaid(title: str, jobs: Sequence[DrawnJob]) -> str:
    """Return a Mermaid flowchart. Most renderers refuse more than 500 edges or 50,000 letters.

    Raises ValueError if two jobs have the same name, and for a cycle of jobs.
    """
    all_jobs = _all_jobs(jobs)
    # The renderer places the jobs; of a cycle, `Layout.of` would say the same.
    if cycles := Dependencies({job.name: job.after for job in all_jobs}).cycles():
        raise ValueError(f"{cycles[0][0]!r} waits for itself")
    ids = {job.name: f"n{index}" for index, job in enumerate(all_jobs)}
    head = _title_and_tally(_clean(title).translate(MARKUP), all_jobs)
    # JSON is valid YAML. Two percent signs would begin a Mermaid directive anywhere in the text.
    quoted = json.dumps(head, ensure_ascii=False).replace("%", "\\u0025")
    lines = ["---", f"title: {quoted}", "---", "flowchart LR"]
    lines += [f"    {line}" for line in _statements(all_jobs, ids)]
    return "\n".join(lines) + "\n"


def svg(title: str, jobs: Sequence[DrawnJob]) -> str:
    """Return a complete SVG document that refers to nothing outside of it.

    Raises ValueError if two jobs have the same name, and for a cycle of jobs.
    """
    all_jobs = _all_jobs(jobs)
    found = Layout.of(
        {job.name: job.after for job in all_jobs}, {job.name: _size(job) for job in all_jobs}
    )
    inner = max(found.width, _header_width(title, all_jobs), WIDTH_MIN)
    legend, legend_height = _svg_legend(all_jobs, inner)
    top = MARGIN + HEADER + legend_height
    width, height = inner + 2 * MARGIN, top + found.height + MARGIN
    met = {job.name for job in all_jobs if job.state == State.SUCCESS}
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_px(width)}" height="{_px(height)}"',
        f' viewBox="0 0 {_px(width)} {_px(height)}" role="img" font-family="sans-serif"',
        f' aria-label="{escape(_title_and_tally(_clean(title), all_jobs))}">',
        f'<rect x="0.5" y="0.5" width="{_px(width - 1)}" height="{_px(height - 1)}" rx="10"',
        f' fill="{BACKGROUND}" stroke="#cbd5e1"/>',
        f'<g transform="translate({_px(MARGIN)} {_px(MARGIN)})">',
        _svg_header(title, all_jobs),
        *legend,
        f'</g><g transform="translate({_px(MARGIN)} {_px(top)})">',
        *(
            _svg_edge(found, edge, MET_STROKE if edge[0] in met else OPEN_STROKE)
            for edge in found.edges
        ),
        *(_svg_job(job, found) for job in all_jobs),
        "</g></svg>",
    ]
    return "\n".join(drawn) + "\n"


def _px(length: float) -> str:
    return f"{length:.1f}".removesuffix(".0")


def _all_jobs(jobs: Sequence[DrawnJob]) -> list[DrawnJob]:
    """Return the jobs, each with its dependencies once, then those that only others name."""
    named: dict[str, DrawnJob] = {}
    for job in jobs:
        if job.name in named:
            raise ValueError(f"two jobs are called {job.name!r}")
        named[job.name] = replace(job, after=tuple(dict.fromkeys(job.after)))
    others = dict.fromkeys(other for job in named.values() for other in job.after)
    return [*named.values(), *(DrawnJob(other, "", ()) for other in others if other not in named)]


def _in_other_graph(job: DrawnJob) -> bool:
    return "/" in job.name


def _title_and_tally(title: str, all_jobs: Sequence[DrawnJob]) -> str:
    return f"{title}: {_tally(all_jobs)}" if title else _tally(all_jobs)


def _tally(all_jobs: Sequence[DrawnJob]) -> str:
    """Return how many jobs of this graph have succeeded, and how many wait for a person."""
    if not all_jobs:
        return "no jobs"
    states = [job.state for job in all_jobs if job.state and not _in_other_graph(job)]
    waiting = sum(state in WAITS_FOR_PERSON for state in states)
    waits = f"{waiting} wait{'s' if waiting == 1 else ''} for a person"
    return f"{states.count(State.SUCCESS)} of {len(states)} succeeded, {waits}"


def _state_label(state: str) -> str:
    return shortened(_clean(state.replace("_", " ")), NAME_LETTERS) or "unknown"


def _dashed(job: DrawnJob) -> bool:
    return not job.state or _in_other_graph(job)


def _clean(text: str) -> str:
    """Return a text as one line that is valid in XML and YAML and readable."""
    return UNDRAWABLE.sub("", visible(" ".join(text.split())))


def _statements(all_jobs: Sequence[DrawnJob], ids: Mapping[str, str]) -> list[str]:
    if not all_jobs:
        return ['nothing["no jobs"]']
    lines = [f'{ids[job.name]}["{_label(job)}"]:::{_shape(job)}' for job in all_jobs]
    lines += [f"{ids[other]} --> {ids[job.name]}" for job in all_jobs for other in job.after]
    used = {_shape(job) for job in all_jobs}
    lines += [
        f"classDef {shape} fill:{style.fill},stroke:{style.strong},color:{style.ink}"
        for shape, style in {**STATE_STYLES, "unknown": UNKNOWN_STYLE}.items()
        if shape in used
    ]
    dashed = [ids[job.name] for job in all_jobs if _dashed(job)]
    if dashed:
        lines += ["classDef dashed stroke-dasharray:5 4", f"class {','.join(dashed)} dashed"]
    return lines


def _shape(job: DrawnJob) -> str:
    # This becomes a word of the syntax, so that only known states may be used.
    return job.state if job.state in STATE_STYLES else "unknown"


def _label(job: DrawnJob) -> str:
    sign = STATE_STYLES.get(job.state, UNKNOWN_STYLE).sign
    return "<br/>".join(
        [
            f"{sign} {_quoted(job.name)}",
            _quoted(_state_label(job.state)),
            *([_quoted(job.note)] if _clean(job.note) else []),
        ]
    )


def _quoted(text: str) -> str:
    """Return a text in which syntax is written as numbers, which Mermaid decodes after parsing."""
    parted = MERMAID_PAIRS.sub("\\g<0>\u2060", shortened(_clean(text), LABEL_LETTERS))
    return SYNTAX.sub(lambda found: f"#{ord(found[0])};", parted)


def _svg_header(title: str, all_jobs: Sequence[DrawnJob]) -> str:
    short = shortened(_clean(title), TITLE_LETTERS)
    return (
        '<text y="14" font-size="16" font-weight="700" fill="#0f172a">'
        f"<title>{escape(_clean(title))}</title>{escape(short)}"
        f'<tspan dx="{TALLY_GAP if short else 0}" font-size="12.5" font-weight="400"'
        f' fill="#475569">{_tally(all_jobs)}</tspan></text>'
    )


def _header_width(title: str, all_jobs: Sequence[DrawnJob]) -> float:
    short = shortened(_clean(title), TITLE_LETTERS)
    return cell_len(short) * TITLE_LETTER + TALLY_GAP + cell_len(_tally(all_jobs)) * STATE_LETTER


def _size(job: DrawnJob) -> tuple[float, float]:
    name, note = _shown_texts(job)
    texts = (
        cell_len(name) * NAME_LETTER,
        cell_len(_state_label(job.state)) * STATE_LETTER,
        cell_len(note) * NOTE_LETTER,
    )
    width = max(TEXT_INDENT + max(texts) + TEXT_END, BOX_WIDTH_MIN)
    return round(width), BOX_HEIGHT + (NOTE_HEIGHT if note else 0)


def _shown_texts(job: DrawnJob) -> tuple[str, str]:
    return shortened(_clean(job.name), NAME_LETTERS), shortened(_clean(job.note), NOTE_LETTERS)


def _svg_job(job: DrawnJob, layout: Layout) -> str:
    box = layout.boxes[job.name]
    style = STATE_STYLES.get(job.state, UNKNOWN_STYLE)
    name, note = _shown_texts(job)
    tooltip = f"{_clean(job.name)}: {_state_label(job.state)}"
    tooltip += f" - {_clean(job.note)}" if note else ""
    state = escape(_state_label(job.state))
    dashes = ' stroke-dasharray="5 4"' if _dashed(job) else ""
    stroke_width = 2.4 if job.state in WAITS_FOR_PERSON else 1.4
    noted = f'<text x="{_px(TEXT_INDENT)}" y="56" font-size="11">{escape(note)}</text>'
    return (
        f'<g data-job="{escape(_clean(job.name))}" fill="{style.ink}"'
        f' transform="translate({_px(box.x)} {_px(box.y)})">'
        f"<title>{escape(tooltip)}</title>"
        f'<rect width="{_px(box.width)}" height="{_px(box.height)}" rx="8" fill="{style.fill}"'
        f' stroke="{style.strong}" stroke-width="{stroke_width}"{dashes}/>'
        f"{_svg_badge(style, 12, 15)}"
        f'<text x="{_px(TEXT_INDENT)}" y="21" font-size="13" font-weight="700">{escape(name)}'
        "</text>"
        f'<text x="{_px(TEXT_INDENT)}" y="38" font-size="12">{state}</text>'
        f"{noted if note else ''}</g>"
    )


def _svg_badge(style: JobStyle, x: float, y: float) -> str:
    return (
        f'<g transform="translate({_px(x)} {_px(y)})"><circle cx="8" cy="8" r="10"'
        f' fill="{style.strong}"/><path d="{style.icon}" fill="none" stroke="#ffffff"'
        ' stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round"/></g>'
    )


def _svg_edge(layout: Layout, edge: tuple[str, str], stroke: str) -> str:
    source, target = (escape(_clean(name)) for name in edge)
    ends = f'data-from="{source}" data-to="{target}"'
    return f'<path {ends} d="{layout.path(edge)}" fill="none" {stroke}/>'


def _svg_legend(all_jobs: Sequence[DrawnJob], width: float) -> tuple[list[str], float]:
    """Return the elements of the legend in lines of this width, and the height of the lines.

    The legend has each state that occurs, with the number of jobs in it.
    """
    own = Counter(job.state for job in all_jobs if not _in_other_graph(job))
    others = sum(_in_other_graph(job) for job in all_jobs)
    states = [state for state in STATE_STYLES if state in own]
    states += [state for state in own if state not in STATE_STYLES]
    entries = [
        (
            _svg_badge(STATE_STYLES.get(state, UNKNOWN_STYLE), 2, 4),
            f"{_state_label(state)} {own[state]}",
        )
        for state in states
    ]
    entries += [(OTHER_GRAPH_SWATCH, f"in other graphs {others}")] if others else []
    drawn: list[str] = []
    x, y = 0.0, HEADER
    for swatch, text in entries:
        wide = 28 + cell_len(text) * STATE_LETTER + 10
        if x and x + wide > width:
            x, y = 0.0, y + LEGEND_LINE
        drawn.append(
            f'<g transform="translate({_px(x)} {_px(y - 8)})">{swatch}<text x="28" y="16"'
            f' font-size="12" fill="#334155">{escape(text)}</text></g>'
        )
        x += wide
    return drawn, (y - HEADER + LEGEND_LINE + 12) if entries else 0.0
