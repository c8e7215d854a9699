"""The folders of the format on an environment without a root of its own."""

import pytest

from agentcompass.plugins.benchmarks.harbor.paths import SandboxPaths, mapped_source

PATHS = SandboxPaths.of("host_process", "/w")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cat /app/x.txt", "cat /w/x.txt"),
        ('echo 1 > "/logs/verifier/reward.txt"', 'echo 1 > "/w/.harbor/logs/verifier/reward.txt"'),
        ("work in /app. Then", "work in /w. Then"),
        ("PYTHONPATH=/tests:/app", "PYTHONPATH=/w/.harbor/tests:/w"),
        ("/apply and /app2 and /app-x and /app.d", "/apply and /app2 and /app-x and /app.d"),
        (
            "https://example.com/app and $ROOT/app and ../app",
            "https://example.com/app and $ROOT/app and ../app",
        ),
    ],
)
def test_its_absolute_paths_are_rewritten_and_no_others(text: str, expected: str) -> None:
    assert PATHS.rewritten(text) == expected


def test_where_a_sandbox_has_its_own_root_nothing_is_rewritten() -> None:
    assert SandboxPaths.of("docker", "/app").rewritten("cat /app/x") == "cat /app/x"


def test_declared_artifacts_are_looked_for_below_the_work_directory() -> None:
    assert mapped_source("/app/out/x") == "{workdir}/out/x"
    assert mapped_source("/logs/artifacts") == "{workdir}/.harbor/logs/artifacts"
