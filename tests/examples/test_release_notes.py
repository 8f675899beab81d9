"""The release notes example: each step with the files of a machine, on real repositories."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.examples.release_notes_chain import (
    STEPS,
    Chain,
    commit,
    git,
    modules_of_steps,
    new_repository,
    said,
)
from tests.waiting import until

parse = modules_of_steps()["document"].parse
write_whole = modules_of_steps()["job"].write_whole
SUMMARY_WISH = "Please put a summary on top"


def with_each_kind(folder: Path) -> Path:
    """Make a repository with a commit of each kind."""
    new_repository(folder)
    commit(folder, "Say what this is", README_md="# Top\n\n## How, and why (2)")
    commit(folder, "Add a door\n\nIt opens, see src/app.py.\n\nSigned-off-by: Ann <a@localhost>")
    commit(folder, "fix(door): it creaks.", src__door_py="oil")
    commit(folder, "Test the door", tests__door_py="knock")
    return folder


@pytest.fixture(scope="module")
def original_repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a repository with a commit of each kind; tests change copies of it."""
    return with_each_kind(tmp_path_factory.mktemp("original") / "repo")


@pytest.fixture
def repo(original_repo: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original_repo, tmp_path / "repo"))


@pytest.fixture
def chain(tmp_path: Path, repo: Path) -> Chain:
    return Chain(tmp_path / "jobs", repo)


@pytest.fixture(scope="module")
def original(original_repo: Path) -> Chain:
    """Return a chain that has come to its end; tests get copies of it."""
    chain = Chain(original_repo.parent / "jobs", original_repo)
    chain.up_to("publish", reviewed=tuple(STEPS))
    return chain


@pytest.fixture
def finished(original: Chain, tmp_path: Path) -> Chain:
    """Return a chain that has come to its end, on a repository that is not to be changed."""
    shutil.copytree(original.home, tmp_path / "finished")
    copy = Chain(tmp_path / "finished", original.repo)
    for step, told in original.handed_in.items():
        copy.hand_in(step, [one["name"] for one in told["evidence"]])
    return copy


def test_the_graph_fans_out_and_in_and_names_only_steps_that_come_before() -> None:
    needs = {name: set(step.get("depends_on", [])) for name, step in STEPS.items()}

    assert len(STEPS) >= 8
    assert all(needs[name] <= set(list(STEPS)[:at]) for at, name in enumerate(STEPS))
    assert sum(needs[name] == {"collect", "group"} for name in STEPS) == 4
    assert {name for name in STEPS if name.startswith("draft_")} < needs["assemble"]
    assert {"check_links", "check_spelling"} < needs["publish"]
    assert [name for name, step in STEPS.items() if not step.get("auto_approve", True)] == [
        "publish"
    ]


def test_the_first_draft_is_rejected_and_the_second_mends_what_the_reviewer_named(
    finished: Chain,
) -> None:
    first = finished.work("assemble")
    rejected = finished.review("assemble")
    draft = finished.text("assemble", "notes.md")
    finished.work("assemble")
    stubborn = finished.review("assemble")
    finished.work("assemble", guidance=said("reviewer", *rejected["reasons"]))
    accepted = finished.review("assemble")
    with_correct_anchors = finished.text("assemble", "notes.md")

    assert first["action"] == "COMPLETED"
    assert rejected["verdict"] == stubborn["verdict"] == "INTERVENTION_REQUIRED"
    assert len(rejected["reasons"]) == 4
    assert (
        "line 9: the link #documentation-(1) leads to no heading; the nearest is #documentation-1"
        in rejected["reasons"]
    )
    assert accepted["verdict"] == "APPROVAL_REQUIRED"
    assert "- [Documentation (1)](#documentation-(1))" in draft
    assert "- [Documentation (1)](#documentation-1)" in with_correct_anchors
    assert draft.partition("\n## New")[2] == with_correct_anchors.partition("\n## New")[2]


def test_reasons_that_arrive_as_one_text_are_understood_too(finished: Chain) -> None:
    finished.work("assemble")
    reasons = finished.review("assemble")["reasons"]

    finished.work("assemble", guidance=said("reviewer", "; ".join(reasons) + "."))

    assert finished.review("assemble")["verdict"] == "APPROVAL_REQUIRED"


