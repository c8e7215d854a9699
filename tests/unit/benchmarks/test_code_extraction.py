import pytest

from agentcompass.plugins.benchmarks.code_extraction import (
    CodeBlock,
    complete_program,
    defines,
    extract_code,
    fenced_blocks,
)

PROMPT = 'import math\n\n\ndef area(r: float) -> float:\n    """ Area of a circle. """\n'


def test_fenced_blocks_keep_language_and_text() -> None:
    answer = "Text\n```Python title=x\na = 1\n\nb = 2\n```\nmore\n~~~\nc\n~~~\n"
    assert fenced_blocks(answer) == [CodeBlock("python", "a = 1\n\nb = 2"), CodeBlock("", "c")]


def test_a_longer_fence_holds_shorter_ones() -> None:
    assert fenced_blocks("````md\n```\nx\n```\n````") == [CodeBlock("md", "```\nx\n```")]


def test_a_block_that_is_cut_off_reaches_to_the_end() -> None:
    assert fenced_blocks("```python\na = 1\nb =") == [CodeBlock("python", "a = 1\nb =")]


def test_the_indentation_of_a_fence_in_a_list_is_removed() -> None:
    assert fenced_blocks("1. So:\n   ```python\n   def f():\n       pass\n   ```") == [
        CodeBlock("python", "def f():\n    pass")
    ]


def test_an_answer_without_a_block_is_code_as_a_whole() -> None:
    assert extract_code("def f(): pass", "f") == "def f(): pass"


def test_the_block_that_defines_the_function_is_preferred_to_usage_examples() -> None:
    answer = "```python\ndef f(x):\n    return x\n```\nUse it:\n```python\nprint(f(1))\n```"
    assert extract_code(answer, "f") == "def f(x):\n    return x"


def test_the_last_definition_counts_because_models_correct_themselves() -> None:
    answer = "```python\ndef f(): return 1\n```\nWait.\n```python\ndef f(): return 2\n```"
    assert extract_code(answer, "f") == "def f(): return 2"


def test_a_python_block_is_preferred_to_other_languages() -> None:
    answer = "```bash\npip install x\n```\n```py\n    return 1\n```"
    assert extract_code(answer, "f") == "    return 1"


def test_a_block_without_a_language_is_preferred_to_another_language() -> None:
    assert extract_code("```text\nhello\n```\n```\nreturn 1\n```", "f") == "return 1"


def test_a_definition_that_is_indented_as_a_whole_is_moved_to_the_margin() -> None:
    assert extract_code("```python\n    def f():\n        pass\n```", "f") == "def f():\n    pass"


@pytest.mark.parametrize(
    "code",
    [
        "def f(x):",
        "async def f():",
        "class f:",
        "f = lambda: 1",
        "f: Callable = g",
        "import a\ndef  f (x): 1",
    ],
)
def test_definitions_are_recognised(code: str) -> None:
    assert defines(code, "f")


@pytest.mark.parametrize(
    "code", ["def ff():", "    def f():", "f == 1", "f(1)", "# def f()", "from x import f"]
)
def test_other_uses_of_the_name_are_no_definitions(code: str) -> None:
    assert not defines(code, "f")


def test_a_whole_function_gets_the_imports_of_the_prompt() -> None:
    code = "def area(r):\n    return math.pi * r ** 2"
    assert complete_program(PROMPT, "area", code) == "import math\n\n\n" + code + "\n"


def test_a_whole_function_gets_the_helpers_of_the_prompt() -> None:
    prompt = "def helper(x):\n    return x\n\n\ndef f(x):\n    '''Use helper.'''\n"
    program = complete_program(prompt, "f", "def f(x):\n    return helper(x)")
    assert program == "def helper(x):\n    return x\n\n\ndef f(x):\n    return helper(x)\n"


def test_future_imports_stay_at_the_top() -> None:
    code = "from __future__ import annotations\ndef area(r: Radius): ..."
    assert complete_program(PROMPT, "area", code) == (
        "from __future__ import annotations\nimport math\n\n\ndef area(r: Radius): ...\n"
    )


@pytest.mark.parametrize(
    ("code", "body"),
    [
        ("    x = r * r\n    return math.pi * x", "    x = r * r\n    return math.pi * x"),
        ("\n    return 1\n\n", "    return 1"),
        ("x = r * r\nreturn math.pi * x", "    x = r * r\n    return math.pi * x"),
        ("x = r * r\n    return math.pi * x", "    x = r * r\n    return math.pi * x"),
        ("if r:\n    return 1\nreturn 0", "    if r:\n        return 1\n    return 0"),
        ("if r:\n        return 1\n    return 0", "    if r:\n        return 1\n    return 0"),
        ("return 1", "    return 1"),
    ],
    ids=["indented", "blank_lines", "no_indent", "first_lost", "block", "block_first_lost", "one_line"],
)
def test_a_body_continues_the_prompt(code: str, body: str) -> None:
    assert complete_program(PROMPT, "area", code) == PROMPT + body + "\n"
