"""Which variables of the shell that started Interlock reach the work that it runs.

A variable is removed if it leads a program to another place than the folder of the work, or if a
tool that ran `interlock up` has set it for what it starts itself. What says which programs and
libraries a build uses, how it connects, and who commits is not removed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from fnmatch import translate

# Of git's variables these are passed on: they say how git connects, where its settings are, and who
# commits. GIT_CONFIG_PARAMETERS is none of them: git itself sets it.
KEPT_OF_GIT = (
    *("GIT_ALLOW_PROTOCOL", "GIT_ASKPASS", "GIT_EXEC_PATH"),
    *("GIT_AUTHOR_EMAIL", "GIT_AUTHOR_NAME", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_NAME"),
    *("GIT_CONFIG_COUNT", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_KEY_*", "GIT_CONFIG_NOSYSTEM"),
    *("GIT_CONFIG_SYSTEM", "GIT_CONFIG_VALUE_*", "GIT_PROTOCOL_FROM_USER", "GIT_PROXY_*"),
    *("GIT_SSH", "GIT_SSH_*", "GIT_SSL_*", "GIT_TERMINAL_PROMPT"),
)
# What is removed, below what it would do.
REMOVED = (
    # Git would use another repository, working tree, index or date. Git sets them for hooks and
    # for `git rebase --exec`; some people set them for a repository of their settings.
    "GIT_*",
    # Each bash would run this file first.
    "BASH_ENV",
    # `cd lib` would go to a folder of that name elsewhere.
    "CDPATH",
    # Programs would take the folder of the shell for that of the work.
    *("PWD", "OLDPWD"),
    # make would take the options and variables of the make that ran `make up`.
    *(
        "MAKEFLAGS",
        "GNUMAKEFLAGS",
        "MFLAGS",
        "MAKEOVERRIDES",
        "MAKELEVEL",
        "MAKEFILES",
        "CARGO_MAKEFLAGS",
    ),
    # `make install` would write there.
    "DESTDIR",
    # Python would import another checkout's modules, so that tests check other code.
    *("PYTHONPATH", "PYTHONHOME"),
    # pip would install there.
    *("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT"),
    # uv and pipenv would work for another project, or all worktrees on one environment.
    *("UV_PROJECT", "UV_PROJECT_ENVIRONMENT", "UV_WORKING_DIR*", "PIPENV_PIPFILE"),
    # pytest would run other tests, or with other modules.
    *("PYTEST_ADDOPTS", "PYTEST_PLUGINS"),
    # coverage would write there.
    *("COVERAGE_FILE", "COVERAGE_PROCESS_START"),
    # Node would load another checkout's modules.
    "NODE_PATH",
    # npm would work on the package whose script ran `interlock up`.
    *("INIT_CWD", "npm_config_local_prefix", "npm_lifecycle_*", "npm_package_*"),
    # Ruby would load the gems of the project in which `bundle exec` ran `interlock up`.
    *("BUNDLE_GEMFILE", "BUNDLE_BIN_PATH", "BUNDLER_*", "RUBYLIB", "RUBYOPT"),
    # Java would load another checkout's classes.
    "CLASSPATH",
    # Maven would build another project.
    *("MAVEN_BASEDIR", "MAVEN_PROJECTBASEDIR"),
    # Go would take the modules of another workspace.
    "GOWORK",
    # All worktrees would build into one folder, and one would run what another has built.
    *("CARGO_TARGET_DIR", "CARGO_BUILD_TARGET_DIR"),
    # Programs would take the package that `cargo run` was started for for their own.
    *("CARGO_MANIFEST_*", "CARGO_PKG_*", "OUT_DIR"),
    # Tools that `bazel run` starts would write into another workspace.
    *("BUILD_WORKSPACE_DIRECTORY", "BUILD_WORKING_DIRECTORY"),
    # `docker compose` would start, or remove, the containers of another project.
    *("COMPOSE_FILE", "COMPOSE_PROJECT_NAME", "COMPOSE_ENV_FILES"),
    # Terraform would use another state.
    *("TF_DATA_DIR", "TF_WORKSPACE"),
)
# Interlock's own programs need these to find Interlock where it is not installed.
PYTHON_VARIABLES = ("PYTHONHOME", "PYTHONPATH")
PASSED = "INTERLOCK_PASS_VARIABLES"


def _pattern(names: Collection[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, names)))


_KEPT = _pattern(KEPT_OF_GIT)
_REMOVED = _pattern(REMOVED)


def redirects(name: str) -> bool:
    """Tell whether a variable could lead work to another place."""
    return _REMOVED.match(name) is not None and _KEPT.match(name) is None


def inherited() -> dict[str, str]:
    """Return the variables of this process that work inherits.

    No setting of Interlock is among them, because another program must see no store and no key. Of
    those that could lead work elsewhere there are only those that INTERLOCK_PASS_VARIABLES names.
    """
    passed = _passed()
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("INTERLOCK_") and (name in passed or not redirects(name))
    }


def remove_redirects() -> None:
    """Remove the variables that could lead work elsewhere from this process.

    The capabilities that it runs may start programs. PYTHON_VARIABLES stay: programs of Interlock
    that this process starts need them.
    """
    stay = _passed() | {*PYTHON_VARIABLES}
    for name in [name for name in os.environ if redirects(name) and name not in stay]:
        del os.environ[name]


def python_variables() -> dict[str, str]:
    """Return the variables with which a program of Interlock finds Interlock."""
    return {name: os.environ[name] for name in PYTHON_VARIABLES if name in os.environ}


def _passed() -> set[str]:
    return set(map(str.strip, os.environ.get(PASSED, "").split(",")))
