"""Credentials by the variables that providers know: whether they are there, never what they are."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from .finding import Finding, info, ok, warning

AREA = "credentials"
MODEL_VARIABLES = (
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "AZURE_OPENAI_API_KEY",
    "OPENROUTER_API_KEY",
    "DEEPSEEK_API_KEY",
    "DASHSCOPE_API_KEY",
    "MISTRAL_API_KEY",
    "TOGETHER_API_KEY",
    "XAI_API_KEY",
    "HF_TOKEN",
)
_MODAL = ("MODAL_TOKEN_ID", "MODAL_TOKEN_SECRET")


def check_credentials(env: Mapping[str, str], user_home: Path) -> list[Finding]:
    """Keys of model providers, Daytona and Modal."""
    findings = [_one(name, env) for name in MODEL_VARIABLES if name in env]
    absent = [name for name in MODEL_VARIABLES if name not in env]
    if absent:
        findings.append(info(AREA, "models", f"not set: {', '.join(absent)}"))
    return [*findings, _daytona(env), _modal(env, user_home)]


def _one(name: str, env: Mapping[str, str]) -> Finding:
    value = env[name]
    if not value.strip():
        return warning(AREA, name, "set, but empty", f"set it, or remove it: unset {name}")
    if value != value.strip() or not value.isprintable():
        advice = "set it again without a line break or blanks around it"
        return warning(AREA, name, "has blanks or control characters in it", advice)
    return ok(AREA, name, "set")


def _daytona(env: Mapping[str, str]) -> Finding:
    if "DAYTONA_API_KEY" in env:
        return _one("DAYTONA_API_KEY", env)
    return info(AREA, "Daytona", "not set: DAYTONA_API_KEY")


def _modal(env: Mapping[str, str], user_home: Path) -> Finding:
    present = [name for name in _MODAL if env.get(name, "").strip()]
    if len(present) == len(_MODAL):
        return ok(AREA, "Modal", f"set: {' and '.join(_MODAL)}")
    if present:
        [missing] = set(_MODAL) - set(present)
        return warning(AREA, "Modal", f"{present[0]} is set, {missing} is not", f"set {missing}, too")
    if (user_home / ".modal.toml").is_file():
        return ok(AREA, "Modal", "~/.modal.toml is there")
    return info(AREA, "Modal", f"not set: {', '.join(_MODAL)}, and no ~/.modal.toml")
