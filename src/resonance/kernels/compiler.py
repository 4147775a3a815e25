"""Compiles kernels: machine code is made of those that Python calls, together with all that they call.

numba makes machine code of every function, each time with that of all its callees: of a kernel five calls deep five
times. Here a kernel stays intermediate code, which its callers take in, until Python calls it. That is half of the time
of compiling, and most of what would be kept on disk.
"""

from copy import copy
from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder, Flags
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager, register_pass
from numba.core.lowering import Environment
from numba.core.typed_passes import NativeLowering


class _Part(JITCodeLibrary):  # type: ignore[misc]  # numba has no types
    """Intermediate code of a kernel and its callees, to be taken in."""

    def finalize(self) -> None:
        for library in dict.fromkeys(self._linking_libraries):
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalized = True


class Deferred:
    """What numba has of a kernel in the place of machine code."""

    def __init__(self, context: Any, library: _Part, lowered: Any) -> None:
        self._context, self._library, self._lowered = context, library, lowered
        # Kept: numba's dispatcher does not count its references to what it calls.
        self.made: Any = None

    def make(self, compiled: Any) -> Any:
        """Return numba's result of a compilation with machine code in it."""
        context, lowered = self._context, self._lowered
        library = context.codegen().create_library(self._library.name)
        library.enable_object_caching()
        self._library._ensure_finalized()
        library._final_module.link_in(self._library._final_module, preserve=True)
        # With constants of its own: those of the kernel may be on disk already, with a caller that was kept.
        called = copy(lowered.fndesc)
        called.env_name += "_called"
        constants = Environment.from_fndesc(called)
        context.create_cpython_wrapper(library, called, constants, lowered.call_helper, release_gil=True)
        function = context.get_executable(library, called, constants)
        made = compiled._replace(entry_point=function, library=library, fndesc=called, environment=constants)
        for environment in made._find_referenced_environments():
            library.codegen.set_env(environment.env_name, environment)
        return made


@register_pass(mutates_CFG=True, analysis_only=False)
class _Lowering(NativeLowering):  # type: ignore[misc]
    """Makes intermediate code."""

    _name = "deferred_lowering"

    def run_pass(self, state: Any) -> bool:
        context, flags = state.targetctx, state.flags
        state.library = _Part(context.codegen(), state.func_id.func_qualname)
        flags.no_compile = flags.no_cpython_wrapper = True
        super().run_pass(state)
        deferred = Deferred(context, state.library, state.cr)
        context.insert_user_function(deferred, state.cr.fndesc, [state.library])
        state.cr = state.cr._replace(cfunc=deferred)
        return True


class _Flags(Flags):  # type: ignore[misc]
    """numba's flags, which it compares at every operation of a kernel: by those that are set, not by all of them."""

    __slots__ = ()

    def __hash__(self) -> int:
        return hash(tuple(self._values))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, _Flags) and self._values == other._values)


class KernelCompiler(CompilerBase):  # type: ignore[misc]
    """numba's compiler without its last step."""

    def __init__(self, typingctx: Any, targetctx: Any, library: Any, args: Any, result: Any, flags: Any, own: Any):
        super().__init__(typingctx, targetctx, library, args, result, _Flags(flags), own)

    def define_pipelines(self) -> list[PassManager]:  # noqa: D102
        passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
        passes.passes = [(_Lowering if each is NativeLowering else each, what) for each, what in passes.passes]
        passes._finalized = False
        passes.finalize()
        return [passes]


def deferring(kernel: Any) -> Any:
    """Have numba's dispatcher of a kernel make machine code, and keep it on disk, when Python calls it first."""
    add, compile_for = kernel.add_overload, kernel._compile_for_args

    def add_overload(compiled: Any) -> None:
        if isinstance(compiled.entry_point, Deferred):
            kernel.overloads[tuple(compiled.signature.args)] = compiled
        else:
            add(compiled)

    def compile_for_args(*args: Any, **named: Any) -> Any:
        found = compile_for(*args, **named)
        if not isinstance(found, Deferred):
            return found
        with global_compiler_lock:
            # Once, though threads may have waited here: of two alike numba's dispatcher takes neither.
            if found.made is None:
                compiled = next(each for each in kernel.overloads.values() if each.entry_point is found)
                whole, types = found.make(compiled), tuple(compiled.signature.args)
                kernel._insert([each._code for each in types], whole.entry_point, False)
                found.made = whole
                kernel._cache.save_overload(types, whole)
        return found.made.entry_point

    kernel.add_overload, kernel._compile_for_args = add_overload, compile_for_args
    return kernel
