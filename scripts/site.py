"""Builds the site of the documents into interlock/site: `make docs`, or `python -m scripts.site`.

It fails for a link that leads to no page, heading or file, and for a page that zensical.toml does
not name.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from interlock.kernel.machines import LISTED
from interlock.systems import NAMES
from interlock.workers.console.docs_site import SITE
from interlock.workers.engine.own_systems import add_systems
from scripts.machine_svg import machine_svg

ROOT = Path(__file__).absolute().parent.parent
CONFIG, IMAGES, STYLE = "zensical.toml", "docs/images", "docs/site.css"
# A picture or a link, but not one in a block of code: `code` then has the whole block.
CODE = r"(?P<code>^```.*?^```$)"
LINK = re.compile(CODE + r"|\[(?P<text>[^\]]*)\]\((?P<to>[^)\s]+)\)", re.MULTILINE | re.DOTALL)
ELSEWHERE = re.compile(r"#|[a-z]+:")
DRAWING = re.compile(r"^## (\w+)\n(.*?)```mermaid\n.*?```$", re.MULTILINE | re.DOTALL)
COLOURS = re.compile(r"\x1b\[[\d;]*m")
SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


def main() -> int:
    """Build the site. Return 1 if something is wrong."""
    add_systems(NAMES, ROOT)
    pages = tuple(pages_of((ROOT / CONFIG).read_text("utf-8")))
    faults = list(faults_of(ROOT, pages))
    for fault in faults:
        sys.stderr.write(f"{fault}\n")
    if faults:
        return 1
    with TemporaryDirectory() as name:
        folder = Path(name)
        gather(ROOT, folder / "pages", pages)
        shutil.copy(ROOT / CONFIG, folder)
        built = subprocess.run(
            [sys.executable, "-m", "zensical", "build", "--strict"],
            cwd=folder,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if built.returncode:
            sys.stderr.write(COLOURS.sub("", built.stdout).partition("Traceback")[0])
            return 1
        (folder / "site" / "404.html").unlink()  # its links hold at the root of a server only
        move_scripts_into_files(folder / "site")
        shutil.rmtree(SITE, ignore_errors=True)
        shutil.copytree(folder / "site", SITE)
    return 0


def pages_of(config: str) -> Iterator[str]:
    """Yield the pages that the navigation of the site names."""
    for section in tomllib.loads(config)["project"]["nav"]:
        for pages in section.values():
            yield from pages


def faults_of(root: Path, pages: Iterable[str]) -> Iterator[str]:
    """Yield what is wrong: pages without a place, and links that lead to no file."""
    named = set(pages)
    for page in sorted(root.glob("docs/*.md")):
        if (name := page.relative_to(root).as_posix()) not in named:
            yield f"{name}: name it in the navigation of {CONFIG}"
    for name in sorted(named):
        for link in LINK.finditer((root / name).read_text("utf-8")):
            to = (link["to"] or "#").partition("#")[0]
            if to and not ELSEWHERE.match(to) and not (root / name).parent.joinpath(to).exists():
                yield f"{name}: the link to {to} leads to nothing"


def gather(root: Path, folder: Path, pages: Iterable[str]) -> None:
    """Copy the pages, their pictures and their style.

    A link to a file that is no page becomes plain text.
    """
    shutil.copytree(root / IMAGES, folder / IMAGES)
    shutil.copy(root / STYLE, folder / STYLE)
    known = {root / name for name in pages}
    for name in pages:
        source, copy = root / name, folder / name

        def shown(link: re.Match[str], beside: Path = source.parent) -> str:
            if link["code"] or ELSEWHERE.match(link["to"]):
                return link[0]
            target = Path(os.path.normpath(beside / link["to"].partition("#")[0]))
            is_shown = target in known or target.is_relative_to(root / IMAGES)
            return link[0] if is_shown else str(link["text"])

        def drawn(section: re.Match[str], beside: Path = copy.parent) -> str:
            machine = section[1]
            (beside / f"{machine}.svg").write_text(machine_svg(LISTED[machine]), "utf-8")
            return f"## {machine}\n{section[2]}![The states of {machine}]({machine}.svg)"

        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(DRAWING.sub(drawn, LINK.sub(shown, source.read_text("utf-8"))), "utf-8")


def move_scripts_into_files(site: Path) -> None:
    """Move the scripts in pages into files: the console allows no other scripts."""
    for page in site.rglob("*.html"):

        def moved(script: re.Match[str], beside: Path = page.parent) -> str:
            digest = hashlib.sha256(script[1].encode()).hexdigest()[:8]
            file = site / "assets" / "javascripts" / f"page.{digest}.js"
            file.write_text(script[1], "utf-8")
            return f'<script src="{os.path.relpath(file, beside)}"></script>'

        page.write_text(SCRIPT.sub(moved, page.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
