"""The Celery app of workers and beat: `celery -A interlock.workers.main worker`, or `beat`."""

from __future__ import annotations

from celery import Celery
from celery.signals import beat_init, worker_init, worker_shutting_down

from interlock.kernel.blame import blamed
from interlock.kernel.errors import KernelError
from interlock.kernel.machines import MACHINES
from interlock.workers.config import Settings
from interlock.workers.engine.affinity import tune_when_ready
from interlock.workers.engine.announcement import Announcer
from interlock.workers.engine.celery_app import SWEEPS_QUEUE, effect_queues, local_queue, make_app
from interlock.workers.engine.diff_calls import find_diff_source
from interlock.workers.engine.dispatch import Dispatch
from interlock.workers.engine.entry import start
from interlock.workers.engine.liveness import write_liveness_file
from interlock.workers.engine.log_lines import set_up_log
from interlock.workers.engine.presence import WORKER, Presence
from interlock.workers.engine.publisher import Publisher
from interlock.workers.engine.registration import register_effects
from interlock.workers.engine.resources import Resources
from interlock.workers.engine.runner import Runner
from interlock.workers.engine.sweeper import register_sweeps
from interlock.workers.engine.thread_pool import watch_threads
from interlock.workers.engine.trace_context import start_traces
from interlock.workers.files.private import close_folder
from interlock.workers.gateways.sources import open_sources
from interlock.workers.supervision.publishing import publishing_thread
from interlock.workers.systems import (
    check_families,
    check_sweeps,
    facts,
    handlers,
    openers,
    sweeps,
)


def assemble(settings: Settings) -> Celery:
    """Return the app with every effect and sweep registered.

    Raises MissingHandlerError, and SystemsError where a machine cannot have its children or names
    a sweep that there is not.
    """
    queues = effect_queues(MACHINES.values(), local_queue(settings.host), SWEEPS_QUEUE)
    celery_app = make_app(settings, queues)
    dispatch = Dispatch(settings, MACHINES, Publisher(settings, celery_app, MACHINES))
    resources = Resources(settings)
    runner = Runner(dispatch, resources)
    announcer, presence = Announcer(settings.host), Presence(dispatch)
    publisher = publishing_thread(dispatch, find_diff_source)
    celery_app.dispatch = dispatch
    check_families(MACHINES)
    check_sweeps(MACHINES)
    register_effects(celery_app, runner, MACHINES, handlers())
    register_sweeps(celery_app, dispatch, sweeps())
    write_liveness_file(celery_app, settings.alive)
    set_up_log(settings.log_format)
    start_traces(settings, "worker")
    if settings.metrics_address is not None:
        # Few set it, and without it the process starts a tenth of a second sooner.
        from interlock.workers.ops.process_metrics import serve_metrics_of  # noqa: PLC0415

        serve_metrics_of(celery_app, settings, dispatch.call_times)
    tune_when_ready(runner.affinity)

    @worker_init.connect(weak=False)
    def check(sender: object, **_: object) -> None:
        watch_threads(sender, runner.limits)
        # A wrong setting or an unsafe store fails the start of the worker, not its first effect.
        try:
            for opener in openers():
                resources.get(opener)
            load_capabilities(dispatch)
            announced = facts(resources)
            dispatch.wait_for_store()
            presence.begin(WORKER, str(getattr(sender, "hostname", dispatch.holder)))
        # Celery would only log an error that a signal's receiver raises, and start the worker.
        except (KernelError, ValueError) as refusal:
            raise SystemExit(f"interlock: {refusal}") from refusal
        except Exception as failure:
            # A system of others may raise anything where it opens what it needs.
            why = f"interlock: this worker cannot start: {blamed(failure)}"
            raise SystemExit(why) from failure
        if settings.agents_max:
            announcer.start(lambda: dispatch.hosts.announce(settings.host, announced))
            publisher.start()
            close_folder(settings.home.absolute())
            close_folder(settings.worktree_folder)

    @worker_shutting_down.connect(weak=False)
    def shut_down(**_: object) -> None:
        announcer.stop()
        publisher.stop()
        runner.shut_down()
        presence.end()

    @beat_init.connect(weak=False)
    def check_beat(**_: object) -> None:
        presence.begin_anyway("beat", f"beat@{settings.host}")

    return celery_app


def load_capabilities(dispatch: Dispatch) -> None:
    """Load what INTERLOCK_CAPABILITIES names. Raises KernelError or ValueError if it is wrong."""
    if dispatch.settings.capabilities:
        _ = dispatch.registry
        open_sources(dispatch.settings)


app = start(assemble)
