"""Secrets become references; the request never holds one."""

from __future__ import annotations

import base64
import stat
from pathlib import Path

import pytest

from agentcompass.cli.config import HomeSecretStore, cluster_store, effective_values, refuse_literal
from agentcompass.contracts import ConfigurationError

CANARY = "canary-7f3a9c51e2"


def refuse_any(value: str) -> str:
    raise AssertionError("nothing may be stored here")


def test_whole_variable_becomes_a_reference(project):
    resolved = project.resolve(refuse_any, variables={"KEY": CANARY}, model_api_key="${KEY}")
    assert resolved.request.model.api_key == "env:KEY"
    assert CANARY not in resolved.request.model_dump_json()


@pytest.mark.parametrize("reference", ["env:ANY_NAME", "file:/run/secrets/key"])
def test_reference_stays_as_it_is(project, reference):
    assert project.resolve(refuse_any, model_api_key=reference).request.model.api_key == reference


@pytest.mark.parametrize(("variables", "state"), [({}, "not set"), ({"KEY": ""}, "empty")])
def test_variable_without_a_secret_is_an_error(project, variables, state):
    with pytest.raises(ConfigurationError, match=f"--model-api-key: environment variable KEY is {state}"):
        project.resolve(variables=variables, model_api_key="${KEY}")


def test_literal_key_goes_into_a_private_file(project, tmp_path):
    resolved = project.resolve(HomeSecretStore(tmp_path / "ac"), model_api_key=CANARY)
    file = Path(resolved.request.model.api_key.removeprefix("file:"))
    assert file.read_text() == CANARY
    assert file.parent == tmp_path / "ac" / "secrets"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert CANARY not in resolved.request.model_dump_json()


def test_a_key_that_several_requests_were_given_is_one_account(tmp_path):
    store = HomeSecretStore(tmp_path / "ac")
    assert store(CANARY) == store(CANARY) != store(f"{CANARY}-other")
    assert len(list(store.folder.iterdir())) == 2


def test_with_a_payload_key_it_is_one_account_too(monkeypatch):
    monkeypatch.setenv("AGENTCOMPASS_PAYLOAD_KEY", base64.b64encode(bytes(range(32))).decode())
    seal = cluster_store()
    assert seal(CANARY) == seal(CANARY) != seal(f"{CANARY}-other")


def test_literal_key_is_refused_with_a_cluster_and_not_repeated(project):
    with pytest.raises(ConfigurationError, match=r"--model-api-key: .*write env:NAME") as caught:
        project.resolve(refuse_literal, model_api_key=CANARY)
    assert CANARY not in str(caught.value)


def test_nothing_is_stored_for_a_request_that_is_refused(project):
    with pytest.raises(ConfigurationError, match="limt"):
        project.resolve(refuse_any, model_api_key=CANARY, benchmark_params={"limt": 1})


def test_one_secret_in_several_places_is_stored_once(project):
    stored: list[str] = []

    def store(value: str) -> str:
        stored.append(value)
        return "file:/kept"

    resolved = project.resolve(
        store, model_api_key=CANARY, benchmark_params={"judge_model": {"id": "j", "api_key": CANARY}}
    )
    assert stored == [CANARY]
    assert resolved.request.benchmark.params["judge_model"] == {"id": "j", "api_key": "file:/kept"}


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"env_params": {"api_key": CANARY}}, lambda r: r.environment.params["api_key"]),
        (
            {"env_params": {"env_variables": {"HF_TOKEN": CANARY}}},
            lambda r: r.environment.env_variables["HF_TOKEN"],
        ),
        (
            {"harness_params": {"extra_headers": {"Authorization": f"Bearer {CANARY}"}}},
            lambda r: r.harness.params["extra_headers"]["Authorization"],
        ),
        (
            {"model_params": {"credentials": {"user": CANARY}}},
            lambda r: r.model.params["credentials"]["user"],
        ),
        ({"model_params": {"api_keys": [CANARY]}}, lambda r: r.model.params["api_keys"][0]),
    ],
)
def test_field_named_like_a_secret_is_one_wherever_it_is(project, arguments, found):
    resolved = project.resolve(lambda value: "file:/kept", **arguments)
    assert found(resolved.request) == "file:/kept"
    assert CANARY not in resolved.request.model_dump_json()


def test_number_of_tokens_is_no_secret(project):
    assert project.resolve(refuse_any, harness_params={"max_tokens": 5}).request.harness.params == {
        "max_tokens": 5
    }


def test_secret_inside_a_longer_secret_text_is_expanded_and_stored(project):
    stored: list[str] = []

    def store(value: str) -> str:
        stored.append(value)
        return "file:/kept"

    headers = {"Authorization": "Bearer ${KEY}"}
    project.resolve(store, variables={"KEY": CANARY}, harness_params={"extra_headers": headers})
    assert stored == [f"Bearer {CANARY}"]


def test_secret_variable_in_an_ordinary_field_is_refused(project):
    with pytest.raises(
        ConfigurationError, match=r"--benchmark-params: tags\[0\]: \$\{OPENAI_API_KEY\} looks like a secret"
    ) as caught:
        project.resolve(
            variables={"OPENAI_API_KEY": CANARY}, benchmark_params={"tags": ["${OPENAI_API_KEY}"]}
        )
    assert CANARY not in str(caught.value)


def test_secret_variable_as_a_whole_environment_variable_becomes_a_reference(project):
    env_params = {"run_env_variables": {"LOGIN": "${HF_TOKEN}"}}
    resolved = project.resolve(refuse_any, variables={"HF_TOKEN": CANARY}, env_params=env_params)
    assert resolved.request.environment.run_env_variables == {"LOGIN": "env:HF_TOKEN"}


def test_relative_file_reference_is_refused(project):
    with pytest.raises(ConfigurationError, match="env:NAME or file:/absolute/path"):
        project.resolve(refuse_any, model_api_key="file:key.txt")


def test_default_of_a_secret_variable_may_be_empty(project):
    assert project.resolve(refuse_any, model_api_key="${KEY:-}").request.model.api_key == ""


def test_configuration_listing_masks_literal_secrets_and_shows_references(project):
    shown = {
        item.path: item.value
        for item in effective_values(
            project.resolve(model_api_key=CANARY, env_params={"env_variables": {"HF_TOKEN": "env:HF"}})
        )
    }
    assert shown["model.api_key"] == "***"
    assert shown["environment.env_variables.HF_TOKEN"] == "env:HF"
    assert CANARY not in str(shown)


def test_arguments_do_not_show_the_key(project):
    from agentcompass.cli.config import RunArguments

    assert CANARY not in repr(RunArguments(benchmark="b", harness="h", model="m", model_api_key=CANARY))


def test_refused_value_of_a_secret_field_is_not_repeated(project):
    with pytest.raises(ConfigurationError) as caught:
        project.resolve(env_params={"api_key": 7351942})
    assert "7351942" not in str(caught.value)
