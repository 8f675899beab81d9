"""Reads of codons that the type checker allows, and such that it refuses.

`test_codon_types.py` writes this file and says why.
"""

from __future__ import annotations

from typing import assert_never

from interlock.systems.runs.machines.codon.names import State
from interlock.systems.runs.machines.codon_types import (
    Codon,
    CompletedCodon,
    CompletingSentinelsCodon,
    FailedCodon,
    InitializingCodon,
    PreparingCodon,
    RunningCodon,
    SkippedCodon,
    StartingCodon,
)


def cost_in_any_state(codon: Codon) -> object:
    return codon.current_cost  # type: ignore[union-attr]


def after_asking_for_the_state(codon: Codon) -> int:
    if codon.status is State.RUNNING:
        return codon.current_cost
    if codon.status is State.COMPLETED:
        return codon.final_cost + codon.exit_code
    if isinstance(codon, FailedCodon | SkippedCodon):
        return codon.partial_cost
    return codon.start_time


def after_asking_for_another_state(codon: Codon) -> object:
    if codon.status is State.COMPLETED:
        return codon.current_cost  # type: ignore[attr-defined]
    return codon.start_time


def fields_of_any_state(codon: Codon) -> list[object]:
    return [
        codon.codon_id,
        codon.loop_context,
        codon.start_time,
    ]


def fields_of_preparing(codon: PreparingCodon) -> list[object]:
    return [
        codon.assistant_message_count,  # type: ignore[attr-defined]
        codon.budget_exceeded,  # type: ignore[attr-defined]
        codon.completion_checkpoint,  # type: ignore[attr-defined]
        codon.context_exceeded,  # type: ignore[attr-defined]
        codon.current_cost,  # type: ignore[attr-defined]
        codon.current_tokens,  # type: ignore[attr-defined]
        codon.end_time,  # type: ignore[attr-defined]
        codon.error_checkpoint,  # type: ignore[attr-defined]
        codon.exit_code,  # type: ignore[attr-defined]
        codon.failed_during,  # type: ignore[attr-defined]
        codon.failure_reason,  # type: ignore[attr-defined]
        codon.final_cost,  # type: ignore[attr-defined]
        codon.final_tokens,  # type: ignore[attr-defined]
        codon.ignored,  # type: ignore[attr-defined]
        codon.log_path,  # type: ignore[attr-defined]
        codon.partial_cost,  # type: ignore[attr-defined]
        codon.partial_tokens,  # type: ignore[attr-defined]
        codon.pid,  # type: ignore[attr-defined]
        codon.previous_session_id,  # type: ignore[attr-defined]
        codon.result_message_received,  # type: ignore[attr-defined]
        codon.rig_setup_checkpoint,  # type: ignore[attr-defined]
        codon.sentinels,  # type: ignore[attr-defined]
        codon.session_id,  # type: ignore[attr-defined]
        codon.skip_checkpoint,  # type: ignore[attr-defined]
        codon.skipped_during,  # type: ignore[attr-defined]
    ]


def fields_of_starting(codon: StartingCodon) -> list[object]:
    return [
        codon.assistant_message_count,  # type: ignore[attr-defined]
        codon.budget_exceeded,  # type: ignore[attr-defined]
        codon.completion_checkpoint,  # type: ignore[attr-defined]
        codon.context_exceeded,  # type: ignore[attr-defined]
        codon.current_cost,  # type: ignore[attr-defined]
        codon.current_tokens,  # type: ignore[attr-defined]
        codon.end_time,  # type: ignore[attr-defined]
        codon.error_checkpoint,  # type: ignore[attr-defined]
        codon.exit_code,  # type: ignore[attr-defined]
        codon.failed_during,  # type: ignore[attr-defined]
        codon.failure_reason,  # type: ignore[attr-defined]
        codon.final_cost,  # type: ignore[attr-defined]
        codon.final_tokens,  # type: ignore[attr-defined]
        codon.ignored,  # type: ignore[attr-defined]
        codon.log_path,  # type: ignore[attr-defined]
        codon.partial_cost,  # type: ignore[attr-defined]
        codon.partial_tokens,  # type: ignore[attr-defined]
        codon.pid,  # type: ignore[attr-defined]
        codon.previous_session_id,  # type: ignore[attr-defined]
        codon.result_message_received,  # type: ignore[attr-defined]
        codon.rig_setup_checkpoint,
        codon.sentinels,
        codon.session_id,  # type: ignore[attr-defined]
        codon.skip_checkpoint,  # type: ignore[attr-defined]
        codon.skipped_during,  # type: ignore[attr-defined]
    ]


