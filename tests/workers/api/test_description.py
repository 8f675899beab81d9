"""The description for tools reads well, and says what is so; what it does not name is refused."""

from __future__ import annotations

import re

import pytest
from fastapi.testclient import TestClient

from interlock.workers.api.app import create_app
from interlock.workers.gateways.server import EmbeddedServer
from tests.systems.threads.threads import bring, client_of


def test_each_operation_has_a_name_of_a_verb_and_a_noun(
    server: EmbeddedServer, prefix: str
) -> None:
    described = create_app(client_of(server.url, prefix)).openapi()
    names = [
        operation["operationId"]
        for methods in described["paths"].values()
        for operation in methods.values()
    ]

    assert len(set(names)) == len(names) > 30
    assert all(re.fullmatch("[a-z]+([A-Z][a-z]+)+", name) for name in names), names
    assert {"listRecords", "decideCard", "createRecord"} < set(names)


@pytest.mark.parametrize("auth", ["tokens", "none"])
def test_it_says_where_the_api_is_and_whether_it_asks_for_a_token(
    server: EmbeddedServer, prefix: str, auth: str
) -> None:
    url = "https://interlock.example"
    described = create_app(client_of(server.url, prefix, auth=auth, public_url=url)).openapi()
    asked = {
        (path, "security" in operation)
        for path, methods in described["paths"].items()
        for operation in methods.values()
        if path != "/healthz"
    }

    assert described["servers"] == [{"url": url}]
    assert {asks for _, asks in asked} == {auth == "tokens"}
    assert ("securitySchemes" in described["components"]) is (auth == "tokens")


def test_cards_have_a_shape(server: EmbeddedServer, prefix: str) -> None:
    interlock = client_of(server.url, prefix, auth="none")
    bring(interlock, "one", "awaiting_confirmation")
    app = create_app(interlock)
    schemas = app.openapi()["components"]["schemas"]

    assert {"record_id", "question", "proposal", "affordances"} <= set(
        schemas["Card"]["properties"]
    )
    assert "schema" in schemas["Affordance"]["properties"]
    with TestClient(app, base_url="http://127.0.0.1") as http:
        (card,) = http.get("/v1/cards").json()["cards"]
        assert http.get("/v1/records/one:cards").json() == [card]
    (whole,) = interlock.cards_of("one")
    assert card["affordances"][0]["schema"] == whole.as_data()["affordances"][0]["schema"]
    assert set(card) == set(whole.as_data())


def test_a_misspelt_parameter_is_refused_on_every_address(
    server: EmbeddedServer, prefix: str
) -> None:
    interlock = client_of(server.url, prefix, auth="none")
    bring(interlock, "one", "awaiting_confirmation")
    app = create_app(interlock)
    with TestClient(app, base_url="http://127.0.0.1") as http:
        for path, methods in app.openapi()["paths"].items():
            if path == "/healthz":
                continue
            address = path.replace("{record_id}", "one").replace("{verb}", "pause")
            for method in methods:
                answer = http.request(method, f"{address}?stat=failed")
                assert answer.status_code == 400, (method, path)
                assert "there is no parameter 'stat' here; there are: " in answer.json()["detail"]
        refused = http.get("/v1/counts?states=failed&machine=thread").json()["detail"]
        assert "'states'" in refused
        assert " state, " in refused
        assert http.get("/v1/records?state=done&machine=thread&id=o").json()["records"] == []
        assert http.head("/v1/records?machine=thread").status_code == 200


def test_a_method_that_an_address_has_not_is_refused_before_its_parameters(
    server: EmbeddedServer, prefix: str
) -> None:
    app = create_app(client_of(server.url, prefix, auth="none"))
    paths = app.openapi()["paths"]
    with TestClient(app, base_url="http://127.0.0.1") as http:
        for path, methods in paths.items():
            address = path.replace("{record_id}", "one").replace("{verb}", "pause")
            for method in {"get", "post", "put", "patch", "delete"} - set(methods):
                if method == "get" and path.rpartition(":")[0].endswith("}"):
                    continue  # the address of a record or message with such an id
                answer = http.request(method, f"{address}?stat=failed", json={})
                assert answer.status_code == 405, (method, path, answer.text)
                assert answer.headers["Allow"] == ", ".join(sorted(methods)).upper()
        no_verb = http.post("/v1/records/one:bogus", json={})
        assert (no_verb.status_code, no_verb.headers["Allow"]) == (405, "GET")
