"""Layers of configuration: which one wins, how they merge, and where a value came from."""

from __future__ import annotations

from agentcompass.cli.config import effective_values, file_values


def test_without_any_file_the_documented_defaults_hold(project):
    resolved = project.resolve()
    assert resolved.request.execution.task_concurrency == 32
    assert resolved.request.execution.attempts.k == 1
    assert resolved.runtime.timeout_seconds == 360_000
    assert resolved.runtime.progress == "auto"
    assert resolved.request.runtime.checkpoint_resume is True


def test_environment_defaults_to_host_process(project):
    assert project.resolve(environment=None).request.environment.id == "host_process"


def test_project_file_wins_over_user_file(project):
    project.write_user("execution: {max_retries: 1, timeout_multiplier: 3}\n")
    project.write("agentcompass.yaml", "execution: {max_retries: 2}\n")
    execution = project.resolve().request.execution
    assert (execution.max_retries, execution.timeout_multiplier) == (2, 3.0)


def test_nearest_project_file_is_the_only_one(project):
    project.write("agentcompass.yaml", "execution: {max_retries: 1, timeout_multiplier: 3}\n")
    project.write("deep/agentcompass.yaml", "execution: {max_retries: 2}\n")
    execution = project.resolve().request.execution
    assert (execution.max_retries, execution.timeout_multiplier) == (2, 1.0)


def test_config_files_win_over_the_project_in_the_order_given(project):
    project.write("agentcompass.yaml", "execution: {max_retries: 1}\n")
    first = project.write("a.yaml", "execution: {max_retries: 2, timeout_multiplier: 4}\n")
    second = project.write("b.json", '{"execution": {"max_retries": 3}}')
    execution = project.resolve(config=[str(first), str(second)]).request.execution
    assert (execution.max_retries, execution.timeout_multiplier) == (3, 4.0)


def test_argument_wins_over_every_file(project):
    file = project.write("a.yaml", "execution: {max_retries: 2}\n")
    assert project.resolve(config=[str(file)], max_retries=0).request.execution.max_retries == 0


def test_single_flag_wins_over_the_map_of_execution_params(project):
    resolved = project.resolve(k=3, execution_params={"attempts": {"k": 9, "strategy": "pass"}})
    assert resolved.request.execution.attempts.k == 3
    assert resolved.request.execution.attempts.strategy == "pass"


def test_xdg_config_home_moves_the_user_file(project):
    project.write("xdg/agentcompass/config.yaml", "execution: {max_retries: 7}\n")
    env = {"XDG_CONFIG_HOME": str(project.root / "project" / "xdg")}
    assert project.resolve(variables=env).request.execution.max_retries == 7


def test_maps_merge_and_lists_replace(project):
    project.write("agentcompass.yaml", "benchmarks: {quiz: {tags: [a, b], options: {x: 1, y: 2}}}\n")
    resolved = project.resolve(benchmark_params={"tags": ["c"], "options": {"y": 3}})
    assert resolved.request.benchmark.params == {"tags": ["c"], "options": {"x": 1, "y": 3}}


def test_network_policy_is_replaced_as_a_whole(project):
    project.write(
        "agentcompass.yaml",
        "environments: {box: {network_policy: {network_mode: allowlist, allowed_hosts: [a.org]}}}\n",
    )
    policy = project.resolve(env_params={"network_policy": {"network_mode": "no-network"}}).request
    assert policy.environment.network_policy.allowed_hosts == []
    assert policy.environment.network_policy.network_mode == "no-network"


def test_synonym_in_a_later_layer_replaces_the_other_name(project):
    project.write("agentcompass.yaml", "environments: {box: {verifier_network_policy: public}}\n")
    resolved = project.resolve(env_params={"evaluation_network_policy": "no-network"})
    assert resolved.request.environment.verifier_network_policy.network_mode == "no-network"


def test_task_concurrency_at_the_top_is_the_one_of_execution(project):
    project.write("agentcompass.yaml", "task_concurrency: 5\n")
    resolved = project.resolve()
    assert resolved.task_concurrency == 5
    assert resolved.request.execution.task_concurrency == 5


def test_only_the_sections_of_the_chosen_components_apply(project):
    project.write(
        "agentcompass.yaml",
        "environments: {host_process: {env_variables: {A: x}}, box: {region: there, resources: {cpu: 2}}}\n",
    )
    environment = project.resolve().request.environment
    assert environment.params == {"region": "there"}
    assert environment.resources.cpu == 2
    assert environment.env_variables == {}


def test_a_section_without_content_counts_as_absent(project):
    project.write("agentcompass.yaml", "execution:\nbenchmarks:\n  quiz:\n")
    assert project.resolve().request.execution.max_retries == 0


def test_a_limit_that_one_file_alone_would_contradict_is_judged_on_the_whole(project):
    project.write_user("execution: {retry_min_delay_seconds: 100}\n")
    project.write("agentcompass.yaml", "execution: {retry_max_delay_seconds: 200}\n")
    assert project.resolve().request.execution.retry_min_delay_seconds == 100


def test_results_dir_is_absolute_below_the_working_directory(project):
    assert project.resolve(results_dir="out").runtime.results_dir == str(project.folder / "out")


def test_recipe_dirs_of_a_file_are_relative_to_that_file(project):
    project.write("agentcompass.yaml", "runtime: {recipe_dirs: [recipes]}\n")
    expected = [str(project.root / "project" / "recipes")]
    resolved = project.resolve()
    assert resolved.runtime.recipe_dirs == expected
    assert resolved.request.metadata.recipe_dirs == expected


def test_origins_name_file_and_line_or_the_flag(project):
    file = project.write("agentcompass.yaml", "execution:\n  max_retries: 2\n  attempts: {k: 4}\n")
    resolved = project.resolve(attempt_strategy="pass")
    assert str(resolved.origins["execution.max_retries"]) == f"{file}:2"
    assert str(resolved.origins["execution.attempts.k"]) == f"{file}:3"
    assert str(resolved.origins["execution.attempts.strategy"]) == "--attempt-strategy"
    assert "execution.timeout_multiplier" not in resolved.origins


def test_every_effective_value_is_listed_with_its_origin(project):
    shown = {item.path: item for item in effective_values(project.resolve(k=3))}
    assert (shown["execution.attempts.k"].value, shown["execution.attempts.k"].origin) == (3, "--k")
    assert shown["runtime.timeout_seconds"].origin == "default"
    assert shown["runtime.reuse"].value is False


def test_files_alone_are_listed_without_expanding_variables(project):
    file = project.write("agentcompass.yaml", "model:\n  api_key: ${KEY}\n  base_url: ${URL:-http://x}\n")
    shown = {item.path: item for item in file_values(cwd=project.folder, env=project.env)}
    assert shown["model.api_key"].value == "${KEY}"
    assert shown["model.api_key"].origin == f"{file}:2"
    assert shown["execution.max_retries"].origin == "default"


def test_a_setting_at_the_top_of_a_file_is_not_shown_with_its_default_as_well(project):
    project.write("agentcompass.yaml", "task_concurrency: 8\n")
    shown = {item.path: item.value for item in file_values(cwd=project.folder, env=project.env)}
    assert shown["task_concurrency"] == 8
    assert "execution.task_concurrency" not in shown
