"""Fixtures: servers for tests, and a check that no test leaves a process behind."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import pytest
import redis
from _pytest.runner import runtestprotocol
from hypothesis import settings
from hypothesis.internal.conjecture.providers import _get_local_constants
from kombu import pools

from interlock.kernel.store.connect import DRIVER, open_store
from interlock.kernel.store.format import refuse_another_format
from interlock.kernel.store.keys import Keys
from interlock.kernel.store.scripts import Client
from interlock.systems import NAMES
from interlock.workers.engine import dispatch, store_client
from interlock.workers.engine.event_loop import EventLoop
from interlock.workers.engine.own_systems import add_systems
from interlock.workers.engine.refusals import refusals_of
from interlock.workers.engine.store_client import open_safe_store
from interlock.workers.gateways.server import EmbeddedServer
from tests.fakes.proxy import FaultProxy
from tests.forked_processes import start_server
from tests.preloaded_process import ADDRESS, Preloaded, preloaded_process
from tests.processes import PROC, kill_marked
from tests.raised_limits import IN_TESTS
from tests.servers import (
    RABBITMQ,
    STORE_START_S,
    Answering,
    Watched,
    cluster_server,
    rabbitmq_node,
    redis_binary,
    sentinel,
)
from tests.waiting import until

# The clients of each shared store, by its address and by their options. If each test opened its
# own, it would connect and ask the store for its memory and its version.
SHARED: dict[str, dict[frozenset[tuple[str, Any]], Client]] = {}
TEST_VARIABLE = "TEST_THAT_OWNS_THIS"
END_PATIENCE_S = 60.0
# The folder in memory that Linux has. To make a file there takes a fortieth of the time on a disk.
MEMORY, MEMORY_BYTES_MIN = "/dev/shm", 4 * 1024**3  # noqa: S108 - the folder itself
add_systems(NAMES, Path())  # tests are collected by what these have
SLOW_MINUTES = 0.25  # of a slow test that does not say how many it takes
# These fixtures start a program, which takes seconds. All tests with one of them are given to one
# process of the run, so that it is started once.
COSTLY = ("rabbitmq", "chromium")

NewServer = Callable[..., EmbeddedServer]
NewProxy = Callable[[int], FaultProxy]

# No deadline, because cores are shared. The same examples every time, so that failures repeat.
settings.register_profile("test", max_examples=10, deadline=None, derandomize=True, print_blob=True)
settings.register_profile("proof", parent=settings.get_profile("test"), max_examples=2_000)


def pytest_configure(config: pytest.Config) -> None:
    """Choose the number of examples, collect garbage rarely, and make the folder of this run."""
    settings.load_profile("proof" if is_run_of_proofs(config) else "test")
    # Tests leave little garbage: looking for it as often as usual takes a twentieth of their time.
    gc.set_threshold(50_000, 20, 20)
    if not hasattr(config, "workerinput"):
        make_folder(config)


def make_folder(config: pytest.Config) -> None:
    """Make a folder for the temporary files of this run, in memory if possible, until it ends.

    Processes that are killed leave files in it. The folders that pytest makes for tests are
    outside, and stay, so that a person can look into a failure.
    """
    in_memory = "TMPDIR" not in os.environ and is_memory_usable()
    parent = MEMORY if in_memory else tempfile.gettempdir()
    folder = TemporaryDirectory(dir=parent, ignore_cleanup_errors=True)
    config.add_cleanup(folder.cleanup)
    patch = pytest.MonkeyPatch()
    config.add_cleanup(patch.undo)
    patch.setenv("PYTEST_DEBUG_TEMPROOT", os.environ.get("PYTEST_DEBUG_TEMPROOT", parent))
    patch.setenv("TMPDIR", folder.name)
    patch.setattr(tempfile, "tempdir", folder.name)


def is_run_of_proofs(config: pytest.Config) -> bool:
    """Whether `make proof` runs the tests, which selects them by the mark `proof`."""
    return str(config.getoption("markexpr")).startswith("proof")


def is_memory_usable() -> bool:
    """Whether tests can make their files in memory, and run programs there."""
    try:
        found = os.statvfs(MEMORY)
    except OSError:
        return False
    # The size of the folder is a limit of its own: there may be less memory.
    lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    free = sum(int(line.split()[1]) * 1_024 for line in lines if line.startswith("MemAvailable:"))
    room = min(found.f_bavail * found.f_frsize, free)
    return (
        room >= MEMORY_BYTES_MIN and not found.f_flag & os.ST_NOEXEC and os.access(MEMORY, os.W_OK)
    )


@pytest.hookimpl(optionalhook=True)  # without pytest-xdist there is no such hook
def pytest_xdist_setupnodes(config: pytest.Config, specs: Sequence[Any]) -> None:
    """Let the processes of a whole run be forks of this one, once it has imported all tests."""
    tests = config.rootpath / "tests"
    if sys.platform == "linux" and config.args in (["tests"], [str(tests)]):
        stack = ExitStack()
        config.add_cleanup(stack.close)
        # A short path, because sockets have their addresses in it.
        folder = Path(stack.enter_context(TemporaryDirectory()))
        # The preloaded process imports what workers need while this one imports the tests.
        os.environ[ADDRESS] = str(stack.enter_context(preloaded_process(folder)))
        files = sorted(tests.rglob("test_*.py"))
        modules = [".".join(f.relative_to(config.rootpath).with_suffix("").parts) for f in files]
        # The first import of a test compiles it, which takes seconds: another core does a half.
        helper = os.fork()
        if helper == 0:
            try:
                import_all(reversed(modules[len(modules) // 2 :]))
            finally:
                os._exit(0)
        import_all(modules)
        os.waitpid(helper, 0)
        # Hypothesis looks for constants in all modules of this project, and each fork would.
        _get_local_constants()
        program = start_server(folder)
        for spec in specs:
            spec.python = program


def import_all(modules: Iterable[str]) -> None:
    """Import modules by their names."""
    for module in modules:
        import_module(module)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Let a process of a run report a test that passes by one message instead of five.

    Its duration is that of the whole test, with the begin and the end of its fixtures.
    """
    if not hasattr(item.config, "workerinput"):
        return None
    reports = runtestprotocol(item, nextitem=nextitem, log=False)
    duration = sum(report.duration for report in reports)
    for report in reports:
        if report.when == "call" or not report.passed:
            report.duration = duration
            item.ihook.pytest_runtest_logreport(report=report)
    return True


