from __future__ import annotations

import fcntl
import json
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kvproof.conformance.backends import process
from kvproof.conformance.backends.interface import AdapterError
from kvproof.conformance.backends.messages import MessageError
from kvproof.conformance.backends.process import ProcessBackend
from kvproof.conformance.operations import AddRequest, Allocate, Evict, Operation, Reset
from kvproof.spec.vocabulary import GroupConfig, GroupKind, PoolConfig
from tests.backend_walks import drive

CONFIG = PoolConfig(4, 2, (GroupConfig(GroupKind.FULL_ATTENTION, 4),))

ADAPTER = """
import fcntl, json, os, signal, subprocess, sys, time

def say(message, **fields):
    print(json.dumps({"message": message, **fields}), flush=True)

CLAIMED = {"levels": ["P"]}

def hello(request):
    say("introduction", protocol=1, identity={"name": "tame", "version": "1"}, capabilities=CLAIMED)

def start(request):
    say("started")

def step():
    return {"answer": {"result": [os.getpid()]}}

def run(request):
    say("steps", steps=[step() for _ in request["operations"]])

def stop(request):
    sys.exit()

%s

for line in sys.stdin:
    request = json.loads(line)
    globals()[request["message"]](request)
"""
"""An adapter that answers everything; `%s` stands for what it does otherwise."""

ONE = (Allocate("r", 1),)

SERVE = f"{sys.executable} -m kvproof.conformance.backends.serve"

Open = Callable[..., ProcessBackend]


@pytest.fixture
def adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Make adapters that behave as told, and end them all."""
    monkeypatch.setattr(process, "GRACE_S", 0.2)
    opened: list[ProcessBackend] = []

    def make(otherwise: str = "", timeout_s: float = 10.0) -> ProcessBackend:
        script = tmp_path / "adapter.py"
        script.write_text(ADAPTER % otherwise)
        opened.append(ProcessBackend(f"{sys.executable} -S {script}", timeout_s, timeout_s))
        return opened[-1]

    yield make
    for backend in opened:
        backend.close()


def failure(backend: ProcessBackend, operations: tuple[Operation, ...] = ONE, observe: bool = False) -> str:
    """What the error says with which the adapter fails at these operations."""
    try:
        backend.start(CONFIG)
        backend.run(operations, observe)
    except AdapterError as error:
        return str(error)
    return "it did not fail"


def test_an_adapter_that_answers_is_understood(adapter: Open) -> None:
    backend = adapter()
    identity, capabilities = backend.identify()
    assert (identity.name, capabilities.levels) == ("tame", ("P",))
    backend.start(CONFIG)
    [step] = backend.run(ONE, observe=False)
    assert isinstance(step.answer.result, tuple)
    assert step.seen is None


LOOKS_AHEAD = """
import select
sys.stdin = open(0, "rb", buffering=0)  # what was not asked for yet stays in the pipe

def run(request):
    waiting, _, _ = select.select([sys.stdin], [], [], 0.3)
    say("steps", steps=[{"answer": {"result": [len(waiting)]}}])
