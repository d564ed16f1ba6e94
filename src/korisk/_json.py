"""Types of what JSON and YAML hold: texts as keys, values of any kind until they are checked."""

from collections.abc import Mapping
from typing import Any

JsonDict = dict[str, Any]
JsonMapping = Mapping[str, Any]  # one that is read alone
