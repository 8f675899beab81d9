"""One call of git: its output, its end, its limits and what it inherits."""

from __future__ import annotations

import dataclasses
import os
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.git import program
from interlock.git.errors import (
    FailedError,
    LockedError,
    ObstructedError,
    Refusal,
    RefusedError,
    TimedOutError,
)
from interlock.git.program import Git
from interlock.git.repository import Repository
from tests.git.scene import a_task, git
from tests.processes import is_alive
from tests.waiting import until

Instead = Callable[[str], Path]
HangsFrom = Callable[[Path], Path]
HERE = Path(__file__).resolve().parents[4]


def gone_soon(file: Path) -> None:
    """Check that the process whose number is in a file has ended."""
    number = int(file.read_text())
    until(lambda: not is_alive(number), what="the end of what git started")


def test_a_git_that_hangs_is_ended_with_all_it_has_started(
    root: Path, instead_of_git: Instead, hangs_from: HangsFrom
) -> None:
    folder = instead_of_git(
        'sh -c \'trap "" TERM; echo $$ > "$0.child"; sleep 1000 & wait; sleep 1000\' "$0" &\n'
        'until [ -s "$0.child" ]; do :; done; echo $$ > "$0.self"; wait; sleep 1000'
    )

    begun = hangs_from(folder / "git.self")

    with pytest.raises(TimedOutError, match=r"git status did not end within 0\.1 s"):
        Git(root, 0.1).run("status")

    gone_soon(begun)
    gone_soon(folder / "git.child")


def test_what_a_finished_git_leaves_in_the_background_is_ended(
    root: Path, instead_of_git: Instead
) -> None:
    folder = instead_of_git('sleep 1000 &\necho $! > "$0.child"')

    assert Git(root).line("rev-parse", "--is-bare-repository") == "false"

    gone_soon(folder / "git.child")


def test_git_asked_to_end_takes_its_lock_along(
    repository: Repository, tmp_path: Path, hangs_from: HangsFrom
) -> None:
    folder, begun = repository.root, hangs_from(tmp_path / "begun")
    (folder / "slow.txt").write_text("s\n")
    git(folder, "config", "filter.slow.clean", f"touch {begun}; sleep 1000")
    (folder / ".git/info/attributes").write_text("slow.txt filter=slow\n")

    with pytest.raises(TimedOutError):
        dataclasses.replace(repository.git, command_s=0.1).run("add", "--all")

    assert not (folder / ".git/index.lock").exists()


def test_a_name_with_everything_in_it_comes_back_whole(root: Path) -> None:
    names = ["-n", " x ", "a\nb", 'q"u', "ü\N{SNOWMAN}", "back\\slash", "*?[x]", ":(top)"]
    for name in names:
        (root / name).write_text("")
    broken = b"\xff.bin"
    (root / broken.decode(errors="surrogateescape")).write_text("")

    listing = Git(root).run("ls-files", "-z", "--others").names()

    assert sorted(listing) == sorted([*names, broken.decode(errors="surrogateescape")])


def test_a_failure_says_what_git_said(root: Path) -> None:
    with pytest.raises(
        FailedError, match=r"git rev-parse failed with exit code 128: fatal: .*'no "
    ):
        Git(root).run("rev-parse", "no\nwhere")


def test_a_lock_of_another_git_is_named_and_left_alone(repository: Repository) -> None:
    lock = repository.common / "index.lock"
    lock.write_text("")

    with pytest.raises(LockedError) as caught:
        repository.git.run("add", "--all")

    assert caught.value.lock == lock
    assert "delete it" in str(caught.value)
    assert lock.exists()


@pytest.mark.parametrize(
    ("said", "remedy"),
    [
        ("fatal: write error: No space left on device", "make room"),
        ("error: unable to create file a: Disk quota exceeded", "make room"),
        ("fatal: Unable to create '/r/.git/index.lock': Read-only file system", "writable"),
        ("fatal: could not read Username for 'https://x': terminal prompts disabled", "access"),
        ("git@x: Permission denied (publickey).", "access"),
        ("fatal: unable to access 'https://x': The requested URL returned error: 403", "access"),
        ("error: insufficient permission for adding an object to .git/objects", "the right"),
        ("fatal: Unable to create '/r/.git/index.lock': Permission denied\nmore", "the right"),
    ],
)
def test_what_only_a_person_can_remove_is_told_with_what_to_do(
    root: Path, said: str, remedy: str
) -> None:
    fails = f"!printf '%s' {shlex.quote(said)} >&2; false"

    with pytest.raises(ObstructedError, match=remedy) as caught:
        Git(root).run("-c", f"alias.fails={fails}", "fails")

    assert said.partition("\n")[0] in str(caught.value)


def test_more_output_than_anybody_needs_is_a_failure(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "OUTPUT_BYTES_MAX", 10)

    with pytest.raises(FailedError, match=r"more than 10 bytes"):
        Git(root).run("config", "--list")


def test_a_missing_git_is_one_clear_sentence(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))

    with pytest.raises(RefusedError, match=r"git cannot be started .*; install git") as caught:
        Repository.open(root)

    assert caught.value.refusal is Refusal.GIT_MISSING


