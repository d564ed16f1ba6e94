"""Types of JSON and YAML content: string keys, and values of any type until they are checked."""

from collections.abc import Mapping
from typing import Any

JsonDict = dict[str, Any]
JsonMapping = Mapping[str, Any]  # read-only