def fields_of_initializing(codon: InitializingCodon) -> list[object]:
    return [
        codon.assistant_message_count,  # type: ignore[attr-defined]
        codon.budget_exceeded,  # type: ignore[attr-defined]
        codon.completion_checkpoint,  # type: ignore[attr-defined]
        codon.context_exceeded,  # type: ignore[attr-defined]
        codon.current_cost,  # type: ignore[attr-defined]
        codon.current_tokens,  # type: ignore[attr-defined]
        codon.end_time,  # type: ignore[attr-defined]
        codon.error_checkpoint,  # type: ignore[attr-defined]
        codon.exit_code,  # type: ignore[attr-defined]
        codon.failed_during,  # type: ignore[attr-defined]
        codon.failure_reason,  # type: ignore[attr-defined]
        codon.final_cost,  # type: ignore[attr-defined]
        codon.final_tokens,  # type: ignore[attr-defined]
        codon.ignored,  # type: ignore[attr-defined]
        codon.log_path,
        codon.partial_cost,  # type: ignore[attr-defined]
        codon.partial_tokens,  # type: ignore[attr-defined]
        codon.pid,
        codon.previous_session_id,
        codon.result_message_received,  # type: ignore[attr-defined]
        codon.rig_setup_checkpoint,
        codon.sentinels,
        codon.session_id,  # type: ignore[attr-defined]
        codon.skip_checkpoint,  # type: ignore[attr-defined]
        codon.skipped_during,  # type: ignore[attr-defined]
    ]


def fields_of_running(codon: RunningCodon) -> list[object]:
    return [
        codon.assistant_message_count,
        codon.budget_exceeded,  # type: ignore[attr-defined]
        codon.completion_checkpoint,  # type: ignore[attr-defined]
        codon.context_exceeded,  # type: ignore[attr-defined]
        codon.current_cost,
        codon.current_tokens,
        codon.end_time,  # type: ignore[attr-defined]
        codon.error_checkpoint,  # type: ignore[attr-defined]
        codon.exit_code,  # type: ignore[attr-defined]
        codon.failed_during,  # type: ignore[attr-defined]
        codon.failure_reason,  # type: ignore[attr-defined]
        codon.final_cost,  # type: ignore[attr-defined]
        codon.final_tokens,  # type: ignore[attr-defined]
        codon.ignored,  # type: ignore[attr-defined]
        codon.log_path,
        codon.partial_cost,  # type: ignore[attr-defined]
        codon.partial_tokens,  # type: ignore[attr-defined]
        codon.pid,
        codon.previous_session_id,
        codon.result_message_received,  # type: ignore[attr-defined]
        codon.rig_setup_checkpoint,
        codon.sentinels,
        codon.session_id,
        codon.skip_checkpoint,  # type: ignore[attr-defined]
        codon.skipped_during,  # type: ignore[attr-defined]
    ]


def fields_of_completing_sentinels(codon: CompletingSentinelsCodon) -> list[object]:
    return [
        codon.assistant_message_count,
        codon.budget_exceeded,  # type: ignore[attr-defined]
        codon.completion_checkpoint,  # type: ignore[attr-defined]
        codon.context_exceeded,  # type: ignore[attr-defined]
        codon.current_cost,
        codon.current_tokens,
        codon.end_time,  # type: ignore[attr-defined]
        codon.error_checkpoint,  # type: ignore[attr-defined]
        codon.exit_code,  # type: ignore[attr-defined]
        codon.failed_during,  # type: ignore[attr-defined]
        codon.failure_reason,  # type: ignore[attr-defined]
        codon.final_cost,  # type: ignore[attr-defined]
        codon.final_tokens,  # type: ignore[attr-defined]
        codon.ignored,  # type: ignore[attr-defined]
        codon.log_path,
        codon.partial_cost,  # type: ignore[attr-defined]
        codon.partial_tokens,  # type: ignore[attr-defined]
        codon.pid,
        codon.previous_session_id,
        codon.result_message_received,  # type: ignore[attr-defined]
        codon.rig_setup_checkpoint,
        codon.sentinels,
        codon.session_id,
        codon.skip_checkpoint,  # type: ignore[attr-defined]
        codon.skipped_during,  # type: ignore[attr-defined]
    ]


