"""Questions about a folder that an agent filled read nothing outside of it."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import pytest

from interlock.workers.files import folder as module
from interlock.workers.files.folder import UntrustedFolder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    inside = tmp_path / "inside"
    (inside / "src" / "deep").mkdir(parents=True)
    (inside / "src" / "deep" / "total.py").write_text("def total(): return 1\n")
    (inside / ".git").mkdir()
    (inside / ".git" / "HEAD").write_text("ref\n")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.py").write_text("the needle\n")
    return inside


def answers(root: Path, path: str) -> set[str]:
    """Return the errors of all three questions about a path; they must agree."""
    folder = UntrustedFolder(root)
    answers = set()
    for ask in (folder.has, folder.has_match, lambda one: folder.contains(one, "the needle")):
        with pytest.raises(OSError, match=r".") as raised:
            ask(path)
        answers.add(str(raised.value))
    return answers


def test_files_and_folders_are_found(root: Path) -> None:
    folder = UntrustedFolder(root)

    assert folder.has("src/deep/total.py")
    assert folder.has("./src//deep/")
    assert not folder.has("src/other.py")
    assert not folder.has("src/deep/total.py/below")


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("", "the path is empty"),
        ("../outside/secret.py", "the path has '..', which leads out of the folder"),
        ("src/../../outside", "the path has '..', which leads out of the folder"),
        ("src/..", "the path has '..', which leads out of the folder"),
        ("/etc/passwd", "the path is absolute; give one inside the folder"),
        ("a\0b", "the path has a NUL character"),
    ],
)
def test_a_path_that_leads_out_by_its_text_is_refused(root: Path, path: str, sentence: str) -> None:
    assert answers(root, path) == {sentence}


def test_a_link_that_leads_out_is_refused_whether_or_not_the_text_is_there(root: Path) -> None:
    (root / "link").symlink_to(root.parent / "outside")
    (root / "file.py").symlink_to(root.parent / "outside" / "secret.py")
    folder = UntrustedFolder(root)

    for path in ("link/secret.py", "file.py", "link"):
        with pytest.raises(OSError, match="leads out of the folder by a link"):
            folder.has(path)
        for needle in ("the needle", "nowhere"):
            with pytest.raises(OSError, match="leads out of the folder by a link"):
                folder.contains(path, needle)
    for pattern in ("link/*.py", "link", "*.py", "link/**", "**/file.py"):
        with pytest.raises(OSError, match="the match leads out of the folder by a link"):
            folder.has_match(pattern)


def test_a_pattern_with_a_match_inside_is_not_refused_for_a_link(root: Path) -> None:
    (root / "a.py").symlink_to(root.parent / "outside" / "secret.py")
    (root / "b.py").write_text("")

    assert UntrustedFolder(root).has_match("*.py")


def test_a_link_within_the_folder_is_followed(root: Path) -> None:
    (root / "short").symlink_to("src/deep")
    folder = UntrustedFolder(root)

    assert folder.has("short/total.py")
    assert folder.contains("short/total.py", "return 1")
    assert folder.has_match("short/*.py")


def test_a_link_that_leads_nowhere_or_in_a_circle_is_no_match(root: Path) -> None:
    (root / "gone").symlink_to("nowhere")
    (root / "circle").symlink_to("circle")
    folder = UntrustedFolder(root)

    assert not folder.has("gone")
    assert not folder.has_match("gone")
    with pytest.raises(OSError, match="by a link"):
        folder.has("circle")
    with pytest.raises(OSError, match="by a link"):
        folder.has_match("circle")


def test_a_circle_does_not_hide_a_match_beside_it(root: Path) -> None:
    (root / "circle").symlink_to("circle")

    assert UntrustedFolder(root).has_match("[cs]*")


def test_a_link_that_appears_after_the_check_is_not_followed(root: Path) -> None:
    target = root / "src" / "deep" / "total.py"
    target.unlink()
    target.symlink_to(root.parent / "outside" / "secret.py")
    with ExitStack() as opened, pytest.raises(OSError, match="symbolic links"):
        UntrustedFolder(root)._open(target, opened)

    (root / "late").symlink_to(root.parent / "outside")
    with ExitStack() as opened, pytest.raises(OSError, match=r"Not a directory|symbolic links"):
        UntrustedFolder(root)._open(root / "late" / "secret.py", opened)


def test_a_folder_that_is_itself_a_link_is_searched(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)

    assert UntrustedFolder(tmp_path / "alias").contains("src/deep/total.py", "return 1")


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    assert answers(tmp_path / "gone", "a") == {"the folder is not there"}


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ("src", True),
        ("src/*", True),
        ("*.py", False),
        ("src/*.py", False),
        ("**/*.py", True),
        ("src/**/total.py", True),
        ("src/deep/**/total.py", True),
        ("**/deep/**/*", True),
        ("**", True),
        ("src/deep/total.py/*", False),
        ("src/d??p/[st]otal.py", True),
        ("src/d?p", False),
        ("**/HEAD", False),
        ("*/HEAD", False),
        (".git/HEAD", True),
        (".g*/HEAD", True),
        ("**/*.rs", False),
        ("SRC", False),
    ],
)
def test_a_pattern_fits_as_in_a_shell(root: Path, pattern: str, fits: bool) -> None:  # noqa: FBT001 - a case
    assert UntrustedFolder(root).has_match(pattern) is fits


def test_an_empty_folder_fits_no_pattern(tmp_path: Path) -> None:
    assert not UntrustedFolder(tmp_path).has_match("**")
    with pytest.raises(OSError, match="names nothing"):
        UntrustedFolder(tmp_path).has_match(".")


def test_links_between_folders_do_not_keep_a_search_going(root: Path) -> None:
    (root / "src" / "up").symlink_to("..")

    assert not UntrustedFolder(root).has_match("**/*.rs")
    assert not UntrustedFolder(root).has_match("src/up/src/up/src/up/*.rs")


def test_a_folder_that_cannot_be_entered_has_no_match(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scandir = os.scandir

    def guarded(folder: Path) -> object:
        if folder.name == "deep":
            raise PermissionError(13, "Permission denied")
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", guarded)

    assert not UntrustedFolder(root).has_match("**/total.py")
    assert UntrustedFolder(root).has_match("**/deep")


def test_many_wildcards_scan_each_folder_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENTRIES_MAX", 1_000)
    root.joinpath(*"abcdefghijkl").mkdir(parents=True)

    assert not UntrustedFolder(root).has_match("**/**/**/**/**/**/**/**/*.rs")


def test_a_search_ends_in_an_endless_folder(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ENTRIES_MAX", 20)
    for number in range(30):
        (root / f"{number}.txt").touch()

    with pytest.raises(OSError, match="more than 20 names were compared without a match"):
        UntrustedFolder(root).has_match("**/*.rs")


def test_a_text_across_two_reads_is_found(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_READ_BYTES", 4)
    (root / "text").write_text("abcdefghij\u00e4klm")

    found = [
        UntrustedFolder(root).contains("text", text)
        for text in ("defgh", "abc", "m", "j\u00e4k", "ax")
    ]

    assert found == [True, True, True, True, False]


def test_a_file_of_any_bytes_is_read(root: Path) -> None:
    (root / "bytes").write_bytes(b"\xff\0needle\xfe")

    assert UntrustedFolder(root).contains("bytes", "needle")
    assert not UntrustedFolder(root).contains("bytes", "needles")


def test_a_file_is_read_up_to_its_limit(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FILE_BYTES_MAX", 10)
    (root / "long").write_text("needle" + "." * 20)

    assert UntrustedFolder(root).contains("long", "needle")
    with pytest.raises(OSError, match="more than 10 bytes"):
        UntrustedFolder(root).contains("long", "no")


def test_the_content_of_a_file_over_the_limit_is_refused_before_it_is_read(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "long").touch()
    os.truncate(root / "long", module.FILE_BYTES_MAX + 1)
    # The first read would raise another error.
    monkeypatch.setattr(module, "_READ_BYTES", -1)

    with pytest.raises(OSError, match="more than 67108864 bytes"):
        UntrustedFolder(root).content("long")


def test_the_content_of_a_file_that_is_longer_than_the_system_says_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "FILE_BYTES_MAX", 10)
    # The system says that files in /proc have 0 bytes, as a file may that grows meanwhile.
    with pytest.raises(OSError, match="more than 10 bytes"):
        UntrustedFolder(Path(f"/proc/{os.getpid()}")).content("status")


def test_no_file_is_left_open(root: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    folder = UntrustedFolder(root)

    assert folder.contains("src/deep/total.py", "return 1")
    with pytest.raises(OSError, match=r"no plain file|is a directory"):
        folder.contains("src/deep", "return 1")
    assert folder.has_match("**/*.py")

    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_a_pipe_is_not_waited_for(root: Path) -> None:
    os.mkfifo(root / "pipe")

    with pytest.raises(OSError, match="no plain file"):
        UntrustedFolder(root).contains("pipe", "a")


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("src", "the path is no plain file"),
        (".", "the path is no plain file"),
        ("gone", "no such file or directory"),
        ("src/deep/total.py/x", "not a directory"),
        ("a" * 300, "file name too long"),
        ("\ud800", "the path cannot be the name of a file"),
    ],
)
def test_a_file_that_cannot_be_read_is_an_error(root: Path, path: str, sentence: str) -> None:
    with pytest.raises(OSError, match=r".") as raised:
        UntrustedFolder(root).contains(path, "a")

    assert str(raised.value) == sentence
