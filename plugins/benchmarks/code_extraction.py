"""Getting Python code out of a model's answer. Only text is looked at, nothing is parsed.

Parsing an answer with ``ast`` in this process would let a deeply nested expression crash it.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass

_FENCE = re.compile(r"^(?P<indent>[ \t]*)(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[^`]*)$")
_FUTURE_IMPORT = re.compile(r"^from __future__ import .*\n?", re.MULTILINE)
_PYTHON = {"python", "python3", "py", "py3"}


@dataclass(frozen=True)
class CodeBlock:
    """A fenced block: the first word of its info string in lower case, and its text."""

    language: str
    text: str


def fenced_blocks(answer: str) -> list[CodeBlock]:
    """The Markdown code blocks of ``answer``; one that is never closed reaches to the end."""
    blocks: list[CodeBlock] = []
    opening: re.Match[str] | None = None
    content: list[str] = []
    for line in answer.splitlines():
        found = _FENCE.match(line)
        if opening is None:
            opening, content = found, []
        elif found and _closes(opening, found):
            blocks.append(_block(opening, content))
            opening = None
        else:
            content.append(line.removeprefix(opening["indent"]))
    if opening is not None:
        blocks.append(_block(opening, content))
    return blocks


def extract_code(answer: str, name: str) -> str:
    """The code of an answer that should define ``name``.

    Of several Python blocks the last that defines ``name`` (models correct themselves), else the
    first; blocks without a language count as Python. Without any block the whole answer.
    """
    blocks = fenced_blocks(answer)
    if not blocks:
        return answer
    candidates = (
        [block for block in blocks if block.language in _PYTHON]
        or [block for block in blocks if not block.language]
        or blocks
    )
    texts = [
        textwrap.dedent(b.text) if defines(textwrap.dedent(b.text), name) else b.text for b in candidates
    ]
    return next((text for text in reversed(texts) if defines(text, name)), texts[0])


def defines(code: str, name: str) -> bool:
    """True when ``code`` defines or assigns ``name`` at the start of a line."""
    definition = rf"^(?:(?:async[ \t]+def|def|class)[ \t]+{name}\b|{name}[ \t]*(?::[^=\n]*)?=(?!=))"
    return re.search(definition, code, re.MULTILINE) is not None


def complete_program(prompt: str, name: str, code: str) -> str:
    """A module that defines ``name``: ``code`` put together with what ``prompt`` has to offer.

    Code that defines ``name`` itself gets the imports and helpers in front of the prompt's
    definition; any other code is taken for the body and continues the prompt.
    """
    if not defines(code, name):
        return f"{prompt.rstrip()}\n{_as_body(code)}\n"
    own = [
        match.start() for match in re.finditer(rf"^(?:async[ \t]+)?def[ \t]+{name}\b", prompt, re.MULTILINE)
    ]
    preamble = prompt[: own[-1]] if own else ""
    future = "".join(line.rstrip("\n") + "\n" for line in _FUTURE_IMPORT.findall(code))
    return f"{future}{preamble}{_FUTURE_IMPORT.sub('', code)}\n"


def _closes(opening: re.Match[str], found: re.Match[str]) -> bool:
    return found["fence"].startswith(opening["fence"]) and not found["info"].strip()


def _block(opening: re.Match[str], content: list[str]) -> CodeBlock:
    words = opening["info"].split()
    return CodeBlock(words[0].lower() if words else "", "\n".join(content))


def _as_body(code: str) -> str:
    """``code`` indented as a function body; models and harnesses strip the first indentation or all."""
    lines = code.strip("\n").splitlines()
    if not lines or lines[0][:1] in (" ", "\t"):
        return "\n".join(lines)
    rest = [len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()]
    # Below "for …:" the next line is deeper anyway; only eight columns show that the first lost its four.
    opens_block = lines[0].rstrip().endswith(":")
    only_first_lost = rest and (rest[0] >= 8 if opens_block else min(rest) >= 4)
    if only_first_lost:
        return "\n".join(["    " + lines[0], *lines[1:]])
    return textwrap.indent("\n".join(lines), "    ")
