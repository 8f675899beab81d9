"""Git in the worktree of an agent, which runs in a sandbox with a copy of what git keeps."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from interlock.git.branch import KEPT, delete_branch, head, put_away
from interlock.git.changes import commit_all
from interlock.git.errors import GitError, Refusal, RefusedError
from interlock.git.merge import BranchMerged, merge
from interlock.git.private_copy import FOLDER, bring_in, sandbox_of
from interlock.git.repository import Repository
from interlock.git.saved_work import save_work
from interlock.git.worktree import (
    Worktree,
    add_worktree,
    admin_of,
    own_sandbox,
    remove_worktree,
)
from interlock.workers.processes.sandbox import Sandbox
from tests.git.scene import AGENT, a_branch, assert_refused, commit, git, write

AS_USER = 'git() { command git -c user.name=a -c user.email=a@x "$@"; }; set -e; '
WHERE = "admin=$(git rev-parse --git-dir); common=$(git rev-parse --git-common-dir)"


@pytest.fixture
def repository(repository: Repository) -> Repository:
    return replace(repository, sandbox=Sandbox(hidden=()))


def runs(repository: Repository, tree: Worktree, script: str) -> str:
    """Run a script as the agent of a worktree; return what it prints."""
    sandbox = sandbox_of(repository, tree)
    assert sandbox is not None
    command = sandbox.around(["bash", "-c", AS_USER + script], tree.folder)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def fails(repository: Repository, tree: Worktree, script: str) -> str:
    """Run a script that fails as the agent of a worktree; return what it reports."""
    with pytest.raises(AssertionError) as failed:
        runs(repository, tree, script)
    return str(failed.value)


def commits(repository: Repository, tree: Worktree, message: str = "done") -> bool:
    return commit_all(repository, tree, message=message, identity=AGENT)


def test_commits_of_an_agent_and_what_it_left_uncommitted_are_on_its_branch(
    repository: Repository, tree: Worktree
) -> None:
    runs(repository, tree, "echo 1 > one; git add one; git commit -qm one; echo 2 > two")

    assert commits(repository, tree)

    assert git(repository.root, "log", "--format=%s", tree.branch).split("\n")[:2] == [
        "done",
        "one",
    ]
    assert git(tree.folder, "status", "--porcelain") == ""
    git(repository.root, "fsck", "--strict")


def test_no_branch_setting_or_hook_of_the_repository_is_changed(
    repository: Repository, tree: Worktree
) -> None:
    (repository.common / "hooks").mkdir(exist_ok=True)
    main, config = head(repository, "main"), (repository.common / "config").read_bytes()
    script = (
        "echo 1 > one; git add one; git commit -qm one; git update-ref refs/heads/main HEAD;"
        "git config core.fsmonitor /tmp/evil; git tag v9; mkdir -p $(git rev-parse"
        " --git-common-dir)/refs/heads; git rev-parse main"
    )
    moved_to = runs(repository, tree, script)
    hooks = fails(repository, tree, "echo > $(git rev-parse --git-common-dir)/hooks/post-commit")

    commits(repository, tree)

    assert "Read-only file system" in hooks
    assert (moved_to, head(repository, "main")) == (head(repository, tree.branch), main)
    assert (repository.common / "config").read_bytes() == config
    assert git(repository.root, "tag") == ""


def test_what_leads_git_elsewhere_is_fixed(repository: Repository, tree: Worktree) -> None:
    for name in ("commondir", "gitdir", "config.worktree", "interlock"):
        said = fails(repository, tree, f"echo /tmp > $(git rev-parse --git-dir)/{name}")
        assert "Read-only file system" in said
        said = fails(repository, tree, f"mv $(git rev-parse --git-dir)/{name} /tmp")
        assert "busy" in said
    assert "busy" in fails(repository, tree, "mv .git other")
    assert "Read-only file system" in fails(repository, tree, "echo gitdir: /tmp > .git")


@dataclass(frozen=True, slots=True)
class Outside:
    """What an agent could reach outside of its sandbox: a file and a folder of the user."""

    file: Path
    folder: Path

    def seen(self) -> tuple[object, ...]:
        inside = sorted((path.name, path.read_text()) for path in self.folder.iterdir())
        return self.file.read_text(), self.file.stat().st_mode, inside


@pytest.fixture
def outside(tmp_path: Path) -> Outside:
    found = Outside(tmp_path / "victim", tmp_path / "victims")
    found.file.write_text("untouched")
    found.folder.mkdir()
    (found.folder / "index.lock").write_text("untouched")
    return found


IN_ADMIN = (
    "HEAD index index.lock ORIG_HEAD MERGE_HEAD MERGE_MSG logs logs/HEAD refs refs/bisect "
    "rebase-merge rebase-apply sequencer sequencer/todo interlock-agent interlock-branch "
    "interlock-copy interlock-copy.new interlock-index interlock-removing locked modules"
)
IN_COMMON = (
    "HEAD config hooks info interlock-shared lfs lfs/objects objects objects/aa objects/info "
    "objects/pack packed-refs refs refs/heads began worktrees"
)
PATHS = (
    *(f"$admin/{name}" for name in IN_ADMIN.split()),
    *(f"$common/{name}" for name in IN_COMMON.split()),
)
KINDS = (
    "ln -s {file} {path}",
    "ln -s {folder} {path}",
    "echo 'ref: refs/heads/main' > {path}",
)
PIPES = (
    "$admin/ORIG_HEAD",
    "$admin/rebase-merge/x",
    "$admin/rebase-apply/x",
    "$common/lfs/objects/x",
)
TRAPS = (
    *((path, made) for path in PATHS for made in KINDS),
    *((path, "mkfifo {path}") for path in PIPES),
)


@pytest.mark.parametrize(("path", "made"), TRAPS)
def test_no_file_of_an_agent_decides_what_is_done_outside_of_its_sandbox(
    repository: Repository, tree: Worktree, outside: Outside, path: str, made: str
) -> None:
    """From its end to the next agent: nothing outside changes or runs, and no work is lost."""
    other = a_branch(repository, "other", d__txt="of another task\n")
    config, before = (repository.common / "config").read_bytes(), outside.seen()
    escaped = outside.file.with_name("escaped")
    trap = made.format(file=outside.file, folder=outside.folder, path=path)
    script = (
        "echo 1 > one; git add one; git commit -qm one; echo 2 > two; "
        f"git config core.fsmonitor 'touch {escaped}'; rm -f {escaped}; {WHERE}; "
        f"mkdir -p $(dirname {path}); rm -rf {path}; {trap}"
    )
    with suppress(AssertionError):  # where the file cannot be replaced
        runs(repository, tree, script)

    with suppress(GitError):
        commits(repository, tree)
    with suppress(GitError):
        save_work(repository, tree, message="saved", identity=AGENT)
    merged = merge(
        repository, branch=other, target="main", message="m", identity=AGENT, verified=None
    )
    review = tree.folder.with_name("review")
    add_worktree(repository, branch="interlock/review", folder=review, base=tree.branch, new=True)
    with suppress(GitError, AssertionError):
        runs(repository, tree, "git status")
    with suppress(GitError):
        save_work(repository, tree, message="saved", identity=AGENT)
        remove_worktree(repository, tree.folder, force=True)

    assert isinstance(merged, BranchMerged)
    assert outside.seen() == before
    assert (repository.common / "config").read_bytes() == config
    assert not escaped.exists()
    assert git(repository.root, "status", "--porcelain") == ""
    kept = tree.folder if tree.folder.is_dir() else checked_out(repository, tree.branch)
    assert {name: (kept / name).read_text() for name in ("one", "two")} == {
        "one": "1\n",
        "two": "2\n",
    }
    git(repository.root, "fsck", "--strict")


def test_a_worktree_that_a_session_has_replaced_by_a_link_is_refused(
    repository: Repository, tree: Worktree, outside: Outside
) -> None:
    """A session may write in the folder that its worktrees are in."""
    before = outside.seen()
    shutil.rmtree(tree.folder)
    tree.folder.symlink_to(outside.folder)

    with pytest.raises(RefusedError, match="git knows no worktree at"):
        commits(repository, tree)
    with pytest.raises(RefusedError, match="git does not know"):
        save_work(repository, tree, message="saved", identity=AGENT)
    with pytest.raises(RefusedError, match="is a link"):
        own_sandbox(Sandbox(hidden=()), tree.folder)

    assert outside.seen() == before


def checked_out(repository: Repository, branch: str) -> Path:
    folder = repository.root.with_name("checked-out")
    git(repository.root, "worktree", "add", "-q", "--detach", str(folder), branch)
    return folder


def test_other_branches_and_the_stash_are_kept_and_are_there_in_the_next_copy(
    repository: Repository, tree: Worktree
) -> None:
    script = (
        "git switch -qc side; echo 1 > one; git add one; git commit -qm side; git switch -q -;"
        "git switch -q --detach; git commit -q --allow-empty -m tagged; git tag v9;"
        "git switch -q -;"
        "echo 3 > three; git add three; git stash -q"
    )
    runs(repository, tree, script)

    bring_in(repository, tree)

    kept = KEPT + tree.branch.removeprefix("interlock/")
    assert git(repository.root, "log", "-1", "--format=%s", f"{kept}/heads/side") == "side"
    assert git(repository.root, "log", "-1", "--format=%s", f"{kept}/tags/v9") == "tagged"
    assert "three" in git(repository.root, "ls-tree", "--name-only", f"{kept}/stash")
    assert head(repository, "side") is None
    seen = runs(repository, tree, "git log -1 --format=%s side; git stash list --format=%gd")
    assert seen == "side"
    runs(repository, tree, "git branch -qD side")
    bring_in(repository, tree)
    assert git(repository.root, "for-each-ref", f"{kept}/heads") == ""


def test_a_branch_that_the_user_moves_or_deletes_meanwhile_is_not_the_agents(
    repository: Repository, tree: Worktree
) -> None:
    git(repository.root, "branch", "old")
    runs(repository, tree, "git branch -f moved-by-agent main~0; git branch mine")
    later = commit(repository.root, "by the user", later="1")
    git(repository.root, "branch", "-qD", "old")

    bring_in(repository, tree)

    kept = git(repository.root, "for-each-ref", "--format=%(refname:lstrip=5)", KEPT)
    assert kept.split() == ["mine", "moved-by-agent"]
    assert runs(repository, tree, "git rev-parse main") == later
    assert runs(repository, tree, "git branch --list old") == ""
    # What the agent itself does to a branch of the repository is kept, and the next copy has both.
    runs(repository, tree, "git update-ref refs/heads/main HEAD")
    bring_in(repository, tree)
    assert runs(repository, tree, "git rev-parse main") == later


def test_a_commit_on_a_branch_that_others_have_moved_is_kept(
    repository: Repository, tree: Worktree
) -> None:
    runs(repository, tree, "echo 1 > one; git add one; git commit -qm by-agent")
    git(repository.root, "update-ref", f"refs/heads/{tree.branch}", "main^{commit}", tree.base)
    other = commit(repository.root, "elsewhere", elsewhere="1")
    git(repository.root, "update-ref", f"refs/heads/{tree.branch}", other)

    bring_in(repository, tree)

    assert head(repository, tree.branch) == other
    ref = KEPT + f"t/heads/{tree.branch}"
    assert git(repository.root, "log", "-1", "--format=%s", ref) == "by-agent"


@pytest.mark.parametrize("is_put_away", [True, False])
def test_of_a_closed_task_only_the_branches_stay_that_are_nowhere_else(
    repository: Repository, tree: Worktree, *, is_put_away: bool
) -> None:
    runs(repository, tree, "git branch same; git tag v9; git switch -qc side")
    runs(repository, tree, "git commit -q --allow-empty -m side; git switch -q -")
    commits(repository, tree)
    remove_worktree(repository, tree.folder, force=True)

    if is_put_away:
        put_away(repository, tree.branch, target="main")
    else:
        delete_branch(repository, tree.branch, target="main", force=True)

    assert (
        git(repository.root, "for-each-ref", "--format=%(refname)", KEPT) == f"{KEPT}t/heads/side"
    )


def test_what_the_user_has_checked_out_meanwhile_stays(
    repository: Repository, tree: Worktree
) -> None:
    runs(repository, tree, "git switch -qc side; echo 1 > one; git add one; git commit -qm side")
    git(tree.folder, "checkout", "-q", "--detach", tree.base)
    write(tree.folder, staged="1")
    git(tree.folder, "add", "staged")

    bring_in(repository, tree)

    assert git(tree.folder, "rev-parse", "HEAD") == tree.base
    assert "A  staged" in git(tree.folder, "status", "--porcelain").splitlines()


@pytest.mark.parametrize("index", ["no index", "DIRC"])
def test_an_index_that_git_cannot_read_is_made_anew(
    repository: Repository, tree: Worktree, index: str
) -> None:
    runs(repository, tree, f"{WHERE}; printf '{index}' > $admin/index")

    bring_in(repository, tree)

    assert git(tree.folder, "status", "--porcelain") == ""


def test_what_a_link_leads_to_is_not_shown_to_the_next_agent(
    repository: Repository, tree: Worktree, outside: Outside
) -> None:
    """Interlock could read what is hidden from the agent."""
    for name in ("MERGE_MSG", "index"):
        runs(repository, tree, f"{WHERE}; rm -f $admin/{name}; ln -s {outside.file} $admin/{name}")
        bring_in(repository, tree)
        admin = admin_of(repository, tree.folder)
        assert "untouched" not in "".join(
            file.read_text(errors="replace") for file in admin.iterdir() if file.is_file()
        )
        assert runs(repository, tree, f"{WHERE}; grep -rl untouched $admin || true") == ""


@pytest.mark.parametrize("target", ["{folder}", "/oldroot{folder}", "/newroot{folder}"])
def test_no_link_of_an_agent_decides_where_its_next_sandbox_mounts(
    repository: Repository, tree: Worktree, outside: Outside, target: str
) -> None:
    before, target = outside.seen(), target.format(folder=outside.folder)
    # While it runs, its own mount cannot be moved, but the folder around it can.
    trap = f"{WHERE}; mv $common/worktrees $common/away; ln -s {target} $common/worktrees"
    runs(repository, tree, trap)

    assert runs(repository, tree, "git rev-parse HEAD") == tree.base

    assert outside.seen() == before


def test_objects_of_lfs_come_in_where_they_are_what_they_are_called(
    repository: Repository, tree: Worktree
) -> None:
    """The agent finds those of the repository, and cannot change one."""
    store = repository.common / "lfs" / "objects"
    known, new = (hashlib.sha256(text).hexdigest() for text in (b"known\n", b"new\n"))
    place(store, known).write_bytes(b"known\n")
    git(repository.root, "lfs", "install", "--skip-repo")
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{known}\nsize 6\n"
    false, short = "0" * 64, "1" * 64
    script = (
        f"printf '{pointer}' | git lfs smudge; echo '*.bin filter=lfs' > .gitattributes;"
        f"echo new > new.bin; git add new.bin; {WHERE}; lfs=$common/lfs/objects;"
        f"mkdir -p $lfs/{known[:2]}/{known[2:4]} $lfs/00/00 $lfs/11/11;"
        f"rm -f $lfs/{known[:2]}/{known[2:4]}/{known};"
        f"echo evil > $lfs/{known[:2]}/{known[2:4]}/{known}; echo evil > $lfs/00/00/{false};"
        f"ln -s /etc/passwd $lfs/11/11/{short}"
    )

    seen = runs(repository, tree, script)
    said = fails(repository, tree, f"{WHERE}; echo > $common/interlock-shared/lfs/objects/x")
    commits(repository, tree)

    assert seen == "known"
    assert "Read-only file system" in said
    assert {path.name: path.read_text() for path in store.rglob("*") if path.is_file()} == {
        known: "known\n",
        new: "new\n",
    }


def place(store: Path, oid: str) -> Path:
    folder = store / oid[:2] / oid[2:4]
    folder.mkdir(parents=True)
    return folder / oid


def test_what_cannot_be_read_of_a_copy_is_named_once(
    repository: Repository, tree: Worktree
) -> None:
    """A repeat would find the same, so it is refused; the worktree stays with its files."""
    runs(repository, tree, f"echo 1 > one; {WHERE}; mkdir -p $common/objects/pack")
    runs(repository, tree, f"{WHERE}; echo evil > $common/objects/pack/pack-1.idx")

    with pytest.raises(RefusedError) as refused:
        save_work(repository, tree, message="saved", identity=AGENT)

    assert_refused(Refusal.UNSAVED, refused.value, tree.folder, FOLDER)
    assert (tree.folder / "one").read_text() == "1\n"


def test_a_very_large_file_of_an_operation_is_not_read(
    repository: Repository, tree: Worktree
) -> None:
    runs(repository, tree, f"{WHERE}; mkdir $admin/sequencer; truncate -s 4G $admin/sequencer/todo")

    with pytest.raises(RefusedError) as refused:
        save_work(repository, tree, message="saved", identity=AGENT)

    assert_refused(Refusal.UNSAVED, refused.value, "sequencer/todo", "git has not written it")
    assert tree.folder.is_dir()


def test_commits_in_the_copy_of_a_worktree_that_somebody_has_deleted_come_to_the_branch(
    repository: Repository, tree: Worktree
) -> None:
    script = "git switch -q --detach; echo 1 > one; git add one; git commit -qm work"
    runs(repository, tree, script)
    shutil.rmtree(tree.folder)

    save_work(repository, tree, message="m", identity=AGENT)

    assert git(repository.root, "log", "-1", "--format=%s", tree.branch) == "work"


def test_work_on_a_branch_that_only_the_copy_has_is_saved(
    repository: Repository, tree: Worktree
) -> None:
    runs(repository, tree, "git switch -qc side; echo 1 > one; git add one; git commit -qm side")

    save_work(repository, tree, message="saved", identity=AGENT)

    assert git(repository.root, "log", "-1", "--format=%s", tree.branch) == "side"


def test_the_branch_that_an_agent_has_checked_out_is_checked_out_in_its_next_copy(
    repository: Repository, tree: Worktree
) -> None:
    runs(repository, tree, "git switch -qc side; echo 1 > one; git add one; git commit -qm side")
    with pytest.raises(RefusedError, match="'side'"):
        commits(repository, tree)
    assert git(tree.folder, "log", "-1", "--format=%s") == "side"

    assert runs(repository, tree, "git branch --show-current") == "side"


def test_a_repository_inside_runs_nothing_outside_of_the_sandbox(
    repository: Repository, tree: Worktree, tmp_path: Path
) -> None:
    escaped = tmp_path / "escaped"
    script = (
        "git init -q sub; cd sub; echo a > f; echo 'f filter=evil' > .gitattributes; git add .;"
        f"git commit -qm s; git config filter.evil.clean 'sh -c \"touch {escaped}; cat\"';"
        "cd ..; git add sub 2>/dev/null; rm sub/.git/index; cd sub; git read-tree HEAD; echo b > f"
    )
    runs(repository, tree, script)

    with pytest.raises(RefusedError) as refused:
        commits(repository, tree)

    assert refused.value.refusal is Refusal.EMBEDDED_REPOSITORY
    assert not escaped.exists()
    # The guard is needed: the git of a repository without a sandbox runs the filter.
    with pytest.raises(RefusedError):
        commits(replace(repository, sandbox=None), tree)
    assert escaped.exists()


def test_an_object_comes_in_under_the_name_of_its_content(
    repository: Repository, tree: Worktree
) -> None:
    true = git(repository.root, "hash-object", "-w", "--stdin", "--path", "x")
    script = (
        "objects=$(git rev-parse --git-path objects); false=$(echo evil | git hash-object -w"
        f" --stdin); mkdir -p $objects/{true[:2]}; cp $objects/${{false:0:2}}/${{false:2}}"
        f" $objects/{true[:2]}/{true[2:]}; echo 1 > one; git add one; git commit -qm one"
    )
    runs(repository, tree, script)

    commits(repository, tree)

    assert git(repository.root, "cat-file", "blob", true) == ""
    git(repository.root, "fsck", "--strict")


def test_many_objects_come_in_as_one_pack(repository: Repository, tree: Worktree) -> None:
    packs = repository.common / "objects" / "pack"
    before = {*packs.glob("*.pack")}
    script = "for n in $(seq 150); do echo $n > n$n; done; git add .; git commit -qm many"
    runs(repository, tree, f"{script}; git repack -q -d; echo 1 > one; git add one")

    commits(repository, tree)

    assert len({*packs.glob("*.pack")} - before) == 1
    assert git(repository.root, "ls-tree", "--name-only", tree.branch).count("\n") > 150
    git(repository.root, "fsck", "--strict")


def test_the_branch_is_not_moved_back_by_a_copy_that_is_older(
    repository: Repository, tree: Worktree
) -> None:
    runs(repository, tree, "true")
    write(tree.folder, new="1")
    git(tree.folder, "add", "new")
    git(tree.folder, "commit", "-qm", "beside the copy")
    tip = head(repository, tree.branch)

    bring_in(repository, tree)

    assert head(repository, tree.branch) == tip
    assert not (admin_of(repository, tree.folder) / FOLDER).exists()
