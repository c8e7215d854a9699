"""Variables in configuration strings."""

from __future__ import annotations

import pytest

from agentcompass.contracts import ConfigurationError


def params(project, text, **variables):
    return project.resolve(benchmark_params={"tags": [text]}, variables=variables).request.benchmark.params[
        "tags"
    ][0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${NAME}", "value"),
        ("a-${NAME}-b", "a-value-b"),
        ("${NAME}${NAME}", "valuevalue"),
        ("${OTHER:-fallback}", "fallback"),
        ("${NAME:-fallback}", "value"),
        ("${EMPTY:-fallback}", "fallback"),
        ("${EMPTY}", ""),
        ("${OTHER:-}", ""),
        ("$${NAME}", "${NAME}"),
        ("$NAME costs 5$", "$NAME costs 5$"),
    ],
)
def test_expansion(project, text, expected):
    assert params(project, text, NAME="value", EMPTY="") == expected


def test_missing_variable_is_an_error_that_names_variable_and_place(project):
    file = project.write("agentcompass.yaml", "benchmarks:\n  quiz:\n    tags: ['${NOWHERE}']\n")
    with pytest.raises(ConfigurationError) as caught:
        project.resolve()
    assert str(caught.value).startswith(
        f"{file}:3: benchmarks.quiz.tags[0]: environment variable NOWHERE is not set"
    )


def test_malformed_reference_is_an_error(project):
    with pytest.raises(ConfigurationError, match=r"write \$\$\{ for a literal"):
        params(project, "${1abc}")


def test_variable_of_a_section_that_is_not_used_need_not_be_set(project):
    project.write("agentcompass.yaml", "environments: {host_process: {env_variables: {A: '${NOWHERE}'}}}\n")
    assert project.resolve().request.environment.env_variables == {}


def test_variable_that_a_higher_layer_replaces_need_not_be_set(project):
    project.write("agentcompass.yaml", "model: {base_url: '${NOWHERE}'}\n")
    resolved = project.resolve(model_base_url="http://localhost:1/v1")
    assert resolved.request.model.base_url == "http://localhost:1/v1"


def test_expanded_text_becomes_the_number_that_its_field_wants(project):
    project.write("agentcompass.yaml", "execution: {max_retries: '${RETRIES}'}\n")
    assert project.resolve(variables={"RETRIES": "4"}).request.execution.max_retries == 4


def test_expanded_text_of_a_wrong_type_is_an_error_with_its_place(project):
    file = project.write("agentcompass.yaml", "execution: {max_retries: '${RETRIES}'}\n")
    with pytest.raises(
        ConfigurationError, match=r"execution\.max_retries: should be a whole number"
    ) as caught:
        project.resolve(variables={"RETRIES": "many"})
    assert str(caught.value).startswith(f"{file}:1: ")
