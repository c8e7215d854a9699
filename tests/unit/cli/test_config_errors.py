"""Mistakes in the configuration: each is one line that says where it is and what to write instead."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentcompass.cli.config.checks import check_file
from agentcompass.cli.config.documents import Document, parse_json, parse_yaml
from agentcompass.contracts import ConfigurationError, UnknownComponentError


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        ("excution: {}", "1: excution", "'execution'"),
        ("models: {}", "1: models", "'model'"),
        ("benchmarks: {quizz: {}}", "1: benchmarks.quizz", "'quiz'"),
        ("harnesses:\n  caht: {}", "2: harnesses.caht", "'chat'"),
        ("environments:\n  bx: {}", "2: environments.bx", "'box'"),
        ("benchmarks: {quiz: {limt: 1}}", "1: benchmarks.quiz.limt", "'limit'"),
        ("harnesses: {chat: {max_step: 1}}", "1: harnesses.chat.max_step", "'max_steps'"),
        ("environments: {box: {regin: x}}", "1: environments.box.regin", "'region'"),
        ("environments: {box: {resource: {}}}", "1: environments.box.resource", "'resources'"),
        (
            "environments:\n  box:\n    resources:\n      cpus: 1",
            "4: environments.box.resources.cpus",
            "'cpu'",
        ),
        ("environments: {box: {setup: {img: a}}}", "1: environments.box.setup.img", "image"),
        (
            "environments: {box: {network_policy: {mode: public}}}",
            "1: environments.box.network_policy.mode",
            "'network_mode'",
        ),
        ("model: {base_ulr: x}", "1: model.base_ulr", "'base_url'"),
        ("execution: {max_retires: 1}", "1: execution.max_retires", "'max_retries'"),
        ("execution: {attempts: {strategi: avg}}", "1: execution.attempts.strategi", "'strategy'"),
        ("execution: {artifact_limits: {max_mbs: 1}}", "1: execution.artifact_limits.max_mbs", "'max_mb'"),
        (
            "execution: {analysis_params: {analyzer: []}}",
            "1: execution.analysis_params.analyzer",
            "'analyzers'",
        ),
        ("runtime: {result_dir: x}", "1: runtime.result_dir", "'results_dir'"),
        ("runtime: {provider_limits: {bix: 1}}", "1: runtime.provider_limits.bix", "'box'"),
        ("task_concurency: 3", "1: task_concurency", "'task_concurrency'"),
    ],
)
def test_unknown_key_is_named_with_its_place_and_the_nearest_valid_one(project, text, place, hint):
    file = project.write("agentcompass.yaml", text)
    with pytest.raises(ConfigurationError) as caught:
        project.resolve()
    message = str(caught.value)
    assert message.startswith(f"{file}:{place}: unknown")
    assert hint in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "execution: {max_retries: -1}",
            "execution.max_retries: should be greater than or equal to 0 (given: -1)",
        ),
        ("execution: {attempts: {strategy: best}}", "execution.attempts.strategy: should be 'avg' or 'pass'"),
        (
            "execution: {retry_pattern_list: ['(']}",
            "execution.retry_pattern_list: '(' is not a regular expression",
        ),
        ("execution: {download_artifacts: true}", "execution.download_artifacts is now called"),
        ("model: {base_url: 'ftp://x'}", "model.base_url: 'ftp://x' is not an http(s) URL"),
        ("runtime: {log_level: LOUD}", "runtime.log_level: should be 'DEBUG', 'INFO', 'WARNING' or 'ERROR'"),
        ("runtime: {provider_limits: {box: -1}}", "the limit of 'box' is negative"),
        (
            "benchmarks: {quiz: {params: {limit: 1}}}",
            "'params' does not belong here: parameters stand directly",
        ),
        ("benchmarks: {quiz: {id: x}}", "'id' does not belong here"),
        ("task_concurrency: 3\nexecution: {task_concurrency: 4}", "is the same setting; keep one of the two"),
        ("environments: {box: {env_variables: {'A B': x}}}", "is not a valid environment variable name"),
    ],
)
def test_wrong_value_is_named_with_its_place(project, text, expected):
    file = project.write("agentcompass.yaml", text)
    with pytest.raises(ConfigurationError) as caught:
        project.resolve()
    assert expected in str(caught.value)
    assert str(file) in str(caught.value)


def test_mistake_in_a_flag_names_the_flag(project):
    with pytest.raises(ConfigurationError, match=r"^--k: should be greater than or equal to 1 \(given: 0\)$"):
        project.resolve(k=0)


def test_mistake_in_a_json_flag_names_flag_and_key(project):
    with pytest.raises(
        ConfigurationError, match=r"^--harness-params: max_step: unknown key; did you mean 'max_steps'"
    ):
        project.resolve(harness_params={"max_step": 3})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"benchmark": "quizz"}, "unknown benchmark 'quizz'; did you mean 'quiz'?"),
        ({"harness": "chatt"}, "unknown harness 'chatt'; did you mean 'chat'?"),
        ({"environment": "bux"}, "unknown environment 'bux'; did you mean 'box'?"),
        ({"recipes": ["biger"]}, "unknown recipe 'biger'; did you mean 'bigger'?"),
        ({"analysis_params": {"analyzers": ["error"]}}, "unknown analyzer 'error'; did you mean 'errors'?"),
    ],
)
def test_unknown_component_is_named_with_the_nearest_one(project, arguments, message):
    with pytest.raises(UnknownComponentError) as caught:
        project.resolve(**arguments)
    assert str(caught.value) == message


def test_harness_none_needs_no_registration_and_takes_no_parameters(project):
    assert project.resolve(harness="none").request.harness_free
    with pytest.raises(ConfigurationError, match="harness 'none' takes no parameters"):
        project.resolve(harness="none", harness_params={"a": 1})


def test_missing_parameter_is_named_with_where_to_give_it(project):
    with pytest.raises(ConfigurationError) as caught:
        project.resolve(benchmark="dataset")
    assert str(caught.value) == (
        "parameters of benchmark 'dataset' (--benchmark-params, or section benchmarks.dataset): 'path' is required"
    )


def test_key_with_a_line_break_stays_on_one_line(project):
    project.write("agentcompass.yaml", '"a\\nb": 1\n')
    with pytest.raises(ConfigurationError) as caught:
        project.resolve()
    assert "\n" not in str(caught.value)


def test_missing_config_file_is_an_error(project):
    with pytest.raises(ConfigurationError, match=r"nowhere\.yaml does not exist"):
        project.resolve(config=["nowhere.yaml"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("execution:\n  max_retries: [1\nruntime: {}\n", "f.yaml:3:8: expected ',' or ']', but got ':'"),
        ("a: b: c", "f.yaml:1:5: mapping values are not allowed here"),
        ("execution: {}\nexecution: {}\n", "f.yaml:2:1: execution: is given twice"),
        ("1: x", "f.yaml:1:1: the key '1' is not text; put it in quotes"),
        ("- a\n- b\n", "f.yaml: must hold a map of keys and values, not a list"),
        (
            "a: !!python/object:os.system x",
            "f.yaml:1:4: a: the tag tag:yaml.org,2002:python/object:os.system is not allowed",
        ),
        ("a: &x [*x]", "f.yaml:1:4: a[0]: refers to itself"),
        ("a: .inf", "f.yaml:1:4: a: '.inf' is not a finite number"),
        ("a: 1\n---\nb: 2\n", "f.yaml:2:1: but found another document"),
        ("a: \x00", "f.yaml:1:4: a character that YAML does not allow"),
    ],
)
def test_malformed_yaml_is_one_line_with_file_line_and_column(text, expected):
    with pytest.raises(ConfigurationError) as caught:
        parse_yaml(text, "f.yaml")
    assert str(caught.value) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1,\n "b": }', "f.json:2:7: Expecting value; this is not valid JSON"),
        ('{"a": 1, "a": 2}', "f.json: key 'a' is given twice"),
        ('{"a": NaN}', "f.json: NaN is not allowed in JSON"),
        ("[1]", "f.json: must hold a map of keys and values, not a list"),
    ],
)
def test_malformed_json_is_one_line(text, expected):
    with pytest.raises(ConfigurationError) as caught:
        parse_json(text, "f.json")
    assert str(caught.value) == expected


def test_file_that_is_no_text_is_refused(project):
    file = project.write("agentcompass.yaml", "")
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match="not UTF-8 text"):
        project.resolve()


def test_empty_file_is_an_empty_configuration(project):
    project.write("agentcompass.yaml", "# nothing\n")
    assert project.resolve().request.execution.max_retries == 0


def test_yaml_merge_keys_and_dates_are_plain_json():
    document = parse_yaml("a: &a {x: 1, y: 2}\nb: {<<: *a, y: 2020-01-01}\n", "f.yaml")
    assert document.data == {"a": {"x": 1, "y": 2}, "b": {"x": 1, "y": "2020-01-01"}}


YAML_BITS = st.lists(
    st.sampled_from(
        [*"{}[]:,-?&*!|>'\"%@#\n\t \\", "a", "&a", "*a", "<<", "!!int", "!!timestamp", "!!binary", "0x", "1e9",
         "execution", "model", "runtime", "benchmarks", "quiz", ": ", "\n  ", "- ", "~", "\\ud800", "${", "}"]
    ),
    max_size=40,
).map("".join)  # fmt: skip


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.one_of(st.text(max_size=60), YAML_BITS))
def test_garbage_is_read_or_refused_with_a_configuration_error(text):
    for parse in (parse_yaml, parse_json):
        try:
            check_file(parse(text, "f"))
        except ConfigurationError as error:
            assert str(error).startswith("f")
            assert "\n" not in str(error)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
SECTIONS = ["benchmarks", "harnesses", "environments", "model", "execution", "runtime", "task_concurrency"]
KEYS = [
    "quiz",
    "box",
    "chat",
    "api_key",
    "params",
    "attempts",
    "env_variables",
    "network_policy",
    "setup",
    "x",
]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.dictionaries(
        st.sampled_from(SECTIONS),
        JSON | st.dictionaries(st.sampled_from(KEYS), JSON | st.dictionaries(st.sampled_from(KEYS), JSON)),
    )
)
def test_any_json_is_resolved_or_refused_with_a_configuration_error(project, data):
    import json

    file = project.write("any.json", json.dumps(data))
    try:
        project.resolve(config=[str(file)])
    except ConfigurationError as error:
        assert "\n" not in str(error)


def test_a_value_from_an_unknown_document_is_still_placed():
    with pytest.raises(ConfigurationError, match=r"^f: execution: "):
        check_file(Document("f", {"execution": [1]}))
