"""An agent in a container calls its model through the worker, under each network policy."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import docker
import pytest
import yaml
from command_line import CommandLine
from docker_engine import IMAGE
from model_answers import Reply
from model_server import ModelServer

KEY = "the-real-key-0123456789"
AGENT: dict[str, Any] = {
    "id": "shell",
    "protocols": {"openai-chat": {"OWN_KEY": "{api_key}"}},
    "install": {"check": "true", "command": "true"},
    "files": [
        {
            "path": "body.json",
            "content": '{"model": "{model}", "messages": [{"role": "user", "content": "?"}]}',
        }
    ],
    "run": """
env | grep -q 0123456789 && exit 3
case $OWN_KEY in ac-*) ;; *) exit 4 ;; esac
body=$(cat "$AGENT_RUN_DIR/body.json") target=${AGENT_BASE_URL#http://}
authority=${target%%/*}
case ${http_proxy-} in  # the wget of busybox sends no POST through a proxy
'') where="${authority%:*} ${authority#*:}" url=/${target#*/} ;;
*) where="127.0.0.1 3128" url=$AGENT_BASE_URL ;;
esac
printf '%s\\r\\n' "POST $url/chat/completions HTTP/1.1" "Host: $authority" "Authorization: Bearer $OWN_KEY" \\
    "Content-Type: application/json" "Content-Length: ${#body}" "Connection: close" "" > request
printf '%s' "$body" >> request
nc -w 20 $where < request > answer
grep -q content answer || { cat answer >&2; exit 5; }
if [ "$REACHES_OTHERS" = no ] && wget -q -O /dev/null "http://host.docker.internal:$OTHER_PORT/"; then exit 6; fi
sed -n 's/.*"content": *"\\([^"]*\\)".*/\\1/p' answer
""",
    "trajectory": {"format": "text"},
}
ALLOWLIST = {"network_mode": "allowlist", "allowed_hosts": ["example.org"]}


@pytest.mark.parametrize(
    "policy",
    [{"network_mode": "public"}, ALLOWLIST, {"network_mode": "no-network"}],
    ids=lambda it: it["network_mode"],
)
async def test_the_model_is_reached_and_its_key_is_not_inside(
    command_line: CommandLine, client: docker.DockerClient, tmp_path: Path, policy: dict[str, Any]
) -> None:
    description, config = tmp_path / "agent.yaml", tmp_path / "config.yaml"
    config.write_text(
        yaml.safe_dump({"environments": {"docker": {"run_network_policy": policy}}}), encoding="utf-8"
    )
    # Another server of the engine's machine, at the address at which the proxy is.
    other = await asyncio.start_server(lambda _, writer: writer.close(), "0.0.0.0", 0)
    variables = {
        "OTHER_PORT": str(other.sockets[0].getsockname()[1]),
        "REACHES_OTHERS": "yes" if policy["network_mode"] == "public" else "no",
    }
    description.write_text(yaml.safe_dump({**AGENT, "variables": variables}), encoding="utf-8")
    harness = {"description": str(description), "poll_seconds": 0.1, "proxy": {"max_calls": 5}}
    async with ModelServer(api_key=KEY) as server, other:
        server.script("", Reply("42"))
        ended = await asyncio.to_thread(
            command_line.run,
            *("run", "qa", "cli_agent", "m", "--benchmark-params", command_line.dataset([QUESTION])),
            *("--harness-params", json.dumps(harness), "--config", str(config)),
            *("--env", "docker", "--env-params", json.dumps({"image": IMAGE, "pull": "never"})),
            *("--model-base-url", server.base_url, "--model-api-key", "${THE_KEY}"),
            *("--model-api-protocol", "openai-chat", "--progress", "none"),
            env={"THE_KEY": KEY},
        )
    [run_dir] = command_line.run_dirs
    [detail] = (run_dir / "details").glob("*.json")
    [attempt] = json.loads(detail.read_bytes())["attempts"].values()
    assert (attempt["final_answer"], attempt["issues"]) == ("42", []), attempt["extra"]
    assert len(attempt["trajectory"]["extra"]["model_calls"]) == 1
    ended.expect(0)


QUESTION = {"id": "q", "question": "?", "answer": "42"}
