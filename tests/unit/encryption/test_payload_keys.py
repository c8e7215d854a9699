"""Where payload keys come from, and what is said of those that cannot be used."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from agentcompass.activities.encryption import payload_keys
from agentcompass.contracts.errors import ConfigurationError

ONE, TWO = bytes(range(32)), bytes(range(32, 64))
TEXT_ONE, TEXT_TWO = base64.b64encode(ONE).decode(), base64.b64encode(TWO).decode()


def test_no_variable_means_no_encryption() -> None:
    assert payload_keys({}) is None
    assert payload_keys({"AGENTCOMPASS_PAYLOAD_KEY": " "}) is None


@pytest.mark.parametrize("text", [TEXT_ONE, ONE.hex(), base64.urlsafe_b64encode(ONE).decode()])
def test_single_key_is_base64_or_hexadecimal(text: str) -> None:
    keys = payload_keys({"AGENTCOMPASS_PAYLOAD_KEY": text})
    assert keys is not None and keys.keys == {keys.current: ONE}


def test_id_of_a_single_key_is_the_same_everywhere_and_differs_between_keys() -> None:
    ids = [payload_keys({"AGENTCOMPASS_PAYLOAD_KEY": text}) for text in (TEXT_ONE, ONE.hex(), TEXT_TWO)]
    names = [keys.current for keys in ids if keys is not None]
    assert names[0] == names[1] != names[2]


def test_first_of_several_keys_is_the_one_that_encrypts(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(TEXT_ONE + "\n")
    env = {"AGENTCOMPASS_PAYLOAD_KEYS": f"2026-11=file:{file}, 2026-05=env:OLD", "OLD": TEXT_TWO}
    keys = payload_keys(env)
    assert keys is not None
    assert (keys.current, dict(keys.keys)) == ("2026-11", {"2026-11": ONE, "2026-05": TWO})


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("AGENTCOMPASS_PAYLOAD_KEY", "hunter2hunter2", "AGENTCOMPASS_PAYLOAD_KEY: a key is 32 bytes"),
        ("AGENTCOMPASS_PAYLOAD_KEY", base64.b64encode(ONE[:16]).decode(), "a key is 32 bytes"),
        ("AGENTCOMPASS_PAYLOAD_KEY", "file:relative", "is not an absolute path"),
        ("AGENTCOMPASS_PAYLOAD_KEY", "file:/absent/key", "/absent/key cannot be read: No such file"),
        ("AGENTCOMPASS_PAYLOAD_KEY", "env:ABSENT", "environment variable ABSENT is not set"),
        ("AGENTCOMPASS_PAYLOAD_KEYS", TEXT_ONE.rstrip("="), "entry 1 is not id=key"),
        ("AGENTCOMPASS_PAYLOAD_KEYS", f"a={TEXT_ONE},a={TEXT_TWO}", "key id 'a' is there twice"),
        ("AGENTCOMPASS_PAYLOAD_KEYS", f"a b={TEXT_ONE}", "entry 1 is not id=key"),
        ("AGENTCOMPASS_PAYLOAD_KEYS", f"a={TEXT_ONE},", "entry 2 is not id=key"),
    ],
)
def test_unusable_key_is_refused_without_being_shown(variable: str, value: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        payload_keys({variable: value})
    assert message in str(caught.value)
    assert TEXT_ONE[:20] not in str(caught.value) and "hunter2" not in str(caught.value)


def test_both_variables_at_once_are_refused() -> None:
    env = {"AGENTCOMPASS_PAYLOAD_KEY": TEXT_ONE, "AGENTCOMPASS_PAYLOAD_KEYS": f"a={TEXT_ONE}"}
    with pytest.raises(ConfigurationError, match="both set"):
        payload_keys(env)


def test_keys_are_not_in_the_representation() -> None:
    assert "\\x01" not in repr(payload_keys({"AGENTCOMPASS_PAYLOAD_KEY": TEXT_ONE}))
