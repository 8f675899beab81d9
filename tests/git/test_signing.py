"""Where the user wants signed commits, Interlock's are signed without a question, or refused."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tenacity import retry, retry_if_exception_type, stop_after_delay

from interlock.git import signing
from interlock.git.admission import admit
from interlock.git.branch import PREFIX
from interlock.git.changes import commit_all
from interlock.git.errors import Refusal, RefusedError
from interlock.git.merge import BranchMerged, merge
from interlock.git.repository import COMMITTER, Repository
from tests.git.scene import a_task, assert_refused, git, tip_of, write

EMAIL = "ursula@example.org"


@pytest.fixture
def wanting(repository: Repository) -> Repository:
    """Return a repository whose user wants signed commits, and has no key yet."""
    for name, value in {
        "commit.gpgsign": "true",
        "user.name": "Ursula User",
        "user.email": EMAIL,
    }.items():
        git(repository.root, "config", name, value)
    return repository


def ssh_key(repository: Repository, *, passphrase: str = "") -> Path:
    """Let a repository sign with an ssh key, and trust what it signs."""
    key = repository.root.parent / "key"
    make = ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", str(key)]
    subprocess.run(make, check=True)
    trusted = key.with_name("trusted")
    trusted.write_text(f"{EMAIL} {key.with_suffix('.pub').read_text()}")
    for name, value in {
        "gpg.format": "ssh",
        "user.signingkey": str(key),
        "gpg.ssh.allowedSignersFile": str(trusted),
    }.items():
        git(repository.root, "config", name, value)
    return key


def gpg(*arguments: str, program: str = "gpg") -> None:
    command = ["/usr/bin/env", program, *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def gpg_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    # In /tmp: the paths of its sockets must be short.
    with TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as home:
        monkeypatch.setenv("GNUPGHOME", home)
        # The agent reads this file again at a reload only if the file was there at its start.
        (Path(home) / "gpg-agent.conf").touch()
        _start_agent()
        yield Path(home)
        gpg("--kill", "all", program="gpgconf")


@retry(stop=stop_after_delay(60), retry=retry_if_exception_type(AssertionError), reraise=True)
def _start_agent() -> None:
    """Start the agent. gpg itself waits 5 s for it, which a busy computer may exceed."""
    gpg("--launch", "gpg-agent", program="gpgconf")


def forget_passphrases() -> None:
    """Let the agent forget each passphrase, and read its configuration again."""
    gpg("reloadagent", "/bye", program="gpg-connect-agent")


def gpg_key(passphrase: str) -> None:
    """Make a key of the user's address, and let the agent forget its passphrase."""
    secret = ("--pinentry-mode", "loopback", "--passphrase", passphrase)
    gpg("--batch", *secret, "--quick-gen-key", f"Ursula <{EMAIL}>", "ed25519", "sign", "never")
    forget_passphrases()


def admits(repository: Repository) -> None:
    admit(repository, target=None, branch=f"{PREFIX}t", paths=())


def refused(repository: Repository) -> None:
    with pytest.raises(RefusedError) as caught:
        admits(repository)
    assert_refused(Refusal.SIGNING, caught.value, "none can be signed", "interlock.sign false")


def work_is_merged(repository: Repository) -> tuple[str, str]:
    """Let a task leave a file, commit and merge it; return what git says of both signatures."""
    tree = a_task(repository, "t")
    write(tree.folder, d__txt="d\n")
    assert commit_all(repository, tree, message="work", identity=COMMITTER)
    assert not commit_all(repository, tree, message="again", identity=COMMITTER)
    merged = merge(
        repository,
        branch=tree.branch,
        target="main",
        message="Merge",
        identity=COMMITTER,
        verified=None,
    )
    assert isinstance(merged, BranchMerged)
    assert git(repository.root, "show", "main:d.txt") == "d"
    said = git(repository.root, "log", "-1", "--format=%G?", tree.branch)
    return git(repository.root, "log", "-1", "--format=%G?", "main"), said


def test_work_and_merges_are_signed_by_the_user_with_an_ssh_key(wanting: Repository) -> None:
    ssh_key(wanting)
    admits(wanting)

    assert work_is_merged(wanting) == ("G", "G")

    who = git(wanting.root, "log", "-1", "--format=%an %ae, %cn %ce", "main")
    assert who == f"{COMMITTER.name} {COMMITTER.email}, Ursula User {EMAIL}"


@pytest.mark.usefixtures("gpg_home")
def test_work_and_merges_are_signed_with_the_key_of_the_users_address(
    wanting: Repository,
) -> None:
    gpg_key("")
    admits(wanting)

    assert work_is_merged(wanting) == ("G", "G")


def test_a_key_that_would_ask_for_its_passphrase_is_refused_at_once(
    wanting: Repository, gpg_home: Path, tmp_path: Path
) -> None:
    gpg_key("secret")
    asked, pinentry = tmp_path / "asked", tmp_path / "pinentry"
    pinentry.write_text(f"#!/bin/sh\ntouch {asked}\nsleep 600\n")
    pinentry.chmod(0o755)
    (gpg_home / "gpg-agent.conf").write_text(f"pinentry-program {pinentry}\n")
    forget_passphrases()

    refused(wanting)

    assert not asked.exists()
    git(wanting.root, "config", "interlock.sign", "false")
    admits(wanting)
    assert work_is_merged(wanting) == ("N", "N")


def test_an_ssh_key_that_would_ask_for_its_passphrase_is_refused(wanting: Repository) -> None:
    ssh_key(wanting, passphrase="secret")

    refused(wanting)


def test_a_program_that_waits_for_a_person_is_refused(
    wanting: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "touch-the-key"
    program.write_text("#!/bin/sh\nexec sleep 600\n")
    program.chmod(0o755)
    git(wanting.root, "config", "gpg.program", str(program))
    monkeypatch.setattr(signing, "TRIAL_S", 0.5)

    refused(wanting)


def test_a_trial_leaves_no_object_behind(wanting: Repository) -> None:
    ssh_key(wanting)
    before = git(wanting.root, "count-objects")

    admits(wanting)

    assert git(wanting.root, "count-objects") == before


def test_nothing_is_signed_where_nobody_has_a_key(repository: Repository) -> None:
    git(repository.root, "config", "commit.gpgsign", "true")
    admits(repository)

    assert work_is_merged(repository) == ("N", "N")
    assert tip_of(repository)
