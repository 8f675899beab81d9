"""`--reload` watches each module that the code of own systems runs, and uses what can be used."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from interlock.kernel.machines import MACHINES
from interlock.workers.client import Client
from interlock.workers.config import read_settings
from interlock.workers.engine.own_systems import add_systems
from interlock.workers.engine.system import Definition
from interlock.workers.gateways.server import EmbeddedServer
from interlock.workers.ops import system_files
from interlock.workers.ops.system_files import SystemFiles
from tests.known_systems import know_only_ours
from tests.waiting import until
from tests.workers.sixth_system import FILES

FLOW = """
{imports}
from typing import Literal

from interlock import Data, Workflow


class Parcel(Data):
    name: str


parcel = Workflow("watched_parcel", Parcel)


@parcel.step({options})
def send(p: Parcel) -> Literal["done"]:
    return "done"


parcel.ends(done=True)
"""


class Restarts:
    """Stands for a deployment: it counts its restarts, and remembers the pools of the last one."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.count, self.pools = folder, 0, dict[str, list[str]]()
        self.store = {"INTERLOCK_STORE_URL": "redis://127.0.0.1:1/0"}
        self.systems = f"threads,{self.folder / 'watched.py'}"

    def environment(self) -> Mapping[str, str]:
        root = {"INTERLOCK_CAPABILITIES_ROOT": str(self.folder)}
        return {"INTERLOCK_SYSTEMS": self.systems, **root, **self.store}

    def restart(self, pools: Mapping[str, list[str]]) -> None:
        self.count, self.pools = self.count + 1, {**pools}


class Watched:
    """A file with a workflow, which is watched."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.deployment = folder, Restarts(folder)
        self.write(imports="")
        self.since_ns = time.time_ns()
        add_systems([str(folder / "watched.py")], folder)
        self.files = SystemFiles(self.since_ns)
        self.look()

    def write(self, *, imports: str, options: str = "") -> None:
        """Write the file anew."""
        text = FLOW.format(imports=imports, options=options)
        (self.folder / "watched.py").write_text(text)

    def look(self) -> str:
        """Look until no trial runs and none is due; return what was said."""
        said = []

        def rests() -> bool:
            said.append(self.files.reload(self.deployment))
            return self.files._trial is None and not self.files._untried

        until(rests, what="all that has changed is tried")
        return " ".join(filter(None, said))


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    know_only_ours(monkeypatch)
    monkeypatch.setattr(Definition, "MADE", [])
    monkeypatch.setattr(sys, "path", [*sys.path])
    watched = Watched(tmp_path)
    yield watched
    watched.files.close()
    sys.modules.pop("watched", None)
    MACHINES.entries.pop("watched_parcel", None)


def test_a_module_that_new_code_imports_is_watched_until_nothing_imports_it(
    watched: Watched,
) -> None:
    helper = watched.folder / "helper.py"
    helper.write_text("VALUE = 1\n")
    watched.write(imports="import helper")
    assert watched.look() == "watched.py has changed: the processes have its new code"

    helper.write_text("VALUE = 22\n")
    assert watched.look() == "helper.py has changed: the processes have its new code"
    watched.write(imports="")
    watched.look()
    helper.write_text("VALUE = 333\n")

    assert watched.look() == ""
    assert watched.deployment.count == 3


def test_a_package_and_what_it_imports_is_watched(watched: Watched) -> None:
    package = watched.folder / "shop"
    (package / "below").mkdir(parents=True)
    for name, text in (("__init__", "from shop.below import prices"), ("below/prices", "")):
        (package / f"{name}.py").write_text(text)
    watched.write(imports="import shop")
    watched.look()

    (package / "below" / "prices.py").write_text("PRICE = 1\n")

    assert watched.look() == "prices.py has changed: the processes have its new code"


PAGE = """
from interlock.system.pages import SystemPage

