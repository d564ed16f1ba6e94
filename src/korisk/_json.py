"""JSON as text, and the types of its content: values of any type until they are checked."""

import json
import math
from collections.abc import Mapping
from typing import Any

JsonDict = dict[str, Any]
JsonMapping = Mapping[str, Any]  # read-only


def json_text(content: object, indent: int = 2) -> str:
    """Serialise plain values; infinite and undefined numbers, which JSON lacks, become null."""
    return json.dumps(_finite(content), indent=indent, allow_nan=False)


def _finite(content: object) -> object:
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    if isinstance(content, float) and not math.isfinite(content):
        return None
    return content
