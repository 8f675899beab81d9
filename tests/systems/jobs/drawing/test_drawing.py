"""Drawings of graphs: every job and edge is in them, whatever its texts are."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import combinations, pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from interlock.systems.jobs.drawing.drawing import (
    BACKGROUND,
    STATE_STYLES,
    UNKNOWN_STYLE,
    DrawnJob,
    JobStyle,
    mermaid,
    svg,
)
from interlock.workers import layout as layouts
from interlock.workers.layout import (
    Box,
    Graph,
    Layout,
    Waypoint,
    crossings,
    layers,
    ordered,
)
from tests.any_text import any_text

SPACE = "{http://www.w3.org/2000/svg}"
SIZE = (120.0, 50.0)
MANY = 10_000
NASTY = (
    '"]; click n0 call alert()',
    "</text><script>alert(1)</script>",
    "a & b < c > d 'e' \"f\" `g` #35; &amp;",
    "%%{init: {'theme': 'dark'}}%%",
    "\x00\x08\x1b[31m\ud800\ufffe\u202e",
    "one\ntwo\r\n---\nflowchart TB\u2028end",
    "- [link](javascript:alert(1)) **x** __y__ $$z$$ \\new fa:fa-ban",
    "]]> --> n1 :::failed direction TB subgraph end",
    "漢字 é 🚀 a\u0301",
    "'; style: #fff; classDef x:#fff;",
)
ELEMENTS = {"svg", "g", "rect", "circle", "path", "text", "tspan", "title"}
LETTERS = "abcXYZ019._~-"


@st.composite
def graphs(draw: st.DrawFn) -> list[DrawnJob]:
    names = draw(st.lists(st.text(LETTERS, min_size=1, max_size=9), unique=True, max_size=14))
    far = ["other/job", "far/away"]
    nodes = []
    for index, name in enumerate(names):
        after = draw(st.lists(st.sampled_from([*names[:index], *far]), max_size=4))
        state = draw(st.sampled_from([*STATE_STYLES, "", "brand_new"]))
        nodes.append(DrawnJob(name, state, tuple(after), draw(st.sampled_from(["", *NASTY]))))
    return draw(st.permutations(nodes))


def names_in(nodes: Sequence[DrawnJob]) -> list[str]:
    others = {one for node in nodes for one in node.after}
    return sorted({node.name for node in nodes} | others)


def edges_in(nodes: Sequence[DrawnJob]) -> list[tuple[str, str]]:
    return sorted({(one, node.name) for node in nodes for one in node.after})


def graph_of(nodes: Sequence[DrawnJob]) -> Graph:
    others: Graph = dict.fromkeys(names_in(nodes), ())
    return {**others, **{node.name: sorted(set(node.after)) for node in nodes}}


def drawn(nodes: Sequence[DrawnJob], title: str = "a title") -> ET.Element:
    return ET.fromstring(svg(title, nodes))  # noqa: S314 - the text is our own


def texts(element: ET.Element) -> list[str]:
    return ["".join(one.itertext()) for one in element.iter(f"{SPACE}text")]


def job(root: ET.Element, name: str) -> ET.Element:
    (found,) = (one for one in root.iter(f"{SPACE}g") if one.get("data-job") == name)
    return found


def tooltip(element: ET.Element) -> str:
    return element.findtext(f"{SPACE}title") or ""


def border(element: ET.Element) -> ET.Element:
    found = element.find(f"{SPACE}rect")
    assert found is not None
    return found


def boxes(root: ET.Element) -> dict[str, Box]:
    found = {}
    for group in (one for one in root.iter(f"{SPACE}g") if "data-job" in one.attrib):
        x, y = map(float, re.findall(r"-?[\d.]+", group.attrib["transform"]))
        rect = border(group)
        wide, high = float(rect.attrib["width"]), float(rect.attrib["height"])
        found[group.attrib["data-job"]] = Box(x, y, wide, high)
    return found


def lines(root: ET.Element) -> list[ET.Element]:
    return [one for one in root.iter(f"{SPACE}path") if "data-from" in one.attrib]


def unquoted(text: str) -> str:
    """Return a label as Mermaid decodes it."""
    plain = re.sub(r"#(\d+);", lambda number: chr(int(number[1])), text)
    return plain.replace("\u2060", "")


def read(text: str) -> tuple[str, dict[str, list[str]], list[tuple[str, str]], str]:
    """Return the title of a flowchart, its labels by id, its edges, and the remaining lines."""
    head = re.match(r'---\ntitle: (".*")\n---\nflowchart LR\n', text)
    assert head
    title = json.loads(head[1])
    assert yaml.safe_load(f"title: {head[1]}") == {"title": title}
    body = text[head.end() :]
    node = re.compile(r'    (n\d+)\["([^"]*)"\]:::[a-z_]+\n')
    edge = re.compile(r"    (n\d+) --> (n\d+)\n")
    rest = edge.sub("", node.sub("", body))
    labels = {key: label.split("<br/>") for key, label in node.findall(body)}
    assert len(labels) == len(node.findall(body))
    return title, labels, edge.findall(body), rest


@given(nodes=graphs(), title=any_text() | st.sampled_from(NASTY))
def test_every_job_and_every_edge_is_in_the_svg_once(nodes: list[DrawnJob], title: str) -> None:
    root = drawn(nodes, title)

    jobs = [one.attrib["data-job"] for one in root.iter(f"{SPACE}g") if "data-job" in one.attrib]
    assert sorted(jobs) == names_in(nodes)
    found = [(one.attrib["data-from"], one.attrib["data-to"]) for one in lines(root)]
    assert sorted(found) == edges_in(nodes)


@given(nodes=graphs(), title=any_text() | st.sampled_from(NASTY))
def test_every_job_and_every_edge_is_in_the_flowchart_once(
    nodes: list[DrawnJob], title: str
) -> None:
    _, labels, edges, rest = read(mermaid(title, nodes))

    names = {key: unquoted(label[0]).split(" ", 1)[1] for key, label in labels.items()}
    assert sorted(names.values()) == names_in(nodes)
    assert sorted((names[one], names[other]) for one, other in edges) == edges_in(nodes)
    if nodes:
        assert re.fullmatch(r"(    (classDef|class) [a-z_]+[\w ,:#-]*\n)+", rest)


@given(nodes=graphs())
def test_all_boxes_are_in_the_drawing_and_no_two_overlap(nodes: list[DrawnJob]) -> None:
    root = drawn(nodes)
    found = boxes(root)

    for box in found.values():
        assert min(box.x, box.y) >= 0
        assert box.x + box.width < float(root.attrib["width"])
        assert box.y + box.height < float(root.attrib["height"])
    for one, other in combinations(found.values(), 2):
        apart_x = one.x + one.width < other.x or other.x + other.width < one.x
        apart_y = one.y + one.height < other.y or other.y + other.height < one.y
        assert apart_x or apart_y


@given(nodes=graphs())
def test_every_edge_leaves_on_the_right_and_arrives_on_the_left_of_a_later_layer(
    nodes: list[DrawnJob],
) -> None:
    root = drawn(nodes)
    found = boxes(root)
    layer = layers(graph_of(nodes))
    for line in lines(root):
        source, target = (found[line.attrib[f"data-{end}"]] for end in ("from", "to"))
        way = line.attrib["d"].removesuffix("m-7 -4l7 4l-7 4")
        numbers = [float(number) for number in re.findall(r"-?[\d.]+", way)]

        assert layer[line.attrib["data-from"]] < layer[line.attrib["data-to"]]
        assert numbers[:2] == [source.x + source.width, source.y + source.height / 2]
        assert numbers[-2:] == [target.x, target.y + target.height / 2]
        assert numbers[::2] == sorted(numbers[::2]), "it never turns back"


def inside(graph: Graph) -> list[str]:
    """Return the edges that run through a box."""
    found = Layout.of(graph, dict.fromkeys(graph, SIZE))
    faults = []
    for edge, points in found.edges.items():
        for (x, y), (to_x, to_y) in pairwise(points):
            low, high = sorted((y, to_y))
            faults += [
                f"{edge} through {name}"
                for name, box in found.boxes.items()
                if x < box.x + box.width and box.x < to_x
                if low < box.y + box.height and box.y < high
            ]
    return faults


@given(nodes=graphs())
def test_no_edge_runs_through_a_box(nodes: list[DrawnJob]) -> None:
    assert not inside(graph_of(nodes))


def test_when_bends_are_used_up_the_longest_edges_are_straight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    graph: Graph = {"a": [], "b": ["a"], "c": ["b", "a"], "d": ["c", "b", "a"]}
    assert not inside(graph)

    monkeypatch.setattr(layouts, "BENDS_MAX", 2)
    found = Layout.of(graph, dict.fromkeys(graph, SIZE))

    ends = {edge: len(points) for edge, points in found.edges.items()}
    assert ends[("a", "c")] == ends[("b", "d")] == 4
    assert ends[("a", "d")] == 2
    assert inside(graph)


@given(
    links=st.sets(
        st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(0, 4)), min_size=5, max_size=30
    )
)
@example(links={(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1), (0, 2, 2), (1, 2, 0), (1, 2, 1)})
def test_the_order_has_never_more_crossings_than_the_one_given(
    links: set[tuple[int, int, int]],
) -> None:
    columns = [[Waypoint(str(row), layer, lane=False) for row in range(5)] for layer in range(4)]
    before: dict[Waypoint, list[Waypoint]] = {}
    behind: dict[Waypoint, list[Waypoint]] = {}
    for layer, row, other in sorted(links):
        one, two = columns[layer][row], columns[layer + 1][other]
        before.setdefault(two, []).append(one)
        behind.setdefault(one, []).append(two)

    found = ordered(columns, before, behind)
    assert crossings(found, behind) <= crossings(columns, behind)
    assert [sorted(one) for one in found] == columns


def test_jobs_are_placed_near_their_dependencies() -> None:
    tops = [Waypoint(f"a{index}", 0, lane=False) for index in range(9)]
    ends = [Waypoint(f"b{index}", 1, lane=False) for index in range(9)]
    behind = {one: [other] for one, other in zip(tops, reversed(ends), strict=True)}
    before = {other: [one] for one, (other,) in behind.items()}
    assert crossings([tops, ends], behind) == 36

    found = ordered([tops, ends], before, behind)
    assert crossings(found, behind) == 0


@pytest.mark.parametrize("nasty", NASTY)
def test_no_text_gets_out_of_its_place_in_the_svg(nasty: str) -> None:
    root = drawn([DrawnJob("a", "success", (), nasty), DrawnJob("b", nasty, ("a",))], nasty)

    assert {one.tag.removeprefix(SPACE) for one in root.iter()} <= ELEMENTS
    plain = drawn([DrawnJob("a", "success", (), "x"), DrawnJob("b", "brand_new", ("a",))], "x")
    assert [one.tag for one in root.iter()] == [one.tag for one in plain.iter()]
    assert [sorted(one.attrib) for one in root.iter()] == [
        sorted(one.attrib) for one in plain.iter()
    ]


@pytest.mark.parametrize("nasty", NASTY)
def test_no_text_gets_out_of_its_place_in_the_flowchart(nasty: str) -> None:
    text = mermaid(nasty, [DrawnJob("a", "success", (), nasty), DrawnJob("b", nasty, ("a",))])
    _, labels, edges, rest = read(text)

    assert (list(labels), edges) == (["n0", "n1"], [("n0", "n1")])
    assert rest.splitlines() == [
        "    classDef success fill:#dcfce7,stroke:#15803d,color:#14532d",
        "    classDef unknown fill:#ffffff,stroke:#64748b,color:#334155",
    ]
    for label in labels.values():
        for line in label[1:]:
            assert not re.search(r"[^\w #;/-]|_|direction\s", line)


def test_a_flowchart_shows_texts_as_they_were_written() -> None:
    note = 'wants "a" & <b>, 50% of #35; in [c] (d) {e}; é 漢'
    _, labels, _, _ = read(mermaid("x", [DrawnJob("a-b.c_d~e", "review_required", (), note)]))

    assert [unquoted(line) for line in labels["n0"]] == ["◉ a-b.c_d~e", "review required", note]


@pytest.mark.parametrize("pair", ["$$", "\\n", ":fa-", "\ufb02\u00b0", "\u00b6\u00df"])
def test_pairs_that_mermaid_interprets_after_parsing_are_parted(pair: str) -> None:
    _, labels, _, _ = read(mermaid("x", [DrawnJob("a", "draft", (), f"fa{pair}{pair}x")]))

    plain = re.sub(r"#(\d+);", lambda number: chr(int(number[1])), labels["n0"][2])
    assert pair not in plain
    assert unquoted(plain) == f"fa{pair}{pair}x"


def test_a_title_begins_no_directive_and_no_markup() -> None:
    text = mermaid('%%{init: {"theme": "dark"}}%% R&D <b>\n---\nx', [])

    assert "%" not in text
    title, *_ = read(text)
    assert title == '%%{init: {"theme": "dark"}}%% R\uff06D \u2039b\u203a --- x: no jobs'


def test_an_empty_graph_says_so() -> None:
    assert texts(drawn([], "nothing")) == ["nothingnothingno jobs"]
    assert mermaid("nothing", []).splitlines()[-1] == '    nothing["no jobs"]'


@pytest.mark.parametrize("draw", [svg, mermaid])
@pytest.mark.parametrize("length", [1, 2, 5])
def test_a_cycle_is_refused_and_one_of_its_jobs_named(
    draw: Callable[[str, Sequence[DrawnJob]], str], length: int
) -> None:
    cycle = [DrawnJob(f"r{index}", "", (f"r{(index + 1) % length}",)) for index in range(length)]
    behind = DrawnJob("behind", "", ("r0",))

    with pytest.raises(ValueError, match=r"^'r\d' waits for itself$"):
        draw("x", [behind, *cycle])


@pytest.mark.parametrize("draw", [svg, mermaid])
def test_two_jobs_of_one_name_are_refused(draw: Callable[[str, Sequence[DrawnJob]], str]) -> None:
    with pytest.raises(ValueError, match=r"^two jobs are called 'a'$"):
        draw("x", [DrawnJob("a", "", ()), DrawnJob("a", "draft", ())])


def test_a_job_that_is_only_a_dependency_is_unknown_and_dashed() -> None:
    nodes = [DrawnJob("a", "pending", ("other/x", "b")), DrawnJob("far/c", "success", ())]
    root = drawn(nodes)

    for name in ("other/x", "b"):
        assert "stroke-dasharray" in border(job(root, name)).attrib
        assert texts(job(root, name)) == [name, "unknown"]
    assert "stroke-dasharray" in border(job(root, "far/c")).attrib
    assert "stroke-dasharray" not in border(job(root, "a")).attrib
    assert "    class n1,n2,n3 dashed\n" in mermaid("x", nodes)


def test_the_header_counts_the_jobs_of_this_graph() -> None:
    nodes = [
        DrawnJob("a", "success", ()),
        DrawnJob("b", "approval_required", ("a", "far/x", "near")),
        DrawnJob("far/x", "success", ()),
    ]
    plain = "1 of 2 succeeded, 1 waits for a person"

    assert read(mermaid("t", nodes))[0] == f"t: {plain}"
    assert drawn(nodes, "t").attrib["aria-label"] == f"t: {plain}"
    assert texts(drawn(nodes, "t"))[0].endswith(plain)
    nodes += [DrawnJob("c", "intervention_required", ())]
    assert read(mermaid("t", nodes))[0] == "t: 1 of 3 succeeded, 2 wait for a person"


def test_the_legend_says_which_states_occur_and_how_often() -> None:
    nodes = [
        DrawnJob("a", "failed", ()),
        DrawnJob("b", "draft", ()),
        DrawnJob("c", "failed", ("far/x", "near")),
        DrawnJob("d", "brand_new", ()),
    ]

    assert texts(drawn(nodes))[1:6] == [
        "draft 1",
        "failed 2",
        "brand new 1",
        "unknown 1",
        "in other graphs 1",
    ]


def test_long_texts_are_shortened_and_are_whole_in_the_tooltip() -> None:
    name, note = "n" * 100, "漢" * 100
    box = job(drawn([DrawnJob(name, "success", (), note)]), name)

    short, state, noted = texts(box)
    assert (short, state, noted) == (
        "n" * 13 + "…" + "n" * 12,
        "success",
        "漢" * 9 + "…" + "漢" * 9,
    )
    assert tooltip(box) == f"{name}: success - {note}"


def test_hidden_characters_are_escapes_and_lines_are_one() -> None:
    box = job(drawn([DrawnJob("a", "failed", (), "x\x00\x1b[31m\n\u202ey\ud800\t z\ufffe")]), "a")

    assert texts(box) == ["a", "failed", r"x\x00\x1b[31m \u202ey\ud800 z"]


def luminance(colour: str) -> float:
    parts = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("look", [*STATE_STYLES.values(), UNKNOWN_STYLE])
def test_every_state_can_be_read(look: JobStyle) -> None:
    assert contrast(look.ink, look.fill) >= 7
    assert contrast(look.strong, "#ffffff") >= 4.5, "the icon in its badge"
    assert contrast(look.strong, BACKGROUND) >= 3, "the border"


def test_colour_is_never_the_only_signal() -> None:
    looks = [*STATE_STYLES.values(), UNKNOWN_STYLE]

    assert len({look.sign for look in looks}) == len({look.icon for look in looks}) == len(looks)
    for state in STATE_STYLES:
        words = state.replace("_", " ")
        assert texts(job(drawn([DrawnJob("a", state, ())]), "a")) == ["a", words]
        assert read(mermaid("x", [DrawnJob("a", state, ())]))[1]["n0"][1] == words


def layered(wide: int) -> list[DrawnJob]:
    return [
        DrawnJob(
            f"j{at}", "pending", tuple(f"j{at - wide - at % wide + i % wide}" for i in (at, at + 7))
        )
        if at >= wide
        else DrawnJob(f"j{at}", "success", ())
        for at in range(MANY)
    ]


def chained(*, also: str) -> list[DrawnJob]:
    first = [DrawnJob("j0", "success", ())]
    return first + [
        DrawnJob(f"j{at}", "draft", (f"j{at - 1}", also or f"j{at - 1}")) for at in range(1, MANY)
    ]


@pytest.mark.parametrize(
    "nodes",
    [layered(100), layered(2500), chained(also=""), chained(also="j0")],
    ids=["layers", "wide layers", "chain", "chain with far edges"],
)
@pytest.mark.proof
def test_ten_thousand_jobs_are_drawn(nodes: list[DrawnJob]) -> None:
    root = drawn(nodes)

    assert len(boxes(root)) == MANY
    assert len(lines(root)) == len(edges_in(nodes))
    assert mermaid("many", nodes).count(" --> ") == len(edges_in(nodes))


def test_the_same_graph_is_drawn_the_same_in_every_process() -> None:
    code = (
        "from interlock.systems.jobs.drawing.drawing import DrawnJob, mermaid, svg\n"
        "jobs = [DrawnJob(f'j{i}', 'draft', tuple(f'j{k}' for k in range(i) if i * k % 5 == 1))"
        " for i in range(25)]\n"
        "print(svg('x', jobs), mermaid('x', jobs))"
    )
    root = Path(__file__).parents[4]
    plain = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONIOENCODING": "utf-8"},
            cwd=root,
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]

    assert plain[0] == plain[1]
    assert plain[0].count(b"data-job=") == 25