"""


def test_an_adapter_works_while_others_go_on_and_gets_one_request_at_a_time(adapter: Open, tmp_path: Path) -> None:
    done = "def run(request):\n    say('steps', steps=[step()])\n    open('done', 'a').write('x')"
    backend = adapter(f"os.chdir({str(tmp_path)!r})\n" + done)
    backend.start(CONFIG)
    answers = backend.begin(ONE, observe=False)
    while not (tmp_path / "done").exists():
        time.sleep(0.01)
    assert len(answers()) == 1
    ahead = adapter(LOOKS_AHEAD)
    ahead.start(CONFIG)
    each = [ahead.begin(ONE, observe=False) for _ in range(3)]
    assert [answers()[0].answer.result for answers in each] == [(0,)] * 3


def test_answers_that_nobody_waited_for_are_not_taken_for_later_ones(adapter: Open) -> None:
    count = "asked = 0\ndef run(request):\n    global asked\n    asked += 1\n"
    backend = adapter(count + "    say('steps', steps=[{'answer': {'result': [asked]}}])")
    backend.start(CONFIG)
    forgotten = backend.begin(ONE, observe=False)
    assert backend.run(ONE, observe=False)[0].answer.result == (2,)
    assert forgotten()[0].answer.result == (1,)
    backend.begin(ONE, observe=False)
    backend.start(CONFIG)
    assert backend.run(ONE, observe=False)[0].answer.result == (4,)


def test_an_adapter_that_listens_no_more_is_not_waited_for(adapter: Open) -> None:
    backend = adapter("def start(request):\n    os.close(0)\n    say('started')\n    time.sleep(600)")
    backend.start(CONFIG)
    began = time.monotonic()
    with pytest.raises(AdapterError, match="`run`: it closed its standard input, but goes on running"):
        backend.run(ONE, observe=False)
    assert time.monotonic() - began < 5


def test_an_adapter_that_breaks_while_others_go_on_says_so_when_it_is_asked(adapter: Open) -> None:
    backend = adapter("def run(request):\n    sys.exit(7)")
    backend.start(CONFIG)
    answers = backend.begin(ONE, observe=False)
    with pytest.raises(AdapterError, match="gave no answer to `run`: it ended with exit code 7"):
        backend.begin(ONE, observe=False)
    with pytest.raises(AdapterError, match="and is gone"):
        answers()


def test_a_new_pool_needs_no_new_process(adapter: Open) -> None:
    backend = adapter()
    found = []
    for _ in range(2):
        backend.start(CONFIG)
        found += [step.answer.result for step in backend.run(ONE * 3, observe=False)]
    assert len(found) == 6
    assert len(set(found)) == 1, "the adapter answers with the number of its process"


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ("print('Loading weights', flush=True)", "no JSON: .*the line was 'Loading weights'"),
        ("print(flush=True)", "no message of the protocol: an empty line"),
        ("print('[1, 2]', flush=True)", "Expected `object`"),
        (r"sys.stdout.buffer.write(b'{\"message\": \"failed\", \"reason\": \"\xff\"}\n'); sys.stdout.flush()", "UTF-8"),
        ("print('{}', flush=True)", "missing required field `message`"),
        ("say('ran')", "Invalid value 'ran'"),
        ("say('started')", "answered `run` with `started`; the answer is `steps`"),
        ("say('steps', steps=[step()], mood='good')", "unknown field `mood`"),
        ("say('steps', steps=[])", "1 operation with 0 steps"),
        ("say('steps', steps=[step(), step()])", "1 operation with 2 steps"),
        ("say('steps', steps=[{'answer': {'result': 'one'}}])", "allocate returned .*Expected `array`, got `str`"),
        ("say('steps', steps=[{'answer': {'result': [True]}}])", r"Expected `int`, got `bool` - at `\$\[0\]`"),
        ("say('steps', steps=[{'answer': {}}])", "allocate returned 'null'"),
        ("say('steps', steps=[{'answer': {'error': 7}}])", "Expected `str . null`, got `int`"),
        ("say('steps', steps=[{'answer': {'result': [1]}, 'seen': {}}])", "observation, and none was asked for"),
        ("say('steps', steps=[{'answer': {'result': [1]}, 'events': []}])", "observation, and none was asked for"),
        ("say('failed', reason='no GPU left')", "reports at `run`: no GPU left"),
        ("sys.exit(3)", "it ended with exit code 3"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "it was killed by signal 9"),
        ("sys.stdout.write('{\"mess'); sys.exit(0)", "exit code 0 after '{\"mess'"),
        ("raise RuntimeError('the pool is torn')", "(?s)exit code 1.*ends with:.*RuntimeError: the pool is torn"),
        ("os.close(1); time.sleep(60)", "it closed its standard output, but goes on running"),
        (
            "deep = '[' * 10**5 + ']' * 10**5; print('{\"message\": ' + deep + '}', flush=True)",
            "that is nested too deeply",
        ),
        (
            "line = json.dumps({'message': 'steps', 'steps': [step()]}) + chr(10); os.write(1, 2 * line.encode())",
            "more than one line",
        ),
    ],
)
def test_whatever_is_no_answer_is_an_error_that_says_what_it_was(adapter: Open, run: str, said: str) -> None:
    backend = adapter(f"def run(request):\n    {run}")
    assert re.search(said, failure(backend))


def test_a_line_that_nobody_asked_for_is_noticed_at_the_next_request(adapter: Open, tmp_path: Path) -> None:
    there, taken = tmp_path / "there", tmp_path / "taken"
    wait = f"    while not os.path.exists({str(taken)!r}): time.sleep(0.01)\n"
    told = f"    say('steps', steps=[])\n    open({str(there)!r}, 'w').close()"
    backend = adapter(f"def run(request):\n    say('steps', steps=[step()])\n{wait}{told}")
    backend.start(CONFIG)
    backend.run(ONE, observe=False)
    taken.touch()
    while not there.exists():
        time.sleep(0.01)
    with pytest.raises(AdapterError, match="a line that nobody asked for"):
        backend.run(ONE, observe=False)


@pytest.mark.parametrize(
    ("run", "said"),
    [
        ("time.sleep(60)", "no answer to `run` in 0.2 s: it has written nothing"),
        ("sys.stdout.write('{\"message\"'); sys.stdout.flush(); time.sleep(60)", "did not end it"),
        ("[sys.stderr.write('x' * 999) for _ in iter(int, 1)]", "in 0.2 s"),
    ],
)
def test_a_late_answer_is_not_waited_for(adapter: Open, run: str, said: str) -> None:
    assert said in failure(adapter(f"def run(request):\n    {run}", timeout_s=0.2))


def test_an_adapter_that_does_not_read_is_not_waited_for(adapter: Open) -> None:
    backend = adapter("def start(request):\n    say('started')\n    time.sleep(60)", timeout_s=0.3)
    long = AddRequest("r", tuple(range(2**18)))
    assert "bytes of the request at most" in failure(backend, (long,))


def test_a_line_without_an_end_is_cut_off(adapter: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "LONGEST_LINE", 10_000)
    endless = "def run(request):\n    while True: sys.stdout.write('x' * 5000)"
    assert "a line of more than 10000 bytes: 'xxx" in failure(adapter(endless))


@pytest.mark.parametrize(
    ("hello", "said"),
    [
        ("sys.exit('no such device')", "(?s)no answer to `hello`: it ended with exit code 1.*no such device"),
        ("say('introduction', protocol=2, identity={'name': 'x', 'version': '1'}, capabilities=CLAIMED)", "version 2"),
        ("say('introduction', protocol=1, identity={'name': 'x'}, capabilities=CLAIMED)", "missing required field"),
        ("say('started')", "answered `hello` with `started`"),
        ("time.sleep(60)", "no answer to `hello` in 0.5 s"),
    ],
)
def test_an_adapter_that_does_not_introduce_itself_is_an_error(adapter: Open, hello: str, said: str) -> None:
    with pytest.raises(AdapterError, match=said):
        adapter(f"def hello(request):\n    {hello}", timeout_s=0.5).identify()


@pytest.mark.parametrize(
    ("claimed", "said"),
    [
        ({"levels": ["P"], "operations": ["evikt"]}, "no operation 'evikt', did you mean evict?"),
        ({"levels": ["P"], "observes": ["ref_count"]}, "no part of an observation 'ref_count', did you mean ref_cnt?"),
        ({"levels": ["P"], "hashes": ["md5"]}, "no hash contract 'md5'"),
        ({"levels": ["E"], "hashes": ["sha256"]}, "level P is missing"),
        ({"levels": []}, "levels is empty"),
        ({"levels": ["P"], "commit": []}, "commit is empty"),
        ({"levels": ["P", "S"]}, "level S needs the operations begin_step, commit, attach, rollback, finish, find"),
        ({"levels": ["P", "S"]}, 'level S needs commit "steps"'),
        ({"levels": ["P"], "most_groups": 0}, "most_groups is 0"),
        ({"levels": ["P", "E"]}, "the operation `hashes` is needed"),
        ({"levels": ["P"], "observes": ["keys"]}, "the operation `hashes` is needed"),
        ({"levels": ["P"], "operations": ["full_key"]}, "the operation `hashes` is needed"),
        ({"levels": ["P"], "speed": "high"}, "unknown field `speed`"),
        ({"levels": ["Q"]}, "Invalid enum value 'Q'"),
    ],
)
def test_claims_that_cannot_be_meant_are_an_error(adapter: Open, claimed: dict[str, object], said: str) -> None:
    with pytest.raises(AdapterError) as caught:
        adapter(f"CLAIMED = {claimed}").identify()
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("claimed", "step", "said"),
    [
        ({"levels": ["P"], "observes": ["num_free"]}, {}, "allocate came without num_free"),
        (
            {"levels": ["P"], "observes": ["num_free", "ref_cnt"]},
            {"seen": {"num_free": 1}},
            "allocate came without ref_cnt, which the capabilities claim to show",
        ),
        ({"levels": ["P", "E"], "hashes": ["sha256"]}, {}, "came without events, and level E is claimed"),
        ({"levels": ["P"]}, {"seen": {"free": 1}}, "unknown field `free`"),
    ],
)
def test_what_is_claimed_to_be_shown_must_be_shown(
    adapter: Open, claimed: dict[str, object], step: dict[str, object], said: str
) -> None:
    answer = {"answer": {"result": [1]}, **step}
    assert said in failure(adapter(f"CLAIMED = {claimed}\ndef step():\n    return {answer}"), observe=True)


@pytest.mark.parametrize("depth", [900, 10**5])
@pytest.mark.parametrize("error", [None, "OutOfBlocks"])
def test_an_answer_of_any_depth_ends_nothing_but_the_adapter(adapter: Open, depth: int, error: str | None) -> None:
    deep = f"'[' * {depth} + ']' * {depth}"
    answer = f"'{{\"result\": ' + {deep} + ', \"error\": {json.dumps(error)}}}'"
    steps = f'\'{{"message": "steps", "steps": [{{"answer": \' + {answer} + \'}}]}}\''
    backend = adapter(f"def run(request):\n    print({steps}, flush=True)")
    if depth == 900 and error:  # what comes with a refusal is nobody's
        backend.start(CONFIG)
        [step] = backend.run(ONE, observe=False)
        assert (step.answer.error, step.answer.result) == (error, None)
    else:
        assert re.search("nested too deeply|returned '\\[\\[", failure(backend))


def test_an_observation_that_was_asked_for_comes_through(adapter: Open) -> None:
    step = {"answer": {"error": "OutOfBlocks", "message": "none left"}, "seen": {"num_free": 0}, "events": []}
    backend = adapter(f"CLAIMED['observes'] = ['num_free']\ndef step():\n    return {step}")
    backend.start(CONFIG)
    [got] = backend.run(ONE, observe=True)
    assert (got.answer.error, got.answer.message, got.events) == ("OutOfBlocks", "none left", ())
    assert got.seen is not None
    assert got.seen.num_free == 0


def test_an_operation_that_returns_nothing_must_return_nothing(adapter: Open) -> None:
    assert "reset returned '[" in failure(adapter(), (Reset(),))


def test_much_standard_error_blocks_nobody(adapter: Open) -> None:
    backend = adapter("def start(request):\n    sys.stderr.write('x' * 2**20)\n    say('started')")
    backend.start(CONFIG)
    assert len(backend.run(ONE, observe=False)) == 1


def test_a_broken_adapter_stays_broken(adapter: Open) -> None:
    backend = adapter("def run(request):\n    sys.exit(3)")
    failure(backend)
    with pytest.raises(AdapterError, match="exit code 3, and is gone"):
        backend.start(CONFIG)


def test_a_closed_adapter_answers_no_more(adapter: Open) -> None:
    backend = adapter()
    backend.identify()
    backend.close()
    backend.close()
    with pytest.raises(AdapterError, match="was closed"):
        backend.start(CONFIG)


def test_close_asks_the_adapter_to_end(adapter: Open, tmp_path: Path) -> None:
    note = tmp_path / "note"
    backend = adapter(f"def stop(request):\n    open({str(note)!r}, 'w').write('ended')\n    sys.exit()")
    backend.identify()
    backend.close()
    assert note.read_text() == "ended"


HOLDS_A_LOCK = """
import threading
lock = open({lock!r}, 'w')
fcntl.flock(lock, fcntl.LOCK_EX)  # a child that inherits the file holds the lock too
if {with_child}:
    subprocess.Popen(['sleep', '600'], close_fds=False, pass_fds=(lock.fileno(),))
