"""How the theory's values print themselves."""

import dataclasses
import math


def terse_repr(value: object) -> str:
    """A dataclass's repr that leaves defaults out and still evaluates back."""
    parts = []
    for field in dataclasses.fields(value):  # type: ignore[arg-type]
        content = getattr(value, field.name)
        if field.default is dataclasses.MISSING:
            prefix = f"{field.name}=" if field.kw_only else ""
            parts.append(prefix + _text(content))
        elif content is not field.default and content != field.default:
            parts.append(f"{field.name}={_text(content)}")
    return f"{type(value).__name__}({', '.join(parts)})"


def _text(content: object) -> str:
    infinite = isinstance(content, float) and math.isinf(content)
    return f"float('{content}')" if infinite else repr(content)
