"""A user's repository: its folders, and the git program in them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from interlock.git.errors import Refusal, RefusedError
from interlock.git.program import COMMAND_S, Git
from interlock.workers.processes.sandbox import Sandbox

# The first version that merges without a working tree (merge-tree --write-tree).
VERSION_MIN = (2, 38)
_LOCK_NAME = "interlock"
# By the path of a git program, what it prints as its version. A process asks each program once.
_versions: dict[str | None, str] = {}
# By the path of git's folder in a repository, its `_state` when git was last asked about it.
_known_states: dict[Path, tuple[int, ...]] = {}
_SSH = "-o BatchMode=yes -o ConnectTimeout=15 -o ServerAliveInterval=15 -o ServerAliveCountMax=2"
# A shell function that looks up the user's ssh command and runs it with our options. Git calls it
# when it connects to a remote, which few commands do, and takes it for OpenSSH because of its name.
_LOOKED_UP_SSH = (
    "ssh () {{ unset -f ssh; own=$(git --git-dir={folder} config --get core.sshCommand); "
    'eval "${{own:-ssh}} {options} \\"\\$@\\""; }}; ssh'
)


@dataclass(frozen=True, slots=True)
class Identity:
    """The author of a commit. Raises RefusedError for a name or address that git does not take."""

    name: str
    email: str

    def __post_init__(self) -> None:
        for value in (self.name, self.email):
            if not re.search(r"\w", value) or re.search(r"[<>\0\n]", value):
                problem = f"{value!r} cannot be the name or address of an author"
                remedy = "use letters, and no line break or angle bracket"
                raise RefusedError(Refusal.IDENTITY, problem, remedy)

    def variables(self) -> dict[str, str]:
        """Return the variables that tell git the author."""
        return {
            "GIT_AUTHOR_NAME": self.name,
            "GIT_AUTHOR_EMAIL": self.email,
            "GIT_COMMITTER_NAME": self.name,
            "GIT_COMMITTER_EMAIL": self.email,
        }


# The name under which Interlock commits the work of coding tasks.
COMMITTER = Identity("Interlock", "interlock@localhost")


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository with a working tree: `root` is that tree, `common` the folder of git in it.

    Git runs in the `sandbox`, if there is one, where it reads the files of an agent.
    """

    root: Path
    common: Path
    git: Git
    sandbox: Sandbox | None = None

    @classmethod
    def open(
        cls, path: Path, *, command_s: float = COMMAND_S, sandbox: Sandbox | None = None
    ) -> Repository:
        """Open a repository; each git command in it may last `command_s`. Raises GitError."""
        if not path.is_absolute() or not path.is_dir():
            is_missing = path.is_absolute() and not path.exists()
            why = "does not exist" if is_missing else "is not an absolute path of a folder"
            problem = f"{str(path)!r} {why}"
            raise RefusedError(Refusal.NOT_A_REPOSITORY, problem, "give the repository's folder")
        root = path.resolve()
        git = Git(root, command_s)
        _check_version(git)
        common = _known_common_folder(git)
        return cls(root, common, git.in_folder(root, **_without_prompts(git, common)), sandbox)

    @contextmanager
    def locked(self) -> Iterator[Repository]:
        """Hold a lock of the whole repository; see `Git.locked`."""
        with self.git.locked(self.common / _LOCK_NAME) as git:
            yield replace(self, git=git)

    def inside(self, path: str) -> str:
        """Return a path relative to the root, as git writes it. Raises RefusedError if outside.

        A path may lead outside by `..`, as an absolute path or through a link. Git's own folder
        counts as outside.
        """
        whole = Path(os.path.normpath(self.root / path))
        if path and "\0" not in path and all(map(self._contains, (whole, whole.resolve()))):
            return whole.relative_to(self.root).as_posix()
        problem = f"{path!r} is not inside the repository {self.root}"
        raise RefusedError(Refusal.PATH_OUTSIDE, problem, "give a path relative to its top folder")

    def _contains(self, path: Path) -> bool:
        if not path.is_relative_to(self.root):
            return False
        return ".git" not in map(str.lower, path.relative_to(self.root).parts)


