"""The way into the command line, and the one place where errors become lines and exit codes."""

from __future__ import annotations

import logging
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import typer

from sbert_retriever.cli.app import app
from sbert_retriever.cli.output import say
from sbert_retriever.errors import (
    InputError,
    InputTypeError,
    InterruptedRunError,
    ReadError,
    SbertError,
    SbertWarning,
)

SUCCESS, FAILED, WRONG_USE, INTERRUPTED = 0, 1, 2, 130
# What a shell reports of a program that SIGPIPE ended: the reader had enough.
READER_GONE = 141
_PROGRAM = "sbert-retriever"
# Typer has its own copy of click or uses the installed one: its classes are reached through it.
_ClickException = typer.BadParameter.__mro__[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
        arguments: What follows the program's name; None takes the process's own.

    Returns:
        0 success, 1 a failed run, 2 wrong use, 130 stopped by Ctrl-C, 141 the reader of the
        output went away.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug, given = _without_debug(given)
    _settle_streams()
    with _own_warnings(debug=debug), _own_notes():
        try:
            _check_folder()
            code = _invoke([*given] or ["--help"])
            sys.stdout.flush()
        except BrokenPipeError:
            _drop_output()
            return READER_GONE
        except BaseException as error:
            if isinstance(error, (SystemExit, GeneratorExit)):
                raise
            if debug:
                traceback.print_exc(file=sys.stderr)
            _flush_or_drop()
            return _told(error)
    return code if given else WRONG_USE


def _invoke(arguments: list[str]) -> int:
    """Run a command; the exit code that it asks for."""
    command = typer.main.get_command(app)
    try:
        with command.make_context(_PROGRAM, arguments) as context:
            command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    return SUCCESS


def _without_debug(arguments: list[str]) -> tuple[bool, list[str]]:
    """Take --debug off, wherever it stands; behind "--" it is text."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    kept = [word for word in arguments[:end] if word != "--debug"]
    return len(kept) < end, kept + arguments[end:]


def _told(error: BaseException) -> int:
    """Say what went wrong in one line; the exit code."""
    if isinstance(error, (KeyboardInterrupt, typer.Abort)):
        say("interrupted")
        return INTERRUPTED
    if isinstance(error, _ClickException):
        say(_usage(error))
        return WRONG_USE
    if isinstance(error, SbertError):
        say(str(error))
        if isinstance(error, InterruptedRunError):
            return INTERRUPTED
        return WRONG_USE if isinstance(error, (InputError, InputTypeError)) else FAILED
    if isinstance(error, OSError) and error.strerror:
        say(f"{error.filename or 'the system'}: {error.strerror}")
        return FAILED
    say(
        f"this should not have happened: {type(error).__name__}: {error}. Run it again with "
        "--debug to see where, and report that"
    )
    return FAILED


def _usage(error: BaseException) -> str:
    message = str(getattr(error, "format_message", error.__str__)()).rstrip(".")
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else _PROGRAM
    return f"{message}: see {path} --help"


@contextmanager
def _own_warnings(*, debug: bool) -> Iterator[None]:
    """Our warnings as plain lines; those of libraries only with --debug."""
    with warnings.catch_warnings():
        warnings.simplefilter("default" if debug else "ignore")
        warnings.simplefilter("always", SbertWarning)
        shown = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: object) -> None:
            if issubclass(category, SbertWarning):
                say(f"warning: {message}")
            else:
                shown(message, category, *place)  # type: ignore[arg-type]  # handed on as it came

        warnings.showwarning = show  # type: ignore[assignment]  # the same arguments, in one tuple
        yield


class _Said(logging.Handler):
    """Records as plain lines."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


@contextmanager
def _own_notes() -> Iterator[None]:
    """What the encoder says of a long wait: that a kernel is compiled."""
    logger, handler = logging.getLogger("sbert_retriever.encoder"), _Said()
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(before)
        logger.removeHandler(handler)


def _check_folder() -> None:
    """Refuse to run in a folder that is gone: libraries below end the process there.

    Raises:
        ReadError: It is.
    """
    try:
        Path.cwd()
    except OSError as error:
        raise ReadError(
            "the current folder was deleted, so no path can be found: change into one that exists"
        ) from error


def _settle_streams() -> None:
    """No character may end a run, and no library may chat; both hold for this process alone."""
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


def _open_closed_streams() -> None:
    """Put a stream that is empty where one was closed (`<&-`, `>&-`).

    Its number would go to the next file that is opened, which then held what libraries print.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            try:
                os.fstat(number)
            except OSError:
                os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one
            mode = "w" if number else "r"
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))


def _flush_or_drop() -> None:
    """Write what a run printed before it failed; a disk that is full is not told of twice."""
    try:
        sys.stdout.flush()
    except OSError:
        _drop_output()


def _drop_output() -> None:
    """Keep the interpreter from flushing into what takes nothing, on its way out."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
