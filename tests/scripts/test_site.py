"""The site of the documents is not built from pages that lead to nothing, or that nothing names."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import site


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with two pages, whose site is built in a folder of the test."""
    root = tmp_path / "repository"
    (root / "docs" / "images").mkdir(parents=True)
    (root / "code.py").touch()
    (root / site.STYLE).touch()
    nav = 'nav = [{ "Start" = ["README.md", "docs/one.md"] }]'
    config = site.ROOT.joinpath(site.CONFIG).read_text("utf-8")
    before, _, rest = config.partition("nav = [")
    after = rest.partition("\n]\n")[2]
    (root / site.CONFIG).write_text(f"{before}{nav}\n{after}", "utf-8")
    (root / "README.md").write_text("# Start\n\n[one](docs/one.md#a-part) [code](code.py)\n")
    (root / "docs" / "one.md").write_text("# One\n\n## A part\n")
    monkeypatch.setattr(site, "ROOT", root)
    monkeypatch.setattr(site, "SITE", tmp_path / "site")
    return root


def test_a_site_has_its_pages_and_no_link_that_it_cannot_follow(
    repository: Path,
) -> None:
    assert site.main() == 0

    page = (repository.parent / "site" / "index.html").read_text("utf-8")
    assert 'href="docs/one.html#a-part"' in page
    assert "code.py" not in page
    assert "<script>" not in page, "the console would not run it"


@pytest.mark.parametrize(
    ("page", "text", "said"),
    [
        ("README.md", "[x](docs/two.md)", "README.md: the link to docs/two.md leads to nothing"),
        ("README.md", "![x](docs/images/x.png)", "the link to docs/images/x.png leads to nothing"),
        ("README.md", "[x](gone.py)", "README.md: the link to gone.py leads to nothing"),
        ("docs/one.md", "[x](../README.md#nowhere)", "docs/one.md:5:18"),
        ("docs/two.md", "# Two", "docs/two.md: name it in the navigation of zensical.toml"),
    ],
    ids=["no page", "no picture", "no file", "no heading", "a page that nothing names"],
)
def test_a_page_that_leads_to_nothing_is_refused(
    repository: Path, capsys: pytest.CaptureFixture[str], page: str, text: str, said: str
) -> None:
    file = repository / page
    file.write_text(f"# Page\n\n## A part\n\n{text}\n", "utf-8")

    assert site.main() == 1

    assert said in capsys.readouterr().err
    assert not (repository.parent / "site").exists()
