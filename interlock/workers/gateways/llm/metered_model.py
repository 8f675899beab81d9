"""A model of pydantic-ai that books each of its requests on a ledger."""

from __future__ import annotations

import warnings

from pydantic_ai import UsageExtractionFailedWarning
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelConnectionError,
    ModelHTTPError,
    UnexpectedModelBehavior,
)
from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_core import to_json

from interlock.workers.gateways.llm.cost import AbsurdUsageError, Ledger
from interlock.workers.redaction import hide_secrets

_NEVER_SENT = ("pool", "connect")
# A provider's adapter raises these for a malformed success: it expects a list with an element, or
# a year before 10,000.
_MALFORMED = (
    UsageExtractionFailedWarning,
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)


class Metered(WrapperModel):
    """The model, for one question with its ledger."""

    def __init__(self, wrapped: Model, ledger: Ledger, key: str = "") -> None:
        """Ask a model with this key, which errors do not repeat."""
        super().__init__(wrapped)
        self._ledger, self._key = ledger, key

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        """Send one request and book it, whether it succeeds or not."""
        self._ledger.sent()
        may_be_billed = True
        try:
            response = await super().request(messages, model_settings, model_request_parameters)
            may_be_billed = False
            self._ledger.measured(response)
            # A lone surrogate cannot be encoded: noticed later, it would break the caller.
            to_json(response.parts)
        except (ModelAPIError, UnexpectedModelBehavior) as error:
            # Here, below the spans of the library, which keep the text of an error as well.
            hide_secrets(error, self._key)
            if isinstance(error, ModelHTTPError):
                may_be_billed = False
            elif isinstance(error, ModelConnectionError):
                may_be_billed = error.phase not in _NEVER_SENT
            raise
        except AbsurdUsageError as error:
            raise UnexpectedModelBehavior(str(error)) from error
        except _MALFORMED as error:
            raise UnexpectedModelBehavior(
                f"its answer is malformed ({type(error).__name__})"
            ) from hide_secrets(error, self._key)
        finally:
            if may_be_billed:
                self._ledger.unmeasured()
        return response


def refuse_absurd_usage() -> None:
    """Raise for usage that cannot be read; after a mere warning the request would cost nothing."""
    warnings.filterwarnings("error", category=UsageExtractionFailedWarning)
