"""Marks: what a user states about a module where its parameters do not say it themselves."""

from typing import TypeVar

from torch import nn

from korisk.errors import KoriskError, shown
from korisk.theory import Known, Learned
from korisk.theory.bracket import Lipschitz

Module = TypeVar("Module", bound=nn.Module)

Mark = Known | Learned  # the layer that a module is stated to be
UNNAMED = "marked module"  # the name of a mark that states none
_FIELD = "_korisk_mark"  # a plain attribute: copied and pickled, and in no state_dict


def mark_known(
    module: Module, *, lipschitz: Lipschitz = None, mismatch: float = 0.0, name: str | None = None
) -> Module:
    """Mark a module as a known operator: `describe` takes it as one known layer.

    Its parameters are frozen, `requires_grad_(False)`, because the theorem's known layer is the
    true one and no training moves it.

    Parameters
    ----------
    module : torch.nn.Module
        The module to mark.
    lipschitz : float, NormBracket or operator, optional
        A Lipschitz constant of the true map. Default: found by `describe`.
    mismatch : float, default 0.0
        E||u - û||^2 of an operator that is known only approximately.
    name : str, optional
        Name of the layer. Default: the module's path.

    Returns
    -------
    torch.nn.Module
        The same module.

    Raises
    ------
    KoriskError
        If `module` is not an `nn.Module`, or a number is below 0.

    Examples
    --------
    >>> import korisk as kr
    >>> from torch import nn, ones
    >>> known = kr.mark_known(nn.Linear(4, 4), lipschitz=2.0, name="K")
    >>> kr.describe(nn.Sequential(known, nn.Linear(4, 2)), ones(1, 4))["K"]
    Known('K', lipschitz=2.0)
    """
    mark = Known(UNNAMED if name is None else name, lipschitz=lipschitz, mismatch=mismatch)
    for weights in _marked(module, mark).parameters():  # torch.jit has no module.requires_grad_
        weights.requires_grad_(False)
    return module


def mark_learned(
    module: Module,
    *,
    lipschitz: Lipschitz = None,
    parameters: int | None = None,
    name: str | None = None,
) -> Module:
    """Mark a module as one learned layer.

    Parameters
    ----------
    module : torch.nn.Module
        The module to mark.
    lipschitz : float, NormBracket or operator, optional
        A Lipschitz constant of the true layer, such as one that training enforces. Default: that
        of the present weights.
    parameters : int, optional
        The paper's p. Default: the number of trained weights.
    name : str, optional
        Name of the layer. Default: the module's path.

    Returns
    -------
    torch.nn.Module
        The same module.

    Raises
    ------
    KoriskError
        If `module` is not an `nn.Module`, or a number is out of range.

    Examples
    --------
    >>> import korisk as kr
    >>> from torch import nn, ones
    >>> body = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))
    >>> kr.describe(kr.mark_learned(body, lipschitz=1.0, name="body"), ones(1, 4))
    Network([Learned('body', lipschitz=1.0, parameters=76)])
    """
    title = UNNAMED if name is None else name
    return _marked(module, Learned(title, lipschitz=lipschitz, parameters=parameters))


def mark_of(module: nn.Module) -> Mark | None:
    """The module's mark, if it has one."""
    mark = module.__dict__.get(_FIELD)
    return mark if isinstance(mark, Known | Learned) else None


def _marked(module: Module, mark: Mark) -> Module:
    remedy = "put a function into a module's forward"
    if not isinstance(module, nn.Module):
        raise KoriskError(f"only an nn.Module can be marked, got {shown(module)}; {remedy}")
    vars(module)[_FIELD] = mark  # a module of torch.jit would set it elsewhere
    return module
