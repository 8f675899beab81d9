"""The command `interlock remove`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from interlock.git.errors import GitError
from interlock.git.refs import HEADS
from interlock.workers.config import SetupError, read_settings
from interlock.workers.ops.removal import Removal, removal_of
from interlock.workers.terminal.command import Shell, guarded
from interlock.workers.terminal.page import Part, Sentence
from interlock.workers.terminal.printed_page import PagePrinter
from interlock.workers.terminal.screen import counted

NOBODY_ASKED = "nothing was removed, because nobody can be asked here: --yes removes it"


@guarded
def remove(
    shell: Shell,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    unmerged: Annotated[
        bool,
        typer.Option("--unmerged", help="Delete branches of agents with unmerged work as well."),
    ] = False,
) -> None:
    """Remove what `interlock up` has kept in its folder, and its worktrees and branches elsewhere.

    Shows what goes, and asks first. Refused while `up` runs.
    """
    with removal_of(read_settings(is_final=False)) as found:
        if not shell.as_json:
            PagePrinter().print(_listed(found, unmerged=unmerged))
        if not yes:
            if shell.as_json or not sys.stdin.isatty():
                raise SetupError(NOBODY_ASKED)
            shell.confirm("remove all this")
        removed = [*map(str, (*found.entries, *found.worktrees))]
        try:
            found.save_and_remove_trees()
            if found.unmerged and not (unmerged or yes):
                PagePrinter().print([Sentence("no branch of yours has the work on:", "ask")])
                PagePrinter().print([Sentence(f"  {line}") for line in found.unmerged])
                unmerged = typer.confirm("delete these too?")
            kept = found.remove(unmerged=unmerged)
        except GitError as refusal:
            raise SetupError(f"not all was removed: {refusal}") from refusal
        shell.answer({"removed": removed, "kept": kept}, show=_ended)


def _listed(found: Removal, *, unmerged: bool) -> Iterator[Part]:
    yield Sentence("This goes, with the records, logs and files in it:")
    for path in (*found.entries, *found.worktrees):
        yield Sentence(f"  {path}")
    for each in found.there:
        if each.trees or each.refs:
            branches = len([name for name in each.refs if name.startswith(HEADS)])
            present = sum(tree.present for tree in each.trees)
            places = f"{counted(present, 'worktree')}, branches of agents: {branches}"
            yield Sentence(f"  of the repository {each.repository.root}: {places}")
    if found.unmerged:
        said = "This work is on no branch of yours, and goes too:"
        yield Sentence(
            said
            if unmerged
            else "This work is on no branch of yours, and stays unless you say so:",
            "ask",
        )
        for line in found.unmerged:
            yield Sentence(f"  {line}")
    for line in found.unread:
        yield Sentence(f"cannot be read, so its branches stay: {line}", "ask")


def _ended(value: dict[str, Any]) -> Iterator[Part]:
    yield Sentence("removed", "good")
    for line in value["kept"]:
        yield Sentence(f"kept: {line}")
