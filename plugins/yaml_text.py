"""Reading YAML that somebody else has written."""

from __future__ import annotations

_LONGEST = 300


class YamlTextError(ValueError):
    """The text is no YAML; the message is the reason, in one line."""


def read_yaml(text: str) -> object:
    """The value of one document. Raises ``YamlTextError``, whatever is in the text."""
    import yaml

    try:
        return yaml.safe_load(text)
    except RecursionError:
        raise YamlTextError("it is nested too deeply") from None
    # Beside its own errors the reader raises those of int, float, date and its tables for scalars that say
    # to be what they are not (2001-99-99, 0x_, !!bool x).
    except (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise YamlTextError(reason[:_LONGEST]) from None
