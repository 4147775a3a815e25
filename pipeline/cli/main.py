"""Entry point of the command line; for an unknown option it offers what was meant."""

import contextlib
import importlib
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from typing import Annotated, Any, Final

import typer
from resonance.pipeline.cli.options import (
    OPTIONS,
    SETTINGS_HELP,
    SHARED_HELP,
    SHARED_NAMES,
    Broker,
    Config,
    Name,
    Set,
    Topics,
    shared,
)
from resonance.pipeline.cli.output import forget_output, is_unread, open_missing, say
from resonance.pipeline.cli.stopping import UNCHANGED, UNREAD, says_when_stopped
from resonance.pipeline.config import likely
from resonance.pipeline.errors import ConfigurationError, OutputError, ResonanceError, named, offered
from resonance.pipeline.logs import printable, unbuffer_standard_error
from resonance.pipeline.machine import collect_rarely
from resonance.schemas.interrupts import interruptible
from typer.core import TyperGroup


def explanation(name: str, context: Any) -> str:
    """Return what to write instead, to stand behind the message; empty where nothing is like the option."""
    command, path = context.command, context.command_path
    if found := _meant(name, command):
        return offered(found)
    if argument := _argument(name, command):
        return f"; write it without an option: {path} {argument}"
    alike = likely.spelt_alike(name, _options(command))
    return offered(_setting_meant(name) or alike or _setting_meant(name, likely.settings_like))


def _meant(name: str, command: Any) -> list[str]:
    """Return the options of a command that share the words of a name, with the setting that they stand for."""
    found = likely.sharing_words(name, _options(command))
    settings = {f"--{option}": f"--{setting}" for option, setting in OPTIONS.items()}
    return found + [settings[option] for option in found if option in settings]


def _argument(name: str, command: Any) -> str:
    arguments = {each.name: each for each in command.params if each.param_type_name == "argument"}
    near = likely.sharing_words(name, arguments)
    return (arguments[near[0]].metavar or near[0].upper()) if near else ""


def _setting_meant(name: str, search: Callable[[str, Iterable[str]], list[str]] = likely.settings_called) -> list[str]:
    from resonance.pipeline.config import reference

    known = dict.fromkeys(row.name for rows in reference.reference().values() for row in rows)
    found = search(name.lstrip("-"), known)
    return [f"--{setting}" if "." in setting else f"--set {setting}=..." for setting in found]


def _options(command: Any) -> list[str]:
    own = [option for parameter in command.params for option in parameter.opts if option.startswith("--")]
    return list(dict.fromkeys([*own, *SHARED_NAMES]))


COMMANDS: Final[Mapping[str, str]] = {
    "topics": "Plan, create and check the topics of a deployment.",
    "produce": "Send the records of a file to a topic.",
    "bootstrap": "Learn history before a deployment begins.",
    "worker": "Run a worker.",
    "watch": "Show the outputs as they come, in sentences.",
    "page": "Serve a live web page of streams, clusters and workers.",
    "mcp": "Answer an assistant's questions, read only.",
    "alerts": "List what happened, publish it, or send it to Alertmanager or PagerDuty.",
    "replay": "Learn recorded data again, bit for bit.",
    "verify": "Compare the recorded outputs with a replay.",
    "evaluate": "Compare engines and settings on recorded data.",
    "compare": "Compare the outputs of two deployments.",
    "promote": "Put the models of a shadow in place of the live ones.",
    "inspect": "Show the clusters of a stream, or one of them.",
    "snapshots": "List, export and import the stored models.",
    "dlq": "List dead letters, replay them, resume partitions.",
    "reset": "Begin anew, or go back to an archive.",
    "settings": "Show the settings, or explain them all.",
    "demo": "Watch a worker learn telemetry; needs no broker.",
}
"""Command, which is also the module of its ``app`` -> short help; first steps and daily use before the rest."""

SHARED: Final = (*SHARED_NAMES, "-c", "-s")


@contextlib.contextmanager
def unknown_options_explained() -> Iterator[None]:
    """Let the error for an unknown option offer what was meant."""
    try:
        yield
    except Exception as error:
        # The class is typer's own or that of click, by the version of typer; only it has both.
        name, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
        if hasattr(error, "possibilities") and name is not None and context is not None:
            error.possibilities = None
            error.message = f"No such option: {printable(name)}{explanation(name, context)}"  # type: ignore[attr-defined]
        raise


