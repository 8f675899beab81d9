"""A rig runs processes that die with their lease, and never overwrites a git repository."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from interlock.systems.runs.codon import rig
from interlock.systems.runs.codon.rig import Rig, RigError
from interlock.systems.runs.codon.rig_copy import main
from interlock.systems.runs.plan.rig import RigCommand, RigCopy, RigFolder
from interlock.workers.processes.agent.process import AgentProcess, Exit
from interlock.workers.processes.clock import clock
from interlock.workers.supervision.leased_process import LeasedProcess
from interlock.workers.supervision.work_command import Command

LOG_BYTES_MAX = 100_000
GOOD_S = 60.0


class Site:
    """A workspace with a rig, whose processes live until `work.kill_by`."""

    def __init__(self, folder: Path) -> None:
        self.workspace, self.logs = folder / "work", folder / "logs"
        self.workspace.mkdir()
        self.logs.mkdir()
        self.work: Any = SimpleNamespace(kill_by=clock() + GOOD_S)
        self.ran: list[tuple[str, ...]] = []
        self.order: str | None = None

    def write(self, **files: str) -> None:
        """Write files; `__` in a name stands for a slash."""
        for name, text in files.items():
            file = self.workspace / name.replace("__", "/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)

    def tree(self, folder: str = "") -> dict[str, str]:
        """Return every file below a folder, by its name seen from there."""
        top = self.workspace / folder
        found = (path for path in top.rglob("*") if path.is_file())
        return {str(path.relative_to(top)): path.read_text() for path in sorted(found)}

    def run(self, command: Command, act: Callable[[AgentProcess], object]) -> Exit:
        self.ran.append(command.arguments)
        process = LeasedProcess(
            command,
            lambda: (self.work,),
            log_bytes_max=LOG_BYTES_MAX,
            work_folder=self.workspace,
        )
        return process.run(read=AgentProcess.reports, act=act, started=lambda _: None)

    def set_up(self, *items: RigCopy | RigCommand) -> list[str]:
        base = Command(
            arguments=("true",),
            folder=self.workspace,
            sandbox=None,
            logs=self.logs,
        )
        rig = Rig(items, self.workspace, base, self.run, lambda: self.order)
        return rig.set_up()

    def refusal(self, source: str, target: str) -> str:
        """Return why a copy is refused, and check that nothing was changed or started."""
        before = self.tree()
        with pytest.raises(RigError) as refused:
            self.set_up(RigCopy(source=source, target=target))
        assert (self.tree(), self.ran) == (before, [])
        return str(refused.value)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_files_and_folders_are_copied_by_processes_of_their_own(site: Site) -> None:
    site.write(raw__a="1", raw__deep__b="2", old__gone="3", old__a="4")

    allowed = site.set_up(
        RigCopy(source="raw/a", target="new/place/a"),
        RigCopy(source="raw", target="old"),
        RigCommand(run="cat a > c", folder=RigFolder.COPIED),
    )

    assert allowed == []
    assert site.tree("new") == {"place/a": "1"}
    assert site.tree("old") == {"a": "1", "c": "1", "deep/b": "2"}
    assert [words[0] for words in site.ran] == [sys.executable, sys.executable, "bash"]
    assert (site.logs / "rig-1.log").is_file()


def test_a_target_with_a_repository_in_it_is_refused_and_untouched(site: Site) -> None:
    site.write(raw__a="1", theirs__deep__project__a="2")
    (site.workspace / "theirs/deep/project/.git").write_text("gitdir: elsewhere")
    before = site.tree()
    copy = RigCopy(source="raw", target="theirs")

    with pytest.raises(RigError) as refused:
        site.set_up(copy)
    allowed = site.set_up(copy.model_copy(update={"allow_failure": True}))

    assert allowed == [str(refused.value)]
    assert allowed[0].startswith("item 1 of the rig: it ended with 1: ")
    assert "theirs/deep/project is a git repository, which no checkpoint can hold" in allowed[0]
    assert refused.value.exit_code == 1
    assert site.tree() == before


def test_a_copy_whose_lease_runs_out_is_ended(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    # A real copy might be made before it is ended.
    endless = site.logs / "endless_copy.py"
    endless.write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setattr(rig, "COPY_PROGRAM", endless)
    site.write(raw__a="1")
    site.work.kill_by = time.monotonic() - GOOD_S

    with pytest.raises(RigError) as ended:
        site.set_up(RigCopy(source="raw", target="new"))

    assert ended.value.exit_code == 128 + signal.SIGKILL


def test_what_is_not_there_cannot_be_copied(site: Site) -> None:
    assert site.refusal("raw", "new") == "item 1 of the rig: there is no raw to copy"


def test_nothing_is_copied_onto_or_into_itself_also_where_links_lead(site: Site) -> None:
    site.write(raw__deep__a="1")
    for name, target in (("link", "raw"), ("raw/inner", "deep")):
        (site.workspace / name).symlink_to(target)

    for source, target in (
        ("raw", "raw"),
        ("raw", "raw/deep/new"),
        ("raw/deep", "raw"),
        ("raw/deep/a", "raw"),
        ("raw", "link/deep/new"),
        ("link/deep", "raw"),
        ("link", "raw"),
        ("link", "link"),
        ("raw", "raw/inner/new"),
    ):
        why = site.refusal(source, target)
        assert why == f"item 1 of the rig: {source} cannot be copied onto or into itself"


@pytest.mark.parametrize("links_to", ["..", ".git"])
def test_a_link_that_came_since_leads_neither_out_nor_to_what_is_protected(
    site: Site, links_to: str
) -> None:
    site.write(raw="1")
    (site.workspace / ".git").mkdir()
    (site.workspace / "link").symlink_to(links_to)

    assert site.refusal("raw", "link/new").startswith("item 1 of the rig: link/new: ")
    assert site.refusal("link", "new").startswith("item 1 of the rig: link: ")


def test_a_rig_stops_where_somebody_wants_the_run_to_end(site: Site) -> None:
    site.write(raw="1")
    site.order = "stopped"

    assert site.set_up(RigCopy(source="raw", target="new"), RigCommand(run="touch new")) == []

    assert site.ran == []


def test_links_in_a_folder_stay_links_and_a_link_that_is_named_is_followed(site: Site) -> None:
    site.write(raw__a="1")
    (site.workspace / "raw/to-a").symlink_to("a")
    (site.workspace / "raw/broken").symlink_to("nowhere")
    (site.workspace / "link").symlink_to("raw/a")

    assert main(site.workspace / "raw", site.workspace / "new") == ""
    assert main(site.workspace / "link", site.workspace / "file") == ""

    new = site.workspace / "new"
    assert [str((new / name).readlink()) for name in ("to-a", "broken")] == ["a", "nowhere"]
    assert not (site.workspace / "file").is_symlink()
    assert (site.workspace / "file").read_text() == "1"


def test_a_link_in_the_place_of_a_target_goes_and_what_it_leads_to_stays(site: Site) -> None:
    site.write(raw__a="1", theirs__b="2", theirs__x="3")
    (site.workspace / "theirs/.git").mkdir()
    (site.workspace / "link").symlink_to("theirs")

    assert main(site.workspace / "raw", site.workspace / "link") == ""

    assert not (site.workspace / "link").is_symlink()
    assert site.tree("link") == {"a": "1"}
    assert site.tree("theirs") == {"b": "2", "x": "3"}


@pytest.mark.parametrize("where", ["", "a", "a/b/c"])
def test_a_repository_is_found_however_deep_it_is(site: Site, where: str) -> None:
    site.write(raw="1", new__file="2")
    (site.workspace / "new" / where / ".git").mkdir(parents=True)

    why = main(site.workspace / "raw", site.workspace / "new")

    assert why.startswith(f"{site.workspace / 'new' / where} is a git repository")
    assert site.tree("new") == {"file": "2"}


def test_a_file_in_the_place_of_a_folder_is_replaced_and_what_fails_is_said(site: Site) -> None:
    site.write(raw__a="1", new="2", file="3")

    assert main(site.workspace / "raw", site.workspace / "new") == ""
    assert site.tree("new") == {"a": "1"}
    assert "Not a directory" in main(site.workspace / "raw", site.workspace / "file/below")