def test_the_notes_name_every_commit_under_its_kind(finished: Chain) -> None:
    notes = finished.text("publish", "RELEASE_NOTES.md")
    hashes = git(finished.repo, "log", "--format=%h", "--abbrev=7").split()

    assert parse(notes).headings == (
        "Release notes",
        "Contents",
        "New and changed (1)",
        "Fixed (1)",
        "Documentation (1)",
        "Tests, builds and upkeep (1)",
    )
    test, fix, door, readme = hashes
    assert f"- **Add a door** (`{door}`)\n\n  It opens, see [src/app.py](src/app.py).\n" in notes
    assert f"- **It creaks** (`{fix}`)\n" in notes
    assert f"- Say what this is (`{readme}`)\n" in notes
    assert f"- Test the door (`{test}`)\n" in notes
    assert "Signed-off-by" not in notes
    assert notes.startswith("# Release notes\n\n4 commits ")
    assert notes.endswith(")\n")
    assert "\n\n\n" not in notes


def test_the_summary_that_the_steward_wishes_comes_with_the_next_run(finished: Chain) -> None:
    before = finished.text("publish", "RELEASE_NOTES.md")

    reply = finished.work("publish", guidance=said("steward", SUMMARY_WISH))
    after = finished.text("publish", "RELEASE_NOTES.md")

    assert "## Summary" not in before
    assert "- New and changed: 1, most in `src` (1)\n" in after
    assert after.index("## Summary") < after.index("## Contents")
    assert reply["summary"].endswith("as wished, with summary")
    assert finished.review("publish")["verdict"] == "APPROVAL_REQUIRED"


def test_a_wish_that_is_not_understood_is_said_so_and_another_is_still_met(finished: Chain) -> None:
    reply = finished.work("publish", guidance=said("steward", "Name the authors", "Make it sing"))

    assert "as wished, with author" in reply["summary"]
    assert 'not understood: "Make it sing"' in reply["summary"]
    assert finished.text("publish", "RELEASE_NOTES.md").endswith("## Authors\n\n- `Ann` (4)\n")


SOUND = "# Notes\n\n[a](src/app.py) [b](src) [c](#notes) [d](README.md#how-and-why-2)\n"


def test_links_that_lead_somewhere_are_accepted(finished: Chain) -> None:
    finished.forge("assemble", "notes.md", SOUND)

    fine = finished.work("check_links")

    assert (fine["action"], fine["summary"]) == ("COMPLETED", "4 links, each leads somewhere")
    assert finished.review("check_links")["verdict"] == "APPROVAL_REQUIRED"


@pytest.mark.parametrize(
    ("planted", "sentence"),
    [
        ("[gone](src/gone.py)", "the link src/gone.py leads to nothing in the repository"),
        ("![no picture](picture.png)", "the link picture.png leads to nothing in the repository"),
        ("[up](../README.md)", "the link ../README.md leads to nothing in the repository"),
        ("[below](#nowhere)", "the link #nowhere leads to no heading"),
        ("[there](README.md#nowhere)", "README.md has no heading for #nowhere"),
        ("(`0123abc`)", "there is no commit 0123abc"),
        ("[x](https://forge.example/a/b/commit/0123abc)", "there is no commit 0123abc"),
    ],
)
def test_a_planted_link_that_leads_nowhere_is_found(
    finished: Chain, planted: str, sentence: str
) -> None:
    finished.forge("assemble", "notes.md", f"{SOUND}\n{planted}\n")

    stuck = finished.work("check_links")

    assert (stuck["action"], stuck["summary"]) == ("STUCK", f"1 link wrong: line 5: {sentence}")


def test_a_reviewer_finds_what_a_step_forgot_or_made_up(finished: Chain) -> None:
    tests = git(finished.repo, "rev-parse", "--short=7", "HEAD")
    groups = json.loads(finished.text("group", "groups.json"))
    history = json.loads(finished.text("collect", "history.json"))

    finished.forge("draft_internals", "section.md", "## Tests\n\n- a [x](gone.md)\n- b\n")
    section = finished.review("draft_internals")
    finished.forge("group", "groups.json", json.dumps({**groups, "internals": []}))
    group = finished.review("group")
    history["commits"][0]["hash"] = "0" * 40
    finished.forge("collect", "history.json", json.dumps(history))
    collect = finished.review("collect")

    assert section["reasons"] == [
        "2 lines for 1 entries",
        f"{tests} is not named",
        "line 3: the link gone.md leads to nothing in the repository",
    ]
    assert group["reasons"] == [f"{tests} is listed 0 times instead of once"]
    assert collect["reasons"] == [f"there is no commit {'0' * 40}"]


@dataclass
class Eventful:
    """A chain that has come to its end, and the short hashes of some commits by their titles."""

    chain: Chain
    hashes: dict[str, list[str]]