PAGE = SystemPage(title="Parcels", question="Where?", machines=["parcel"], view=lambda *_: [])
"""


@pytest.mark.parametrize("name", ["page.py", "imported_later.py"])
def test_the_page_and_all_modules_in_the_package_of_a_system_are_watched(
    name: str, watched: Watched
) -> None:
    system = FILES["parcels/__init__.py"].replace("counted=", "page='parcels.page:PAGE', counted=")
    added = {"__init__": system, "page": PAGE, "imported_later": ""}
    for each, text in {
        **FILES,
        **{f"parcels/{one}.py": text for one, text in added.items()},
    }.items():
        (watched.folder / each).parent.mkdir(exist_ok=True)
        (watched.folder / each).write_text(text)
    watched.deployment.systems = "parcels"
    watched.write(imports="")
    assert watched.look() == "watched.py has changed: the processes have its new code"

    with (watched.folder / "parcels" / name).open("a") as file:
        file.write("VALUE = 1\n")

    assert watched.look() == f"{name} has changed: the processes have its new code"


def test_a_module_that_is_missing_is_used_when_it_comes(watched: Watched) -> None:
    watched.write(imports="import helper")
    missing = watched.look()
    (watched.folder / "notes.txt").write_text("nothing that is missing")
    other = watched.look()
    (watched.folder / "helper.py").write_text("")

    assert "is not used, since it is wrong: the file watched.py" in missing
    assert "No module named 'helper'" in missing
    assert other == ""
    assert watched.look().endswith("has changed: the processes have its new code")
    assert watched.deployment.count == 1


def test_a_module_that_is_gone_or_has_a_wrong_line_is_named(watched: Watched) -> None:
    helper = watched.folder / "helper.py"
    helper.write_text("VALUE = 1\n")
    watched.write(imports="import helper")
    watched.look()

    helper.write_text("VALUE = = 1\n")
    wrong = watched.look()
    helper.unlink()

    assert wrong.startswith("helper.py has changed and is not used, since it is wrong: ")
    assert f"invalid syntax ({helper}, line 1)" in wrong
    assert watched.look().startswith("helper.py is gone and is not used, since it is wrong: ")
    assert watched.deployment.count == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("import os; os._exit(3)", "its import ended the process with exit code 3"),
        ("import sys; sys.exit('no')", "SystemExit: no"),
        ("import time; time.sleep(600)", "its import takes longer than 3 s"),
    ],
)
def test_code_that_ends_or_hangs_its_import_is_not_used(
    line: str, said: str, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "sleep" in line:
        monkeypatch.setattr(system_files, "TRY_S", 3.0)
    watched.write(imports=line)

    assert said in watched.look()
    assert watched.deployment.count == 0
    monkeypatch.setattr(system_files, "TRY_S", 60.0)
    watched.write(imports="")
    assert "have its new code" in watched.look()


def test_after_an_import_that_crashed_what_was_watched_before_is_watched(watched: Watched) -> None:
    helper = watched.folder / "helper.py"
    helper.write_text("")
    watched.write(imports="import helper")
    watched.look()
    watched.write(imports="import os; os._exit(3)")
    watched.look()

    helper.write_text("VALUE = 1\n")

    assert watched.look().startswith("helper.py has changed and is not used")


def test_what_changes_while_it_is_tried_is_tried_once_more(watched: Watched) -> None:
    helper, is_read = watched.folder / "helper.py", watched.folder / "is_read"
    helper.write_text("")
    waits = (
        "import helper, pathlib, time\n"
        "folder = pathlib.Path(__file__).parent\n"
        "(folder / 'is_read').touch()\n"
        "while not (folder / 'may_end').exists(): time.sleep(0.01)\n"
    )
    watched.write(imports=waits)
    assert watched.files.reload(watched.deployment) == "", "the trial runs"
    until(is_read.exists, what="the helper is read")
    helper.write_text("VALUE = = 1\n")
    (watched.folder / "may_end").touch()

    assert "invalid syntax" in watched.look()
    assert watched.deployment.count == 0


def test_what_has_changed_while_the_processes_started_is_used(watched: Watched) -> None:
    files = SystemFiles(watched.since_ns)
    watched.files.close()
    watched.files = files
    (watched.folder / "watched.py").touch()
    assert "have its new code" in watched.look()

    watched.files = SystemFiles(watched.since_ns)

    assert "have its new code" in watched.look()


def test_the_pools_of_the_new_code_are_known(watched: Watched) -> None:
    watched.write(imports="", options="pool='couriers'")
    watched.look()

    assert watched.deployment.pools["couriers"] == ["interlock.watched_parcel.send"]
    assert "models" in watched.deployment.pools


def test_code_whose_table_has_no_place_for_records_at_work_is_not_used(
    watched: Watched, server: EmbeddedServer, prefix: str
) -> None:
    store = {"INTERLOCK_STORE_URL": server.url, "INTERLOCK_PREFIX": prefix}
    watched.deployment.store = store
    client = Client(read_settings(store))
    client.submit({"name": "p"}, id="p-1", machine="watched_parcel")

    watched.write(imports="", options='name="post"')
    said = watched.look()

    assert "1 record is in watched_parcel/send, which the table no longer has" in said
    assert watched.deployment.count == 0
