"""Release notes of a repository, by ten reviewed jobs: `python -m examples.release_notes`."""