def stop(request):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
"""


def wait_until_nobody_holds(lock: Path) -> None:
    """Return once every process is gone that holds the lock; the test's timeout ends the wait if one never goes."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)


@pytest.mark.parametrize("with_child", [False, True])
def test_an_adapter_that_does_not_end_is_killed_with_its_children(
    adapter: Open, tmp_path: Path, with_child: bool
) -> None:
    lock = tmp_path / "lock"
    backend = adapter(HOLDS_A_LOCK.format(lock=str(lock), with_child=with_child))
    backend.identify()
    with lock.open("w") as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    backend.close()
    wait_until_nobody_holds(lock)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Where the tests were started in the background, Python has been told to ignore an interrupt."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_the_adapter(adapter: Open, tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    waits = "def run(request):\n    time.sleep(600)"
    backend = adapter(HOLDS_A_LOCK.format(lock=str(lock), with_child=True) + waits)
    backend.start(CONFIG)
    here = threading.get_ident()
    threading.Timer(0.2, signal.pthread_kill, (here, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        backend.run(ONE, observe=False)
    wait_until_nobody_holds(lock)
    with pytest.raises(AdapterError, match="was interrupted"):
        backend.run(ONE, observe=False)


def test_an_adapter_that_is_forgotten_is_ended(adapter: Open, tmp_path: Path) -> None:
    lock, script = tmp_path / "lock", tmp_path / "forgotten.py"
    script.write_text(ADAPTER % HOLDS_A_LOCK.format(lock=str(lock), with_child=False))
    ProcessBackend(f"{sys.executable} -S {script}").identify()
    wait_until_nobody_holds(lock)


def test_a_command_that_cannot_be_run_is_an_error(tmp_path: Path) -> None:
    for command in (str(tmp_path / "nothing"), str(tmp_path), "", "'open"):
        with pytest.raises(AdapterError, match="cannot be started"):
            ProcessBackend(command)


def test_an_operation_that_json_cannot_hold_is_not_sent(adapter: Open) -> None:
    backend = adapter()
    backend.start(CONFIG)
    for junk in (object(), "\ud800"):
        with pytest.raises(MessageError, match="cannot be written as JSON"):
            backend.run((Evict(junk),), observe=False)  # type: ignore[arg-type]
    assert len(backend.run(ONE, observe=False)) == 1


@pytest.fixture(scope="module")
def served() -> Iterator[ProcessBackend]:
    backend = ProcessBackend(f"{SERVE} reference")
    yield backend
    backend.close()


@pytest.mark.parametrize("seed", range(12))
def test_the_reference_in_a_process_of_its_own_does_as_the_reference(served: ProcessBackend, seed: int) -> None:
    assert drive(served, seed, 200) is None


NOISY = """
import os, sys
from kvproof.conformance.backends.reference import ReferenceBackend

class Noisy(ReferenceBackend):
    def run(self, operations, observe):
        print("print", flush=True)
        os.system("echo a child")
        os.write(1, b"a write to file 1\\n")
        assert sys.stdin.read() == "", "the requests are not the backend's to read"
        return super().run(operations, observe)

class Torn(ReferenceBackend):
    def run(self, operations, observe):
        raise RuntimeError("the pool is torn")
"""


def test_what_a_served_backend_prints_does_not_come_between_the_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    monkeypatch.chdir(tmp_path)
    backend = ProcessBackend(f"{SERVE} noisy:Noisy")
    backend.start(CONFIG)
    assert [step.answer.result for step in backend.run(ONE, observe=False)] == [(1,)]
    backend.close()


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("noisy:Torn", ("reports at `run`", "RuntimeError: the pool is torn", 'noisy.py", line')),
        ("noisy:Thorn", ("exit code 2", "did you mean Torn?")),
        ("a b", ("exit code 2", "usage")),
    ],
)
def test_a_served_backend_that_breaks_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, said: tuple[str, ...]
) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    monkeypatch.chdir(tmp_path)
    text = failure(ProcessBackend(f"{SERVE} {target}"))
    assert all(part in text for part in said), text


def test_a_server_reports_what_is_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = ProcessBackend(f"{SERVE} reference")
    backend.identify()
    monkeypatch.setattr(process, "encode", lambda message: b'{"message":"run","operations":[{"op":"fly"}]}\n')
    with pytest.raises(AdapterError, match="there is no operation 'fly'"):
        backend.run(ONE, observe=False)
    monkeypatch.undo()
    backend.close()
