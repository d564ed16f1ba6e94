"""Types of arguments that most operators take."""

from collections.abc import Sequence

import torch
from numpy.typing import ArrayLike
from torch import Tensor

Device = torch.device | str | None
Dtype = torch.dtype | None
Lengths = int | Sequence[int]  # a shape, or the length of its only axis
Values = Tensor | ArrayLike
