"""Refs: whole names only, all of a call at once, and changes that are made together or not."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.git.branch import Mark, make, marks
from interlock.git.errors import FailedError
from interlock.git.refs import HEADS, is_branch_name, read_refs, update_refs
from interlock.git.repository import Repository
from tests.any_text import any_text
from tests.git.scene import REAL_GIT, git, tip_of

PARTS = ["/", ".", "..", "@", "{", "@{", ".lock", "lock", "a", "ü", "-", "~", "^", ":", "?", "*"]
PARTS += ["[", "]", "\\", " ", "\x01", "\x7f", "\n", "\udcff", "interlock/"]


@pytest.mark.fuzz
@given(st.lists(st.sampled_from(PARTS) | any_text(max_size=1), max_size=8).map("".join))
def test_a_name_is_legal_exactly_if_git_says_so(name: str) -> None:
    name = name.replace("\0", "")  # no program can be given one
    command = [REAL_GIT, "check-ref-format", HEADS + name]

    assert is_branch_name(name) == (subprocess.run(command, check=False).returncode == 0)


def test_only_whole_names_are_found_and_all_below_a_folder(repository: Repository) -> None:
    tip = tip_of(repository)
    for name in ("v1", "refs/heads/main", "main/x"):
        git(repository.root, "tag", name)
    git(repository.root, "branch", "folder/one")

    names = ("heads/main", "refs/heads/mai?", "refs/heads/v1", "refs/heads/main^", "refs/tags/main")
    found = read_refs(repository, *names, "refs/heads/main", "refs/heads/folder/")

    assert not {*names} & {*found}
    assert found["refs/heads/main"].sha == found["refs/heads/folder/one"].sha == tip
    assert found["refs/heads/main"].tree == git(repository.root, "rev-parse", "main^{tree}")
    assert found["refs/heads/main"].checkout == str(repository.root)
    assert found["refs/heads/folder/one"].checkout == ""


def test_after_a_transaction_that_fails_nothing_is_changed(repository: Repository) -> None:
    tip = tip_of(repository)
    first, second = (("create", f"{HEADS}{name}", tip) for name in ("first", "second"))
    taken, third = ("create", f"{HEADS}main", tip), ("create", f"{HEADS}third", tip)

    with pytest.raises(FailedError):
        update_refs(repository, [first], [second, taken], [third], reason="test")

    assert set(read_refs(repository, HEADS)) == {f"{HEADS}main", f"{HEADS}first"}


def test_a_branch_that_cannot_be_made_gets_no_mark(repository: Repository) -> None:
    git(repository.root, "branch", "interlock")  # in the place of the folder of our branches
    folder = repository.root.parent / "t"

    with pytest.raises(FailedError, match=r"'refs/heads/interlock' exists"):
        make(repository, Mark("interlock/t", folder, tip_of(repository)), marked=False)

    assert marks(repository) == ()