def fields_of_completed(codon: CompletedCodon) -> list[object]:
    return [
        codon.assistant_message_count,
        codon.budget_exceeded,
        codon.completion_checkpoint,
        codon.context_exceeded,
        codon.current_cost,  # type: ignore[attr-defined]
        codon.current_tokens,  # type: ignore[attr-defined]
        codon.end_time,
        codon.error_checkpoint,  # type: ignore[attr-defined]
        codon.exit_code,
        codon.failed_during,  # type: ignore[attr-defined]
        codon.failure_reason,  # type: ignore[attr-defined]
        codon.final_cost,
        codon.final_tokens,
        codon.ignored,  # type: ignore[attr-defined]
        codon.log_path,
        codon.partial_cost,  # type: ignore[attr-defined]
        codon.partial_tokens,  # type: ignore[attr-defined]
        codon.pid,  # type: ignore[attr-defined]
        codon.previous_session_id,
        codon.result_message_received,
        codon.rig_setup_checkpoint,
        codon.sentinels,
        codon.session_id,
        codon.skip_checkpoint,  # type: ignore[attr-defined]
        codon.skipped_during,  # type: ignore[attr-defined]
    ]


def fields_of_failed(codon: FailedCodon) -> list[object]:
    return [
        codon.assistant_message_count,
        codon.budget_exceeded,  # type: ignore[attr-defined]
        codon.completion_checkpoint,  # type: ignore[attr-defined]
        codon.context_exceeded,  # type: ignore[attr-defined]
        codon.current_cost,  # type: ignore[attr-defined]
        codon.current_tokens,  # type: ignore[attr-defined]
        codon.end_time,
        codon.error_checkpoint,
        codon.exit_code,
        codon.failed_during,
        codon.failure_reason,
        codon.final_cost,  # type: ignore[attr-defined]
        codon.final_tokens,  # type: ignore[attr-defined]
        codon.ignored,
        codon.log_path,
        codon.partial_cost,
        codon.partial_tokens,
        codon.pid,
        codon.previous_session_id,
        codon.result_message_received,  # type: ignore[attr-defined]
        codon.rig_setup_checkpoint,
        codon.sentinels,
        codon.session_id,
        codon.skip_checkpoint,  # type: ignore[attr-defined]
        codon.skipped_during,  # type: ignore[attr-defined]
    ]


def fields_of_skipped(codon: SkippedCodon) -> list[object]:
    return [
        codon.assistant_message_count,
        codon.budget_exceeded,  # type: ignore[attr-defined]
        codon.completion_checkpoint,  # type: ignore[attr-defined]
        codon.context_exceeded,  # type: ignore[attr-defined]
        codon.current_cost,  # type: ignore[attr-defined]
        codon.current_tokens,  # type: ignore[attr-defined]
        codon.end_time,
        codon.error_checkpoint,  # type: ignore[attr-defined]
        codon.exit_code,  # type: ignore[attr-defined]
        codon.failed_during,  # type: ignore[attr-defined]
        codon.failure_reason,  # type: ignore[attr-defined]
        codon.final_cost,  # type: ignore[attr-defined]
        codon.final_tokens,  # type: ignore[attr-defined]
        codon.ignored,  # type: ignore[attr-defined]
        codon.log_path,
        codon.partial_cost,
        codon.partial_tokens,
        codon.pid,
        codon.previous_session_id,
        codon.result_message_received,  # type: ignore[attr-defined]
        codon.rig_setup_checkpoint,
        codon.sentinels,
        codon.session_id,
        codon.skip_checkpoint,
        codon.skipped_during,
    ]


def in_all_states(codon: Codon) -> None:
    match codon:
        case (
            PreparingCodon()
            | StartingCodon()
            | InitializingCodon()
            | RunningCodon()
            | CompletingSentinelsCodon()
            | CompletedCodon()
            | FailedCodon()
            | SkippedCodon()
        ):
            return
        case _:
            assert_never(codon)


def in_all_states_but_preparing(codon: Codon) -> None:
    if isinstance(codon, PreparingCodon):
        assert_never(codon)  # type: ignore[arg-type]


def in_all_states_but_starting(codon: Codon) -> None:
    if isinstance(codon, StartingCodon):
        assert_never(codon)  # type: ignore[arg-type]


def in_all_states_but_initializing(codon: Codon) -> None:
    if isinstance(codon, InitializingCodon):
        assert_never(codon)  # type: ignore[arg-type]


def in_all_states_but_running(codon: Codon) -> None:
    if isinstance(codon, RunningCodon):
        assert_never(codon)  # type: ignore[arg-type]


def in_all_states_but_completing_sentinels(codon: Codon) -> None:
    if isinstance(codon, CompletingSentinelsCodon):
        assert_never(codon)  # type: ignore[arg-type]


def in_all_states_but_completed(codon: Codon) -> None:
    if isinstance(codon, CompletedCodon):
        assert_never(codon)  # type: ignore[arg-type]


def in_all_states_but_failed(codon: Codon) -> None:
    if isinstance(codon, FailedCodon):
        assert_never(codon)  # type: ignore[arg-type]


def in_all_states_but_skipped(codon: Codon) -> None:
    if isinstance(codon, SkippedCodon):
        assert_never(codon)  # type: ignore[arg-type]
