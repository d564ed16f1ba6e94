"""Every small fault that could be put into a file: what `mutation.run` draws from.

The faults are made by cosmic-ray's operators. Not all of them are used. Most of its replacements
of one operator by any other end in a TypeError, which any test notices, and a score that counts
them says little. What is used: neighbours of an arithmetic operator (+ and -, * and /, ** and *,
// and /, % and //, | and &), all other orderings for an ordering, == and !=, is and is not, a
number one up and one down, a sign or a `not` left out, True and False, and and or, a condition
negated, break and continue, an exception not caught, a loop that does not run.

Not counted as faults, because no test should hold them: anything in an annotation, in a `raise`
(the wording of a refusal), under `if TYPE_CHECKING` and in `__all__`; the size of a cache; and the
`strict` of zip, which checks the code itself.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import parso
from cosmic_ray.ast import ast_nodes
from cosmic_ray.operators import (
    binary_operator_replacement,
    boolean_replacer,
    break_continue,
    comparison_operator_replacement,
    exception_replacer,
    number_replacer,
    unary_operator_replacement,
    zero_iteration_for_loop,
)
from parso.tree import BaseNode

_BINARY = {
    "Add_Sub", "Sub_Add", "Mul_Div", "Div_Mul", "Pow_Mul", "FloorDiv_Div", "Mod_FloorDiv",
    "BitOr_BitAnd", "BitAnd_BitOr",
}  # fmt: skip
_ORDERINGS = ("Lt", "LtE", "Gt", "GtE")
_COMPARISONS = {
    *(f"{one}_{other}" for one in _ORDERINGS for other in _ORDERINGS if one != other),
    *("Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is"),
}
_UNARY = {"Delete_USub", "Delete_Not", "Delete_Invert"}
_UNSEEN = ("raise_stmt", "annassign", "tfpdef", "import_from", "import_name")


@dataclass(frozen=True)
class Mutant:
    """One fault: where it is, and the line before and after."""

    path: str  # from the root of the tree
    function: str  # qualified by the module, `korisk.theory.bound.rate`
    operator: str
    line: int
    lines: tuple[int, int]  # of the statement, first and last
    on_import: bool  # whether it runs when the module is imported, and not when a function is
    was: str
    now: str
    text: str = field(repr=False, compare=False)  # of the whole file

    @property
    def key(self) -> tuple[str, str, str]:
        """What a list of mutants knows it by: no line number, which any edit moves."""
        return self.function, self.was, self.now


def _named(module: Any, chosen: set[str]) -> list[Any]:
    return [each for each in module.operators() if each.__name__.split("_", 1)[1] in chosen]


@cache
def operators() -> tuple[Any, ...]:
    """The classes of cosmic-ray that are used."""
    return (
        *_named(binary_operator_replacement, _BINARY),
        *_named(comparison_operator_replacement, _COMPARISONS),
        *_named(unary_operator_replacement, _UNARY),
        boolean_replacer.AddNot,
        boolean_replacer.ReplaceTrueWithFalse,
        boolean_replacer.ReplaceFalseWithTrue,
        boolean_replacer.ReplaceAndWithOr,
        boolean_replacer.ReplaceOrWithAnd,
        break_continue.ReplaceBreakWithContinue,
        break_continue.ReplaceContinueWithBreak,
        exception_replacer.ExceptionReplacer,
        number_replacer.NumberReplacer,
        zero_iteration_for_loop.ZeroIterationForLoop,
    )


def mutants(root: Path, path: Path) -> list[Mutant]:
    """All faults of one file, each a different program."""
    source = path.read_text(encoding="utf-8")
    tree = parso.parse(source)  # type: ignore[no-untyped-call, unused-ignore]
    found: list[Mutant] = []
    seen = {_squeezed(source)}
    for node in list(ast_nodes(tree)):
        if _unseen(node):
            continue
        for operator in operators():
            for index, (start, _) in enumerate(operator().mutation_positions(node)):
                text = _changed(tree, node, operator, index)
                if _squeezed(text) not in seen and _is_other_program(text, source):
                    seen.add(_squeezed(text))
                    found.append(_mutant(path.relative_to(root), node, operator, start[0], text))
    return [each for each in found if "not not " not in each.now]  # the `not` is left out as well


def _mutant(path: Path, node: Any, operator: Any, line: int, text: str) -> Mutant:
    source = node.get_root_node().get_code()
    return Mutant(
        path=path.as_posix(),
        function=_function(node, path),
        operator=operator.__name__,
        line=line,
        lines=_statement(node),
        on_import=_on_import(node),
        was=source.splitlines()[line - 1].strip(),
        now=text.splitlines()[line - 1].strip(),
        text=text,
    )


def _squeezed(source: str) -> str:
    return re.sub(r"[ \t]", "", source)


def _is_other_program(text: str, source: str) -> bool:
    """Whether it can be run, and is another program: 1e60 and one are still 1e60."""
    try:
        return ast.dump(ast.parse(text)) != ast.dump(ast.parse(source))
    except SyntaxError:
        return False


def _changed(tree: Any, node: Any, operator: Any, index: int) -> str:
    """The whole text with the fault; the tree is left as it was."""
    parent = node.parent
    before = [
        (each, list(each.children)) if isinstance(each, BaseNode) else (each, each.value)
        for each in (parent, *ast_nodes(node))
        if each is not None
    ]
    made = operator().mutate(node, index)
    if made is not node:
        parent.children[parent.children.index(node)] = made
    text = str(tree.get_code())
    for each, content in before:
        setattr(each, "children" if isinstance(each, BaseNode) else "value", content)
    return text


def _parents(node: Any) -> Iterator[Any]:
    while node is not None:
        yield node
        node = node.parent


def _unseen(node: Any) -> bool:
    """Whether the node is no part of what the program does."""
    below = None
    for each in _parents(node):
        if each.type in _UNSEEN and not _is_value(each, below):
            return True
        if each.type == "funcdef" and below is not None and below is each.annotation:
            return True
        if each.type == "parameters" and node.type == "operator":
            return True  # the star before keywords
        if each.type == "if_stmt" and "TYPE_CHECKING" in each.children[1].get_code():
            return True
        if each.type == "expr_stmt" and each.get_code().strip().startswith("__all__"):
            return True
        if each.type == "argument" and each.children[0].get_code().strip() in ("strict", "maxsize"):
            return True
        below = each
    return False


def _is_value(parent: Any, below: Any) -> bool:
    """Whether `below` is the value of an annotated name, not its annotation."""
    return parent.type == "annassign" and len(parent.children) > 3 and below is parent.children[3]


def _function(node: Any, path: Path) -> str:
    names = [each.name.value for each in _parents(node) if each.type in ("funcdef", "classdef")]
    module = path.with_suffix("").parts[1:]
    return ".".join([*module, *reversed(names)])


def _on_import(node: Any) -> bool:
    bodies = (each.children[-1] for each in _parents(node) if each.type == "funcdef")
    above = list(_parents(node))
    return not any(body is each for body in bodies for each in above)


def _statement(node: Any) -> tuple[int, int]:
    """The first and last line of the innermost statement, of a compound one those of its head."""
    compound = ("if_stmt", "while_stmt", "for_stmt", "with_stmt", "funcdef", "classdef", "try_stmt")
    below = node
    for each in _parents(node):
        if each.type in ("expr_stmt", "return_stmt", "except_clause", "decorator", "simple_stmt"):
            return each.start_pos[0], each.get_last_leaf().start_pos[0]
        if each.type in compound:
            # Its own expressions stand before the colon that the node does not lie behind.
            first = each.start_pos[0] if below is each else below.start_pos[0]
            return first, max(first, _head_end(each) if below is each else below.end_pos[0])
        below = each
    return node.start_pos[0], node.end_pos[0]


def _head_end(compound: Any) -> int:
    colon = next(child for child in compound.children if child.get_code().strip() == ":")
    return int(colon.end_pos[0])
