"""Draws a machine as a picture that is legible on light and dark pages."""

from __future__ import annotations

from html import escape

from interlock.kernel.machine import Machine
from interlock.workers.console.diagram import HEIGHT, WIDTH, diagram_of

FILL = {"active": "#dbeafe", "waiting": "#fef3c7", "terminal": "#e5e7eb"}
LINE, INK = "#8b93a1", "#1f2937"


def machine_svg(machine: Machine) -> str:
    """Return an SVG document: boxes for states, and arrows whose titles name their triggers."""
    shown = diagram_of(machine)
    width, height = f"{shown.width:g}", f"{shown.height:g}"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"',
        f' width="{width}" height="{height}" font-family="sans-serif">',
        '<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"',
        f' orient="auto"><path d="M0 0L8 4L0 8z" fill="{LINE}"/></marker>',
    ]
    lines += [
        f'<path d="{arrow.path}" fill="none" stroke="{LINE}" marker-end="url(#head)">'
        f"<title>{escape(arrow.text)}</title></path>"
        for arrow in shown.arrows
    ]
    for node in shown.nodes:
        radius = HEIGHT / 2 if node.kind == "terminal" else 6
        lines.append(
            f'<g transform="translate({node.x:g} {node.y:g})">'
            f'<rect width="{WIDTH:g}" height="{HEIGHT:g}" rx="{radius:g}"'
            f' fill="{FILL[node.kind]}" stroke="{LINE}"/>'
        )
        lines += [
            f'<text x="12" y="{27 + (2 * at - len(node.lines) + 1) * 7:g}" font-size="13"'
            f' fill="{INK}">{escape(text)}</text>'
            for at, text in enumerate(node.lines)
        ]
        lines.append("</g>")
    return "\n".join([*lines, "</svg>", ""])