def test_an_old_git_is_refused(root: Path, instead_of_git: Instead) -> None:
    instead_of_git(
        'for last; do :; done; test "$last" = version && echo git version 2.37.9 && exit'
    )

    with pytest.raises(RefusedError, match=r"git version 2\.37\.9; install git 2\.38") as caught:
        Repository.open(root)

    assert caught.value.refusal is Refusal.GIT_TOO_OLD


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_text_that_no_program_can_be_given_is_refused(repository: Repository, text: str) -> None:
    with pytest.raises(RefusedError) as caught:
        repository.git.run("rev-parse", text)

    assert caught.value.refusal is Refusal.TEXT


def test_a_caller_inside_git_does_not_lead_us_to_its_repository(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "other" / "index"))
    monkeypatch.setenv("GIT_AUTHOR_DATE", "nonsense")
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "nonsense")

    assert Repository.open(root).common == root / ".git"


def test_passwords_of_ours_are_not_handed_to_git(
    root: Path, instead_of_git: Instead, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = instead_of_git('env > "$0.env"')
    monkeypatch.setenv("INTERLOCK_STORE_URL", "redis://:secret@store")
    monkeypatch.setenv("SSH_AUTH_SOCK", "/agent")

    Git(root).run("version")

    seen = (folder / "git.env").read_text()
    assert "secret" not in seen
    assert "SSH_AUTH_SOCK=/agent" in seen
    for line in ("LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS="):
        assert f"\n{line}\n" in f"\n{seen}"


@pytest.mark.parametrize("own", ["variable", "settings in variables", "configuration", "none"])
def test_ssh_asks_nobody_whichever_ssh_the_user_has(
    root: Path, own: str, instead_of_git: Instead, monkeypatch: pytest.MonkeyPatch
) -> None:
    ssh = instead_of_git("") / "ssh"
    ssh.write_text('#!/bin/sh\nprintf "%s|" "$@" > "$0.seen"\n')
    ssh.chmod(0o755)
    if own == "variable":
        monkeypatch.setenv("GIT_SSH_COMMAND", "ssh -i 'a key'")
    if own == "settings in variables":
        for name, value in {
            "COUNT": "1",
            "KEY_0": "core.sshCommand",
            "VALUE_0": "ssh -i 'a key'",
        }.items():
            monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    if own == "configuration":
        git(root, "config", "core.sshCommand", "ssh -i 'a key'")

    Repository.open(root).git.run("ls-remote", "ssh://host:22/it's here", allowed=(128,))

    seen = (ssh.parent / "ssh.seen").read_text()
    assert seen.startswith("-o|BatchMode=yes|" if own == "none" else "-i|a key|-o|BatchMode=yes|")
    assert seen.endswith("|-p|22|host|git-upload-pack '/it'\\''s here'|")


def test_no_hook_of_the_user_runs(repository: Repository, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    for name in (
        "post-checkout",
        "pre-commit",
        "commit-msg",
        "post-merge",
        "reference-transaction",
    ):
        hook = repository.common / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\necho {name} >> {trace}\nexit 1\n")
        hook.chmod(0o755)

    a_task(repository, "t", a__txt="x\n")

    assert not trace.exists()


def test_no_setting_of_the_user_asks_signs_or_leaves_a_daemon(
    repository: Repository, tmp_path: Path
) -> None:
    settings = {
        "commit.gpgSign": "true",
        "gpg.program": "/bin/false",
        "core.editor": "/bin/false",
        "core.pager": "/bin/false",
        "core.fsmonitor": f"touch {tmp_path / 'asked'}; false",
        "core.safecrlf": "true",
        "core.autocrlf": "input",
        "status.showUntrackedFiles": "no",
        "diff.external": "/bin/false",
        "diff.renames": "copies",
    }
    for name, value in settings.items():
        git(repository.root, "config", name, value)

    tree = a_task(repository, "t", new__txt="one\r\ntwo\n")

    assert not (tmp_path / "asked").exists()
    assert git(repository.root, "show", f"{tree.branch}:new.txt") == "one\ntwo"


def test_a_holder_that_does_not_end_is_named(repository: Repository) -> None:
    impatient = dataclasses.replace(repository.git, command_s=0.05)
    file = repository.common / "interlock"

    with (
        repository.git.locked(file),
        pytest.raises(LockedError, match=r"try again"),
        impatient.locked(file),
    ):
        pass

    with impatient.locked(file):
        assert file.read_bytes() == b""


def test_a_repository_that_we_may_not_write_is_one_clear_sentence(repository: Repository) -> None:
    (repository.common / "interlock").mkdir()

    with pytest.raises(RefusedError, match=r"cannot be written .*; give the user") as caught:
        a_task(repository, "t")

    assert caught.value.refusal is Refusal.NOT_WRITABLE


CALLER = """
import sys
from pathlib import Path
from interlock.git.program import Git
folder = Path(sys.argv[1])
with Git(folder, 60).locked(folder / ".git" / "interlock") as git:
    git.run("-c", "alias.hang=!echo > begun; cat pipe", "hang")
"""


def test_the_lock_lives_as_long_as_a_git_that_outlives_its_killed_caller(
    root: Path,
) -> None:
    os.mkfifo(root / "pipe")
    impatient, lock = Git(root, 0.05), root / ".git" / "interlock"
    caller = subprocess.Popen([sys.executable, "-c", CALLER, str(root)], cwd=HERE)
    until((root / "begun").exists, what="a git that runs")
    caller.kill()
    caller.wait()

    with pytest.raises(LockedError), impatient.locked(lock):
        pass
    (root / "pipe").write_text("")

    with Git(root, 60).locked(lock):
        pass