@pytest.fixture(scope="module")
def eventful(original_repo: Path, tmp_path_factory: pytest.TempPathFactory) -> Eventful:
    """Return the chain of a history with misspelt words, repeated titles and odd names.

    Its repository has settings of a user, and its steps the variables of a hook.
    """
    home = tmp_path_factory.mktemp("eventful")
    repo = Path(shutil.copytree(original_repo, home / "repo"))
    commit(
        repo,
        "Add what can recieve letters\n\nIt can Recieve `recieve` and recieve_all, wich is fine.",
        src__recieve_py="post",
    )
    red, blue = (commit(repo, "Paint the door", src__paint_py=text) for text in ("red", "blue"))
    bell = commit(repo, "Add a bell", src__bell_py="ring")
    git(repo, "revert", "--no-edit", "HEAD")
    taken = git(repo, "rev-parse", "--short=7", "HEAD")
    settings = {"log.showSignature": "true", "core.abbrev": "4", "color.ui": "always"}
    for name, value in {**settings, "diff.relative": "true", "log.decorate": "full"}.items():
        git(repo, "config", name, value)
    commit(repo, "Say \x01 in a message", src__odd_py="name")
    (repo / "a b").mkdir()
    commit(repo, "Add a folder with a blank", **{"a b__(x)_md": "x", "a b__ü_py": "x"})
    chain = Chain(home / "jobs", repo)
    chain.environment |= {
        "RELEASE_NOTES_REPO": str(repo / "src"),
        "GIT_DIR": str(home / "elsewhere"),
    }
    chain.up_to("publish", reviewed=tuple(STEPS))
    return Eventful(chain, {"Paint the door": [blue, red], "Add a bell": [taken, bell]})


def test_a_misspelt_word_is_found_and_published_right_but_names_stay(eventful: Eventful) -> None:
    found = json.loads(eventful.chain.text("check_spelling", "spelling.json"))
    notes = eventful.chain.text("publish", "RELEASE_NOTES.md")

    assert [(one["word"], one["meant"]) for one in found] == [
        ("recieve", ["receive"]),
        ("Recieve", ["Receive"]),
        ("wich", ["which", "witch"]),
    ]
    assert "**Add what can receive letters**" in notes
    assert "It can Receive `recieve` and recieve_all, wich is fine." in notes


def test_what_was_taken_back_or_said_twice_is_one_line(eventful: Eventful) -> None:
    notes = eventful.chain.text("publish", "RELEASE_NOTES.md")
    blue, red = eventful.hashes["Paint the door"]
    taken, bell = eventful.hashes["Add a bell"]

    assert f"- **Paint the door** (`{blue}`, `{red}`)\n" in notes
    assert f"- Made and taken back: Add a bell (`{taken}`, `{bell}`)\n" in notes
    assert notes.count("Add a bell") == 1


def test_neither_the_users_settings_nor_a_hooks_variables_change_what_is_read(
    eventful: Eventful,
) -> None:
    newest = json.loads(eventful.chain.text("collect", "history.json"))["commits"][0]

    assert newest["files"] == ["a b/(x).md", "a b/ü.py"]
    assert len(newest["short"]) >= 7


def test_a_misspelling_in_the_final_document_is_rejected(finished: Chain) -> None:
    notes = finished.text("publish", "RELEASE_NOTES.md")

    finished.forge("publish", "RELEASE_NOTES.md", notes + "\nTeh end.\n")

    assert finished.review("publish")["reasons"] == [
        f'line {notes.count(chr(10)) + 2}: "Teh" is misspelt; write "The"'
    ]


@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_died_before_its_reply_does_the_same_when_it_runs_again(
    finished: Chain, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(finished.home / step)
    with monkeypatch.context() as patch:
        # The reply cannot be written where a file stands instead of its folder.
        patch.setattr(finished, "reply_file", lambda *_: Path(__file__) / "reply.json")
        code, _ = finished.run(step, "worker")
    handed_in = {file.name: file.read_bytes() for file in (finished.home / step).iterdir()}

    reply = finished.work(step)

    assert code != 0
    assert reply["action"] == "COMPLETED"
    assert list(handed_in) == reply["evidence_files"]
    assert all((finished.home / step / name).read_bytes() == handed_in[name] for name in handed_in)


def test_a_step_that_is_killed_leaves_nothing_half_done(chain: Chain, tmp_path: Path) -> None:
    slow = tmp_path / "slow" / "git"
    slow.parent.mkdir()
    path = chain.environment["PATH"]
    slow.write_text(
        f'#!/bin/bash\nexport PATH="{path}"\n'
        f'case "$*" in *" log "*) touch "{tmp_path}/reached"; sleep 60;; esac\nexec git "$@"\n'
    )
    slow.chmod(0o755)
    chain.environment["PATH"] = f"{slow.parent}{os.pathsep}{path}"

    process = chain.start("collect", "worker")
    until((tmp_path / "reached").exists, what="the step reads the log")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    left = list((chain.home / "collect").iterdir())
    replied = chain.reply_file("collect", "worker").exists()
    chain.environment["PATH"] = path

    assert (left, replied) == ([], False)
    assert chain.work("collect")["summary"].startswith("4 commits")


def test_a_file_is_as_it_was_until_all_of_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "notes.md"
    write_whole(file, "first")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(file, "second")

    assert file.read_text("utf-8") == "first"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda _: None, "RELEASE_NOTES_REPO names {}, which does not exist"),
        (lambda path: path.mkdir(), "there is no git history at {}"),
        (new_repository, "the repository at {} has no commit yet"),
    ],
    ids=["no folder", "no repository", "no commit"],
)
def test_where_there_is_no_history_one_sentence_says_so(
    tmp_path: Path, make: Any, sentence: str
) -> None:
    place = tmp_path / "here"
    make(place)

    reply = Chain(tmp_path / "jobs", place).work("collect")

    assert reply["action"] == "STUCK"
    assert sentence.format(place) in reply["summary"]
    assert "\n" not in reply["summary"]