def as_message(text: str) -> bytes:
    """Return any text as the message of a commit."""
    return (text.replace("\0", "").strip("\n") + "\n").encode(errors="backslashreplace")


def _check_version(git: Git) -> None:
    program = shutil.which("git")
    if program not in _versions:
        _versions[program] = git.line("version")
    version = _versions[program]
    found = re.search(r"(\d+)\.(\d+)", version)
    if found is None or (int(found[1]), int(found[2])) < VERSION_MIN:
        minimum = ".".join(map(str, VERSION_MIN))
        raise RefusedError(
            Refusal.GIT_TOO_OLD, f"this is {version}", f"install git {minimum} or later"
        )


def _known_common_folder(git: Git) -> Path:
    """Return the folder in which git keeps a repository.

    Git is asked once, and again after the repository's configuration has changed. If git would
    refuse the repository for another reason, such as a new setting of the user, the next command
    fails.
    """
    folder = git.folder / ".git"
    state = _state(folder)
    if state is None or _known_states.get(folder) != state:
        common = _common_folder(git)
        if state is None or common != folder:
            return common
        _known_states[folder] = state
    return folder


def _state(folder: Path) -> tuple[int, ...] | None:
    """Return the inodes and the change times of the files that configure a repository.

    They change when a file is written or replaced. None if neither file exists.
    """
    state = _identity_and_time(folder / "config") + _identity_and_time(folder / "config.worktree")
    return state if any(state) else None


def _identity_and_time(file: Path) -> tuple[int, int]:
    """Return the inode and the time of the last change in ns of a file; zeros if there is none."""
    try:
        facts = file.stat()
    except OSError:
        return 0, 0
    return facts.st_ino, facts.st_mtime_ns


def _common_folder(git: Git) -> Path:
    """Return the folder of git in a repository. Raises RefusedError if this is not its top."""
    facts = ("--is-bare-repository", "--is-inside-work-tree", "--show-toplevel")
    command = ("rev-parse", *facts, "--path-format=absolute", "--git-common-dir")
    finished = git.run(*command, allowed=(0, 128))
    lines = finished.line()
    if lines.startswith(top := f"false\ntrue\n{git.folder}\n"):
        return Path(lines.removeprefix(top)).resolve()
    if "not a git repository" in finished.stderr:
        refusal, problem = Refusal.NOT_A_REPOSITORY, f"{git.folder} is not a git repository"
        remedy = "run git init there, or give another folder"
    elif not lines:
        raise git.failure("rev-parse", finished)
    elif not lines.startswith("false\ntrue\n"):
        refusal, problem = Refusal.BARE, f"{git.folder} has no working tree"
        remedy = "give a folder with its files, such as a clone's or a worktree's"
    else:
        refusal, problem = Refusal.NOT_A_REPOSITORY, f"{git.folder} is a part of a repository"
        remedy = f"give its top folder, {git.line('rev-parse', '--show-toplevel')}"
    raise RefusedError(refusal, problem, remedy)


def _without_prompts(git: Git, common: Path) -> dict[str, str]:
    """Return the variable that keeps ssh from asking, whatever ssh command the user has."""
    command = os.environ.get("GIT_SSH_COMMAND")
    if command is None and "GIT_SSH" in os.environ:
        return {}
    if not command and "GIT_CONFIG_COUNT" in os.environ:
        # Git does not hand these settings on to its ssh command.
        command = git.run("config", "--get", "core.sshCommand", allowed=(0, 1)).line() or "ssh"
    if command:
        return {"GIT_SSH_COMMAND": f"{command} {_SSH}"}
    looked_up = _LOOKED_UP_SSH.format(folder=shlex.quote(str(common)), options=_SSH)
    return {"GIT_SSH_COMMAND": looked_up}