@pytest.hookimpl(trylast=True)  # after the proofs were left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let each process of the run begin with its share of the slow tests.

    The run gives each process an equal part of the list. A slow test at the end of one part would
    leave the other processes without work.
    """
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    shares: list[list[pytest.Item]] = [[] for _ in range(count)]
    slow, rest = list[pytest.Item](), list[pytest.Item]()
    for item in items:
        names = getattr(item, "fixturenames", ())
        number = next((n for n, costly in enumerate(COSTLY) if costly in names), None)
        if number is not None:
            shares[number % count].append(item)
        else:
            (slow if item.get_closest_marker("slow") else rest).append(item)
    minutes, others = [sum(map(_minutes, share)) for share in shares], iter(rest)
    for item in sorted(slow, key=_minutes, reverse=True):
        least = minutes.index(min(minutes))
        shares[least].append(item)
        minutes[least] += _minutes(item)
    left, items[:] = len(items), []
    for number, share in enumerate(shares):
        # Tests of a module stay together, because they share its fixtures.
        size = max(len(share), left // (count - number))
        items += [*share, *islice(others, size - len(share))]
        left -= size


def _minutes(item: pytest.Item) -> float:
    """Return how many minutes a slow test takes."""
    mark = item.get_closest_marker("slow")
    return float(mark.kwargs.get("minutes", SLOW_MINUTES)) if mark else 0.0


def pytest_collection_finish() -> None:
    """Let the garbage collector skip what was collected: thousands of tests, for the whole run."""
    gc.freeze()


@pytest.fixture(scope="session")
def is_proof(pytestconfig: pytest.Config) -> bool:
    """Whether this run is of the proofs: a test with the mark `fuzz` then tries more cases."""
    return is_run_of_proofs(pytestconfig)


@pytest.fixture(scope="session")
def ctrl_c_is_not_ignored() -> None:
    """Let the processes that tests start receive SIGINT.

    A shell starts a background command with SIGINT ignored, and its processes inherit that.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Let no test make worktrees in the user's home, load certificates, or fail at a limit.

    Tests talk to servers of their own, and each client of a model would load all certificates.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        patch.delenv("SSL_CERT_FILE", raising=False)
        patch.setenv("SSL_CERT_DIR", str(tmp_path_factory.mktemp("certificates")))
        for module, name, limit in IN_TESTS:
            patch.setattr(module, name, limit)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_process_left(ctrl_c_is_not_ignored: None) -> Iterator[None]:
    """Fail when a process that a test started is still there after the last fixture's end."""
    del ctrl_c_is_not_ignored
    owner = uuid4().hex
    os.environ[TEST_VARIABLE] = owner
    yield
    if PROC.joinpath("self", "environ").exists():
        left = kill_marked(TEST_VARIABLE, owner, patience_s=END_PATIENCE_S)
        assert not left, f"tests left these processes behind: {left}"


def is_idle(loop: asyncio.AbstractEventLoop) -> bool:
    return not loop.is_running()


