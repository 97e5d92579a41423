"""A conversation in a terminal or a pipe: reads questions, prints answers, stops on Ctrl-C."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from truespan.cli.app import complete, say
from truespan.cli.output.ask import (
    print_account,
    show_answer_in_conversation,
    show_found,
    show_turns,
)
from truespan.cli.terminal import WrappedText, echo, write_error
from truespan.core.cancel import CancelToken, use_cancel_token
from truespan.errors import Interrupted, TruespanError
from truespan.types.answer import Answer, Finished, Piece
from truespan.types.request import is_blank
from truespan.wire.serialize import problem, status_of

if TYPE_CHECKING:
    from truespan.engine.conversations import Conversation

PROMPT = "ask> "
GREETING = "Ask a question. /help lists the commands; Ctrl-D ends."
HELP = """\
/sources  show the passages of the last answer
/history  show the turns of this conversation
/new      start another conversation
/quit     end; Ctrl-D does the same
Ctrl-C stops an answer. A stopped answer is not stored."""


class ChatSession:
    """One run of `truespan chat`: a conversation, and another one after each '/new'."""

    def __init__(
        self,
        begin: Callable[[str | None], Conversation],
        conversation: str | None,
        options: Mapping[str, Any],
        *,
        advice: str | None,
        as_json: bool,
    ) -> None:
        """`advice` is the command that continues a conversation, without its id.

        It is None for a conversation that is not kept.
        """
        self._begin = begin
        self._conversation = begin(conversation)
        self._stored = conversation is not None
        self._options = options
        self._advice = advice
        self._as_json = as_json
        self._for_people = not as_json and is_terminal()
        self._last: Answer | None = None
        self._token: CancelToken | None = None
        self._reading = False
        self._in_line = False
        """Whether the last line has the beginning of an answer."""

    def run(self) -> int:
        """Answer each line until the input ends, and return the exit code.

        At a terminal, an error is shown and the session continues. A script gets the first error as
        its exit code, because later questions may follow up on the one that failed.
        """
        if not self._for_people:
            return self._answer_lines(sys.stdin)
        echo(show_turns(self._conversation.turns()) + "\n" if self._stored else GREETING)
        with self._handle_interrupts():
            self._answer_lines(self._typed_lines())
        if self._stored and self._advice is not None:
            say(f"'{self._advice} {self._conversation.id}' continues this conversation.")
        return 0

    def _answer_lines(self, lines: Iterator[str]) -> int:
        for line in lines:
            if is_blank(line):
                continue
            if line.strip().startswith("/"):
                if not self._obey(line.strip()):
                    break
                continue
            code = self._answer(line)
            if code and not self._for_people:
                return code
        return 0

    def _typed_lines(self) -> Iterator[str]:
        with suppress(ImportError):
            import readline  # noqa: F401 -- its import gives `input` line editing and history
        while True:
            try:
                self._reading = True
                line = input(PROMPT)
                self._reading = False
            except EOFError:
                echo()
                return
            except KeyboardInterrupt:
                echo("\nCtrl-D or /quit ends.")
            else:
                yield line

    @contextmanager
    def _handle_interrupts(self) -> Iterator[None]:
        """Let Ctrl-C stop an answer or clear a line, wherever the program is just then."""

        def stop(_number: int, _frame: object) -> None:
            token = self._token
            if self._reading or (token is not None and token.cancelled):
                # A second Ctrl-C ends the program, should an answer not stop.
                self._reading = False
                raise KeyboardInterrupt
            if token is not None:
                # On a thread: this one may just hold the lock of the token.
                threading.Thread(target=token.cancel, daemon=True).start()

        previous = signal.signal(signal.SIGINT, stop)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, previous)

    def _obey(self, command: str) -> bool:
        """Run the command of a line that begins with a slash; return whether to continue."""
        match command:
            case "/quit" | "/exit":
                return False
            case "/new":
                self._conversation, self._last, self._stored = self._begin(None), None, False
                self._tell("A new conversation begins with your next question.")
            case "/sources":
                self._tell(show_found(self._last))
            case "/history":
                self._tell(show_turns(self._conversation.turns()))
            case "/help":
                self._tell(HELP)
            case _:
                self._tell(f"There is no command {command.split()[0]}.\n{HELP}")
        return True

    def _tell(self, text: str) -> None:
        """Print a text for people; with --json standard output has nothing but answers."""
        echo(complete(text), err=self._as_json)

    def _answer(self, question: str) -> int:
        """Ask one question, print the answer, and return the exit code."""
        self._token = CancelToken()
        try:
            with use_cancel_token(self._token):
                self._print_answer(question.strip(), self._token)
        except Interrupted:
            if not self._for_people:
                raise
            echo("\nStopped. This question and its answer are not stored.")
        except TruespanError as error:
            if self._in_line:
                # The message does not belong to what the model said so far.
                echo()
            error.advice = complete(error.advice)
            if self._as_json:
                echo(msgspec.json.encode({"error": problem(error)}).decode())
            else:
                write_error(f"truespan: {error}\n")
            return status_of(error).exit_code
        finally:
            self._token, self._in_line = None, False
        return 0

    def _print_answer(self, question: str, token: CancelToken) -> None:
        answer: Answer | None = None
        text = WrappedText()
        events = self._conversation.ask_stream(question, **self._options)
        with closing(events):  # type: ignore[type-var]
            for event in events:
                if isinstance(event, Finished):
                    answer = event.answer
                elif isinstance(event, Piece) and not self._as_json:
                    token.check()
                    text.write(event.text)
                    self._in_line = True
        if answer is None:
            return
        self._last, self._stored = answer, True
        if self._as_json:
            echo(msgspec.json.encode(answer).decode())
        else:
            text.finish()
            print_account(f"{show_answer_in_conversation(answer)}\n")
        sys.stdout.flush()


def is_terminal() -> bool:
    """Say whether a person types the questions and reads the answers."""
    return sys.stdin.isatty() and sys.stdout.isatty()
