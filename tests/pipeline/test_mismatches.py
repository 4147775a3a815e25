"""Every mismatch is raised with as many values as its sentence has places, which no type checker sees."""

import ast
import string

from resonance.pipeline import mismatches

from tests.floors import ROOT, parsed


def places_of(kind):
    fields = [field for _, field, _, _ in string.Formatter().parse(kind._problem) if field is not None]
    numbers = [int(field[0]) for field in fields if field]
    return max(numbers) + 1 if numbers else len(fields)


def test_each_mismatch_gets_what_its_sentence_names():
    kinds = {name: kind for name, kind in vars(mismatches).items() if isinstance(kind, mismatches.Mismatch)}
    raised = set()
    for path in (ROOT / "pipeline").rglob("*.py"):
        for call in ast.walk(parsed(path)):
            match call:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="mismatches"), attr=name)) if name in kinds:
                    # A partition is a pair.
                    values = sum(2 if isinstance(value, ast.Starred) else 1 for value in call.args)
                    assert values == places_of(kinds[name]), f"{path}:{call.lineno}"
                    raised.add(name)
    assert raised == kinds.keys()