def refuse_repeated(command: Any) -> None:
    """Let a command, or group, refuse an option of one value that is given again: the parser would keep the last."""

    def make_parser(context: Any, made: Any = command.make_parser) -> Any:
        parser = made(context)

        def parse_args(args: list[str], parse: Any = parser.parse_args) -> Any:
            values, others, order = parse(args=args)
            for option in order:
                is_single = option.param_type_name == "option" and not (option.multiple or option.is_flag)
                if is_single and order.count(option) > 1:
                    one = option.metavar if "," in (option.metavar or "") else ""
                    remedy = f"write it once: {option.opts[0]} {one}" if one else "leave one out"
                    raise ConfigurationError(f"{option.opts[0]}: it is given twice on the command line; {remedy}")
            return values, others, order

        parser.parse_args = parse_args
        return parser

    command.make_parser = make_parser


class LazyGroup(TyperGroup):
    """Imports the module of a command when the command is needed, and none to list the commands."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes | {"commands": dict.fromkeys(COMMANDS)})
        refuse_repeated(self)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, None where there is no such command."""
        if cmd_name not in COMMANDS:
            return None
        with says_when_stopped(UNCHANGED):
            command = typer.main.get_command(importlib.import_module(f"resonance.pipeline.cli.{cmd_name}").app)
        for one in (command, *getattr(command, "commands", {}).values()):
            one.epilog = SHARED_HELP
            refuse_repeated(one)
        return command

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options before the command."""
        with unknown_options_explained():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Read the options of the command, and run it."""
        with unknown_options_explained():
            return super().invoke(ctx)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands with their short help."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


app = typer.Typer(
    name="resonance",
    cls=LazyGroup,
    help=f"Stream clustering on Kafka: stable clusters and their life events, exactly once.\n\n{SETTINGS_HELP}",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def root(
    config: Config = None,
    name: Name = None,
    broker: Broker = None,
    topics: Topics = None,
    pairs: Set = None,
    show_version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Take the options of every command, or show the version."""
    shared.config, shared.pairs, shared.named = config, pairs, {"name": name, "broker": broker, "topics": topics}
    if show_version:
        typer.echo(f"resonance {version('resonance-streams')}")
        raise typer.Exit


def as_options(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the arguments, with ``--section.key value`` rewritten as ``--set section.key=value``.

    Raises `ConfigurationError`, with an example, for a setting that another option or nothing follows.
    """
    waiting = iter(arguments)
    for argument in waiting:
        key, separator, value = argument.removeprefix("--").partition("=")
        if not argument.startswith("--") or "." not in key:
            yield argument
            continue
        if not separator:
            following = next(waiting, None)
            if following is None or following.startswith("--"):
                raise ConfigurationError(f"--{key} needs a value, such as --{key}=VALUE")
            value = following
        yield from ("--set", f"{key}={value}")


def command_line(words: Iterable[str] | None = None) -> str:
    """Return a command as it is typed, by default this one; secrets are masked."""
    from resonance.pipeline.config import messages

    return shlex.join(["resonance", *messages.masked(as_options(sys.argv[1:]) if words is None else words)])


def shared_first(arguments: Iterable[str]) -> list[str]:
    """Return the arguments with the options of every command before the command."""
    first, others = [], []
    waiting = iter(arguments)
    for argument in waiting:
        option, equals, _ = argument.partition("=")
        if option in SHARED or (argument[:2] in SHARED and not argument.startswith("--")):
            first.append(argument)
            if option in SHARED and not equals and (value := next(waiting, None)) is not None:
                first.append(value)
        else:
            others.append(argument)
    return [*first, *others]


def main() -> None:
    """Run the command line; errors that a user can act on become one line and an exit code."""
    open_missing()
    unbuffer_standard_error()
    # Also while modules are imported: a tenth of the time.
    collect_rarely()
    if os.getpid() == 1:
        # The kernel delivers a signal to the first process of a container only where that process handles it.
        signal.signal(signal.SIGTERM, lambda number, _: os._exit(128 + number))
    code: object = 0
    try:
        with interruptible():
            try:
                app(shared_first(as_options(sys.argv[1:])), prog_name="resonance")
            except SystemExit as ended:
                code = ended.code
                raise
            finally:
                sys.stdout.flush()
    except BrokenPipeError:
        forget_output()
        sys.exit(code or UNREAD)  # type: ignore[arg-type]
    except SystemExit:
        # With 1 where a pipe is closed (typer).
        if code == 1 and is_unread():
            forget_output()
            sys.exit(UNREAD)
        raise
    except (ResonanceError, OSError, MemoryError, RuntimeError) as error:
        if (shown := error if isinstance(error, ResonanceError) else named(error)) is None:
            raise
        if isinstance(shown, OutputError):
            forget_output()
        first, *more = map(str, shown.args)
        say(f"error: {first}", *more)
        sys.exit(shown.exit_code)


if __name__ == "__main__":
    main()