@pytest.mark.parametrize("missing", ["git", "typos"])
def test_a_program_that_is_missing_is_named(chain: Chain, tmp_path: Path, missing: str) -> None:
    chain.forge("assemble", "notes.md", "# Notes\n")
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "python3").symlink_to(sys.executable)
    libraries = [path for path in sys.path if path.endswith("-packages")]
    chain.environment |= {"PATH": str(programs), "PYTHONPATH": os.pathsep.join(libraries)}

    reply = chain.work("collect" if missing == "git" else "check_spelling")

    assert reply["action"] == "STUCK"
    assert (
        f"{missing} is not installed" in reply["summary"]
        or "pip install typos" in (reply["summary"])
    )


def test_a_shallow_clone_with_one_commit_is_enough_and_says_what_it_lacks(
    tmp_path: Path, repo: Path
) -> None:
    shallow = tmp_path / "shallow"
    git(repo, "clone", "--quiet", "--depth", "1", repo.as_uri(), str(shallow))
    chain = Chain(tmp_path / "jobs", shallow)

    chain.up_to("publish", reviewed=tuple(STEPS))
    notes = chain.text("publish", "RELEASE_NOTES.md")

    assert notes.startswith("# Release notes\n\n1 commit of ")
    assert "This clone is shallow" in notes


def test_the_notes_begin_at_the_last_tag_or_where_one_says(chain: Chain, repo: Path) -> None:
    git(repo, "tag", "v1_", "HEAD~2")
    git(repo, "tag", "v2", "HEAD")

    tagged = chain.work("collect")
    chain.up_to("publish")
    chain.environment["RELEASE_NOTES_SINCE"] = "HEAD~1"
    named = chain.work("collect")
    chain.environment["RELEASE_NOTES_SINCE"] = "--all"
    unknown = chain.work("collect")
    chain.environment["RELEASE_NOTES_SINCE"] = "HEAD"
    nothing = chain.work("collect")

    assert tagged["summary"].startswith("2 commits, ")
    assert chain.text("publish", "RELEASE_NOTES.md").startswith("# Release notes since v1\\_\n")
    assert named["summary"].startswith("1 commit, ")
    assert unknown["summary"] == "RELEASE_NOTES_SINCE names --all, which is no commit here"
    assert nothing["summary"] == "there is no commit since HEAD"


@pytest.mark.parametrize(
    ("origin", "forge"),
    [
        ("https://ann:secret@forge.example/a/b.git", "https://forge.example/a/b"),
        ("http://forge.example:8080/a/b/", "http://forge.example:8080/a/b"),
        ("ssh://git@forge.example:2222/a/b", "https://forge.example/a/b"),
        ("git@forge.example:a/b.git", "https://forge.example/a/b"),
        ("/somewhere/else", None),
        ("alias:a/b", None),
    ],
)
def test_the_forge_is_known_from_where_the_repository_came_without_a_password(
    chain: Chain, repo: Path, origin: str, forge: str | None
) -> None:
    git(repo, "remote", "add", "origin", origin)

    chain.work("collect")

    assert json.loads(chain.text("collect", "history.json"))["forge"] == forge


def test_a_commit_is_linked_where_the_forge_is_known(chain: Chain, repo: Path) -> None:
    git(repo, "remote", "add", "origin", "git@forge.example:a/b.git")
    head = git(repo, "rev-parse", "--short=7", "HEAD")

    chain.up_to("check_links")

    shown = f"- Test the door ([`{head}`](https://forge.example/a/b/commit/{head}))\n"
    assert shown in chain.text("assemble", "notes.md")


def test_what_another_step_handed_in_and_somebody_changed_is_refused(finished: Chain) -> None:
    kept = finished.handed_in["collect"]["evidence"][0]["path"]
    Path(kept).write_text("{}")

    assert finished.work("group")["summary"] == "history.json is no longer what collect handed in"
