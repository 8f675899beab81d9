"""Reads one repository with git, without changing it and without using the network."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from job import LaterError

PATIENCE_S = 60
# These settings override those of the user. Paths are relative to the repository's root.
SETTINGS = (
    "core.quotePath=false",
    "core.abbrev=7",
    "log.showSignature=false",
    "diff.relative=false",
    "i18n.logOutputEncoding=UTF-8",
    "color.ui=false",
)
ADDRESS = re.compile(r"(?:https?://|ssh://)(?:[^@/]*@)?(?P<host>[^/]+)/(?P<path>.+)")
SCP_LIKE = re.compile(r"(?:[^@/]+@)(?P<host>[^:/]+):(?P<path>[^/].*)")


class GitError(Exception):
    """Git refused; the message is the last line of its output."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository, named by any folder in it."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    @classmethod
    def at(cls, folder: Path) -> Repository:
        """Return the repository; GIT_DIR, which a hook may set to another one, is ignored."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        return cls(folder, {**kept, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"})

    def ask(self, *arguments: str) -> str:
        """Return the output of git. Raises GitError with its last line if it refuses."""
        settings = [part for setting in SETTINGS for part in ("-c", setting)]
        command = ["/usr/bin/env", "git", "-C", str(self.folder), *settings, *arguments]
        try:
            done = subprocess.run(
                command, env=self.environment, capture_output=True, check=False, timeout=PATIENCE_S
            )
        except subprocess.TimeoutExpired:
            raise LaterError(f"git {arguments[0]} took longer than {PATIENCE_S} s") from None
        if done.returncode == os.EX_OK:
            return done.stdout.decode("utf-8", "replace")
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise GitError("".join(last) or f"git {arguments[0]} ended with {done.returncode}")

    def commit(self, name: str) -> str | None:
        """Return the full hash of the commit that a name stands for; None if there is none."""
        command = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        try:
            return self.ask(*command).strip()
        except GitError:
            return None

    def has(self, commit: str) -> bool:
        """Return whether a commit's hash exists."""
        try:
            self.ask("cat-file", "-e", f"{commit}^{{commit}}")
        except GitError:
            return False
        return True

    def paths(self, commit: str) -> frozenset[str]:
        """Return the files and folders of a commit's tree, relative to the root."""
        listed = self.ask("ls-tree", "-r", "-t", "-z", "--full-tree", "--name-only", commit)
        return frozenset(listed.split("\0")[:-1])

    def text(self, commit: str, path: str) -> str:
        """Return a file as it is in a commit."""
        return self.ask("show", f"{commit}:{path}")

    def forge(self) -> str | None:
        """Return the web address of `origin`, without any password in it; None if it has none."""
        try:
            origin = self.ask("config", "--get", "remote.origin.url").strip()
        except GitError:
            return None
        found = ADDRESS.fullmatch(origin) or SCP_LIKE.fullmatch(origin)
        if not found or "." not in found["host"]:
            return None
        if origin.startswith("http"):
            scheme, host = origin.partition(":")[0], found["host"]
        else:  # the port is that of ssh
            scheme, host = "https", found["host"].partition(":")[0]
        return f"{scheme}://{host}/{found['path'].rstrip('/').removesuffix('.git')}"
