"""``agentcompass summary`` on damaged run directories: numbers with their coverage, or one line of refusal."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reuse_runs import Runs, contents

from agentcompass.activities.finalize import recompute
from agentcompass.contracts import AgentCompassError, Severity

FILES = [
    "details/q1.json",
    "details/_error_q2.json",
    "run_info.json",
    "params.json",
    "progress.json",
    ".state/request.json",
    ".state/tasks.entries.jsonl",
    ".state/tasks.jsonl",
]
WRITTEN = {"metrics.json", "summary.md"}
PLACES = st.floats(0, 0.9999)
VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([[], {}, [1], {"a": 1}, "agentcompass.task.v9", "\ud800", 10**30])
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), name=st.sampled_from(FILES))
def test_any_damage_is_counted_or_refused_and_nothing_is_lost(
    runs: Runs, tmp_path: Path, data: st.DataObject, name: str
) -> None:
    runs.folder = Path(tempfile.mkdtemp(dir=tmp_path))
    store = asyncio.run(runs.start("run"))
    runs.finish(store, "q1")
    runs.finish(store, "q2", severity=Severity.FATAL)
    for missing in ("params.json", "progress.json"):
        (store.run_dir / missing).write_text("{}")
    file = store.run_dir / name
    file.write_bytes(damaged(file.read_bytes(), data))
    before = contents(store.run_dir)
    try:
        result = recompute(store.run_dir)
    except AgentCompassError as error:
        assert "\n" not in str(error)
        assert str(error)
    else:
        assert result.total_tasks == (
            result.evaluated_tasks + result.unavailable_tasks + result.invalidated_tasks
        )
        report = json.loads((store.run_dir / "metrics.json").read_bytes())
        left_out = result.total_tasks - result.evaluated_tasks
        assert len({item["task_id"] for item in report["exclusions"]}) == left_out
    after = {path: digest for path, digest in contents(store.run_dir).items() if path not in WRITTEN}
    assert after == before


def damaged(content: bytes, data: st.DataObject) -> bytes:
    """A truncated file, one with bytes replaced, or one whose fields hold something else.

    Places are drawn as fractions: a run directory holds times, so that its files differ in length.
    """
    kind = data.draw(st.sampled_from(["cut", "bytes", "field"]))
    where = data.draw(st.lists(PLACES, min_size=4, max_size=4))
    junk, value = data.draw(st.binary(min_size=1, max_size=4)), data.draw(VALUES)
    at = int(where[0] * len(content))
    if kind == "cut":
        return content[:at]
    if kind == "bytes":
        return content[:at] + junk + content[at + 1 :]
    try:
        lines, document = [], json.loads(content)
    except ValueError:
        first, *lines = content.splitlines(keepends=True)
        document = json.loads(first)
    place = document
    for number, fraction in enumerate(where):
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            break
        key = keys[int(fraction * len(keys))]
        if not isinstance(place[key], dict | list) or not place[key] or number == int(where[-1] * 4):
            place[key] = value
            break
        place = place[key]
    return json.dumps(document).encode() + b"\n" + b"".join(lines)