@pytest.fixture(autouse=True)
def no_descriptor_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close stores, event loops and pools: all tests of a process share its descriptors.

    Stores that are opened at the address of the shared one are kept for the other tests.
    """
    opened: list[Client] = []
    loops: set[asyncio.AbstractEventLoop] = set()
    begin = EventLoop.started

    def begin_and_keep(running: EventLoop) -> asyncio.AbstractEventLoop:
        loop = begin(running)
        loops.add(loop)
        return loop

    def open_and_keep(*args: Any, **options: Any) -> Client:
        opened.append(open_store(*args, **options))
        return opened[-1]

    def open_or_share(url: str, keys: Keys, **options: Any) -> Client:
        clients, asked = SHARED.get(url), frozenset(options.items())
        if clients is None:
            return open_safe_store(url, keys, **options)
        if asked not in clients:
            # Without a guard, which knows the format of one deployment.
            clients[asked] = store_client.open_store_of_any_format(url, **options)
            opened.remove(clients[asked])
        refuse_another_format(clients[asked], keys)
        return clients[asked]

    monkeypatch.setattr(store_client, "open_store", open_and_keep)
    monkeypatch.setattr(dispatch, "open_safe_store", open_or_share)
    monkeypatch.setattr(EventLoop, "started", begin_and_keep)
    yield
    for loop in loops:
        loop.call_soon_threadsafe(loop.stop)
        until(partial(is_idle, loop), what="the loop has ended")
        loop.close()
    for client in opened:
        client.close()
    pools.reset()


@pytest.fixture(autouse=True)
def no_refusal_noted() -> None:
    """Forget the refusals that earlier tests caused: a process logs only the first refusal."""
    refusals_of.cache_clear()


@pytest.fixture(scope="session")
def preloaded(no_process_left: None) -> Iterator[Preloaded]:
    """Return a link to the process that forks the workers of all tests."""
    del no_process_left
    with ExitStack() as stack:
        address = os.environ.get(ADDRESS)
        if address is None:
            folder = stack.enter_context(TemporaryDirectory())
            address = str(stack.enter_context(preloaded_process(Path(folder))))
        link = Preloaded(Path(address))
        stack.callback(link.close)
        yield link


@pytest.fixture(scope="session")
def server(
    no_process_left: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedServer]:
    """Return the store that the tests of this process share; keep to your own `prefix` in it.

    It has no append-only file: a test that kills a store starts one of its own.
    """
    del no_process_left
    folder = tmp_path_factory.mktemp("store")
    with EmbeddedServer(folder, settings={"appendonly": "no"}, start_s=STORE_START_S) as shared:
        clients = SHARED[shared.url] = {}
        yield shared
        del SHARED[shared.url]
        for client in clients.values():
            client.close()


@pytest.fixture
def prefix() -> str:
    """Return a prefix for keys that no other test has."""
    return f"t{uuid4().hex[:12]}"


@pytest.fixture(scope="session")
def client(server: EmbeddedServer) -> Iterator[redis.Redis]:
    """Return a client of the shared store that answers in bytes, which all tests use."""
    with redis.Redis.from_url(server.url, driver_info=DRIVER) as shared:
        yield shared


@pytest.fixture
def new_server(tmp_path: Path) -> Iterator[NewServer]:
    """Return a function that starts private servers: `new_server(settings={...}, port=...)`.

    Each has a folder of its own unless `folder` names one.
    """
    with ExitStack() as stack:

        def start(folder: Path | None = None, **options: object) -> EmbeddedServer:
            store_folder = folder or tmp_path / f"store-{uuid4().hex[:8]}"
            build: Callable[..., EmbeddedServer] = EmbeddedServer
            return stack.enter_context(build(store_folder, **{"start_s": STORE_START_S, **options}))

        yield start


@pytest.fixture(scope="session")
def cluster(
    no_process_left: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedServer]:
    """Return a cluster-enabled server that owns all slots."""
    del no_process_left
    with cluster_server(tmp_path_factory.mktemp("cluster")) as shared:
        yield shared


@pytest.fixture
def watched(new_server: NewServer, tmp_path: Path) -> Iterator[Watched]:
    """Return a master and its synchronised replica, watched by a Sentinel."""
    master = new_server()
    replica = new_server(settings={"replicaof": f"127.0.0.1 {master.port}"})
    with sentinel(tmp_path, master, replica) as pair:
        yield pair


@pytest.fixture(scope="session")
def redis_server(
    no_process_left: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[EmbeddedServer]:
    """Return Debian's Redis 7 with our settings, to compare with Valkey."""
    del no_process_left
    binary = redis_binary()
    if binary is None:
        _missing("redis-server")
    else:
        folder = tmp_path_factory.mktemp("redis")
        with EmbeddedServer(folder, binary=binary, start_s=STORE_START_S) as shared:
            yield shared


@pytest.fixture(scope="session")
def started_rabbitmq(
    no_process_left: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Answering]:
    """Return a private RabbitMQ node."""
    del no_process_left
    if not RABBITMQ.exists():
        _missing("rabbitmq-server")
    with rabbitmq_node(tmp_path_factory.mktemp("rabbitmq")) as node:
        yield node


@pytest.fixture
def rabbitmq(started_rabbitmq: Answering) -> str:
    """Return the address of a private RabbitMQ node. It takes seconds: use it sparingly."""
    started_rabbitmq.assert_answers()
    return started_rabbitmq.address


@pytest.fixture
def new_proxy() -> Iterator[NewProxy]:
    """Return a function that starts a faulty proxy in front of a local port: `new_proxy(port)`."""
    with ExitStack() as stack:
        yield lambda port: stack.enter_context(FaultProxy(port))


def _missing(package: str) -> None:
    reason = f"{package} is not installed: apt-get install {package}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
